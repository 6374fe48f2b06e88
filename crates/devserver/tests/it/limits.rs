//! Buckets, guards and reports over the wire.

use crate::support::{Ask, Bench, Client, guard, key, observation, resource};
use ratelimitly_core::id::RequestId;
use ratelimitly_core::key::KeyKind;
use ratelimitly_devserver::{Config, DevServer, Kind};

#[tokio::test]
async fn a_limit_holds_over_all_servers() {
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let bench = Bench::of_kind(kind, 3).await;
        let mut verdicts = Vec::new();
        for place in [0, 1, 2, 0, 1] {
            bench.client.send(bench.addr(place), &Ask::token(3)).await;
            let answer = bench.client.answer().await.unwrap();
            assert_eq!(answer.server, bench.id(place));
            verdicts.push(answer.allow);
        }
        assert_eq!(verdicts, [true, true, true, false, false], "{kind:?}");
    }
}

#[tokio::test]
async fn an_answer_tells_rate_and_deficit() {
    let bench = Bench::new(1).await;
    let granted = bench.ask(&Ask::new([], [resource("bucket", 5, 3)])).await;
    assert_eq!((granted.resources[0].actual_rate, granted.resources[0].deficit), (3, 0));
    let refused = bench.ask(&Ask::new([], [resource("bucket", 5, 3)])).await;
    assert_eq!((refused.resources[0].actual_rate, refused.resources[0].deficit), (3, 1));
    assert_eq!(refused.resources[0].bucket, resource("bucket", 5, 3).bucket);
}

#[tokio::test]
async fn a_deny_consumes_none_of_its_resources() {
    let bench = Bench::new(1).await;
    let both = Ask::new([], [resource("free", 1, 1), resource("short", 1, 2)]);
    assert!(!bench.ask(&both).await.allow);
    assert!(bench.ask(&Ask::new([], [resource("free", 1, 1)])).await.allow);
}

#[tokio::test]
async fn a_report_makes_a_guard_deny_and_the_deny_consumes_nothing() {
    let bench = Bench::new(2).await;
    let guarded = || Ask::new([guard("service", 100)], [resource("bucket", 2, 1)]);
    assert!(bench.ask(&guarded()).await.allow);
    let id = RequestId::from_random(rand::random());
    bench.client.report(bench.addr(1), id, &[observation("service", 100)]).await;
    bench
        .dev
        .wait_events(crate::support::PATIENCE, |all| all.iter().any(|e| e.kind == Kind::Report))
        .await
        .unwrap();
    let answer = bench.ask(&guarded()).await;
    assert_eq!((answer.allow, answer.guards[0].current_latency_ms), (false, 100));
    assert_eq!(answer.guards[0].guard, guard("service", 100));
    assert!(bench.ask(&Ask::new([guard("service", 101)], [resource("bucket", 2, 1)])).await.allow);
}

#[tokio::test]
async fn a_report_that_goes_to_every_server_is_one_sample() {
    let bench = Bench::new(3).await;
    let mut two_needed = observation("service", 100);
    two_needed.settings.min_sample_threshold = 2;
    let mut guarded = guard("service", 50);
    guarded.settings = two_needed.settings;
    let report = async |times: usize| {
        let id = RequestId::from_random(rand::random());
        for place in 0..3 {
            bench.client.report(bench.addr(place), id, &[two_needed]).await;
        }
        bench
            .dev
            .wait_events(crate::support::PATIENCE, |all| {
                all.iter().filter(|event| event.kind == Kind::Report).count() == times * 3
            })
            .await
            .unwrap();
    };
    report(1).await;
    assert_eq!(bench.ask(&Ask::new([guarded], [])).await.guards[0].current_latency_ms, 0);
    report(2).await;
    assert_eq!(bench.ask(&Ask::new([guarded], [])).await.guards[0].current_latency_ms, 100);
}

#[tokio::test]
async fn both_steering_flags_are_served_and_the_answer_keeps_the_port() {
    let bench = Bench::new(1).await;
    for steering_feedback in [0, 1] {
        let answer = bench.ask(&Ask { steering_feedback, ..Ask::token(100) }).await;
        assert_ne!(answer.steering_feedback, 0);
    }
}

#[tokio::test]
async fn every_key_has_buckets_of_its_own() {
    let (first, mut second) = (key(KeyKind::Aes), key(KeyKind::Cookie));
    second = ratelimitly_devserver::keygen::generate(second.kind(), 43, *second.quotas()).unwrap();
    let config = Config::default().servers(1).key(first.clone()).key(second.clone());
    let dev = DevServer::start(config).await.unwrap();
    for key in [first, second] {
        let client = Client::new(&key).await;
        client.send(dev.servers()[0].addr, &Ask::token(1)).await;
        assert!(client.answer().await.unwrap().allow);
    }
}

#[tokio::test]
async fn reset_refills_buckets_and_ends_faults() {
    use ratelimitly_devserver::{Fault, Servers};
    let bench = Bench::new(2).await;
    assert!(bench.ask(&Ask::token(1)).await.allow);
    assert!(!bench.ask(&Ask::token(1)).await.allow);
    bench.fault(Servers::All, Fault::Silent).await;
    bench.dev.reset().await.unwrap();
    assert!(bench.ask(&Ask::token(1)).await.allow);
    assert!(bench.dev.status().servers.iter().all(|server| server.up && server.faults.is_empty()));
}

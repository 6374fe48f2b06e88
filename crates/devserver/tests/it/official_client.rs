//! The official client crate against the development server: it finds the servers in the zone and takes their answers
//! for real.

use crate::support::within;
use ratelimitly::{Client, Decision, LatencyTracker, RequestPolicy, Resource};
use ratelimitly_core::key::KeyKind;
use ratelimitly_devserver::{Command, Config, DevServer, Fault, Kind, Verdict};
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);

async fn start(kind: KeyKind) -> (DevServer, Client) {
    let key = crate::support::key(kind);
    let dev = DevServer::start(Config::default().key(key.clone())).await.unwrap();
    // A unit far longer than a loaded machine needs: no test here is about timing.
    let policy = RequestPolicy::builder().unit(Duration::from_millis(600)).build().unwrap();
    let client = Client::builder(key.encode().parse().unwrap())
        .service_domain(dev.zone())
        .unwrap()
        .dns_server(dev.dns_addr())
        .request_policy(policy)
        .build()
        .await
        .unwrap();
    (dev, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_granted_up_to_the_limit_and_then_refused() {
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let (dev, client) = start(kind).await;
        let checkout = Resource::new("checkout", WINDOW, 3).unwrap();
        let mut decisions = Vec::new();
        for _ in 0..5 {
            let request = client.request().consume(&checkout, 1).unwrap();
            let response = within(request.metrics_label("GET /").unwrap().send()).await.unwrap();
            decisions.push(response.decision());
            assert_eq!(response.selected_server_id(), Some(dev.servers()[0].id), "the oldest wins");
        }
        use Decision::{Granted, Rejected};
        assert_eq!(decisions, [Granted, Granted, Granted, Rejected, Rejected], "{kind:?}");
        let event = &dev.events()[0];
        assert_eq!(event.steering_feedback, 1);
        assert_eq!(event.label_text(), "GET /");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_sees_rate_and_deficit_and_a_refusal_takes_nothing() {
    let (_dev, client) = start(KeyKind::Aes).await;
    let checkout = Resource::new("checkout", WINDOW, 5).unwrap();
    let take =
        async |tokens| within(client.request().consume(&checkout, tokens).unwrap().send()).await.unwrap();
    let first = take(3).await;
    assert_eq!(
        (first.resource_results()[0].actual_rate(), first.resource_results()[0].tokens_deficit()),
        (3, 0)
    );
    let second = take(4).await;
    assert_eq!(
        (second.resource_results()[0].actual_rate(), second.resource_results()[0].tokens_deficit()),
        (3, 2)
    );
    assert_eq!(take(2).await.decision(), Decision::Granted);
}

#[tokio::test(flavor = "multi_thread")]
async fn its_reports_make_its_guards_deny() {
    let (dev, client) = start(KeyKind::Aes).await;
    let inventory = LatencyTracker::builder("inventory")
        .sample_ttl(WINDOW)
        .max_samples(8)
        .min_samples(2)
        .build()
        .unwrap();
    let ask = async || {
        let request = client.request().guard(&inventory, Duration::from_millis(100)).unwrap();
        within(request.send()).await.unwrap()
    };
    assert_eq!(ask().await.decision(), Decision::Granted);
    for latency_ms in [150, 120] {
        within(client.report_latency(&inventory, Duration::from_millis(latency_ms))).await.unwrap();
    }
    let all_reports = |events: &[ratelimitly_devserver::Event]| {
        events.iter().filter(|event| event.kind == Kind::Report).count() == 6
    };
    dev.wait_events(crate::support::PATIENCE, all_reports).await.unwrap();
    let refused = ask().await;
    assert_eq!(refused.decision(), Decision::Rejected);
    assert_eq!(refused.guard_results()[0].current_latency(), Duration::from_millis(120));
}

#[tokio::test(flavor = "multi_thread")]
async fn its_replays_sealed_afresh_consume_once() {
    let (dev, client) = start(KeyKind::Aes).await;
    // Round 0 finds nobody who answers; the replay gets the verdict.
    dev.apply(Command::Fault { servers: Default::default(), fault: Fault::Delay { ms: 700 } }).await.unwrap();
    let checkout = Resource::new("checkout", WINDOW, 1).unwrap();
    let response = within(client.request().consume(&checkout, 1).unwrap().send()).await.unwrap();
    assert_eq!(response.decision(), Decision::Granted);
    let replayed = |events: &[ratelimitly_devserver::Event]| events.iter().any(|event| event.copy == 2);
    let events = dev.wait_events(crate::support::PATIENCE, replayed).await.unwrap();
    assert!(events.iter().all(|event| event.verdict == Some(Verdict::Allow)));
    dev.apply(Command::Clear { servers: Default::default(), faults: Vec::new() }).await.unwrap();
    let refused = within(client.request().consume(&checkout, 1).unwrap().send()).await.unwrap();
    assert_eq!(refused.resource_results()[0].actual_rate(), 1);
}

//! Every fault of a server, set at run time, seen by a client, and gone when it is cleared.
//!
//! That nothing comes is never proved by waiting: the next thing heard must be the answer to a later request.

use crate::support::{Ask, Bench, guard, resource};
use ratelimitly_core::wire::DecodeError;
use ratelimitly_devserver::{
    Command, CommandError, Config, DevServer, Fate, Fault, FaultKind, Lost, Order, Reply, Servers, Verdict,
};
use std::time::{Duration, Instant};

const EVERYONE: Servers = Servers::All;

async fn clear(bench: &Bench, kinds: impl Into<Vec<FaultKind>>) {
    bench.apply(Command::Clear { servers: EVERYONE, faults: kinds.into() }).await;
}

/// Asks without listening.
async fn send(bench: &Bench, ask: &Ask) {
    bench.client.send(bench.addr(0), ask).await;
}

#[tokio::test]
async fn a_silent_server_records_and_neither_answers_nor_consumes() {
    let bench = Bench::new(2).await;
    bench.fault(bench.id(0), Fault::Silent).await;
    send(&bench, &Ask::token(1)).await;
    let events = bench.await_fates(1, Fate::Silent).await;
    assert_eq!((events[0].server, events[0].verdict), (bench.id(0), None));
    let later = Ask::token(1);
    bench.client.send(bench.addr(1), &later).await;
    let answer = bench.client.answer().await.unwrap();
    assert_eq!((answer.id, answer.allow), (later.id, true));
    clear(&bench, [FaultKind::Silent]).await;
    assert!(!bench.ask(&Ask::token(1)).await.allow);
}

#[tokio::test]
async fn lost_requests_consume_nothing_and_lost_answers_do() {
    let bench = Bench::new(1).await;
    for (of, left) in [(Lost::Requests, true), (Lost::Answers, false)] {
        bench.fault_everywhere(Fault::Drop { probability: 1.0, of }).await;
        let lost = Ask::token(1);
        send(&bench, &lost).await;
        let of_this = |all: &[ratelimitly_devserver::Event]| {
            all.iter()
                .any(|event| event.request_id == lost.id.to_string() && event.fate == Some(Fate::Dropped))
        };
        bench.dev.wait_events(crate::support::PATIENCE, of_this).await.unwrap();
        clear(&bench, []).await;
        let later = Ask::token(1);
        let answer = bench.ask(&later).await;
        assert_eq!((answer.id, answer.allow), (later.id, left), "{of:?}");
        bench.dev.reset().await.unwrap();
    }
}

#[tokio::test]
async fn a_seed_repeats_its_losses() {
    async fn losses(seed: u64) -> Vec<bool> {
        let key = crate::support::key(ratelimitly_core::key::KeyKind::Aes);
        let config = Config { seed, ..Config::default().servers(1).key(key.clone()) };
        let bench = Bench {
            client: crate::support::Client::new(&key).await,
            dev: DevServer::start(config).await.unwrap(),
        };
        bench.fault_everywhere(Fault::Drop { probability: 0.5, of: Lost::Requests }).await;
        for sent in 1..=40 {
            send(&bench, &Ask::token(100)).await;
            bench.dev.wait_events(crate::support::PATIENCE, |all| all.len() == sent).await.unwrap();
        }
        bench.dev.events().iter().map(|event| event.fate == Some(Fate::Dropped)).collect()
    }
    let first = losses(1).await;
    assert_eq!(first, losses(1).await);
    assert_ne!(first, losses(2).await);
    assert!(first.contains(&true) && first.contains(&false));
}

#[tokio::test]
async fn a_delayed_answer_waits_and_a_later_one_overtakes_it() {
    let bench = Bench::new(2).await;
    bench.fault(bench.id(0), Fault::Delay { ms: 700 }).await;
    let asked = Instant::now();
    send(&bench, &Ask::token(9)).await;
    bench.client.send(bench.addr(1), &Ask::token(9)).await;
    assert_eq!(bench.client.answer().await.unwrap().server, bench.id(1));
    assert_eq!(bench.client.answer().await.unwrap().server, bench.id(0));
    assert!(asked.elapsed() >= Duration::from_millis(700));
}

#[tokio::test]
async fn jitter_reorders_answers() {
    let bench = Bench::new(1).await;
    bench.fault_everywhere(Fault::Jitter { ms: 400 }).await;
    let asks: Vec<Ask> = (0..12).map(|_| Ask::token(100)).collect();
    for ask in &asks {
        send(&bench, ask).await;
    }
    let mut heard = Vec::new();
    for _ in &asks {
        heard.push(bench.client.answer().await.unwrap().id);
    }
    let sent: Vec<_> = asks.iter().map(|ask| ask.id).collect();
    assert_ne!(heard, sent);
    assert!(sent.iter().all(|id| heard.contains(id)));
}

#[tokio::test]
async fn a_duplicated_answer_comes_as_often_as_asked() {
    let bench = Bench::new(1).await;
    bench.fault_everywhere(Fault::Duplicate { extra: 2 }).await;
    send(&bench, &Ask::token(9)).await;
    let first = bench.client.datagram().await;
    assert_eq!(bench.client.datagram().await, first);
    assert_eq!(bench.client.datagram().await, first);
    clear(&bench, []).await;
    let later = Ask::token(9);
    assert_eq!(bench.ask(&later).await.id, later.id);
}

#[tokio::test]
async fn wrong_authentication_fails_and_nothing_else_is_wrong() {
    use ratelimitly_core::key::KeyKind;
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let bench = Bench::of_kind(kind, 1).await;
        bench.fault_everywhere(Fault::WrongAuthentication).await;
        let ask = Ask::token(9);
        send(&bench, &ask).await;
        assert_eq!(bench.client.answer().await, Err(DecodeError::Authentication), "{kind:?}");
        clear(&bench, []).await;
        assert_eq!(bench.ask(&ask).await.id, ask.id);
    }
}

#[tokio::test]
async fn a_truncated_answer_does_not_open() {
    use ratelimitly_core::key::KeyKind;
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let bench = Bench::of_kind(kind, 1).await;
        for (bytes, length) in [(Some(50), 50), (None, bench_length(&bench).await / 2)] {
            bench.fault_everywhere(Fault::Truncated { bytes }).await;
            send(&bench, &Ask::token(9)).await;
            let mut datagram = bench.client.datagram().await;
            assert_eq!(datagram.len(), length, "{kind:?}");
            assert!(bench.client.open(&mut datagram).is_err());
        }
    }
}

async fn bench_length(bench: &Bench) -> usize {
    clear(bench, []).await;
    send(bench, &Ask::token(9)).await;
    bench.client.datagram().await.len()
}

#[tokio::test]
async fn an_answer_can_name_another_request_or_another_server() {
    let bench = Bench::new(1).await;
    bench.fault_everywhere(Fault::WrongRequestId).await;
    let ask = Ask::token(9);
    let answer = bench.ask(&ask).await;
    assert_ne!(answer.id, ask.id);
    assert_eq!(answer.server, bench.id(0));
    clear(&bench, []).await;
    bench.fault_everywhere(Fault::WrongServerId { id: 5 }).await;
    let answer = bench.ask(&ask).await;
    assert_eq!((answer.id, answer.server), (ask.id, 5));
}

#[tokio::test]
async fn results_can_be_empty_short_or_too_many() {
    let bench = Bench::new(1).await;
    let ask = Ask::new([guard("service", 50)], [resource("a", 9, 1), resource("b", 9, 1)]);
    let guards_only = Ask::new([guard("service", 50)], []);
    for (fault, counts, counts_of_guards_only) in [
        (Fault::EmptyResults, (0, 0), (0, 0)),
        (Fault::ShortResults, (1, 1), (0, 0)),
        (Fault::ExtraResults, (1, 3), (1, 1)),
    ] {
        clear(&bench, []).await;
        bench.fault_everywhere(fault.clone()).await;
        for (ask, counts) in [(&ask, counts), (&guards_only, counts_of_guards_only)] {
            let answer = bench.ask(ask).await;
            assert_eq!((answer.guards.len(), answer.resources.len()), counts, "{fault:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_a_fault_makes_too_long_is_told_and_not_sent() {
    let bench = Bench::new(1).await;
    bench.fault_everywhere(Fault::ExtraResults).await;
    let all: Vec<_> = (0..39).map(|n| resource(&format!("bucket {n}"), 9, 1)).collect();
    send(&bench, &Ask::new([], all)).await;
    bench.await_fates(1, Fate::Unsendable).await;
}

#[tokio::test]
async fn rebind_asks_for_a_new_port() {
    let bench = Bench::new(1).await;
    bench.fault_everywhere(Fault::Rebind).await;
    assert_eq!(bench.ask(&Ask::token(9)).await.steering_feedback, 0);
    clear(&bench, [FaultKind::Rebind]).await;
    assert_ne!(bench.ask(&Ask::token(9)).await.steering_feedback, 0);
}

#[tokio::test]
async fn forced_verdicts_make_servers_contradict_each_other() {
    let bench = Bench::new(2).await;
    bench.fault(bench.id(0), Fault::ForceAllow).await;
    bench.fault(bench.id(1), Fault::ForceDeny).await;
    let ask = Ask::new([guard("service", 50)], [resource("bucket", 1, 2)]);
    let mut allows = Vec::new();
    for place in 0..2 {
        bench.client.send(bench.addr(place), &ask).await;
        allows.push(bench.client.answer().await.unwrap().allow);
    }
    assert_eq!(allows, [true, false]);
    let verdicts: Vec<_> = bench.dev.events().iter().map(|event| event.verdict).collect();
    assert_eq!(verdicts, [Some(Verdict::Allow), Some(Verdict::Deny)]);
}

#[tokio::test]
async fn one_guard_and_one_resource_can_be_forced() {
    let bench = Bench::new(1).await;
    bench.fault_everywhere(Fault::Latency { guard: 1, ms: 50 }).await;
    let guarded = Ask::new([guard("a", 50), guard("b", 50)], [resource("bucket", 9, 1)]);
    let answer = bench.ask(&guarded).await;
    let latencies: Vec<_> = answer.guards.iter().map(|guard| guard.current_latency_ms).collect();
    assert_eq!((answer.allow, latencies), (false, vec![0, 50]));
    clear(&bench, [FaultKind::Latency]).await;
    bench.fault_everywhere(Fault::Deficit { resource: 1, tokens: 7 }).await;
    let answer = bench.ask(&Ask::new([], [resource("bucket", 9, 1), resource("other", 9, 1)])).await;
    let deficits: Vec<_> = answer.resources.iter().map(|resource| resource.deficit).collect();
    assert_eq!((answer.allow, deficits), (false, vec![0, 7]));
}

#[tokio::test]
async fn held_answers_leave_in_the_order_asked_for() {
    let bench = Bench::new(2).await;
    bench.fault_everywhere(Fault::Hold).await;
    let asks: Vec<Ask> = (0..4).map(|_| Ask::token(100)).collect();
    for (count, ask) in asks.iter().enumerate() {
        bench.client.send(bench.addr(count % 2), ask).await;
        bench.await_fates(count + 1, Fate::Held).await;
    }
    assert_eq!(bench.dev.status().held, 4);
    let release = async |servers, order| bench.dev.apply(Command::Release { servers, order }).await.unwrap();
    let heard = async |count: usize| {
        let mut heard = Vec::new();
        for _ in 0..count {
            let id = bench.client.answer().await.unwrap().id;
            heard.push(asks.iter().position(|ask| ask.id == id).unwrap());
        }
        heard
    };
    assert_eq!(release(EVERYONE, Order::List(vec![2])).await, Reply::Released { answers: 1 });
    assert_eq!(heard(1).await, [2]);
    assert_eq!(release(EVERYONE, Order::Reverse).await, Reply::Released { answers: 3 });
    assert_eq!(heard(3).await, [3, 1, 0]);
    assert_eq!(release(EVERYONE, Order::Fifo).await, Reply::Released { answers: 0 });
}

#[tokio::test]
async fn clearing_hold_lets_the_answers_go() {
    let bench = Bench::new(1).await;
    bench.fault_everywhere(Fault::Hold).await;
    let ask = Ask::token(9);
    send(&bench, &ask).await;
    bench.await_fates(1, Fate::Held).await;
    clear(&bench, [FaultKind::Hold]).await;
    assert_eq!(bench.client.answer().await.unwrap().id, ask.id);
    let next = Ask::token(9);
    assert_eq!(bench.ask(&next).await.id, next.id);
}

#[tokio::test]
async fn a_fault_given_at_start_is_there_from_the_first_request() {
    let key = crate::support::key(ratelimitly_core::key::KeyKind::Aes);
    let fault = Command::Fault { servers: EVERYONE, fault: Fault::ForceDeny };
    let dev = DevServer::start(Config::default().key(key.clone()).command(fault)).await.unwrap();
    let bench = Bench { client: crate::support::Client::new(&key).await, dev };
    assert!(!bench.ask(&Ask::token(9)).await.allow);
}

#[tokio::test]
async fn a_command_for_a_server_that_is_not_there_names_those_that_are() {
    let bench = Bench::new(1).await;
    let wrong = Command::Fault { servers: 5.into(), fault: Fault::Silent };
    let error = bench.dev.apply(wrong).await.unwrap_err();
    assert!(matches!(error, CommandError::UnknownServer { id: 5, .. }));
    assert!(error.to_string().contains("1015809"), "{error}");
}

//! What events tell, in memory and in the file, and what they never tell.

use crate::support::{Ask, Bench, Client, PATIENCE, guard, observation, resource};
use ratelimitly_core::id::RequestId;
use ratelimitly_core::key::KeyKind;
use ratelimitly_devserver::{AnswerSeen, Config, CountSeen, DevServer, Event, Fate, Kind, Verdict};

#[tokio::test]
async fn a_request_is_told_in_full() {
    let bench = Bench::new(1).await;
    let ask = Ask {
        label: Some(b"GET /a".to_vec()),
        steering_feedback: 1,
        ..Ask::new([guard("service", 50)], [resource("a", 9, 2), resource("b", 5, 1)])
    };
    bench.ask(&ask).await;
    let events = bench.dev.events();
    let [event] = events.as_slice() else { panic!("one event: {events:?}") };
    assert_eq!((event.seq, event.kind, event.server, event.key_id), (1, Kind::Request, bench.id(0), 42));
    assert_eq!(event.request_id, ask.id.to_string());
    assert_eq!((event.copy, event.repeat), (1, false));
    assert_eq!((event.fate, event.verdict), (Some(Fate::Answered), Some(Verdict::Allow)));
    assert_eq!((event.guard_count, event.resource_count, event.dedup_ttl_ms), (1, 2, Some(2000)));
    assert_eq!((event.steering_feedback, event.timestamp_ms), (1, 1_790_000_000_000));
    let source = bench.client.socket.local_addr().unwrap();
    assert_eq!((event.source_ip, event.source_port), (source.ip(), source.port()));
    assert_eq!(event.guards[0].tracker, guard("service", 50).tracker.to_string());
    assert_eq!((event.guards[0].threshold_ms, event.guards[0].ttl_ms), (50, 60_000));
    assert_eq!(event.resources[1].bucket, resource("b", 5, 1).bucket.to_string());
    assert_eq!((event.resources[0].tokens, event.resources[0].rate_limit), (2, 9));
    assert_eq!(event.label_text(), "GET /a");
}

#[tokio::test]
async fn the_numbers_of_the_answer_are_told() {
    let bench = Bench::new(1).await;
    let ask = || Ask::new([guard("service", 50)], [resource("a", 9, 2), resource("b", 1, 1)]);
    bench.ask(&ask()).await;
    bench.ask(&ask()).await;
    let numbers = |counts: [(u32, u16); 2]| AnswerSeen {
        latencies_ms: vec![0],
        resources: counts.map(|(count, deficit)| CountSeen { count, deficit }).into(),
    };
    let told: Vec<_> = bench.dev.events().into_iter().map(|event| event.answer).collect();
    assert_eq!(told, [Some(numbers([(2, 0), (1, 0)])), Some(numbers([(2, 0), (1, 1)]))]);
}

#[tokio::test]
async fn nonces_are_told_under_aes_only() {
    let bench = Bench::new(1).await;
    bench.ask(&Ask::token(9)).await;
    bench.ask(&Ask::token(9)).await;
    let nonces: Vec<String> = bench.dev.events().into_iter().filter_map(|event| event.nonce).collect();
    assert_eq!(nonces.len(), 2);
    assert!(nonces[0] != nonces[1] && nonces[0].len() == 24, "{nonces:?}");
    let bench = Bench::of_kind(KeyKind::Cookie, 1).await;
    bench.ask(&Ask::token(9)).await;
    assert_eq!(bench.dev.events()[0].nonce, None);
}

#[tokio::test]
async fn a_report_is_told_with_its_latencies() {
    let bench = Bench::new(1).await;
    let id = RequestId::from_random(rand::random());
    bench.client.report(bench.addr(0), id, &[observation("a", 7), observation("b", 8)]).await;
    let events = bench.dev.wait_events(PATIENCE, |all| all.len() == 1).await.unwrap();
    let event = &events[0];
    assert_eq!((event.kind, event.fate, event.verdict), (Kind::Report, None, None));
    assert_eq!(event.request_id, id.to_string());
    let latencies: Vec<u32> = event.observations.iter().map(|seen| seen.latency_ms).collect();
    assert_eq!(latencies, [7, 8]);
    assert_eq!(event.observations[0].tracker, observation("a", 7).tracker.to_string());
}

#[tokio::test]
async fn the_file_holds_the_same_events_and_no_key_material() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    // A secret whose hex would be easy to see, cookie because its bytes are in every datagram.
    let quotas = ratelimitly_devserver::keygen::default_quotas();
    let key = ratelimitly_core::key::ApiKey::new(KeyKind::Cookie, 42, [0xAB; 32], quotas).unwrap();
    let config = Config { events: Some(path.clone()), ..Config::default().servers(1).key(key.clone()) };
    let bench = Bench { dev: DevServer::start(config).await.unwrap(), client: Client::new(&key).await };
    bench.ask(&Ask::token(1)).await;
    bench.ask(&Ask::token(1)).await;
    let text = std::fs::read_to_string(&path).unwrap();
    let told: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told, bench.dev.events());
    assert_eq!(
        told.iter().map(|event| event.verdict).collect::<Vec<_>>(),
        [Some(Verdict::Allow), Some(Verdict::Deny)]
    );
    assert!(!text.to_lowercase().contains("abab"), "{text}");
    let payload = key.encode().trim_start_matches("rl-cookie1").to_string();
    assert!(!text.contains(&payload));
}

#[tokio::test]
async fn waiting_in_vain_gives_what_there_is() {
    let bench = Bench::new(1).await;
    bench.ask(&Ask::token(9)).await;
    let waited = bench.dev.wait_events(std::time::Duration::from_millis(20), |all| all.len() > 1).await;
    assert_eq!(waited.unwrap_err().len(), 1);
    bench.dev.clear_events();
    assert!(bench.dev.events().is_empty());
}

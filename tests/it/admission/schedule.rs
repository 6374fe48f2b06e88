//! A schedule of the operator's own, as the servers see it.

use crate::admission::warm;
use ratelimitly_devserver::{Event, Fault};
use ratelimitly_harness::{Dev, holds_within, http};
use std::collections::BTreeMap;
use std::time::Duration;

/// Requests that are made until one was sent in every round: a worker that the machine keeps from working for a whole
/// round leaves that round out, and rightly so.
const TRIES: usize = 5;
/// How long a datagram may take that was sent before its request ended.
const SETTLED: Duration = Duration::from_secs(2);

/// Units: rounds of 1, 2, 3 and 3, and one of listening.
const HORIZON_MS: u32 = (1 + 2 + 3 + 3 + 1) * 100;

/// Four sends, with gaps of 1, 2 and 3 units before the replays.
const LINEAR: &str = r#"
    {service}
    ratelimitly_policy custom unit=100ms replays=3 replay_gap=linear:1:1:3 final_wait_units=1
                              completion_delivery=off;
    ratelimitly_fail close;
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=all; empty_gif; }
    }
"#;

/// The datagrams of the newest admission.
fn newest(dev: &Dev) -> Vec<Event> {
    let id = dev.admissions().last().expect("there was an admission").request_id.clone();
    dev.requests().into_iter().filter(|event| event.request_id == id).collect()
}

/// For each server, the numbers of the copies that it received, in order.
fn copies(requests: &[Event]) -> BTreeMap<u64, Vec<u32>> {
    let mut copies: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for event in requests {
        copies.entry(event.server).or_default().push(event.copy);
    }
    copies
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_schedule_sends_to_every_silent_server_in_every_round() {
    let dev = Dev::with(|config| config.servers(2)).await;
    let nginx = warm(LINEAR, &dev, "close").await;
    dev.fault(Fault::Silent).await;

    for tries in 1.. {
        assert_eq!(http::get(nginx.port(), "/").await.status, 429);
        let whole = holds_within(SETTLED, || newest(&dev).len() == 2 * 4).await;
        let requests = newest(&dev);
        assert!(requests.len() <= 2 * 4, "more than four rounds: {:?}", copies(&requests));
        assert_eq!(dev.admissions().len(), tries, "replays have the request id of the first round");
        assert!(requests.iter().all(|event| event.dedup_ttl_ms == Some(HORIZON_MS)), "{requests:#?}");
        if whole {
            break;
        }
        assert!(tries < TRIES, "no request was sent in all rounds; the last: {:?}", copies(&requests));
    }

    let copies = copies(&newest(&dev));
    assert_eq!(copies.len(), 2, "{copies:?}");
    assert!(copies.values().all(|copies| *copies == [1, 2, 3, 4]), "{copies:?}");
    nginx.finish().await;
}

//! The distance to the servers: a unit that follows the round trip, and an oldest server that no longer answers.

use ratelimitly_devserver::{Command, Event, Fault, Servers};
use ratelimitly_harness::{Dev, Nginx, http};
use std::collections::HashMap;

const CONFIGURATION: &str = r#"
    {service}
    ratelimitly_policy {policy};
    ratelimitly_fail close;
    ratelimitly_zone far "bucket=far" rate=10000r/s;

    server {
        listen 127.0.0.1:{port};
        location / {
            add_header X-Server $ratelimitly_server always;
            add_header X-Time $ratelimitly_time always;
            ratelimitly zone=far;
            empty_gif;
        }
    }
"#;

/// An nginx whose worker has found the servers.
async fn warm(dev: &Dev, policy: &str) -> Nginx {
    Nginx::builder(CONFIGURATION).dev(dev).set("policy", policy).warm().await
}

/// What came of a request.
struct Answered {
    status: u16,
    /// The server that decided.
    server: Option<u64>,
    waited_ms: u64,
}

async fn get(nginx: &Nginx) -> Answered {
    let response = http::get(nginx.port(), "/").await;
    let waited = response.header("x-time").and_then(|time| time.parse::<f64>().ok()).unwrap_or(f64::NAN);
    Answered {
        status: response.status,
        server: response.header("x-server").and_then(|id| id.parse().ok()),
        waited_ms: (waited * 1_000.0).round() as u64,
    }
}

async fn ask(nginx: &Nginx, requests: usize) -> Vec<Answered> {
    let mut answered = Vec::new();
    for _ in 0..requests {
        answered.push(get(nginx).await);
    }
    answered
}

/// How many admissions were asked once, and their horizons.
fn asked_once(events: &[Event]) -> Vec<u32> {
    let mut copies: HashMap<&str, Vec<&Event>> = HashMap::new();
    events.iter().for_each(|event| copies.entry(&event.request_id).or_default().push(event));
    let once = copies.values().filter(|copies| copies.len() == 1);
    once.filter_map(|copies| copies[0].dedup_ttl_ms).collect()
}

/// 80 ms are more than the horizon of the unit that it begins with, so a fixed one of 20 ms would fail every request.
#[tokio::test(flavor = "multi_thread")]
async fn u01_a_unit_that_follows_the_round_trip_asks_a_far_server_once() {
    for policy in ["standard unit=auto max=600ms", "single_round unit=auto max=600ms"] {
        let dev = Dev::single().await;
        let nginx = warm(&dev, policy).await;
        dev.fault(Fault::Delay { ms: 80 }).await;
        // The worker has measured a near server. It fails until an answer has come that is too late.
        ask(&nginx, 20).await;
        dev.clear_events();

        let answered = ask(&nginx, 20).await;
        let denied = answered.iter().filter(|answered| answered.status != 200).count();
        assert_eq!(denied, 0, "{policy}");
        assert!(answered.iter().all(|answered| answered.waited_ms >= 79), "{policy}");
        let horizons = asked_once(&dev.requests());
        // A machine that is busy for a moment may make one of them late.
        assert!(horizons.len() >= 15, "{policy}: {} of 20 were asked once", horizons.len());
        assert!(horizons.iter().all(|horizon| *horizon > 80), "{policy}: {horizons:?}");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn u02_a_silent_oldest_server_is_passed_over_until_it_answers() {
    let dev = Dev::with(|config| config.servers(3)).await;
    let ids: Vec<u64> = dev.servers().iter().map(|server| server.id).collect();
    let oldest = ids.iter().copied().min().expect("three servers");
    let nginx = warm(&dev, "standard unit=400ms silent_after=4").await;
    let fault = Fault::Silent;
    dev.apply(Command::Fault { servers: Servers::from(oldest), fault }).await.expect("a fault");

    let answered = ask(&nginx, 10).await;
    assert!(answered.iter().all(|answered| answered.status == 200 && answered.server != Some(oldest)));
    let waited: Vec<u64> = answered.iter().map(|answered| answered.waited_ms).collect();
    assert!(waited[..4].iter().all(|ms| *ms >= 399), "one unit each: {waited:?}");
    assert!(waited[4..].iter().all(|ms| *ms < 300), "no longer waited for: {waited:?}");
    let begin = format!(
        r"\[error\].* ratelimitly: server {oldest} has left 4 requests unanswered that other servers answered"
    );
    assert_eq!(nginx.await_log_lines(&begin, 1).await.len(), 1);
    let still = dev.requests().iter().filter(|event| event.server == oldest).count();
    assert!(still >= 10, "it is still asked: {still}");

    dev.clear([]).await;
    get(&nginx).await;
    let end = format!(r"\[error\].* ratelimitly: server {oldest} answers again after \d+ requests without");
    assert_eq!(nginx.await_log_lines(&end, 1).await.len(), 1);
    assert!(ask(&nginx, 3).await.iter().all(|answered| answered.server == Some(oldest)));
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn u03_the_oldest_server_is_waited_for_without_silent_after() {
    let dev = Dev::with(|config| config.servers(2)).await;
    let oldest = dev.servers().iter().map(|server| server.id).min().expect("two servers");
    let nginx = warm(&dev, "standard unit=100ms").await;
    let fault = Fault::Silent;
    dev.apply(Command::Fault { servers: Servers::from(oldest), fault }).await.expect("a fault");

    let answered = ask(&nginx, 8).await;
    assert!(answered.iter().all(|answered| answered.waited_ms >= 99), "one unit each");
    assert!(nginx.log_lines("unanswered that other servers answered").is_empty());
    nginx.finish().await;
}

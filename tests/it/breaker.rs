//! `ratelimitly_breaker`: while servers are silent no request waits for them, a probe goes out now and then, and no client can
//! bring that about.

use crate::metrics::Samples;
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, eventually_some, http};
use std::time::{Duration, Instant};

const SITE: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=20ms;
        ratelimitly_breaker failures=3 probe={probe};
        ratelimitly_zone many "bucket=many" rate=100000r/s;
        log_format said '$status $ratelimitly_outcome $ratelimitly_failure $ratelimitly_time';
        server {
            listen 127.0.0.1:{port_metrics};
            location = /metrics { ratelimitly_metrics; }
            location = /ready { ratelimitly_ready; }
            location = /strict { ratelimitly_ready strict; }
        }
        server {
            listen 127.0.0.1:{port};
            access_log {prefix}/access.log said;
            location / { ratelimitly_fail open; ratelimitly zone=many tokens=$arg_tokens; empty_gif; }
            location /close { ratelimitly_fail close; ratelimitly_fail_status 503; ratelimitly zone=many; empty_gif; }
            location /tried { ratelimitly_fail close; ratelimitly_dry_run on; ratelimitly zone=many; empty_gif; }
        }
    }
"#;

const SILENT: &str = "the servers are silent, 3 consecutive admissions ended without an answer";
const ANSWERS: &str = "a server answers again";

/// A site whose servers answer no more, after it has found them.
async fn silent(dev: &Dev, probe: &str) -> Nginx {
    let mut nginx = Nginx::builder(SITE).dev(dev).set("probe", probe).start().await;
    nginx.allow_log("no valid answer|rebound");
    assert_eq!(ask(&nginx, "/close").await, 200);
    dev.fault(Fault::Silent).await;
    nginx
}

async fn ask(nginx: &Nginx, path: &str) -> u16 {
    let separator = if path.contains('?') { "&" } else { "?tokens=1&" };
    http::get(nginx.port(), &format!("{path}{separator}")).await.status
}

/// Asks until the breaker is open.
async fn open(nginx: &Nginx) {
    for _ in 0..3 {
        ask(nginx, "/").await;
    }
    nginx.await_log_line(SILENT).await;
}

async fn sent(nginx: &Nginx, kind: &str) -> f64 {
    Samples::of(nginx).await.get(&format!(r#"datagrams_sent_total{{kind="{kind}"}}"#))
}

#[tokio::test]
async fn b01_after_so_many_silent_admissions_no_request_waits_and_nothing_is_sent_for_it() {
    let dev = Dev::single().await;
    let nginx = silent(&dev, "2s").await;
    open(&nginx).await;
    let questions = dev.requests().len();

    for (path, status) in [("/", 200), ("/close", 503), ("/tried", 200)] {
        assert_eq!(ask(&nginx, path).await, status);
    }

    let lines = nginx.await_access_log(7).await;
    assert!(lines[1..4].iter().all(|line| line.starts_with("200 fail_open timeout 0.0")), "{lines:#?}");
    assert_eq!(lines[4], "200 fail_open breaker 0.000");
    assert_eq!(lines[5], "503 fail_close breaker 0.000");
    assert_eq!(lines[6], "200 fail_close_dry_run breaker 0.000");
    assert_eq!(dev.requests().len(), questions);
    assert_eq!(nginx.log_lines(SILENT).len(), 1);
    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

#[tokio::test]
async fn b02_service_returns_with_the_first_answer_to_a_probe() {
    let dev = Dev::single().await;
    let nginx = silent(&dev, "100ms").await;
    open(&nginx).await;
    dev.clear([FaultKind::Silent]).await;

    eventually_some(http::PATIENCE, "a verdict", async || (ask(&nginx, "/close").await == 200).then_some(()))
        .await;

    nginx.await_log_line(ANSWERS).await;
    assert!(sent(&nginx, "probe").await > 0.0, "a probe brought the answer");
    let samples = Samples::of(&nginx).await;
    assert_eq!(samples.get("breaker_open"), 0.0);
    assert_eq!(samples.get(r#"breaker_transitions_total{to="open"}"#), 1.0);
    assert_eq!(samples.get(r#"breaker_transitions_total{to="closed"}"#), 1.0);
    nginx.finish().await;
}

#[tokio::test]
async fn b03_one_probe_goes_out_an_interval_however_many_requests_come() {
    let dev = Dev::single().await;
    let nginx = silent(&dev, "200ms").await;
    open(&nginx).await;
    let since = Instant::now();

    while since.elapsed() < Duration::from_millis(900) {
        assert_eq!(ask(&nginx, "/").await, 200);
    }

    // Intervals of 200, 400 and 800 ms; a probe under `standard` is one datagram and its replay.
    let probes = sent(&nginx, "probe").await;
    assert!((1.0..=6.0).contains(&probes), "{probes} datagrams of probes");
    assert_eq!(Samples::of(&nginx).await.get("breaker_open"), 1.0);
    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

#[tokio::test]
async fn b04_what_a_client_sends_and_clients_that_leave_do_not_open_it() {
    let dev = Dev::single().await;
    let mut nginx = silent(&dev, "2s").await;
    nginx.allow_log("tokens|is not a number|invalid");
    ask(&nginx, "/").await;
    ask(&nginx, "/").await;

    for _ in 0..5 {
        assert_eq!(ask(&nginx, "/?tokens=x").await, 200);
        let before = dev.requests().len();
        let mut client = Raw::connect(nginx.port()).await.expect("nginx accepts");
        client.send(b"GET /close HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("nginx reads");
        dev.await_requests("the question", |requests| requests.len() > before).await;
        drop(client);
    }
    assert!(nginx.log_lines(SILENT).is_empty());

    ask(&nginx, "/").await;
    nginx.await_log_line(SILENT).await;
    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

#[tokio::test]
async fn b05_an_answer_in_between_begins_the_count_anew() {
    let dev = Dev::single().await;
    let nginx = silent(&dev, "2s").await;
    for _ in 0..2 {
        ask(&nginx, "/").await;
    }
    dev.clear([FaultKind::Silent]).await;
    assert_eq!(ask(&nginx, "/close").await, 200);
    dev.fault(Fault::Silent).await;

    for _ in 0..2 {
        ask(&nginx, "/").await;
    }

    assert!(nginx.log_lines(SILENT).is_empty());
    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

#[tokio::test]
async fn b06_an_open_breaker_keeps_nginx_ready_unless_strict_is_asked_for() {
    let dev = Dev::single().await;
    let nginx = silent(&dev, "2s").await;
    open(&nginx).await;

    let port = nginx.named_port("port_metrics");
    assert_eq!(http::get(port, "/ready").await.status, 200);
    let strict = http::get(port, "/strict").await;
    assert_eq!(strict.status, 503);
    assert!(strict.text().contains("1 of 1 workers have stopped waiting"), "{}", strict.text());
    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

#[tokio::test]
async fn b07_a_worker_that_leaves_does_not_wait_for_its_probe() {
    let dev = Dev::single().await;
    let mut nginx = silent(&dev, "10ms").await;
    open(&nginx).await;
    eventually_some(http::PATIENCE, "a probe", async || {
        ask(&nginx, "/").await;
        (sent(&nginx, "probe").await > 0.0).then_some(())
    })
    .await;

    nginx.reload().await;

    // The breaker was that worker's own.
    assert_eq!(ask(&nginx, "/close").await, 503);
    assert!(nginx.await_access_log(1).await.last().is_some_and(|line| line.contains("timeout")));
    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

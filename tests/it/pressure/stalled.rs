//! A worker that stood still: all that became due meanwhile is due in one event-loop iteration, ends and starts of
//! admissions mixed.

use crate::FAILURES;
use crate::pressure::{CONFIGURATION, builder_with, silence};
use ratelimitly_harness::{Dev, eventually, http};
use rustix::process::Signal;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// Longer than a horizon of 600 ms and limit_req's delay of a second together.
const STANDSTILL: Duration = Duration::from_secs(2);

/// `/delayed` lets one request a second through to the admission; nginx's own timer holds back the next.
fn with_delay() -> String {
    let zone = "limit_req_zone $server_port zone=delayed:64k rate=1r/s;";
    let location =
        "location /delayed { limit_req zone=delayed burst=9; ratelimitly zone=pressure; empty_gif; }";
    let text = CONFIGURATION.replacen("location /health", &format!("{location} location /health"), 1);
    format!("{zone}\n{text}")
}

/// The timeout of one admission and the start of the next one in the same turn: neither request may be forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_admission_ends_as_another_starts_goes_on() {
    for (fail, expected) in FAILURES {
        let dev = Dev::single().await;
        let nginx = builder_with(&with_delay(), &dev, fail).set("unit", "200ms").warm().await;
        silence(&dev).await;
        let port = nginx.port();
        let ask = |path: &'static str| tokio::spawn(async move { http::get(port, path).await.status });
        // The first takes limit_req's one place, the second waits for a second.
        let mut clients = vec![ask("/delayed")];
        dev.await_requests("the first is asked about", |seen| !seen.is_empty()).await;
        clients.push(ask("/delayed"));
        nginx.await_log_line("delaying request|limiting requests").await;
        clients.push(ask("/"));
        dev.await_requests("the third is asked about", |seen| {
            let ids: std::collections::HashSet<_> = seen.iter().map(|event| &event.request_id).collect();
            ids.len() >= 2
        })
        .await;

        let worker = nginx.worker_pid();
        nginx.signal(worker, Signal::STOP);
        let stopped = Instant::now();
        eventually(PATIENCE, "it has stood still", || stopped.elapsed() > STANDSTILL).await;
        nginx.signal(worker, Signal::CONT);

        for client in clients {
            let status = tokio::time::timeout(PATIENCE, client).await.expect("no request is forgotten");
            assert_eq!(status.expect("the client ends"), expected, "fail {fail}");
        }
        nginx.finish().await;
    }
}

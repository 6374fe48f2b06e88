//! Servers that are silent, wrong or gone, and what the failure policy makes of it.
//!
//! The unit is long, so that a slow machine changes no decision: a horizon of 1.8 s holds two rounds and the listening.

mod lines;
mod relay;
mod silent_port;

use crate::FAILURES;
use ratelimitly_devserver::{Command, Event, Fault, FaultKind, Servers};
use ratelimitly_harness::{Dev, Nginx, eventually, http};
use std::time::Duration;

const CONFIGURATION: &str = r#"
    {service}
    ratelimitly_policy standard unit={unit};
    ratelimitly_fail {fail};
    ratelimitly_zone outage "bucket=outage" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=outage; empty_gif; }
    }
"#;

/// An nginx whose worker has found the servers.
async fn warm(dev: &Dev, fail: &str) -> Nginx {
    Nginx::builder(CONFIGURATION).dev(dev).set("fail", fail).set("unit", "600ms").warm().await
}

async fn status(nginx: &Nginx) -> u16 {
    http::get(nginx.port(), "/").await.status
}

fn are_one_request(events: &[Event]) -> bool {
    events.iter().all(|event| event.request_id == events[0].request_id)
}

/// The lines about admissions that ended in a verdict, those of the warm-up included.
fn verdicts(nginx: &Nginx) -> usize {
    nginx.log_lines("ratelimitly: admission verdict=").len()
}

/// The causes of those that ended without one, the warm-up's left out.
fn failures(nginx: &Nginx, warm_up: usize) -> Vec<String> {
    let causes = nginx.log_lines("ratelimitly: admission failure=").into_iter().skip(warm_up);
    let cause = |line: String| line.split("failure=").nth(1)?.split(' ').next().map(str::to_owned);
    causes.filter_map(cause).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn o01_silence_ends_in_one_timeout_after_two_transmissions() {
    for (fail, expected) in FAILURES {
        let dev = Dev::single().await;
        let nginx = warm(&dev, fail).await;
        dev.fault(Fault::Silent).await;

        let timeout = async || {
            let before = failures(&nginx, 0).len();
            (status(&nginx).await, failures(&nginx, before))
        };
        let (ended, requests) = dev.replayed(timeout).await;

        assert_eq!(ended, (expected, vec!["timeout".to_owned()]), "fail {fail}");
        assert_eq!(requests.len(), 2, "one send and one replay: {requests:#?}");
        assert!(are_one_request(&requests));
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o02_an_outage_under_fail_close_refuses_without_a_verdict() {
    outage("close", 429, "429 -").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o03_an_outage_under_fail_open_admits_without_a_verdict() {
    outage("open", 200, "200 -").await;
}

async fn outage(fail: &str, expected: u16, logged: &str) {
    let dev = Dev::start().await;
    let nginx = warm(&dev, fail).await;
    assert_eq!(status(&nginx).await, 200);

    dev.fault(Fault::Silent).await;
    assert_eq!(status(&nginx).await, expected);

    let lines = nginx.await_access_log(2).await;
    assert!(lines[0].starts_with("200 allow "), "{lines:?}");
    assert!(lines[1].starts_with(&format!("{logged} ")), "{lines:?}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o04_the_same_worker_recovers_with_the_servers() {
    for (fail, expected) in FAILURES {
        let dev = Dev::single().await;
        let nginx = warm(&dev, fail).await;
        dev.fault(Fault::Silent).await;
        assert_eq!(status(&nginx).await, expected);
        let outage = dev.admissions();

        dev.clear([]).await;
        assert_eq!(status(&nginx).await, 200);

        let admissions = dev.admissions();
        assert_eq!(admissions.len(), outage.len() + 1, "the recovery is a request of its own");
        assert!(nginx.await_access_log(2).await[1].starts_with("200 allow "));
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o05_an_answer_of_wrong_authentication_is_none() {
    no_answer(Fault::WrongAuthentication).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o06_a_truncated_answer_is_none() {
    no_answer(Fault::Truncated { bytes: None }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o07_an_answer_to_another_request_is_none() {
    no_answer(Fault::WrongRequestId).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o07_an_answer_of_a_foreign_server_is_none() {
    no_answer(Fault::WrongServerId { id: 4711 }).await;
}

/// Answers that are dropped: the request runs into its timeout.
async fn no_answer(fault: Fault) {
    for (fail, expected) in FAILURES {
        let dev = Dev::start().await;
        let nginx = warm(&dev, fail).await;
        let (before, warm_up) = (verdicts(&nginx), failures(&nginx, 0).len());
        dev.fault(fault.clone()).await;

        assert_eq!(status(&nginx).await, expected, "fail {fail}");

        assert_eq!(verdicts(&nginx), before, "no result may be logged as valid");
        assert_eq!(failures(&nginx, warm_up), ["timeout"]);
        assert!(nginx.await_access_log(1).await[0].starts_with(&format!("{expected} - ")));
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn o08_an_answer_without_results_is_no_decision() {
    wrong_counts(Fault::EmptyResults).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o09_an_answer_that_lacks_a_result_is_no_decision() {
    wrong_counts(Fault::ShortResults).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o10_an_answer_with_a_result_too_many_is_no_decision() {
    wrong_counts(Fault::ExtraResults).await;
}

/// Authentic answers of the wrong counts, whatever they say: neither an allow nor a deny comes of them.
async fn wrong_counts(fault: Fault) {
    for (fail, expected) in FAILURES {
        for entries in [Fault::ForceAllow, Fault::ForceDeny] {
            let dev = Dev::start().await;
            let nginx = warm(&dev, fail).await;
            let (before, warm_up) = (verdicts(&nginx), failures(&nginx, 0).len());
            dev.fault(entries.clone()).await;
            dev.fault(fault.clone()).await;

            assert_eq!(status(&nginx).await, expected, "fail {fail}, {entries:?}");

            nginx.await_log_line(r"\[warn\].*another number of results").await;
            assert_eq!(failures(&nginx, warm_up), ["cardinality"]);
            assert_eq!(verdicts(&nginx), before);
            assert!(nginx.await_access_log(1).await[0].starts_with(&format!("{expected} - ")));
            nginx.finish().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_server_of_wrong_counts_hurts_nobody() {
    let dev = Dev::start().await;
    let nginx = warm(&dev, "close").await;
    let oldest = dev.servers()[0].id;
    dev.apply(Command::Fault { servers: oldest.into(), fault: Fault::EmptyResults }).await.expect("a fault");

    assert_eq!(status(&nginx).await, 200);

    assert!(nginx.await_access_log(1).await[0].starts_with("200 allow "));
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o13_a_read_takes_batches_of_64_and_leaves_the_rest_to_the_next_iteration() {
    let source = |file: &str| {
        let path = ratelimitly_harness::environment::repository().join(file);
        std::fs::read_to_string(path).expect("the source is there")
    };

    assert!(source("crates/core/src/backlog.rs").contains("pub const BATCH: usize = 64;"));
    assert!(source("src/driver/transport.rs").contains("read.datagrams + BATCH > most"));
    assert!(source("src/driver/transport.rs").contains("socket.resume_later()"));
    let connection = source("src/nginx/connection.rs");
    assert!(connection.contains("ngx_post_event(read, ptr::addr_of_mut!(ffi::ngx_posted_next_events))"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_and_restarted_within_a_request_answers_its_replay() {
    let dev = Dev::restartable(1).await;
    let nginx = warm(&dev, "close").await;
    dev.fault(Fault::Silent).await;
    let port = nginx.port();
    let waiting = tokio::spawn(async move { http::get(port, "/").await.status });
    dev.await_requests("round 0", |seen| !seen.is_empty()).await;

    dev.apply(Command::Down { servers: Servers::All }).await.expect("the server ends");
    dev.clear([FaultKind::Silent]).await;
    dev.apply(Command::Up { servers: Servers::All }).await.expect("the server starts again");

    assert_eq!(waiting.await.expect("the client ends"), 200);
    let requests = dev.requests();
    assert_eq!(requests.len(), 2);
    assert!(are_one_request(&requests));
    assert!(nginx.await_access_log(1).await[0].starts_with("200 allow "));
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_gone_are_a_timeout_and_no_transport_error() {
    for (fail, expected) in FAILURES {
        let dev = Dev::restartable(3).await;
        let nginx = warm(&dev, fail).await;
        let warm_up = failures(&nginx, 0).len();
        dev.apply(Command::Down { servers: Servers::All }).await.expect("the servers end");

        assert_eq!(status(&nginx).await, expected);
        assert_eq!(failures(&nginx, warm_up), ["timeout"]);

        dev.apply(Command::Up { servers: Servers::All }).await.expect("the servers start again");
        assert_eq!(status(&nginx).await, 200);
        assert!(nginx.await_access_log(2).await[1].starts_with("200 allow "));
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_do_not_answer_are_one_error_line() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let builder = Nginx::builder(CONFIGURATION).dev(&dev).set("fail", fail).set("unit", "20ms");
        let nginx = builder.log_level("info").warm().await;
        dev.fault(Fault::Silent).await;

        for _ in 0..3 {
            status(&nginx).await;
        }

        let line = r"\[error\].*no valid answer from any of 1 server within \d+ ms";
        nginx.await_log_line(line).await;
        nginx.await_access_log(3).await;
        assert_eq!(nginx.log_lines(line).len(), 1, "fail {fail}");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_log_does_not_grow_with_the_requests_of_an_outage() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(CONFIGURATION)
        .dev(&dev)
        .set("fail", "close")
        .set("unit", "600ms")
        .log_level("info")
        .start()
        .await;
    nginx.admits().await;
    dev.fault(Fault::EmptyResults).await;
    let ours = || nginx.log_lines("ratelimitly: ").len();
    let before = ours();

    for _ in 0..50 {
        assert_eq!(status(&nginx).await, 429);
    }

    eventually(Duration::from_secs(10), "the outage is logged", || ours() > before).await;
    // The warning about the counts, and the outage.
    assert!(ours() - before <= 2, "{:#?}", nginx.log_lines("ratelimitly: "));
    nginx.finish().await;
}

//! A location with a report and without a rule: nothing is asked, and each request is reported, as far as there is somebody
//! to tell.

use crate::reports::{arrived, attempts};
use ratelimitly_devserver::{Command, DnsFault, Member, Servers};
use ratelimitly_harness::{Dev, Nginx, eventually, http};
use std::time::Duration;

/// Longest wait for what follows within a moment.
const SOON: Duration = Duration::from_secs(10);

/// `/` has no rule; `/health` inherits nothing.
const REPORT_ONLY: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_tracker shop "service=shop";

    server {
        listen 127.0.0.1:{port};
        ratelimitly_report shop;
        location / {
            empty_gif;
            location /nested/ { empty_gif; }
        }
        location /quiet { ratelimitly_report off; empty_gif; }
        location /health { ratelimitly_report off; return 204; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g10_a_location_without_rules_reports_and_never_asks() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).warm().await;

    let response = http::get(nginx.port(), "/").await;

    assert_eq!(response.status, 200);
    arrived(&dev, 1).await;
    assert_eq!(nginx.await_access_log(1).await, ["200 - \"GET / HTTP/1.1\""]);
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 1);
    assert!(dev.requests().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn g11_reports_go_on_after_the_server_was_restarted() {
    let dev = Dev::restartable(1).await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).warm().await;
    http::get(nginx.port(), "/").await;
    arrived(&dev, 1).await;

    dev.apply(Command::Down { servers: Servers::All }).await.expect("the server is down");
    let lost = http::get(nginx.port(), "/").await;
    nginx.await_access_log(2).await; // and its report has left
    dev.apply(Command::Up { servers: Servers::All }).await.expect("the server is up");
    let response = http::get(nginx.port(), "/").await;

    assert_eq!((lost.status, response.status), (200, 200));
    arrived(&dev, 2).await;
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn g12_an_inherited_report_is_made_once() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).warm().await;

    let response = http::get(nginx.port(), "/nested/").await;

    assert_eq!(response.status, 200);
    arrived(&dev, 1).await;
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g13_off_stops_an_inherited_report() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).warm().await;

    let health = http::get(nginx.port(), "/health").await;
    let quiet = http::get(nginx.port(), "/quiet").await;

    assert_eq!((health.status, quiet.status), (204, 200));
    nginx.await_access_log(2).await;
    assert_eq!(attempts(&nginx), [""; 0]);
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn g14_a_cold_workers_first_report_does_not_delay_the_response() {
    let dev = Dev::single().await;
    dev.dns_fault(DnsFault::Silent).await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).start().await;

    // DNS never answers: a response at all is one that did not wait for it.
    let response = http::get(nginx.port(), "/").await;

    assert_eq!(response.status, 200);
    nginx.await_access_log(1).await;
    let made = attempts(&nginx);
    assert_eq!(made.len(), 1, "{made:#?}");
    assert!(made[0].contains("failure="), "{made:#?}");
    eventually(SOON, "the report started a discovery", || dev.dns_counts().srv > 0).await;
    assert!(dev.reports().is_empty());
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_a_request_of_no_time_is_reported_as_one_millisecond() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPORT_ONLY).dev(&dev).warm().await;

    // nginx reads, answers and logs each within one event-loop iteration, whose clock stands still.
    for _ in 0..5 {
        http::get(nginx.port(), "/").await;
    }

    arrived(&dev, 5).await;
    let latencies: Vec<u32> = dev.reports().iter().map(|report| report.observations[0].latency_ms).collect();
    assert_eq!(latencies, [1; 5]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn g16_a_report_that_cannot_be_sent_changes_nothing() {
    let dev = Dev::single().await;
    let id = dev.servers()[0].id;
    // The kernel refuses to send to a broadcast address, here the loopback interface's, without a socket option.
    let address = Some("127.255.255.255:9".parse().expect("an address"));
    dev.apply(Command::Members { remove: vec![id], add: vec![Member { id, address }] })
        .await
        .expect("the zone is changed");
    let mut nginx = Nginx::builder(REPORT_ONLY).dev(&dev).start().await;
    nginx.expect_log("sending to a server's address failed");
    http::get(nginx.port(), "/").await;
    nginx.await_log_line("members of .* are now").await;

    let response = http::get(nginx.port(), "/").await;

    assert_eq!(response.status, 200);
    nginx.await_log_line("sending to a server's address failed").await;
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

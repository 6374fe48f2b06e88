//! What became of a request decides whether it is reported: whether it reached admission, what was decided, and whether its
//! client was still there at the end.

use crate::reports::{arrived, attempts};
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, http};
use std::time::Duration;

const ADMITTED: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_zone calls "bucket=reports" rate=1000r/s;
    ratelimitly_tracker shop "service=shop";

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=calls; ratelimitly_report shop; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g09_a_client_that_left_before_the_verdict_is_not_reported() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(ADMITTED).dev(&dev).warm().await;
    dev.fault(Fault::Hold).await;

    let mut client = Raw::connect(nginx.port()).await.expect("connected");
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    dev.await_requests("the client's", |requests| !requests.is_empty()).await;
    client.reset().expect("reset");
    let logged = nginx.await_access_log(1).await;
    dev.clear([FaultKind::Hold]).await;

    assert_eq!(logged, ["499 - \"GET / HTTP/1.1\""]);
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    nginx.await_access_log(2).await;
    assert_eq!(attempts(&nginx).len(), 1, "only the second client's request is reported");
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 1);
}

const PANICKING: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_fault handler_panic=1;
    ratelimitly_zone calls "bucket=reports" rate=1000r/s;
    ratelimitly_tracker shop "service=shop";

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=calls; ratelimitly_report shop; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g17_an_internal_failure_is_not_reported() {
    let dev = Dev::single().await;
    let mut nginx = Nginx::builder(PANICKING).dev(&dev).fault_module().start().await;
    nginx.expect_log("injected panic in the handler");
    nginx.allow_log("panic");

    let broken = http::get(nginx.port(), "/").await;
    nginx.await_access_log(1).await;
    let after_failure = attempts(&nginx);
    // A worker that knows no server yet could not report.
    nginx.admits().await;
    let whole = http::get(nginx.port(), "/").await;

    assert_eq!((broken.status, whole.status), (500, 200));
    assert_eq!(after_failure, [""; 0]);
    arrived(&dev, 1).await;
    // The lifecycle checks' reload reads the fault again, and the first admission after it is theirs.
    nginx.configure(ADMITTED);
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 1, "the second request's");
}

/// More than all socket buffers on the way hold.
const BIG: usize = 64 << 20;

const SLOW_CLIENT: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_zone calls "bucket=reports" rate=1000r/s;
    ratelimitly_tracker shop "service=shop";

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        send_timeout 1s;
        ratelimitly zone=calls;
        ratelimitly_report shop;
    }
"#;

/// Starts to fetch a big file and reads nothing of it.
async fn stalled(nginx: &Nginx) -> Raw {
    let big = std::fs::File::create(nginx.prefix().join("html/big")).expect("a file");
    big.set_len(BIG as u64).expect("a big file");
    let mut client = Raw::connect(nginx.port()).await.expect("connected");
    client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn g17_a_client_that_stops_reading_is_not_reported() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(SLOW_CLIENT).dev(&dev).warm().await;

    let client = stalled(&nginx).await;
    let logged = nginx.await_access_log(1).await;

    assert!(logged[0].contains(" allow "), "{logged:?}");
    nginx.await_log_line("client timed out").await;
    assert_eq!(attempts(&nginx), [""; 0]);
    drop(client);
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn g17_a_client_that_breaks_the_connection_is_not_reported() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(SLOW_CLIENT).dev(&dev).warm().await;

    let client = stalled(&nginx).await;
    // The first is the warm-up's.
    nginx.await_log_lines("admission verdict=allow", 2).await;
    client.reset().expect("reset");
    let logged = nginx.await_access_log(1).await;

    assert!(logged[0].contains(" allow "), "{logged:?}");
    assert_eq!(attempts(&nginx), [""; 0]);
    nginx.finish().await;
    assert!(dev.reports().is_empty());
}

const REFUSED_EARLIER: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_zone calls "bucket=reports" rate=1000r/s;
    ratelimitly_tracker shop "service=shop";
    limit_req_zone $server_addr zone=one:64k rate=1r/m;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=calls;
        ratelimitly_report shop;
        location = /limited { limit_req zone=one; empty_gif; }
        location = /private {
            auth_basic "private";
            auth_basic_user_file {prefix}/html/none;
            empty_gif;
        }
        location = /returned { return 200 "done\n"; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g18_a_request_that_never_reaches_admission_is_not_reported() {
    let dev = Dev::single().await;
    let mut nginx = Nginx::builder(REFUSED_EARLIER).dev(&dev).start().await;
    nginx.allow_log("limiting requests");
    nginx.admits().await;
    assert_eq!(http::get(nginx.port(), "/limited").await.status, 200, "the first in a minute");
    nginx.await_access_log(1).await;
    assert_eq!(attempts(&nginx).len(), 1, "it reached admission and is reported");

    let mut statuses = Vec::new();
    for path in ["/limited", "/private", "/returned"] {
        statuses.push(http::get(nginx.port(), path).await.status);
    }

    assert_eq!(statuses, [503, 401, 200]);
    nginx.await_access_log(4).await;
    assert_eq!(attempts(&nginx).len(), 1);
    nginx.finish().await;
    assert_eq!((dev.admissions().len(), dev.reports().len()), (1, 1));
}

const FAILING_UPSTREAM: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_zone calls "bucket=reports" rate=1000r/s;
    ratelimitly_tracker shop "service=shop";

    server {
        listen 127.0.0.1:{port};
        location / {
            ratelimitly zone=calls;
            ratelimitly_report shop;
            proxy_pass http://{upstream};
            location /late { proxy_pass http://{upstream}; proxy_read_timeout 1s; }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn g19_an_upstreams_failure_after_an_allow_is_reported() {
    let dev = Dev::single().await;
    let upstream = Upstream::start(|seen| match seen.target.as_str() {
        "/late" => Answer::Late(Duration::from_secs(60), 200, "too late".into()),
        _ => Answer::Close,
    })
    .await;
    let mut nginx =
        Nginx::builder(FAILING_UPSTREAM).dev(&dev).set("upstream", upstream.address()).start().await;
    nginx.allow_log("upstream (prematurely closed|timed out)");

    let closed = http::get(nginx.port(), "/closed").await;
    arrived(&dev, 1).await;
    let late = http::get(nginx.port(), "/late").await;
    arrived(&dev, 2).await;

    assert_eq!((closed.status, late.status), (502, 504));
    assert_eq!(
        nginx.await_access_log(2).await,
        ["502 allow \"GET /closed HTTP/1.1\"", "504 allow \"GET /late HTTP/1.1\""]
    );
    assert!(dev.reports()[1].observations[0].latency_ms >= 900, "the wait for the upstream is part of it");
    nginx.finish().await;
    assert_eq!(dev.reports().len(), 2);
}

//! The keepalive race: nginx sends a request on an idle connection that the application is just closing. Whatever nginx
//! makes of it, it is one request with one admission and one report. `ci/lab keepalive` shows how often it happens.

use crate::POLICIES;
use bytes::Bytes;
use ratelimitly_harness::app::{App, Idle, waves};
use ratelimitly_harness::http::Request;
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, eventually_some, http, log};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// How long the application keeps an idle connection where it is to meet nginx's next request.
const IDLE: Duration = Duration::from_secs(1);
/// Where nginx is to be the first to close: the difference is what a slow machine may lose.
const LONG_IDLE: Duration = Duration::from_secs(2);

const KEPT: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker app "service=app";
    log_format upstream '$request_method $status "$upstream_status" $ratelimitly_verdict';
    upstream app { server {app}; keepalive 32; {keepalive_timeout} }

    server {
        listen 127.0.0.1:{port};
        access_log {prefix}/upstream.log upstream;
        location / {
            ratelimitly zone=all;
            ratelimitly_report app;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_next_upstream error timeout {next};
            proxy_pass http://app;
        }
    }
"#;

struct Kept<'a> {
    fail: &'a str,
    keepalive_timeout: &'a str,
    next: &'a str,
}

impl Kept<'_> {
    async fn start(&self, dev: &Dev, app: std::net::SocketAddr) -> Nginx {
        let builder = Nginx::builder(KEPT).dev(dev).set("fail", self.fail).set("app", app);
        let builder = builder.set("keepalive_timeout", self.keepalive_timeout).set("next", self.next);
        let mut nginx = builder.start().await;
        nginx.allow_open_files(32);
        nginx.admits().await;
        nginx
    }
}

const PLAIN: Kept<'_> = Kept { fail: "open", keepalive_timeout: "", next: "" };

/// Answers the first request and closes the connection on the second without an answer, which is what nginx sees of
/// an idle connection that was closed at the moment when it was used. All later requests are answered.
async fn races_once() -> Upstream {
    let count = AtomicUsize::new(0);
    Upstream::start(move |_| match count.fetch_add(1, SeqCst) {
        1 => Answer::Close,
        _ => Answer::ok("done"),
    })
    .await
}

async fn send(port: u16, method: &str) -> u16 {
    let body = if method == "POST" { "order" } else { "" };
    let request = Request::builder().method(method).uri("/").header("connection", "close");
    let request = request.body(Bytes::from_static(body.as_bytes()));
    http::send(port, request.expect("a request")).await.expect("a response").status
}

/// The lines `<method> <status> "<upstream statuses>" <verdict>`, once there are so many.
async fn lines(nginx: &Nginx, count: usize) -> Vec<String> {
    let file = nginx.prefix().join("upstream.log");
    eventually_some(Duration::from_secs(10), format!("{count} lines"), async || {
        Some(log::lines(&file)).filter(|lines| lines.len() >= count)
    })
    .await
}

/// Expects so many admissions and reports, each with a request of its own, and none that was sent twice.
async fn one_each(dev: &Dev, nginx: &Nginx, count: usize) {
    dev.await_reports("a report for each", |reports| reports.len() >= count).await;
    nginx.admits().await;
    assert_eq!(dev.admissions().len(), count, "admissions");
    assert_eq!(dev.distinct_reports().len(), count, "reports");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_get_that_nginx_retried_has_one_admission_and_one_report() {
    for fail in POLICIES {
        let (dev, app) = (Dev::single().await, races_once().await);
        let nginx = Kept { fail, ..PLAIN }.start(&dev, app.address()).await;

        assert_eq!(send(nginx.port(), "GET").await, 200);
        assert_eq!(send(nginx.port(), "GET").await, 200, "the client sees nothing of the race");

        let expected = ["GET 200 \"200\" allow", "GET 200 \"502, 200\" allow"];
        assert_eq!(lines(&nginx, 2).await, expected);
        one_each(&dev, &nginx, 2).await;
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_that_met_the_race_failed_after_an_allow_and_is_reported() {
    for fail in POLICIES {
        let (dev, app) = (Dev::single().await, races_once().await);
        let nginx = Kept { fail, ..PLAIN }.start(&dev, app.address()).await;

        assert_eq!(send(nginx.port(), "GET").await, 200);
        assert_eq!(send(nginx.port(), "POST").await, 502);

        let expected = ["GET 200 \"200\" allow", "POST 502 \"502\" allow"];
        assert_eq!(lines(&nginx, 2).await, expected);
        one_each(&dev, &nginx, 2).await;
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_refunded_after_the_race() {
    // Two tokens: the request that failed has used its own up.
    let (dev, app) = (Dev::single().await, races_once().await);
    let text = KEPT.replace("rate=1000r/s", "rate=2r/1h");
    let builder = Nginx::builder(&text).dev(&dev).set("fail", "close").set("app", app.address());
    let mut nginx = builder.set("keepalive_timeout", "").set("next", "").start().await;
    nginx.allow_open_files(32);
    nginx.admits().await;

    let mut statuses = Vec::new();
    for method in ["GET", "POST", "GET"] {
        statuses.push(send(nginx.port(), method).await);
    }

    assert_eq!(statuses, [200, 502, 429]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retried_post_works_twice_and_is_admitted_once() {
    for fail in POLICIES {
        let (dev, app) = (Dev::single().await, races_once().await);
        let nginx = Kept { fail, next: "non_idempotent", ..PLAIN }.start(&dev, app.address()).await;

        assert_eq!(send(nginx.port(), "GET").await, 200);
        assert_eq!(send(nginx.port(), "POST").await, 200);

        assert_eq!(lines(&nginx, 2).await[1], "POST 200 \"502, 200\" allow");
        let orders = app.seen().into_iter().filter(|seen| seen.body.as_ref() == b"order");
        assert_eq!(orders.count(), 2, "the application got the order twice");
        one_each(&dev, &nginx, 2).await;
        nginx.finish().await;
    }
}

/// An application that closes a connection once it was idle for so long.
async fn closes_after(idle: Duration) -> App {
    App::start(Idle { after: idle, late: Duration::ZERO }).await
}

/// Sends waves around the moments when `idle` is over, expects an answer to each request and gives their number.
async fn wave_after_wave(nginx: &Nginx, idle: Duration, count: u32) -> usize {
    let statuses = waves(nginx.port(), idle, count, 20).await;
    assert!(statuses.iter().all(Option::is_some), "a request without an answer: {statuses:?}");
    statuses.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_the_race_does_each_request_is_admitted_and_reported_once() {
    let (dev, app) = (Dev::single().await, closes_after(IDLE).await);
    let nginx = PLAIN.start(&dev, app.address()).await;

    let count = wave_after_wave(&nginx, IDLE, 4).await;

    for line in lines(&nginx, count).await {
        // nginx tries kept connections one after the other: a GET may meet the race at several of them.
        let ended = if line.starts_with("GET") { line.replace("502, ", "") } else { line.clone() };
        let good = ["GET 200 \"200\" allow", "POST 200 \"200\" allow", "POST 502 \"502\" allow"];
        assert!(good.contains(&ended.as_str()), "{line}");
    }
    one_each(&dev, &nginx, count).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_fails_where_nginx_is_the_first_to_close() {
    let (dev, app) = (Dev::single().await, closes_after(LONG_IDLE).await);
    let kept = Kept { keepalive_timeout: "keepalive_timeout 500ms;", ..PLAIN };
    let nginx = kept.start(&dev, app.address()).await;

    let count = wave_after_wave(&nginx, LONG_IDLE, 3).await;

    let failed: Vec<String> =
        lines(&nginx, count).await.into_iter().filter(|line| !line.contains("200 \"200\" allow")).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(app.worked(), count);
    one_each(&dev, &nginx, count).await;
    nginx.finish().await;
}

//! Clients that nginx gives up in the middle of something: a request that something blocked keeps in memory after its client
//! has gone, and a worker that closes connections because it has run out of them.

use crate::hostile::reset;
use ratelimitly_devserver::Fault;
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, eventually, eventually_some, http};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The mirror's subrequest waits for the lock of a cache entry, and keeps the request's memory meanwhile.
const LOCKED: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1900ms;
    ratelimitly_fail {fail};
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    proxy_cache_path {prefix}/cache keys_zone=cache:1m;

    server {
        listen 127.0.0.1:{port};
        location / { mirror /mirror; ratelimitly zone=all; empty_gif; }
        location = /mirror {
            internal;
            proxy_pass http://{upstream};
            proxy_cache cache;
            proxy_cache_key one;
            proxy_cache_valid 200 1m;
            proxy_cache_lock on;
            proxy_cache_lock_timeout 60s;
            proxy_cache_lock_age 60s;
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_request_given_up_while_a_subrequest_is_blocked_gets_no_decision() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        // The first mirror holds the lock while the second request comes and goes.
        let gate = Arc::new(Notify::new());
        let (gated, is_first) = (Arc::clone(&gate), AtomicBool::new(true));
        let upstream = Upstream::start(move |_| match is_first.swap(false, Ordering::Relaxed) {
            true => Answer::When(Arc::clone(&gated), 200, "late".into()),
            false => Answer::ok("late"),
        })
        .await;
        let builder = Nginx::builder(LOCKED).dev(&dev).set("fail", fail).set("upstream", upstream.address());
        let nginx = builder.warm().await;
        let seen = dev.admissions().len();
        let first = tokio::spawn(http::get(nginx.port(), "/first"));
        eventually(Duration::from_secs(10), "the first mirror holds the lock", || upstream.seen().len() == 1)
            .await;
        dev.fault(Fault::Hold).await;
        let mut second = Raw::connect(nginx.port()).await.expect("nginx accepts");
        second.send("GET /second HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("nginx reads");
        dev.await_requests("both are asked about", |events| events.len() > seen + 1).await;

        reset(vec![second]);
        dev.clear([]).await;
        nginx.admits().await; // the second one's answer has come before this one's
        gate.notify_one();

        assert_eq!(first.await.expect("a response").status, 200);
        let lines = nginx.await_access_log(2).await;
        assert!(lines.iter().any(|line| line.starts_with("499 - ")), "no verdict and no content: {lines:#?}");
        nginx.finish().await;
    }
}

/// Connections in lingering close are those that nginx closes when it needs one. Nothing is asked of the servers, so the worker
/// is cold when the first of them reports.
const LINGERING: &str = r#"
    events { worker_connections 32; }
    http {
        {service}
        ratelimitly_zone all "bucket=all" rate=1000r/s;
        ratelimitly_tracker all "service=all";
        lingering_close always;
        lingering_time 60s;
        lingering_timeout 30s;

        server {
            listen 127.0.0.1:{port};
            location / { ratelimitly zone=all; empty_gif; }
            location /report { ratelimitly_report all; empty_gif; }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_has_run_out_of_connections_ends_each_request_once() {
    let dev = Dev::single().await;
    let mut nginx = Nginx::builder(LINGERING).dev(&dev).start().await;
    nginx.allow_open_files(32);
    nginx.expect_log("worker_connections");

    let mut clients = Vec::new();
    for _ in 0..38 {
        let mut client = Raw::connect(nginx.port()).await.expect("nginx accepts");
        client
            .send("GET /report HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await
            .expect("nginx reads");
        assert_eq!(client.response().await.expect("an answer").status, 200);
        clients.push(client);
    }

    nginx.await_log_line("worker_connections").await;
    drop(clients);
    // A request that comes before the worker has noticed that the others have gone may be closed unanswered.
    let answered = async || http::try_get(nginx.port(), "/").await.ok().map(|response| response.status);
    let status = eventually_some(Duration::from_secs(10), "an answer", answered).await;
    assert_eq!(status, 200);
    nginx.finish().await; // which would find nginx's alert about the request's count
}

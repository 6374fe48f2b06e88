//! nginx's own limits in front: what they refuse never reaches a server.

use crate::POLICIES;
use crate::routing::{settled, warm};
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, eventually, http};
use rustix::process::Signal;
use std::time::Duration;

const LIMIT_REQ: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    limit_req_zone $server_addr zone=rare:1m rate=1r/m;
    limit_req_zone $server_addr zone=paced:1m rate=5r/s;

    server {
        listen 127.0.0.1:{port};
        ratelimitly zone=all;
        location /rare { limit_req zone=rare; empty_gif; }
        location /paced { limit_req zone=paced burst=5; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_limit_req_refuses_is_not_asked_about() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(LIMIT_REQ, &dev, fail, &[]).await;

        assert_eq!(http::get(nginx.port(), "/rare").await.status, 200);
        assert_eq!(http::get(nginx.port(), "/rare").await.status, 503);

        let request = "\"GET /rare HTTP/1.1\"";
        let expected = [format!("200 allow {request}"), format!("503 - {request}")];
        assert_eq!(nginx.await_access_log(2).await, expected);
        settled(&dev, &nginx).await;
        assert_eq!(dev.admissions().len(), 1);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_limit_req_delays_is_asked_about_once() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(LIMIT_REQ, &dev, fail, &[]).await;

        // The worker stands still until all three are there: it finds them at the same moment.
        let worker = nginx.worker_pid();
        nginx.signal(worker, Signal::STOP);
        let mut clients = Vec::new();
        for _ in 0..3 {
            let mut client = Raw::connect(nginx.port()).await.expect("the kernel takes the connection");
            let request = "GET /paced HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            client.send(request).await.expect("the kernel takes the request");
            clients.push(client);
        }
        nginx.signal(worker, Signal::CONT);

        for mut client in clients {
            assert_eq!(client.response().await.expect("a response").status, 200);
        }
        assert!(!nginx.log_lines("delaying request").is_empty(), "no request was delayed");
        settled(&dev, &nginx).await;
        assert_eq!(dev.admissions().len(), 3);
        nginx.finish().await;
    }
}

const LIMIT_CONN: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1900ms;
    ratelimitly_fail {fail};
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    limit_conn_zone $server_addr zone=single:1m;

    server {
        listen 127.0.0.1:{port};
        location / { limit_conn single 1; ratelimitly zone=all; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_limit_conn_refuses_is_not_asked_about() {
    for fail in POLICIES {
        let dev = Dev::single().await;
        let nginx = warm(LIMIT_CONN, &dev, fail, &[]).await;
        dev.fault(Fault::Hold).await;
        let port = nginx.port();
        let waiting = tokio::spawn(async move { http::get(port, "/").await.status });
        eventually(Duration::from_secs(10), "the first request waits", || dev.status().held == 1).await;

        assert_eq!(http::get(port, "/").await.status, 503);

        dev.clear([FaultKind::Hold]).await;
        assert_eq!(waiting.await.expect("the client does not panic"), 200);
        settled(&dev, &nginx).await;
        assert_eq!(dev.admissions().len(), 1);
        // Its place is free again.
        assert_eq!(http::get(port, "/").await.status, 200);
        nginx.finish().await;
    }
}

//! HTTP/1.1: bodies, `Expect: 100-continue`, kept and pipelined connections; and workers that share nothing.
//! HTTP/2 and HTTP/3 have files of their own.

use bytes::Bytes;
use ratelimitly_devserver::{Event, Fault, FaultKind};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, Upstream, eventually, eventually_some, http};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Longest wait for what follows within a moment.
const SOON: Duration = Duration::from_secs(10);

/// The verdict comes late; the body must wait for it.
const UPLOADS: &str = r#"
    {service}
    ratelimitly_policy single_round unit=2s;
    ratelimitly_fail {fail};
    ratelimitly_zone calls "bucket=uploads" rate=1000r/s;
    client_max_body_size 2m;

    server {
        listen 127.0.0.1:{port};
        location / {
            ratelimitly zone=calls;
            proxy_request_buffering {buffering};
            proxy_http_version 1.1;
            proxy_pass http://{upstream};
        }
    }
"#;

async fn uploads(dev: &Dev, fail: &str, buffering: &str, upstream: &Upstream) -> Nginx {
    let builder = Nginx::builder(UPLOADS).dev(dev).set("fail", fail).set("buffering", buffering);
    builder.set("upstream", upstream.address()).warm().await
}

/// One mebibyte in which every place can be told from its neighbours.
fn megabyte() -> Bytes {
    (0..1 << 20).map(|place: u32| (place ^ place >> 8 ^ place >> 16) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn c31_a_body_sent_during_the_wait_arrives_whole() {
    for (fail, buffering) in [("open", "on"), ("close", "off")] {
        let dev = Dev::single().await;
        let upstream = Upstream::ok("stored").await;
        let nginx = uploads(&dev, fail, buffering, &upstream).await;
        dev.fault(Fault::Delay { ms: 200 }).await;

        let request = http::Request::post("/upload").body(megabyte()).expect("a request");
        let response = http::send(nginx.port(), request).await.expect("a response");

        assert_eq!((response.status, response.text().as_str()), (200, "stored"));
        assert!(
            upstream.seen()[0].body == megabyte(),
            "the upstream got {} bytes",
            upstream.seen()[0].body.len()
        );
        assert_eq!(nginx.await_access_log(1).await, ["200 allow \"POST /upload HTTP/1.1\""]);
        assert_eq!(dev.admissions().len(), 1);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c31_a_denied_body_is_not_waited_for() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let upstream = Upstream::ok("stored").await;
        let nginx = uploads(&dev, fail, "on", &upstream).await;
        dev.fault(Fault::Delay { ms: 200 }).await;
        dev.fault(Fault::ForceDeny).await;

        // The body never comes: a response at all is one that did not wait for it.
        let mut client = Raw::connect(nginx.port()).await.expect("connected");
        let head = "POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n";
        client.send(head).await.expect("sent");
        let response = client.response().await.expect("a response");

        assert_eq!(response.status, 429);
        assert!(upstream.seen().is_empty());
        drop(client);
        assert_eq!(nginx.await_access_log(1).await, ["429 deny \"POST /upload HTTP/1.1\""]);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_body_leaves_its_connection_usable() {
    let dev = Dev::single().await;
    let upstream = Upstream::ok("stored").await;
    let nginx = uploads(&dev, "close", "on", &upstream).await;
    dev.fault(Fault::ForceDeny).await;
    let mut client = http::Client::connect(nginx.port()).await.expect("connected");

    let request = || http::Request::post("/upload").body(megabyte()).expect("a request");
    let denied = client.send(request()).await.expect("a response");
    dev.clear([FaultKind::ForceDeny]).await;
    let allowed = client.send(request()).await.expect("a response on the same connection");

    assert_eq!((denied.status, allowed.status), (429, 200));
    assert_eq!(upstream.seen().len(), 1);
    assert!(upstream.seen()[0].body == megabyte());
    drop(client);
    nginx.finish().await;
}

const EXPECTING: &str = "POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\
                         Expect: 100-continue\r\nConnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_expects_100_gets_it_after_the_allow() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let upstream = Upstream::ok("stored").await;
        let nginx = uploads(&dev, fail, "on", &upstream).await;
        dev.fault(Fault::Delay { ms: 200 }).await;
        let mut client = Raw::connect(nginx.port()).await.expect("connected");

        client.send(EXPECTING).await.expect("sent");
        let go_on = client.response().await.expect("an interim response");
        let decided_then = nginx.log_lines("admission verdict=allow").len();
        client.send("body").await.expect("sent");
        let response = client.response().await.expect("a response");

        assert_eq!((go_on.status, response.status), (100, 200));
        assert_eq!(decided_then, 2, "the warm-up's verdict and this request's came before the 100");
        assert_eq!(&upstream.seen()[0].body[..], b"body");
        drop(client);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_expects_100_gets_the_denial_instead() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let upstream = Upstream::ok("stored").await;
        let nginx = uploads(&dev, fail, "on", &upstream).await;
        dev.fault(Fault::ForceDeny).await;
        let mut client = Raw::connect(nginx.port()).await.expect("connected");

        client.send(EXPECTING).await.expect("sent");
        let response = client.response().await.expect("a response");

        assert_eq!(response.status, 429);
        assert!(upstream.seen().is_empty());
        drop(client);
        nginx.finish().await;
    }
}

/// `/shut` has one token an hour.
const PAGES: &str = r#"
    {service}
    ratelimitly_policy single_round unit=2s;
    ratelimitly_fail {fail};
    ratelimitly_zone open "bucket=open" rate=1000r/s;
    ratelimitly_zone shut "bucket=shut" rate=1r/1h;

    server {
        listen 127.0.0.1:{port};
        ratelimitly_label "$uri";
        add_header X-Verdict $ratelimitly_verdict always;
        location /open { ratelimitly zone=open; empty_gif; }
        location /shut { ratelimitly zone=shut; empty_gif; }
        location /free { empty_gif; }
    }
"#;

async fn pages(dev: &Dev, fail: &str) -> Nginx {
    Nginx::builder(PAGES).dev(dev).set("fail", fail).warm().await
}

fn labels(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.label.as_ref().map_or("", |label| label.text.as_str())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_of_a_kept_connection_has_its_own_admission() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let nginx = pages(&dev, fail).await;
        let mut client = http::Client::connect(nginx.port()).await.expect("connected");

        let mut seen = Vec::new();
        for path in ["/shut", "/open", "/shut", "/free", "/open"] {
            let response = client.get(path).await.expect("a response on the same connection");
            seen.push((response.status, response.header("x-verdict").unwrap_or("-").to_owned()));
        }

        let expected = [(200, "allow"), (200, "allow"), (429, "deny"), (200, "-"), (200, "allow")];
        assert_eq!(seen, expected.map(|(status, verdict)| (status, verdict.to_owned())));
        assert_eq!(labels(&dev.admissions()), ["/shut", "/open", "/shut", "/open"]);
        drop(client);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pipelined_requests_are_admitted_and_answered_in_order() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let nginx = pages(&dev, fail).await;
        dev.fault(Fault::Hold).await;
        let mut client = Raw::connect(nginx.port()).await.expect("connected");
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");

        // Two requests in one segment, two more while the first waits.
        client.send(get("/shut") + &get("/shut")).await.expect("sent");
        eventually(SOON, "an answer is held", || dev.status().held == 1).await;
        client.send(get("/open") + &get("/free")).await.expect("sent");
        let asked_then = labels(&dev.admissions()).len();
        dev.clear([FaultKind::Hold]).await;
        let mut seen = Vec::new();
        for _ in 0..4 {
            let response = client.response().await.expect("a response");
            seen.push((response.status, response.header("x-verdict").unwrap_or("-").to_owned()));
        }

        assert_eq!(asked_then, 1, "the others wait for the first");
        let expected = [(200, "allow"), (429, "deny"), (200, "allow"), (200, "-")];
        assert_eq!(seen, expected.map(|(status, verdict)| (status, verdict.to_owned())));
        assert_eq!(labels(&dev.admissions()), ["/shut", "/shut", "/open"]);
        drop(client);
        nginx.finish().await;
    }
}

const TWO_WORKERS: &str = r#"
    worker_processes 2;
    http {
        {service}
        ratelimitly_policy single_round unit=2s;
        ratelimitly_fail close;
        ratelimitly_zone calls "bucket=workers" rate=100000r/s;
        ratelimitly_tracker shop "service=shop";

        server {
            listen 127.0.0.1:{port} reuseport;
            location / { ratelimitly zone=calls; ratelimitly_report shop; empty_gif; }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c32_two_workers_share_neither_socket_nor_nonce_nor_request_id() {
    let dev = Dev::single().await;
    let mut nginx = Nginx::builder(TWO_WORKERS).dev(&dev).start().await;
    let mut sent = 0;
    for _ in 0..2 {
        sent += spread(&dev, &nginx, sent).await;
        for worker in nginx.worker_pids() {
            nginx.only_udp_socket_of(worker).await;
        }
        // The second generation is forked from the same master.
        nginx.reload().await;
    }

    dev.await_reports("one a request", |reports| reports.len() == sent).await;
    let events = [dev.requests(), dev.reports()].concat();
    let nonces: HashSet<_> = events.iter().map(|event| event.nonce.clone().expect("an AES key")).collect();
    let ids: HashSet<_> = events.iter().map(|event| event.request_id.clone()).collect();
    assert_eq!((nonces.len(), ids.len()), (2 * sent, 2 * sent), "a nonce and an id for each datagram");
    nginx.finish().await;
}

/// Sends requests until two more source ports have sent twenty each; tells how many requests that took. All are allowed.
async fn spread(dev: &Dev, nginx: &Nginx, before: usize) -> usize {
    let mut sent = 0;
    let both = async || {
        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
        sent += 1;
        let mut ports: HashMap<u16, usize> = HashMap::new();
        for event in &dev.requests()[before..] {
            *ports.entry(event.source_port).or_default() += 1;
        }
        (ports.len() == 2 && ports.values().all(|count| *count >= 20)).then_some(())
    };
    eventually_some(Duration::from_secs(60), "both workers take part", both).await;
    sent
}

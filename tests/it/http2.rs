//! HTTP/2: each stream is a request of its own, with its own admission, its own verdict and its own abort.

use bytes::Bytes;
use ratelimitly_devserver::{Command, Fault, FaultKind, Order, Servers};
use ratelimitly_harness::{Dev, Nginx, Upstream, eventually, h2, http};
use std::time::Duration;

/// Longest wait for what follows within a moment.
const SOON: Duration = Duration::from_secs(10);

/// `/shut` has one token an hour.
const STREAMS: &str = r#"
    {service}
    ratelimitly_policy single_round unit=2s;
    ratelimitly_fail {fail};
    ratelimitly_zone open "bucket=open" rate=1000r/s;
    ratelimitly_zone shut "bucket=shut" rate=1r/1h;

    server {
        listen 127.0.0.1:{port} {http2};
        ratelimitly_label "$arg_n";
        add_header X-Verdict $ratelimitly_verdict always;
        location /open { ratelimitly zone=open; empty_gif; }
        location /shut { ratelimitly zone=shut; empty_gif; }
    }
"#;

/// Waits until the server keeps so many answers back.
async fn held(dev: &Dev, count: usize) {
    eventually(SOON, format!("{count} answers are held"), || dev.status().held >= count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c29_fifty_streams_of_one_connection_get_their_own_verdicts() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let nginx = Nginx::builder(STREAMS).dev(&dev).set("fail", fail).warm().await;
        let mut connection = h2::Connection::connect(nginx.port()).await.expect("connected");
        let last_token = connection.get("/shut").await.expect("sent").response().await.expect("a response");
        assert_eq!(last_token.status, 200);
        dev.clear_events();
        dev.fault(Fault::Hold).await;

        let mut streams = Vec::new();
        for n in 0..50 {
            let path = if n % 2 == 0 { "/open" } else { "/shut" };
            streams.push(connection.get(&format!("{path}?n={n}")).await.expect("sent"));
        }
        held(&dev, 50).await;
        dev.apply(Command::Release { servers: Servers::All, order: Order::Reverse })
            .await
            .expect("the answers leave, the youngest first");

        for (n, stream) in streams.into_iter().enumerate() {
            let response = stream.response().await.expect("a response");
            let expected = if n % 2 == 0 { (200, Some("allow")) } else { (429, Some("deny")) };
            assert_eq!((response.status, response.header("x-verdict")), expected, "stream {n}");
        }
        let admissions = dev.admissions();
        assert_eq!(admissions.len(), 50);
        let mut labels: Vec<u32> = admissions.iter().map(|event| label(event).parse().expect("n")).collect();
        labels.sort_unstable();
        assert_eq!(labels, (0..50).collect::<Vec<_>>());
        drop(connection);
        nginx.finish().await;
    }
}

fn label(event: &ratelimitly_devserver::Event) -> &str {
    event.label.as_ref().map_or("", |label| label.text.as_str())
}

/// One replay after a second, so that what is still in flight then shows itself.
const REPLAYING: &str = r#"
    {service}
    ratelimitly_policy custom unit=1s replays=1 replay_gap=fixed:1 final_wait_units=0
                              completion_delivery=off;
    ratelimitly_fail {fail};
    ratelimitly_zone open "bucket=open" rate=1000r/s;

    server {
        listen 127.0.0.1:{port} {http2};
        ratelimitly_label "$arg_n";
        location /open { ratelimitly zone=open; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c30_a_stream_reset_while_waiting_cancels_its_own_admission_only() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let nginx = Nginx::builder(REPLAYING).dev(&dev).set("fail", fail).warm().await;
        let warm_up = nginx.log_lines("ratelimitly: admission ").len();
        dev.fault(Fault::Hold).await;
        let mut connection = h2::Connection::connect(nginx.port()).await.expect("connected");
        let mut streams = Vec::new();
        for n in 0..3 {
            streams.push(connection.get(&format!("/open?n={n}")).await.expect("sent"));
        }
        dev.await_requests("all three", |requests| requests.len() >= 3).await;

        streams.remove(1).reset();
        assert_eq!(nginx.await_access_log(1).await, ["499 - \"GET /open?n=1 HTTP/2.0\""]);
        // The others go on: each is sent once more.
        held(&dev, 5).await;
        let command = Command::Clear { servers: Servers::All, faults: vec![FaultKind::Hold] };
        dev.apply(command).await.expect("the answers leave");
        for stream in streams {
            assert_eq!(stream.response().await.expect("a response").status, 200);
        }

        nginx.await_access_log(3).await;
        let replayed: Vec<_> = dev.requests().into_iter().filter(|event| event.copy > 1).collect();
        assert!(replayed.iter().all(|event| label(event) != "1"), "{replayed:#?}");
        let ended = nginx.log_lines("ratelimitly: admission ").len() - warm_up;
        assert_eq!(ended, 2, "the reset stream's admission has no end of its own");
        drop(connection);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_cancels_all_its_streams() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(REPLAYING).dev(&dev).set("fail", "close").warm().await;
    dev.fault(Fault::Hold).await;
    let mut connection = h2::Connection::connect(nginx.port()).await.expect("connected");
    let mut streams = Vec::new();
    for n in 0..20 {
        streams.push(connection.get(&format!("/open?n={n}")).await.expect("sent"));
    }
    dev.await_requests("all twenty", |requests| requests.len() >= 20).await;

    drop((streams, connection));
    let logged = nginx.await_access_log(20).await;

    assert!(logged.iter().all(|line| line.starts_with("499 - ")), "{logged:#?}");
    nginx.finish().await;
}

/// The verdict comes late; the body must wait for it.
const UPLOADS: &str = r#"
    {service}
    ratelimitly_policy single_round unit=2s;
    ratelimitly_fail {fail};
    ratelimitly_zone calls "bucket=uploads" rate=1000r/s;
    client_max_body_size 2m;

    server {
        listen 127.0.0.1:{port} {http2};
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

fn post(length: usize) -> http::Request<()> {
    let request = http::Request::post("http://localhost/upload").header("content-length", length);
    request.body(()).expect("a request")
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
        let mut connection = h2::Connection::connect(nginx.port()).await.expect("connected");

        let mut stream = connection.start(post(1 << 20), false).await.expect("sent");
        stream.send(megabyte(), true).await.expect("the body is taken");
        let response = stream.response().await.expect("a response");

        assert_eq!((response.status, response.text().as_str()), (200, "stored"));
        assert!(
            upstream.seen()[0].body == megabyte(),
            "the upstream got {} bytes",
            upstream.seen()[0].body.len()
        );
        assert_eq!(nginx.await_access_log(1).await, ["200 allow \"POST /upload HTTP/2.0\""]);
        assert_eq!(dev.admissions().len(), 1);
        drop(connection);
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
        let mut connection = h2::Connection::connect(nginx.port()).await.expect("connected");

        // The body never comes: a response at all is one that did not wait for it.
        let stream = connection.start(post(1 << 20), false).await.expect("sent");
        let response = stream.response().await.expect("a response");

        assert_eq!(response.status, 429);
        eventually(SOON, "the denied request is logged", || {
            nginx.access_log() == ["429 deny \"POST /upload HTTP/2.0\""]
        })
        .await;
        assert!(upstream.seen().is_empty());
        drop(connection);
        nginx.finish().await;
    }
}

//! What docs/install.md tells an operator to know before the first reload: nginx's own ways that look odd beside a rule.

use crate::routing::warm;
use bytes::Bytes;
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::http::Request;
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, eventually, http};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

const PAGES: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        location /named { error_page 429 @limit; }
        location /by_path { error_page 429 /limit.html; }
        location @limit { try_files /limit.html =500; }
    }
"#;

const PROXIED: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1900ms;
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    server {
        listen 127.0.0.1:{port};
        ratelimitly zone=all;
        location / { proxy_pass http://{upstream}; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_post_gets_405_from_a_static_page_in_a_named_location_only() {
    let dev = Dev::start().await;
    let nginx = warm(PAGES, &dev, "open", &[("limit.html", "slow down")]).await;
    dev.fault(Fault::ForceDeny).await;

    for (path, status) in [("/named", 405), ("/by_path", 429)] {
        let request = Request::post(path).header("host", "test").body(Bytes::new()).expect("a request");
        let response = http::send(nginx.port(), request).await.expect("a response");
        assert_eq!(response.status, status, "{path}");
    }
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_closes_its_sending_half_while_it_waits_is_logged_with_499() {
    let (dev, upstream) = (Dev::single().await, Upstream::ok("done").await);
    let nginx = proxied(&dev, &upstream).await;
    dev.fault(Fault::Hold).await;

    let mut client = asking(&nginx).await;
    dev.await_requests("it is asked about", |seen| !seen.is_empty()).await;
    client.shutdown().await.expect("the sending half can be closed");

    assert_eq!(nginx.await_access_log(1).await, ["499 - \"GET / HTTP/1.1\""]);
    dev.clear([FaultKind::Hold]).await;
    assert!(upstream.seen().is_empty());
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_after_its_verdict_is_logged_with_499_and_allow() {
    let gate = Arc::new(Notify::new());
    let held = Arc::clone(&gate);
    let upstream = Upstream::start(move |_| Answer::When(Arc::clone(&held), 200, "done".into())).await;
    let dev = Dev::single().await;
    let nginx = proxied(&dev, &upstream).await;

    let client = asking(&nginx).await;
    eventually(Duration::from_secs(20), "the upstream works", || upstream.seen().len() == 1).await;
    drop(client);

    assert_eq!(nginx.await_access_log(1).await, ["499 allow \"GET / HTTP/1.1\""]);
    gate.notify_one();
    nginx.finish().await;
}

async fn proxied(dev: &Dev, upstream: &Upstream) -> Nginx {
    Nginx::builder(PROXIED).dev(dev).set("upstream", upstream.address()).warm().await
}

/// A client that has sent its request.
async fn asking(nginx: &Nginx) -> TcpStream {
    let mut client = TcpStream::connect(("127.0.0.1", nginx.port())).await.expect("nginx listens");
    client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.expect("it takes a request");
    client
}

//! What content handlers do after the admission: server-side includes, upstream retries, `HEAD`.

use crate::POLICIES;
use crate::routing::{labels, settled, warm};
use bytes::Bytes;
use ratelimitly_devserver::Fault;
use ratelimitly_harness::http::Request;
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, http};
use std::time::Duration;
use tokio::time::timeout;

const INCLUDES: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    default_type text/html;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ssi on;
        ratelimitly zone=all;
        ratelimitly_label $uri;
    }
"#;

/// A page, and two parts of it; the second part includes a third.
const PARTS: [(&str, &str); 4] = [
    ("page", "<!--# include virtual=\"/first\" -->, <!--# include virtual=\"/second\" -->!"),
    ("first", "one"),
    ("second", "two <!--# include virtual=\"/third\" -->"),
    ("third", "<!--# echo var=\"ratelimitly_verdict\" -->"),
];

#[tokio::test(flavor = "multi_thread")]
async fn c15_subrequests_of_resumed_content_run_without_the_client() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(INCLUDES, &dev, fail, &PARTS).await;

        // Subrequests that wait for the client's next move would wait for ever: it makes none.
        let response = timeout(Duration::from_secs(20), http::get(nginx.port(), "/page")).await;

        let response = response.expect("the subrequests run at once");
        assert_eq!((response.status, response.text().as_str()), (200, "one, two allow!"));
        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["/page"], "subrequests are not admitted");
        nginx.finish().await;
    }
}

const TWO_UPSTREAMS: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker app "service=app";
    upstream app { server {first}; server {second}; }

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=all; ratelimitly_report app; proxy_pass http://app; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c26_an_upstream_retry_is_the_same_admission() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let first = Upstream::start(|_| Answer::Close).await;
        let second = Upstream::ok("from the second").await;
        let builder = Nginx::builder(TWO_UPSTREAMS).dev(&dev).set("fail", fail);
        let builder = builder.set("first", first.address()).set("second", second.address());
        let mut nginx = builder.start().await;
        // From 1.29.7 on nginx keeps connections to the servers of an upstream block by itself.
        nginx.allow_open_files(1);
        nginx.admits().await;

        let response = http::get(nginx.port(), "/").await;

        assert_eq!((response.status, response.text().as_str()), (200, "from the second"));
        assert_eq!((first.seen().len(), second.seen().len()), (1, 1));
        assert_eq!(nginx.await_access_log(1).await, ["200 allow \"GET / HTTP/1.1\""]);
        settled(&dev, &nginx).await;
        assert_eq!(dev.admissions().len(), 1);
        assert_eq!(dev.distinct_reports().len(), 1);
        nginx.finish().await;
    }
}

const A_FILE: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $request_method;
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn head_is_admitted_like_get_and_has_no_body() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(A_FILE, &dev, fail, &[("file", "twelve bytes")]).await;

        let allowed = head(&nginx, "/file").await;
        dev.fault(Fault::ForceDeny).await;
        let denied = head(&nginx, "/file").await;

        assert_eq!((allowed.status, denied.status), (200, 429));
        assert_eq!(allowed.header("content-length"), Some("12"));
        assert!(allowed.body.is_empty() && denied.body.is_empty());
        let request = "\"HEAD /file HTTP/1.1\"";
        let expected = [format!("200 allow {request}"), format!("429 deny {request}")];
        assert_eq!(nginx.await_access_log(2).await, expected);
        assert_eq!(labels(&dev), ["HEAD", "HEAD"]);
        nginx.finish().await;
    }
}

async fn head(nginx: &Nginx, path: &str) -> http::Response {
    let request = Request::head(path).header("connection", "close").body(Bytes::new());
    http::send(nginx.port(), request.expect("a request")).await.expect("a response")
}

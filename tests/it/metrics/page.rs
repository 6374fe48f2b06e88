//! The page itself: its form under other types and charsets, and its readers, which no rule refuses.

use crate::metrics::Samples;
use bytes::Bytes;
use http::Request;
use ratelimitly_harness::{Dev, Nginx, http as client};

const SITE: &str = r#"
    http {
        {service}
        ratelimitly_zone few "bucket=few" rate=1r/1h;
        ratelimitly_zone "odd\"name" "bucket=odd" rate=1r/1h;
        ratelimitly_fail close;
        charset koi8-r;
        charset_types *;
        default_type image/png;
        types { image/png metrics; }
        server {
            listen 127.0.0.1:{port_metrics};
            ratelimitly zone=few;
            location = /metrics { ratelimitly zone=few; ratelimitly_metrics; }
        }
        server {
            listen 127.0.0.1:{port};
            location / { ratelimitly zone=few; empty_gif; }
        }
    }
"#;

async fn ask(nginx: &Nginx, request: http::request::Builder) -> client::Response {
    let request = request.uri("/metrics").body(Bytes::new()).expect("a request");
    client::send(nginx.named_port("port_metrics"), request).await.expect("a response")
}

#[tokio::test]
async fn z06_the_page_is_prometheus_text_that_no_cache_keeps() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(SITE).dev(&dev).start().await;

    let page = ask(&nginx, Request::get("/").header("accept", "application/openmetrics-text")).await;

    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    assert_eq!(page.header("accept-ranges"), None);
    assert!(page.text().ends_with("\n"), "{}", page.text());
    nginx.finish().await;
}

#[tokio::test]
async fn z07_head_tells_the_length_and_other_methods_are_refused() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(SITE).dev(&dev).start().await;

    let page = ask(&nginx, Request::get("/")).await;
    let head = ask(&nginx, Request::head("/")).await;

    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-length"), page.header("content-length"));
    assert!(head.text().is_empty(), "{}", head.text());
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(ask(&nginx, Request::builder().method(method)).await.status, 405, "{method}");
    }
    let range = ask(&nginx, Request::get("/").header("range", "bytes=0-9")).await;
    assert_eq!(range.status, 200);
    nginx.finish().await;
}

#[tokio::test]
async fn z08_a_reader_is_never_refused_and_never_counted() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(SITE).dev(&dev).start().await;

    for _ in 0..3 {
        let samples = Samples::of(&nginx).await;
        assert_eq!(samples.counted("admissions_total"), []);
    }

    assert!(dev.requests().is_empty(), "{:?}", dev.requests());
    nginx.finish().await;
}

#[tokio::test]
async fn z09_every_series_of_a_fixed_label_is_there_from_the_first_scrape_on() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(SITE).dev(&dev).start().await;

    let before = Samples::of(&nginx).await;
    assert_eq!(client::get(nginx.port(), "/").await.status, 200);
    assert_eq!(client::get(nginx.port(), "/").await.status, 429);
    let after = Samples::of(&nginx).await;

    assert!(before.0.keys().eq(after.0.keys()), "{:?} {:?}", before.0, after.0);
    assert_eq!(before.get(r#"zone_results_total{zone="odd\"name",result="pass"}"#), 0.0);
    nginx.finish().await;
}

#[tokio::test]
async fn z10_there_is_a_page_where_no_rule_is_in_effect() {
    let nginx = Nginx::builder(
        "http { server { listen 127.0.0.1:{port_metrics}; location = /metrics { ratelimitly_metrics; } } }",
    );
    let nginx = nginx.start().await;

    let samples = Samples::of(&nginx).await;

    assert_eq!(samples.get("workers"), 1.0);
    assert_eq!(samples.get("members"), 0.0);
    nginx.finish().await;
}

//! The operator's error pages, which are protected like everything else: showing one is part of the refusal or of the
//! admitted request, and never a second admission.

use crate::POLICIES;
use crate::routing::{labels, settled, warm, write};
use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Dev, Nginx, http};

const LIMIT: (&str, &str) = ("limit.html", "slow down");

const BY_URI: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker pages "service=pages";

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $uri;
        ratelimitly_report pages;
        error_page 429 /limit.html;
        location /recursive { recursive_error_pages on; }
    }
"#;

const BY_NAME: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker pages "service=pages";

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $uri;
        ratelimitly_report pages;
        error_page 429 @limit;
        location @limit { try_files /limit.html =500; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c24_a_deny_shows_its_error_page() {
    for fail in POLICIES {
        for path in ["/page", "/recursive"] {
            shows_the_page_after_a_deny(BY_URI, path, fail).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c25_a_deny_shows_the_page_of_a_named_location() {
    for fail in POLICIES {
        shows_the_page_after_a_deny(BY_NAME, "/page", fail).await;
    }
}

async fn shows_the_page_after_a_deny(text: &str, path: &str, fail: &str) {
    let dev = Dev::start().await;
    let nginx = warm(text, &dev, fail, &[LIMIT]).await;
    dev.fault(Fault::ForceDeny).await;

    let response = http::get(nginx.port(), path).await;

    assert_eq!((response.status, response.text().as_str()), (429, "slow down"));
    assert_eq!(nginx.await_access_log(1).await, [format!("429 deny \"GET {path} HTTP/1.1\"")]);
    settled(&dev, &nginx).await;
    assert_eq!(labels(&dev), [path]);
    assert!(dev.reports().is_empty(), "no work was done that could be measured");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c34_fail_close_shows_its_error_page() {
    for text in [BY_URI, BY_NAME] {
        let dev = Dev::single().await;
        let nginx = warm(text, &dev, "close", &[LIMIT]).await;
        dev.fault(Fault::Silent).await;

        let (response, _) = dev.replayed(async || http::get(nginx.port(), "/page").await).await;

        assert_eq!((response.status, response.text().as_str()), (429, "slow down"));
        let logged = nginx.await_access_log(1).await;
        assert!(logged.iter().all(|line| line == "429 - \"GET /page HTTP/1.1\""), "{logged:?}");
        settled(&dev, &nginx).await;
        assert_eq!(dev.requests().len(), 2, "the send and its replay");
        assert_eq!(dev.admissions().len(), 1);
        assert!(dev.reports().is_empty());
        nginx.finish().await;
    }
}

const PANICS: &str = r#"
    {usual}
    ratelimitly_fault handler_panic=1;
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker pages "service=pages";

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $uri;
        ratelimitly_report pages;
        error_page 500 /err.html;
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c35_an_internal_failure_shows_its_error_page() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let mut nginx = Nginx::builder(PANICS).dev(&dev).set("fail", fail).fault_module().start().await;
        write(&nginx, &[("err.html", "our fault"), ("page", "the page")]);
        nginx.expect_log(r"\[alert\] .*injected panic in the handler");
        nginx.expect_log(r"\[alert\] .*a panic was stopped in the pre-content handler");
        let worker = nginx.worker_pid();

        let response = http::get(nginx.port(), "/page").await;

        assert_eq!((response.status, response.text().as_str()), (500, "our fault"));
        assert_eq!(nginx.await_access_log(1).await, ["500 - \"GET /page HTTP/1.1\""]);
        settled(&dev, &nginx).await;
        assert!(dev.requests().is_empty(), "{:#?}", dev.requests());
        assert!(dev.reports().is_empty(), "{:#?}", dev.reports());
        // The same worker goes on.
        assert_eq!(http::get(nginx.port(), "/page").await.status, 200);
        assert_eq!(nginx.worker_pid(), worker);
        nginx.finish().await;
    }
}

const AFTER_AN_ALLOW: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker pages "service=pages";

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $uri;
        ratelimitly_report pages;
        error_page 404 /missing.html;
        error_page 502 @broken;
        location / {}
        location /app { proxy_pass http://127.0.0.1:{port_dead}; }
        location @broken { try_files /broken.html =500; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_admitted_requests_error_page_reuses_the_admission() {
    for fail in POLICIES {
        for (path, status, body) in [("/nothing", 404, "not here"), ("/app", 502, "not now")] {
            let dev = Dev::start().await;
            let files = [("missing.html", "not here"), ("broken.html", "not now")];
            let nginx = warm(AFTER_AN_ALLOW, &dev, fail, &files).await;

            let response = http::get(nginx.port(), path).await;

            assert_eq!((response.status, response.text().as_str()), (status, body));
            let expected = format!("{status} allow \"GET {path} HTTP/1.1\"");
            assert_eq!(nginx.await_access_log(1).await, [expected]);
            settled(&dev, &nginx).await;
            assert_eq!(labels(&dev), [path]);
            assert_eq!(dev.distinct_reports().len(), 1, "the application's failure is work done");
            nginx.finish().await;
        }
    }
}

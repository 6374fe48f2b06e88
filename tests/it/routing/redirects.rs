//! Internal redirects after the admission: `index`, `X-Accel-Redirect`, `post_action`. The request keeps its admission,
//! its verdict and its report wherever it goes.

use crate::POLICIES;
use crate::routing::{labels, settled, warm};
use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Dev, Upstream, eventually, http};
use std::time::Duration;

const INDEX: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        location / { ratelimitly zone=all; ratelimitly_label $uri; index page.html; }
    }
"#;

const IN_FOLDER: (&str, &str) = ("folder/page.html", "the index");

#[tokio::test(flavor = "multi_thread")]
async fn c05_index_redirect_reuses_the_admission() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(INDEX, &dev, fail, &[IN_FOLDER]).await;

        let response = http::get(nginx.port(), "/folder/").await;

        assert_eq!((response.status, response.text().as_str()), (200, "the index"));
        assert_eq!(nginx.await_access_log(1).await, ["200 allow \"GET /folder/ HTTP/1.1\""]);
        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["/folder/"]);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c07_a_deny_stops_content_before_it_redirects() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(INDEX, &dev, fail, &[IN_FOLDER]).await;
        dev.fault(Fault::ForceDeny).await;

        assert_eq!(http::get(nginx.port(), "/folder/").await.status, 429);

        assert_eq!(nginx.await_access_log(1).await, ["429 deny \"GET /folder/ HTTP/1.1\""]);
        assert!(nginx.log_lines("internal redirect").is_empty());
        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["/folder/"]);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c09_a_failure_is_not_retried_after_an_internal_redirect() {
    for (fail, status, body) in [("open", 200, Some("the index")), ("close", 429, None)] {
        let dev = Dev::single().await;
        let nginx = warm(INDEX, &dev, fail, &[IN_FOLDER]).await;
        dev.fault(Fault::Silent).await;

        let (response, _) = dev.replayed(async || http::get(nginx.port(), "/folder/").await).await;

        assert_eq!(response.status, status);
        assert!(body.is_none_or(|body| response.text() == body), "{}", response.text());
        let expected = format!("{status} - \"GET /folder/ HTTP/1.1\"");
        assert!(nginx.await_access_log(1).await.iter().all(|line| *line == expected));
        settled(&dev, &nginx).await;
        let sent: Vec<String> = dev.requests().into_iter().map(|event| event.request_id).collect();
        assert_eq!(sent.len(), 2, "the send and its replay: {sent:?}");
        assert_eq!(sent[0], sent[1]);
        nginx.finish().await;
    }
}

/// Trackers are told apart by their life.
const REPORTED: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker folders "service=folders" ttl=40s;
    ratelimitly_tracker pages "service=pages" ttl=50s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        location = /folder/ { ratelimitly_report folders; index page.html; }
        location / { ratelimitly zone=all; ratelimitly_label $uri; ratelimitly_report pages; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c38_a_report_only_location_that_redirects_to_a_protected_one() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(REPORTED, &dev, fail, &[IN_FOLDER]).await;

        let response = http::get(nginx.port(), "/folder/").await;

        assert_eq!((response.status, response.text().as_str()), (200, "the index"));
        assert_eq!(nginx.await_access_log(1).await, ["200 allow \"GET /folder/ HTTP/1.1\""]);
        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["/folder/page.html"]);
        let reported: Vec<u32> = dev
            .distinct_reports()
            .iter()
            .flat_map(|report| report.observations.iter().map(|observation| observation.ttl_ms))
            .collect();
        assert_eq!(reported, [40_000], "one report, to the tracker where the request came first");
        nginx.finish().await;
    }
}

const ACCEL: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker app "service=app";

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $uri;
        ratelimitly_report app;
        location /app { proxy_pass http://127.0.0.1:{port_app}; }
        location /files/ { internal; }
        location @files { try_files /files/page.html =404; }
    }
    server {
        listen 127.0.0.1:{port_app};
        access_log off;
        location = /app/uri { add_header X-Accel-Redirect /files/page.html; return 200; }
        location = /app/name { add_header X-Accel-Redirect @files; return 200; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn x_accel_redirect_reuses_the_admission() {
    for fail in POLICIES {
        for path in ["/app/uri", "/app/name"] {
            let dev = Dev::start().await;
            let nginx = warm(ACCEL, &dev, fail, &[("files/page.html", "the file")]).await;

            let response = http::get(nginx.port(), path).await;

            assert_eq!((response.status, response.text().as_str()), (200, "the file"));
            assert_eq!(nginx.await_access_log(1).await, [format!("200 allow \"GET {path} HTTP/1.1\"")]);
            settled(&dev, &nginx).await;
            assert_eq!(labels(&dev), [path]);
            assert_eq!(dev.distinct_reports().len(), 1);
            nginx.finish().await;
        }
    }
}

const POST_ACTION: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker app "service=app";

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $uri;
        ratelimitly_report app;
        location / { post_action @after; }
        location @after { proxy_pass http://{upstream}; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn post_action_is_part_of_the_admitted_request() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let upstream = Upstream::ok("noted").await;
        let builder = ratelimitly_harness::Nginx::builder(POST_ACTION).dev(&dev).set("fail", fail);
        let nginx = builder.set("upstream", upstream.address()).start().await;
        crate::routing::write(&nginx, &[IN_FOLDER]);
        nginx.admits().await;

        assert_eq!(http::get(nginx.port(), "/folder/page.html").await.status, 200);

        eventually(Duration::from_secs(10), "the action is done", || upstream.seen().len() == 1).await;
        nginx.await_access_log(1).await;
        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["/folder/page.html"]);
        assert_eq!(dev.distinct_reports().len(), 1);
        nginx.finish().await;
    }
}

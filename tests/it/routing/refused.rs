//! Requests that nginx refuses before the admission: their error page asks nothing, even under a rule.
//! And error pages that are content of their own, which are asked about like any other.

use crate::POLICIES;
use crate::routing::{get_with, labels, settled, warm};
use ratelimitly_devserver::Fault;
use ratelimitly_harness::http::Response;
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, http};

const USERS: (&str, &str) = ("users", "user:{PLAIN}secret\n");
const REFUSED: (&str, &str) = ("refused.html", "refused");
const PAGE: (&str, &str) = ("page", "the page");
const FILES: [(&str, &str); 3] = [USERS, REFUSED, PAGE];
/// Credentials that are wrong.
const STRANGER: (&str, &str) = ("authorization", "Basic dXNlcjp3cm9uZw==");

/// Everything is protected and reported, the error page included.
const SITE: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker pages "service=pages";
    limit_req_zone $server_addr zone=rare:1m rate=1r/m;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $uri;
        ratelimitly_report pages;
        error_page 400 401 403 413 503 /refused.html;
        location /password { auth_basic private; auth_basic_user_file {prefix}/html/users; }
        location /denied { deny all; }
        location /returned { return 403; }
        location /rare { limit_req zone=rare; try_files /page =404; }
        location /small { client_max_body_size 1; }
        location /asks { auth_request /nobody; }
        location = /nobody { internal; return 403; }
    }
"#;

/// Lets the servers fall silent, makes the request, and expects that it is refused with the status and the error page that
/// it has without this module: no question, no verdict, no report, and no 429 of `ratelimitly_fail close`.
async fn is_refused_unasked(status: u16, ask: impl AsyncFn(&Nginx) -> Response) {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(SITE, &dev, fail, &FILES).await;
        dev.fault(Fault::Silent).await;

        let response = ask(&nginx).await;

        assert_eq!((response.status, response.text().as_str()), (status, "refused"));
        let logged = nginx.await_access_log(1).await;
        assert!(logged[0].starts_with(&format!("{status} - ")), "{logged:?}");
        settled(&dev, &nginx).await;
        assert!(dev.requests().is_empty(), "asked about {:?}", labels(&dev));
        assert!(dev.reports().is_empty());
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_401_is_not_asked_about() {
    is_refused_unasked(401, async |nginx| get_with(nginx, "/password", STRANGER).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_deny_directive_is_not_asked_about() {
    is_refused_unasked(403, async |nginx| http::get(nginx.port(), "/denied").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_return_is_not_asked_about() {
    is_refused_unasked(403, async |nginx| http::get(nginx.port(), "/returned").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_body_that_is_too_large_is_not_asked_about() {
    is_refused_unasked(413, async |nginx| {
        let mut client = Raw::connect(nginx.port()).await.expect("nginx accepts");
        let request = "POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n";
        client.send(request).await.expect("nginx reads");
        client.response().await.expect("a response")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_malformed_request_is_not_asked_about() {
    is_refused_unasked(400, async |nginx| {
        let mut client = Raw::connect(nginx.port()).await.expect("nginx accepts");
        client.send("GET /page HTTP/1.1\r\n\r\n").await.expect("nginx reads a request without a host");
        client.response().await.expect("a response")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_auth_request_is_not_asked_about() {
    is_refused_unasked(403, async |nginx| http::get(nginx.port(), "/asks").await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_limit_req_is_not_asked_about() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(SITE, &dev, fail, &FILES).await;

        assert_eq!(http::get(nginx.port(), "/rare").await.status, 200);
        let refused = http::get(nginx.port(), "/rare").await;

        assert_eq!((refused.status, refused.text().as_str()), (503, "refused"));
        let request = "\"GET /rare HTTP/1.1\"";
        let expected = [format!("200 allow {request}"), format!("503 - {request}")];
        assert_eq!(nginx.await_access_log(2).await, expected);
        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["/page"], "the first request, and not the error page of the second");
        assert_eq!(dev.distinct_reports().len(), 1);
        nginx.finish().await;
    }
}

/// The page of a 401 leads to a protected file: handed out by an application, or as the content that takes the place of a
/// page that is missing.
const LEADS_ON: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker pages "service=pages";

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        location / {
            auth_basic private;
            auth_basic_user_file {prefix}/html/users;
            error_page 401 /login;
        }
        location /missing {
            auth_basic private;
            auth_basic_user_file {prefix}/html/users;
            error_page 401 /no-login;
            recursive_error_pages on;
        }
        location = /login { proxy_pass http://127.0.0.1:{port_app}; }
        location = /no-login { error_page 404 = /refused.html; }
        location = /refused.html { ratelimitly zone=all; ratelimitly_report pages; }
    }
    server {
        listen 127.0.0.1:{port_app};
        access_log off;
        add_header X-Accel-Redirect /refused.html;
        return 200;
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn where_the_page_of_a_401_leads_to_is_not_asked_about() {
    for (fail, path, status) in [("open", "/page", 401), ("close", "/page", 401), ("close", "/missing", 200)]
    {
        let dev = Dev::start().await;
        let nginx = warm(LEADS_ON, &dev, fail, &FILES).await;
        dev.fault(Fault::Silent).await;

        let response = get_with(&nginx, path, STRANGER).await;

        assert_eq!((response.status, response.text().as_str()), (status, "refused"));
        assert_eq!(nginx.await_access_log(1).await, [format!("{status} - \"GET {path} HTTP/1.1\"")]);
        settled(&dev, &nginx).await;
        assert!(dev.requests().is_empty());
        assert!(dev.reports().is_empty());
        nginx.finish().await;
    }
}

/// What an unprotected location has not found is made by a protected application, in three notations.
const MADE_ELSEWHERE: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    ratelimitly_tracker files "service=files" ttl=40s;
    ratelimitly_tracker apps "service=apps" ttl=50s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly_label $uri;
        location / { error_page 404 /index.php; }
        location /reported { ratelimitly_report files; error_page 404 /index.php; }
        location /equals { error_page 404 = @app; }
        location /returned { return 418; error_page 418 =200 /index.php; }
        location /tried { try_files $uri =404; error_page 404 /index.php; }
        location /tried-equals { try_files $uri =404; error_page 404 = /index.php; }
        location ~ \.php$ { ratelimitly zone=all; ratelimitly_report apps; try_files /page =500; }
        location @app { ratelimitly zone=all; try_files /page =500; }
    }
"#;

/// Expects that the request is asked about with this label, and refused where the answer is a deny.
async fn is_asked_about(path: &str, status: u16) {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(MADE_ELSEWHERE, &dev, fail, &FILES).await;

        let allowed = http::get(nginx.port(), path).await;
        dev.fault(Fault::ForceDeny).await;
        let denied = http::get(nginx.port(), path).await;

        assert_eq!((allowed.status, allowed.text().as_str()), (status, "the page"));
        assert_eq!(denied.status, 429);
        let request = format!("\"GET {path} HTTP/1.1\"");
        let expected = [format!("{status} allow {request}"), format!("429 deny {request}")];
        assert_eq!(nginx.await_access_log(2).await, expected);
        assert_eq!(labels(&dev), ["/page"; 2]);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_page_of_an_unprotected_location_lifts_no_limit() {
    is_asked_about("/nothing", 404).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_page_with_an_equals_sign_is_asked_about() {
    is_asked_about("/equals", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_page_that_sets_200_is_asked_about_also_after_a_return() {
    is_asked_about("/returned", 200).await;
}

/// `try_files` gives its status before the admission, so its page counts as that of a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_status_of_try_files_is_not_asked_about() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(MADE_ELSEWHERE, &dev, fail, &FILES).await;
        dev.fault(Fault::ForceDeny).await;

        let response = http::get(nginx.port(), "/tried").await;

        assert_eq!((response.status, response.text().as_str()), (404, "the page"));
        assert_eq!(nginx.await_access_log(1).await, ["404 - \"GET /tried HTTP/1.1\""]);
        settled(&dev, &nginx).await;
        assert!(dev.requests().is_empty(), "asked about {:?}", labels(&dev));
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_try_files_with_an_equals_sign_is_asked_about() {
    is_asked_about("/tried-equals", 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_settled_before_the_error_page_stays() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(MADE_ELSEWHERE, &dev, fail, &FILES).await;

        assert_eq!(http::get(nginx.port(), "/reported").await.status, 404);

        assert_eq!(nginx.await_access_log(1).await, ["404 allow \"GET /reported HTTP/1.1\""]);
        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["/page"]);
        let reports = dev.distinct_reports();
        let lives: Vec<u32> =
            reports.iter().flat_map(|report| &report.observations).map(|seen| seen.ttl_ms).collect();
        assert_eq!(lives, [40_000], "one report, to the tracker where the request came first");
        nginx.finish().await;
    }
}

//! Where a request goes inside nginx: subrequests before its admission, fallbacks, redirects and error pages after it. The
//! one admission and its verdict stay with it, over every protocol.

use crate::cross::protocol::Protocol;
use crate::cross::site::{Row, Site};
use ratelimitly_devserver::Fault;
use ratelimitly_harness::http::Response;

const ROUTES: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1900ms;
    ratelimitly_fail close;
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    client_max_body_size 2m;

    server {
        {listeners}
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $request_uri;
        proxy_http_version 1.1;

        location /mirrored { mirror /copy; proxy_pass http://{upstream}; }
        location = /copy { internal; proxy_pass http://{upstream}$request_uri; }

        location /known { auth_request /who; proxy_pass http://{upstream}; }
        location = /who {
            internal;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_pass http://{upstream}/who;
        }

        location /file { try_files /page.html =418; }
        location /none { try_files /missing.html =418; }
        location /named { try_files /missing.html @fallback; }
        location @fallback { try_files /page.html =418; }
        location /elsewhere { try_files /missing.html /file; }

        location /folder/ { index page.html; }

        location /by-uri { error_page 404 429 /error.html; }
        location /by-name { error_page 404 429 @error; }
        location @error { try_files /error.html =500; }

        location /app/ { proxy_pass http://127.0.0.1:{port_app}; }
        location /files/ { internal; alias {prefix}/html/; }
    }
    server {
        listen 127.0.0.1:{port_app};
        access_log off;
        location = /app/uri { add_header X-Accel-Redirect /files/page.html; return 200; }
        location = /app/name { add_header X-Accel-Redirect @fallback; return 200; }
    }
"#;

const FILES: [(&str, &str); 3] =
    [("page.html", "the page"), ("folder/page.html", "the index"), ("error.html", "sorry")];

async fn warm() -> Site {
    Site::warm(ROUTES, &[], &FILES).await
}

/// Expects these bodies of the rows, over each protocol.
fn read(all: &[(Protocol, Vec<Response>)], expected: &[&str]) {
    for (protocol, responses) in all {
        let bodies: Vec<_> = responses.iter().map(Response::text).collect();
        assert_eq!(bodies, expected, "{protocol}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirrored_body_arrives_twice_for_one_admission() {
    let mut site = warm().await;

    let rows = [0, 16 << 10, 2 << 20].map(|length| Row::post("/mirrored", length).arrives(2));
    site.over_each_protocol(&rows).await;

    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auth_request_comes_first_and_is_not_admitted_itself() {
    let mut site = warm().await;

    let user = |row: Row| row.header("x-user", "someone").arrives(1);
    let rows = [
        Row::get("/known").unasked().gives(403, "-"),
        user(Row::get("/known")),
        Row::post("/known", 16 << 10).unasked().gives(403, "-"),
        user(Row::post("/known", 16 << 10)),
    ];
    let all = site.over_each_protocol(&rows).await;

    let who = site.upstream.seen().iter().filter(|seen| seen.target == "/who").count();
    assert_eq!(who, all.len() * rows.len());
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn try_files_is_where_the_request_is_admitted_or_ends() {
    let mut site = warm().await;

    let rows = [
        Row::get("/file"),
        Row::get("/none").unasked().gives(418, "-"),
        Row::get("/named"),
        Row::get("/elsewhere"),
    ];
    for (protocol, responses) in site.over_each_protocol(&rows).await {
        let pages = responses.iter().filter(|response| response.text() == "the page").count();
        assert_eq!(pages, 3, "{protocol}");
    }

    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_keeps_the_admission() {
    let mut site = warm().await;

    let all = site.over_each_protocol(&[Row::get("/folder/"), Row::get("/folder/")]).await;

    read(&all, &["the index"; 2]);
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admitted_requests_error_page_keeps_the_admission() {
    let mut site = warm().await;

    let rows = ["/by-uri", "/by-name"].map(|path| Row::get(path).gives(404, "allow"));
    let all = site.over_each_protocol(&rows).await;

    read(&all, &["sorry"; 2]);
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusals_error_page_asks_nothing() {
    let mut site = warm().await;
    site.dev.fault(Fault::ForceDeny).await;

    let rows = [
        Row::get("/by-uri").gives(429, "deny"),
        Row::get("/by-name").gives(429, "deny"),
        // A URI is shown to a GET; a named location would be asked to take the body.
        Row::post("/by-uri", 16 << 10).gives(429, "deny"),
    ];
    let all = site.over_each_protocol(&rows).await;

    read(&all, &["sorry"; 3]);
    site.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x_accel_redirect_keeps_the_admission() {
    let mut site = warm().await;

    let all = site.over_each_protocol(&[Row::get("/app/uri"), Row::get("/app/name")]).await;

    read(&all, &["the page"; 2]);
    site.finish().await;
}

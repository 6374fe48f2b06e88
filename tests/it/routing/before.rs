//! What nginx does before the admission: access control, `try_files`, subrequests for `auth_request` and `mirror`, and
//! answers of the rewrite phase.

use crate::POLICIES;
use crate::routing::{get_with, labels, settled, warm};
use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, eventually, http};
use std::time::Duration;

/// `user` and `secret`.
const CREDENTIALS: (&str, &str) = ("authorization", "Basic dXNlcjpzZWNyZXQ=");
const USERS: (&str, &str) = ("users", "user:{PLAIN}secret\n");
const PAGE: (&str, &str) = ("ok.txt", "the page");

const GUARDED_BY_A_PASSWORD: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        location / {
            satisfy any;
            deny all;
            auth_basic private;
            auth_basic_user_file {prefix}/html/users;
            ratelimitly zone=all;
            ratelimitly_label $uri;
            try_files /ok.txt =418;
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c02_a_request_without_credentials_is_refused_unasked() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(GUARDED_BY_A_PASSWORD, &dev, fail, &[USERS, PAGE]).await;

        assert_eq!(http::get(nginx.port(), "/").await.status, 401);

        assert_eq!(nginx.await_access_log(1).await, ["401 - \"GET / HTTP/1.1\""]);
        settled(&dev, &nginx).await;
        assert!(dev.requests().is_empty());
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c03_an_authorised_request_consumes_once() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(GUARDED_BY_A_PASSWORD, &dev, fail, &[USERS, PAGE]).await;

        let response = get_with(&nginx, "/", CREDENTIALS).await;

        assert_eq!((response.status, response.text().as_str()), (200, "the page"));
        assert_eq!(labels(&dev), ["/ok.txt"]);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c08_a_deny_is_final_for_an_authorised_request() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(GUARDED_BY_A_PASSWORD, &dev, fail, &[USERS, PAGE]).await;
        dev.fault(Fault::ForceDeny).await;

        assert_eq!(get_with(&nginx, "/", CREDENTIALS).await.status, 429);

        assert_eq!(nginx.await_access_log(1).await, ["429 deny \"GET / HTTP/1.1\""]);
        assert_eq!(dev.admissions().len(), 1);
        nginx.finish().await;
    }
}

const TRY_FILES: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $uri;
        location /file { try_files /ok.txt =418; }
        location /none { try_files /missing.txt =418; }
        location /named { try_files /missing.txt @fallback; }
        location @fallback { ratelimitly_label fallback; try_files /ok.txt =418; }
        location /elsewhere { try_files /missing.txt /file; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c04_try_files_comes_before_the_admission() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(TRY_FILES, &dev, fail, &[PAGE]).await;

        assert_eq!(http::get(nginx.port(), "/file").await.status, 200);
        assert_eq!(http::get(nginx.port(), "/none").await.status, 418);

        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["/ok.txt"], "the 418 was given before any admission");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fallback_of_try_files_is_where_the_request_is_admitted() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(TRY_FILES, &dev, fail, &[PAGE]).await;

        assert_eq!(http::get(nginx.port(), "/named").await.status, 200);
        assert_eq!(http::get(nginx.port(), "/elsewhere").await.status, 200);

        assert_eq!(labels(&dev), ["fallback", "/ok.txt"]);
        nginx.finish().await;
    }
}

/// `{elsewhere}` is the place of a rule for what the application makes.
const FALLBACKS: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly_label $uri;
        location /named/ { ratelimitly zone=all; try_files $uri @app; }
        location @app { {elsewhere} proxy_pass http://127.0.0.1:{port_app}; }
        location / { try_files $uri $uri/ /index.php?$args; }
        location ~ \.php$ { {elsewhere} proxy_pass http://127.0.0.1:{port_app}; }
    }
    server { listen 127.0.0.1:{port_app}; access_log off; return 200 "made of $request_uri"; }
"#;

/// `try_files` redirects before the admission, so what it falls back to has to be protected by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_beside_try_files_limits_files_and_not_its_fallback() {
    for (rule, status, asked) in [("", 200, 0), ("ratelimitly zone=all;", 429, 1)] {
        let dev = Dev::start().await;
        let builder = Nginx::builder(FALLBACKS).dev(&dev).set("fail", "close");
        let nginx = builder.set("elsewhere", rule).start().await;
        crate::routing::write(&nginx, &[("named/file", "the file")]);
        nginx.admits().await;
        dev.fault(Fault::ForceDeny).await;

        assert_eq!(http::get(nginx.port(), "/named/file").await.status, 429, "the file is limited");
        assert_eq!(labels(&dev), ["/named/file"]);
        assert_eq!(http::get(nginx.port(), "/named/made").await.status, status);
        assert_eq!(labels(&dev).len(), 1 + asked);
        nginx.finish().await;
    }
}

/// The form that WordPress and its like use.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_for_php_limits_what_try_files_passes_to_index_php() {
    let dev = Dev::start().await;
    let builder = Nginx::builder(FALLBACKS).dev(&dev).set("fail", "close");
    let nginx = builder.set("elsewhere", "ratelimitly zone=all;").start().await;
    crate::routing::write(&nginx, &[("style.css", "a file"), ("index.php", "never sent")]);
    nginx.admits().await;

    let file = http::get(nginx.port(), "/style.css").await;
    let page = http::get(nginx.port(), "/a/page?p=1").await;

    assert_eq!((file.status, file.text().as_str()), (200, "a file"));
    assert_eq!((page.status, page.text().as_str()), (200, "made of /index.php?p=1"));
    assert_eq!(labels(&dev), ["/index.php"]);
    nginx.finish().await;
}

const MIRRORED: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        location / { ratelimitly zone=all; ratelimitly_label original; mirror /copy; }
        location = /copy {
            internal;
            ratelimitly zone=all;
            ratelimitly_label copy;
            proxy_pass http://{upstream};
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c06_a_mirror_subrequest_is_not_admitted() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let upstream = Upstream::ok("copied").await;
        let nginx = beside(MIRRORED, &dev, &upstream, fail).await;

        assert_eq!(http::get(nginx.port(), "/ok.txt").await.status, 200);

        eventually(Duration::from_secs(10), "the copy arrives", || upstream.seen().len() == 1).await;
        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["original"]);
        nginx.finish().await;
    }
}

const ASKS_WHO: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        location / {
            auth_request /who;
            auth_request_set $plan $upstream_http_content_length;
            ratelimitly_label plan-$plan;
        }
        location = /who { internal; ratelimitly_label who; proxy_pass http://{upstream}; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn auth_request_is_answered_before_the_admission_and_not_admitted_itself() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let upstream = Upstream::start(|seen| match seen.headers.get("x-user") {
            Some(_) => Answer::ok("gold"),
            None => Answer::Respond(403, "nobody".into()),
        })
        .await;
        let nginx = beside(ASKS_WHO, &dev, &upstream, fail).await;

        assert_eq!(http::get(nginx.port(), "/ok.txt").await.status, 403);
        assert_eq!(get_with(&nginx, "/ok.txt", ("x-user", "someone")).await.status, 200);

        settled(&dev, &nginx).await;
        assert_eq!(labels(&dev), ["plan-4"], "the subrequest's answer is there when the label is rendered");
        assert_eq!(upstream.seen().len(), 2);
        nginx.finish().await;
    }
}

const REWRITES: &str = r#"
    {usual}
    ratelimitly_zone all "bucket=all" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        root {prefix}/html;
        ratelimitly zone=all;
        ratelimitly_label $uri;
        location /returned { return 204; }
        location /moved { rewrite ^ /ok.txt permanent; }
        location /rewritten { rewrite ^ /ok.txt last; }
        location / {}
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c22_an_answer_of_the_rewrite_phase_sends_nothing() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(REWRITES, &dev, fail, &[PAGE]).await;

        assert_eq!(http::get(nginx.port(), "/returned").await.status, 204);
        assert_eq!(http::get(nginx.port(), "/moved").await.status, 301);

        settled(&dev, &nginx).await;
        assert!(dev.requests().is_empty());
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewritten_request_is_admitted_where_it_ends() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let nginx = warm(REWRITES, &dev, fail, &[PAGE]).await;

        assert_eq!(http::get(nginx.port(), "/rewritten").await.status, 200);

        assert_eq!(labels(&dev), ["/ok.txt"]);
        nginx.finish().await;
    }
}

async fn beside(text: &str, dev: &Dev, upstream: &Upstream, fail: &str) -> Nginx {
    let builder = Nginx::builder(text).dev(dev).set("fail", fail).set("upstream", upstream.address());
    let nginx = builder.start().await;
    crate::routing::write(&nginx, &[PAGE]);
    nginx.admits().await;
    nginx
}

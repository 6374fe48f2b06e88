//! What a failure and a denial mean where a request asks: inherited, overridden, and kept through internal routing.

use ratelimitly_devserver::Fault;
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::tls::Certificate;
use ratelimitly_harness::{Dev, Nginx, environment, h2, h3, http};

/// One server inherits the http block's policy, the other one has its own.
const POLICIES: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=600ms;
        ratelimitly_fail close;
        ratelimitly_zone all "bucket=all" rate=1000r/s;

        server {
            listen 127.0.0.1:{port};
            root {prefix}/html;
            ratelimitly zone=all;
            location /inherited { empty_gif; }
            location /open {
                ratelimitly_fail open;
                location /open/inner { empty_gif; }
                location /open/closed { ratelimitly_fail close; empty_gif; }
                empty_gif;
            }
            location = /moved/ { ratelimitly_fail open; index moved.html; }
            location = /moved/moved.html { ratelimitly_fail close; }
        }
        server {
            listen 127.0.0.1:{port_open};
            ratelimitly_fail open;
            ratelimitly zone=all;
            location / { empty_gif; }
            location /closed { ratelimitly_fail close; empty_gif; }
        }
    }
"#;

async fn status(port: u16, path: &str) -> u16 {
    http::get(port, path).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn e01_each_place_has_its_own_failure_policy() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(POLICIES).dev(&dev).start().await;
    nginx.admits().await;
    dev.fault(Fault::Silent).await;

    let (main, open) = (nginx.port(), nginx.named_port("port_open"));
    assert_eq!(status(main, "/inherited").await, 429, "the http block's");
    assert_eq!(status(main, "/open").await, 200, "the location's own");
    assert_eq!(status(main, "/open/inner").await, 200, "inherited from the location around");
    assert_eq!(status(main, "/open/closed").await, 429, "the inner location's own");
    assert_eq!(status(open, "/").await, 200, "the server's own");
    assert_eq!(status(open, "/closed").await, 429, "the location's, under a server's own");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e02_the_failure_policy_is_that_of_the_location_that_asked() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(POLICIES).dev(&dev).start().await;
    let page = nginx.prefix().join("html/moved");
    std::fs::create_dir_all(&page).expect("a folder");
    std::fs::write(page.join("moved.html"), "moved").expect("a page");
    nginx.admits().await;
    dev.fault(Fault::Silent).await;

    assert_eq!(status(nginx.port(), "/moved/").await, 200);
    assert_eq!(status(nginx.port(), "/moved/moved.html").await, 429);
    nginx.finish().await;
}

/// The http block's statuses, a server's and a location's own, and what an error page makes of them. `/none` is nginx's
/// way to answer nothing.
const STATUSES: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=600ms;
        ratelimitly_fail close;
        ratelimitly_fail_status 503;
        ratelimitly_deny_status 403 guard=502;
        ratelimitly_zone all "bucket=all" rate=1000r/s;
        ratelimitly_tracker app "service=app" ttl=5s max_samples=16 min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=100ms;

        server {
            listen 127.0.0.1:{port};
            listen 127.0.0.1:{port_h2} {http2};
            {quic}
            ratelimitly zone=all guard=healthy;
            location / { empty_gif; }
            location /own {
                ratelimitly_fail_status 500;
                ratelimitly_deny_status 418;
                location /own/inner { empty_gif; }
                location /own/deny { ratelimitly_deny_status 451; empty_gif; }
                empty_gif;
            }
            location /none {
                ratelimitly_fail_status 444;
                ratelimitly_deny_status 444;
                error_page 444 /page;
                empty_gif;
            }
            location /shown { error_page 403 502 503 =200 /page; empty_gif; }
            location = /page { return 200 "a page"; }
        }
        server {
            listen 127.0.0.1:{port_other};
            ratelimitly_deny_status 400;
            ratelimitly zone=all guard=healthy;
            location / { empty_gif; }
        }
    }
"#;

const QUIC: &str = "listen 127.0.0.1:{port_quic} quic; ssl_certificate {certificate}/certificate.pem; \
                    ssl_certificate_key {certificate}/key.pem; ssl_protocols TLSv1.3;";

async fn statuses(dev: &Dev) -> Nginx {
    let nginx = Nginx::builder(&STATUSES.replace("{quic}", "")).dev(dev).start().await;
    nginx.admits().await;
    nginx
}

#[tokio::test(flavor = "multi_thread")]
async fn e04_a_denial_has_the_status_of_the_place_that_asked() {
    let dev = Dev::single().await;
    let nginx = statuses(&dev).await;
    dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    for (path, expected) in
        [("/", 403), ("/own", 418), ("/own/inner", 418), ("/own/deny", 451), ("/shown", 200)]
    {
        assert_eq!(status(nginx.port(), path).await, expected, "{path}");
    }
    assert_eq!(status(nginx.named_port("port_other"), "/").await, 400);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e05_a_denial_by_guards_alone_has_a_status_of_its_own() {
    let dev = Dev::single().await;
    let nginx = statuses(&dev).await;
    dev.fault(Fault::Latency { guard: 0, ms: 200 }).await;
    assert_eq!(status(nginx.port(), "/").await, 502);
    assert_eq!(status(nginx.port(), "/own").await, 418, "a directive of its own without guard=");
    assert_eq!(status(nginx.named_port("port_other"), "/").await, 400);
    dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    assert_eq!(status(nginx.port(), "/").await, 403, "a zone and a guard: the first code");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e03_a_failure_has_the_status_of_the_place_that_asked() {
    let dev = Dev::single().await;
    let nginx = statuses(&dev).await;
    dev.fault(Fault::Silent).await;
    for (path, expected) in [("/", 503), ("/own/inner", 500), ("/own/deny", 500), ("/shown", 200)] {
        assert_eq!(status(nginx.port(), path).await, expected, "{path}");
    }
    assert_eq!(status(nginx.named_port("port_other"), "/").await, 503);
    nginx.finish().await;
}

/// No `error_page` applies, and nothing hangs.
#[tokio::test(flavor = "multi_thread")]
async fn e06_status_444_ends_the_connection_and_the_stream_without_an_answer() {
    let dev = Dev::single().await;
    let certificate = Certificate::new();
    let text = STATUSES.replace("{quic}", if environment::has_http3() { QUIC } else { "" });
    let builder = Nginx::builder(&text).dev(&dev).set("certificate", certificate.folder().display());
    let nginx = builder.start().await;
    nginx.admits().await;
    for fault in [Fault::ForceDeny, Fault::Silent] {
        dev.fault(fault).await;
        let mut raw = Raw::connect(nginx.port()).await.expect("connected");
        raw.send("GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
        assert!(raw.rest().await.expect("the end").is_empty());

        let mut connection = h2::Connection::connect(nginx.named_port("port_h2")).await.expect("connected");
        let reset = connection.get("/none").await.expect("sent").response().await;
        assert!(reset.is_err(), "{reset:?}");

        if environment::has_http3() {
            let port = nginx.named_port("port_quic");
            let mut connection = h3::Connection::connect(port, &certificate).await.expect("connected");
            let reset = connection.get("/none").await.expect("sent").response().await;
            assert!(reset.is_err(), "{reset:?}");
            connection.close().await;
        }
    }
    nginx.finish().await;
}

const LOGGED: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=600ms;
        ratelimitly_fail close;
        ratelimitly_zone secret "bucket=a-secret-key" rate=1000r/s;
        ratelimitly_tracker app "service=app" ttl=5s max_samples=16 min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=100ms;
        ratelimitly_log_level warn;

        server {
            listen 127.0.0.1:{port};
            ratelimitly zone=secret guard=healthy;
            location / { empty_gif; }
            location /off { ratelimitly_log_level off; empty_gif; }
            location /error { ratelimitly_log_level error; empty_gif; }
            location /dry { ratelimitly_dry_run on; empty_gif; }
        }
    }
"#;

/// The lines about refused requests, from their level on and without what nginx appends.
fn refusals(nginx: &Nginx) -> Vec<String> {
    let lines = nginx.log_lines("ratelimitly: request (denied|refused)").into_iter();
    let short = |line: String| {
        let level = line.find('[').expect("a level");
        let (level, rest) = line[level..].split_once(' ').expect("a line");
        let message =
            &rest[rest.find("request").expect("the message")..rest.find(", client: ").expect("a client")];
        format!("{level} {message}")
    };
    lines.map(short).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn e07_a_refused_request_has_a_line_at_the_level_of_its_place() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(LOGGED).dev(&dev).start().await;
    nginx.admits().await;
    assert_eq!(status(nginx.port(), "/").await, 200);
    dev.fault(Fault::Deficit { resource: 0, tokens: 1 }).await;
    for path in ["/", "/off", "/error", "/dry"] {
        status(nginx.port(), path).await;
    }
    dev.fault(Fault::Latency { guard: 0, ms: 200 }).await;
    status(nginx.port(), "/").await;
    dev.fault(Fault::Silent).await;
    status(nginx.port(), "/error").await;

    let expected = [
        "[warn] request denied by zone:secret",
        "[error] request denied by zone:secret",
        "[warn] request denied by zone:secret, dry run",
        "[warn] request denied by zone:secret, guard:healthy",
        "[error] request refused without a verdict: timeout",
    ];
    assert_eq!(refusals(&nginx), expected);
    assert!(nginx.log_lines("request denied").iter().all(|line| !line.contains("a-secret-key")));
    nginx.finish().await;
}

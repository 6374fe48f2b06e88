//! Whom rules apply to: `if=` and `ratelimitly off`. What does not apply costs nothing on the wire, and a location that
//! asked nothing leaves the question to the next one.

use ratelimitly_devserver::Fault;
use ratelimitly_harness::{Dev, Nginx, http};

/// The zones differ in their windows, by which the servers tell them apart: 1 s, 2 s, 3 s.
const SITE: &str = r#"
    http {
        {service}
        ratelimitly_zone one   "bucket=one"           rate=1000r/1s;
        ratelimitly_zone two   "bucket=two"           rate=1000r/2s;
        ratelimitly_zone three "bucket=three$arg_key" rate=1000r/3s;
        ratelimitly_tracker app "service=app" ttl=5s max_samples=16 min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=1s;
        ratelimitly_guard idle    tracker=app threshold=2s;

        map $http_user_agent $not_probe { ~^kube-probe 0; default 1; }
        geo $arg_from $limited { default 1; 192.0.2.0/24 ""; }
        log_format told '$status $ratelimitly_verdict $ratelimitly_outcome';

        server {
            listen 127.0.0.1:{port};
            root {prefix}/html;
            access_log {prefix}/access.log told;
            ratelimitly_report app;

            location /map { ratelimitly zone=one if=$not_probe; empty_gif; }
            location /geo { ratelimitly zone=one if=$limited; empty_gif; }
            location /value { ratelimitly zone=one if=$arg_if; empty_gif; }
            location /text { ratelimitly zone=one "if=$arg_if$arg_more"; empty_gif; }
            location /lines {
                ratelimitly zone=one   if=$arg_one   guard=healthy;
                ratelimitly zone=two   if=$arg_two   guard=idle guard=healthy;
                ratelimitly zone=three if=$arg_three;
                empty_gif;
            }
            location /never { ratelimitly zone=one if=0; ratelimitly zone=two if=; empty_gif; }
            location /part { ratelimitly zone=one if=0; ratelimitly zone=two; empty_gif; }
            location = /moved/ { ratelimitly zone=one if=$arg_if; index moved.html; }
            location = /moved/moved.html { ratelimitly zone=two; }
        }
        server {
            listen 127.0.0.1:{port_off};
            root {prefix}/html;
            access_log {prefix}/access.log told;
            ratelimitly zone=one;
            location / { empty_gif; }
            location /off {
                ratelimitly off;
                location /off/inner { empty_gif; }
                location /off/again { ratelimitly zone=two; empty_gif; }
                empty_gif;
            }
            location = /off/moved/ { ratelimitly off; index moved.html; }
            location = /off/moved/moved.html { ratelimitly zone=two; }
        }
    }
"#;

async fn site(dev: &Dev) -> Nginx {
    let nginx = Nginx::builder(SITE).dev(dev).start().await;
    for folder in ["moved", "off/moved"] {
        let folder = nginx.prefix().join("html").join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("moved.html"), "moved").expect("a page");
    }
    nginx.admits().await;
    nginx
}

/// What each admission asked: the windows of its zones in seconds, and its guards' thresholds.
fn asked(dev: &Dev) -> Vec<(Vec<u32>, Vec<u32>)> {
    let of = |event: ratelimitly_devserver::Event| {
        let windows = event.resources.iter().map(|resource| resource.window_size_ms / 1000).collect();
        (windows, event.guards.iter().map(|guard| guard.threshold_ms).collect())
    };
    dev.admissions().into_iter().map(of).collect()
}

async fn status(port: u16, path: &str) -> u16 {
    http::get(port, path).await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn e16_a_rule_applies_unless_its_condition_is_empty_or_zero() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    for (query, applies) in [
        ("", false),
        ("?if=", false),
        ("?if=0", false),
        ("?if=1", true),
        ("?if=00", true),
        ("?if=off", true),
        ("?if=false", true),
        ("?if=-", true),
        ("?if=0.0", true),
    ] {
        dev.clear_events();
        assert_eq!(status(nginx.port(), &format!("/value{query}")).await, 200);
        assert_eq!(asked(&dev).len(), usize::from(applies), "{query:?}");
    }
    dev.clear_events();
    status(nginx.port(), "/text?if=0&more=0").await;
    assert_eq!(asked(&dev).len(), 1, "a value of several variables is compared as a whole");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e17_map_and_geo_exempt_health_checks_and_addresses() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let probe = |agent: &str| {
        http::Request::get("/map").header("Host", "localhost").header("User-Agent", agent).body("".into())
    };

    http::send(nginx.port(), probe("kube-probe/1.30").expect("a request")).await.expect("a response");
    status(nginx.port(), "/geo?from=192.0.2.7").await;
    assert!(asked(&dev).is_empty(), "{:?}", asked(&dev));
    http::send(nginx.port(), probe("curl/8").expect("a request")).await.expect("a response");
    status(nginx.port(), "/geo?from=198.51.100.7").await;
    assert_eq!(asked(&dev).len(), 2);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e18_each_line_has_its_own_condition_and_lines_that_do_not_apply_are_not_sent() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    for (query, expected) in [
        ("?one=1", (vec![1], vec![1000])),
        ("?two=1", (vec![2], vec![2000, 1000])),
        ("?one=1&two=1", (vec![1, 2], vec![1000, 2000])),
        ("?three=1&one=0", (vec![3], vec![])),
        ("?three=1&two=1&one=1", (vec![1, 2, 3], vec![1000, 2000])),
    ] {
        dev.clear_events();
        assert_eq!(status(nginx.port(), &format!("/lines{query}")).await, 200);
        assert_eq!(asked(&dev), [expected], "{query}");
    }
    nginx.finish().await;
}

/// A bucket that would be refused does no harm in a line that does not apply.
#[tokio::test(flavor = "multi_thread")]
async fn e18_a_line_that_does_not_apply_is_not_rendered() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let long = "k".repeat(1100);
    status(nginx.port(), &format!("/lines?one=1&key={long}")).await;
    assert_eq!(asked(&dev), [(vec![1], vec![1000])]);
    status(nginx.port(), &format!("/lines?one=1&three=1&key={long}")).await;
    nginx.await_log_line("the bucket of zone \"three\" has 1105 bytes").await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e24_where_no_line_applies_nothing_is_asked_and_a_report_is_sent() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    dev.fault(Fault::ForceDeny).await;
    for (path, logged) in [("/value", "200 - skip"), ("/never", "200 - skip"), ("/part", "429 deny deny")] {
        let before = nginx.access_log().len();
        status(nginx.port(), path).await;
        assert_eq!(nginx.await_access_log(before + 1).await[before], logged, "{path}");
    }
    assert_eq!(asked(&dev), [(vec![2], vec![])]);
    dev.await_reports("of the two that were not refused", |reports| reports.len() == 2).await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e25_after_a_skip_the_rule_of_a_later_location_asks() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    status(nginx.port(), "/moved/").await;
    assert_eq!(asked(&dev), [(vec![2], vec![])], "skipped first, then asked");
    dev.clear_events();
    status(nginx.port(), "/moved/?if=1").await;
    assert_eq!(asked(&dev), [(vec![1], vec![])], "asked first, and then not again");
    assert_eq!(nginx.await_access_log(2).await, ["200 allow allow", "200 allow allow"]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e15_off_ends_inherited_rules_and_decides_nothing() {
    let dev = Dev::single().await;
    let nginx = site(&dev).await;
    let port = nginx.named_port("port_off");
    for (path, expected) in [
        ("/", vec![(vec![1], vec![])]),
        ("/off", vec![]),
        ("/off/inner", vec![]),
        ("/off/again", vec![(vec![2], vec![])]),
        ("/off/moved/", vec![(vec![2], vec![])]),
    ] {
        dev.clear_events();
        assert_eq!(status(port, path).await, 200);
        assert_eq!(asked(&dev), expected, "{path}");
    }
    let lines = nginx.await_access_log(5).await;
    assert_eq!(lines, ["200 allow allow", "200 - -", "200 - -", "200 allow allow", "200 allow allow"]);
    nginx.finish().await;
}

/// A worker that has nothing to ask and nothing to report opens no socket and looks nothing up.
#[tokio::test(flavor = "multi_thread")]
async fn e27_skipped_requests_alone_do_not_set_the_worker_up() {
    const QUIET: &str = r#"
        http {
            {service}
            ratelimitly_zone one "bucket=one" rate=1000r/s;
            server {
                listen 127.0.0.1:{port};
                location / { ratelimitly zone=one if=$arg_if; empty_gif; }
            }
        }
    "#;
    let dev = Dev::single().await;
    let nginx = Nginx::builder(QUIET).dev(&dev).start().await;
    assert_eq!(status(nginx.port(), "/").await, 200);
    assert!(nginx.log_lines("members of").is_empty());
    assert_eq!(status(nginx.port(), "/?if=1").await, 200);
    nginx.await_log_line("members of").await;
    nginx.finish().await;
}

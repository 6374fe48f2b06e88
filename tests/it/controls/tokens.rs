//! What a rule asks for: `tokens=`, constant and rendered, from `map`, `geo` and variables of other modules.

use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, Upstream, http};

/// The zones differ in their windows, by which the servers tell them apart.
const SITE: &str = r#"
    http {
        {service}
        ratelimitly_policy standard unit=600ms;
        ratelimitly_zone one   "bucket=one"   rate=10r/1h;
        ratelimitly_zone two   "bucket=two"   rate=1000r/2h;
        ratelimitly_zone large "bucket=large" rate=70000r/3h;
        ratelimitly_group pair zone=two zone=large zone=two;
        ratelimitly_tracker app "service=app" ttl=5s max_samples=16 min_sample_threshold=1;
        ratelimitly_guard healthy tracker=app threshold=1s;

        map $request_method $by_method { default 1; POST 5; }
        map $content_length $by_size { default 1; ~^.... 7; }
        geo $arg_from $by_plan { default 3; 192.0.2.0/24 0; }
        log_format told '$status $ratelimitly_outcome $ratelimitly_failure';

        server {
            listen 127.0.0.1:{port};
            access_log {prefix}/access.log told;
            ratelimitly_fail close;
            location /constant { ratelimitly zone=two tokens=9; empty_gif; }
            location /method { ratelimitly zone=two tokens=$by_method; proxy_pass http://{upstream}; }
            location /size { ratelimitly zone=two tokens=$by_size; proxy_pass http://{upstream}; }
            location /plan { ratelimitly zone=two tokens=$by_plan guard=healthy; empty_gif; }
            location /bytes { ratelimitly zone=two tokens=$request_length; empty_gif; }
            location /group { ratelimitly group=pair tokens=4; ratelimitly zone=one; empty_gif; }
            location /value {
                ratelimitly zone=large tokens=$arg_n;
                location /value/open { ratelimitly_fail open; ratelimitly zone=large tokens=$arg_n; empty_gif; }
                empty_gif;
            }
            location /above { ratelimitly zone=one tokens=$arg_n; empty_gif; }
            location /none { ratelimitly zone=one tokens=0; empty_gif; }
        }
    }
"#;

async fn site(dev: &Dev) -> (Nginx, Upstream) {
    let upstream = Upstream::ok("done").await;
    let nginx = Nginx::builder(SITE).dev(dev).set("upstream", upstream.address()).start().await;
    nginx.admits().await;
    (nginx, upstream)
}

/// What each admission asked: the windows of its zones in hours and their tokens, and how many guards.
fn asked(dev: &Dev) -> Vec<(Vec<(u32, u16)>, usize)> {
    let of = |event: ratelimitly_devserver::Event| {
        let zones = event.resources.iter();
        let zones = zones.map(|resource| (resource.window_size_ms / 3_600_000, resource.tokens)).collect();
        (zones, event.guard_count)
    };
    dev.admissions().into_iter().map(of).collect()
}

async fn post(port: u16, path: &str, body: &str) -> u16 {
    let request = http::Request::post(path).header("Host", "localhost").body(body.to_owned().into());
    http::send(port, request.expect("a request")).await.expect("a response").status
}

#[tokio::test(flavor = "multi_thread")]
async fn e19_tokens_weigh_requests_by_method_size_and_plan() {
    let dev = Dev::single().await;
    let (nginx, _upstream) = site(&dev).await;
    let port = nginx.port();
    http::get(port, "/constant").await;
    http::get(port, "/method").await;
    assert_eq!(post(port, "/method", "a body").await, 200);
    assert_eq!(post(port, "/size", "a body").await, 200);
    assert_eq!(post(port, "/size", &"b".repeat(1000)).await, 200);
    http::get(port, "/plan").await;
    http::get(port, "/group").await;

    let expected = [
        (vec![(2, 9)], 0),
        (vec![(2, 1)], 0),
        (vec![(2, 5)], 0),
        (vec![(2, 1)], 0),
        (vec![(2, 7)], 0),
        (vec![(2, 3)], 1),
        (vec![(2, 4), (3, 4), (2, 4), (1, 1)], 0),
    ];
    assert_eq!(asked(&dev), expected);
    nginx.finish().await;
}

/// nginx's core module counts the bytes of the request line and the header.
#[tokio::test(flavor = "multi_thread")]
async fn e20_tokens_come_from_a_variable_of_another_module() {
    let dev = Dev::single().await;
    let (nginx, _upstream) = site(&dev).await;
    let mut raw = Raw::connect(nginx.port()).await.expect("connected");
    let request = "GET /bytes HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    raw.send(request).await.expect("sent");
    assert_eq!(raw.response().await.expect("a response").status, 200);

    assert_eq!(asked(&dev), [(vec![(2, request.len() as u16)], 0)]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e21_no_tokens_leave_the_zones_out_and_the_guards_in() {
    let dev = Dev::single().await;
    let (nginx, _upstream) = site(&dev).await;
    http::get(nginx.port(), "/plan?from=192.0.2.9").await;
    http::get(nginx.port(), "/none").await;

    assert_eq!(asked(&dev), [(vec![], 1)]);
    assert_eq!(nginx.await_access_log(2).await, ["200 allow -", "200 skip -"]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e22_rendered_tokens_above_the_rate_are_asked_and_denied() {
    let dev = Dev::single().await;
    let (nginx, _upstream) = site(&dev).await;
    assert_eq!(http::get(nginx.port(), "/above?n=11").await.status, 429);
    assert_eq!(http::get(nginx.port(), "/above?n=10").await.status, 200, "the refusal took none");
    assert_eq!(http::get(nginx.port(), "/above?n=1").await.status, 429);
    assert_eq!(http::get(nginx.port(), "/value?n=65535").await.status, 200);

    let expected = [vec![(1, 11)], vec![(1, 10)], vec![(1, 1)], vec![(3, 65535)]];
    assert_eq!(asked(&dev), expected.map(|zones| (zones, 0)));
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e23_rendered_tokens_that_are_no_number_follow_the_failure_policy() {
    let dev = Dev::single().await;
    let (nginx, _upstream) = site(&dev).await;
    for bad in ["", "-1", "+1", "1.5", "0x1", "1e3", "65536", "99999999999999999999", "1_0", "%201"] {
        assert_eq!(http::get(nginx.port(), &format!("/value?n={bad}")).await.status, 429, "{bad:?}");
        assert_eq!(http::get(nginx.port(), &format!("/value/open?n={bad}")).await.status, 200, "{bad:?}");
    }
    assert!(asked(&dev).is_empty(), "nothing is sent: {:?}", asked(&dev));
    let lines = nginx.await_access_log(20).await;
    assert_eq!(lines[..2], ["429 fail_close invalid-value", "200 fail_open invalid-value"]);
    let named = nginx.await_log_line("the number of tokens \"\" of the rule in ").await;
    assert!(named.contains("nginx.conf:") && named.contains("in digits alone"), "{named}");
    nginx.finish().await;
}

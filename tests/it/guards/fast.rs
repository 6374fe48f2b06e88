//! What docs/overload.md says a guard does not do: the smallest sample counts, so one fast answer beside slow ones holds
//! the guard open. And what the tracker's defaults do: they keep it closed on a backend that has recovered.

use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, http};
use std::time::Duration;
use tokio::task::JoinSet;

/// `/fast` never leaves nginx, like a page from a cache; it reports to the same tracker.
const CONF: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_tracker shop "service=shop" ttl=60s max_samples=128 min_sample_threshold=0;
    ratelimitly_guard keeping_up tracker=shop threshold=1s;
    server {
        listen 127.0.0.1:{port};
        ratelimitly guard=keeping_up;
        ratelimitly_report shop;
        location /slow { proxy_pass http://{upstream}; }
        location /fast { empty_gif; }
    }
"#;

/// A tracker with its defaults.
const DEFAULTS: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_tracker shop "service=shop";
    ratelimitly_guard keeping_up tracker=shop threshold=1s;
    server {
        listen 127.0.0.1:{port};
        location / {
            ratelimitly guard=keeping_up;
            ratelimitly_report shop;
            proxy_pass http://{upstream};
        }
    }
"#;

/// Longer than the threshold.
const SLOW: Duration = Duration::from_millis(1500);

#[tokio::test(flavor = "multi_thread")]
async fn one_fast_answer_beside_slow_ones_holds_the_guard_open() {
    let (dev, upstream) = (Dev::single().await, slow_upstream().await);
    let nginx = Nginx::builder(CONF).dev(&dev).set("upstream", upstream.address()).warm().await;
    reported(&dev, &nginx, "/fast", 1).await;
    reported(&dev, &nginx, "/slow", 2).await;

    let mut slow = JoinSet::new();
    for _ in 0..4 {
        let port = nginx.port();
        slow.spawn(async move { http::get(port, "/slow").await.status });
    }

    assert_eq!(slow.join_all().await, [200; 4]);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_fast_answer_the_guard_is_closed() {
    let (dev, upstream) = (Dev::single().await, slow_upstream().await);
    let nginx = Nginx::builder(CONF).dev(&dev).set("upstream", upstream.address()).warm().await;
    reported(&dev, &nginx, "/slow", 1).await;

    assert_eq!(http::get(nginx.port(), "/slow").await.status, 429);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_slow_requests_close_a_guard_with_default_settings_on_a_backend_that_is_fast_again() {
    let upstream = Upstream::start(|seen| match seen.target.as_str() {
        "/slow" => Answer::Late(SLOW, 200, "slow\n".into()),
        _ => Answer::ok("fast\n"),
    });
    let (dev, upstream) = (Dev::single().await, upstream.await);
    let nginx = Nginx::builder(DEFAULTS).dev(&dev).set("upstream", upstream.address()).warm().await;
    let mut slow = JoinSet::new();
    for _ in 0..8 {
        let port = nginx.port();
        slow.spawn(async move { http::get(port, "/slow").await.status });
    }
    assert_eq!(slow.join_all().await, [200; 8], "until the eighth sample the guard is open");
    dev.await_reports("all eight durations are reported", |seen| seen.len() == 8).await;

    assert_eq!(http::get(nginx.port(), "/fast").await.status, 429);
    nginx.finish().await;
}

async fn slow_upstream() -> Upstream {
    Upstream::start(|_| Answer::Late(SLOW, 200, "slow\n".into())).await
}

/// Makes a request that is allowed, and waits until so many reports have arrived in all.
async fn reported(dev: &Dev, nginx: &Nginx, path: &str, reports: usize) {
    assert_eq!(http::get(nginx.port(), path).await.status, 200, "{path}");
    dev.await_reports("the duration is reported", |seen| seen.len() == reports).await;
}

//! What docs/configuration.md says under "Coming from limit_req": a rate is a number of tokens in a window, and all of
//! them may go at once, where `limit_req` spreads them.

use ratelimitly_harness::{Dev, Nginx, http};

/// Rates of which nothing comes back while the test runs.
const CONF: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_zone ten "bucket=ten" rate=10r/h;
    limit_req_zone $server_port zone=ten:1m rate=10r/m;
    server {
        listen 127.0.0.1:{port};
        location /window { ratelimitly zone=ten; empty_gif; }
        location /spread { limit_req zone=ten; empty_gif; }
        location /burst { limit_req zone=ten burst=9 nodelay; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn all_tokens_of_a_window_may_go_at_once_where_limit_req_lets_one_through() {
    let dev = Dev::start().await;
    let nginx = Nginx::builder(CONF).dev(&dev).warm().await;

    assert_eq!(passed(&nginx, "/window", 11).await, 10);
    assert_eq!(passed(&nginx, "/spread", 2).await, 1);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_req_with_a_burst_of_nine_lets_ten_through_at_once() {
    let dev = Dev::start().await;
    let nginx = Nginx::builder(CONF).dev(&dev).start().await;

    assert_eq!(passed(&nginx, "/burst", 11).await, 10);
    nginx.finish().await;
}

/// How many of so many requests got 200.
async fn passed(nginx: &Nginx, path: &str, requests: usize) -> usize {
    let mut passed = 0;
    for _ in 0..requests {
        passed += usize::from(http::get(nginx.port(), path).await.status == 200);
    }
    passed
}

//! The shortest way through everything: an allow, a deny, and both verdicts in the access log.

use ratelimitly_harness::{Dev, Nginx, http};

/// Two tokens an hour: the third request is denied. The bucket is named after the location, which no client chooses.
const TWO_AN_HOUR: &str = r#"
    {service}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_fail close;
    ratelimitly_zone two "bucket=smoke" rate=2r/1h;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=two; empty_gif; }
        location /free { empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn allows_until_the_bucket_is_empty_and_logs_each_verdict() {
    let dev = Dev::start().await;
    let nginx = Nginx::builder(TWO_AN_HOUR).dev(&dev).start().await;

    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(http::get(nginx.port(), "/").await.status);
    }

    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(dev.admissions().len(), 3);
    let logged = nginx.await_access_log(3).await;
    assert_eq!(
        logged,
        ["200 allow", "200 allow", "429 deny"].map(|start| format!("{start} \"GET / HTTP/1.1\""))
    );
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaves_an_unprotected_location_alone() {
    let dev = Dev::start().await;
    let nginx = Nginx::builder(TWO_AN_HOUR).dev(&dev).start().await;

    let response = http::get(nginx.port(), "/free").await;

    assert_eq!(response.status, 200);
    assert_eq!(nginx.await_access_log(1).await, ["200 - \"GET /free HTTP/1.1\""]);
    assert!(dev.requests().is_empty());
    nginx.finish().await;
}

//! The generator of request ids and nonces gets fresh bytes of the kernel while its worker is active: once in a second, and
//! not with each request. What they do to it is tested in the core.

use crate::admission::warm;
use ratelimitly_harness::{Dev, http};
use std::time::{Duration, Instant};

const ALLOWED: &str = r#"
    {service}
    ratelimitly_fail {fail};
    ratelimitly_zone any "bucket=any" rate=1000000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=any; empty_gif; }
    }
"#;

/// The driver's line for fresh bytes.
const FRESH: &str = "ratelimitly: fresh random bytes mixed in";
/// Longest wait for the second line.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn fresh_random_bytes_come_once_in_a_second_of_requests() {
    let dev = Dev::start().await;
    let nginx = warm(ALLOWED, &dev, "close").await;
    let before = nginx.log_lines(FRESH).len();
    let started = Instant::now();
    let mut requests = 0;

    while nginx.log_lines(FRESH).len() < before + 2 {
        assert!(started.elapsed() < PATIENCE, "no fresh bytes in {PATIENCE:?} of requests");
        for _ in 0..20 {
            assert_eq!(http::get(nginx.port(), "/").await.status, 200);
        }
        requests += 20;
    }

    let fresh = nginx.log_lines(FRESH).len() - before;
    let most = started.elapsed().as_secs() as usize + 1;
    assert!(fresh <= most, "{fresh} times in {:?}, {requests} requests", started.elapsed());
    nginx.finish().await;
}

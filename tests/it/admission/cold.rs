//! A worker's first requests: before the servers are known, and with which resolver they become known.

use crate::POLICIES;
use ratelimitly_devserver::DnsFault;
use ratelimitly_harness::{Dev, Nginx, eventually_some, http, log};
use std::net::UdpSocket;
use std::time::Duration;

/// How the first request is answered under each policy when there is no verdict.
const UNANSWERED: [(&str, u16); 2] = [("open", 200), ("close", 429)];

/// Three units make the horizon.
const COLD: &str = r#"
    {service}
    ratelimitly_policy standard unit={unit};
    ratelimitly_fail {fail};
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    log_format timed $request_time;

    server {
        listen 127.0.0.1:{port};
        access_log {prefix}/access.log harness;
        access_log {prefix}/timed.log timed;
        location / { ratelimitly zone=all; empty_gif; }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c01_a_fresh_worker_admits_once_the_servers_are_known() {
    let [open, close] =
        UNANSWERED.map(|(fail, unanswered)| admits_once_the_servers_are_known(fail, unanswered));
    tokio::join!(open, close);
}

async fn admits_once_the_servers_are_known(fail: &str, unanswered: u16) {
    let dev = Dev::start().await;
    // Two lookups, one after the other: longer than the horizon of 1.8 s, and long before the end of the next one.
    dev.dns_fault(DnsFault::Delay { ms: 1100 }).await;
    let nginx = Nginx::builder(COLD).dev(&dev).set("fail", fail).set("unit", "600ms").start().await;

    let mut asked = 0;
    eventually_some(Duration::from_secs(10), "an allow", async || {
        let status = http::get(nginx.port(), "/").await.status;
        asked += 1;
        let logged = nginx.await_access_log(asked).await;
        let allowed = logged[asked - 1].starts_with("200 allow");
        assert_eq!(status, if allowed { 200 } else { unanswered });
        allowed.then_some(())
    })
    .await;

    assert!(asked > 1, "the first request came before the servers were known");
    assert_eq!(dev.admissions().len(), 1);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c27_the_first_request_waits_for_the_servers() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        dev.dns_fault(DnsFault::Delay { ms: 5 }).await;
        let nginx = Nginx::builder(COLD).dev(&dev).set("fail", fail).set("unit", "600ms").start().await;

        assert_eq!(http::get(nginx.port(), "/").await.status, 200);

        // A verdict after the horizon would be none, so the allow came within it.
        assert_eq!(nginx.await_access_log(1).await, ["200 allow \"GET / HTTP/1.1\""]);
        assert_eq!(dev.admissions().len(), 1);
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c28_the_first_request_waits_for_silent_dns_as_long_as_its_horizon() {
    for (fail, unanswered) in UNANSWERED {
        let dev = Dev::start().await;
        dev.dns_fault(DnsFault::Silent).await;
        let nginx = Nginx::builder(COLD).dev(&dev).set("fail", fail).set("unit", "200ms").start().await;

        // A machine that stands still for a moment adds to one request's time, and not to each one's.
        let mut seconds = Vec::new();
        while seconds.len() < 8 && seconds.iter().all(|waited| *waited > 0.9) {
            assert_eq!(http::get(nginx.port(), "/").await.status, unanswered);
            let logged = nginx.await_access_log(seconds.len() + 1).await;
            assert_eq!(logged[seconds.len()], format!("{unanswered} - \"GET / HTTP/1.1\""));
            seconds = request_times(&nginx);
        }

        assert!(seconds.iter().all(|waited| *waited >= 0.3), "answered after {seconds:?} s");
        assert!(seconds.iter().any(|waited| *waited <= 0.9), "answered after {seconds:?} s");
        assert!(dev.requests().is_empty());
        nginx.finish().await;
    }
}

const RESOLVERS: &str = r#"
    ratelimitly_auth_key {key};
    ratelimitly_dns_srv {zone};
    ratelimitly_policy standard unit={unit};
    ratelimitly_fail {fail};
    ratelimitly_zone all "bucket=all" rate=1000r/s;
    resolver {dns};
    resolver_timeout 1s;

    server {
        listen 127.0.0.1:{port};
        location / {
            resolver {dead};
            resolver_timeout 29s;
            ratelimitly zone=all;
            empty_gif;
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn c14_a_locations_resolver_does_not_matter() {
    for fail in POLICIES {
        let dev = Dev::start().await;
        let dead = UdpSocket::bind("127.0.0.1:0").expect("a socket that never answers");
        let nginx = with_dead_resolver(&dev, &dead, fail).await;

        assert_eq!(http::get(nginx.port(), "/").await.status, 200);

        assert_eq!(nginx.await_access_log(1).await, ["200 allow \"GET / HTTP/1.1\""]);
        assert_eq!(dev.admissions().len(), 1);
        dead.set_nonblocking(true).expect("a look without waiting");
        assert!(dead.recv(&mut [0; 512]).is_err(), "the location's resolver was asked");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c14_the_http_contexts_resolver_timeout_ends_a_discovery() {
    for (fail, unanswered) in UNANSWERED {
        let dev = Dev::start().await;
        dev.dns_fault(DnsFault::Silent).await;
        let dead = UdpSocket::bind("127.0.0.1:0").expect("a socket that never answers");
        let nginx = with_dead_resolver(&dev, &dead, fail).await;

        assert_eq!(http::get(nginx.port(), "/").await.status, unanswered);

        nginx.await_log_line(r"ratelimitly: discovery failed: .* within 1000 ms").await;
        nginx.finish().await;
    }
}

async fn with_dead_resolver(dev: &Dev, dead: &UdpSocket, fail: &str) -> Nginx {
    let dead = dead.local_addr().expect("a bound socket has an address");
    let builder = Nginx::builder(RESOLVERS).dev(dev).set("fail", fail).set("dead", dead);
    builder.set("unit", "600ms").start().await
}

/// nginx's own measure of each of its requests, in seconds.
fn request_times(nginx: &Nginx) -> Vec<f64> {
    let seconds = |line: String| line.parse().expect("a number of seconds");
    log::lines(&nginx.prefix().join("timed.log")).into_iter().map(seconds).collect()
}

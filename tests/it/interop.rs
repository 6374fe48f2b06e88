//! The official client and nginx against one development server: they name the same buckets and the same trackers, so
//! each sees what the other has taken and reported.

use ratelimitly::{Client, Decision, LatencyTracker, RequestPolicy, Resource};
use ratelimitly_core::key::KeyKind;
use ratelimitly_harness::{Answer, Dev, Nginx, Upstream, http, key};
use std::time::Duration;

/// Five tokens an hour; a guard that closes at 100 ms.
const CHECKOUT: &str = r#"
    {usual}
    ratelimitly_zone checkout "bucket=checkout" rate=5r/1h;
    ratelimitly_tracker inventory "service=inventory" ttl=60s max_samples=8 min_sample_threshold=2;
    ratelimitly_guard responsive tracker=inventory threshold=100ms;

    server {
        listen 127.0.0.1:{port};
        location /checkout { ratelimitly zone=checkout; empty_gif; }
        location /inventory { ratelimitly guard=responsive; empty_gif; }
        location /measured { ratelimitly_report inventory; proxy_pass http://{upstream}; }
    }
"#;

/// The zone's bucket as the client names it.
fn checkout() -> Resource {
    Resource::new("checkout", Duration::from_secs(3600), 5).expect("a resource")
}

/// The tracker as the client names it.
fn inventory() -> LatencyTracker {
    let tracker = LatencyTracker::builder("inventory").sample_ttl(Duration::from_secs(60));
    tracker.max_samples(8).min_samples(2).build().expect("a tracker")
}

async fn dev(kind: KeyKind) -> Dev {
    Dev::with(|config| config.key(key(kind))).await
}

async fn nginx(dev: &Dev, fail: &str, upstream: &str) -> Nginx {
    Nginx::builder(CHECKOUT).dev(dev).set("fail", fail).set("upstream", upstream).warm().await
}

/// A client that finds the servers where nginx finds them.
async fn client(dev: &Dev) -> Client {
    let policy = RequestPolicy::builder().unit(Duration::from_millis(600)).build().expect("a policy");
    let builder = Client::builder(dev.key().parse().expect("a key of the client's own format"));
    let builder = builder.service_domain(dev.zone()).expect("a domain").dns_server(dev.dns_addr());
    builder.request_policy(policy).build().await.expect("the client finds the servers")
}

/// Takes one token with the client.
async fn take(client: &Client) -> Decision {
    let request = client.request().consume(&checkout(), 1).expect("a request");
    request.send().await.expect("a decision").decision()
}

/// The client's guard, alone.
async fn guarded(client: &Client) -> Decision {
    let request = client.request().guard(&inventory(), Duration::from_millis(100)).expect("a request");
    request.send().await.expect("a decision").decision()
}

#[tokio::test(flavor = "multi_thread")]
async fn client_and_nginx_share_a_limit() {
    for (kind, fail) in [(KeyKind::Aes, "open"), (KeyKind::Cookie, "close")] {
        let dev = dev(kind).await;
        let nginx = nginx(&dev, fail, "127.0.0.1:9").await;
        let client = client(&dev).await;

        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(take(&client).await);
        }
        let mut served = Vec::new();
        for _ in 0..2 {
            served.push(http::get(nginx.port(), "/checkout").await.status);
        }
        let refused = (take(&client).await, http::get(nginx.port(), "/checkout").await.status);

        assert_eq!(taken, [Decision::Granted; 3], "{kind:?}");
        assert_eq!(served, [200, 200], "{kind:?}");
        assert_eq!(refused, (Decision::Rejected, 429), "{kind:?}");
        assert_eq!(nginx.await_access_log(3).await[2], "429 deny \"GET /checkout HTTP/1.1\"");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn latencies_that_the_client_reports_close_nginxs_guard() {
    for (kind, fail) in [(KeyKind::Aes, "close"), (KeyKind::Cookie, "open")] {
        let dev = dev(kind).await;
        let nginx = nginx(&dev, fail, "127.0.0.1:9").await;
        let client = client(&dev).await;

        let before = http::get(nginx.port(), "/inventory").await.status;
        for ms in [150, 120] {
            client.report_latency(&inventory(), Duration::from_millis(ms)).await.expect("sent");
        }
        dev.await_reports("two at each of three servers", |reports| reports.len() == 6).await;
        let after = http::get(nginx.port(), "/inventory").await.status;

        assert_eq!((before, after), (200, 429), "{kind:?}");
        assert_eq!(nginx.await_access_log(2).await[1], "429 deny \"GET /inventory HTTP/1.1\"");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn latencies_that_nginx_reports_close_the_clients_guard() {
    let dev = dev(KeyKind::Aes).await;
    let upstream = Upstream::start(|_| Answer::Late(Duration::from_millis(150), 200, "slow".into())).await;
    let nginx = nginx(&dev, "close", &upstream.address().to_string()).await;
    let client = client(&dev).await;

    let before = guarded(&client).await;
    for _ in 0..2 {
        assert_eq!(http::get(nginx.port(), "/measured").await.status, 200);
    }
    dev.await_reports("two at each of three servers", |reports| reports.len() == 6).await;
    let after = guarded(&client).await;

    assert_eq!((before, after), (Decision::Granted, Decision::Rejected));
    nginx.finish().await;
}

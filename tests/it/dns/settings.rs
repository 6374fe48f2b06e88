//! Where nameservers and their settings come from: the module's own directive, the http block's `resolver`, the system.

use super::{RECOVERY, status};
use ratelimitly_devserver::{Command, Config};
use ratelimitly_harness::{Builder, Dev, Nginx, eventually_some};
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

const CONFIGURATION: &str = r#"
    ratelimitly_auth_key {key};
    ratelimitly_dns_srv {zone};
    {resolvers}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_fail close;
    ratelimitly_zone dns "bucket=dns" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=dns; empty_gif; }
    }
"#;

fn with(dev: &Dev, resolvers: &str) -> Builder {
    let resolvers = resolvers.replace("DNS", &dev.dns_addr().to_string());
    let resolvers = resolvers.replace("HOST", &format!("localhost:{}", dev.dns_addr().port()));
    Nginx::builder(CONFIGURATION).dev(dev).set("resolvers", resolvers)
}

/// Records that live for minutes.
async fn lasting() -> Dev {
    let dev = Dev::single().await;
    dev.apply(Command::Ttl { seconds: 280 }).await.expect("a TTL");
    dev
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_replaces_the_records_times_to_live() {
    for resolvers in [
        "resolver DNS valid=1s;",
        "ratelimitly_dns_resolver DNS valid=1s;",
        "resolver 127.0.0.1:9 valid=250s; ratelimitly_resolver DNS valid=1s;",
        "resolver 127.0.0.1:9 valid=1s; ratelimitly_dns_resolver DNS;",
    ] {
        let dev = lasting().await;
        let nginx = with(&dev, resolvers).start().await;
        eventually_some(RECOVERY, format!("a refresh with {resolvers}"), async || {
            assert_eq!(status(&nginx).await, 200);
            (dev.dns_counts().srv > 1).then_some(())
        })
        .await;
        nginx.finish().await;
    }
}

/// The other way round: the records live for one second, and `valid=` makes them last.
#[tokio::test(flavor = "multi_thread")]
async fn valid_makes_short_lived_records_last() {
    let dev = Dev::single().await;
    let mortal = with(&dev, "ratelimitly_dns_resolver DNS;").start().await;
    let lasting = with(&dev, "ratelimitly_dns_resolver DNS valid=250s;").start().await;
    assert_eq!((status(&mortal).await, status(&lasting).await), (200, 200));
    mortal.finish().await;
    let before = dev.dns_counts().srv;

    // A worker beside it shows that the records' own time is over.
    let other = with(&dev, "ratelimitly_dns_resolver DNS;").start().await;
    let refreshes = eventually_some(RECOVERY, "refreshes of the other worker", async || {
        assert_eq!((status(&other).await, status(&lasting).await), (200, 200));
        Some(other.log_lines("_ratelimitly._udp").len()).filter(|_| dev.dns_counts().srv >= before + 3)
    })
    .await;

    other.finish().await;
    let at_rest = dev.dns_counts().srv;
    assert_eq!(status(&lasting).await, 200);
    assert_eq!(dev.dns_counts().srv, at_rest, "no refresh of its own, {refreshes}");
    lasting.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_modules_own_resolver_comes_before_that_of_the_http_block() {
    let dev = Dev::single().await;
    let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let resolvers =
        format!("resolver {}; ratelimitly_dns_resolver DNS;", other.local_addr().expect("an address"));
    let nginx = with(&dev, &resolvers).start().await;

    assert_eq!(status(&nginx).await, 200);

    other.set_nonblocking(true).expect("a look without waiting");
    assert!(other.recv(&mut [0; 512]).is_err(), "the http block's resolver was asked");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_family_that_the_modules_own_resolver_drops_is_not_asked_for() {
    let v4 = Dev::single().await;
    let nginx = with(&v4, "resolver 127.0.0.1:9; ratelimitly_dns_resolver DNS ipv6=off;").start().await;
    assert_eq!(status(&nginx).await, 200);
    assert_eq!((v4.dns_counts().a > 0, v4.dns_counts().aaaa), (true, 0));
    nginx.finish().await;

    let v6 = Dev::with(|mut config: Config| {
        config.listen = (Ipv6Addr::LOCALHOST, 0).into();
        config.servers(1)
    })
    .await;
    let nginx = with(&v6, "resolver 127.0.0.1:9 ipv6=off; ratelimitly_dns_resolver DNS ipv4=off ipv6=on;")
        .start()
        .await;
    assert_eq!(status(&nginx).await, 200);
    assert_eq!((v6.dns_counts().a, v6.dns_counts().aaaa > 0), (0, true));
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nameserver_may_be_a_host_that_the_system_knows() {
    let dev = Dev::single().await;
    let nginx = with(&dev, "ratelimitly_dns_resolver HOST;").start().await;
    assert_eq!(status(&nginx).await, 200);
    nginx.finish().await;
}

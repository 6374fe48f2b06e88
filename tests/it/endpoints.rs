//! Where datagrams go and where they come from: IPv4 and IPv6 members, addresses that cannot be sent to, the socket's
//! source address, members that change.

use crate::FAILURES;
use ratelimitly_devserver::{Command, DnsFault, Member};
use ratelimitly_harness::{Dev, Nginx, eventually_some, http};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const CONFIGURATION: &str = r#"
    ratelimitly_auth_key {key};
    ratelimitly_dns_srv {zone};
    {resolver}
    {bind}
    ratelimitly_policy standard unit=600ms;
    ratelimitly_fail {fail};
    ratelimitly_zone endpoints "bucket=endpoints" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=endpoints; empty_gif; }
    }
"#;

/// A server id that no server of the first fleet has.
const FOREIGN: u64 = 999 << 23;

struct Case<'a> {
    bind: &'a str,
    fail: &'a str,
}

const PLAIN: Case<'static> = Case { bind: "", fail: "close" };

impl Case<'_> {
    async fn start(&self, dev: &Dev) -> Nginx {
        self.start_with(dev, &format!("ratelimitly_dns_resolver {};", dev.dns_addr())).await
    }

    async fn start_with(&self, dev: &Dev, resolver: &str) -> Nginx {
        let builder = Nginx::builder(CONFIGURATION).dev(dev).set("resolver", resolver);
        builder.set("bind", self.bind).set("fail", self.fail).start().await
    }
}

async fn status(nginx: &Nginx) -> u16 {
    http::get(nginx.port(), "/").await.status
}

/// A server whose only address in DNS is this one.
async fn single_at(address: SocketAddr) -> Dev {
    let dev = Dev::single().await;
    let remove = dev.servers().iter().map(|server| server.id).collect();
    let add = vec![Member { id: FOREIGN, address: Some(address) }];
    dev.apply(Command::Members { remove, add }).await.expect("members can be changed");
    dev
}

async fn on_ipv6(ids: &[u64]) -> Dev {
    Dev::with(|mut config| {
        config.listen = (Ipv6Addr::LOCALHOST, 0).into();
        config.server_ids(ids.to_vec())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn o19_a_member_of_a_family_that_the_socket_lacks_is_a_failure_to_send() {
    cannot_be_sent_to((Ipv6Addr::LOCALHOST, 9).into()).await;
}

/// The kernel lets nothing go from 127.0.0.1 to an address that is not of this machine.
#[tokio::test(flavor = "multi_thread")]
async fn o19_an_address_that_the_kernel_refuses_is_a_failure_to_send() {
    cannot_be_sent_to((Ipv4Addr::new(192, 0, 2, 1), 9).into()).await;
}

/// As part of a pattern: an IPv6 address is in brackets.
fn escaped(address: SocketAddr) -> String {
    address.to_string().replace('[', r"\[").replace(']', r"\]")
}

async fn cannot_be_sent_to(address: SocketAddr) {
    for (fail, expected) in FAILURES {
        let dev = single_at(address).await;
        let nginx = Case { bind: "ratelimitly_bind 127.0.0.1;", fail }.start(&dev).await;

        assert_eq!(status(&nginx).await, expected, "fail {fail}");

        nginx.await_log_line("admission failure=send").await;
        let named = format!(
            r"\[warn\].*sending to a server's address failed: {}: .+; \d+ sends so far",
            escaped(address)
        );
        nginx.await_log_line(&named).await;
        assert!(nginx.await_access_log(1).await[0].starts_with(&format!("{expected} - ")));
        assert!(dev.requests().is_empty());
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_cannot_be_sent_to_does_not_hurt_the_others() {
    let dev = Dev::start().await;
    let unreachable = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let oldest = dev.servers()[0].id;
    let extra = DnsFault::ExtraAddresses { server: oldest, addresses: unreachable.to_vec() };
    dev.dns_fault(extra).await;
    let foreign = Member { id: 1, address: Some((Ipv4Addr::new(192, 0, 2, 2), 9).into()) };
    dev.apply(Command::Members { remove: vec![], add: vec![foreign] }).await.expect("a member can be added");
    let nginx = Case { bind: "ratelimitly_bind 127.0.0.1;", ..PLAIN }.start(&dev).await;

    assert_eq!(status(&nginx).await, 200);

    assert!(nginx.await_access_log(1).await[0].starts_with("200 allow "));
    let all = dev.servers().len();
    dev.await_requests("every server that can be reached is asked", |seen| {
        seen.iter().filter(|event| event.copy == 1).count() == all
    })
    .await;
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ipv6_members_are_asked_over_ipv6() {
    let dev = on_ipv6(&[1_015_809, FOREIGN]).await;
    let nginx = PLAIN.start(&dev).await;

    assert_eq!(status(&nginx).await, 200);

    let seen = dev.await_requests("both servers are asked", |seen| seen.len() >= 2).await;
    assert!(seen.iter().all(|event| event.source_ip == IpAddr::V6(Ipv6Addr::LOCALHOST)), "{seen:#?}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_both_families_are_asked_from_one_socket() {
    let v4 = Dev::single().await;
    let v6 = on_ipv6(&[FOREIGN]).await;
    let add = vec![Member { id: FOREIGN, address: Some(v6.servers()[0].addr) }];
    v4.apply(Command::Members { remove: vec![], add }).await.expect("a member can be added");
    let nginx = PLAIN.start(&v4).await;

    // A cold worker may use the first family before it knows the other one.
    let (over_v4, over_v6) =
        eventually_some(Duration::from_secs(10), "a request to both servers", async || {
            v4.clear_events();
            v6.clear_events();
            assert_eq!(status(&nginx).await, 200);
            let (over_v4, over_v6) = (v4.requests(), v6.requests());
            (!over_v4.is_empty() && !over_v6.is_empty()).then_some((over_v4, over_v6))
        })
        .await;

    assert_eq!(over_v4[0].request_id, over_v6[0].request_id);
    assert_eq!(over_v4[0].source_ip.to_canonical(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(over_v4[0].source_port, over_v6[0].source_port);
    assert_eq!(nginx.only_udp_socket().await.port, over_v4[0].source_port);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_family_that_the_resolver_drops_is_not_asked_for() {
    let v4 = Dev::single().await;
    let v6 = on_ipv6(&[FOREIGN]).await;
    let add = vec![Member { id: FOREIGN, address: Some(v6.servers()[0].addr) }];
    v4.apply(Command::Members { remove: vec![], add }).await.expect("a member can be added");
    let nginx = PLAIN.start_with(&v4, &format!("resolver {} ipv6=off;", v4.dns_addr())).await;

    assert_eq!(status(&nginx).await, 200);

    assert_eq!(v4.dns_counts().aaaa, 0);
    assert!(v4.dns_counts().a > 0);
    assert!(v6.requests().is_empty());
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ratelimitly_bind_sets_the_source_address() {
    let dev = Dev::start().await;
    let nginx = Case { bind: "ratelimitly_bind 127.0.0.2;", ..PLAIN }.start(&dev).await;

    assert_eq!(status(&nginx).await, 200);

    let seen = dev.await_requests("the servers are asked", |seen| seen.len() >= 3).await;
    assert!(seen.iter().all(|event| event.source_ip == IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))));
    assert!(!nginx.only_udp_socket().await.ipv6);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ratelimitly_bind_takes_an_ipv6_address() {
    let dev = on_ipv6(&[FOREIGN]).await;
    let nginx = Case { bind: "ratelimitly_bind ::1;", ..PLAIN }.start(&dev).await;

    assert_eq!(status(&nginx).await, 200);

    assert_eq!(dev.requests()[0].source_ip, IpAddr::V6(Ipv6Addr::LOCALHOST));
    assert!(nginx.only_udp_socket().await.ipv6);
    nginx.finish().await;
}

/// The zone's records live for one second.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_change_are_followed_without_losing_a_request() {
    let dev = Dev::start().await;
    let nginx = PLAIN.start(&dev).await;
    assert_eq!(status(&nginx).await, 200);
    let [first, second, third] = [0, 1, 2].map(|place| dev.servers()[place].id);

    let change = Command::Members { remove: vec![first, second], add: vec![FOREIGN.into()] };
    dev.apply(change).await.expect("members can be changed");

    eventually_some(Duration::from_secs(10), "only the new members are asked", async || {
        dev.clear_events();
        assert_eq!(status(&nginx).await, 200);
        let mut asked: Vec<u64> = dev.requests().iter().map(|seen| seen.server).collect();
        asked.sort_unstable();
        asked.dedup();
        (asked == [third, FOREIGN]).then_some(())
    })
    .await;
    let lines = nginx.log_lines("ratelimitly: members of .* are now");
    assert_eq!(lines.len(), 2, "one line for each membership: {lines:#?}");
    assert!(lines[1].contains(&format!("{FOREIGN} at ")), "{}", lines[1]);
    assert!(nginx.access_log().iter().all(|line| line.starts_with("200 allow ")));
    nginx.finish().await;
}

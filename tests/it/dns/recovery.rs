//! DNS that fails in part: which servers a worker keeps or gets, and how soon it is whole again.

use super::{RECOVERY, builder, next_discovery, recovers, start, status};
use ratelimitly_devserver::{AddressAnswer, Command, DnsFault, Family, NoEdnsCode, Servers};
use ratelimitly_harness::{Dev, Nginx, eventually_some, http};
use std::time::{Duration, Instant};

/// Much longer than a test: what is not repeated sooner than this is not repeated.
const LONG_TTL_S: u32 = 280;

fn lookups(servers: impl Into<Servers>, family: Option<Family>, answer: AddressAnswer) -> DnsFault {
    DnsFault::Addresses { servers: servers.into(), family, answer }
}

/// Waits for a request that reaches exactly these servers. What the last one reaches may be recorded after its answer.
async fn reaches(dev: &Dev, nginx: &Nginx, patience: Duration, servers: &[u64]) {
    eventually_some(patience, format!("a request that reaches {servers:?}"), async || {
        dev.clear_events();
        assert_eq!(status(nginx).await, 200);
        let mut reached: Vec<u64> = dev.requests().iter().map(|seen| seen.server).collect();
        reached.sort_unstable();
        reached.dedup();
        (reached == servers).then_some(())
    })
    .await;
}

fn ids(dev: &Dev) -> Vec<u64> {
    dev.servers().iter().map(|server| server.id).collect()
}

/// Three servers are known, a refresh gets SERVFAIL for the addresses of two, then the third server goes down.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_address_lookup_does_not_lose_a_server() {
    let dev = Dev::start().await;
    let nginx = start(&dev, "close").await;
    assert_eq!(status(&nginx).await, 200);
    let [first, second, third] = [0, 1, 2].map(|place| dev.servers()[place].id);

    dev.dns_fault(lookups([first, second], Some(Family::A), AddressAnswer::ServFail)).await;
    eventually_some(RECOVERY, "a refresh that is partial", async || {
        assert_eq!(status(&nginx).await, 200);
        (!nginx.log_lines(r"\[warn\].*is partial; s-\d+: A: the nameserver answered").is_empty())
            .then_some(())
    })
    .await;
    dev.apply(Command::Down { servers: third.into() }).await.expect("a server can be closed");

    for _ in 0..3 {
        assert_eq!(status(&nginx).await, 200);
        next_discovery(&dev, &nginx).await;
    }
    assert!(nginx.access_log().iter().all(|line| line.starts_with("200 allow ")));
    nginx.finish().await;
}

/// The records live for minutes, but what could not be found out is asked for again after five seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_lacks_a_server_looks_for_it_again_after_five_seconds() {
    let dev = Dev::with(|config| config.servers(3)).await;
    dev.apply(Command::Ttl { seconds: LONG_TTL_S }).await.expect("a TTL");
    let [first, second, third] = [0, 1, 2].map(|place| dev.servers()[place].id);
    dev.dns_fault(lookups([first, second], Some(Family::A), AddressAnswer::ServFail)).await;
    let nginx = start(&dev, "close").await;
    reaches(&dev, &nginx, RECOVERY, &[third]).await;
    let lacking = Instant::now();

    dev.clear_dns().await;

    reaches(&dev, &nginx, Duration::from_secs(30), &[first, second, third]).await;
    assert!(lacking.elapsed() >= Duration::from_secs(4), "repeated after {:?}", lacking.elapsed());
    assert_eq!(dev.dns_counts().srv, 2);
    nginx.finish().await;
}

/// The worker's first request gets its verdict within its horizon, long before the discovery ends.
#[tokio::test(flavor = "multi_thread")]
async fn neither_a_dead_target_nor_dropped_aaaa_keeps_a_cold_worker_without_servers() {
    for (oldest, family) in [(true, None), (false, Some(Family::Aaaa))] {
        let dev = Dev::start().await;
        let servers = if oldest { dev.servers()[0].id.into() } else { Servers::All };
        dev.dns_fault(lookups(servers, family, AddressAnswer::Silent)).await;
        let nginx = start(&dev, "close").await;

        assert_eq!(status(&nginx).await, 200, "{family:?}");

        assert_eq!(nginx.await_access_log(1).await, ["200 allow \"GET / HTTP/1.1\""]);
        assert_eq!(dev.dns_counts().srv, 1, "the first discovery gave the servers");
        assert!(nginx.log_lines("discovery failed").is_empty());
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cold_workers_discovery_finds_later_is_added() {
    let dev = Dev::start().await;
    let all = ids(&dev);
    dev.dns_fault(lookups(all[0], None, AddressAnswer::Silent)).await;
    let nginx = start(&dev, "close").await;
    reaches(&dev, &nginx, RECOVERY, &all[1..]).await;

    dev.clear_dns().await;

    reaches(&dev, &nginx, RECOVERY, &all).await;
    assert_eq!(dev.dns_counts().srv, 1, "it is the same discovery");
    nginx.finish().await;
}

/// More dead targets than lookups are under way at a time: they make room for the others.
#[tokio::test(flavor = "multi_thread")]
async fn many_dead_targets_do_not_keep_a_cold_worker_without_servers() {
    let dev = Dev::with(|config| config.servers(16)).await;
    let dead = Servers::Only(ids(&dev)[..12].to_vec());
    dev.dns_fault(lookups(dead, None, AddressAnswer::Silent)).await;
    let nginx = start(&dev, "close").await;

    recovers(&nginx).await;

    assert_eq!(dev.dns_counts().srv, 1, "the first discovery gave the servers");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nameserver_from_before_edns_is_asked_without_it_from_then_on() {
    for (code, bare) in
        [(NoEdnsCode::FormErr, true), (NoEdnsCode::FormErr, false), (NoEdnsCode::NotImp, true)]
    {
        let dev = Dev::single().await;
        dev.dns_fault(DnsFault::NoEdns { code, bare }).await;
        let nginx = start(&dev, "close").await;

        assert_eq!(status(&nginx).await, 200, "{code:?}, bare: {bare}");

        assert_eq!(nginx.await_access_log(1).await, ["200 allow \"GET / HTTP/1.1\""]);
        let first = dev.dns_counts();
        assert_eq!((first.srv, first.a, first.aaaa), (2, 1, 1), "only the first query had EDNS");
        next_discovery(&dev, &nginx).await;
        assert_eq!(dev.dns_counts().srv, 3, "the next discovery knows it");
        nginx.finish().await;
    }
}

/// 64 servers with at most 256 addresses are asked, however many DNS lists; the log says once what is left out.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_servers_and_addresses_is_cut() {
    let dev = Dev::single().await;
    let port = dev.servers()[0].addr.port();
    let add = (1..=80).map(|id| ratelimitly_devserver::Member {
        id: 1000 + id,
        address: Some(([127, 0, 1, id as u8], port).into()),
    });
    dev.apply(Command::Members { remove: vec![], add: add.collect() }).await.expect("members can be added");
    for server in 1001..=1064 {
        let addresses = (1..=30).map(|last| [127, 0, 2, last].into()).collect();
        dev.dns_fault(DnsFault::ExtraAddresses { server, addresses }).await;
    }
    let nginx = builder(&dev, "open").set("nameservers", dev.dns_addr()).set("unit", "100ms").start().await;

    http::get(nginx.port(), "/").await;

    let said = nginx.await_log_line(r"\[error\].*DNS lists too much for ").await;
    assert!(said.contains("17 SRV records beyond the limit of 64 servers, "), "{said}");
    assert!(said.contains(" addresses beyond the limit of 16 a server and 256 in all"), "{said}");
    http::get(nginx.port(), "/").await;
    nginx.await_log_line("admission .* members=64 ").await;
    for _ in 0..2 {
        next_discovery(&dev, &nginx).await;
    }
    assert_eq!(nginx.log_lines("DNS lists too much").len(), 1, "the same set is told once");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_failed_discoveries_is_logged_with_their_number() {
    let dev = super::with_fault(DnsFault::ServFail).await;
    let nginx = start(&dev, "close").await;
    assert_eq!(status(&nginx).await, 429);
    nginx.await_log_line(r"\[error\].*ratelimitly: discovery failed: ").await;

    dev.clear_dns().await;
    recovers(&nginx).await;

    let end = nginx
        .await_log_line(r"\[error\].*ratelimitly: discovery succeeds again after .* failed discover")
        .await;
    assert!(end.contains(", the last one "), "{end}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_exits_while_discovery_fails_says_so() {
    let dev = super::with_fault(DnsFault::ServFail).await;
    let mut nginx = start(&dev, "close").await;
    assert_eq!(status(&nginx).await, 429);
    dev.clear_dns().await;
    nginx.quit().await;
    let lines =
        nginx.log_lines(r"\[error\].*ratelimitly: this worker exits during an outage: \d+ failed discover");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_every_priority_are_asked() {
    let dev = Dev::start().await;
    let nginx = start(&dev, "close").await;
    reaches(&dev, &nginx, RECOVERY, &ids(&dev)).await;
    nginx.finish().await;
}

//! Endpoints that answer with ICMP, a partition, a socket whose send buffer is full, a machine without IPv6.

use crate::FAILURES;
use crate::pressure::namespace::{self, entered};
use crate::pressure::{apply, builder, clear, silence, skip, status, warm};
use ratelimitly_devserver::{Command, DnsFault, FaultKind};
use ratelimitly_harness::{Dev, Nginx, eventually_some, h2, http};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server whose socket is closed: the kernel answers with a port unreachable, which the worker's one socket gets to see.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_endpoints_that_is_unreachable_costs_no_request() {
    let dev = Dev::restartable(3).await;
    let nginx = warm(&dev, "close").await;
    let newest = dev.servers()[2].id;
    let before = nginx.log_lines("ratelimitly: ").len();
    apply(&dev, Command::Down { servers: newest.into() }).await;

    for _ in 0..50 {
        assert_eq!(status(&nginx).await, 200);
    }

    assert!(nginx.await_access_log(50).await.iter().all(|line| line.starts_with("200 allow ")));
    let said = nginx.log_lines("ratelimitly: ").len() - before;
    assert!(said <= 2, "the log grows with the requests: {:#?}", nginx.log_lines("ratelimitly: "));
    nginx.finish().await;
}

/// Neither servers nor DNS for 30 seconds; then the same worker admits again.
#[tokio::test(flavor = "multi_thread")]
async fn a_partition_of_30_seconds_ends_with_the_same_worker_at_work() {
    let dev = Dev::start().await;
    let nginx = warm(&dev, "close").await;
    let worker = nginx.worker_pid();
    silence(&dev).await;
    apply(&dev, Command::Dns { fault: DnsFault::Silent }).await;

    let parted = Instant::now();
    let mut refused = 0;
    while parted.elapsed() < Duration::from_secs(30) {
        assert_eq!(status(&nginx).await, 429);
        refused += 1;
    }
    assert!(nginx.await_access_log(refused).await.iter().all(|line| line.starts_with("429 - ")));

    clear(&dev, vec![FaultKind::Silent]).await;
    apply(&dev, Command::ClearDns { faults: vec![] }).await;
    eventually_some(PATIENCE, "an admission", async || (status(&nginx).await == 200).then_some(())).await;
    assert_eq!(nginx.worker_pid(), worker);
    nginx.finish().await;
}

const NO_IPV6: &str =
    "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && echo 1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6";

#[tokio::test(flavor = "multi_thread")]
async fn without_ipv6_on_the_machine_ipv4_members_are_asked() {
    if !entered("network::without_ipv6_on_the_machine_ipv4_members_are_asked", NO_IPV6) {
        return;
    }
    assert!(std::net::UdpSocket::bind("[::1]:0").is_err(), "IPv6 still works in the namespace");
    let dev = Dev::start().await;
    // The member's IPv6 address cannot be sent to, its IPv4 address can.
    let addresses = vec!["::1".parse().expect("an address")];
    apply(&dev, Command::Dns { fault: DnsFault::ExtraAddresses { server: dev.servers()[0].id, addresses } })
        .await;
    let nginx = builder(&dev, "close").start().await;

    for _ in 0..10 {
        assert_eq!(status(&nginx).await, 200);
    }

    assert!(nginx.await_access_log(10).await.iter().all(|line| line.starts_with("200 allow ")));
    nginx.finish().await;
}

/// Requests at once. The server has sixteen addresses, so that their datagrams, held back by the loopback's queue, are more
/// than a send buffer of 8 MiB holds.
const CROWD: usize = 600;
const MORE_ADDRESSES: u8 = 15;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_send_buffer_is_a_failure_to_send_and_never_blocks() {
    const NAME: &str = "network::a_full_send_buffer_is_a_failure_to_send_and_never_blocks";
    if !entered(NAME, "true") {
        return;
    }
    for (fail, expected) in FAILURES {
        let dev = with_more_addresses().await;
        let nginx = Nginx::builder(STREAMS).dev(&dev).set("fail", fail).log_level("info").warm().await;
        if let Err(reason) = slow_down() {
            return skip(NAME, &format!("the loopback cannot be slowed down: {reason}"));
        }
        let crowd = tokio::spawn(crowd(nginx.named_port("port_h2")));
        nginx.await_log_line("sending to a server's address failed").await;

        // A machine that stands still for a moment may cost one of three its time.
        let mut health = vec![time_of_a_health_request(&nginx).await];
        while health.len() < 3 && !crowd.is_finished() {
            health.push(time_of_a_health_request(&nginx).await);
        }

        crowd.await.expect("the clients end");
        let log = nginx.await_access_log(CROWD + health.len()).await;
        let failed = log.iter().filter(|line| line.starts_with(&format!("{expected} - \"GET /"))).count();
        let allowed = log.iter().filter(|line| line.starts_with("200 allow ")).count();
        assert_eq!(failed + allowed, CROWD, "fail {fail}: {log:#?}");
        assert!(failed > CROWD / 2, "the buffer was not full: {allowed} requests were allowed");
        let quick = health.iter().any(|took| *took < Duration::from_secs(1));
        assert!(quick, "health requests took {health:?}");
        namespace::run(&mut tc(&["qdisc", "del", "dev", "lo", "root"])).expect("the queue can be removed");
        eventually_some(PATIENCE, "an admission", async || {
            let answered = http::get(nginx.port(), "/").await;
            (answered.header("x-verdict") == Some("allow")).then_some(())
        })
        .await;
        nginx.finish().await;
    }
}

async fn time_of_a_health_request(nginx: &Nginx) -> Duration {
    let asked = Instant::now();
    assert_eq!(http::get(nginx.port(), "/health").await.status, 204);
    asked.elapsed()
}

const STREAMS: &str = r#"
    {usual}
    ratelimitly_zone pressure "bucket=pressure" rate=100000r/s;

    server {
        listen 127.0.0.1:{port};
        listen 127.0.0.1:{port_h2}{http2};
        add_header X-Verdict $ratelimitly_verdict always;
        ratelimitly_label "$request_uri and some more, so that a few hundred datagrams are many bytes";
        location / { ratelimitly zone=pressure; empty_gif; }
        location /health { return 204; }
    }
"#;

/// A server with more addresses, at which nothing listens.
async fn with_more_addresses() -> Dev {
    let dev = Dev::single().await;
    let addresses = (0..MORE_ADDRESSES).map(|n| [127, 0, 1, n + 1].into()).collect();
    let fault = DnsFault::ExtraAddresses { server: dev.servers()[0].id, addresses };
    apply(&dev, Command::Dns { fault }).await;
    dev
}

/// UDP datagrams leave the loopback at 8 kbit/s; they wait in a queue meanwhile, charged to the sender's buffer.
fn slow_down() -> Result<(), String> {
    let filter =
        ["filter", "add", "dev", "lo", "parent", "1:", "protocol", "ip", "prio", "1", "u32", "match", "ip"];
    let slow = [&filter[..], &["protocol", "17", "0xff", "flowid", "1:2"]].concat();
    // The queue itself drops nothing.
    let queue = ["qdisc", "add", "dev", "lo", "parent", "1:2", "handle", "2:", "pfifo", "limit", "100000"];
    namespace::run(&mut tc(&["qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb", "default", "1"]))?;
    let class =
        |id, rate| tc(&["class", "add", "dev", "lo", "parent", "1:", "classid", id, "htb", "rate", rate]);
    namespace::run(&mut class("1:1", "10gbit"))?;
    namespace::run(&mut class("1:2", "8kbit"))?;
    namespace::run(&mut tc(&queue))?;
    namespace::run(&mut tc(&slow))
}

fn tc(arguments: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new("tc");
    command.args(arguments);
    command
}

/// Many requests at once, as streams of some connections; each gets an answer.
async fn crowd(port: u16) {
    let mut connections = Vec::new();
    let mut streams = Vec::new();
    for place in 0..CROWD {
        if place % 100 == 0 {
            connections.push(h2::Connection::connect(port).await.expect("nginx accepts"));
        }
        let connection = connections.last_mut().expect("one was just made");
        // Each of another length than those around it, so that no two share a message and its place in the buffer.
        let path = format!("/{}", "x".repeat(place % 100));
        streams.push(connection.get(&path).await.expect("a stream"));
    }
    for stream in streams {
        stream.response().await.expect("an answer");
    }
}

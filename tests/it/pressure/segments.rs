//! Datagrams of one length to one server share a message to the kernel, where the kernel can segment it, and do not where it
//! cannot. Both in a namespace of their own, whose counters count nothing else.

use crate::pressure::builder;
use crate::pressure::namespace::entered;
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx};
use rustix::process::Signal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Requests that reach the worker in one event-loop iteration.
const REQUESTS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_turn_to_one_server_are_one_message() {
    if !entered("segments::requests_of_one_turn_to_one_server_are_one_message", "true") {
        return;
    }
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let dev = Dev::with(|mut config| {
            config.listen = (address, 0).into();
            config.servers(1)
        })
        .await;
        let nginx = patient(&dev).await;

        // The worker's own and a few of DNS; each answer is a message of the server. Requests that a machine at a standstill
        // lets be replayed, or that do not reach the worker in one turn, are more; not each time.
        let most = REQUESTS + REQUESTS / 2;
        let mut messages = Vec::new();
        while messages.len() < 3 && messages.iter().all(|count| *count >= most) {
            messages.push(all_at_once(&nginx, 200).await);
        }

        let shared = messages.iter().any(|count| *count < most);
        assert!(shared, "{address}: {messages:?} messages for {REQUESTS} requests and their answers");
        assert!(nginx.log_lines("cannot segment").is_empty());
        nginx.finish().await;
    }
}

/// The loopback takes packets of 100 bytes: a request alone is sent in fragments, and one that shares a message not at all.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_the_kernel_cannot_segment_are_sent_one_by_one() {
    const NAME: &str = "segments::requests_that_the_kernel_cannot_segment_are_sent_one_by_one";
    if !entered(NAME, "ip link set lo mtu 100") {
        return;
    }
    let dev = Dev::single().await;
    let nginx = patient(&dev).await;

    let messages = all_at_once(&nginx, 200).await;
    all_at_once(&nginx, 200).await;

    assert!(dev.admissions().len() >= 2 * REQUESTS, "each was asked about");
    assert!(messages >= 2 * REQUESTS, "{messages} messages for {REQUESTS} requests and their answers");
    let said = nginx.await_log_lines("the kernel cannot segment what is sent to 127.0.0.1:", 1).await;
    assert_eq!(said.len(), 1, "it is tried once: {said:#?}");
    assert!(nginx.log_lines("sending to a server's address failed").is_empty());
    nginx.finish().await;
}

/// What swallowed a message may do so again, so that a replay has one for itself.
#[tokio::test(flavor = "multi_thread")]
async fn replays_share_no_message() {
    if !entered("segments::replays_share_no_message", "true") {
        return;
    }
    let dev = Dev::single().await;
    let nginx = patient(&dev).await;
    dev.fault(Fault::Silent).await;

    // A worker that sleeps through a round rightly leaves its replays out; not each time.
    let mut messages = Vec::new();
    while messages.len() < 3 && messages.iter().all(|count| *count < REQUESTS) {
        messages.push(all_at_once(&nginx, 429).await);
    }

    let replayed = messages.iter().any(|count| *count >= REQUESTS);
    assert!(replayed, "{messages:?} messages, with a replay of each of {REQUESTS} requests");
    dev.clear([FaultKind::Silent]).await;
    nginx.finish().await;
}

/// An nginx that replays nothing for 600 ms.
async fn patient(dev: &Dev) -> Nginx {
    builder(dev, "close").set("unit", "600ms").log_level("info").warm().await
}

/// Asks once in each of several connections in one event-loop iteration; all get this status. Gives the number of UDP
/// messages that were sent meanwhile on this side and on the server's.
async fn all_at_once(nginx: &Nginx, status: u16) -> usize {
    let health = http::Request::get("/health").body(Default::default()).expect("a request");
    let mut connections = Vec::new();
    for _ in 0..REQUESTS {
        let mut connection = Raw::connect(nginx.port()).await.expect("nginx accepts");
        assert_eq!(connection.exchange(&health).await.expect("an answer").status, 204);
        connections.push(connection);
    }
    let before = messages_sent();

    nginx.signal(nginx.worker_pid(), Signal::STOP);
    for connection in &mut connections {
        connection.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n").await.expect("a request");
    }
    nginx.signal(nginx.worker_pid(), Signal::CONT);

    for connection in &mut connections {
        assert_eq!(connection.response().await.expect("an answer").status, status);
    }
    messages_sent() - before
}

/// Messages handed to UDP in this namespace, over IPv4 and IPv6, whatever they are segmented into.
fn messages_sent() -> usize {
    let read = |file: &str| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
        text.expect("the kernel counts what it sends")
    };
    over_ipv4(&read("snmp")).expect("a count over IPv4")
        + over_ipv6(&read("snmp6")).expect("a count over IPv6")
}

/// One row has the names, the next one the counts.
fn over_ipv4(text: &str) -> Option<usize> {
    let mut rows = text.lines().filter_map(|row| row.strip_prefix("Udp: "));
    let place = rows.next()?.split(' ').position(|name| name == "OutDatagrams")?;
    rows.next()?.split(' ').nth(place)?.parse().ok()
}

fn over_ipv6(text: &str) -> Option<usize> {
    text.lines().find_map(|row| row.strip_prefix("Udp6OutDatagrams"))?.trim().parse().ok()
}

//! More datagrams than the worker's receive queue holds, while the worker stands still: what the kernel drops is told in
//! the log with the kernel's own count, and costs no request its answer.

use crate::pressure::{clear, status, warm};
use ratelimitly_devserver::{Fault, FaultKind};
use ratelimitly_harness::{Dev, eventually, http};
use regex::Regex;
use rustix::process::Signal;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
/// Datagrams between two looks at the kernel's count.
const BURST: u32 = 500;
/// Far more of these bursts than the largest queue that the worker may get.
const BURSTS: u32 = 200;
const DROPPED: &str = r"\[warn\].* ratelimitly: the kernel dropped datagrams .* (\d+) so far";

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_how_many_datagrams_the_kernel_dropped_and_no_request_is_lost() {
    let dev = Dev::single().await;
    let nginx = warm(&dev, "open").await;
    assert_eq!(status(&nginx).await, 200);
    let (port, worker) = (dev.requests()[0].source_port, nginx.worker_pid());
    dev.fault(Fault::Hold).await;
    let http_port = nginx.port();
    let waiting = tokio::spawn(async move { http::get(http_port, "/").await.status });
    dev.await_requests("the second request is asked about", |seen| seen.len() > 1).await;

    nginx.signal(worker, Signal::STOP);
    overflow(port);
    let junk = dropped(port);
    clear(&dev, vec![FaultKind::Hold]).await;
    eventually(PATIENCE, "the held answer finds the queue full", || dropped(port) > junk).await;
    nginx.signal(worker, Signal::CONT);

    // Asked once more or let through by the failure policy, as the machine's pace has it.
    assert_eq!(waiting.await.expect("the client ends"), 200);
    assert_eq!(status(&nginx).await, 200);
    let allowed = || nginx.access_log().last().is_some_and(|line| line.starts_with("200 allow "));
    eventually(PATIENCE, "the next request has a verdict", allowed).await;
    let line = nginx.await_log_line(DROPPED).await;
    let told = Regex::new(DROPPED).expect("a pattern").captures(&line).expect("it matches")[1].parse();
    assert_eq!(told, Ok(dropped(port)), "{line}");
    nginx.finish().await;
}

/// A datagram carries the kernel's count of the moment at which it was queued, so none of those that arrived before the
/// queue was full tells of a drop.
#[tokio::test(flavor = "multi_thread")]
async fn drops_behind_the_last_datagram_are_told_without_a_further_one() {
    let dev = Dev::single().await;
    let nginx = warm(&dev, "open").await;
    assert_eq!(status(&nginx).await, 200);
    let (port, worker) = (dev.requests()[0].source_port, nginx.worker_pid());

    nginx.signal(worker, Signal::STOP);
    overflow(port);
    nginx.signal(worker, Signal::CONT);

    let line = nginx.await_log_line(DROPPED).await;
    let told = Regex::new(DROPPED).expect("a pattern").captures(&line).expect("it matches")[1].parse();
    assert_eq!(told, Ok(dropped(port)), "{line}");
    nginx.finish().await;
}

/// Sends junk to the port until the kernel has dropped some of it.
///
/// # Panics
/// It takes everything.
fn overflow(port: u16) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    for _ in 0..BURSTS {
        for _ in 0..BURST {
            let _ = socket.send_to(&[0x55; 150], (Ipv4Addr::LOCALHOST, port));
        }
        if dropped(port) > 0 {
            return;
        }
    }
    panic!("the queue of a worker that stands still takes {} datagrams", BURSTS * BURST);
}

/// How many datagrams the kernel dropped for want of room in this port's queue: the last column of its tables.
fn dropped(port: u16) -> u64 {
    let tables =
        ["/proc/net/udp", "/proc/net/udp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let address = format!(":{port:04X}");
    let of_port = |row: &&str| row.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&address));
    let rows = tables.iter().flat_map(|table| table.lines().filter(of_port));
    rows.filter_map(|row| row.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

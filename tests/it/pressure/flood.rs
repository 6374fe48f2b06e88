//! 50,000 datagrams a second of junk at the worker's port.

use crate::pressure::{status, warm};
use ratelimitly_harness::{Dev, Nginx, eventually, http};
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

const RATE: u64 = 50_000;
const LENGTH: Duration = Duration::from_secs(5);
/// Datagrams sent in one go, so that a sender need not wake up for each.
const BURST: u64 = 50;
/// What a health request may take, and how many times the quiet machine's figure where that is more.
const BOUND: Duration = Duration::from_millis(100);
const FACTOR: u32 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_50_000_datagrams_a_second_leaves_health_requests_quick() {
    let dev = Dev::single().await;
    let nginx = warm(&dev, "close").await;
    assert_eq!(status(&nginx).await, 200);
    let port = dev.requests()[0].source_port;
    let quiet = median(health(&nginx, Instant::now() + Duration::from_millis(300)).await);

    let flood = thread::spawn(move || flood(port));
    let took = health(&nginx, Instant::now() + LENGTH).await;
    let sent = flood.join().expect("the flood ends");

    let bound = BOUND.max(quiet * FACTOR);
    let (count, middle) = (took.len(), median(took));
    println!("{sent} datagrams; {count} health requests, median {middle:?}, without the flood {quiet:?}");
    assert!(sent > RATE, "a flood of {sent} datagrams is none");
    assert!(middle < bound, "health requests take {middle:?} within the flood, {quiet:?} without");
    assert_eq!(status(&nginx).await, 200);
    let allowed = || nginx.access_log().last().is_some_and(|line| line.starts_with("200 allow "));
    eventually(Duration::from_secs(20), "it was an allow that admitted", allowed).await;
    nginx.finish().await;
}

/// How long each of the requests took that were made one after the other until then.
async fn health(nginx: &Nginx, until: Instant) -> Vec<Duration> {
    let mut took = Vec::new();
    while Instant::now() < until {
        let asked = Instant::now();
        assert_eq!(http::get(nginx.port(), "/health").await.status, 204);
        took.push(asked.elapsed());
    }
    took
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[took.len() / 2]
}

/// Sends junk of a request's length at the rate, catching up where it fell behind; gives the number sent.
fn flood(port: u16) -> u64 {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let started = Instant::now();
    let mut sent = 0;
    while started.elapsed() < LENGTH {
        let due = started.elapsed().as_micros() as u64 * RATE / 1_000_000;
        if sent + BURST > due {
            thread::sleep(Duration::from_micros(500)); // paces the flood, which is looked at again
            continue;
        }
        for _ in 0..BURST {
            // A full queue drops the datagram, as it would a stranger's.
            let _ = socket.send_to(&[0x55; 150], (Ipv4Addr::LOCALHOST, port));
        }
        sent += BURST;
    }
    sent
}

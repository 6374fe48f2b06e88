//! A worker that is late: it was stopped until after the last deadline. Answers that the kernel held meanwhile decide,
//! however many there are, and whether or not junk lies before them in the socket.

use super::apply;
use ratelimitly_devserver::{Command, Fault, Order, Servers};
use ratelimitly_harness::{Dev, Nginx, eventually, h2};
use rustix::process::Signal;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// Requests that wait, one a stream: as many as nginx allows in one connection, and more than one batch of answers.
const STREAMS: usize = 127;
/// The policy's horizon, and somewhat more.
const HORIZON: Duration = Duration::from_millis(1_900);
/// The machine may stand still itself before the worker is stopped. Then there is another attempt.
const ATTEMPTS: usize = 4;

/// One round without a replay.
const CONFIGURATION: &str = r#"
    {service}
    ratelimitly_policy single_round unit=1800ms;
    ratelimitly_fail open;
    ratelimitly_zone late "bucket=late" rate=1000r/s;

    server {
        listen 127.0.0.1:{port} {http2};
        location / { ratelimitly zone=late; empty_gif; }
    }
"#;

/// The stop interrupts the worker's wait for events, so that it wakes up with its timers alone.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_came_while_the_worker_was_stopped_decide() {
    all_are_denied(|_| ()).await;
}

/// More junk than one read may take, ahead of the answers.
#[tokio::test(flavor = "multi_thread")]
async fn answers_behind_junk_decide() {
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap_or_default();
    let queue: usize = limit.trim().parse().expect("a limit of receive queues");
    // The queue has room for twice its limit, and a short datagram takes up to 1 KB of it.
    let junk = 3_000.min(queue * 2 / 1_024 / 2);
    all_are_denied(|port| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        for _ in 0..junk {
            socket.send_to(&[0x55; 150], (Ipv4Addr::LOCALHOST, port)).expect("the kernel takes it");
        }
    })
    .await;
}

/// Stops the worker while its requests wait, does something to its port, lets the servers deny all, and wakes the worker
/// up after the horizon.
async fn all_are_denied(meanwhile: impl Fn(u16)) {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(CONFIGURATION).dev(&dev).warm().await;
    let worker = nginx.worker_pid();
    let mut logged = nginx.access_log().len();
    dev.fault(Fault::ForceDeny).await;
    dev.fault(Fault::Hold).await;
    for _ in 0..ATTEMPTS {
        let mut connection = h2::Connection::connect(nginx.port()).await.expect("connected");
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(connection.get("/").await.expect("sent"));
        }
        eventually(PATIENCE, "all answers are held", || dev.status().held == STREAMS).await;

        nginx.signal(worker, Signal::STOP);
        let stopped = Instant::now();
        let in_time = nginx.access_log().len() == logged;
        meanwhile(dev.requests().last().expect("a request").source_port);
        apply(&dev, Command::Release { servers: Servers::All, order: Order::Fifo }).await;
        eventually(PATIENCE, "the horizon has passed", || stopped.elapsed() > HORIZON).await;
        nginx.signal(worker, Signal::CONT);

        let mut statuses = Vec::new();
        for stream in streams {
            statuses.push(stream.response().await.expect("a response").status);
        }
        logged = nginx.await_access_log(logged + STREAMS).await.len();
        if in_time {
            let denied = statuses.iter().filter(|status| **status == 429).count();
            assert_eq!(denied, STREAMS, "the others were let through");
            dev.clear([]).await;
            drop(connection);
            return nginx.finish().await;
        }
    }
    panic!("the worker never was stopped in time");
}

//! Clients that reset while they wait, and senders that flood the worker's port.

mod blocked;
mod leaving;
mod resets;

use ratelimitly_devserver::{Command, Fault, Order, Servers};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::{Dev, Nginx, eventually, http, process};
use rustix::process::setpriority_process;
use std::collections::HashSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A horizon of 1.8 s: nothing that these tests hold back runs into it.
const CONFIGURATION: &str = r#"
    {usual}
    ratelimitly_zone hostile "bucket=hostile" rate=1000r/s;

    server {
        listen 127.0.0.1:{port};
        location / { ratelimitly zone=hostile; empty_gif; }
        location /health { return 204; }
    }
"#;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

async fn warm(dev: &Dev, fail: &str) -> Nginx {
    Nginx::builder(CONFIGURATION).dev(dev).set("fail", fail).warm().await
}

/// So many clients whose requests have reached the server and wait for its answer.
async fn waiting_clients(dev: &Dev, nginx: &Nginx, count: usize) -> Vec<Raw> {
    let before = dev.admissions().len();
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Raw::connect(nginx.port()).await.expect("nginx accepts");
        client.send(REQUEST).await.expect("nginx reads");
        clients.push(client);
    }
    dev.await_requests("every request is asked about", |seen| {
        let ids: HashSet<_> = seen.iter().map(|event| &event.request_id).collect();
        ids.len() == before + count
    })
    .await;
    clients
}

fn reset(clients: Vec<Raw>) {
    for client in clients {
        client.reset().expect("a socket can be reset");
    }
}

/// The worker's source port in its last request; its other sockets are discovery's.
fn port(dev: &Dev) -> u16 {
    dev.requests().last().expect("there was a request").source_port
}

/// Whether datagrams wait for the worker at this port.
fn is_queued(nginx: &Nginx, port: u16) -> bool {
    nginx.udp_sockets().iter().any(|socket| socket.port == port && socket.waiting > 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn o11_a_reset_ends_the_admission_and_leaves_the_worker_whole() {
    for fail in ["open", "close"] {
        let dev = Dev::single().await;
        let nginx = warm(&dev, fail).await;
        dev.fault(Fault::Hold).await;
        let clients = waiting_clients(&dev, &nginx, 20).await;

        reset(clients);
        let lines = nginx.await_access_log(20).await;
        assert!(lines.iter().all(|line| line.starts_with("499 - ")), "{lines:#?}");
        // Half of the answers arrive now, when nobody waits for them; the others never do.
        let half = Command::Release { servers: Servers::All, order: Order::List((0..10).collect()) };
        dev.apply(half).await.expect("ten answers are held");
        dev.reset().await.expect("the rest is dropped");

        let old_port = port(&dev);
        dev.fault(Fault::Rebind).await;
        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
        nginx.await_log_line("ratelimitly: UDP socket rebound").await;
        dev.clear([]).await;
        assert_eq!(http::get(nginx.port(), "/").await.status, 200);
        assert_ne!(port(&dev), old_port);
        assert!(nginx.log_lines("admission failure=").is_empty(), "an aborted request has no completion");
        nginx.finish().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resets_leave_the_other_waiting_requests_alone() {
    let dev = Dev::start().await;
    let nginx = warm(&dev, "close").await;
    dev.fault(Fault::Hold).await;
    let mut staying = waiting_clients(&dev, &nginx, 40).await;
    let leaving = staying.split_off(20);

    reset(leaving);
    nginx.await_access_log(20).await;
    dev.clear([]).await;

    for client in &mut staying {
        assert_eq!(client.response().await.expect("an answer").status, 200);
    }
    let lines = nginx.await_access_log(40).await;
    assert_eq!(lines.iter().filter(|line| line.starts_with("499 - ")).count(), 20);
    assert_eq!(lines.iter().filter(|line| line.starts_with("200 allow ")).count(), 20);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waves_of_resets_leave_nothing_behind() {
    let dev = Dev::single().await;
    let nginx = warm(&dev, "close").await;
    dev.fault(Fault::Silent).await;
    let files = nginx.open_files();

    for wave in 1..=3 {
        reset(waiting_clients(&dev, &nginx, 150).await);
        nginx.await_access_log(150 * wave).await;
    }

    eventually(Duration::from_secs(10), "the connections are closed", || nginx.open_files() <= files).await;
    dev.clear([]).await;
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    nginx.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o12_a_flood_of_junk_does_not_keep_the_worker_from_its_work() {
    let dev = Dev::single().await;
    let nginx = Nginx::builder(CONFIGURATION).dev(&dev).set("fail", "close").log_level("info").start().await;
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    let port = port(&dev);
    let flood = Flood::start(port, 32);
    eventually(Duration::from_secs(10), "the flood arrives", || is_queued(&nginx, port)).await;

    let worker = nginx.worker_pid();
    let mut shortest = Duration::MAX;
    let mut queued = 0;
    let mut requests = 1;
    let started = Instant::now();
    while started.elapsed() < FLOOD || queued == 0 {
        assert!(started.elapsed() < PATIENCE, "junk never waits for the worker");
        let before = process::run_time(worker);
        assert_eq!(http::get(nginx.port(), "/health").await.status, 204);
        shortest = shortest.min(process::run_time(worker) - before);
        requests += 1;
        queued += usize::from(is_queued(&nginx, port));
    }

    assert!(shortest < FAIR, "within the flood the worker ran for {shortest:?} before it answered");
    flood.end();
    assert_eq!(http::get(nginx.port(), "/").await.status, 200);
    let last = nginx.await_access_log(requests + 1).await.pop().unwrap_or_default();
    assert!(last.starts_with("200 allow "), "{last}");
    nginx.finish().await;
}

/// How long requests are made within a flood.
const FLOOD: Duration = Duration::from_secs(2);
/// How long a worker may run for one answer within a flood, several reads of its socket included. A worker that reads until
/// the socket is empty never comes to the answer.
const FAIR: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(30);

/// Threads that send junk of 1 KB to a port of 127.0.0.1 until it ends or is dropped.
struct Flood {
    stop: Arc<AtomicBool>,
    senders: Vec<thread::JoinHandle<()>>,
}

impl Flood {
    fn start(port: u16, senders: usize) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let sender = |_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                // What is tested is the worker's fairness and not the scheduler's: the senders leave room for others.
                let _ = setpriority_process(None, 10);
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
                while !stop.load(Ordering::Relaxed) {
                    // A full queue drops the datagram; the flood goes on.
                    let _ = socket.send_to(&[0x55; 1024], (Ipv4Addr::LOCALHOST, port));
                }
            })
        };
        let senders = (0..senders).map(sender).collect();
        Flood { stop, senders }
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for sender in self.senders.drain(..) {
            sender.join().expect("a sender ends");
        }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

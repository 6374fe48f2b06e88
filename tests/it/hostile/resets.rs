//! HTTP/2 connections whose streams all wait, and others that open streams and reset them at once, all in one event-loop
//! iteration of the worker. The frames are written by hand, so that they lie in the sockets when the worker wakes up.

use ratelimitly_devserver::{Command, Servers};
use ratelimitly_harness::{Dev, Nginx, eventually, process};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Connections of each kind.
const CONNECTIONS: usize = 60;
/// Streams that one connection leaves waiting: all that nginx allows.
const WAITING: usize = 127;
/// Streams that one connection opens and resets.
const RESETS: usize = 200;
/// How many times what it costs alone a reset may cost beside the streams that wait. Where a reset searches what the others
/// have queued it is more than ten times as much.
const FACTOR: u64 = 4;
/// Processor time is counted in ticks of 10 ms.
const SLACK_TICKS: u64 = 20;

/// The servers are gone, so each request waits for 1.8 s.
const CONFIGURATION: &str = r#"
    events { worker_connections 512; }
    http {
        {service}
        ratelimitly_policy single_round unit=1800ms;
        ratelimitly_fail close;
        ratelimitly_zone hostile "bucket=hostile" rate=1000r/s;

        server {
            listen 127.0.0.1:{port} {http2};
            location / { ratelimitly zone=hostile; empty_gif; }
        }
    }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn resetting_streams_costs_the_same_beside_thousands_that_wait() {
    let dev = Dev::restartable(3).await;
    let nginx = Nginx::builder(CONFIGURATION).dev(&dev).log_level("notice").warm().await;
    dev.apply(Command::Down { servers: Servers::All }).await.expect("the servers end");

    let (alone, _) = ticks(&nginx, 0, CONNECTIONS).await;
    let (waiting, crowd) = ticks(&nginx, CONNECTIONS, 0).await;
    drop(crowd);
    let (both, crowd) = ticks(&nginx, CONNECTIONS, CONNECTIONS).await;
    drop(crowd);

    let beside = both.saturating_sub(waiting);
    println!("{alone} ticks alone, {waiting} for those that wait, {both} for both");
    assert!(beside <= FACTOR * alone + SLACK_TICKS, "{beside} ticks beside those that wait, {alone} alone");
    dev.apply(Command::Up { servers: Servers::All }).await.expect("the servers start again");
    nginx.finish().await;
}

/// The worker's processor time for so many connections of each kind, and those whose streams wait.
async fn ticks(nginx: &Nginx, waiting: usize, resetting: usize) -> (u64, Vec<TcpStream>) {
    let open = |count: usize| -> Vec<TcpStream> { (0..count).map(|_| connect(nginx.port())).collect() };
    let (mut crowd, mut resetters) = (open(waiting), open(resetting));
    let worker = nginx.worker_pid();
    eventually(PATIENCE, "the worker waits for events", || process::is_waiting(worker)).await;
    let (before, logged) = (process::cpu_ticks(worker), nginx.access_log().len());

    nginx.signal(worker, Signal::STOP);
    for connection in &mut crowd {
        connection.write_all(&streams(WAITING, false)).expect("the socket takes it");
    }
    for connection in &mut resetters {
        connection.write_all(&streams(RESETS, true)).expect("the socket takes it");
    }
    nginx.signal(worker, Signal::CONT);
    nginx.await_access_log(logged + resetting * RESETS).await;
    eventually(PATIENCE, "the worker waits for events", || process::is_waiting(worker)).await;
    (process::cpu_ticks(worker) - before, crowd)
}

/// A connection whose settings nginx has acknowledged.
fn connect(port: u16) -> TcpStream {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const SETTINGS: u8 = 4;
    let mut connection = TcpStream::connect(("127.0.0.1", port)).expect("nginx accepts");
    connection.set_read_timeout(Some(PATIENCE)).expect("a socket option");
    connection.write_all(PREFACE).expect("nginx reads");
    connection.write_all(&frame(SETTINGS, 0, 0, &[])).expect("nginx reads");
    connection.read_exact(&mut [0; 9]).expect("nginx answers");
    connection
}

/// So many requests, each of which is reset at once or left waiting.
fn streams(count: usize, reset: bool) -> Vec<u8> {
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const END_OF_STREAM_AND_HEADERS: u8 = 5;
    /// GET, http and `/` of the static table, and a literal authority.
    const BLOCK: &[u8] = b"\x82\x86\x84\x01\x09localhost";
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    let mut bytes = Vec::new();
    for nth in 0..count as u32 {
        let stream = 2 * nth + 1;
        bytes.extend(frame(HEADERS, END_OF_STREAM_AND_HEADERS, stream, BLOCK));
        if reset {
            bytes.extend(frame(RST_STREAM, 0, stream, &CANCEL));
        }
    }
    bytes
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

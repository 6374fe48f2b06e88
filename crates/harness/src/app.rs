//! An application that keeps connections and closes those that were idle for a time of its own. Between the moment when
//! it decides to close and the moment when it does, a busy event loop may lie; a request that arrives in between is lost
//! unread. Requests say when they want to be answered (`X-Until`, Unix milliseconds), so that many connections become idle
//! at the same moment. Used by the tests and the lab's experiment of that race. Ends when it is dropped.

use crate::http::{Client, Error, Request};
use bytes::Bytes;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndone\n";

/// How it treats idle connections.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// It decides to close a connection after this time without a request.
    pub after: Duration,
    /// It does so this much later, and reads nothing meanwhile.
    pub late: Duration,
}

/// A running application.
pub struct App {
    address: SocketAddr,
    worked: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl App {
    /// Listens on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// No port can be had.
    pub async fn start(idle: Idle) -> App {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("an application can listen");
        let address = listener.local_addr().expect("it has an address");
        let worked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&worked);
        let task = tokio::spawn(async move {
            // The set ends its connections with this task.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let counter = Arc::clone(&counter);
                connections.spawn(async move { serve(stream, idle, &counter).await });
            }
        });
        App { address, worked, task }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Requests that it worked on.
    pub fn worked(&self) -> usize {
        self.worked.load(SeqCst)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(stream: TcpStream, idle: Idle, worked: &AtomicUsize) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        let Ok(read) = timeout(idle.after, stream.read_line(&mut line)).await else {
            sleep(idle.late).await; // the busy event loop itself
            return None;
        };
        read.ok().filter(|&count| count > 0)?;
        let (length, until) = head(&mut stream).await?;
        stream.read_exact(&mut vec![0; length]).await.ok()?;
        worked.fetch_add(1, SeqCst);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        sleep(Duration::from_millis(until).saturating_sub(now)).await; // the work itself
        stream.get_mut().write_all(RESPONSE).await.ok()?;
    }
}

/// Length of the body, and when the request wants to be answered (`X-Until`, Unix milliseconds).
async fn head(stream: &mut BufReader<TcpStream>) -> Option<(usize, u64)> {
    let (mut length, mut until) = (0, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok().filter(|&count| count > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { return Some((length, until)) };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        } else if name.eq_ignore_ascii_case("x-until") {
            until = value.trim().parse().ok()?;
        }
    }
}

/// The width of a wave of requests, half of it before and half after the idle time.
const WIDTH: Duration = Duration::from_millis(100);
/// How long connecting may take.
const SOON: Duration = Duration::from_millis(50);

/// Sends waves of `each` requests to an nginx before an application, half GET and half POST, and gives their statuses;
/// `None` where no answer came. The application answers a wave at one moment, so that all connections become idle
/// together. The requests of the next wave are sent evenly around the moment when `idle` has passed since.
pub async fn waves(port: u16, idle: Duration, waves: u32, each: u32) -> Vec<Option<u16>> {
    let mut statuses = Vec::new();
    let mut first = Instant::now() + SOON;
    for _ in 0..waves {
        let answered = first + WIDTH + SOON;
        let until = unix_ms(answered);
        let mut clients = JoinSet::new();
        for number in 0..each {
            let at = first + WIDTH * number / each;
            let method = if number % 2 == 0 { "GET" } else { "POST" };
            clients.spawn(async move { send_until(port, method, at, until).await.ok() });
        }
        statuses.extend(clients.join_all().await);
        first = answered + idle - WIDTH / 2;
    }
    statuses
}

/// Connects early and sends at its moment.
async fn send_until(port: u16, method: &str, at: Instant, until: u64) -> Result<u16, Error> {
    let mut client = Client::connect(port).await?;
    let body = if method == "POST" { "order" } else { "" };
    let request = Request::builder().method(method).uri("/").header("connection", "close");
    let request = request.header("x-until", until).body(Bytes::from_static(body.as_bytes()))?;
    sleep_until(at).await; // the idle time is the subject: no poll
    Ok(client.send(request).await?.status)
}

fn unix_ms(moment: Instant) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now + moment.saturating_duration_since(Instant::now())).as_millis() as u64
}

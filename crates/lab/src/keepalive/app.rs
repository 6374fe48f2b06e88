//! An application that keeps connections and closes those that were idle for a time of its own. Between the moment when
//! it decides to close and the moment when it does, a busy event loop may lie; a request that arrives in between is lost
//! unread. Requests say when they want to be answered, so that many connections become idle at the same moment. Ends when it
//! is dropped.

use crate::error::{Error, io};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

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
    /// # Errors
    /// No port can be had.
    pub async fn start(idle: Idle) -> Result<App, Error> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(io("the application's port"))?;
        let address = listener.local_addr().map_err(io("the application's port"))?;
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
        Ok(App { address, worked, task })
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

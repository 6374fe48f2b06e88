//! An application that keeps connections and closes the idle ones after a time of its own, without a word. A request says
//! when it wants to be answered (`X-Until`, Unix milliseconds), so that many connections become idle at the same moment.
//! Counts the requests that it worked on. Ends when it is dropped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ndone\n";

/// A running application.
pub struct App {
    address: SocketAddr,
    worked: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl App {
    /// Keeps an idle connection for this long.
    pub async fn start(idle: Duration) -> App {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("an application can listen");
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

async fn serve(stream: TcpStream, idle: Duration, worked: &AtomicUsize) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        // An idle connection is closed, and so is one that the other side has ended.
        timeout(idle, stream.read_line(&mut line)).await.ok()?.ok().filter(|&count| count > 0)?;
        let (mut length, mut until) = (0, 0);
        loop {
            line.clear();
            stream.read_line(&mut line).await.ok().filter(|&count| count > 0)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            } else if name.eq_ignore_ascii_case("x-until") {
                until = value.trim().parse().ok()?;
            }
        }
        stream.read_exact(&mut vec![0; length]).await.ok()?;
        worked.fetch_add(1, SeqCst);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        sleep(Duration::from_millis(until).saturating_sub(now)).await; // the work itself, nothing that a test waits for
        stream.get_mut().write_all(RESPONSE).await.ok()?;
    }
}

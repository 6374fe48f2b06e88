//! The application server of the experiment: so many requests at a time, further connections wait in the kernel's accept
//! queue, one response a connection, and work is finished whether or not its client is still there. It keeps an access
//! log of its own. Slots and times can be changed while it runs. Started by `run.rs`; knows nothing of nginx.

use crate::error::{Error, io};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// Longer than any queue of the experiments; the kernel cuts it at net.core.somaxconn.
const BACKLOG: u32 = 8192;
/// Largest request head.
const HEAD: usize = 4096;
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\ndone\n";
/// Bytes of the response to `/large`: what nginx's `limit_rate 8k` sends at once, and another second's.
const LARGE: usize = 16 << 10;

/// What the application can do at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Requests worked on at the same time.
    pub slots: usize,
    /// Time for a request to `/light`.
    pub light: Duration,
    /// Time for a request to `/heavy`.
    pub heavy: Duration,
}

/// A running application server. It ends when it is dropped, whatever is still in its queue.
pub struct Upstream {
    address: SocketAddr,
    capacity: watch::Sender<Capacity>,
    log: Arc<Mutex<BufWriter<File>>>,
    task: JoinHandle<()>,
}

impl Upstream {
    /// Listens on a free port of 127.0.0.1 and writes its access log to `log`.
    ///
    /// # Errors
    /// The port or the file cannot be had.
    pub fn start(capacity: Capacity, log: &Path) -> Result<Upstream, Error> {
        let socket = TcpSocket::new_v4().map_err(io("the upstream's socket"))?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).map_err(io("the upstream's port"))?;
        let listener = socket.listen(BACKLOG).map_err(io("the upstream's port"))?;
        let address = listener.local_addr().map_err(io("the upstream's port"))?;
        let log = File::create(log).map_err(io(format!("{}", log.display())))?;
        let log = Arc::new(Mutex::new(BufWriter::new(log)));
        let (capacity, seen) = watch::channel(capacity);
        let task = tokio::spawn(serve(listener, seen, Arc::clone(&log)));
        Ok(Upstream { address, capacity, log, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what it can do, for requests that it accepts from now on.
    pub fn change(&self, capacity: Capacity) {
        self.capacity.send_replace(capacity);
    }

    /// Writes out what the access log still holds back.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&self) -> Result<(), Error> {
        lock(&self.log).flush().map_err(io("the upstream's access log"))
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts a connection only when a slot is free: all others stay with the kernel.
async fn serve(
    listener: TcpListener,
    mut capacity: watch::Receiver<Capacity>,
    log: Arc<Mutex<BufWriter<File>>>,
) {
    let busy = Arc::new(AtomicUsize::new(0));
    let freed = Arc::new(Notify::new());
    loop {
        while busy.load(SeqCst) >= capacity.borrow_and_update().slots {
            tokio::select! {
                () = freed.notified() => {}
                _ = capacity.changed() => {}
            }
        }
        let Ok((stream, _)) = listener.accept().await else { continue };
        busy.fetch_add(1, SeqCst);
        let (now, log, busy, freed) = (*capacity.borrow(), log.clone(), busy.clone(), freed.clone());
        tokio::spawn(async move {
            work(stream, now, &log).await;
            busy.fetch_sub(1, SeqCst);
            freed.notify_one();
        });
    }
}

/// Works on one request. A connection without a request on it takes no time.
async fn work(mut stream: TcpStream, capacity: Capacity, log: &Mutex<BufWriter<File>>) {
    let accepted = Instant::now();
    let Some(path) = read_path(&mut stream).await else { return };
    let time = if path == "/heavy" { capacity.heavy } else { capacity.light };
    tokio::time::sleep(time).await; // the work itself
    let gone = matches!(stream.try_read(&mut [0]), Ok(0));
    // A client that has gone is the experiment's subject and no failure.
    let _ = stream.write_all(&response(&path)).await;
    let _ = stream.shutdown().await;
    let took = accepted.elapsed().as_secs_f64();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let fate = if gone { "gone" } else { "served" };
    let _ = writeln!(lock(log), "{now:.3} {path} {took:.4} {fate}");
}

fn response(path: &str) -> Cow<'static, [u8]> {
    if path != "/large" {
        return RESPONSE.into();
    }
    let mut response =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\nConnection: close\r\n\r\n").into_bytes();
    response.resize(response.len() + LARGE, b'x');
    response.into()
}

async fn read_path(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::with_capacity(HEAD);
    loop {
        if stream.read_buf(&mut head).await.ok()? == 0 || head.len() > HEAD {
            return None;
        }
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut request = httparse::Request::new(&mut headers);
        if request.parse(&head).ok()?.is_complete() {
            return request.path.map(str::to_owned);
        }
    }
}

fn lock(log: &Mutex<BufWriter<File>>) -> std::sync::MutexGuard<'_, BufWriter<File>> {
    log.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overload::queue;

    const ONE_SLOT: Capacity =
        Capacity { slots: 1, light: Duration::from_millis(50), heavy: Duration::from_millis(100) };

    async fn ask(upstream: &Upstream, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(upstream.address()).await.expect("the kernel takes it");
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("a request");
        stream
    }

    /// Looks again and again until there is something to see.
    async fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "nothing came of it in time");
            tokio::time::sleep(Duration::from_millis(2)).await; // then looked at again
        }
    }

    async fn queued(upstream: &Upstream, count: u32) {
        eventually(|| (queue::length(upstream.address()) == Some(count)).then_some(())).await;
    }

    /// The paths and fates of the access log, once there are so many lines.
    async fn fates(upstream: &Upstream, log: &Path, count: usize) -> Vec<String> {
        let fate = |line: &str| line.split(' ').skip(1).step_by(2).collect::<Vec<_>>().join(" ");
        eventually(|| {
            upstream.flush().expect("the log can be written");
            let text = std::fs::read_to_string(log).expect("the log can be read");
            (text.lines().count() >= count).then(|| text.lines().map(fate).collect())
        })
        .await
    }

    #[tokio::test]
    async fn what_has_no_slot_waits_with_the_kernel_and_is_answered_in_turn() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let upstream = Upstream::start(ONE_SLOT, &log).expect("it starts");

        let mut first = ask(&upstream, "/heavy").await;
        let _second = ask(&upstream, "/light").await;
        let _third = ask(&upstream, "/light").await;
        queued(&upstream, 2).await;
        let mut answer = String::new();
        first.read_to_string(&mut answer).await.expect("it is closed after the answer");

        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("done\n"), "{answer}");
        let all = fates(&upstream, &log, 3).await;
        assert_eq!(all, ["/heavy served", "/light served", "/light served"]);
    }

    #[tokio::test]
    async fn work_is_finished_for_a_client_that_has_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("log");
        let upstream = Upstream::start(ONE_SLOT, &log).expect("it starts");

        let _first = ask(&upstream, "/light").await;
        drop(ask(&upstream, "/light").await);

        assert_eq!(fates(&upstream, &log, 2).await, ["/light served", "/light gone"]);
    }

    #[tokio::test]
    async fn more_slots_are_used_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let hour = Duration::from_secs(3600);
        let stuck = Capacity { slots: 1, light: hour, heavy: hour };
        let upstream = Upstream::start(stuck, &folder.path().join("log")).expect("it starts");
        let (_first, _second) = (ask(&upstream, "/light").await, ask(&upstream, "/light").await);
        queued(&upstream, 1).await;

        upstream.change(Capacity { slots: 2, ..stuck });

        queued(&upstream, 0).await;
    }
}

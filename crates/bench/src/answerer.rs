//! Servers that allow everything but what has the rate 1: the least that can answer an admission, so that their own cost does not hide the
//! module's. Each is a UDP socket; answers can wait, or never come.
//!
//! All of them share one thread. Whoever sends over loopback pays for waking the receiver, which nobody does whose servers
//! are other machines: with a thread each, the worker would be charged for one more wake-up a server.
//!
//! Started by `surroundings`. They keep no bucket and remember nothing; the development server is the one that does.

use crate::Error;
use ratelimitly_core::key::ApiKey;
use ratelimitly_core::wire::{self, Auth, GuardAnswer, Pdu, ResourceAnswer, Tenant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The rate of what is refused.
const REFUSED: u32 = 1;
/// Answers keep the client's port.
const KEEP_PORT: u8 = 1;
/// Asked of the kernel for the requests that wait, bytes; `net.core.rmem_max` may cut it.
const QUEUE: usize = 4 << 20;
/// A delay that never ends.
const SILENT: i64 = -1;

/// Running answerers; their thread lasts as long as the process.
pub struct Answerers {
    /// Each of them, in the order of their ids.
    pub each: Vec<Answerer>,
    delay_us: Arc<AtomicI64>,
}

/// One of them.
pub struct Answerer {
    /// Its id in the zone.
    pub id: u64,
    /// Where it listens.
    pub address: SocketAddr,
    seen: Arc<AtomicU64>,
}

impl Answerers {
    /// Starts one for each id; all know these keys.
    pub fn start(ids: impl Iterator<Item = u64>, keys: &[ApiKey]) -> Result<Answerers, Error> {
        let delay_us = Arc::new(AtomicI64::new(0));
        let (mut each, mut servers) = (Vec::new(), Vec::new());
        for id in ids {
            let server = Server::open(id, keys, &delay_us)?;
            let (address, seen) = (server.socket.local_addr()?, Arc::clone(&server.seen));
            each.push(Answerer { id, address, seen });
            servers.push(server);
        }
        thread::Builder::new().name("answerers".into()).spawn(move || run(&mut servers))?;
        Ok(Answerers { each, delay_us })
    }

    /// Lets every answer to what comes from now on wait this long.
    pub fn delay(&self, delay: Duration) {
        self.delay_us.store(i64::try_from(delay.as_micros()).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Lets nothing that comes from now on be answered.
    pub fn silence(&self) {
        self.delay_us.store(SILENT, Ordering::Relaxed);
    }
}

impl Answerer {
    /// Requests taken in so far, answered or not.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }
}

fn run(servers: &mut [Server]) {
    loop {
        wait(servers);
        servers.iter_mut().for_each(Server::turn);
    }
}

/// Sleeps until a datagram comes or an answer is due.
fn wait(servers: &[Server]) {
    let due = servers.iter().filter_map(|server| server.due.front()).map(|(due, ..)| *due).min();
    let rest = due.map(|due| due.saturating_duration_since(Instant::now()));
    let rest =
        rest.map(|rest| Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() });
    let mut ready: Vec<_> = servers.iter().map(|server| PollFd::new(&server.socket, PollFlags::IN)).collect();
    let _ = poll(&mut ready, rest.as_ref());
}

struct Server {
    id: u64,
    socket: UdpSocket,
    keys: Vec<(u64, Auth)>,
    delay_us: Arc<AtomicI64>,
    seen: Arc<AtomicU64>,
    nonce: u64,
    /// Answers that wait, the earliest first.
    due: VecDeque<(Instant, SocketAddr, Vec<u8>)>,
}

impl Server {
    fn open(id: u64, keys: &[ApiKey], delay_us: &Arc<AtomicI64>) -> Result<Server, Error> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_nonblocking(true)?;
        // A worker sends what a turn of its loop started in one burst; as much of it as the kernel allows may wait here.
        sockopt::set_socket_recv_buffer_size(&socket, QUEUE)?;
        Ok(Server {
            id,
            socket,
            keys: keys.iter().map(|key| (key.key_id(), Auth::new(key))).collect(),
            delay_us: Arc::clone(delay_us),
            seen: Arc::default(),
            nonce: 0,
            due: VecDeque::new(),
        })
    }

    /// Takes in what has come and sends what is due.
    fn turn(&mut self) {
        let mut datagram = [0; wire::MAX_DATAGRAM];
        loop {
            match self.socket.recv_from(&mut datagram) {
                Ok((length, client)) => self.take(&mut datagram[..length], client),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A client that has gone away since: nothing is to be done about it.
                Err(_) => {}
            }
            self.send_due();
        }
        self.send_due();
    }

    fn take(&mut self, datagram: &mut [u8], client: SocketAddr) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        let delay = self.delay_us.load(Ordering::Relaxed);
        let mut answer = Vec::with_capacity(wire::MAX_DATAGRAM);
        if delay == SILENT || self.answer(datagram, &mut answer).is_none() {
            return;
        }
        if delay == 0 {
            let _ = self.socket.send_to(&answer, client);
        } else {
            let due = Instant::now() + Duration::from_micros(delay.unsigned_abs());
            self.due.push_back((due, client, answer));
        }
    }

    /// Writes the answer; `None`: there is nothing to answer.
    fn answer(&mut self, datagram: &mut [u8], out: &mut Vec<u8>) -> Option<()> {
        let claimed = wire::peek(datagram).ok()?;
        let (_, auth) = self.keys.iter().find(|(id, _)| *id == claimed.key_or_server_id)?;
        let (asked, Pdu::RateRequest(request)) = auth.open(datagram).ok()? else { return None };
        let resources: Vec<ResourceAnswer> = request
            .resources()
            .map(|resource| ResourceAnswer {
                bucket: resource.bucket,
                window_size_ms: resource.window_size_ms,
                actual_rate: 1,
                deficit: u16::from(resource.rate_limit == REFUSED),
            })
            .collect();
        let guards: Vec<GuardAnswer> =
            request.guards().map(|guard| GuardAnswer { guard, current_latency_ms: 0 }).collect();
        let tenant = Tenant { key_or_server_id: self.id, steering_feedback: KEEP_PORT, ..asked };
        // Unique among the answerers of a key: the id, then a count.
        self.nonce += 1;
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&(self.id as u32).to_le_bytes());
        nonce[4..].copy_from_slice(&self.nonce.to_le_bytes());
        auth.seal_rate_response(out, &tenant, &nonce, &guards, &resources).ok()
    }

    fn send_due(&mut self) {
        if self.due.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((_, client, answer)) = self.due.pop_front_if(|(due, ..)| *due <= now) {
            let _ = self.socket.send_to(&answer, client);
        }
    }
}

//! HTTP/1.1 load over keepalive connections, from one thread: closed loops (each connection asks again as soon as it is
//! answered) and open loops (requests come at their times, however slow the answers are, and wait in line where every
//! connection is busy; that wait counts).
//!
//! Used by every measurement. Any answer but a whole 200 is a failure, and the caller sees how many there were.

use crate::Error;
use rustix::event::{Timespec, epoll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// What every client asks.
pub const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: ratelimitly-bench\r\n\r\n";
/// An answer's start, where all is well.
const GOOD: &[u8] = b"HTTP/1.1 200 ";
/// Readiness reports taken from the kernel at a time.
const EVENTS: usize = 256;
/// A run whose answers stay away this long is over.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tries of the first request, which may have to wait for discovery longer than it can.
const TRIES: usize = 50;

/// What a run saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests answered by a whole 200.
    pub good: u64,
    /// All other answers, and connections that broke.
    pub failed: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Microseconds from a request's time to its answer.
    pub latencies_us: Vec<u32>,
}

impl Seen {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.good as f64 / self.seconds
    }

    /// The latency that this share of requests does not exceed, microseconds.
    pub fn quantile(&mut self, share: f64) -> f64 {
        self.latencies_us.sort_unstable();
        let last = self.latencies_us.len().saturating_sub(1);
        let place = (share * last as f64).round() as usize;
        self.latencies_us.get(place).map_or(f64::NAN, |us| f64::from(*us))
    }

    /// An error where a request failed: the figures would mean nothing.
    pub fn sound(self, what: &str) -> Result<Seen, Error> {
        if self.failed > 0 || self.good == 0 {
            return Err(format!("{what}: {} requests failed, {} did not", self.failed, self.good).into());
        }
        Ok(self)
    }
}

/// When a run sends.
#[derive(Clone, Copy, Debug)]
enum Plan {
    /// So many requests in all.
    Count(u64),
    /// Until then.
    Until(Instant),
    /// So many a second, so many in all.
    Open { rate: f64, count: u64 },
}

struct Connection {
    stream: TcpStream,
    /// When its request was to be sent; `None`: idle.
    asked: Option<Instant>,
    received: Vec<u8>,
}

/// Open connections to one address.
pub struct Client {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// How many closed loops begin each second.
    pace: f64,
}

impl Client {
    /// Opens connections.
    pub fn connect(address: SocketAddr, count: usize) -> Result<Client, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(count);
        for place in 0..count {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            epoll::add(&epoll, &stream, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)?;
            connections.push(Connection { stream, asked: None, received: Vec::new() });
        }
        Ok(Client { epoll, connections, pace: f64::INFINITY })
    }

    /// Lets so many closed loops begin each second, instead of all at once.
    pub fn paced(mut self, loops_a_second: f64) -> Client {
        self.pace = loops_a_second;
        self
    }

    /// Asks until the first good answer: whoever serves there knows by then whom to ask.
    pub fn warm_up(address: SocketAddr) -> Result<(), Error> {
        let mut client = Client::connect(address, 1)?;
        for _ in 0..TRIES {
            if client.ask(1)?.failed == 0 {
                return Ok(());
            }
        }
        Err("the first request failed again and again".into())
    }

    /// Sends exactly so many requests in closed loops.
    pub fn ask(&mut self, count: u64) -> Result<Seen, Error> {
        self.run(Plan::Count(count))
    }

    /// Closed loops for so long.
    pub fn ask_for(&mut self, duration: Duration) -> Result<Seen, Error> {
        self.run(Plan::Until(Instant::now() + duration))
    }

    /// An open loop for so long.
    pub fn offer(&mut self, rate: f64, duration: Duration) -> Result<Seen, Error> {
        self.offer_count(rate, (rate * duration.as_secs_f64()) as u64)
    }

    /// An open loop of exactly so many requests.
    pub fn offer_count(&mut self, rate: f64, count: u64) -> Result<Seen, Error> {
        self.run(Plan::Open { rate, count })
    }

    /// Writes bytes on every connection and reads nothing: requests that are to wait.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for connection in &mut self.connections {
            connection.stream.write_all(bytes)?;
        }
        Ok(())
    }

    fn run(&mut self, plan: Plan) -> Result<Seen, Error> {
        let mut run = Run {
            plan,
            started: Instant::now(),
            sent: 0,
            loops: self.connections.len() as u64,
            pace: self.pace,
            idle: (0..self.connections.len()).collect(),
            seen: Seen::default(),
        };
        let mut last = run.started;
        let mut buffer = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        loop {
            let now = Instant::now();
            while let Some(asked) = run.next_due(now) {
                let Some(place) = run.idle.pop_front() else { break };
                run.sent += 1;
                run.send(&mut self.connections[place], asked);
            }
            if run.idle.len() == self.connections.len() && run.is_over(now) {
                break;
            }
            if now.duration_since(last) > PATIENCE {
                return Err("no answer came for 20 s".into());
            }
            let timeout = run.rest(now).map(timespec);
            let (events, _) = epoll::wait(&self.epoll, &mut buffer, timeout.as_ref())?;
            for event in events {
                let place = event.data.u64() as usize;
                if run.receive(&mut self.connections[place]) {
                    run.idle.push_back(place);
                    last = Instant::now();
                }
            }
        }
        run.seen.seconds = last.duration_since(run.started).as_secs_f64();
        Ok(run.seen)
    }
}

struct Run {
    plan: Plan,
    started: Instant,
    sent: u64,
    /// How many closed loops there are, and how many of them begin each second.
    loops: u64,
    pace: f64,
    /// Connections without a request, the longest idle first: an open loop uses all of them in turn.
    idle: VecDeque<usize>,
    seen: Seen,
}

impl Run {
    /// The time of the next request, if it has come.
    fn next_due(&self, now: Instant) -> Option<Instant> {
        match self.plan {
            Plan::Count(count) => (self.sent < count && self.loop_due() <= now).then_some(now),
            Plan::Until(until) => (now < until && self.loop_due() <= now).then_some(now),
            Plan::Open { rate, count } => {
                Some(self.open_due(rate)).filter(|due| *due <= now && self.sent < count)
            }
        }
    }

    /// When the next closed loop begins; they are all under way afterwards.
    fn loop_due(&self) -> Instant {
        if self.sent >= self.loops || self.pace.is_infinite() {
            return self.started;
        }
        self.started + Duration::from_secs_f64(self.sent as f64 / self.pace)
    }

    fn open_due(&self, rate: f64) -> Instant {
        self.started + Duration::from_secs_f64(self.sent as f64 / rate)
    }

    fn is_over(&self, now: Instant) -> bool {
        match self.plan {
            Plan::Count(count) | Plan::Open { count, .. } => self.sent >= count,
            Plan::Until(until) => now >= until,
        }
    }

    /// How long to sleep at the most.
    fn rest(&self, now: Instant) -> Option<Duration> {
        match self.plan {
            Plan::Open { rate, count } if !self.idle.is_empty() && self.sent < count => {
                Some(self.open_due(rate).saturating_duration_since(now))
            }
            Plan::Count(_) | Plan::Until(_) if self.sent < self.loops && !self.idle.is_empty() => {
                Some(self.loop_due().saturating_duration_since(now))
            }
            _ => Some(PATIENCE),
        }
    }

    fn send(&mut self, connection: &mut Connection, asked: Instant) {
        connection.asked = Some(asked);
        connection.received.clear();
        if connection.stream.write_all(REQUEST).is_err() {
            self.seen.failed += 1;
        }
    }

    /// Reads what there is; `true`: the answer is whole, or there will be none.
    fn receive(&mut self, connection: &mut Connection) -> bool {
        let mut buffer = [0; 4096];
        match connection.stream.read(&mut buffer) {
            Ok(0) => {
                self.seen.failed += 1;
                connection.asked.take().is_some()
            }
            Ok(length) => self.take(connection, &buffer[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => {
                self.seen.failed += 1;
                connection.asked.take().is_some()
            }
        }
    }

    fn take(&mut self, connection: &mut Connection, bytes: &[u8]) -> bool {
        // Nearly every answer comes whole with one read.
        let whole = if connection.received.is_empty() && is_whole(bytes) {
            Some(bytes.starts_with(GOOD))
        } else {
            connection.received.extend_from_slice(bytes);
            is_whole(&connection.received).then(|| connection.received.starts_with(GOOD))
        };
        let Some(good) = whole else { return false };
        self.seen.good += u64::from(good);
        self.seen.failed += u64::from(!good);
        if let Some(asked) = connection.asked.take() {
            self.seen.latencies_us.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
        true
    }
}

/// Whether head and body are there.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    const LENGTH: &[u8] = b"\r\nContent-Length: ";
    let Some(at) = bytes[..head].windows(LENGTH.len()).position(|window| window == LENGTH) else {
        return false;
    };
    let digits = bytes[at + LENGTH.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    bytes.len() >= head + 4 + length
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: duration.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::is_whole;

    #[test]
    fn an_answer_is_whole_with_its_last_byte() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nabcde";
        assert!(is_whole(answer));
        assert!((0..answer.len()).all(|length| !is_whole(&answer[..length])));
    }

    #[test]
    fn a_length_in_the_body_is_none() {
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n\r\nContent-Length: 0\r\n"));
    }
}

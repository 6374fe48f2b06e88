//! HTTP/1.1 load over keepalive connections, from one thread. In closed loops each connection sends its next request as soon
//! as the last one is answered. In open loops requests have times, however slow the answers are. A request that finds every
//! connection busy waits for one, and that wait counts as its latency.
//!
//! Used by `ci/bench` and `ci/lab`. It sends exactly the requests of its plan, and never one of them twice.

use crate::figures::quantile;
use crate::http::Error;
use rustix::event::{Timespec, epoll};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::iter::Peekable;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Readiness reports taken from the kernel at a time.
const EVENTS: usize = 256;
/// A run whose answers stay away this long is over; requests under way then have no answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Tries of the first request, which may have to wait for discovery longer than it can.
const TRIES: usize = 50;

/// A request's bytes.
pub type Bytes = Cow<'static, [u8]>;

/// A request of an open loop.
pub struct Due {
    /// When it is to be sent, counted from the start of the load.
    pub at: Duration,
    /// Its bytes.
    pub request: Bytes,
}

/// A request and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Shot {
    /// When it was due, seconds from the start of the load.
    pub at: f64,
    /// Status; 0 where no answer came.
    pub status: u16,
    /// From the time when it was due to its whole answer, seconds.
    pub took: f64,
}

/// What a run saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Every request, in the order of the answers.
    pub shots: Vec<Shot>,
    /// From the start to the last answer, seconds.
    pub seconds: f64,
    /// The longest time by which a request was sent late, seconds.
    pub lag: f64,
}

impl Seen {
    /// Requests answered by a whole 200.
    pub fn good(&self) -> u64 {
        self.shots.iter().filter(|shot| shot.status == 200).count() as u64
    }

    /// Good answers per second.
    pub fn rate(&self) -> f64 {
        self.good() as f64 / self.seconds
    }

    /// The latency that this share of requests does not exceed, seconds; NaN without requests.
    pub fn latency(&self, share: f64) -> f64 {
        quantile(self.shots.iter().map(|shot| shot.took), share).unwrap_or(f64::NAN)
    }

    /// These figures, if every request was answered by a 200.
    ///
    /// # Errors
    /// A request was not, or there was none: the figures would mean nothing.
    pub fn sound(self, what: &str) -> Result<Seen, Error> {
        let (good, all) = (self.good(), self.shots.len());
        if good == 0 || good != all as u64 {
            return Err(format!("{what}: {good} of {all} requests were answered by a 200").into());
        }
        Ok(self)
    }
}

/// When a run sends.
enum Plan<'a> {
    /// Closed loops of so many requests in all.
    Count(u64),
    /// Closed loops until then.
    Until(Instant),
    /// An open loop.
    Open(Peekable<&'a mut dyn Iterator<Item = Due>>),
}

#[derive(Default)]
struct Connection {
    /// `None`: it has ended, and is opened again for its next request.
    stream: Option<TcpStream>,
    /// When its request was due; `None`: idle.
    asked: Option<Instant>,
    received: Vec<u8>,
}

/// Connections to one address.
pub struct Client {
    epoll: OwnedFd,
    address: SocketAddr,
    connections: Vec<Connection>,
    request: &'static [u8],
    /// Whether an open loop opens a connection where all are busy.
    grows: bool,
    /// How many closed loops begin each second.
    pace: f64,
}

impl Client {
    /// Opens connections. Closed loops and `offer` send this request, a whole GET.
    ///
    /// # Errors
    /// One is refused.
    pub fn connect(address: SocketAddr, count: usize, request: &'static [u8]) -> Result<Client, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let connections = Vec::new();
        let mut client = Client { epoll, address, connections, request, grows: false, pace: f64::INFINITY };
        for place in 0..count {
            client.connections.push(Connection::default());
            client.open(place)?;
        }
        Ok(client)
    }

    /// Opens connections as an open loop needs them, as many as that may be.
    #[must_use]
    pub fn growing(mut self) -> Client {
        self.grows = true;
        self
    }

    /// Lets so many closed loops begin each second, instead of all at once.
    #[must_use]
    pub fn paced(mut self, loops_per_second: f64) -> Client {
        self.pace = loops_per_second;
        self
    }

    /// Sends requests until the first 200: the nginx there knows its servers then.
    ///
    /// # Errors
    /// There is no 200 within the tries.
    pub fn warm_up(address: SocketAddr, request: &'static [u8]) -> Result<(), Error> {
        let mut client = Client::connect(address, 1, request)?;
        for _ in 0..TRIES {
            if client.ask(1)?.good() == 1 {
                return Ok(());
            }
        }
        Err(format!("{TRIES} first requests failed").into())
    }

    /// Sends exactly so many requests in closed loops.
    ///
    /// # Errors
    /// A connection cannot be opened again.
    pub fn ask(&mut self, count: u64) -> Result<Seen, Error> {
        self.run(Instant::now(), Plan::Count(count))
    }

    /// Closed loops for so long.
    ///
    /// # Errors
    /// A connection cannot be opened again.
    pub fn ask_for(&mut self, duration: Duration) -> Result<Seen, Error> {
        self.run(Instant::now(), Plan::Until(Instant::now() + duration))
    }

    /// An open loop of exactly so many requests, at an even rate.
    ///
    /// # Errors
    /// A connection cannot be opened again.
    pub fn offer(&mut self, rate: f64, count: u64) -> Result<Seen, Error> {
        let request = self.request;
        let due = |nth: u64| Duration::from_secs_f64(nth as f64 / rate);
        self.fire(Instant::now(), (0..count).map(|nth| Due { at: due(nth), request: request.into() }))
    }

    /// An open loop of these requests, whose times ascend.
    ///
    /// # Errors
    /// A connection cannot be opened.
    pub fn fire(&mut self, start: Instant, mut plan: impl Iterator<Item = Due>) -> Result<Seen, Error> {
        let plan: &mut dyn Iterator<Item = Due> = &mut plan;
        self.run(start, Plan::Open(plan.peekable()))
    }

    /// Writes bytes on every connection and reads nothing: requests that are to wait.
    ///
    /// # Errors
    /// A connection has ended.
    pub fn write_all(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for connection in &mut self.connections {
            connection.stream.as_mut().ok_or("a connection has ended")?.write_all(bytes)?;
        }
        Ok(())
    }

    fn open(&mut self, place: usize) -> Result<(), Error> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)?;
        self.connections[place].stream = Some(stream);
        Ok(())
    }

    fn run(&mut self, started: Instant, plan: Plan<'_>) -> Result<Seen, Error> {
        let mut run = Run {
            plan,
            started,
            request: self.request,
            sent: 0,
            loops: self.connections.len() as u64,
            pace: self.pace,
            idle: (0..self.connections.len()).collect(),
            seen: Seen::default(),
        };
        let mut last = started;
        let mut buffer = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        loop {
            let now = Instant::now();
            while (self.grows || !run.idle.is_empty())
                && let Some((asked, request)) = run.next_due(now)
            {
                self.send(&mut run, asked, &request)?;
            }
            if run.idle.len() == self.connections.len() && run.is_over(now) {
                break;
            }
            if now.saturating_duration_since(last) > PATIENCE {
                self.give_up(&mut run);
                break;
            }
            let timeout = timespec(run.rest(now, self.grows));
            let (events, _) = epoll::wait(&self.epoll, &mut buffer, Some(&timeout))?;
            for event in events {
                let place = event.data.u64() as usize;
                if run.receive(&mut self.connections[place]) {
                    run.idle.push_back(place);
                    last = Instant::now();
                }
            }
        }
        run.seen.seconds = last.saturating_duration_since(started).as_secs_f64();
        Ok(run.seen)
    }

    fn send(&mut self, run: &mut Run<'_>, asked: Instant, request: &[u8]) -> Result<(), Error> {
        let place = run.idle.pop_front().unwrap_or_else(|| {
            self.connections.push(Connection::default());
            self.connections.len() - 1
        });
        if self.connections[place].stream.is_none() {
            self.open(place)?;
        }
        run.sent += 1;
        run.seen.lag = run.seen.lag.max(asked.elapsed().as_secs_f64());
        let connection = &mut self.connections[place];
        connection.asked = Some(asked);
        connection.received.clear();
        if let Some(stream) = &mut connection.stream {
            // Where this fails, the connection has ended, and epoll says so.
            let _ = stream.write_all(request);
        }
        Ok(())
    }

    /// Ends the connections whose answers stay away.
    fn give_up(&mut self, run: &mut Run<'_>) {
        for connection in self.connections.iter_mut().filter(|connection| connection.asked.is_some()) {
            run.ended(connection);
        }
    }
}

struct Run<'a> {
    plan: Plan<'a>,
    started: Instant,
    request: &'static [u8],
    sent: u64,
    /// How many closed loops there are, and how many of them begin each second.
    loops: u64,
    pace: f64,
    /// Connections without a request, the longest idle first: all of them are used in turn.
    idle: VecDeque<usize>,
    seen: Seen,
}

impl Run<'_> {
    /// The next request and its time, if that has come.
    fn next_due(&mut self, now: Instant) -> Option<(Instant, Bytes)> {
        let (started, loop_due, sent) = (self.started, self.loop_due(), self.sent);
        match &mut self.plan {
            Plan::Count(count) => {
                (sent < *count && loop_due <= now).then_some((now, Cow::Borrowed(self.request)))
            }
            Plan::Until(until) => {
                (now < *until && loop_due <= now).then_some((now, Cow::Borrowed(self.request)))
            }
            Plan::Open(plan) => {
                plan.next_if(|due| started + due.at <= now).map(|due| (started + due.at, due.request))
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

    fn is_over(&mut self, now: Instant) -> bool {
        match &mut self.plan {
            Plan::Count(count) => self.sent >= *count,
            Plan::Until(until) => now >= *until,
            Plan::Open(plan) => plan.peek().is_none(),
        }
    }

    /// How long to sleep at the most.
    fn rest(&mut self, now: Instant, grows: bool) -> Duration {
        let (room, started) = (grows || !self.idle.is_empty(), self.started);
        let due = match &mut self.plan {
            Plan::Open(plan) if room => plan.peek().map(|due| started + due.at),
            Plan::Count(_) | Plan::Until(_) if room && self.sent < self.loops => Some(self.loop_due()),
            _ => None,
        };
        due.map_or(PATIENCE, |due| due.saturating_duration_since(now))
    }

    /// Reads what there is; `true`: the request under way is over.
    fn receive(&mut self, connection: &mut Connection) -> bool {
        let mut buffer = [0; 4096];
        let Some(stream) = &mut connection.stream else { return false };
        match stream.read(&mut buffer) {
            Ok(length) if length > 0 => self.take(connection, &buffer[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            _ => self.ended(connection),
        }
    }

    /// Dropping the stream takes it out of epoll too.
    fn ended(&mut self, connection: &mut Connection) -> bool {
        connection.stream = None;
        self.finish(connection, 0)
    }

    fn take(&mut self, connection: &mut Connection, bytes: &[u8]) -> bool {
        // Nearly every answer comes whole with one read.
        if connection.received.is_empty() && is_whole(bytes) {
            return self.finish(connection, status(bytes));
        }
        connection.received.extend_from_slice(bytes);
        is_whole(&connection.received) && self.finish(connection, status(&connection.received))
    }

    fn finish(&mut self, connection: &mut Connection, status: u16) -> bool {
        let Some(asked) = connection.asked.take() else { return false };
        let at = asked.saturating_duration_since(self.started).as_secs_f64();
        self.seen.shots.push(Shot { at, status, took: asked.elapsed().as_secs_f64() });
        true
    }
}

/// The status of an answer; 0 where it does not begin as one.
fn status(answer: &[u8]) -> u16 {
    let digits = answer.strip_prefix(b"HTTP/1.1 ").and_then(|rest| str::from_utf8(rest.get(..3)?).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Whether head and body are there.
fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    const LENGTH: &[u8] = b"\r\nContent-Length: ";
    let Some(at) = bytes[..head].windows(LENGTH.len()).position(|window| window.eq_ignore_ascii_case(LENGTH))
    else {
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
    use super::*;
    use crate::{Answer, Upstream};

    #[test]
    fn an_answer_is_whole_with_its_last_byte() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: y\r\n\r\nabcde";
        assert!(is_whole(answer));
        assert!((0..answer.len()).all(|length| !is_whole(&answer[..length])));
        assert_eq!((status(answer), status(b"HTTP/1.1 429 Too"), status(b"nothing")), (200, 429, 0));
    }

    #[test]
    fn a_length_in_the_body_is_not_the_length_of_the_body() {
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n\r\nContent-Length: 0\r\n"));
    }

    const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: load\r\n\r\n";

    async fn run<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> T {
        tokio::task::spawn_blocking(work).await.expect("no panic").expect("a run")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn closed_loops_send_exactly_the_requests_they_were_told_to_send() {
        let upstream = Upstream::ok("here\n").await;
        let address = upstream.address();
        let seen = run(move || Client::connect(address, 4, GET)?.ask(50)).await;
        assert_eq!((seen.good(), seen.shots.len(), upstream.seen().len()), (50, 50, 50));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_open_loop_opens_a_connection_where_all_are_busy() {
        let late = Duration::from_millis(100);
        let upstream = Upstream::start(move |_| Answer::Late(late, 429, "late\n".into())).await;
        let address = upstream.address();
        let plan = (0..5).map(|nth| Due { at: Duration::from_millis(nth), request: GET.into() });
        let seen = run(move || Client::connect(address, 0, GET)?.growing().fire(Instant::now(), plan)).await;
        assert!(seen.shots.iter().all(|shot| shot.status == 429 && shot.took >= 0.1), "{:?}", seen.shots);
        assert_eq!((seen.shots.len(), seen.good()), (5, 0));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_request_without_an_answer_counts_and_the_next_one_has_a_new_connection() {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let upstream = Upstream::start(move |_| {
            let first = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            if first { Answer::Close } else { Answer::ok("here\n") }
        })
        .await;
        let address = upstream.address();
        let seen = run(move || Client::connect(address, 1, GET)?.ask(2)).await;
        assert_eq!(seen.shots.iter().map(|shot| shot.status).collect::<Vec<_>>(), [0, 200]);
        assert!(seen.sound("two requests").is_err());
    }
}

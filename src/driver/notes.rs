//! A worker's log lines: one per finished admission in the request's own log, the outages, and paced lines for what could
//! repeat with every request.
//!
//! The worker's slot keeps them, so that a client that is set up anew does not begin its outages anew. An outage's first
//! line and its end are errors: nginx's default level must show that nothing is limited.

use crate::context::Cause;
use crate::nginx::clock;
use crate::nginx::connection::OpenError;
use crate::nginx::log::{Level, Log};
use crate::nginx::udp::SendError;
use ratelimitly_config::text::Count;
use ratelimitly_core::client::{Completion, Failure, Outcome, RECEIVED_COUNTS, SENT_COUNTS, Silencing};
use ratelimitly_core::outage::{End, Outage, Words};
use ratelimitly_core::pace::{Paced, PacedBy};
use ratelimitly_core::time::Millis;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;

/// Servers whose lines about silence are paced apart.
const SERVERS_APART: u64 = 128;

/// A kind of outage with its words.
struct Kind {
    outage: RefCell<Outage>,
    words: &'static Words,
}

const ANSWERS: Words =
    Words { again: "answers again", one: "request without an answer", many: "requests without an answer" };
const SET_UP: Words = Words { again: "this worker is set up", one: "failed set-up", many: "failed set-ups" };
const INTERNAL: Words = Words {
    again: "requests are answered without a 500 again",
    one: "request answered with 500",
    many: "requests answered with 500",
};

impl Kind {
    fn new(words: &'static Words) -> Kind {
        Kind { outage: RefCell::default(), words }
    }

    fn failed(&self, log: Log, message: fmt::Arguments<'_>) {
        if let Some(due) = self.outage.borrow_mut().failed(clock::monotonic()) {
            log.write(Level::Error, format_args!("ratelimitly: {message}{due}"));
        }
    }

    fn succeeded(&self, now: Millis) {
        let end = self.outage.borrow_mut().succeeded(now);
        end.inspect(|end| self.ended(*end));
    }

    fn look(&self, now: Millis) {
        let end = self.outage.borrow_mut().look(now);
        end.inspect(|end| self.ended(*end));
    }

    fn leave(&self, now: Millis) {
        let end = self.outage.borrow_mut().leave(now);
        end.inspect(|end| self.ended(*end));
    }

    #[cold]
    #[inline(never)]
    fn ended(&self, end: End) {
        Log::of_cycle().write(Level::Error, format_args!("ratelimitly: {}", end.in_words(self.words)));
    }
}

/// Outages and paced log lines, and what they have counted so far.
pub struct Notes {
    answers: Kind,
    set_up: Kind,
    internal: Kind,
    /// Answers of wrong counts, and failed sends, of last time.
    wrong: Cell<u64>,
    unsent: Cell<u64>,
    cardinality: RefCell<Paced>,
    send_errors: RefCell<Paced>,
    socket: RefCell<Paced>,
    drops: RefCell<Paced>,
    dropped: Cell<u64>,
    rebound: RefCell<Paced>,
    silent_port: RefCell<Paced>,
    calls: RefCell<PacedBy<&'static str>>,
    unsegmented: RefCell<Paced>,
    rebind_failed: RefCell<Paced>,
    /// By server, folded to a bounded number, and by whether it has stopped or begun to answer.
    silencings: RefCell<PacedBy<(u64, bool)>>,
    /// The last send that failed.
    refused: Cell<Option<(SocketAddr, SendError)>>,
}

impl Default for Notes {
    fn default() -> Notes {
        Notes {
            answers: Kind::new(&ANSWERS),
            set_up: Kind::new(&SET_UP),
            internal: Kind::new(&INTERNAL),
            wrong: Cell::default(),
            unsent: Cell::default(),
            cardinality: RefCell::default(),
            send_errors: RefCell::default(),
            socket: RefCell::default(),
            drops: RefCell::default(),
            dropped: Cell::default(),
            rebound: RefCell::default(),
            silent_port: RefCell::default(),
            calls: RefCell::default(),
            unsegmented: RefCell::default(),
            rebind_failed: RefCell::default(),
            silencings: RefCell::default(),
            refused: Cell::default(),
        }
    }
}

impl Notes {
    /// An admission begins: outages whose failures have stopped are over.
    pub fn admission_begins(&self) {
        let now = clock::monotonic();
        for kind in [&self.answers, &self.set_up, &self.internal] {
            kind.look(now);
        }
    }

    /// A server has given a valid answer.
    pub(super) fn answered(&self) {
        let now = clock::monotonic();
        self.answers.succeeded(now);
        self.internal.succeeded(now);
    }

    /// An admission has failed. Its request is one without a valid answer, unless it has waited for servers in vain: that
    /// outage is discovery's.
    #[cold]
    pub(super) fn unanswered(&self, done: &Completion) {
        if done.outcome != Outcome::Failed(Failure::Discovery) {
            self.answers.failed(
                Log::of_cycle(),
                format_args!(
                    "no valid answer{}: such requests follow ratelimitly_fail",
                    WithoutAnswer { done, refused: self.refused.get() }
                ),
            );
        }
    }

    /// A request was answered with 500; it goes to the request's own log.
    pub fn failed_internally(&self, log: Log, cause: &dyn fmt::Display) {
        self.internal.failed(log, format_args!("a request was answered with 500: {cause}"));
    }

    /// The worker has a client, whose counters begin at 0.
    pub fn set_up(&self) {
        self.set_up.succeeded(clock::monotonic());
        self.wrong.set(0);
        self.unsent.set(0);
    }

    /// The worker could not be set up.
    pub fn set_up_failed(&self, error: &dyn fmt::Display) {
        self.set_up.failed(Log::of_cycle(), format_args!("this worker cannot be set up: {error}"));
    }

    /// The worker exits.
    pub fn leave(&self) {
        let now = clock::monotonic();
        for kind in [&self.answers, &self.set_up, &self.internal] {
            kind.leave(now);
        }
    }

    /// Compares what the core has received with last time, and logs what went wrong since.
    #[inline]
    pub(super) fn received(&self, counts: &[u64; RECEIVED_COUNTS]) {
        let [_, _, _, _, _, cardinality] = *counts;
        if self.wrong.replace(cardinality) != cardinality {
            warn(
                &self.cardinality,
                format_args!(
                    "a response has another number of results than its request asked for; {cardinality} so far"
                ),
            );
        }
    }

    /// The same with what it has sent.
    #[inline]
    pub(super) fn sent(&self, counts: &[u64; SENT_COUNTS]) {
        let [_, _, _, _, _, errors, _, _] = *counts;
        if self.unsent.replace(errors) != errors
            && let Some((to, error)) = self.refused.get()
        {
            warn(
                &self.send_errors,
                format_args!("sending to a server's address failed: {to}: {error}; {errors} sends so far"),
            );
        }
    }

    /// A send that failed; `sent` logs it.
    pub(super) fn send_refused(&self, to: SocketAddr, error: SendError) {
        self.refused.set(Some((to, error)));
    }

    /// Datagrams that went out one by one, and do so from now on.
    pub(super) fn unsegmented(&self, to: SocketAddr, error: SendError) {
        paced(
            &self.unsegmented,
            Level::Info,
            format_args!(
                "the kernel cannot segment what is sent to {to}: {error}; each datagram is sent by itself"
            ),
        );
    }

    /// A server is no longer waited for, or waited for again.
    pub(super) fn silencing(&self, change: &Silencing) {
        let Silencing { server, silent, unanswered } = *change;
        let kind = (server.0 % SERVERS_APART, silent);
        let Some(due) = self.silencings.borrow_mut().occurred(kind, clock::monotonic()) else { return };
        let requests = Count(usize::try_from(unanswered).unwrap_or(usize::MAX), "request");
        let line = match silent {
            true => format_args!(
                "ratelimitly: server {server} has left {requests} unanswered that other servers answered; it is still \
                 asked, and no longer waited for{due}"
            ),
            false => format_args!(
                "ratelimitly: server {server} answers again after {requests} without an answer; it is waited for{due}"
            ),
        };
        Log::of_cycle().write(Level::Error, line);
    }

    pub(super) fn rebound(&self, old: u16, new: u16) {
        self.rebind_failed.borrow_mut().reset();
        paced(
            &self.rebound,
            Level::Info,
            format_args!("UDP socket rebound as a server asked: source port {old} is now {new}"),
        );
    }

    /// The system refuses a call; another one does its work.
    pub(super) fn call_refused(&self, call: &'static str, instead: &str, error: &dyn fmt::Display) {
        if let Some(due) = self.calls.borrow_mut().occurred(call, clock::monotonic()) {
            Log::of_cycle().write(
                Level::Warn,
                format_args!(
                    "ratelimitly: the system refuses {call}: {error}; this worker uses {instead}{due}"
                ),
            );
        }
    }

    pub(super) fn left_silent_port(&self, old: u16, new: u16) {
        paced(
            &self.silent_port,
            Level::Info,
            format_args!("UDP socket rebound as no server answers: source port {old} is now {new}"),
        );
    }

    pub(super) fn silent_port_kept(&self, error: &OpenError) {
        warn(
            &self.rebind_failed,
            format_args!("rebind failed: {error}; retaining the old UDP socket, from which no answers come"),
        );
    }

    pub(super) fn rebind_failed(&self, error: &OpenError, retry_ms: u64) {
        warn(
            &self.rebind_failed,
            format_args!("rebind failed: {error}; retaining the old UDP socket, next try in {retry_ms} ms"),
        );
    }

    /// Datagrams that the kernel has dropped since it last told.
    pub(super) fn dropped(&self, count: u32) {
        if count > 0 {
            self.dropped.set(self.dropped.get() + u64::from(count));
            warn(
                &self.drops,
                format_args!(
                    "the kernel dropped datagrams before this worker read them, {} so far; raise net.core.rmem_max, or \
                     use more workers",
                    self.dropped.get()
                ),
            );
        }
    }

    pub(super) fn socket_trouble(&self, error: &OpenError) {
        warn(&self.socket, format_args!("the UDP socket cannot be watched: {error}"));
    }
}

fn warn(pace: &RefCell<Paced>, message: fmt::Arguments<'_>) {
    paced(pace, Level::Warn, message);
}

fn paced(pace: &RefCell<Paced>, level: Level, message: fmt::Arguments<'_>) {
    if let Some(due) = pace.borrow_mut().occurred(clock::monotonic()) {
        Log::of_cycle().write(level, format_args!("ratelimitly: {message}{due}"));
    }
}

/// The part of the line that says why there is no valid answer.
struct WithoutAnswer<'a> {
    done: &'a Completion,
    refused: Option<(SocketAddr, SendError)>,
}

impl fmt::Display for WithoutAnswer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Completion { outcome, members, waited_ms, .. } = self.done;
        let servers = Count(usize::from(*members), "server");
        match (outcome, self.refused) {
            (Outcome::Failed(Failure::Send), Some((to, error))) => {
                write!(f, ", the request could be sent to none of {servers}, last to {to}: {error}")
            }
            (Outcome::Failed(Failure::Send), None) => {
                write!(f, ", the request could be sent to none of {servers}")
            }
            (Outcome::Failed(Failure::Cardinality), _) => {
                write!(f, ", only answers with another number of results from {servers}")
            }
            _ => write!(f, " from any of {servers} within {waited_ms} ms"),
        }
    }
}

/// The line of a finished admission: a verdict and whose it is, or the cause of there being none. Call it where the level
/// is on.
#[cold]
pub(super) fn completion(log: Log, level: Level, done: &Completion, (guards, resources): (usize, usize)) {
    let (kind, word) = match done.outcome {
        Outcome::Allow => ("verdict", "allow"),
        Outcome::Deny => ("verdict", "deny"),
        Outcome::Failed(failure) => ("failure", Cause::from(failure).word()),
    };
    let Completion { waited_ms, members, answered, round, .. } = done;
    let server = done.server.map_or_else(|| "-".to_owned(), |id| id.to_string());
    log.write(
        level,
        format_args!(
            "ratelimitly: admission {kind}={word} server={server} waited={waited_ms}ms members={members} \
             answered={answered} round={round} guards={guards} resources={resources}"
        ),
    );
}

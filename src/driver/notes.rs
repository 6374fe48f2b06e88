//! The driver's log lines: one a finished admission in the request's own log, and paced ones for what could repeat with
//! every request.

use crate::nginx::clock;
use crate::nginx::connection::OpenError;
use crate::nginx::log::{Level, Log};
use crate::nginx::udp::SendError;
use ratelimitly_config::text::Count;
use ratelimitly_core::client::{Completion, Counters, Failure, Outcome};
use ratelimitly_core::pace::Paced;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;

/// Paced log lines and what they have counted so far.
pub(super) struct Notes {
    seen: Cell<Counters>,
    cardinality: RefCell<Paced>,
    send_errors: RefCell<Paced>,
    socket: RefCell<Paced>,
    drops: RefCell<Paced>,
    dropped: Cell<u64>,
    undecided: RefCell<Paced>,
    rebound: RefCell<Paced>,
    unsegmented: RefCell<Paced>,
    rebind_failed: RefCell<Paced>,
    /// The last send that failed.
    refused: Cell<Option<(SocketAddr, SendError)>>,
}

impl Notes {
    pub(super) fn new() -> Notes {
        Notes {
            seen: Cell::default(),
            cardinality: RefCell::default(),
            send_errors: RefCell::default(),
            socket: RefCell::default(),
            drops: RefCell::default(),
            dropped: Cell::default(),
            undecided: RefCell::default(),
            rebound: RefCell::default(),
            unsegmented: RefCell::default(),
            rebind_failed: RefCell::default(),
            refused: Cell::default(),
        }
    }

    /// Compares the core's counters with those of last time and logs what went wrong since.
    pub(super) fn counters(&self, counters: &Counters) {
        let seen = self.seen.replace(*counters);
        if counters.cardinality != seen.cardinality {
            warn(
                &self.cardinality,
                format_args!(
                    "a response has another number of results than its request asked for; {} so far",
                    counters.cardinality
                ),
            );
        }
        if counters.send_errors != seen.send_errors
            && let Some((to, error)) = self.refused.get()
        {
            warn(
                &self.send_errors,
                format_args!(
                    "sending to a server's address failed: {to}: {error}; {} sends so far",
                    counters.send_errors
                ),
            );
        }
    }

    /// An admission that no server has answered validly in time.
    pub(super) fn timed_out(&self, done: &Completion) {
        warn(
            &self.undecided,
            format_args!(
                "no valid answer from any of {} within {} ms: such requests follow ratelimitly_fail",
                Count(usize::from(done.members), "server"),
                done.waited_ms
            ),
        );
    }

    /// A send that failed; `counters` logs it.
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

    pub(super) fn rebound(&self, old: u16, new: u16) {
        self.rebind_failed.borrow_mut().reset();
        paced(
            &self.rebound,
            Level::Info,
            format_args!("UDP socket rebound as a server asked: source port {old} is now {new}"),
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

/// The line of a finished admission: a verdict and whose it is, or the cause of there being none.
pub(super) fn completion(log: Log, level: Level, done: &Completion, (guards, resources): (u16, u16)) {
    if !log.enabled(level) {
        return;
    }
    let (kind, word) = match done.outcome {
        Outcome::Allow => ("verdict", "allow"),
        Outcome::Deny => ("verdict", "deny"),
        Outcome::Failed(failure) => ("failure", cause(failure)),
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

fn cause(failure: Failure) -> &'static str {
    match failure {
        Failure::Timeout => "timeout",
        Failure::Send => "send",
        Failure::Discovery => "discovery",
        Failure::Cardinality => "cardinality",
    }
}

//! What goes into the client and comes out of it: keys, asks, outcomes, transmits, counters.
//!
//! Plain data, made by the client's other rooms or by its caller. No behaviour lives here.

use crate::id::ServerId;
use crate::membership::Membership;
use crate::wire::{EncodeError, Guard, Resource};
use std::net::SocketAddr;
use std::sync::Arc;

/// Names one admission of one client. `slot` is small and reused (an index for the caller's own table); the
/// generation tells a reused slot apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdmissionKey {
    /// Index, below the most admissions ever in flight at once.
    pub slot: u32,
    /// Distinguishes the admissions that used the slot.
    pub generation: u32,
}

/// What an admission asks for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Guards, in order, already deduplicated.
    pub guards: &'a [Guard],
    /// Resources, in order.
    pub resources: &'a [Resource],
    /// Metrics label; empty: none.
    pub label: &'a [u8],
}

/// Why an admission could not be started. Nothing was sent and nothing is in flight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// A resource's window is longer than the key allows.
    #[error("rate window of {window_ms} ms is longer than the {max_ms} ms that the API key allows")]
    WindowAboveQuota {
        /// Which of the request's resources, from 0.
        resource: usize,
        /// The window.
        window_ms: u32,
        /// The key's `rate_window_size_ms_max`.
        max_ms: u32,
    },
    /// The request does not fit.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// No member is known and no first discovery is under way.
    #[error("no usable discovery target")]
    NoMembers,
}

/// How an admission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A valid result that allows.
    Allow,
    /// A valid result that denies.
    Deny,
    /// No decision.
    Failed(Failure),
}

/// Why there is no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The last deadline passed.
    Timeout,
    /// Round 0 could not be sent to any endpoint.
    Send,
    /// The first discovery, for which the admission waited, failed or took longer than the horizon.
    Discovery,
    /// Only responses of the wrong counts came.
    Cardinality,
}

/// The end of one admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which one.
    pub key: AdmissionKey,
    /// How it ended.
    pub outcome: Outcome,
    /// Whose response decided; `None` for a failure.
    pub server: Option<ServerId>,
    /// From `start` to the end, milliseconds.
    pub waited_ms: u64,
    /// Members of its snapshot; 0 while it waited for discovery.
    pub members: u16,
    /// Members that answered validly.
    pub answered: u16,
    /// Round it ended in; N+1 is the final receive interval.
    pub round: u32,
}

/// One datagram to send now.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// The sealed bytes.
    pub bytes: &'a [u8],
    /// They went to this endpoint before and nothing came back: what swallowed them may be the way in which they were sent.
    pub replay: bool,
}

/// What became of one transmit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendResult {
    /// The system has taken it.
    Sent,
    /// It cannot be sent to this endpoint.
    Failed,
    /// The system has no room for it now. It stays queued.
    WouldBlock,
}

/// What is known about the servers.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The members found.
    pub membership: Arc<Membership>,
    /// The SRV record's TTL, seconds (or what `resolver ... valid=` put in its place); 0 counts as 1.
    pub ttl_s: u32,
    /// Some server's addresses could not be found out: the next discovery is due sooner.
    pub partial: bool,
}

/// Counters since the client was made: plain data, for metrics and paced log lines. None ever decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that the system took.
    pub sent: Sent,
    /// Endpoint sends that failed, those included for which the system had no room in time.
    pub send_errors: u64,
    /// Datagrams received.
    pub received: Received,
    /// Reports whose fate is known.
    pub reports: Reports,
}

/// Datagrams that the system took, by why they were sent; one for each endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Round 0 of admissions.
    pub requests: u64,
    /// Later rounds.
    pub replays: u64,
    /// Completion deliveries.
    pub completions: u64,
    /// Latency reports.
    pub reports: u64,
    /// Everything of probes, their replays and completion deliveries included.
    pub probes: u64,
}

/// Datagrams received, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Authentic answers that count, those of servers that had answered before included.
    pub valid: u64,
    /// Answers to an admission that has ended or was cancelled, or that an answer before them has decided. Healthy service
    /// has them: every server but the one that decides is late. Known by the ids alone, for they are not decrypted; of ended
    /// admissions the newest 4096 are kept at most, so under a high load some count as unknown.
    pub late: u64,
    /// No admission has this id, or the server is not a member of its snapshot.
    pub unknown: u64,
    /// The tag or cookie does not match, or is of the other kind.
    pub unauthentic: u64,
    /// No datagram of the protocol, or not an answer.
    pub malformed: u64,
    /// Authentic answers of the wrong counts.
    pub cardinality: u64,
}

impl Received {
    /// Those that were dropped without a trace but their count.
    pub fn dropped(&self) -> u64 {
        self.late + self.unknown + self.unauthentic + self.malformed
    }
}

/// Latency reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// The system took at least one of the report's datagrams.
    pub sent: u64,
    /// No member was known, or none of its datagrams could be sent.
    pub failed: u64,
}

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

/// Counters since the client was made; the caller turns them into paced log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams dropped: unknown request, foreign server, unauthentic, malformed. Answers that come after the end
    /// of their admission are among them, so this number grows in healthy service too.
    pub dropped: u64,
    /// Authentic responses of the wrong counts.
    pub cardinality: u64,
    /// Endpoint sends that failed, those included for which the system had no room in time.
    pub send_errors: u64,
}

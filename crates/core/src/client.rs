//! The client: admissions in flight, reports, membership and steering, as a state machine.
//!
//! Inputs are `start`, `report`, `cancel` and `handle_*`, each with the current time where it matters. After every
//! input the caller drains the outputs: `transmits` with `handle_sent` until none is left, `poll_deadline`,
//! `poll_completion`, `poll_discovery`. Nothing is called back, so nothing can be re-entered.

use crate::id::ServerId;
use crate::key::ApiKey;
use crate::membership::Membership;
use crate::policy::Policy;
use crate::time::{Millis, WallMillis};
use crate::wire::{EncodeError, Guard, Observation, Resource};
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
#[non_exhaustive]
pub enum StartError {
    /// A resource's window is longer than the key allows.
    #[error("rate window of {window_ms} ms is longer than the {max_ms} ms that the API key allows")]
    WindowAboveQuota {
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
}

/// What is known about the servers.
#[derive(Clone, Debug)]
pub struct Discovered {
    /// The members found.
    pub membership: Arc<Membership>,
    /// The SRV record's TTL, seconds (or what `resolver ... valid=` put in its place); 0 counts as 1.
    pub ttl_s: u32,
}

/// Counters since the client was made; the caller turns them into paced log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams dropped: unknown request, foreign server, unauthentic, malformed.
    pub dropped: u64,
    /// Authentic responses of the wrong counts.
    pub cardinality: u64,
    /// Endpoint sends that failed.
    pub send_errors: u64,
}

/// The client of one key and one policy.
pub struct Client {
    _private: (),
}

impl Client {
    /// Makes a client. `seed` is 256 bits from the kernel, drawn by this process alone after the fork: it makes
    /// request ids and AES nonces, so no two clients may ever share it.
    pub fn new(key: &ApiKey, policy: Policy, seed: [u8; 32]) -> Client {
        let _ = (key, policy, seed);
        todo!()
    }

    /// Starts an admission. With members known, round 0 is queued; while the very first discovery is wanted or under
    /// way the admission waits for it within its horizon.
    ///
    /// # Errors
    /// `StartError`; nothing was queued, except that a discovery may now be due (`poll_discovery`).
    pub fn start(
        &mut self,
        now: Millis,
        wall: WallMillis,
        ask: &Ask<'_>,
    ) -> Result<AdmissionKey, StartError> {
        let _ = (now, wall, ask);
        todo!()
    }

    /// Forgets an admission: no completion will come for it. Unknown or ended keys are ignored.
    pub fn cancel(&mut self, key: AdmissionKey) {
        let _ = key;
        todo!()
    }

    /// Queues a latency report to every endpoint of every member. Never waits for discovery (but may make one due).
    ///
    /// # Errors
    /// `StartError::NoMembers` or `Encode`.
    pub fn report(
        &mut self,
        now: Millis,
        wall: WallMillis,
        observation: &Observation,
    ) -> Result<(), StartError> {
        let _ = (now, wall, observation);
        todo!()
    }

    /// Takes in one received datagram (decrypted in place). Judging is left to `finish_batch`.
    pub fn handle_datagram(&mut self, datagram: &mut [u8]) {
        let _ = datagram;
        todo!()
    }

    /// Judges everything received since the last call: completes admissions that are decided.
    pub fn finish_batch(&mut self, now: Millis) {
        let _ = now;
        todo!()
    }

    /// The admission's deadline has come. Called early, late or for an ended admission it does no harm.
    pub fn handle_timeout(&mut self, now: Millis, key: AdmissionKey) {
        let _ = (now, key);
        todo!()
    }

    /// A discovery succeeded: later admissions use these members, admissions that waited start round 0.
    pub fn handle_discovered(&mut self, now: Millis, found: Discovered) {
        let _ = (now, found);
        todo!()
    }

    /// A discovery failed: known members stay; admissions that waited for the first one fail.
    pub fn handle_discovery_failed(&mut self, now: Millis) {
        let _ = now;
        todo!()
    }

    /// The datagrams waiting to be sent, first in first out. Send any prefix, then report it to `handle_sent`.
    pub fn transmits(&self) -> impl Iterator<Item = Transmit<'_>> {
        std::iter::empty()
    }

    /// Removes the first `results.len()` transmits; `false` marks an endpoint that could not be sent to.
    pub fn handle_sent(&mut self, now: Millis, results: &[bool]) {
        let _ = (now, results);
        todo!()
    }

    /// An admission's next deadline, once whenever it is set or changes.
    pub fn poll_deadline(&mut self) -> Option<(AdmissionKey, Millis)> {
        todo!()
    }

    /// The next ended admission, in the order of ending.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        todo!()
    }

    /// Whether the caller should start a discovery now; true once for each discovery that is due, until its result is
    /// handed in.
    pub fn poll_discovery(&mut self, now: Millis) -> bool {
        let _ = now;
        todo!()
    }

    /// Admissions in flight, those waiting for discovery included.
    pub fn in_flight(&self) -> usize {
        todo!()
    }

    /// Whether a server asked for a new source port and no rebind has been reported since.
    pub fn rebind_pending(&self) -> bool {
        todo!()
    }

    /// The caller has replaced the socket.
    pub fn handle_rebound(&mut self) {
        todo!()
    }

    /// Counters since the client was made.
    pub fn counters(&self) -> Counters {
        todo!()
    }
}

//! When a worker leaves a source port from which it gets no answers (behavior.md, "Silence").
//!
//! A load balancer or a connection-tracking entry may pin a source port to a dead backend, and each datagram keeps that
//! entry alive. Pure bookkeeping for the client: it decides that a new port is due, the caller opens it. A move is decided
//! only when an admission is about to be sent, never by time alone.

use crate::time::Millis;

/// Shortest silence before the first move, milliseconds.
const FIRST_MS: u64 = 5_000;
/// The same in horizons, whichever is longer.
const FIRST_HORIZONS: u64 = 20;
/// Fewest unanswered admissions before the first move.
const FEWEST: u32 = 3;
/// From each move to the next one, milliseconds; the last one repeats.
const LATER_MS: [u64; 4] = [10_000, 20_000, 40_000, 60_000];

/// The admissions without a valid answer since the last one.
#[derive(Default)]
pub(super) struct Silence {
    /// When the first of them started.
    since: Option<Millis>,
    unanswered: u32,
    moves: usize,
    not_before: Millis,
}

impl Silence {
    /// A server has answered validly.
    pub(super) fn broken(&mut self) {
        if self.since.is_some() {
            *self = Silence::default();
        }
    }

    /// An admission that started then has ended without a valid answer.
    pub(super) fn unanswered(&mut self, started: Millis, horizon_ms: u32) {
        if self.since.is_none() {
            self.since = Some(started);
            self.not_before = started + FIRST_MS.max(FIRST_HORIZONS * u64::from(horizon_ms));
        }
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Whether the admission that is sent now needs a new port.
    pub(super) fn is_due(&self, now: Millis) -> bool {
        self.since.is_some() && self.unanswered >= FEWEST && now >= self.not_before
    }

    /// A move was decided; `random` spreads the workers that a failure struck together.
    pub(super) fn moved(&mut self, now: Millis, random: u32) {
        let delay = LATER_MS[self.moves.min(LATER_MS.len() - 1)];
        self.moves += 1;
        // From 80% to 120%.
        self.not_before = now + delay * (800 + u64::from(random % 401)) / 1_000;
    }
}

//! The counters of one slot: which word counts what, and the view through which a worker counts.
//!
//! A slot begins with the counters that every configuration has, then come those of each zone and of each guard. Counting is
//! one `fetch_add`: two workers may share a slot, the one that drains and its successor.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The values of `$ratelimitly_outcome`, in the order of their counters.
pub const OUTCOMES: [&str; 9] = [
    "allow",
    "deny",
    "fail_open",
    "fail_close",
    "error",
    "deny_dry_run",
    "fail_close_dry_run",
    "skip",
    "deny_remembered",
];

/// `skip` among [`OUTCOMES`].
pub const SKIP: usize = 7;

/// The values of `$ratelimitly_failure`, in the order of their counters.
pub const CAUSES: [&str; 9] = [
    "timeout",
    "discovery",
    "send",
    "cardinality",
    "invalid-value",
    "window-above-quota",
    "worker-not-set-up",
    "internal",
    "breaker",
];

/// Upper bounds of the histogram's buckets: milliseconds, and as the page writes them. A duration is whole milliseconds, so
/// that only 0 lies within half of one.
pub(crate) const BOUNDS: [(u64, &str); 12] = [
    (0, "0.0005"),
    (1, "0.001"),
    (2, "0.002"),
    (5, "0.005"),
    (10, "0.01"),
    (20, "0.02"),
    (40, "0.04"),
    (60, "0.06"),
    (100, "0.1"),
    (200, "0.2"),
    (500, "0.5"),
    (1000, "1"),
];

pub(crate) const OUTCOME: usize = 0;
pub(crate) const CAUSE: usize = OUTCOME + OUTCOMES.len();
/// One for each bound, and one for what is above the last.
pub(crate) const DURATION: usize = CAUSE + CAUSES.len();
/// The sum of all durations, milliseconds.
pub(crate) const DURATION_SUM: usize = DURATION + BOUNDS.len() + 1;
pub(crate) const PLAIN: usize = DURATION_SUM + 1;
/// Counters that a slot has in every configuration.
pub(crate) const FIXED: usize = PLAIN + Counter::COUNT;
/// Counters of a zone.
pub(crate) const OF_ZONE: usize = 4;
/// Counters of a guard.
pub(crate) const OF_GUARD: usize = 3;

/// Counters with a number each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Datagrams of round 0 that the system took.
    SentRequests,
    /// Those of later rounds.
    SentReplays,
    /// Completion deliveries.
    SentCompletions,
    /// Latency reports, a datagram for each server's address.
    SentReports,
    /// Everything of probes.
    SentProbes,
    /// Sends that failed.
    SendErrors,
    /// Reports of which at least one datagram went out.
    ReportsSent,
    /// Reports that no server was sent.
    ReportsFailed,
    /// Received: authentic answers that count.
    Valid,
    /// Received: answers to an admission that has ended.
    Late,
    /// Received: no admission has this id.
    Unknown,
    /// Received: a wrong tag or cookie.
    Unauthentic,
    /// Received: no datagram of the protocol.
    Malformed,
    /// Received: authentic, of the wrong counts.
    Cardinality,
    /// Datagrams that the kernel dropped before they were read.
    Dropped,
    /// Discoveries that found members.
    Discovered,
    /// Discoveries that failed.
    DiscoveryFailed,
    /// Source ports that were replaced.
    Rebound,
    /// Replacements that failed.
    RebindFailed,
    /// A breaker opened.
    BreakerOpened,
    /// A breaker closed.
    BreakerClosed,
}

impl Counter {
    pub(crate) const COUNT: usize = Counter::BreakerClosed as usize + 1;
}

/// What became of a zone in an answered question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum ZoneCount {
    /// It had the tokens.
    Pass,
    /// It refused.
    Deny,
    /// It refused in dry run.
    DenyDryRun,
    /// The worker remembered its refusal and asked nothing.
    DenyRemembered,
}

/// What became of a guard in an answered question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum GuardCount {
    /// The latency was below the threshold, or not known.
    Pass,
    /// It refused.
    Deny,
    /// It refused in dry run.
    DenyDryRun,
}

/// One slot's counters.
#[derive(Clone, Copy)]
pub struct Set<'a> {
    words: &'a [AtomicU64],
    guards_at: usize,
}

impl<'a> Set<'a> {
    pub(crate) fn new(words: &'a [AtomicU64], zones: usize) -> Set<'a> {
        Set { words, guards_at: FIXED + zones * OF_ZONE }
    }

    /// Adds to the counter at `at`; one that the area lacks is passed over.
    #[inline]
    fn add(self, at: usize, count: u64) {
        if let Some(word) = self.words.get(at) {
            word.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// An outcome, by its place in [`OUTCOMES`].
    #[inline]
    pub fn outcome(self, outcome: usize) {
        self.add(OUTCOME + outcome, 1);
    }

    /// A failure, by its place in [`CAUSES`].
    #[inline]
    pub fn failure(self, cause: usize) {
        self.add(CAUSE + cause, 1);
    }

    /// An admission's duration, milliseconds.
    #[inline]
    pub fn duration(self, ms: u64) {
        self.add(DURATION + BOUNDS.iter().take_while(|(bound, _)| *bound < ms).count(), 1);
        if ms > 0 {
            self.add(DURATION_SUM, ms);
        }
    }

    /// `count` more of something.
    #[inline]
    pub fn count(self, counter: Counter, count: u64) {
        self.add(PLAIN + counter as usize, count);
    }

    /// What counters that follow each other have come to since they were as `before` says, which is then as `now`.
    #[inline]
    pub fn count_all<const N: usize>(self, first: Counter, now: &[u64; N], before: &[Cell<u64>; N]) {
        for (position, (now, before)) in now.iter().zip(before).enumerate() {
            if *now != before.get() {
                self.add(PLAIN + first as usize + position, now - before.replace(*now));
            }
        }
    }

    /// What became of a zone, by its number.
    #[inline]
    pub fn zone(self, zone: usize, result: ZoneCount) {
        self.add(FIXED + zone * OF_ZONE + result as usize, 1);
    }

    /// What became of a guard, by its number.
    #[inline]
    pub fn guard(self, guard: usize, result: GuardCount) {
        self.add(self.guards_at + guard * OF_GUARD + result as usize, 1);
    }
}

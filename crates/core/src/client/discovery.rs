//! When to look for servers, and what is known of them (docs/protocol.md, "Discovery";
//! docs/behavior.md, "A worker without servers").
//!
//! Pure bookkeeping for the client: it decides that a lookup is due, the caller does it. A lookup is asked for only
//! by a request or a report, never by time alone, and at most once a second, whether it succeeds or fails: a lookup
//! that fails leaves the old members in use and is tried again by the first request a second after it began. A partial
//! one is repeated after 5 s, and after twice as long each further time, up to the TTL.

use super::Discovered;
use crate::membership::Membership;
use crate::time::Millis;
use std::sync::Arc;

/// Shortest time from one lookup's start to the next one's.
const PACE_MS: u64 = 1_000;
/// Members older than this are looked up again however long their TTL is.
const LONGEST_LIFE_MS: u64 = 300_000;
/// Life of the members that a first partial lookup found.
const PARTIAL_LIFE_MS: u64 = 5_000;
/// Consecutive partial lookups that are told apart: after these, twice as long is beyond [`LONGEST_LIFE_MS`].
const MOST_PARTIAL: u32 = 7;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lookup {
    Idle,
    /// Wanted, not yet handed to the caller.
    Due,
    Running,
}

/// The members known and the state of looking them up.
pub(super) struct Discovery {
    members: Option<Arc<Membership>>,
    found: Millis,
    life_ms: u64,
    /// Consecutive partial lookups.
    partial: u32,
    lookup: Lookup,
    /// No lookup has ended yet: requests may wait for it.
    first: bool,
    not_before: Millis,
}

impl Discovery {
    pub(super) fn new() -> Discovery {
        Discovery {
            members: None,
            found: Millis(0),
            life_ms: 0,
            partial: 0,
            lookup: Lookup::Idle,
            first: true,
            not_before: Millis(0),
        }
    }

    /// A request or a report is about to use the members: makes a lookup due if it is time for one.
    pub(super) fn want(&mut self, now: Millis) {
        let stale = self.members.is_none() || now.since(self.found) > self.life_ms;
        if stale && self.lookup == Lookup::Idle && now >= self.not_before {
            self.lookup = Lookup::Due;
        }
    }

    pub(super) fn members(&self) -> Option<&Arc<Membership>> {
        self.members.as_ref()
    }

    /// Whether a request without members may wait: the very first lookup has not ended.
    pub(super) fn is_first(&self) -> bool {
        self.first
    }

    /// Hands a due lookup to the caller, once.
    pub(super) fn poll(&mut self, now: Millis) -> bool {
        let due = self.lookup == Lookup::Due;
        if due {
            self.lookup = Lookup::Running;
            self.not_before = now + PACE_MS;
        }
        due
    }

    /// Members of a lookup that goes on: usable from now on. What it finds at its end decides how long they live. Says
    /// whether they are others than before.
    pub(super) fn usable(&mut self, membership: Arc<Membership>) -> bool {
        self.first = false;
        self.replace(membership)
    }

    /// What another worker's lookup found, and when.
    pub(super) fn handed_on(&mut self, found: Millis, life_ms: u64, membership: Arc<Membership>) {
        self.first = false;
        self.found = found;
        self.life_ms = life_ms.min(LONGEST_LIFE_MS);
        self.replace(membership);
    }

    pub(super) fn known(&self) -> Option<(&Arc<Membership>, Millis, u64)> {
        self.members.as_ref().map(|members| (members, self.found, self.life_ms))
    }

    /// A lookup succeeded. Says whether the members are others than before.
    pub(super) fn found(&mut self, now: Millis, found: Discovered) -> bool {
        self.lookup = Lookup::Idle;
        self.first = false;
        self.found = now;
        self.partial = if found.partial { (self.partial + 1).min(MOST_PARTIAL) } else { 0 };
        let ttl_ms = (u64::from(found.ttl_s).max(1) * 1_000).min(LONGEST_LIFE_MS);
        self.life_ms = match self.partial {
            0 => ttl_ms,
            partial => (PARTIAL_LIFE_MS << (partial - 1)).min(ttl_ms),
        };
        self.replace(found.membership)
    }

    /// Equal members keep their old snapshot, so that nothing else changes hands.
    fn replace(&mut self, membership: Arc<Membership>) -> bool {
        let are_new = self.members.as_ref().is_none_or(|known| *known != membership);
        if are_new {
            self.members = Some(membership);
        }
        are_new
    }

    /// A lookup failed: what was known stays.
    pub(super) fn failed(&mut self) {
        self.lookup = Lookup::Idle;
        self.first = false;
    }
}

//! What the client learns of each server from its answers: how far away it is, and whether it answers at all. It exists only
//! where the policy has `unit=auto` or `silent_after=`.
//!
//! From the round trip follows the unit of the next admission. A server that leaves admissions unanswered, which others
//! answer, is passed over: with `silent_after=` it is no longer waited for, and the unit no longer follows it. Called by the
//! client's other rooms; it sends nothing and judges no answer.

use super::Client;
use super::late::Late;
use super::slots::Slot;
use crate::id::{RequestId, ServerId};
use crate::membership::Membership;
use crate::policy::Policy;
use crate::round_trip::Estimate;
use crate::time::Millis;
use std::collections::VecDeque;
use std::sync::Arc;

/// Without `silent_after=` the unit follows the next server after so many consecutive admissions that the oldest has left
/// unanswered.
const PASSED_OVER_AFTER: u32 = 8;
/// Servers that can be passed over: one bit for each.
const MOST_WATCHED: usize = u64::BITS as usize;

/// A server that stops or begins to answer. Only with `silent_after=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silencing {
    /// The server.
    pub server: ServerId,
    /// Whether it is no longer waited for; else it has answered again.
    pub silent: bool,
    /// Consecutive admissions that it has left unanswered and others have answered.
    pub unanswered: u64,
}

/// What is known of a server's distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrip {
    /// The server.
    pub server: ServerId,
    /// Its round trips, smoothed; `None` before its first answer.
    pub estimate: Option<Estimate>,
    /// Whether it is passed over.
    pub silent: bool,
}

/// One member.
struct Peer {
    id: ServerId,
    estimate: Option<Estimate>,
    /// Consecutive admissions that it has not answered and others have.
    unanswered: u64,
    /// When the first of them started.
    since: Millis,
}

/// What an admission keeps from its start to its end.
#[derive(Clone, Copy)]
struct Terms {
    unit_ms: u32,
    horizon_ms: u32,
    /// When round 0 began.
    began: Millis,
}

/// An authentic first answer of a server to an admission, until the time is known.
struct Heard {
    server: ServerId,
    began: Millis,
    /// While the admission was in flight its deadline: a later time was read by a worker that was stopped meanwhile. After
    /// its end: how long its answers are of interest.
    until: Millis,
    late: bool,
}

/// What holds for admissions that start now, and whose answers they wait for.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) unit_ms: u32,
    pub(super) horizon_ms: u32,
    pub(super) round_0_ms: u32,
    /// Up to which position a valid answer decides in round 0: that of the oldest server, or of the oldest one that answers.
    pub(super) waits_for: usize,
}

impl Next {
    /// Before any answer.
    pub(super) fn of(policy: &Policy) -> Next {
        Next {
            unit_ms: policy.unit_ms(),
            horizon_ms: policy.first_horizon_ms(),
            round_0_ms: short(policy.round_ms(0)),
            waits_for: 0,
        }
    }
}

/// Milliseconds within a horizon, which fits 32 bits.
fn short(ms: u64) -> u32 {
    u32::try_from(ms).unwrap_or(u32::MAX)
}

/// The state behind `unit=auto` and `silent_after=`.
pub(super) struct Watch {
    policy: Policy,
    peers: Vec<Peer>,
    /// Which peers are passed over, by position.
    passed: u64,
    /// Position of the oldest peer that is not passed over.
    oldest: usize,
    /// No peer is passed over before.
    not_before: Millis,
    next: Next,
    terms: Vec<Terms>,
    late: Late,
    heard: Vec<Heard>,
    silencings: VecDeque<Silencing>,
}

impl Watch {
    /// `None` where the policy needs none.
    pub(super) fn new(policy: &Policy) -> Option<Box<Watch>> {
        (policy.auto_unit().is_some() || policy.silent_after() > 0).then(|| {
            Box::new(Watch {
                policy: policy.clone(),
                peers: Vec::new(),
                passed: 0,
                oldest: 0,
                not_before: Millis(0),
                next: Next::of(policy),
                terms: Vec::new(),
                late: Late::default(),
                heard: Vec::new(),
                silencings: VecDeque::new(),
            })
        })
    }

    /// How long an answer is of interest, milliseconds: the longest round trip that is learnt, else the horizon.
    fn kept_ms(&self) -> u64 {
        self.policy.auto_unit().map_or(self.policy.horizon_ms(), |bounds| bounds.max_ms).into()
    }

    /// What holds for admissions now.
    pub(super) fn next(&self) -> Next {
        self.next
    }

    /// An admission's round 0 begins: it keeps its unit and horizon. One that has waited for discovery started with the same
    /// ones, because no answer has taught anything before.
    #[cold]
    pub(super) fn began(&mut self, index: u32, now: Millis) {
        let Next { unit_ms, horizon_ms, .. } = self.next;
        let terms = Terms { unit_ms, horizon_ms, began: now };
        let index = index as usize;
        if self.terms.len() <= index {
            self.terms.resize(index + 1, terms);
        }
        self.terms[index] = terms;
    }

    /// An admission's horizon, milliseconds.
    pub(super) fn horizon_of(&self, index: u32) -> u32 {
        self.terms[index as usize].horizon_ms
    }

    /// An admission's unit, milliseconds.
    pub(super) fn unit_of(&self, index: u32) -> u32 {
        self.terms[index as usize].unit_ms
    }

    /// A valid answer to an admission in flight, the first of its server. `deadline` is the admission's present one.
    pub(super) fn answered(&mut self, index: u32, server: ServerId, deadline: Millis) {
        let began = self.terms[index as usize].began;
        self.heard.push(Heard { server, began, until: deadline, late: false });
    }

    /// An admission with the present members has ended. Its answers are of interest for a while.
    pub(super) fn ended(&mut self, now: Millis, index: u32, slot: &Slot) {
        let began = self.terms[index as usize].began;
        self.late.keep(slot.id, began, now + self.kept_ms(), slot.answered);
    }

    /// An admission was decided by the answer of the member at `winner`, while older members have not answered.
    pub(super) fn passed_by(&mut self, now: Millis, start: Millis, winner: usize, answered: u64) {
        let needed = match self.policy.silent_after() {
            0 => PASSED_OVER_AFTER,
            needed => needed,
        };
        let (since_at_least, mut passed) = (self.kept_ms(), self.passed);
        let older = self.peers.iter_mut().enumerate().take(winner.min(MOST_WATCHED));
        for (position, peer) in older.filter(|(position, _)| answered >> position & 1 == 0) {
            peer.since = if peer.unanswered == 0 { start } else { peer.since };
            peer.unanswered += 1;
            let long_enough = now.since(peer.since) >= since_at_least && now >= self.not_before;
            let is_new = passed >> position & 1 == 0;
            if is_new && peer.unanswered >= u64::from(needed) && long_enough {
                passed |= 1 << position;
                if self.policy.silent_after() > 0 {
                    let (server, unanswered) = (peer.id, peer.unanswered);
                    self.silencings.push_back(Silencing { server, silent: true, unanswered });
                }
            }
        }
        if passed != self.passed {
            self.pass_over(passed);
        }
    }

    /// An answer to an admission that has ended: what to do with it once it is known to be authentic. `None`: it would change
    /// nothing, since its server has answered this admission, is passed over by none and is not the oldest.
    pub(super) fn wants(&mut self, id: &RequestId, server: ServerId) -> Option<usize> {
        let position = self.position(server).filter(|position| *position < MOST_WATCHED)?;
        let ended = self.late.find(id)?;
        let is_first = ended.answered >> position & 1 == 0;
        (is_first && (position <= self.oldest || self.peers[position].unanswered > 0)).then_some(position)
    }

    /// The answer that was wanted is authentic.
    pub(super) fn answered_late(&mut self, id: &RequestId, position: usize) {
        let Some(ended) = self.late.find(id) else { return };
        ended.answered |= 1 << position;
        let (began, until, server) = (ended.began, ended.until, self.peers[position].id);
        self.heard.push(Heard { server, began, until, late: true });
    }

    /// Learns from what was heard since the last call.
    pub(super) fn learn(&mut self, now: Millis) {
        if self.heard.is_empty() {
            return;
        }
        let mut heard = std::mem::take(&mut self.heard);
        heard.drain(..).for_each(|heard| self.learn_one(now, &heard));
        self.heard = heard;
        self.set_unit();
    }

    fn learn_one(&mut self, now: Millis, heard: &Heard) {
        let Some(position) = self.position(heard.server) else { return };
        if heard.late && now > heard.until {
            return;
        }
        let peer = &mut self.peers[position];
        if let Some(bounds) = self.policy.auto_unit() {
            let sample = now.min(heard.until).since(heard.began).min(bounds.max_ms.into());
            match &mut peer.estimate {
                Some(estimate) => estimate.note(sample),
                unknown => *unknown = Some(Estimate::first(sample)),
            }
        }
        let unanswered = std::mem::take(&mut peer.unanswered);
        if position < MOST_WATCHED && self.passed >> position & 1 == 1 {
            if self.policy.silent_after() > 0 {
                let server = heard.server;
                self.silencings.push_back(Silencing { server, silent: false, unanswered });
            }
            self.pass_over(self.passed & !(1 << position));
        }
    }

    /// The members are others than before. What was measured of a server that stays is kept, silence is forgotten.
    pub(super) fn members_changed(&mut self, now: Millis, members: &Arc<Membership>) {
        let before = std::mem::take(&mut self.peers);
        let known = |id| before.iter().find(|peer| peer.id == id).and_then(|peer| peer.estimate);
        let members = members.members().iter().map(|member| member.id);
        let peers = members.map(|id| Peer { id, estimate: known(id), unanswered: 0, since: Millis(0) });
        self.peers = peers.collect();
        self.late = Late::default();
        // Admissions with the old members are in flight as long as this.
        self.not_before = now + u64::from(self.policy.longest_horizon_ms());
        self.pass_over(0);
    }

    /// Another worker has measured a member's distance.
    pub(super) fn know(&mut self, server: ServerId, estimate: Estimate) {
        if let Some(position) = self.position(server) {
            self.peers[position].estimate.get_or_insert(estimate);
            self.set_unit();
        }
    }

    /// What is known of each member, the oldest first.
    pub(super) fn round_trips(&self) -> impl Iterator<Item = RoundTrip> {
        self.peers.iter().enumerate().map(|(position, peer)| RoundTrip {
            server: peer.id,
            estimate: peer.estimate,
            silent: position < MOST_WATCHED && self.passed >> position & 1 == 1,
        })
    }

    /// The next server that has stopped or begun to answer.
    pub(super) fn poll(&mut self) -> Option<Silencing> {
        self.silencings.pop_front()
    }

    fn position(&self, server: ServerId) -> Option<usize> {
        self.peers.binary_search_by_key(&server, |peer| peer.id).ok()
    }

    fn pass_over(&mut self, passed: u64) {
        self.passed = passed;
        let oldest = passed.trailing_ones() as usize;
        // If all servers are silent, the oldest one is waited for.
        self.oldest = if oldest < self.peers.len() { oldest } else { 0 };
        self.next.waits_for = if self.policy.silent_after() > 0 { self.oldest } else { 0 };
        self.set_unit();
    }

    /// The unit follows the oldest server that answers.
    fn set_unit(&mut self) {
        let Some(bounds) = self.policy.auto_unit() else { return };
        let known = self.peers[self.oldest.min(self.peers.len())..].iter().find_map(|peer| peer.estimate);
        let Next { waits_for, .. } = self.next;
        self.next = match known {
            Some(estimate) => {
                let unit_ms = estimate.unit_ms(bounds);
                let round_0_ms = short(self.policy.round_of(unit_ms, 0));
                Next { unit_ms, horizon_ms: self.policy.horizon_of(unit_ms), round_0_ms, waits_for }
            }
            None => Next { waits_for, ..Next::of(&self.policy) },
        };
    }
}

impl Client {
    /// The unit of an admission that starts now, milliseconds: fixed, or what follows from the round trips.
    pub fn unit_ms(&self) -> u32 {
        self.next.unit_ms
    }

    /// What is known of each member's distance, the oldest first. Empty unless the policy has `unit=auto` or
    /// `silent_after=`.
    pub fn round_trips(&self) -> impl Iterator<Item = RoundTrip> {
        self.watch.iter().flat_map(|watch| watch.round_trips())
    }

    /// Takes over what another worker has measured of a member. What this client has measured itself stays.
    pub fn know_round_trip(&mut self, server: ServerId, estimate: Estimate) {
        if let Some(watch) = &mut self.watch {
            watch.know(server, estimate);
            self.next = watch.next();
        }
    }

    /// The next server that has stopped or begun to answer, in the order of these events. Only with `silent_after=`.
    pub fn poll_silencing(&mut self) -> Option<Silencing> {
        self.watch.as_mut()?.poll()
    }

    /// A discovery has found members.
    pub(super) fn note_members(&mut self, now: Millis, are_new: bool) {
        if are_new && let (Some(watch), Some(members)) = (&mut self.watch, self.discovery.members()) {
            watch.members_changed(now, members);
            self.next = watch.next();
        }
    }
}

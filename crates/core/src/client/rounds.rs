//! The course of one admission in time: round 0, replays, the final receive interval, the end
//! (docs/protocol.md, "Policy").
//!
//! A round ends at a fixed distance from the moment round 0 began, however late the caller was in between, and
//! nothing lasts beyond `start` + horizon: an admission that waited for discovery has the rest of its horizon only.
//! It never judges a response; that is `judge`.

use super::outbox::Cause;
use super::slots::{Candidate, Slot};
use super::watch::Next;
use super::{AdmissionKey, Client, Completion, Failure, Outcome};
use crate::membership::Membership;
use crate::time::Millis;

impl Client {
    /// The admission's deadline has come. Late by more than a round, it goes on with the round that the time is in and
    /// leaves out those in between. What the socket has not taken of the round's datagrams has failed. Called for an ended
    /// admission it does nothing. Called early, it only repeats the deadline through `poll_deadline`, so that a caller whose
    /// one-shot timer fired too soon arms it again.
    pub fn handle_timeout(&mut self, now: Millis, key: AdmissionKey) {
        let Some(index) = self.slots.live(key) else { return };
        let slot = &self.slots[index];
        if now < slot.deadline() {
            self.deadlines.push_back(key);
            return;
        }
        let (round, parcel) = (slot.round, slot.parcel);
        let (unsent, all_failed) = self.outbox.expire(parcel);
        self.send_errors += u64::from(unsent);
        let slot = &self.slots[index];
        if all_failed && round == 0 {
            self.end(now, index, Outcome::Failed(Failure::Send));
        } else if slot.candidate != Candidate::NONE {
            self.decide(now, index);
        } else if slot.is_waiting() || now >= self.horizon_end(index) {
            let failure = last_failure(slot);
            self.end(now, index, Outcome::Failed(failure));
        } else {
            self.advance(now, index);
        }
    }

    /// Enters the round that `now` is in, and sends it unless it is the final receive interval.
    fn advance(&mut self, now: Millis, index: u32) {
        let replays = u32::from(self.policy.replays());
        let (policy, horizon_ms) = (&self.policy, self.horizon_of(index));
        let unit_ms = self.watch.as_ref().map_or(policy.unit_ms(), |watch| watch.unit_of(index));
        let slot = &mut self.slots[index];
        let elapsed = now.since(slot.start);
        while u64::from(slot.round_end) <= elapsed {
            slot.round += 1;
            slot.round_end = match slot.round <= replays {
                true => after(slot.round_end, policy.round_of(unit_ms, slot.round)).min(horizon_ms),
                false => horizon_ms,
            };
        }
        if slot.round <= replays {
            self.queue_unanswered(index, Cause::Replay);
        }
        self.deadlines.push_back(self.slots.key(index));
    }

    /// Starts round 0 of an admission, now, with the members known.
    pub(super) fn begin(&mut self, now: Millis, index: u32) {
        let Some(members) = self.discovery.members() else { return };
        let Next { horizon_ms, round_0_ms, .. } = self.next;
        if let Some(watch) = &mut self.watch {
            watch.began(index, now);
        }
        let slot = &mut self.slots[index];
        slot.enter_round_0(members);
        let waited = u32::try_from(now.since(slot.start)).unwrap_or(u32::MAX);
        slot.round_end = waited.saturating_add(round_0_ms).min(horizon_ms);
        self.queue_unanswered(index, Cause::Round0);
        self.deadlines.push_back(self.slots.key(index));
    }

    /// Queues the datagram to every endpoint of each member that has not answered validly.
    fn queue_unanswered(&mut self, index: u32, cause: Cause) {
        let slot = &self.slots[index];
        let until = match cause {
            Cause::Round0 | Cause::Replay => slot.deadline(),
            Cause::Completion | Cause::Report => self.horizon_end(index),
        };
        let members = slot.members().map_or(&[][..], Membership::members);
        for (position, member) in members.iter().enumerate() {
            if !self.slots.has_answered(index, position) {
                for endpoint in &member.endpoints {
                    self.outbox.push(slot.parcel, *endpoint, cause, until);
                }
            }
        }
    }

    /// Ends an admission with its candidate.
    pub(super) fn decide(&mut self, now: Millis, index: u32) {
        let outcome = match self.slots[index].candidate.get() {
            Some((_, true)) => Outcome::Allow,
            Some((_, false)) => Outcome::Deny,
            None => return,
        };
        self.end(now, index, outcome);
    }

    /// Ends an admission: completion delivery where it is due, then the completion. The slot is free once that has been
    /// taken.
    pub(super) fn end(&mut self, now: Millis, index: u32, outcome: Outcome) {
        let slot = &self.slots[index];
        let parcel = slot.parcel;
        let decided = !matches!(outcome, Outcome::Failed(_));
        self.outbox.withdraw(parcel);
        if !decided && outcome != Outcome::Failed(Failure::Discovery) {
            self.silence.unanswered(slot.start, self.horizon_of(index));
        }
        if self.watch.is_some() {
            self.watch_end(now, index, decided);
        }
        let completion = self.completion(now, index, outcome);
        let is_owed = completion.answered < completion.members;
        if decided && is_owed && self.policy.completion_delivery() && now < self.horizon_end(index) {
            self.queue_unanswered(index, Cause::Completion);
        }
        self.completions.push_back(completion);
        if !decided {
            self.slots.drop_answer(index);
        }
        self.outbox.release(parcel);
        self.slots.end(index);
    }

    /// What the end of an admission tells about its servers. Only where the policy asks for that.
    #[cold]
    fn watch_end(&mut self, now: Millis, index: u32, decided: bool) {
        let (Some(watch), Some(members)) = (&mut self.watch, self.discovery.members()) else { return };
        let slot = &self.slots[index];
        if !slot.has_snapshot(members) {
            return;
        }
        watch.ended(now, index, slot);
        if let Some((winner, _)) = slot.candidate.get().filter(|(winner, _)| decided && *winner > 0) {
            watch.passed_by(now, slot.start, winner, slot.answered);
            self.next = watch.next();
        }
    }

    fn completion(&self, now: Millis, index: u32, outcome: Outcome) -> Completion {
        let slot = &self.slots[index];
        let members = slot.members().map_or(&[][..], Membership::members);
        let decided = !matches!(outcome, Outcome::Failed(_));
        let winner = slot.candidate.get().filter(|_| decided).map(|(position, _)| members[position].id);
        Completion {
            key: self.slots.key(index),
            outcome,
            server: winner,
            waited_ms: now.since(slot.start),
            members: short(members.len()),
            answered: short(self.slots.answers(index)),
            round: if slot.is_waiting() { 0 } else { slot.round },
        }
    }

    /// The last deadline of an admission that does not wait for discovery.
    fn horizon_end(&self, index: u32) -> Millis {
        self.slots[index].start + u64::from(self.horizon_of(index))
    }

    /// Its horizon, milliseconds.
    fn horizon_of(&self, index: u32) -> u32 {
        match &self.watch {
            None => self.policy.horizon_ms(),
            Some(watch) => watch.horizon_of(index),
        }
    }
}

/// Why an admission has no decision at its last deadline.
fn last_failure(slot: &Slot) -> Failure {
    match slot {
        slot if slot.is_waiting() => Failure::Discovery,
        slot if slot.wrong => Failure::Cardinality,
        _ => Failure::Timeout,
    }
}

/// A moment `ms` later. What saturates lies beyond every horizon, which fits 32 bits.
fn after(moment: u32, ms: u64) -> u32 {
    moment.saturating_add(u32::try_from(ms).unwrap_or(u32::MAX))
}

/// A number of members as a completion reports it.
fn short(members: usize) -> u16 {
    u16::try_from(members).unwrap_or(u16::MAX)
}

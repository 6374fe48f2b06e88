//! Taking in received datagrams and judging them (docs/protocol.md, "Which answers count").
//!
//! Any sender can reach the port, so everything that is not an authentic answer to a request in flight is dropped
//! without a trace but a count. Judging waits for the end of the read batch, and then looks only at admissions that
//! the batch touched. It never sends, and never knows where a datagram came from.

use super::slots::{Candidate, Slot};
use super::{Client, Failure, Outcome, Received};
use crate::id::{RequestId, ServerId};
use crate::time::Millis;
use crate::wire::{self, DecodeError, Pdu, RateResponseView, Tenant};

/// What a datagram was found to be: the fields of `Received`, as an index of the client's counts.
#[derive(Clone, Copy)]
pub(super) enum Taken {
    Valid,
    Late,
    Unknown,
    Unauthentic,
    Malformed,
    Cardinality,
}

/// Datagrams received, by [`Taken`].
pub(super) type TakenCounts = [u64; Taken::Cardinality as usize + 1];

impl Received {
    pub(super) fn of(counts: &TakenCounts) -> Received {
        let [valid, late, unknown, unauthentic, malformed, cardinality] = *counts;
        Received { valid, late, unknown, unauthentic, malformed, cardinality }
    }
}

impl Client {
    /// Takes in one received datagram (decrypted in place). Judging is left to `finish_batch`.
    pub fn handle_datagram(&mut self, datagram: &mut [u8]) {
        let taken = self.take_in(datagram);
        self.received[taken as usize] += 1;
    }

    /// Judges everything received since the last call: completes admissions that are decided.
    pub fn finish_batch(&mut self, now: Millis) {
        for position in 0..self.touched.len() {
            let index = self.touched[position];
            // A slot listed twice, or ended and reused since, has its mark cleared.
            if std::mem::take(&mut self.slots[index].touched) {
                self.judge(now, index);
            }
        }
        self.touched.clear();
        if self.watch.is_some() {
            self.learn(now);
        }
    }

    fn take_in(&mut self, datagram: &mut [u8]) -> Taken {
        let Ok(claimed) = wire::peek(datagram) else { return Taken::Malformed };
        let server = ServerId(claimed.key_or_server_id);
        let found = self.slots.find(&claimed.request_id);
        let position = match found {
            Some(index) => self.slots[index].position(server).ok_or(Taken::Unknown),
            None => self.position_of_late(&claimed.request_id, server),
        };
        let position = match position {
            Ok(position) => position,
            Err(taken) => return taken,
        };
        if let Some(index) = found
            && self.changes_nothing(index, position, &claimed)
        {
            self.slots.mark_answered(index, position);
            return Taken::Late;
        }
        let (tenant, response) = match self.auth.open(datagram) {
            Ok((tenant, Pdu::RateResponse(response))) => (tenant, response),
            Err(DecodeError::Authentication | DecodeError::AuthKind) => return Taken::Unauthentic,
            Ok(_) | Err(_) => return Taken::Malformed,
        };
        let Some(index) = found else { return self.take_in_late(&claimed.request_id, position) };
        let slot = &mut self.slots[index];
        if !slot.touched {
            slot.touched = true;
            self.touched.push(index);
        }
        if !slot.counts_match(&response) {
            tracing::debug!(
                server = tenant.key_or_server_id,
                guards = response.guards().len(),
                resources = response.resources().len(),
                "response of the wrong counts: {} guards and {} resources were asked for",
                slot.guards,
                slot.resources,
            );
            self.slots.mark_wrong(index, position);
            return Taken::Cardinality;
        }
        if slot.prefers(position) {
            let grants = self.slots.kept[index as usize].keep(&response);
            self.slots[index].candidate = Candidate::new(position, grants);
        }
        self.rebind_pending |= tenant.steering_feedback == 0;
        if self.watch.is_some() {
            self.watch_answer(index, position, server);
        }
        self.slots.mark_answered(index, position);
        self.silence.broken();
        Taken::Valid
    }

    /// Whether nothing would come of an answer but that its server has answered: another one has decided already, which the
    /// end of the batch will say. Then it need not be decrypted. It has the request's id, which only machines on the path know. A
    /// server that asks for another port, and one that is watched, must show that it is authentic.
    fn changes_nothing(&self, index: u32, position: usize, claimed: &Tenant) -> bool {
        let slot = &self.slots[index];
        let is_decided =
            slot.candidate.get().is_some_and(|(held, _)| slot.round > 0 || held <= self.next.waits_for);
        is_decided && !slot.prefers(position) && claimed.steering_feedback != 0 && self.watch.is_none()
    }

    /// A valid answer tells how far away its server is, and that it answers.
    #[cold]
    fn watch_answer(&mut self, index: u32, position: usize, server: ServerId) {
        let deadline = self.slots[index].deadline();
        if let Some(watch) = &mut self.watch
            && !self.slots.has_answered(index, position)
        {
            watch.answered(index, server, deadline);
        }
    }

    /// The position of the server whose answer comes after the end, if the answer would teach anything. Then it must be
    /// authentic.
    #[inline(never)]
    fn position_of_late(&mut self, id: &RequestId, server: ServerId) -> Result<usize, Taken> {
        if !self.slots.ended_lately(id) {
            return Err(Taken::Unknown);
        }
        let watch = self.watch.as_mut().ok_or(Taken::Late)?;
        watch.wants(id, server).ok_or(Taken::Late)
    }

    /// An authentic answer that comes after the end decides nothing. It tells how far away its server is, or that it answers
    /// again.
    #[cold]
    fn take_in_late(&mut self, id: &RequestId, position: usize) -> Taken {
        if let Some(watch) = &mut self.watch {
            watch.answered_late(id, position);
            self.silence.broken();
        }
        Taken::Late
    }

    /// After a batch was judged: what its answers tell about the servers.
    #[cold]
    fn learn(&mut self, now: Millis) {
        if let Some(watch) = &mut self.watch {
            watch.learn(now);
            self.next = watch.next();
        }
    }

    fn judge(&mut self, now: Millis, index: u32) {
        let slot = &self.slots[index];
        match slot.candidate.get() {
            Some((position, _)) if slot.round > 0 || position <= self.next.waits_for => {
                self.decide(now, index)
            }
            // A younger server's answer in round 0 stands back until the round's deadline.
            Some(_) => {}
            None if self.slots.all_wrong(index) => {
                self.end(now, index, Outcome::Failed(Failure::Cardinality))
            }
            None => {}
        }
    }
}

impl Slot {
    fn counts_match(&self, response: &RateResponseView<'_>) -> bool {
        response.guards().len() == usize::from(self.guards)
            && response.resources().len() == usize::from(self.resources)
    }

    /// Whether a valid response of this member takes the candidate's place. In round 0 the oldest responder is the
    /// candidate, later the first one.
    fn prefers(&self, position: usize) -> bool {
        match self.candidate.get() {
            None => true,
            Some((held, _)) => self.round == 0 && position < held,
        }
    }
}

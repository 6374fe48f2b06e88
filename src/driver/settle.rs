//! What follows a change of the core: sending, arming timers, resuming requests, discovery, the rebind.
//!
//! The one place that sends and resumes. It runs at the end of a read event and otherwise as a posted event in the same
//! turn of the event loop, so that admissions started in one turn are sent by one system call. A resumed request may
//! change the core again; the loop goes on until nothing is left.

use super::{BATCH, Driver, Waiting, notes};
use crate::context::{Decision, Waiter};
use crate::nginx::border;
use crate::nginx::clock;
use crate::nginx::posted::PostedEvent;
use crate::nginx::udp::Outgoing;
use ratelimitly_core::client::{Client, Completion, Outcome, SendResult, Transmit};
use std::rc::{Rc, Weak};

/// The event behind `settle_soon`.
pub(super) fn event(driver: Weak<Driver>) -> PostedEvent {
    PostedEvent::new("settling the client's changes", move || {
        if let Some(driver) = driver.upgrade() {
            driver.settle();
        }
    })
}

/// Says that `settle` is running, also when it ends by a panic.
struct Running<'a>(&'a Driver);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.settling.set(false);
    }
}

impl Driver {
    /// Lets `settle` run later in this turn, unless it is running already.
    pub fn settle_soon(&self) {
        if !self.settling.get() {
            self.settle_event.post_now();
        }
    }

    /// The same for callers outside of the event loop, who are in no turn: the loop is to look at once.
    pub fn settle_next(&self) {
        self.settle_event.post();
    }

    pub(super) fn settle(self: &Rc<Self>) {
        if self.settling.replace(true) {
            return;
        }
        let running = Running(self);
        self.reading.end_of_deadlines();
        loop {
            self.flush();
            self.arm_deadlines();
            if self.broken.get() {
                self.collapse();
                return;
            }
            if !self.resume_ended() && !self.broken.get() {
                break;
            }
        }
        drop(running);
        self.notes.counters(&self.core.borrow().counters());
        self.discover_if_due();
        self.rebind_if_due();
        if self.in_flight() == 0
            && let Some(home) = self.home.upgrade()
        {
            home.idle();
        }
    }

    /// Sends everything that is queued, as far as the socket takes it.
    pub(super) fn flush(&self) {
        // Most calls find nothing: a request that goes on seldom leaves something to send. What a panic has left of the core
        // is not even looked at.
        if self.broken.get() || !self.core.borrow().has_transmits() {
            return;
        }
        while self.with_core("sending", |core| self.send_batch(core)) == Some(true) {}
    }

    /// Sends at most one batch and tells the core what became of each datagram. Says whether there may be more to send.
    fn send_batch(&self, core: &mut Client) -> bool {
        let now = clock::monotonic();
        let socket = self.socket.borrow();
        let Some(socket) = socket.as_ref().filter(|socket| !socket.is_full()) else { return false };
        let mut results = [SendResult::Failed; BATCH];
        let mut sender = self.sender.borrow_mut();
        let datagrams = core.transmits(now, BATCH);
        let datagrams = datagrams.map(|Transmit { to, bytes, replay }| Outgoing { to, bytes, alone: replay });
        let sent = socket.send(&mut sender, datagrams, &mut results);
        if let Some((place, error)) = sender.refused.take() {
            core.transmits(now, BATCH).nth(place).inspect(|one| self.notes.send_refused(one.to, error));
        }
        if let Some(error) = sender.without_batches.take() {
            self.notes.call_refused("sendmmsg", "sendto", &error);
        }
        if let Some((place, error)) = sender.unsegmented.take() {
            core.transmits(now, BATCH).nth(place).inspect(|one| self.notes.unsegmented(one.to, error));
        }
        core.handle_sent(now, &results[..sent]);
        // Less than a whole batch is the rest of the queue.
        sent == BATCH && !socket.is_full()
    }

    fn arm_deadlines(&self) {
        let now = clock::monotonic();
        while let Some((key, deadline)) = self.with_core("a deadline", |core| core.poll_deadline()).flatten()
        {
            if let Some(Some(entry)) = self.waiting.borrow().get(key.slot as usize)
                && entry.key == key
            {
                entry.waiter.context().wake_at(now, deadline);
            }
        }
    }

    /// Resumes the requests whose admission has ended, one by one. `false`: there was none.
    fn resume_ended(&self) -> bool {
        let mut any = false;
        while let Some(completion) = self.with_core("an end", |core| core.poll_completion()).flatten() {
            // From here on another request may get the slot, so its waiter must be out of the table.
            let Some(waiter) = self.take_waiter(completion.key) else { continue };
            any = true;
            // A panic in here must not lose the waiter.
            border::guarded("an admission's log lines", (), || self.note_end(&waiter, &completion));
            let decision = decision(&waiter, completion.outcome);
            waiter.finish(self.verdict_index, decision);
        }
        any
    }

    fn note_end(&self, waiter: &Waiter, completion: &Completion) {
        match completion.outcome {
            Outcome::Allow | Outcome::Deny => self.notes.answered(),
            Outcome::Failed(_) => self.notes.unanswered(completion),
        }
        notes::completion(waiter.request().log(), self.detail, completion, waiter.context().asked());
    }

    /// The core has panicked: this driver goes, and every request that waited follows the failure policy.
    fn collapse(&self) {
        if let Some(home) = self.home.upgrade() {
            home.broke();
        }
        let slots = self.waiting.borrow().len();
        for index in 0..slots {
            // The borrow ends with this statement, before the request runs.
            let waiting = self.waiting.borrow_mut()[index].take();
            if let Some(Waiting { waiter, .. }) = waiting {
                let decision = Decision::of_failure(waiter.context().enforcement().fail);
                waiter.finish(self.verdict_index, decision);
            }
        }
    }
}

fn decision(waiter: &Waiter, outcome: Outcome) -> Decision {
    match outcome {
        Outcome::Allow => Decision::Allow,
        Outcome::Deny => Decision::Deny,
        Outcome::Failed(_) => Decision::of_failure(waiter.context().enforcement().fail),
    }
}

//! What follows a change of the core: sending, arming timers, resuming requests, discovery, the rebind.
//!
//! The one place that sends and resumes. It runs at the end of a read event and otherwise as a posted event in the same
//! event-loop iteration, so that admissions started in one iteration are sent by one system call. A resumed request may
//! change the core again; the loop goes on until nothing is left.

use super::breaking::Breaking;
use super::{Driver, State, notes};
use crate::context::{Cause, End, Waiter};
use crate::nginx::border;
use crate::nginx::clock;
use crate::nginx::posted::PostedEvent;
use ratelimitly_core::client::{Client, Completion, Outcome};
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
            match self.state.get() {
                // A panic while they were resumed is met in the next round.
                State::Live if self.resume_ended() || !self.is_live() => {}
                State::Live => break,
                State::Broken => return self.collapse(),
                State::Left => return,
            }
        }
        drop(running);
        self.note_silencings();
        self.discover_if_due();
        self.rebind_if_due();
        let in_flight = self.in_flight();
        self.shared.in_flight(in_flight);
        if in_flight == 0
            && let Some(home) = self.home.upgrade()
        {
            home.idle();
        }
    }

    /// Sends everything that is queued, as far as the socket takes it.
    pub(super) fn flush(&self) {
        // Most calls find nothing: a request that goes on seldom leaves something to send. What a panic has left of the core
        // is not even looked at.
        if !self.is_live() || !self.core.borrow().has_transmits() {
            return;
        }
        while self.with_core("sending", |core| self.transport.send(core)) == Some(true) {}
        if self.is_live() {
            let sent = self.core.borrow().sent();
            self.shared.sent(&sent);
            self.notes.sent(&sent);
        }
    }

    fn arm_deadlines(&self) {
        let now = clock::monotonic();
        while let Some((key, deadline)) = self.with_core("a deadline", |core| core.poll_deadline()).flatten()
        {
            self.waiting.look(key, |context| context.wake_at(now, deadline));
            self.breaking.iter().for_each(|breaking| breaking.look(key, now, deadline));
        }
    }

    /// Resumes the requests whose admission has ended, one by one. `false`: there was none.
    fn resume_ended(&self) -> bool {
        let mut any = false;
        while let Some(completion) = self.with_core("an end", Client::poll_completion).flatten() {
            self.note_end_to_breaker(&completion);
            // From here on another request may get the slot, so its waiter must be out of the table.
            let Some(waiter) = self.waiting.take(completion.key) else { continue };
            any = true;
            // A panic in here must not lose the waiter.
            border::guarded("an admission's end", (), || {
                self.keep_answer(&waiter, &completion);
                self.note_end(&waiter, &completion);
            });
            waiter.finish(self.variables, &self.shared, completion.outcome.into());
        }
        any
    }

    /// The core has the deciding answer until the next start, so its request takes it over now.
    fn keep_answer(&self, waiter: &Waiter, completion: &Completion) {
        let Some(server) = completion.server else { return };
        if let Some(answer) = self.core.borrow().answer(completion.key) {
            waiter.context().keep_answer(server, &answer);
        }
        if let Some(table) = self.remembered.as_ref().filter(|_| completion.outcome == Outcome::Deny) {
            waiter.context().details().remember(&mut table.borrow_mut(), clock::monotonic());
        }
    }

    fn note_end(&self, waiter: &Waiter, completion: &Completion) {
        match completion.outcome {
            Outcome::Allow | Outcome::Deny => self.notes.answered(),
            Outcome::Failed(_) => self.notes.unanswered(completion),
        }
        let log = waiter.request().log();
        if log.enabled(self.detail) {
            notes::completion(log, self.detail, completion, waiter.context().details().counts());
        }
    }

    /// Logs which servers have stopped or begun to answer.
    fn note_silencings(&self) {
        while let Some(change) = self.core.borrow_mut().poll_silencing() {
            self.notes.silencing(&change);
        }
    }

    /// The core has panicked: this driver goes, and every request that waited follows the failure policy.
    fn collapse(&self) {
        if let Some(home) = self.home.upgrade() {
            home.broke();
        }
        self.breaking.iter().for_each(Breaking::lost);
        for index in 0..self.waiting.slots() {
            if let Some(waiter) = self.waiting.take_slot(index) {
                waiter.finish(self.variables, &self.shared, End::Failed(Cause::Internal));
            }
        }
    }
}

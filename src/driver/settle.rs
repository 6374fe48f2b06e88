//! What follows a change of the core: sending, arming timers, resuming requests, discovery, the rebind.
//!
//! The one place that sends and resumes. It runs at the end of a read event and otherwise as a posted event in the same
//! turn of the event loop, so that admissions started in one turn are sent by one system call. A resumed request may
//! change the core again; the loop goes on until nothing is left.

use super::{BATCH, Driver, notes};
use crate::context::Decision;
use crate::nginx::border;
use crate::nginx::clock;
use crate::nginx::posted::PostedEvent;
use crate::nginx::udp::Outgoing;
use ratelimitly_core::client::{Client, Completion, Failure, Outcome, Transmit};
use std::rc::{Rc, Weak};

/// Why a suspended request goes on.
pub(super) enum Ending {
    /// Its admission has ended.
    Completed(Completion),
    /// The client broke under it.
    Broken,
}

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
        loop {
            self.flush();
            self.arm_deadlines();
            self.collect();
            if self.broken.get() {
                self.collapse();
                return;
            }
            if !self.resume_ready() {
                break;
            }
        }
        drop(running);
        self.notes.counters(&self.core.borrow().counters());
        self.discover_if_due();
        self.rebind_if_due();
        if self.in_flight() == 0
            && let Some(slot) = self.slot.upgrade()
        {
            slot.release_if_retired();
        }
    }

    /// Sends everything that is queued.
    pub(super) fn flush(&self) {
        // Most calls find nothing: a request that goes on seldom leaves something to send. What a panic has left of the core
        // is not even looked at.
        if self.broken.get() || self.core.borrow().transmits().next().is_none() {
            return;
        }
        // Less than a whole batch is the rest of the queue.
        while self.with_core("sending", |core| self.send_batch(core)) == Some(BATCH) {}
    }

    /// Sends at most one batch and tells the core what became of each datagram; gives their number.
    fn send_batch(&self, core: &mut Client) -> usize {
        let mut results = [false; BATCH];
        let mut sender = self.sender.borrow_mut();
        let sent = self.socket.borrow().as_ref().map_or(0, |socket| {
            let datagrams =
                core.transmits().map(|Transmit { to, bytes, replay }| Outgoing { to, bytes, alone: replay });
            socket.send(&mut sender, datagrams, &mut results)
        });
        let to = |place| core.transmits().nth(place).map(|transmit| transmit.to);
        if let Some((place, error)) = sender.refused.take() {
            to(place).inspect(|to| self.notes.send_refused(*to, error));
        }
        if let Some((place, error)) = sender.unsegmented.take() {
            to(place).inspect(|to| self.notes.unsegmented(*to, error));
        }
        core.handle_sent(clock::monotonic(), &results[..sent]);
        sent
    }

    fn arm_deadlines(&self) {
        let now = clock::monotonic();
        while let Some((key, deadline)) = self.with_core("a deadline", |core| core.poll_deadline()).flatten()
        {
            if let Some(Some((waiting, waiter))) = self.waiting.borrow().get(key.slot as usize)
                && *waiting == key
            {
                waiter.context().wake_at(now, deadline);
            }
        }
    }

    /// Moves the ended admissions' requests out of the table. Whatever ends admissions must call this before anything else
    /// can run: their slots are free, and a request that starts in the same turn takes one and its place in the table.
    pub(super) fn collect(&self) {
        while let Some(completion) = self.with_core("an end", |core| core.poll_completion()).flatten() {
            if let Some(waiter) = self.take_waiter(completion.key) {
                self.ready.borrow_mut().push_back((completion.key, Ending::Completed(completion), waiter));
            }
        }
    }

    /// Lets the ready requests go on, one by one; each may make others leave the list. `false`: there was none.
    fn resume_ready(&self) -> bool {
        let mut any = false;
        loop {
            // The borrow ends with this statement, before the request runs.
            let Some((_, ending, waiter)) = self.ready.borrow_mut().pop_front() else { return any };
            any = true;
            if let Ending::Completed(completion) = &ending {
                // A panic in here must not lose the waiter.
                border::guarded("an admission's log line", (), || {
                    if completion.outcome == Outcome::Failed(Failure::Timeout) {
                        self.notes.timed_out(completion);
                    }
                    notes::completion(
                        waiter.request().log(),
                        self.detail,
                        completion,
                        waiter.context().asked(),
                    );
                });
            }
            waiter.finish(self.verdict_index, self.decision(&ending));
        }
    }

    fn decision(&self, ending: &Ending) -> Decision {
        match ending {
            Ending::Completed(Completion { outcome: Outcome::Allow, .. }) => Decision::Allow,
            Ending::Completed(Completion { outcome: Outcome::Deny, .. }) => Decision::Deny,
            Ending::Completed(_) | Ending::Broken => Decision::of_failure(self.fail),
        }
    }

    /// The core has panicked: this driver goes, and every request that waited follows the failure policy.
    fn collapse(&self) {
        if let Some(slot) = self.slot.upgrade() {
            slot.discard();
        }
        let waiting = self.waiting.take().into_iter().flatten();
        self.ready.borrow_mut().extend(waiting.map(|(key, waiter)| (key, Ending::Broken, waiter)));
        self.resume_ready();
    }
}

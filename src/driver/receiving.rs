//! Reading the socket, and judging deadlines only after that.
//!
//! nginx handles sockets before timers in one event-loop iteration, but not always: an interrupted `epoll_wait` leaves the
//! timers alone, and a stopped process wakes up with both due. So the first expired deadline of an iteration reads the
//! socket first. Nothing is resumed here; `settle` does that, later in the same iteration.

use super::Driver;
use crate::nginx::clock;
use crate::nginx::udp::QUEUE_LENGTH;
use ratelimitly_core::backlog::Backlog;
use ratelimitly_core::client::AdmissionKey;
use ratelimitly_core::time::Millis;
use std::cell::Cell;
use std::rc::Rc;

/// A deadline that was put off is looked at again after so many milliseconds. 0 would be the same iteration.
const PUT_OFF_MS: u64 = 1;

/// What a worker has read so far.
pub(super) struct Reading {
    backlog: Cell<Backlog>,
    /// When the socket was read for the deadlines of this iteration.
    for_deadlines: Cell<Option<Millis>>,
}

impl Reading {
    pub(super) fn new() -> Reading {
        Reading { backlog: Cell::new(Backlog::new(QUEUE_LENGTH)), for_deadlines: Cell::new(None) }
    }

    /// The iteration's deadlines have been handled: those of the next one read the socket again.
    pub(super) fn end_of_deadlines(&self) {
        self.for_deadlines.set(None);
    }
}

impl Driver {
    /// The socket is readable: takes in what it has, and lets the decided requests go on in this iteration.
    pub(super) fn receive(self: &Rc<Self>) {
        self.read();
        self.settle();
    }

    /// An admission's timer has fired.
    pub fn handle_deadline(&self, key: AdmissionKey) {
        let now = clock::monotonic();
        // The clock moves once an iteration at most.
        if self.reading.for_deadlines.replace(Some(now)) != Some(now) {
            self.read();
        }
        if self.waiting.may_judge(key, self.reading.backlog.get()) {
            self.with_core("an admission's deadline", |core| core.handle_timeout(now, key));
        } else {
            // The rest of what the socket holds comes first.
            self.waiting.look(key, |context| context.wake_at(now, now + PUT_OFF_MS));
        }
        self.settle_soon();
    }

    /// Takes in what the sockets have, and notes what that decides.
    fn read(&self) {
        let read = self.with_core("receiving", |core| self.transport.read(core)).unwrap_or_default();
        if read.datagrams > 0 && self.is_live() {
            let core = self.core.borrow();
            self.shared.received(core.received());
            self.notes.received(core.received());
        }
        if read.dropped > 0 {
            self.shared.dropped(read.dropped);
        }
        let mut backlog = self.reading.backlog.get();
        backlog.note_read(read.datagrams, !read.more);
        self.reading.backlog.set(backlog);
        self.note_rebind_pending();
    }
}

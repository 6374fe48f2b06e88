//! Reading the socket, and judging deadlines only after that.
//!
//! nginx handles sockets before timers in one event-loop iteration, but not always: an interrupted `epoll_wait` leaves the
//! timers alone, and a stopped process wakes up with both due. So the first expired deadline of an iteration reads the
//! socket first. Nothing is resumed here; `settle` does that, later in the same iteration.

use super::Driver;
use crate::fault::Fault;
use crate::nginx::clock;
use crate::nginx::udp::{BATCH, QUEUE_LENGTH, UdpSocket};
use ratelimitly_core::backlog::{Backlog, budget};
use ratelimitly_core::client::AdmissionKey;
use ratelimitly_core::time::Millis;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

/// A deadline that was put off is looked at again after so many milliseconds. 0 would be the same iteration.
const PUT_OFF_MS: u64 = 1;

/// What a worker has read so far.
pub(super) struct Reading {
    backlog: Cell<Backlog>,
    /// When the socket was read for the deadlines of this iteration.
    for_deadlines: Cell<Option<Millis>>,
}

/// What one read took.
#[derive(Default)]
struct Read {
    datagrams: usize,
    /// Whether there may be more.
    more: bool,
    /// Datagrams that the kernel has dropped since it last told.
    dropped: u32,
}

impl Read {
    fn add(&mut self, other: &Read) {
        self.datagrams += other.datagrams;
        self.more |= other.more;
        self.dropped += other.dropped;
    }
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
        if self.may_judge(key) {
            self.with_core("an admission's deadline", |core| core.handle_timeout(now, key));
        } else {
            self.put_off(key, now);
        }
        self.settle_soon();
    }

    fn may_judge(&self, key: AdmissionKey) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let entry = waiting.get_mut(key.slot as usize).and_then(Option::as_mut);
        entry
            .filter(|entry| entry.key == key)
            .is_none_or(|entry| self.reading.backlog.get().may_judge(&mut entry.put_off))
    }

    /// The rest of what the socket holds comes first.
    fn put_off(&self, key: AdmissionKey, now: Millis) {
        if let Some(Some(entry)) = self.waiting.borrow().get(key.slot as usize) {
            entry.waiter.context().wake_at(now, now + PUT_OFF_MS);
        }
    }

    /// Takes in what the sockets have, up to the budget of each, and notes what that decides. They are empty once both are.
    fn read(&self) {
        let mut read = self.read_socket(&self.socket);
        if self.old_socket.borrow().is_some() {
            read.add(&self.read_socket(&self.old_socket));
        }
        let mut backlog = self.reading.backlog.get();
        backlog.note_read(read.datagrams, !read.more);
        self.reading.backlog.set(backlog);
        self.notes.dropped(read.dropped);
        if let Some(number) = self.receiver.borrow_mut().refused.take() {
            let error = io::Error::from_raw_os_error(number);
            self.notes.call_refused("recvmmsg", "recvfrom", &error);
        }
        self.note_rebind_pending();
    }

    fn read_socket(&self, socket: &RefCell<Option<UdpSocket>>) -> Read {
        let read = self.read_batches(socket).unwrap_or_default();
        if let Some(socket) = socket.borrow().as_ref() {
            if read.more {
                socket.resume_later();
            } else if let Err(error) = socket.arm() {
                self.notes.socket_trouble(&error);
            }
        }
        read
    }

    fn read_batches(&self, socket: &RefCell<Option<UdpSocket>>) -> Option<Read> {
        let now = clock::monotonic();
        self.with_core("receiving", |core| {
            let mut read = Read::default();
            let socket = socket.borrow();
            let Some(socket) = socket.as_ref() else { return read };
            if self.faults.fires(Fault::ReceivePanic) {
                panic!("injected panic while the core takes datagrams in");
            }
            let mut receiver = self.receiver.borrow_mut();
            let most = budget(core.in_flight());
            loop {
                let batch = socket.receive(&mut receiver, |datagram| core.handle_datagram(datagram));
                read.datagrams += batch.datagrams;
                read.dropped += batch.dropped;
                read.more = batch.more;
                if !read.more || read.datagrams + BATCH > most {
                    break;
                }
            }
            core.finish_batch(now);
            read
        })
    }
}

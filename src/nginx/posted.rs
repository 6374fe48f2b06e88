//! A handler that nginx's event loop calls once after it has been posted: in the next turn or later in this one.
//!
//! Used by discovery's executor and by the driver for work that must not run under its caller's borrows. Dropping
//! the event takes it out of the queue: the handler never runs afterwards.

use crate::nginx::border;
use crate::nginx::log::Log;
use ngx::ffi::{self, ngx_event_t};
use std::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::mem;
use std::ptr;
use std::rc::Rc;

/// An event that can be posted any number of times; posted twice before it runs, it runs once.
pub struct PostedEvent {
    shared: Rc<Shared>,
}

struct Shared {
    /// nginx links this into its queue, so it never moves: it lives in the `Rc`'s allocation and nowhere else.
    event: UnsafeCell<ngx_event_t>,
    entry: &'static str,
    handler: Box<dyn Fn()>,
    _pinned: PhantomPinned,
}

impl PostedEvent {
    /// An event that is not posted yet. `entry` names the handler in the log line of a panic. The handler may drop
    /// the event, or post it again for another run.
    pub fn new(entry: &'static str, handler: impl Fn() + 'static) -> PostedEvent {
        // SAFETY: ngx_event_t is C data for which all zeroes is the initial state (null pointers, no flags).
        let mut event: ngx_event_t = unsafe { mem::zeroed() };
        event.handler = Some(run);
        event.log = Log::of_cycle().as_ptr();
        let handler = Box::new(handler);
        let shared = Shared { event: UnsafeCell::new(event), entry, handler, _pinned: PhantomPinned };
        let shared = Rc::new(shared);
        // SAFETY: the event is not posted, nothing else refers to it. The pointer back to its owner is valid until
        // the owner's `drop`, which takes the event out of any queue first.
        unsafe { (*shared.event.get()).data = Rc::as_ptr(&shared).cast_mut().cast() };
        PostedEvent { shared }
    }

    /// Lets the handler run in the next event-loop iteration, after the sockets have been looked at again. Nothing
    /// changes if the event is posted already, in either way.
    pub fn post(&self) {
        self.post_to(ptr::addr_of_mut!(ffi::ngx_posted_next_events));
    }

    /// Lets the handler run later in this event-loop iteration. Nothing changes if the event is posted already, in
    /// either way.
    pub fn post_now(&self) {
        self.post_to(ptr::addr_of_mut!(ffi::ngx_posted_events));
    }

    /// Whether the handler is going to run.
    pub fn is_posted(&self) -> bool {
        // SAFETY: the event lives in `shared`; nginx touches it on this thread only, and not during this read.
        unsafe { (*self.shared.event.get()).posted() != 0 }
    }

    fn post_to(&self, queue: *mut ffi::ngx_queue_t) {
        let event = self.shared.event.get();
        // SAFETY: the event stays in place until `drop`, which unlinks it; the queue is one of nginx's own, which
        // live as long as the process. The log is renewed because a reload frees the one from before.
        unsafe {
            (*event).log = Log::of_cycle().as_ptr();
            ffi::ngx_post_event(event, queue);
        }
    }
}

impl Drop for PostedEvent {
    fn drop(&mut self) {
        let event = self.shared.event.get();
        // SAFETY: the event is alive in `shared`; a posted event is linked into a queue, which is what deleting
        // requires.
        unsafe {
            if (*event).posted() != 0 {
                ffi::ngx_delete_posted_event(event);
            }
        }
    }
}

extern "C" fn run(event: *mut ngx_event_t) {
    // SAFETY: nginx calls this with an event it took from its queue, and only an event whose PostedEvent is alive
    // is in a queue, so `data` is that event's live `Rc`. The second count keeps it so if the handler drops the
    // PostedEvent.
    let shared = unsafe {
        let shared: *const Shared = (*event).data.cast();
        Rc::increment_strong_count(shared);
        Rc::from_raw(shared)
    };
    border::guarded(shared.entry, (), || (shared.handler)());
}

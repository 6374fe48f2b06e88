//! nginx timers that their owners hold. Dropping one disarms it: its handler never runs afterwards.
//!
//! [`RawTimer`] lies inside a request's context and costs no allocation; [`Timer`] calls a closure. Either keeps a
//! leaving worker alive until it has fired (a client waits for it) or does not (retries in the background).

use crate::nginx::border;
use crate::nginx::log::Log;
use ngx::ffi::{self, ngx_event_t};
use ratelimitly_core::time::Millis;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::marker::PhantomPinned;
use std::rc::Rc;

/// Whether a worker that is told to leave waits for the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The worker stays until the timer has fired or is gone.
    Waits,
    /// The worker leaves; the timer goes with it.
    GoesOn,
}

/// What nginx calls when a timer fires; `(*event).data` is what [`RawTimer::bind`] was given.
pub type Callback = unsafe extern "C" fn(*mut ngx_event_t);

/// A timer in place, for an owner that does not move.
pub struct RawTimer {
    /// nginx links this into its tree while armed, so it must not move then: see `bind`.
    event: UnsafeCell<ngx_event_t>,
    _pinned: PhantomPinned,
}

impl RawTimer {
    /// A timer that cannot be armed before `bind`.
    pub fn new(callback: Callback, leaving: Leaving) -> RawTimer {
        // SAFETY: ngx_event_t is C data for which all zeroes is the initial state (null pointers, no flags).
        let mut event: ngx_event_t = unsafe { std::mem::zeroed() };
        event.handler = Some(callback);
        event.set_cancelable((leaving == Leaving::GoesOn).into());
        RawTimer { event: UnsafeCell::new(event), _pinned: PhantomPinned }
    }

    /// Sets what the callback finds in `data`, and thereby allows arming.
    ///
    /// # Safety
    /// From now until it is dropped the timer must not move, and the callback must be able to use `data` that long.
    pub unsafe fn bind(&self, data: *mut c_void) {
        // SAFETY: the event is ours and in no tree yet.
        unsafe { (*self.event.get()).data = data };
    }

    /// Lets the callback run `delay_ms` from now, instead of any earlier arrangement.
    pub fn arm(&self, delay_ms: u64) {
        self.disarm();
        let event = self.event.get();
        // SAFETY: by `bind` the event stays in place until `drop`, which takes it out of the tree; it is in none now
        // (ngx_add_timer keeps an armed timer whose new time is near the old one). The log is renewed because a
        // reload frees the one from before.
        unsafe {
            assert!(!(*event).data.is_null(), "a timer is bound before it is armed");
            (*event).log = Log::of_cycle().as_ptr();
            ffi::ngx_add_timer(event, delay_ms as ffi::ngx_msec_t);
        }
    }

    /// Lets the callback run when nginx's monotonic clock, now at `now`, reads `deadline`.
    pub fn arm_at(&self, now: Millis, deadline: Millis) {
        self.arm(deadline.since(now));
    }

    /// Whether the callback is going to run.
    pub fn is_armed(&self) -> bool {
        // SAFETY: the event is ours; nginx touches it on this thread only, and not during this read.
        unsafe { (*self.event.get()).timer_set() != 0 }
    }

    /// Takes an armed timer back.
    pub fn disarm(&self) {
        if self.is_armed() {
            // SAFETY: an armed event is in nginx's tree, which is what deleting requires.
            unsafe { ffi::ngx_del_timer(self.event.get()) };
        }
    }
}

impl Drop for RawTimer {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// A timer that calls a closure.
pub struct Timer {
    shared: Rc<Shared>,
}

struct Shared {
    timer: RawTimer,
    entry: &'static str,
    handler: Box<dyn Fn()>,
}

impl Timer {
    /// A timer that is not armed. `entry` names the handler in the log line of a panic. The handler may drop the
    /// timer or arm it again.
    pub fn new(entry: &'static str, leaving: Leaving, handler: impl Fn() + 'static) -> Timer {
        let timer = RawTimer::new(fire, leaving);
        let shared = Rc::new(Shared { timer, entry, handler: Box::new(handler) });
        // SAFETY: what an `Rc` holds does not move, and it lives until this Timer's `drop` has disarmed it.
        unsafe { shared.timer.bind(Rc::as_ptr(&shared).cast_mut().cast()) };
        Timer { shared }
    }

    /// Lets the handler run `delay_ms` from now, instead of any earlier arrangement.
    pub fn arm(&self, delay_ms: u64) {
        self.shared.timer.arm(delay_ms);
    }

    /// Whether the handler is going to run.
    pub fn is_armed(&self) -> bool {
        self.shared.timer.is_armed()
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.shared.timer.disarm();
    }
}

unsafe extern "C" fn fire(event: *mut ngx_event_t) {
    // SAFETY: nginx took the event from its tree, in which only events of live Timers are, so `data` is that Timer's
    // live `Rc`. The second count keeps it alive if the handler drops the Timer.
    let shared = unsafe {
        let shared: *const Shared = (*event).data.cast();
        Rc::increment_strong_count(shared);
        Rc::from_raw(shared)
    };
    border::guarded(shared.entry, (), || (shared.handler)());
}

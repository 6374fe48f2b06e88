//! What the module keeps for one client request: the admission it waits for, the decision about it, and the tracker
//! its latency will be reported to.
//!
//! It lies in the request's own pool. Internal redirects clear nginx's table of contexts, so it is found again through
//! the pool's cleanup list; when the pool goes, its admission is cancelled. It sends nothing and decides nothing.
//!
//! This is the one room beside `nginx/` that keeps pointers to requests: [`Waiter`] is such a pointer, and a context that
//! waits takes its waiter back from the driver before it goes.

use crate::driver::Driver;
use crate::nginx::border;
use crate::nginx::phases::{NoteIndex, VariableIndex};
use crate::nginx::request::{Kept, Request};
use crate::nginx::timer::{Leaving, RawTimer};
use crate::settings::{Enforcement, Fail};
use ngx::ffi::{ngx_event_t, ngx_http_request_t};
use ngx::http::HTTPStatus;
use ratelimitly_core::client::AdmissionKey;
use ratelimitly_core::id::{TrackerId, TrackerSettings};
use ratelimitly_core::time::Millis;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::rc::{Rc, Weak};

/// What was decided about a request. It never changes afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A valid result that allows.
    Allow,
    /// A valid result that denies.
    Deny,
    /// No valid result, and `ratelimitly_fail open`.
    FailOpen,
    /// No valid result, and `ratelimitly_fail close`.
    FailClose,
    /// The module itself failed.
    Internal,
}

impl Decision {
    /// What `ratelimitly_fail` makes of the absence of a valid result.
    pub fn of_failure(fail: Fail) -> Decision {
        match fail {
            Fail::Open => Decision::FailOpen,
            Fail::Close => Decision::FailClose,
        }
    }

    /// The text of `$ratelimitly_verdict`; only a valid result has one.
    pub fn verdict(self) -> Option<&'static [u8]> {
        match self {
            Decision::Allow => Some(b"allow"),
            Decision::Deny => Some(b"deny"),
            Decision::FailOpen | Decision::FailClose | Decision::Internal => None,
        }
    }

    /// The HTTP status that refuses the request; `None` where it proceeds.
    pub fn refusal(self) -> Option<HTTPStatus> {
        match self {
            Decision::Allow | Decision::FailOpen => None,
            Decision::Deny | Decision::FailClose => Some(HTTPStatus::TOO_MANY_REQUESTS),
            Decision::Internal => Some(HTTPStatus::INTERNAL_SERVER_ERROR),
        }
    }
}

/// The note of a request that has entered the handler.
const ENTERED: u32 = 1;
/// The note of a request that was refused before it entered the handler.
const REFUSED_BEFORE: u32 = 2;

/// Whether the request was refused before it first entered the handler, and only shows its error page now. The answer
/// is noted at the first entry and holds for the rest of the request, X-Accel-Redirect included.
///
/// The note lies in a slot that each request has anyway, because requests that need no context must not pay for one.
pub fn refused_before(request: &Request, passage: NoteIndex) -> bool {
    match request.note(passage) {
        ENTERED => false,
        REFUSED_BEFORE => true,
        _ => {
            // `error_page` with `=` has set another status or 0: its target is content of its own, and is asked about.
            let refused = request.error_status() >= HTTPStatus::SPECIAL_RESPONSE.0;
            request.set_note(passage, if refused { REFUSED_BEFORE } else { ENTERED });
            refused
        }
    }
}

/// Where a request stands.
enum State {
    /// No admission yet: nothing is asked of the server where the request has been so far.
    Idle,
    /// An admission is in flight.
    Waiting {
        /// Whose admission it is; gone when the worker leaves or its client broke.
        driver: Weak<Driver>,
        /// Which one.
        key: AdmissionKey,
    },
    /// The end.
    Decided {
        /// How.
        decision: Decision,
        /// Whether a refusal's status has been returned to nginx.
        returned: bool,
    },
}

/// Where the request's latency is reported to.
#[derive(Clone, Copy)]
enum Report {
    /// The request has not come to a rule or a report yet.
    Unsettled,
    /// No report was in effect where it came first, or its values were refused, or it ends without a decision.
    Nowhere,
    /// This tracker.
    To(TrackerId, TrackerSettings),
}

/// One client request's context.
pub struct Context {
    request: NonNull<ngx_http_request_t>,
    state: RefCell<State>,
    /// Settled once: where the request first comes to a rule or a report.
    report: Cell<Report>,
    /// What the operator has chosen where the request asked.
    enforcement: Cell<Enforcement>,
    /// Guards and resources asked for, for the log line.
    asked: Cell<(u16, u16)>,
    /// Armed while waiting, to the admission's next deadline; the worker does not leave before.
    timer: RawTimer,
}

// SAFETY: no other type of this shared object implements it. Only a `Waiter` refers to a context beyond a call, and
// `cancel` makes the driver drop it before anything there can fail.
unsafe impl Kept for Context {
    fn release(&self) {
        self.cancel();
    }
}

impl Context {
    /// The request's context, if it has one. Internal routing keeps it.
    pub fn of(request: &Request) -> Option<&Context> {
        request.kept()
    }

    /// The request's context, made if need be. `None`: nginx has no memory.
    pub fn of_or_new(request: &Request) -> Option<&Context> {
        if let Some(context) = Context::of(request) {
            return Some(context);
        }
        let context = request.keep(Context {
            request: NonNull::new(request.as_ptr())?,
            state: RefCell::new(State::Idle),
            report: Cell::new(Report::Unsettled),
            enforcement: Cell::default(),
            asked: Cell::new((0, 0)),
            timer: RawTimer::new(on_deadline, Leaving::Waits),
        })?;
        // SAFETY: the context is in its final place in the pool, and neither moves nor goes before its timer does.
        unsafe { context.timer.bind(std::ptr::from_ref(context).cast_mut().cast()) };
        Some(context)
    }

    /// Whether an admission is in flight.
    pub fn is_waiting(&self) -> bool {
        matches!(*self.state.borrow(), State::Waiting { .. })
    }

    /// The decision, if there is one.
    pub fn decision(&self) -> Option<Decision> {
        match *self.state.borrow() {
            State::Decided { decision, .. } => Some(decision),
            State::Idle | State::Waiting { .. } => None,
        }
    }

    /// Keeps what the operator has chosen for the location that is about to ask.
    pub fn set_enforcement(&self, enforcement: Enforcement) {
        self.enforcement.set(enforcement);
    }

    /// What the operator has chosen where the request asked.
    pub fn enforcement(&self) -> Enforcement {
        self.enforcement.get()
    }

    /// Notes that the admission `key` of `driver` is in flight. The driver must keep the result until the admission has
    /// ended or is cancelled, and no longer.
    pub fn wait(&self, driver: &Rc<Driver>, key: AdmissionKey, asked: (u16, u16)) -> Waiter {
        self.asked.set(asked);
        self.state.replace(State::Waiting { driver: Rc::downgrade(driver), key });
        Waiter { context: NonNull::from(self) }
    }

    /// Guards and resources asked for.
    pub fn asked(&self) -> (u16, u16) {
        self.asked.get()
    }

    /// Records the decision, once: a later one is ignored. Ends the waiting.
    pub fn decide(&self, request: &Request, verdict_index: VariableIndex, decision: Decision) {
        if self.decision().is_some() {
            return;
        }
        self.timer.disarm();
        self.state.replace(State::Decided { decision, returned: false });
        // An early reader (`set`, `map`) has cached "not found"; the log must see the decision.
        request.forget_variable(verdict_index);
    }

    /// Says that a refusal's status is being returned now; `false` if it was before.
    pub fn first_return(&self) -> bool {
        match &mut *self.state.borrow_mut() {
            State::Decided { returned, .. } => !std::mem::replace(returned, true),
            State::Idle | State::Waiting { .. } => false,
        }
    }

    /// Settles the tracker to report to, the first time only; `tracker` is not called after that.
    pub fn settle_report(&self, tracker: impl FnOnce() -> Option<(TrackerId, TrackerSettings)>) {
        if let Report::Unsettled = self.report.get() {
            // Settled first: rendering runs other modules' code, which must not come back to it.
            self.report.set(Report::Nowhere);
            if let Some((tracker, settings)) = tracker() {
                self.report.set(Report::To(tracker, settings));
            }
        }
    }

    /// The tracker to report to.
    pub fn report(&self) -> Option<(TrackerId, TrackerSettings)> {
        match self.report.get() {
            Report::To(tracker, settings) => Some((tracker, settings)),
            Report::Unsettled | Report::Nowhere => None,
        }
    }

    /// Arms the timer to the admission's next deadline.
    pub fn wake_at(&self, now: Millis, deadline: Millis) {
        self.timer.arm_at(now, deadline);
    }

    /// Gives up an admission that is still in flight, and the report with it: the request ends without a decision.
    pub fn abandon(&self) {
        if self.is_waiting() {
            self.cancel();
            self.report.set(Report::Nowhere);
        }
    }

    /// Gives the admission up, if one is in flight.
    pub fn cancel(&self) {
        let waiting = match &*self.state.borrow() {
            State::Waiting { driver, key } => (driver.clone(), *key),
            State::Idle | State::Decided { .. } => return,
        };
        self.timer.disarm();
        self.state.replace(State::Idle);
        if let Some(driver) = waiting.0.upgrade() {
            driver.cancel(waiting.1);
        }
    }
}

/// A suspended request, in the driver's hands.
///
/// It points to the request's context, and is valid exactly while that context is in `State::Waiting`: the context leaves
/// that state through `decide`, for which the driver gives the waiter up, or through `cancel`, which makes the driver
/// drop it.
pub struct Waiter {
    context: NonNull<Context>,
}

impl Waiter {
    /// The context, for the length of one look at it.
    pub fn context(&self) -> &Context {
        // SAFETY: the context is live while it waits, as the type's description says.
        unsafe { self.context.as_ref() }
    }

    /// The request, for the length of one look at it.
    pub fn request(&self) -> &Request {
        // SAFETY: a context lies in its request's pool, which goes with the request.
        unsafe { Request::from_ptr(self.context().request.as_ptr()) }
    }

    /// Records the decision and lets the request go on. Both it and its context may be gone afterwards.
    pub fn finish(self, verdict_index: VariableIndex, decision: Decision) {
        let request = self.context().request;
        if self.request().connection_lost() {
            // nginx has given the request up already, and something blocked keeps its memory: no decision comes of it.
            self.context().cancel();
            // SAFETY: the request is live (see above) and not running; no reference into it is used from here on.
            return unsafe { Request::give_up(request.as_ptr()) };
        }
        self.context().decide(self.request(), verdict_index, decision);
        // SAFETY: the request is live (see above) and suspended: a waiting context's request always is. No reference
        // into it is used from here on.
        unsafe { Request::resume(request.as_ptr()) };
    }
}

/// An admission's deadline has come.
unsafe extern "C" fn on_deadline(event: *mut ngx_event_t) {
    // SAFETY: only a live, bound context's timer is in nginx's tree, and `bind` set `data` to that context.
    let context = unsafe { &*(*event).data.cast::<Context>() };
    border::guarded("an admission's timer", (), || {
        let waiting = match &*context.state.borrow() {
            State::Waiting { driver, key } => driver.upgrade().map(|driver| (driver, *key)),
            State::Idle | State::Decided { .. } => None,
        };
        // Only the key goes on, so that it would not matter if the context were freed on the way.
        if let Some((driver, key)) = waiting {
            driver.handle_deadline(key);
        }
    });
}

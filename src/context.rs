//! What the module keeps for one client request: what was asked for it (`details`), the admission it waits for, the decision
//! about it (`decision`), and the tracker its latency will be reported to.
//!
//! It lies in the request's own pool. Internal redirects clear nginx's table of contexts, so it is found again through
//! the pool's cleanup list; when the pool goes, its admission is cancelled. It sends nothing and decides nothing.
//!
//! This is the one room beside `nginx/` that keeps pointers to requests: [`Waiter`] is such a pointer, and a context that
//! waits takes its waiter back from the driver before it goes.

mod decision;
mod details;

pub use decision::{Cause, Decision, End, Outcome};
pub use details::Details;

use crate::conf::{Admission, Selection};
use crate::driver::Driver;
use crate::nginx::border;
use crate::nginx::clock;
use crate::nginx::log::Level;
use crate::nginx::phases::{NoteIndex, VariableRange};
use crate::nginx::request::{Kept, NoMemory, Request};
use crate::nginx::timer::{Leaving, RawTimer};
use crate::settings::{Enforcement, ReportTerms};
use crate::shared::Shared;
use ngx::ffi::{ngx_event_t, ngx_http_request_t};
use ngx::http::HTTPStatus;
use ratelimitly_core::client::{AdmissionKey, Answer, Ask};
use ratelimitly_core::id::{ServerId, TrackerId, TrackerSettings};
use ratelimitly_core::remembered::Remembered;
use ratelimitly_core::time::Millis;
use std::cell::{Cell, Ref, RefCell};
use std::ptr::NonNull;
use std::rc::{Rc, Weak};

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
    /// The same, and rules stood there of which none applied.
    Skipped,
    /// An admission is in flight.
    Waiting {
        /// Whose admission it is; gone when the worker leaves or its client broke.
        driver: Weak<Driver>,
        /// Which one.
        key: AdmissionKey,
        /// When it began.
        since: Millis,
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
enum Report {
    /// The request has not come to a rule or a report yet.
    Unsettled,
    /// No report was in effect where it came first, or its values were refused, or it ends without a decision.
    Nowhere,
    /// This tracker.
    To(ReportTo),
}

/// A tracker, rendered, and what the log phase has to decide about the report.
#[derive(Clone)]
pub struct ReportTo {
    /// Its id.
    pub tracker: TrackerId,
    /// What it keeps.
    pub settings: TrackerSettings,
    /// Which requests are reported, and what of them; `None`: each one's duration.
    pub terms: Option<Rc<ReportTerms>>,
}

/// One client request's context.
pub struct Context {
    request: NonNull<ngx_http_request_t>,
    state: RefCell<State>,
    /// Settled once: where the request first comes to a rule or a report.
    report: RefCell<Report>,
    /// What the operator has chosen where the request asked.
    enforcement: Cell<Enforcement>,
    /// Whether the rules are only tried out there.
    dry_run: Cell<bool>,
    details: RefCell<Details>,
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
        let pointer = NonNull::new(request.as_ptr())?;
        let context = request.keep(|| Context {
            request: pointer,
            state: RefCell::new(State::Idle),
            report: RefCell::new(Report::Unsettled),
            enforcement: Cell::default(),
            dry_run: Cell::new(false),
            details: RefCell::new(Details::new()),
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

    /// Whether there is a decision.
    #[inline]
    pub fn is_decided(&self) -> bool {
        matches!(*self.state.borrow(), State::Decided { .. })
    }

    /// The decision, if there is one.
    #[inline]
    pub fn decision(&self) -> Option<Decision> {
        match *self.state.borrow() {
            State::Decided { decision, .. } => Some(decision),
            State::Idle | State::Skipped | State::Waiting { .. } => None,
        }
    }

    /// Keeps what the operator has chosen for the location that is about to ask.
    pub fn set_enforcement(&self, enforcement: Enforcement, dry_run: bool) {
        self.enforcement.set(enforcement);
        self.dry_run.set(dry_run);
    }

    /// Whether denials and failures are not enforced where the request asked.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run.get()
    }

    /// Keeps what is about to be asked.
    ///
    /// # Errors
    /// [`NoMemory`] of nginx for more zones and guards than the context holds itself.
    pub fn ask(
        &self,
        request: &Request,
        admission: &Rc<Admission>,
        ask: &Ask<'_>,
        selection: Selection<'_>,
    ) -> Result<(), NoMemory> {
        let mut details = self.details.borrow_mut();
        // SAFETY: the details lie in the context, which the same pool drops before its memory goes.
        let kept = unsafe {
            details.ask(
                admission,
                ask,
                selection,
                |len| request.pool_slice(len),
                |len| request.pool_slice(len),
            )
        };
        if kept && admission.remembers && !self.is_dry_run() {
            // SAFETY: as above.
            let memory = unsafe { request.pool_slice(ask.resources.len()) };
            details.keep_buckets(ask.resources, memory.ok_or(NoMemory)?);
        }
        if kept { Ok(()) } else { Err(NoMemory) }
    }

    /// Whether the worker remembers that what is about to be asked is refused.
    pub fn recall(&self, table: &Remembered, now: Millis) -> bool {
        self.details.borrow_mut().recall(table, now)
    }

    /// Keeps what the deciding answer said.
    pub fn keep_answer(&self, server: ServerId, answer: &Answer<'_>) {
        self.details.borrow_mut().answer(server, answer);
    }

    /// What was asked and answered.
    pub fn details(&self) -> Ref<'_, Details> {
        self.details.borrow()
    }

    /// Notes that rules stood where the request is, and that none of them applied.
    pub fn skip(&self, request: &Request, variables: VariableRange) {
        self.state.replace(State::Skipped);
        request.forget_variables(variables);
    }

    /// Whether the request has come to rules and none of them applied; `false` once it has asked after all.
    pub fn is_skipped(&self) -> bool {
        matches!(*self.state.borrow(), State::Skipped)
    }

    /// Notes that the admission `key` of `driver` is in flight. The driver must keep the result until the admission has
    /// ended or is cancelled, and no longer.
    pub fn wait(&self, driver: &Rc<Driver>, key: AdmissionKey, since: Millis) -> Waiter {
        self.state.replace(State::Waiting { driver: Rc::downgrade(driver), key, since });
        Waiter { context: NonNull::from(self) }
    }

    /// Records the decision, once: a later one is ignored. Ends the waiting.
    pub fn decide(&self, request: &Request, variables: VariableRange, shared: &Shared, end: End) {
        let took_ms = match &*self.state.borrow() {
            State::Decided { .. } => return,
            State::Waiting { since, .. } => clock::monotonic().since(*since),
            State::Idle | State::Skipped => 0,
        };
        self.timer.disarm();
        let enforcement = self.enforcement.get();
        let guards_alone = end == End::Deny && self.details().refusing_zones().next().is_none();
        let decision = Decision::new(end, guards_alone, &enforcement, self.is_dry_run(), took_ms);
        self.state.replace(State::Decided { decision, returned: false });
        self.count(shared, decision);
        // An early reader (`set`, `map`) has cached "not found"; the log must see the decision.
        request.forget_variables(variables);
        if let Some(level) = enforcement.log_level {
            self.log_refusal(request, level, decision);
        }
    }

    fn count(&self, shared: &Shared, decision: Decision) {
        let set = shared.set();
        set.outcome(decision.outcome as usize);
        if decision.outcome == Outcome::DenyRemembered {
            return self.details().count_remembered(set);
        }
        set.duration(decision.took_ms);
        match decision.cause {
            Some(cause) => set.failure(cause as usize),
            None => self.details().count(shared, set, self.is_dry_run()),
        }
    }

    /// The line about a refused request, or about one that is let through in dry run. It never names a key.
    #[cold]
    fn log_refusal(&self, request: &Request, level: Level, decision: Decision) {
        let dry_run = if decision.outcome.is_dry_run() { ", dry run" } else { "" };
        let log = request.log();
        match (decision.outcome, decision.cause) {
            (Outcome::Deny | Outcome::DenyDryRun | Outcome::DenyRemembered, _) if log.enabled(level) => {
                let mut names = Vec::new();
                self.details().write_refusing(&mut names);
                let names = String::from_utf8_lossy(&names);
                log.write(level, format_args!("ratelimitly: request denied by {names}{dry_run}"));
            }
            (Outcome::FailClose | Outcome::FailCloseDryRun, Some(cause)) => {
                let cause = cause.word();
                log.write(
                    level,
                    format_args!("ratelimitly: request refused without a verdict: {cause}{dry_run}"),
                );
            }
            _ => {}
        }
    }

    /// Says that a refusal's status is being returned now; `false` if it was before.
    pub fn first_return(&self) -> bool {
        match &mut *self.state.borrow_mut() {
            State::Decided { returned, .. } => !std::mem::replace(returned, true),
            State::Idle | State::Skipped | State::Waiting { .. } => false,
        }
    }

    /// Settles the report, the first time only; `report` is not called after that.
    pub fn settle_report(&self, report: impl FnOnce() -> Option<ReportTo>) {
        if !matches!(*self.report.borrow(), Report::Unsettled) {
            return;
        }
        // Settled first: rendering runs other modules' code, which must not come back to it.
        self.report.replace(Report::Nowhere);
        if let Some(report) = report() {
            self.report.replace(Report::To(report));
        }
    }

    /// Where to report to.
    pub fn report(&self) -> Option<ReportTo> {
        match &*self.report.borrow() {
            Report::To(report) => Some(report.clone()),
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
            self.report.replace(Report::Nowhere);
        }
    }

    /// Gives the admission up, if one is in flight.
    pub fn cancel(&self) {
        let waiting = match &*self.state.borrow() {
            State::Waiting { driver, key, .. } => (driver.clone(), *key),
            State::Idle | State::Skipped | State::Decided { .. } => return,
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
    pub fn finish(self, variables: VariableRange, shared: &Shared, end: End) {
        let request = self.context().request;
        if self.request().connection_lost() {
            // nginx has given the request up already, and something blocked keeps its memory: no decision comes of it.
            self.context().cancel();
            // SAFETY: the request is live (see above) and not running; no reference into it is used from here on.
            return unsafe { Request::give_up(request.as_ptr()) };
        }
        self.context().decide(self.request(), variables, shared, end);
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
            State::Waiting { driver, key, .. } => driver.upgrade().map(|driver| (driver, *key)),
            State::Idle | State::Skipped | State::Decided { .. } => None,
        };
        // Only the key goes on, so that it would not matter if the context were freed on the way.
        if let Some((driver, key)) = waiting {
            driver.handle_deadline(key);
        }
    });
}

//! The breaker (`ratelimitly_breaker`): while servers are silent no request waits for them, and now and then one question goes
//! out to see whether they answer again.
//!
//! The core decides when; this room asks it before each admission, starts the probes, and tells it of each end. A probe belongs
//! to the worker: it has a timer of its own and no request. The worker's slot keeps the breaker, so that a client that is set
//! up anew does not begin an outage anew.

use super::Driver;
use crate::nginx::clock;
use crate::nginx::log::{Level, Log};
use crate::nginx::timer::{Leaving, Timer};
use ratelimitly_config::text::Count;
use ratelimitly_core::breaker::{Breaker, Pass, Transition};
use ratelimitly_core::client::{AdmissionKey, Ask, Completion};
use ratelimitly_core::time::Millis;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

/// The worker's breaker, and this driver's probe.
pub(super) struct Breaking {
    breaker: Rc<RefCell<Breaker>>,
    probe: Cell<Option<AdmissionKey>>,
    timer: Timer,
}

impl Breaking {
    pub fn new(breaker: Rc<RefCell<Breaker>>, driver: &Weak<Driver>) -> Breaking {
        let driver = driver.clone();
        let timer = Timer::new("the deadline of a probe", Leaving::GoesOn, move || {
            if let Some(driver) = driver.upgrade() {
                driver.handle_probe_deadline();
            }
        });
        Breaking { breaker, probe: Cell::new(None), timer }
    }

    /// The client has gone, and the probe with it.
    pub fn lost(&self) {
        self.probe.take();
        self.breaker.borrow_mut().client_lost();
    }

    /// Arms the timer if this is the probe.
    pub fn look(&self, key: AdmissionKey, now: Millis, deadline: Millis) {
        if self.probe.get() == Some(key) {
            self.timer.arm(deadline.since(now));
        }
    }
}

impl Driver {
    /// Whether the question may be asked. Where it may not the request follows `ratelimitly_fail` at once; its question may
    /// go out as a probe then.
    #[inline]
    pub fn admits(self: &Rc<Self>, ask: &Ask<'_>) -> bool {
        self.breaking.as_ref().is_none_or(|breaking| self.passes(breaking, ask))
    }

    #[cold]
    fn passes(self: &Rc<Self>, breaking: &Breaking, ask: &Ask<'_>) -> bool {
        let now = clock::monotonic();
        let pass = breaking.breaker.borrow_mut().admit(now);
        match pass {
            Pass::Ask => return true,
            Pass::Probe => self.start_probe(breaking, now, ask),
            Pass::Refuse => {}
        }
        self.with_core("a request that is not asked about", |core| core.want_members(now));
        self.settle_soon();
        false
    }

    fn start_probe(&self, breaking: &Breaking, now: Millis, ask: &Ask<'_>) {
        self.stir_if_due(now);
        let started = self.with_core("starting a probe", |core| {
            let key = core.start_probe(now, clock::wall(), ask).ok()?;
            Some((key, core.horizon_ms()))
        });
        if let Some((key, horizon_ms)) = started.flatten() {
            breaking.probe.set(Some(key));
            breaking.breaker.borrow_mut().probe_started(now, key, horizon_ms);
            self.leave_silent_port();
        }
    }

    /// The probe's timer has fired. It has no request, so that nothing is judged too early but itself.
    fn handle_probe_deadline(self: &Rc<Self>) {
        let Some(key) = self.breaking.as_ref().and_then(|breaking| breaking.probe.get()) else { return };
        self.handle_deadline(key);
    }

    /// An admission has ended, a probe or another one.
    pub(super) fn note_end_to_breaker(&self, completion: &Completion) {
        let Some(breaking) = &self.breaking else { return };
        if breaking.probe.get() == Some(completion.key) {
            breaking.probe.take();
        }
        let transition = breaking.breaker.borrow_mut().ended(clock::monotonic(), completion);
        if let Some(transition) = transition {
            self.shared.breaker(matches!(transition, Transition::Opened { .. }));
            log_transition(transition);
        }
    }

    /// The members are others than before: the next request's question is a probe.
    pub(super) fn note_members_to_breaker(&self) {
        if let Some(breaking) = &self.breaking {
            breaking.breaker.borrow_mut().members_changed(clock::monotonic());
        }
    }
}

#[cold]
fn log_transition(transition: Transition) {
    let log = Log::of_cycle();
    match transition {
        Transition::Opened { failures } => {
            let admissions = Count(failures as usize, "consecutive admission");
            log.write(
                Level::Error,
                format_args!(
                    "ratelimitly: the servers are silent, {admissions} ended without an answer: this worker no longer waits \
                     for them, and requests follow ratelimitly_fail at once"
                ),
            );
        }
        Transition::Closed { lasted_ms, refused, probes } => {
            let (requests, probes) = (Count(refused as usize, "request"), Count(probes as usize, "probe"));
            log.write(
                Level::Error,
                format_args!(
                    "ratelimitly: a server answers again after {lasted_ms} ms: this worker asks again; {requests} were not \
                     asked about meanwhile, {probes} went out"
                ),
            );
        }
    }
}

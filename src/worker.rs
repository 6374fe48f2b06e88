//! A worker's slot for its driver, beside the configuration of the cycle that it serves: empty until the first request that
//! needs it, and guarded by a back-off after a set-up that failed.
//!
//! No secret, no randomness, no socket and no resolver exists before the first use, so none is shared across the fork.

use crate::driver::{Driver, Home, Notes, SetUpError, Unavailable};
use crate::nginx::clock;
use crate::nginx::log::{Level, Log};
use crate::settings::Settings;
use crate::shared::Shared;
use ratelimitly_core::breaker::Breaker;
use ratelimitly_core::time::Millis;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// The delays after the first, second, … consecutive failure; the last one repeats.
const BACK_OFF_MS: [u64; 4] = [1000, 2000, 4000, 5000];

/// Where a worker keeps its driver.
#[derive(Default)]
pub struct WorkerSlot {
    slot: Rc<Slot>,
}

/// What the slot holds.
#[derive(Default)]
struct Slot {
    driver: RefCell<Option<Rc<Driver>>>,
    /// Consecutive failed set-ups, and when the next one may be tried.
    failures: Cell<usize>,
    not_before: Cell<Millis>,
    /// Whether a set-up is under way: it may make nginx close idle connections, whose requests may then report.
    setting_up: Cell<bool>,
    /// Whether a later cycle has taken over in this very process (`master_process off`).
    retired: Cell<bool>,
    notes: Rc<Notes>,
    breaker: OnceCell<Rc<RefCell<Breaker>>>,
}

impl WorkerSlot {
    /// The worker's driver, set up now if need be. A set-up that fails is logged, and requests until the end of the
    /// back-off get `Unavailable` at once.
    pub fn driver(&self, conf: &Settings, shared: &Rc<Shared>) -> Result<Rc<Driver>, Unavailable> {
        if let Ok(driver) = self.existing() {
            return Ok(driver);
        }
        let now = clock::monotonic();
        if self.slot.failures.get() > 0 && now < self.slot.not_before.get() {
            return Err(Unavailable);
        }
        let _one_at_a_time = SettingUp::begin(&self.slot.setting_up)?;
        let home: Rc<dyn Home> = self.slot.clone();
        match Driver::set_up(conf, shared, &home) {
            Ok(driver) => {
                self.slot.failures.set(0);
                self.slot.notes.set_up();
                self.slot.driver.replace(Some(Rc::clone(&driver)));
                Ok(driver)
            }
            Err(error) => {
                self.slot.failed(now, conf.detail_level(), &error);
                Err(Unavailable)
            }
        }
    }

    /// Sets the worker up for a report to come, except for a cycle of the past. The log phase must not do it: nginx may be in
    /// the middle of closing connections there, because it has run out of them, and the set-up opens one.
    pub fn prepare_report(&self, conf: &Settings, shared: &Rc<Shared>) {
        if !self.slot.retired.get() {
            // A failure is logged, and met again by the report.
            let _ = self.driver(conf, shared);
        }
    }

    /// Sets the worker up and has its servers looked up. Says whether it knows some.
    pub fn warm_up(&self, conf: &Settings, shared: &Rc<Shared>) -> bool {
        self.driver(conf, shared).is_ok_and(|driver| driver.want_members())
    }

    /// The driver, if the worker has one.
    pub fn existing(&self) -> Result<Rc<Driver>, Unavailable> {
        self.slot.driver.borrow().clone().ok_or(Unavailable)
    }

    /// The worker's log lines.
    pub fn notes(&self) -> &Notes {
        &self.slot.notes
    }

    /// The worker leaves, or its configuration goes: the driver ends now.
    pub fn shut_down(&self) {
        if let Some(driver) = self.slot.driver.take() {
            driver.shut_down();
        }
        self.slot.notes.leave();
    }

    /// A later cycle has taken over in this process: the driver ends once no admission is in flight.
    pub fn retire(&self) {
        self.slot.retired.set(true);
        if let Ok(driver) = self.existing() {
            driver.settle_next();
        }
    }
}

/// Says that a set-up is under way, also when it ends by a panic.
struct SettingUp<'a>(&'a Cell<bool>);

impl SettingUp<'_> {
    fn begin(under_way: &Cell<bool>) -> Result<SettingUp<'_>, Unavailable> {
        if under_way.replace(true) { Err(Unavailable) } else { Ok(SettingUp(under_way)) }
    }
}

impl Drop for SettingUp<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Home for Slot {
    fn notes(&self) -> Rc<Notes> {
        Rc::clone(&self.notes)
    }

    fn breaker(&self, make: &dyn Fn() -> Breaker) -> Rc<RefCell<Breaker>> {
        Rc::clone(self.breaker.get_or_init(|| Rc::new(RefCell::new(make()))))
    }

    /// An idle driver that serves a cycle of the past goes.
    fn idle(&self) {
        if self.retired.get() && self.driver.take().is_some() {
            self.notes.leave();
        }
    }

    /// The next set-up waits for the back-off.
    fn broke(&self) {
        self.driver.take();
        self.back_off(clock::monotonic());
    }
}

impl Slot {
    /// Each attempt has its line at the level of single requests; the operator's line is paced.
    fn failed(&self, now: Millis, detail: Level, error: &SetUpError) {
        let delay = self.back_off(now);
        Log::of_cycle().write(
            detail,
            format_args!("ratelimitly: set-up tried, {error}; next attempt in {delay} ms at the earliest"),
        );
        self.notes.set_up_failed(error);
    }

    fn back_off(&self, now: Millis) -> u64 {
        let failures = self.failures.get();
        let delay = BACK_OFF_MS[failures.min(BACK_OFF_MS.len() - 1)];
        self.failures.set(failures + 1);
        self.not_before.set(now + delay);
        delay
    }
}

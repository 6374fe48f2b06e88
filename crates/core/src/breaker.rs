//! When a worker stops waiting for servers that do not answer, and when it asks again (`ratelimitly_breaker`).
//!
//! The worker asks `admit` before each admission, tells `ended` of each completion, and starts a probe
//! (`Client::start_probe`) where `admit` says so. Pure bookkeeping: it reads no clock, sends nothing, and its only chance
//! comes from the seed. Each call costs the same however long an outage lasts.
//!
//! Only silence counts: admissions that ended as `Timeout` or `Send`. What a request's own content caused (`Cardinality`,
//! a question that could not be started), a missing discovery and cancelled admissions neither count nor reset.

use crate::client::{AdmissionKey, Completion, Failure, Outcome};
use crate::time::Millis;
use std::num::NonZeroU32;

/// Longest time from one probe to the next, milliseconds, unless the first interval is longer.
const LONGEST_INTERVAL_MS: u64 = 30_000;
/// So long after it has closed, [`RELAPSE`] consecutive failures open it again, milliseconds.
const RELAPSE_MS: u64 = 10_000;
const RELAPSE: u32 = 2;

/// What the operator set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Consecutive silent admissions that open it.
    pub failures: NonZeroU32,
    /// First time from one probe to the next, milliseconds.
    pub probe_ms: u32,
}

/// What to do with an admission that is about to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Ask and wait, as without a breaker.
    Ask,
    /// Do not ask: the request follows `ratelimitly_fail` at once.
    Refuse,
    /// Do not wait either, but start a probe with this question and tell `probe_started`. If it cannot be started, the
    /// next admission is asked for one.
    Probe,
}

/// A line for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It opened.
    Opened {
        /// Consecutive admissions that ended in silence.
        failures: u32,
    },
    /// It closed.
    Closed {
        /// How long it was open, milliseconds.
        lasted_ms: u64,
        /// Admissions that were not asked meanwhile.
        refused: u64,
        /// Probes meanwhile.
        probes: u64,
    },
}

/// The breaker of one worker.
#[derive(Debug)]
pub struct Breaker {
    settings: Settings,
    jitter: Jitter,
    /// Consecutive silent admissions while it is closed.
    silent: u32,
    /// When it closed last.
    closed: Option<Millis>,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    since: Millis,
    refused: u64,
    probes: u64,
    interval_ms: u64,
    /// No probe starts before.
    next: Millis,
    probe: Option<Probe>,
}

/// The probe in flight.
#[derive(Clone, Copy, Debug)]
struct Probe {
    key: AdmissionKey,
    started: Millis,
    /// The end of its horizon: whatever became of it, it is over.
    until: Millis,
    /// The members changed since it started, so its silence says nothing of the next one.
    is_outdated: bool,
}

impl Breaker {
    /// A closed breaker. The seed spreads the probes of different workers and hosts.
    pub fn new(settings: Settings, seed: u64) -> Breaker {
        Breaker { settings, jitter: Jitter(seed), silent: 0, closed: None, open: None }
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// An admission is about to start.
    #[inline]
    pub fn admit(&mut self, now: Millis) -> Pass {
        if self.open.is_none() { Pass::Ask } else { self.admit_open(now) }
    }

    #[cold]
    fn admit_open(&mut self, now: Millis) -> Pass {
        let Some(open) = &mut self.open else { return Pass::Ask };
        open.refused += 1;
        if open.probe.is_some_and(|probe| now >= probe.until) {
            open.probe_was_silent(&self.settings, &mut self.jitter);
        }
        if open.probe.is_none() && now >= open.next { Pass::Probe } else { Pass::Refuse }
    }

    /// A probe has started. It is over after its horizon at the latest, milliseconds.
    pub fn probe_started(&mut self, now: Millis, key: AdmissionKey, horizon_ms: u64) {
        if let Some(open) = &mut self.open {
            open.probes += 1;
            open.probe = Some(Probe { key, started: now, until: now + horizon_ms, is_outdated: false });
            open.next = now + self.jitter.of(open.interval_ms);
        }
    }

    /// Whether this is the probe in flight: its completion has no waiter.
    pub fn is_probe(&self, key: AdmissionKey) -> bool {
        self.probe().is_some_and(|probe| probe.key == key)
    }

    fn probe(&self) -> Option<&Probe> {
        self.open.as_ref()?.probe.as_ref()
    }

    /// An admission has ended, a probe or another one. `Some`: write a line.
    #[inline]
    pub fn ended(&mut self, now: Millis, completion: &Completion) -> Option<Transition> {
        match completion.outcome {
            Outcome::Allow | Outcome::Deny if self.open.is_none() => {
                self.silent = 0;
                None
            }
            Outcome::Allow | Outcome::Deny => self.close(now),
            Outcome::Failed(failure) => self.failed(now, completion, failure),
        }
    }

    #[cold]
    fn failed(&mut self, now: Millis, completion: &Completion, failure: Failure) -> Option<Transition> {
        let was_silent = matches!(failure, Failure::Timeout | Failure::Send);
        if let Some(open) = &mut self.open {
            if open.probe.is_some_and(|probe| probe.key == completion.key) {
                if was_silent {
                    open.probe_was_silent(&self.settings, &mut self.jitter);
                }
                open.probe = None;
            }
            return None;
        }
        // What started before it closed belongs to the outage that is over.
        let started = Millis(now.0.saturating_sub(completion.waited_ms));
        if !was_silent || self.closed.is_some_and(|closed| started < closed) {
            return None;
        }
        self.silent = self.silent.saturating_add(1);
        (self.silent >= self.failures_to_open(now)).then(|| self.open(now))
    }

    fn failures_to_open(&self, now: Millis) -> u32 {
        let all = self.settings.failures.get();
        let is_relapse = self.closed.is_some_and(|closed| now.since(closed) <= RELAPSE_MS);
        if is_relapse { all.min(RELAPSE) } else { all }
    }

    fn open(&mut self, now: Millis) -> Transition {
        let interval_ms = u64::from(self.settings.probe_ms);
        let next = now + self.jitter.of(interval_ms);
        self.open = Some(Open { since: now, refused: 0, probes: 0, interval_ms, next, probe: None });
        Transition::Opened { failures: std::mem::take(&mut self.silent) }
    }

    #[cold]
    fn close(&mut self, now: Millis) -> Option<Transition> {
        let Open { since, refused, probes, .. } = self.open.take()?;
        (self.silent, self.closed) = (0, Some(now));
        Some(Transition::Closed { lasted_ms: now.since(since), refused, probes })
    }

    /// An admission was cancelled. If it is the probe, the next one may start after the interval.
    pub fn cancelled(&mut self, key: AdmissionKey) {
        if self.is_probe(key) {
            self.client_lost();
        }
    }

    /// The worker has lost its client, in a panic or on its way out: no completion will come for the probe.
    pub fn client_lost(&mut self) {
        if let Some(open) = &mut self.open {
            open.probe = None;
        }
    }

    /// The members are others than before: a probe is due at once, or once the one in flight is over.
    pub fn members_changed(&mut self, now: Millis) {
        if let Some(open) = &mut self.open {
            open.interval_ms = self.settings.probe_ms.into();
            open.next = now;
            open.probe.iter_mut().for_each(|probe| probe.is_outdated = true);
        }
    }
}

impl Open {
    /// The probe in flight brought no answer: the next one waits twice as long.
    fn probe_was_silent(&mut self, settings: &Settings, jitter: &mut Jitter) {
        let Some(probe) = self.probe.take() else { return };
        if !probe.is_outdated {
            let longest = LONGEST_INTERVAL_MS.max(settings.probe_ms.into());
            self.interval_ms = (self.interval_ms * 2).min(longest);
            self.next = probe.started + jitter.of(self.interval_ms);
        }
    }
}

/// Lengthens intervals by up to a tenth, never below their length: at most one probe an interval. A small generator
/// suffices (SplitMix64): nothing secret comes of it.
#[derive(Debug)]
struct Jitter(u64);

impl Jitter {
    fn of(&mut self, interval_ms: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        interval_ms + interval_ms * ((mixed >> 32) % 1_001) / 10_000
    }
}

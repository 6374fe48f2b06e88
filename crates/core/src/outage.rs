//! Outages as the error log tells them: when one begins, a line a minute while it lasts, and its end with the total.
//!
//! The module keeps one [`Outage`] for each kind of failure and worker: admissions without a valid answer, discoveries,
//! set-ups, requests answered with 500. It reads no clock and writes no line, so it is tested with a virtual clock.
//! Work and memory per call do not depend on how many failures there were.
//!
//! An outage begins with a failure. It ends with the first success after [`LONG_MS`] without a success, or once
//! [`QUIET_MS`] have passed without a failure. A success soon after another one does not end it: a worker that fails one
//! request in a hundred must not write two lines for each of them. A worker's very first success does end it.

use crate::pace::{Due, Paced};
use crate::time::Millis;
use std::fmt;

/// A success ends an outage if the success before it was at least so long ago, milliseconds.
pub const LONG_MS: u64 = 10_000;

/// An outage ends without a success once its last failure was so long ago, milliseconds.
pub const QUIET_MS: u64 = 60_000;

/// The failures of one kind in one worker.
#[derive(Debug, Default)]
pub struct Outage {
    lines: Paced,
    /// The last success.
    succeeded: Option<Millis>,
    current: Option<Current>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    began: Millis,
    last_failure: Millis,
    failures: u64,
    /// Whether the log knows of it. One that begins within a minute of the last line waits for that minute's end.
    told: bool,
}

impl Outage {
    /// Notes a failure. `Some`: write a line that names its cause and ends in the [`Due`]. The first line comes at once;
    /// then one a minute at most, over all outages of this kind.
    pub fn failed(&mut self, now: Millis) -> Option<Due> {
        let fresh = Current { began: now, last_failure: now, failures: 0, told: false };
        let current = self.current.get_or_insert(fresh);
        current.last_failure = now;
        current.failures += 1;
        let due = self.lines.occurred(now);
        current.told |= due.is_some();
        due
    }

    /// Notes a success. `Some`: it ends an outage that the log knows of; write the end.
    pub fn succeeded(&mut self, now: Millis) -> Option<End> {
        let before = self.succeeded.replace(now);
        if before.is_none_or(|before| now.since(before) >= LONG_MS) {
            self.end(now, Ending::Success)
        } else {
            None
        }
    }

    /// Notes a success that ends the outage however soon it comes after another one: for what happens seldom, as
    /// discoveries do. `Some`: the log knows of the outage; write the end.
    pub fn recovered(&mut self, now: Millis) -> Option<End> {
        self.succeeded = Some(now);
        self.end(now, Ending::Success)
    }

    /// To be called with each admission, whose end is not known yet. `Some`: failures have stopped for [`QUIET_MS`], and
    /// the log knows of them; write the end.
    pub fn look(&mut self, now: Millis) -> Option<End> {
        let quiet = self.current.is_some_and(|current| now.since(current.last_failure) >= QUIET_MS);
        if quiet { self.end(now, Ending::Quiet) } else { None }
    }

    /// The worker exits. `Some`: it does so in an outage; write the end. The worker's successor begins anew.
    pub fn leave(&mut self, now: Millis) -> Option<End> {
        self.current.take().map(|current| current.end(now, Ending::Exit))
    }

    /// Whether an outage is under way.
    pub fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// An outage that the log has not heard of ends without a line: the next line counts its failures.
    fn end(&mut self, now: Millis, ending: Ending) -> Option<End> {
        self.current.take().filter(|current| current.told).map(|current| current.end(now, ending))
    }
}

impl Current {
    fn end(self, now: Millis, ending: Ending) -> End {
        End {
            ending,
            lasted_ms: match ending {
                Ending::Success => now.since(self.began),
                Ending::Quiet | Ending::Exit => self.last_failure.since(self.began),
            },
            failures: self.failures,
            last_failure_ms: now.since(self.last_failure),
        }
    }
}

/// How an outage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By a success.
    Success,
    /// Failures stopped.
    Quiet,
    /// The worker exits.
    Exit,
}

/// The end of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// How it ended.
    pub ending: Ending,
    /// From the first failure to the success, or to the last failure where no success ended it; milliseconds.
    pub lasted_ms: u64,
    /// Failures in it.
    pub failures: u64,
    /// How long ago the last failure was, milliseconds.
    pub last_failure_ms: u64,
}

/// The words of one kind of outage.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// What a success shows: `answers again`.
    pub again: &'static str,
    /// One failure: `request without an answer`.
    pub one: &'static str,
    /// More or none: `requests without an answer`.
    pub many: &'static str,
}

impl End {
    /// The end as the rest of a log line: `answers again after 12 s, 1,520 requests without an answer, the last one 2 s
    /// ago`.
    pub fn in_words(self, words: &Words) -> impl fmt::Display {
        Sentence { end: self, words: *words }
    }
}

struct Sentence {
    end: End,
    words: Words,
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let End { ending, lasted_ms, failures, last_failure_ms } = self.end;
        let (lasted, ago) = (Length(lasted_ms), Length(last_failure_ms));
        let counted = if failures == 1 { self.words.one } else { self.words.many };
        let failures = Grouped(failures);
        match ending {
            Ending::Success => {
                write!(f, "{} after {lasted}, {failures} {counted}, the last one {ago} ago", self.words.again)
            }
            Ending::Quiet => {
                write!(f, "no further failure for {ago}: {failures} {counted} within {lasted}")
            }
            Ending::Exit => {
                write!(
                    f,
                    "this worker exits during an outage: {failures} {counted} within {lasted}, the last one {ago} ago"
                )
            }
        }
    }
}

/// A length of time as a person says it: milliseconds below one second, else whole seconds.
#[derive(Clone, Copy, Debug)]
pub struct Length(pub u64);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ms @ ..1_000 => write!(f, "{ms} ms"),
            ms => write!(f, "{} s", Grouped(ms / 1_000)),
        }
    }
}

/// A number with commas between its thousands.
#[derive(Clone, Copy, Debug)]
pub struct Grouped(pub u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n @ ..1_000 => write!(f, "{n}"),
            n => write!(f, "{},{:03}", Grouped(n / 1_000), n % 1_000),
        }
    }
}

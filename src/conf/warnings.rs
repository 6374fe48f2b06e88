//! Warnings about rules that cannot do what they say. Each is noted while its directive is read, and comes at the end of
//! the http block if it then still holds, with the directive's own file and line.
//!
//! Of one kind at most five lines are written, and then a count: an included file may be used a hundred times.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;

use crate::conf::definitions::{Guard, Tracker};
use crate::nginx::conf::{Conf, Place};
use crate::nginx::log::Level;

/// Lines of one kind.
const LINES_MAX: usize = 5;

/// What a warning is about. Warnings of one kind are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// A client can make a value too long, empty or invalid.
    ClientLength,
    /// A bucket whose key the client chooses.
    ClientKey,
    /// More tokens in one question than a rate grants.
    Tokens,
    /// A guard whose tracker gets no report.
    Unfed,
    /// A tracker that never has enough samples.
    Samples,
    /// A guard on a tracker with default settings.
    Defaults,
    /// A number of seconds that was probably meant otherwise.
    Unit,
    /// A constant `if=` that is true and reads like "no".
    Constant,
    /// An `if=` made of what is not known yet.
    Undecided,
    /// A directive of which only the last counts.
    Repeated,
    /// A window above the key's quota.
    Window,
    /// Rules that fit no datagram.
    Size,
}

/// When a warning holds.
pub enum When {
    /// Always.
    Always,
    /// Where a rule is in effect.
    Asking,
    /// Where a rule is in effect, under `ratelimitly_fail open`.
    FailOpen,
    /// Where a guard of this tracker is in effect.
    Guarded(Rc<Tracker>),
    /// Where this guard is in effect and its tracker gets no report.
    Unfed(Rc<Guard>),
}

/// What the whole configuration turned out to be.
pub struct Outcome<'a> {
    /// Whether a rule is in effect.
    pub asking: bool,
    /// Whether a rule is in effect where requests without a verdict go on.
    pub fail_open: bool,
    /// The guards in effect.
    pub guards: Vec<&'a Rc<Guard>>,
    /// The trackers that get reports.
    pub fed: &'a [Rc<Tracker>],
}

impl When {
    fn holds(&self, outcome: &Outcome<'_>) -> bool {
        match self {
            When::Always => true,
            When::Asking => outcome.asking,
            When::FailOpen => outcome.fail_open,
            When::Guarded(tracker) => outcome.guards.iter().any(|guard| Rc::ptr_eq(&guard.tracker, tracker)),
            When::Unfed(guard) => {
                outcome.guards.iter().any(|known| Rc::ptr_eq(known, guard))
                    && !outcome.fed.iter().any(|tracker| is_same(tracker, &guard.tracker))
            }
        }
    }
}

/// Whether two definitions are one tracker for the servers, as far as this can be told while loading.
fn is_same(a: &Rc<Tracker>, b: &Rc<Tracker>) -> bool {
    Rc::ptr_eq(a, b) || (a.fixed.is_some() && a.fixed == b.fixed)
}

/// A warning that may hold in the end.
struct Noted {
    about: About,
    when: When,
    place: Place,
    directive: &'static str,
    message: String,
}

/// The warnings of one http block.
#[derive(Default)]
pub struct Warnings {
    noted: Vec<Noted>,
    written: HashMap<About, (usize, &'static str)>,
    seen: HashSet<(About, Place)>,
}

impl Warnings {
    /// Notes a warning about the directive being read.
    pub fn note(
        &mut self,
        cf: &Conf,
        about: About,
        when: When,
        directive: &'static str,
        message: impl fmt::Display,
    ) {
        let message = message.to_string();
        self.noted.push(Noted { about, when, place: cf.place(), directive, message });
    }

    /// Writes the noted warnings that hold, in the order of their directives.
    pub fn write_noted(&mut self, cf: &Conf, outcome: &Outcome<'_>) {
        for noted in std::mem::take(&mut self.noted) {
            if noted.when.holds(outcome) {
                self.write(cf, noted.about, &noted.place, noted.directive, noted.message);
            }
        }
    }

    /// Writes one warning, once for each directive and kind.
    pub fn write(
        &mut self,
        cf: &Conf,
        about: About,
        place: &Place,
        directive: &'static str,
        message: impl fmt::Display,
    ) {
        if !self.seen.insert((about, place.clone())) {
            return;
        }
        let (count, _) = self.written.entry(about).or_insert((0, directive));
        *count += 1;
        if *count <= LINES_MAX {
            cf.log_at(place, Level::Warn, directive, message);
        }
    }

    /// Writes how many lines of each kind were left out.
    pub fn write_counts(self, cf: &Conf) {
        let mut left_out: Vec<_> =
            self.written.into_values().filter(|(count, _)| *count > LINES_MAX).collect();
        left_out.sort_unstable();
        for (count, directive) in left_out {
            let more = count - LINES_MAX;
            cf.log(Level::Warn, directive, format_args!("{more} more like the {LINES_MAX} lines above"));
        }
    }
}

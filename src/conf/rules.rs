//! What servers and locations ask for: `ratelimitly`, `ratelimitly_label`, `ratelimitly_report`, and inheritance.

use std::collections::HashSet;
use std::rc::Rc;

use ratelimitly_config::arguments::split;
use ratelimitly_config::name;
use ratelimitly_config::text::Excerpt;
use ratelimitly_core::wire::{Guard as GuardBlock, MAX_LABEL, Resource};

use crate::conf::define::unknown;
use crate::conf::definitions::{Guard, Tracker, Zone};
use crate::conf::doubts::{self, Value};
use crate::conf::label::Label;
use crate::conf::problem::Problem;
use crate::conf::settings::{only, set_once, some};
use crate::conf::template::Template;
use crate::conf::{LocationConf, MainConf, enforcement};
use crate::nginx::conf::{Conf, Place};
use crate::settings::Fail;

const RULE: &str = "ratelimitly zone=<zone>|group=<group> [guard=<guard> ...], or guard=<guard> ... alone";
const LABEL: &str = "ratelimitly_label <template> [cut]";
const REPORT: &str = "ratelimitly_report <tracker>|off";

/// All rules in effect at a place, as one admission.
pub struct Admission {
    /// The zones in order, groups expanded, repeats kept.
    pub zones: Box<[Rc<Zone>]>,
    /// The guards in first-seen order, each once.
    pub guards: Box<[Rc<Guard>]>,
    /// All resource blocks, where no zone holds a variable.
    pub fixed_resources: Option<Box<[Resource]>>,
    /// All guard blocks, where no guard holds a variable.
    pub fixed_guards: Option<Box<[GuardBlock]>>,
    /// Where the first rule stands.
    pub place: Place,
}

/// The rules of one context while it is read.
#[derive(Default)]
pub struct Rules {
    zones: Vec<Rc<Zone>>,
    guards: Vec<Rc<Guard>>,
    place: Option<Place>,
}

impl Rules {
    fn add_guard(&mut self, guard: &Rc<Guard>) {
        if !self.guards.iter().any(|known| Rc::ptr_eq(known, guard)) {
            self.guards.push(Rc::clone(guard));
        }
    }

    /// The admission, if the context has a rule of its own.
    fn take(&mut self) -> Option<Rc<Admission>> {
        let place = self.place.take()?;
        let (zones, guards) = (std::mem::take(&mut self.zones), std::mem::take(&mut self.guards));
        Some(Rc::new(Admission {
            fixed_resources: zones.iter().map(|zone| zone.fixed).collect(),
            fixed_guards: guards.iter().map(|guard| guard.fixed).collect(),
            zones: zones.into(),
            guards: guards.into(),
            place,
        }))
    }
}

/// `ratelimitly_report` in one context.
#[derive(Clone)]
pub enum Report {
    /// `off`.
    Off,
    /// A tracker, and where the directive stands.
    To(Rc<Tracker>, Place),
}

/// `ratelimitly`.
pub fn rule(cf: &Conf, main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    let arguments = some(cf, RULE)?;
    let is_target = |argument: &&&[u8]| argument.starts_with(b"zone=") || argument.starts_with(b"group=");
    // Counted before any is looked up: an empty one must not hide another.
    if arguments.iter().filter(is_target).count() > 1 {
        return Err(Problem::OneTarget { usage: RULE });
    }
    for argument in &arguments {
        match split(argument) {
            Some((b"zone", name)) => location.rules.zones.push(Rc::clone(main.loading.zones.refer(name)?)),
            Some((b"group", name)) => {
                location.rules.zones.extend_from_slice(&main.loading.groups.refer(name)?.zones)
            }
            Some((b"guard", name)) => location.rules.add_guard(main.loading.guards.refer(name)?),
            _ => return Err(unknown(argument, RULE)),
        }
    }
    location.rules.place.get_or_insert_with(|| cf.place());
    Ok(())
}

/// `ratelimitly_label`; the last one in a context wins.
pub fn label(cf: &Conf, main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    let (text, cut) = match some(cf, LABEL)?[..] {
        [text] => (text, false),
        [text, word] if word.eq_ignore_ascii_case(b"cut") => (text, true),
        [_, other] => return Err(unknown(other, LABEL)),
        _ => return Err(Problem::Count { usage: LABEL }),
    };
    let template = Template::compile(cf, text)?;
    if let Some(len) = template.fixed().map(<[u8]>::len).filter(|&len| len > MAX_LABEL && !cut) {
        return Err(Problem::TooLong { what: "label", len, max: MAX_LABEL });
    }
    if !cut {
        doubts::spoiled(cf, &mut main.loading.warnings, "ratelimitly_label", Value::Label, text);
    }
    location.label = Some(Rc::new(Label { template, cut }));
    Ok(())
}

/// `ratelimitly_report`.
pub fn report(cf: &Conf, main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    let name = only(cf, REPORT)?;
    let report = match name::parse(name).map_err(|error| Problem::Name { error, usage: REPORT })? {
        b"off" => Report::Off,
        name => {
            let unknown = || Problem::NoTracker { name: Excerpt::new(name) };
            Report::To(main.loading.trackers.find(name).cloned().ok_or_else(unknown)?, cf.place())
        }
    };
    set_once(&mut location.own_report, REPORT, report)
}

/// Completes `child` with what it inherits from `parent`, and notes what is in effect there.
pub fn merge(main: &mut MainConf, parent: &LocationConf, child: &mut LocationConf) {
    let in_effect = &mut main.loading.in_effect;
    child.admission = child.rules.take().or_else(|| parent.admission.clone());
    child.label = child.label.take().or_else(|| parent.label.clone());
    child.report = match child.own_report.take() {
        None => parent.report.clone(),
        Some(Report::Off) => None,
        Some(Report::To(tracker, place)) => {
            in_effect.note_report(&tracker, place);
            Some(tracker)
        }
    };
    enforcement::merge(parent, child);
    if let Some(admission) = &child.admission {
        in_effect.note(admission, child.label.as_deref(), child.enforcement.fail);
    }
}

/// What servers and locations have in effect, for the checks at the end of the http block.
#[derive(Default)]
pub struct InEffect {
    /// The trackers that get reports, each once.
    pub fed: Vec<Rc<Tracker>>,
    /// Where the first report stands.
    first_report: Option<Place>,
    /// The admissions, each with the longest static label that goes with it.
    pub admissions: Vec<(Rc<Admission>, usize)>,
    /// Whether a rule is in effect under `ratelimitly_fail open`.
    pub fail_open: bool,
}

impl InEffect {
    /// Where the first rule stands, or the first report where there is no rule: what needs a key.
    pub fn place(&self) -> Option<&Place> {
        self.admissions.first().map(|(admission, _)| &admission.place).or(self.first_report.as_ref())
    }

    /// The guards, each once.
    pub fn guards(&self) -> Vec<&Rc<Guard>> {
        let mut seen = HashSet::new();
        let all = self.admissions.iter().flat_map(|(admission, _)| &admission.guards);
        all.filter(|guard| seen.insert(Rc::as_ptr(guard))).collect()
    }

    fn note_report(&mut self, tracker: &Rc<Tracker>, place: Place) {
        if !self.fed.iter().any(|known| Rc::ptr_eq(known, tracker)) {
            self.fed.push(Rc::clone(tracker));
        }
        self.first_report.get_or_insert(place);
    }

    fn note(&mut self, admission: &Rc<Admission>, label: Option<&Label>, fail: Fail) {
        self.fail_open |= fail == Fail::Open;
        let label_len = label.map_or(0, Label::fixed_len);
        // Locations of one server follow each other, so an inherited admission is found near the end.
        match self.admissions.iter_mut().rev().find(|(known, _)| Rc::ptr_eq(known, admission)) {
            Some((_, longest)) => *longest = label_len.max(*longest),
            None => self.admissions.push((Rc::clone(admission), label_len)),
        }
    }
}

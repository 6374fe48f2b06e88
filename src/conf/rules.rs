//! What servers and locations ask for: `ratelimitly`, `ratelimitly_label`, and what is in effect where.

use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use ratelimitly_config::arguments::{ArgumentError, split};
use ratelimitly_config::text::Excerpt;
use ratelimitly_config::tokens;
use ratelimitly_core::wire::{Guard as GuardBlock, MAX_LABEL, Resource};

use crate::conf::define::unknown;
use crate::conf::definitions::{Guard, TOKENS, Tracker, Zone};
use crate::conf::doubts::{self, Value};
use crate::conf::label::Label;
use crate::conf::loading::Loading;
use crate::conf::problem::Problem;
use crate::conf::report::OwnReport;
use crate::conf::settings::some;
use crate::conf::template::{Condition, Parsed, Template, given};
use crate::conf::{LocationConf, MainConf, enforcement};
use crate::nginx::conf::{Conf, Place};
use crate::settings::Fail;

const RULE: &str = "ratelimitly zone=<zone>|group=<group> [guard=<guard> ...] [tokens=<n or template>] \
                    [if=<template>], guard=<guard> ... [if=<template>] alone, or off";
const LABEL: &str = "ratelimitly_label <template> [cut]";

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
    /// The lines one by one, where one of them has an `if=` or a `tokens=` other than the default. `None`: every zone is
    /// asked for one token, and everything is asked each time.
    pub lines: Option<Box<[Line]>>,
    /// Whether one of the zones remembers its refusals.
    pub remembers: bool,
    /// Where the first rule stands.
    pub place: Place,
}

/// One `ratelimitly` line that may apply.
pub struct Line {
    /// When it applies: never [`Condition::Never`].
    pub condition: Condition,
    /// What each of its zones is asked for; 0 leaves them out.
    pub tokens: Parsed<u16>,
    /// Its zones among those of the admission.
    pub zones: Range<usize>,
    /// Its guards among those of the admission.
    pub guards: Box<[usize]>,
    /// Where it stands.
    pub place: Place,
}

impl Line {
    /// Whether it is in every question.
    pub fn is_certain(&self) -> bool {
        matches!(self.condition, Condition::Always)
    }

    fn is_plain(&self) -> bool {
        self.is_certain() && self.tokens.fixed() == Some(TOKENS)
    }
}

/// Which of an admission's zones and guards a question asks, block by block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection<'a> {
    /// All of them, in their order.
    All,
    /// Those of the lines that apply.
    Some {
        /// The index of each resource's zone.
        zones: &'a [usize],
        /// The index of each guard.
        guards: &'a [usize],
    },
}

impl Selection<'_> {
    /// The index in the admission of the zone that the question's resource `block` asks.
    pub fn zone(&self, block: usize) -> usize {
        match self {
            Selection::All => block,
            Selection::Some { zones, .. } => zones.get(block).copied().unwrap_or(block),
        }
    }

    /// The index in the admission of the guard that the question's block `block` asks.
    pub fn guard(&self, block: usize) -> usize {
        match self {
            Selection::All => block,
            Selection::Some { guards, .. } => guards.get(block).copied().unwrap_or(block),
        }
    }
}

/// The rules of one context while it is read.
#[derive(Default)]
pub struct Rules {
    zones: Vec<Rc<Zone>>,
    guards: Vec<Rc<Guard>>,
    lines: Vec<Line>,
    /// Where the first line stands, `off` included.
    place: Option<Place>,
    is_off: bool,
}

impl Rules {
    /// As `ratelimitly off` has it. No message names its place.
    fn off() -> Rules {
        Rules { is_off: true, ..Rules::default() }
    }

    /// The index of a guard, which is added if it is new.
    fn guard(&mut self, guard: &Rc<Guard>) -> usize {
        self.guards.iter().position(|known| Rc::ptr_eq(known, guard)).unwrap_or_else(|| {
            self.guards.push(Rc::clone(guard));
            self.guards.len() - 1
        })
    }

    fn add(&mut self, line: Words<'_>, condition: Condition, tokens: Parsed<u16>, place: Place) {
        self.place.get_or_insert_with(|| place.clone());
        if matches!(condition, Condition::Never) {
            return;
        }
        let guards = line.guards.iter().map(|guard| self.guard(guard)).collect();
        let first = self.zones.len();
        self.zones.extend(line.zones);
        self.lines.push(Line { condition, tokens, zones: first..self.zones.len(), guards, place });
    }

    /// What the context itself has: nothing, no rule, or rules.
    fn take(&mut self) -> Option<Option<Rc<Admission>>> {
        if self.is_off {
            return Some(None);
        }
        let place = self.place.take()?;
        let (zones, guards) = (std::mem::take(&mut self.zones), std::mem::take(&mut self.guards));
        let lines = std::mem::take(&mut self.lines);
        let is_plain = !lines.is_empty() && lines.iter().all(Line::is_plain);
        Some(Some(Rc::new(Admission {
            fixed_resources: zones.iter().map(|zone| zone.fixed).collect(),
            fixed_guards: guards.iter().map(|guard| guard.fixed).collect(),
            remembers: zones.iter().any(|zone| zone.remember_ms.is_some()),
            zones: zones.into(),
            guards: guards.into(),
            lines: (!is_plain).then(|| lines.into()),
            place,
        })))
    }
}

/// The arguments of one line, looked up.
#[derive(Default)]
struct Words<'a> {
    zones: Vec<Rc<Zone>>,
    guards: Vec<Rc<Guard>>,
    condition: Option<&'a [u8]>,
    tokens: Option<&'a [u8]>,
}

impl<'a> Words<'a> {
    fn read(arguments: &[&'a [u8]], loading: &Loading) -> Result<Words<'a>, Problem> {
        let is_target = |argument: &&&[u8]| argument.starts_with(b"zone=") || argument.starts_with(b"group=");
        // Counted before any is looked up: an empty one must not hide another.
        if arguments.iter().filter(is_target).count() > 1 {
            return Err(Problem::OneTarget { usage: RULE });
        }
        let mut words = Words::default();
        for argument in arguments {
            match split(argument) {
                Some((b"zone", name)) => words.zones.push(Rc::clone(loading.zones.refer(name)?)),
                Some((b"group", name)) => words.zones.extend_from_slice(&loading.groups.refer(name)?.zones),
                Some((b"guard", name)) => words.guards.push(Rc::clone(loading.guards.refer(name)?)),
                Some((b"if", text)) => once(&mut words.condition, "if", text)?,
                Some((b"tokens", text)) => once(&mut words.tokens, "tokens", text)?,
                _ => return Err(unknown(argument, RULE)),
            }
        }
        match words {
            Words { ref zones, tokens: Some(_), .. } if zones.is_empty() => {
                Err(Problem::TokensOfNothing { usage: RULE })
            }
            Words { ref zones, ref guards, .. } if zones.is_empty() && guards.is_empty() => {
                Err(Problem::Arguments { error: ArgumentError::Missing("zone"), usage: RULE })
            }
            words => Ok(words),
        }
    }
}

fn once<'a>(slot: &mut Option<&'a [u8]>, name: &'static str, text: &'a [u8]) -> Result<(), Problem> {
    match slot.replace(given(name, text)?) {
        None => Ok(()),
        Some(_) => Err(Problem::Arguments { error: ArgumentError::Repeated(name), usage: RULE }),
    }
}

/// `ratelimitly`.
pub fn rule(cf: &Conf, main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    let arguments = some(cf, RULE)?;
    let rules = &mut location.rules;
    let is_off = matches!(arguments[..], [word] if word.eq_ignore_ascii_case(b"off"));
    if rules.is_off || is_off && rules.place.is_some() {
        return Err(Problem::NotAlone);
    }
    if is_off {
        rules.is_off = true;
        rules.place = Some(cf.place());
        return Ok(());
    }
    let words = Words::read(&arguments, &main.loading)?;
    let condition = Condition::of(cf, words.condition)?;
    let tokens =
        words.tokens.map_or(Ok(Parsed::Fixed(TOKENS)), |text| parse_tokens(cf, text, &words.zones))?;
    let warnings = &mut main.loading.warnings;
    if let Some(text) = words.condition {
        doubts::constant(cf, warnings, "ratelimitly", text);
        doubts::undecided(cf, warnings, text);
    }
    if let Some(text) = words.tokens {
        doubts::spoiled(cf, warnings, "ratelimitly", Value::Figure("number of tokens"), text);
    }
    rules.add(words, condition, tokens, cf.place());
    Ok(())
}

/// A constant number is held against each zone's constant rate. Occurrences of one bucket add up only in the whole
/// question, of which the checks at the end of the http block warn.
fn parse_tokens(cf: &Conf, text: &[u8], zones: &[Rc<Zone>]) -> Result<Parsed<u16>, Problem> {
    let parsed = Parsed::compile(cf, text, |text| {
        tokens::parse(text).map_err(|error| Problem::Tokens { text: Excerpt::new(text), error })
    })?;
    let Some(tokens) = parsed.fixed() else { return Ok(parsed) };
    let limit = |zone: &Rc<Zone>| zone.rate.fixed().map_or(u32::MAX, |rate| rate.limit);
    match zones.iter().find(|zone| limit(zone) < tokens.into()) {
        None => Ok(parsed),
        Some(zone) => {
            Err(Problem::TokensAboveRate { tokens, zone: Excerpt::new(&zone.name), limit: limit(zone) })
        }
    }
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

/// Completes `child` with what it inherits from `parent`, and notes what is in effect there.
pub fn merge(main: &mut MainConf, parent: &LocationConf, child: &mut LocationConf) {
    if child.page.is_some() {
        // A client that reads the page is never refused and never waits.
        (child.rules, child.own_report) = (Rules::off(), Some(OwnReport::Off));
    }
    let in_effect = &mut main.loading.in_effect;
    child.admission = child.rules.take().unwrap_or_else(|| parent.admission.clone());
    child.label = child.label.take().or_else(|| parent.label.clone());
    child.report = match child.own_report.take() {
        None => parent.report.clone(),
        Some(OwnReport::Off) => None,
        Some(OwnReport::To(report, place)) => {
            in_effect.note_report(&report.tracker, place);
            Some(report)
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

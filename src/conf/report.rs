//! `ratelimitly_report`: the tracker that the requests of a place are reported to, which of them, and what is reported.

use std::rc::Rc;

use ratelimitly_config::name;
use ratelimitly_config::text::Excerpt;

use crate::conf::define::named;
use crate::conf::definitions::Tracker;
use crate::conf::doubts;
use crate::conf::problem::Problem;
use crate::conf::settings::{set_once, some};
use crate::conf::template::{Condition, given};
use crate::conf::{LocationConf, MainConf};
use crate::nginx::complex_value::ComplexValue;
use crate::nginx::conf::{Conf, Place};
use crate::settings::ReportTerms;

const REPORT: &str = "ratelimitly_report <tracker> [if=<template>] [time=<template>], or off";

/// The report in effect at a place.
pub struct Report {
    /// Where it goes.
    pub tracker: Rc<Tracker>,
    /// What the log phase decides; `None`: every request is reported with its duration.
    pub terms: Option<Rc<ReportTerms>>,
}

/// `ratelimitly_report` in one context.
#[derive(Clone)]
pub enum OwnReport {
    /// `off`, or an `if=` that is never true.
    Off,
    /// A report, and where the directive stands.
    To(Rc<Report>, Place),
}

/// The directive.
pub fn report(cf: &Conf, main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    let arguments = some(cf, REPORT)?;
    let name = name::parse(arguments[0]).map_err(|error| Problem::Name { error, usage: REPORT })?;
    let [condition, time] = named(&arguments[1..], ["if", "time"], REPORT)?;
    let own = match name {
        b"off" if arguments.len() > 1 => return Err(Problem::Count { usage: REPORT }),
        b"off" => OwnReport::Off,
        name => {
            let unknown = || Problem::NoTracker { name: Excerpt::new(name) };
            let tracker = Rc::clone(main.loading.trackers.find(name).ok_or_else(unknown)?);
            if let Some(text) = condition {
                doubts::constant(cf, &mut main.loading.warnings, "ratelimitly_report", text);
            }
            to(cf, tracker, condition, time)?
        }
    };
    set_once(&mut location.own_report, REPORT, own)
}

fn to(
    cf: &Conf,
    tracker: Rc<Tracker>,
    condition: Option<&[u8]>,
    time: Option<&[u8]>,
) -> Result<OwnReport, Problem> {
    let condition = Condition::of(cf, condition)?;
    let time = time.map(|text| measured(cf, text)).transpose()?;
    let condition = match condition {
        Condition::Never => return Ok(OwnReport::Off),
        Condition::Always => None,
        Condition::Rendered(value) => Some(value),
    };
    let terms = (condition.is_some() || time.is_some())
        .then(|| Rc::new(ReportTerms { tracker: Rc::clone(&tracker.name), condition, time }));
    Ok(OwnReport::To(Rc::new(Report { tracker, terms }), cf.place()))
}

/// A time that is the same for every request measures nothing.
fn measured(cf: &Conf, text: &[u8]) -> Result<ComplexValue, Problem> {
    let value = ComplexValue::compile(cf, given("time", text)?)?;
    value.ok_or_else(|| Problem::ConstantTime { text: Excerpt::new(text) })
}

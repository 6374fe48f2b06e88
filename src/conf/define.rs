//! The directives that define something by name: `ratelimitly_zone`, `_tracker`, `_guard`, `_group`.

use std::rc::Rc;

use ratelimitly_config::arguments::{self, ArgumentError, refuse_enclosed, refuse_quoted, split};
use ratelimitly_config::duration;
use ratelimitly_config::name;
use ratelimitly_config::number::parse_u32;
use ratelimitly_config::rate::Rate;
use ratelimitly_config::text::Excerpt;
use ratelimitly_core::id::TrackerSettings;

use crate::conf::MainConf;
use crate::conf::definitions::{Group, Guard, NAME_MAX, Tracker, Zone};
use crate::conf::doubts::{self, Value};
use crate::conf::problem::Problem;
use crate::conf::template::{Parsed, Template};
use crate::nginx::conf::Conf;

const ZONE: &str = "ratelimitly_zone <name> \"bucket=<template>\" rate=<n>r/<period><unit> \
                    [remember_deny=<duration>]";
const TRACKER: &str = "ratelimitly_tracker <name> \"service=<template>\" [ttl=<duration>] [max_samples=<n>] \
                       [min_sample_threshold=<n>]";
const GUARD: &str = "ratelimitly_guard <name> tracker=<tracker> threshold=<duration>";
const GROUP: &str = "ratelimitly_group <name> zone=<zone> ...";

const TTL_MS: u32 = 30_000;
const MAX_SAMPLES: u32 = 128;
const MIN_SAMPLE_THRESHOLD: u32 = 8;

/// `ratelimitly_zone`.
pub fn zone(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let arguments = cf.arguments();
    let (name, rest) = split_name(&arguments, ZONE)?;
    main.loading.zones.refuse_taken(name)?;
    let [bucket, rate, remember] = named(rest, ["bucket", "rate", "remember_deny"], ZONE)?;
    let (bucket_text, rate_text) = (required(bucket, "bucket", ZONE)?, required(rate, "rate", ZONE)?);
    let bucket = identity(cf, "bucket", bucket_text)?;
    let rate = judged(cf, "rate", rate_text, parse_rate)?;
    let remember_ms = remember.map(|text| milliseconds("remember_deny", text)).transpose()?;
    main.settings.remembers |= remember_ms.is_some();
    let number = main.loading.zones.names().len();
    main.loading.zones.insert(name, Zone::new(name, number, bucket, rate, remember_ms), cf.place());
    let warnings = &mut main.loading.warnings;
    doubts::chosen(cf, warnings, bucket_text);
    doubts::spoiled(cf, warnings, "ratelimitly_zone", Value::Name("bucket"), bucket_text);
    doubts::spoiled(cf, warnings, "ratelimitly_zone", Value::Figure("rate"), rate_text);
    Ok(())
}

/// `ratelimitly_tracker`.
pub fn tracker(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let arguments = cf.arguments();
    let (name, rest) = split_name(&arguments, TRACKER)?;
    if name == b"off" {
        return Err(Problem::Reserved);
    }
    main.loading.trackers.refuse_taken(name)?;
    if rest.iter().any(|argument| argument.starts_with(b"buffer_size=")) {
        return Err(Problem::BufferSize);
    }
    let names = ["service", "ttl", "max_samples", "min_sample_threshold"];
    let [service, ttl, samples, minimum] = named(rest, names, TRACKER)?;
    let settings = TrackerSettings {
        ttl_ms: ttl.map_or(Ok(TTL_MS), |text| milliseconds("ttl", text))?,
        max_samples: samples.map_or(Ok(MAX_SAMPLES), max_samples)?,
        min_sample_threshold: minimum
            .map_or(Ok(MIN_SAMPLE_THRESHOLD), |text| number("min_sample_threshold", text))?,
    };
    let service_text = required(service, "service", TRACKER)?;
    let service = identity(cf, "service", service_text)?;
    let tracker = main.loading.trackers.insert(name, Tracker::new(name, service, settings), cf.place());
    let warnings = &mut main.loading.warnings;
    doubts::spoiled(cf, warnings, "ratelimitly_tracker", Value::Name("service"), service_text);
    let left_out = [("ttl", ttl.is_none()), ("min_sample_threshold", minimum.is_none())];
    doubts::tracker(cf, warnings, &tracker, left_out);
    Ok(())
}

/// `ratelimitly_guard`.
pub fn guard(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let arguments = cf.arguments();
    let (name, rest) = split_name(&arguments, GUARD)?;
    main.loading.guards.refuse_taken(name)?;
    let [tracker, threshold] = named(rest, ["tracker", "threshold"], GUARD)?;
    let tracker = Rc::clone(main.loading.trackers.refer(required(tracker, "tracker", GUARD)?)?);
    let threshold_text = required(threshold, "threshold", GUARD)?;
    let threshold = judged(cf, "threshold", threshold_text, |text| milliseconds("threshold", text))?;
    let number = main.loading.guards.names().len();
    let guard = main.loading.guards.insert(name, Guard::new(name, number, tracker, threshold), cf.place());
    let warnings = &mut main.loading.warnings;
    doubts::spoiled(cf, warnings, "ratelimitly_guard", Value::Figure("threshold"), threshold_text);
    doubts::guard(cf, warnings, &guard, threshold_text);
    Ok(())
}

/// `ratelimitly_group`.
pub fn group(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let arguments = cf.arguments();
    let (name, rest) = split_name(&arguments, GROUP)?;
    main.loading.groups.refuse_taken(name)?;
    if rest.is_empty() {
        return Err(Problem::Arguments { error: ArgumentError::Missing("zone"), usage: GROUP });
    }
    let zones = rest.iter().map(|argument| match split(argument) {
        Some((b"zone", zone)) => main.loading.zones.refer(zone).cloned(),
        _ => Err(unknown(argument, GROUP)),
    });
    let zones = zones.collect::<Result<_, _>>()?;
    main.loading.groups.insert(name, Group { zones }, cf.place());
    Ok(())
}

/// The name and the rest of the arguments.
fn split_name<'a, 'b>(
    arguments: &'b [&'a [u8]],
    usage: &'static str,
) -> Result<(&'a [u8], &'b [&'a [u8]]), Problem> {
    let (first, rest) = arguments.split_first().ok_or(Problem::Count { usage })?;
    let name = name::parse(first).map_err(|error| Problem::Name { error, usage })?;
    Ok((name, rest))
}

pub(super) fn named<'a, const N: usize>(
    arguments: &[&'a [u8]],
    names: [&'static str; N],
    usage: &'static str,
) -> Result<[Option<&'a [u8]>; N], Problem> {
    arguments::named(arguments, names).map_err(|error| Problem::Arguments { error, usage })
}

pub(super) fn required<T>(value: Option<T>, name: &'static str, usage: &'static str) -> Result<T, Problem> {
    arguments::required(value, name).map_err(|error| Problem::Arguments { error, usage })
}

pub(super) fn unknown(argument: &[u8], usage: &'static str) -> Problem {
    Problem::Arguments { error: ArgumentError::Unknown(Excerpt::new(argument)), usage }
}

fn parse_rate(value: &[u8]) -> Result<Rate, Problem> {
    refuse_quoted(b"rate", value)?;
    Rate::parse(value).map_err(|error| Problem::Rate { text: Excerpt::new(value), error })
}

pub(super) fn milliseconds(argument: &'static str, value: &[u8]) -> Result<u32, Problem> {
    refuse_quoted(argument.as_bytes(), value)?;
    let text = Excerpt::new(value);
    duration::parse_ms(value).map_err(|error| Problem::Duration { argument, text, error })
}

pub(super) fn number(argument: &'static str, value: &[u8]) -> Result<u32, Problem> {
    refuse_quoted(argument.as_bytes(), value)?;
    let text = Excerpt::new(value);
    parse_u32(value).map_err(|error| Problem::Number { argument, text, error })
}

fn max_samples(value: &[u8]) -> Result<u32, Problem> {
    match number("max_samples", value)? {
        0 => Err(Problem::NoSamples),
        samples => Ok(samples),
    }
}

/// A rate or a threshold. One with variables is judged for each request, so that quotes are only warned of.
fn judged<T: Copy>(
    cf: &Conf,
    argument: &'static str,
    text: &[u8],
    parse: impl FnOnce(&[u8]) -> Result<T, Problem>,
) -> Result<Parsed<T>, Problem> {
    let parsed = Parsed::compile(cf, text, parse)?;
    if let (Parsed::Rendered(_), Err(quotes)) = (&parsed, refuse_quoted(argument.as_bytes(), text)) {
        cf.warn(quotes);
    }
    Ok(parsed)
}

/// A bucket or a service; its static text is checked here, a rendered one for each request.
fn identity(cf: &Conf, argument: &'static str, text: &[u8]) -> Result<Template, Problem> {
    refuse_enclosed(argument.as_bytes(), text)?;
    if let Err(quotes) = refuse_quoted(argument.as_bytes(), text) {
        cf.warn(quotes);
    }
    if text.is_empty() {
        return Err(Problem::Empty { argument, max: NAME_MAX });
    }
    let template = Template::compile(cf, text)?;
    match template.fixed() {
        Some(text) if text.len() > NAME_MAX => {
            Err(Problem::TooLong { what: argument, len: text.len(), max: NAME_MAX })
        }
        _ => Ok(template),
    }
}

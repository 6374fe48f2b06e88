//! The directives that define something by name: `ratelimitly_zone`, `_tracker`, `_guard`, `_group`.

use std::rc::Rc;

use ratelimitly_config::duration;
use ratelimitly_config::name;
use ratelimitly_config::number::parse_u32;
use ratelimitly_config::rate::Rate;
use ratelimitly_config::text::{Excerpt, refuse_inner_quotes, split_argument};
use ratelimitly_core::id::TrackerSettings;

use crate::conf::MainConf;
use crate::conf::definitions::{Group, Guard, NAME_MAX, Tracker, Zone};
use crate::conf::problem::Problem;
use crate::conf::template::{Parsed, Template};
use crate::nginx::conf::Conf;

const ZONE: &str = "ratelimitly_zone <name> \"bucket=<template>\" rate=<n>r/<period><unit>";
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
    main.zones.refuse_taken(name)?;
    let (mut bucket, mut rate) = (None, None);
    for argument in rest {
        match split_argument(argument) {
            Some((b"bucket", value)) => set_once(&mut bucket, "bucket", ZONE, unquoted("bucket", value)?)?,
            Some((b"rate", value)) => set_once(&mut rate, "rate", ZONE, value)?,
            _ => return Err(unknown(argument, ZONE)),
        }
    }
    let bucket = named_template(cf, "bucket", required(bucket, "bucket", ZONE)?)?;
    let rate = Parsed::compile(cf, required(rate, "rate", ZONE)?, |text| {
        Rate::parse(text).map_err(|error| Problem::Rate { text: Excerpt::new(text), error })
    })?;
    main.zones.insert(name, Zone::new(name, bucket, rate));
    Ok(())
}

/// `ratelimitly_tracker`.
pub fn tracker(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let arguments = cf.arguments();
    let (name, rest) = split_name(&arguments, TRACKER)?;
    if name == b"off" {
        return Err(Problem::Reserved);
    }
    main.trackers.refuse_taken(name)?;
    let (mut service, mut ttl, mut samples, mut minimum) = (None, None, None, None);
    for argument in rest {
        match split_argument(argument) {
            Some((b"service", value)) => {
                set_once(&mut service, "service", TRACKER, unquoted("service", value)?)?;
            }
            Some((b"ttl", value)) => set_once(&mut ttl, "ttl", TRACKER, milliseconds("ttl", value)?)?,
            Some((b"max_samples", value)) => {
                set_once(&mut samples, "max_samples", TRACKER, number("max_samples", value)?)?;
            }
            Some((b"min_sample_threshold", value)) => {
                let threshold = number("min_sample_threshold", value)?;
                set_once(&mut minimum, "min_sample_threshold", TRACKER, threshold)?;
            }
            Some((b"buffer_size", _)) => return Err(Problem::BufferSize),
            _ => return Err(unknown(argument, TRACKER)),
        }
    }
    if samples == Some(0) {
        return Err(Problem::NoSamples);
    }
    let settings = TrackerSettings {
        ttl_ms: ttl.unwrap_or(TTL_MS),
        max_samples: samples.unwrap_or(MAX_SAMPLES),
        min_sample_threshold: minimum.unwrap_or(MIN_SAMPLE_THRESHOLD),
    };
    let service = named_template(cf, "service", required(service, "service", TRACKER)?)?;
    main.trackers.insert(name, Tracker::new(name, service, settings));
    Ok(())
}

/// `ratelimitly_guard`.
pub fn guard(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let arguments = cf.arguments();
    let (name, rest) = split_name(&arguments, GUARD)?;
    main.guards.refuse_taken(name)?;
    let (mut tracker, mut threshold) = (None, None);
    for argument in rest {
        match split_argument(argument) {
            Some((b"tracker", value)) => set_once(&mut tracker, "tracker", GUARD, value)?,
            Some((b"threshold", value)) => set_once(&mut threshold, "threshold", GUARD, value)?,
            _ => return Err(unknown(argument, GUARD)),
        }
    }
    let tracker = Rc::clone(main.trackers.find(required(tracker, "tracker", GUARD)?)?);
    let threshold = required(threshold, "threshold", GUARD)?;
    let threshold = Parsed::compile(cf, threshold, |text| milliseconds("threshold", text))?;
    main.guards.insert(name, Guard::new(name, tracker, threshold));
    Ok(())
}

/// `ratelimitly_group`.
pub fn group(cf: &Conf, main: &mut MainConf) -> Result<(), Problem> {
    let arguments = cf.arguments();
    let (name, rest) = split_name(&arguments, GROUP)?;
    main.groups.refuse_taken(name)?;
    if rest.is_empty() {
        return Err(Problem::Missing { argument: "zone", usage: GROUP });
    }
    let zones = rest.iter().map(|argument| match split_argument(argument) {
        Some((b"zone", zone)) => main.zones.find(zone).cloned(),
        _ => Err(unknown(argument, GROUP)),
    });
    let zones = zones.collect::<Result<_, _>>()?;
    main.groups.insert(name, Group { zones });
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

pub(super) fn set_once<T>(
    slot: &mut Option<T>,
    argument: &'static str,
    usage: &'static str,
    value: T,
) -> Result<(), Problem> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::Repeated { argument, usage }),
    }
}

fn required<T>(value: Option<T>, argument: &'static str, usage: &'static str) -> Result<T, Problem> {
    value.ok_or(Problem::Missing { argument, usage })
}

pub(super) fn unknown(argument: &[u8], usage: &'static str) -> Problem {
    Problem::Unknown { argument: Excerpt::new(argument), usage }
}

fn milliseconds(argument: &'static str, value: &[u8]) -> Result<u32, Problem> {
    let text = Excerpt::new(value);
    duration::parse_ms(value).map_err(|error| Problem::Duration { argument, text, error })
}

fn number(argument: &'static str, value: &[u8]) -> Result<u32, Problem> {
    let text = Excerpt::new(value);
    parse_u32(value).map_err(|error| Problem::Number { argument, text, error })
}

/// Checked before any other argument: nginx has cut a value with spaces into several.
fn unquoted<'a>(argument: &'static str, value: &'a [u8]) -> Result<&'a [u8], Problem> {
    refuse_inner_quotes(argument, value)?;
    Ok(value)
}

/// A bucket or a service; its static text is checked here, a rendered one for each request.
fn named_template(cf: &Conf, argument: &'static str, text: &[u8]) -> Result<Template, Problem> {
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

//! The arguments of `ratelimitly_policy` to a [`Policy`].

#[cfg(test)]
mod tests;

use ratelimitly_core::policy::{AutoUnit, Policy, PolicyError, Schedule};

use crate::arguments::{ArgumentError, QuoteError, named, refuse_quotes, required};
use crate::duration::{self, DurationError};
use crate::number::{NumberError, parse_u32};
use crate::text::Excerpt;

/// The unit of `standard` and `single_round` where none is given, milliseconds.
pub const DEFAULT_UNIT_MS: u32 = 20;

/// The shortest unit of `unit=auto` where no `min=` is given, milliseconds.
pub const DEFAULT_MIN_MS: u32 = 5;
/// The longest unit of `unit=auto` where no `max=` is given, milliseconds.
pub const DEFAULT_MAX_MS: u32 = 100;

const STANDARD_FORM: &str = "\"standard\" accepts only \"unit=<duration>\", or \"unit=auto\" with \"min=<duration>\" \
                             and \"max=<duration>\", and \"silent_after=<n>\", each at most once";
const SINGLE_ROUND_FORM: &str = "\"single_round\" accepts only \"unit=<duration>\", or \"unit=auto\" with \
                                 \"min=<duration>\" and \"max=<duration>\", and \"silent_after=<n>\", each at most once";
const CUSTOM_FORM: &str = "\"custom\" needs unit=<duration>, replays=<0..65535>, replay_gap=<schedule>, \
                           final_wait_units=<0..4294967295> and completion_delivery=on|off, each exactly once, and \
                           accepts silent_after=<n>";
const GAP_FORM: &str = "expected fixed:<n>, linear:<n>:<step>:<max> or exponential:<n>:<factor>:<max>";

/// Why the arguments are no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyTextError {
    /// The first argument names no policy.
    #[error("unknown policy \"{0}\", expected \"standard\", \"single_round\" or \"custom\"")]
    Unknown(Excerpt),
    /// Not the arguments of this policy.
    #[error("{error}, {form}")]
    Arguments {
        /// What is wrong with them.
        error: ArgumentError,
        /// What is accepted.
        form: &'static str,
    },
    /// A value in quotes.
    #[error(transparent)]
    Quote(#[from] QuoteError),
    /// `unit=`.
    #[error("\"unit={text}\" {error}")]
    Unit {
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: DurationError,
    },
    /// `min=` or `max=`.
    #[error("\"{name}={text}\" {error}")]
    Bound {
        /// The argument.
        name: &'static str,
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: DurationError,
    },
    /// `min=` or `max=` of a unit that is fixed.
    #[error("\"{0}=\" bounds a unit that follows the round trip, expected \"unit=auto\" beside it")]
    BoundOfFixed(&'static str),
    /// `min=` above `max=`.
    #[error(
        "\"min=\" of {min_ms} ms is above \"max=\" of {max_ms} ms, expected a smaller \"min=\" or a larger \"max=\""
    )]
    MinAboveMax {
        /// The lower bound, milliseconds.
        min_ms: u32,
        /// The upper bound, milliseconds.
        max_ms: u32,
    },
    /// `custom unit=auto`.
    #[error(
        "\"unit=auto\" belongs to \"standard\" and \"single_round\", expected \"unit=<duration>\" with \"custom\""
    )]
    AutoCustom,
    /// `silent_after=`.
    #[error("\"silent_after={0}\" is invalid, expected a number of requests, 1..4294967295")]
    SilentAfter(Excerpt),
    /// `replays=`.
    #[error("\"replays={0}\" is invalid, expected a whole number of 0..65535")]
    Replays(Excerpt),
    /// `final_wait_units=`.
    #[error("\"final_wait_units={text}\" {error}")]
    FinalWait {
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: NumberError,
    },
    /// `completion_delivery=`.
    #[error("\"completion_delivery={0}\" is invalid, expected \"on\" or \"off\"")]
    Completion(Excerpt),
    /// `replay_gap=`.
    #[error("\"replay_gap={text}\" {error}, {GAP_FORM}")]
    Gap {
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: GapError,
    },
    /// Right arguments that together are no policy, such as a horizon above 32 bits.
    #[error("{0}; use a shorter unit, fewer replays or smaller gaps, the horizon is at most 4294967295 ms")]
    Policy(PolicyError),
}

/// What is wrong with a `replay_gap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GapError {
    /// Another word before the first colon.
    #[error("has an unknown schedule")]
    Kind,
    /// Too few or too many numbers.
    #[error("has the wrong number of parts")]
    Parts,
    /// A part that is no 32-bit number.
    #[error("has a part that is not a whole number up to 4294967295")]
    Number,
    /// A gap of zero units.
    #[error("has a gap of zero, at least 1 is needed")]
    ZeroGap,
    /// A step of zero.
    #[error("has a step of zero, at least 1 is needed")]
    ZeroStep,
    /// A factor that does not grow.
    #[error("has a factor below 2")]
    Factor,
    /// The first gap is above the maximum.
    #[error("starts above its maximum")]
    AboveMaximum,
}

/// What the directive says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// The policy.
    pub policy: Policy,
    /// The longest unit is the default one: where the key's quota allows less, it is shortened.
    pub max_is_default: bool,
}

/// Reads the directive's arguments, the policy's name first.
///
/// # Errors
/// [`PolicyTextError`], one variant for each way of being wrong.
pub fn parse(arguments: &[&[u8]]) -> Result<Parsed, PolicyTextError> {
    let (name, rest) = arguments.split_first().map_or((&b""[..], arguments), |(name, rest)| (*name, rest));
    match &name.to_ascii_lowercase()[..] {
        b"standard" => by_unit(Policy::standard, rest, STANDARD_FORM),
        b"single_round" => by_unit(Policy::single_round, rest, SINGLE_ROUND_FORM),
        b"custom" => custom(rest),
        _ => Err(PolicyTextError::Unknown(Excerpt::new(name))),
    }
}

/// A policy that has a unit and nothing else of its own.
fn by_unit(
    make: impl Fn(u32) -> Result<Policy, PolicyError>,
    arguments: &[&[u8]],
    form: &'static str,
) -> Result<Parsed, PolicyTextError> {
    let names = ["unit", "min", "max", "silent_after"];
    let [unit, min, max, silent_after] =
        named(arguments, names).map_err(|error| PolicyTextError::Arguments { error, form })?;
    refuse_quotes(arguments)?;
    let is_auto = unit.is_some_and(is_auto);
    let fixed_unit = unit.filter(|_| !is_auto).map_or(Ok(DEFAULT_UNIT_MS), parse_unit)?;
    let policy = make(fixed_unit).map_err(PolicyTextError::Policy)?;
    let policy = policy.with_silent_after(parse_silent_after(silent_after)?);
    let policy = if is_auto {
        policy.with_auto_unit(parse_bounds(min, max)?).map_err(PolicyTextError::Policy)?
    } else if let Some((name, _)) =
        [("min", min), ("max", max)].into_iter().find(|(_, value)| value.is_some())
    {
        return Err(PolicyTextError::BoundOfFixed(name));
    } else {
        policy
    };
    Ok(Parsed { policy, max_is_default: max.is_none() })
}

fn custom(arguments: &[&[u8]]) -> Result<Parsed, PolicyTextError> {
    let wrong = |error| PolicyTextError::Arguments { error, form: CUSTOM_FORM };
    let names = ["unit", "replays", "replay_gap", "final_wait_units", "completion_delivery", "silent_after"];
    let [unit, replays, gap, final_wait, completion, silent_after] =
        named(arguments, names).map_err(wrong)?;
    refuse_quotes(arguments)?;
    let needed = |value, name| required(value, name).map_err(wrong);
    let unit = needed(unit, "unit")?;
    if is_auto(unit) {
        return Err(PolicyTextError::AutoCustom);
    }
    let policy = Policy::custom(
        parse_unit(unit)?,
        parse_replays(needed(replays, "replays")?)?,
        parse_gap(needed(gap, "replay_gap")?)?,
        parse_final_wait(needed(final_wait, "final_wait_units")?)?,
        parse_completion(needed(completion, "completion_delivery")?)?,
    );
    let policy =
        policy.map_err(PolicyTextError::Policy)?.with_silent_after(parse_silent_after(silent_after)?);
    Ok(Parsed { policy, max_is_default: false })
}

fn is_auto(unit: &[u8]) -> bool {
    unit.eq_ignore_ascii_case(b"auto")
}

/// The bounds of a unit that follows the round trip.
fn parse_bounds(min: Option<&[u8]>, max: Option<&[u8]>) -> Result<AutoUnit, PolicyTextError> {
    let bound = |name, value: Option<&[u8]>| {
        let value = value.map(|value| {
            let wrong = |error| PolicyTextError::Bound { name, text: Excerpt::new(value), error };
            duration::parse_ms(value).map_err(wrong)
        });
        value.transpose()
    };
    let (min, max) = (bound("min", min)?, bound("max", max)?);
    let min_ms = min.unwrap_or_else(|| max.unwrap_or(DEFAULT_MAX_MS).min(DEFAULT_MIN_MS));
    let max_ms = max.unwrap_or(DEFAULT_MAX_MS.max(min_ms));
    if min_ms > max_ms {
        Err(PolicyTextError::MinAboveMax { min_ms, max_ms })
    } else {
        Ok(AutoUnit { min_ms, max_ms })
    }
}

/// 0: the argument is not there.
fn parse_silent_after(value: Option<&[u8]>) -> Result<u32, PolicyTextError> {
    let Some(value) = value else { return Ok(0) };
    match parse_u32(value) {
        Ok(requests @ 1..) => Ok(requests),
        _ => Err(PolicyTextError::SilentAfter(Excerpt::new(value))),
    }
}

fn parse_unit(value: &[u8]) -> Result<u32, PolicyTextError> {
    duration::parse_ms(value).map_err(|error| PolicyTextError::Unit { text: Excerpt::new(value), error })
}

fn parse_replays(value: &[u8]) -> Result<u16, PolicyTextError> {
    let replays = parse_u32(value).ok().and_then(|n| u16::try_from(n).ok());
    replays.ok_or_else(|| PolicyTextError::Replays(Excerpt::new(value)))
}

fn parse_final_wait(value: &[u8]) -> Result<u32, PolicyTextError> {
    parse_u32(value).map_err(|error| PolicyTextError::FinalWait { text: Excerpt::new(value), error })
}

fn parse_completion(value: &[u8]) -> Result<bool, PolicyTextError> {
    match value {
        word if word.eq_ignore_ascii_case(b"on") => Ok(true),
        word if word.eq_ignore_ascii_case(b"off") => Ok(false),
        other => Err(PolicyTextError::Completion(Excerpt::new(other))),
    }
}

fn parse_gap(value: &[u8]) -> Result<Schedule, PolicyTextError> {
    schedule(value).map_err(|error| PolicyTextError::Gap { text: Excerpt::new(value), error })
}

fn schedule(text: &[u8]) -> Result<Schedule, GapError> {
    let mut parts = text.split(|&b| b == b':');
    let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
    if !matches!(&kind[..], b"fixed" | b"linear" | b"exponential") {
        return Err(GapError::Kind);
    }
    let numbers: Vec<u32> = parts.map(parse_u32).collect::<Result<_, _>>().map_err(|_| GapError::Number)?;
    match (&kind[..], &numbers[..]) {
        (b"fixed", &[gap]) => bounded(gap, gap, Schedule::Fixed(gap)),
        (b"linear", &[_, 0, _]) => Err(GapError::ZeroStep),
        (b"linear", &[initial, step, maximum]) => {
            bounded(initial, maximum, Schedule::Linear { initial, step, maximum })
        }
        (b"exponential", &[_, 0 | 1, _]) => Err(GapError::Factor),
        (b"exponential", &[initial, factor, maximum]) => {
            bounded(initial, maximum, Schedule::Exponential { initial, factor, maximum })
        }
        _ => Err(GapError::Parts),
    }
}

fn bounded(initial: u32, maximum: u32, schedule: Schedule) -> Result<Schedule, GapError> {
    match initial {
        0 => Err(GapError::ZeroGap),
        _ if initial > maximum => Err(GapError::AboveMaximum),
        _ => Ok(schedule),
    }
}

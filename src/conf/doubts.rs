//! The doubts that a single directive raises: what a client can do to its templates, settings that contradict each other
//! or were left out. They become warnings where they hold in the end.

use std::rc::Rc;

use ratelimitly_config::condition::looks_like_no;
use ratelimitly_config::duration;
use ratelimitly_config::text::Excerpt;
use ratelimitly_config::variables::{chosen_by_client, only_chosen_by_client, unknown_before_decision};
use ratelimitly_core::id::TrackerSettings;
use ratelimitly_core::wire::MAX_LABEL;

use crate::conf::definitions::{Guard, NAME_MAX, Tracker};
use crate::conf::warnings::{About, Warnings, When};
use crate::nginx::conf::Conf;

/// A threshold without a unit above this is probably meant in milliseconds.
const LONG_MS: u32 = 60_000;

/// A value with variables, in the words of messages.
#[derive(Clone, Copy)]
pub enum Value {
    /// A zone's bucket or a tracker's service.
    Name(&'static str),
    /// A rate, a threshold or a number of tokens.
    Figure(&'static str),
    /// A label without `cut`.
    Label,
}

impl Value {
    fn word(self) -> &'static str {
        match self {
            Value::Name(word) | Value::Figure(word) => word,
            Value::Label => "label",
        }
    }

    fn harm(self) -> String {
        match self {
            Value::Name(_) => format!("longer than {NAME_MAX} bytes, or empty if it holds nothing else,"),
            Value::Figure(_) => "invalid".to_owned(),
            Value::Label => format!("longer than {MAX_LABEL} bytes"),
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Value::Name(_) | Value::Figure(_) => "expected variables that a client cannot choose",
            Value::Label => "expected \"cut\" after the template, or variables that a client cannot choose",
        }
    }
}

/// A value that a client can spoil: then the request follows `ratelimitly_fail`.
pub fn spoiled(cf: &Conf, warnings: &mut Warnings, directive: &'static str, value: Value, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let Some(variable) = chosen_by_client(&text) else { return };
    let (word, harm, remedy) = (value.word(), value.harm(), value.remedy());
    let variable = Excerpt::new(variable.as_bytes());
    let message = format_args!(
        "a client can make the {word} {harm} through \"${variable}\", and under \"ratelimitly_fail open\" such a \
         request is not limited; {remedy}"
    );
    warnings.note(cf, About::ClientLength, When::FailOpen, directive, message);
}

/// A constant `if=` that reads like "no" and yet applies.
pub fn constant(cf: &Conf, warnings: &mut Warnings, directive: &'static str, text: &[u8]) {
    if text.contains(&b'$') || !looks_like_no(text) {
        return;
    }
    let text = Excerpt::new(text);
    let message = format_args!(
        "\"if={text}\" is true, as in \"access_log\": only an empty value and \"0\" are not; expected if=0, or a variable"
    );
    warnings.note(cf, About::Constant, When::Always, directive, message);
}

/// An `if=` made of what is unknown until the rules have been asked.
pub fn undecided(cf: &Conf, warnings: &mut Warnings, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let Some(variable) = unknown_before_decision(&text) else { return };
    let variable = Excerpt::new(variable.as_bytes());
    let message = format_args!(
        "\"${variable}\" in \"if=\" is unknown when the request is asked about; expected a variable that is known before \
         the content, such as one of \"map\" or \"geo\""
    );
    warnings.note(cf, About::Undecided, When::Always, "ratelimitly", message);
}

/// A bucket that each client chooses for itself.
pub fn chosen(cf: &Conf, warnings: &mut Warnings, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let Some(variable) = only_chosen_by_client(&text) else { return };
    let variable = Excerpt::new(variable.as_bytes());
    let message = format_args!(
        "a client chooses the bucket through \"${variable}\" alone, so that a client that changes it is never \
         limited; expected a key that a client cannot choose, such as $binary_remote_addr"
    );
    warnings.note(cf, About::ClientKey, When::Asking, "ratelimitly_zone", message);
}

/// Warns of a tracker that can never hold as many samples as it needs, and of a tracker without settings.
pub fn tracker(cf: &Conf, warnings: &mut Warnings, tracker: &Rc<Tracker>, left_out: [(&str, bool); 2]) {
    let TrackerSettings { max_samples, min_sample_threshold, .. } = tracker.settings;
    if min_sample_threshold > max_samples {
        let message = format_args!(
            "\"min_sample_threshold={min_sample_threshold}\" is above \"max_samples={max_samples}\": the tracker never \
             has so many samples, so that its guards pass every request; expected at most {max_samples}"
        );
        warnings.note(cf, About::Samples, When::Always, "ratelimitly_tracker", message);
    }
    let words: Vec<_> =
        left_out.iter().filter(|(_, is_left_out)| *is_left_out).map(|(word, _)| *word).collect();
    if !words.is_empty() {
        let message = format_args!(
            "a guard depends on this tracker, and its defaults for {} fit few backends; expected a value of your own, \
             docs/overload.md tells which",
            words.join(" and ")
        );
        warnings.note(cf, About::Defaults, When::Guarded(Rc::clone(tracker)), "ratelimitly_tracker", message);
    }
}

/// A guard whose tracker gets no report, and a threshold that was probably meant in milliseconds.
pub fn guard(cf: &Conf, warnings: &mut Warnings, guard: &Rc<Guard>, threshold: &[u8]) {
    let name = Excerpt::new(&guard.tracker.name);
    let message = format_args!(
        "no \"ratelimitly_report\" feeds tracker \"{name}\", so that the guard passes every request unless another \
         nginx reports; expected \"ratelimitly_report {name}\" in the locations whose latency counts"
    );
    warnings.note(cf, About::Unfed, When::Unfed(Rc::clone(guard)), "ratelimitly_guard", message);
    if guard.threshold.fixed().is_some_and(|ms| ms > LONG_MS) && duration::has_no_unit(threshold) {
        let number = Excerpt::new(threshold.trim_ascii_end());
        let message = format_args!(
            "\"threshold={number}\" has no unit, so it is {number} seconds; expected a unit: {number}ms or {number}s"
        );
        warnings.note(cf, About::Unit, When::Always, "ratelimitly_guard", message);
    }
}

//! Checks of guards: settings with which a guard never refuses, or only after nginx has given up.

use super::duration;
use super::finding::{Finding, Known};
use super::place::Place;
use super::tree::Directive;
use super::upstreams::{gives_up_after, passing, shown};

/// The module's defaults.
const TTL_MS: u32 = 30_000;
const MAX_SAMPLES: u32 = 128;
const MIN_SAMPLE_THRESHOLD: u32 = 8;

struct Tracker<'a> {
    line: &'a Directive,
    ttl_ms: u32,
    max: u32,
    min: u32,
}

/// Every guard that is in effect in some place.
pub fn settings(places: &[Place<'_>], known: &Known) -> Vec<Finding> {
    let guards = places.iter().flat_map(|place| place.own("ratelimitly_guard"));
    guards.flat_map(|guard| of(guard, places, known)).collect()
}

fn of(guard: &Directive, places: &[Place<'_>], known: &Known) -> Vec<Finding> {
    let name = guard.named("tracker").unwrap_or_default();
    let tracker = places.iter().flat_map(|place| place.own("ratelimitly_tracker"));
    let Some(tracker) = tracker.filter(|tracker| tracker.first() == name).last().and_then(read) else {
        return Vec::new();
    };
    let fed = places.iter().flat_map(|place| place.own("ratelimitly_report"));
    let unfed = fed.filter(|report| report.first() == name).count() == 0;
    let unfed = unfed.then(|| {
        let text = format!(
            "guard {} never refuses from this configuration's own measurements: no ratelimitly_report names tracker {name}",
            guard.first()
        );
        Finding::at(guard, "guard", text)
    });
    unfed
        .into_iter()
        .chain(samples(&tracker, known))
        .chain(life(&tracker))
        .chain(late(guard, places))
        .collect()
}

fn read(line: &Directive) -> Option<Tracker<'_>> {
    let number = |name, default| line.named(name).map_or(Some(default), |value| value.parse().ok());
    Some(Tracker {
        line,
        ttl_ms: line.named("ttl").map_or(Some(TTL_MS), duration)?,
        max: number("max_samples", MAX_SAMPLES)?,
        min: number("min_sample_threshold", MIN_SAMPLE_THRESHOLD)?,
    })
}

/// Fewer samples than it takes: the latency stays 0 and the guard open.
fn samples(tracker: &Tracker<'_>, known: &Known) -> Option<Finding> {
    let Tracker { line, ttl_ms, max, min } = *tracker;
    let name = line.first();
    let text = if min > max {
        format!(
            "tracker {name} keeps {max} samples and wants {min}: its guards never refuse. Set min_sample_threshold=0"
        )
    } else {
        let rate = known.answers_per_second?;
        let kept = rate * f64::from(ttl_ms) / 1000.0;
        if kept >= f64::from(min) {
            return None;
        }
        format!(
            "tracker {name} keeps samples for {} and wants {min} of them; the access log has {rate:.0} answers per second, \
             which make {kept:.1}: its guards never refuse. Set min_sample_threshold=0",
            shown(ttl_ms)
        )
    };
    Some(Finding::at(line, "guard", text))
}

/// The default time is for another purpose than overload. One that is written down is meant.
fn life(tracker: &Tracker<'_>) -> Option<Finding> {
    tracker.line.named("ttl").is_none().then(|| {
        let text = format!(
            "tracker {} has no ttl and keeps samples for {}: one full queue makes its guards refuse everything for as \
             long. Against overload use ttl=20ms min_sample_threshold=0 (docs/overload.md)",
            tracker.line.first(),
            shown(TTL_MS)
        );
        Finding::at(tracker.line, "guard", text)
    })
}

/// A threshold that is only reached when nginx has given up.
fn late(guard: &Directive, places: &[Place<'_>]) -> Option<Finding> {
    let threshold = guard.named("threshold").and_then(duration)?;
    let name = guard.first();
    let uses = |rule: &&Directive| rule.named("guard") == Some(name);
    let (least, pass) = passing(places)
        .into_iter()
        .filter(|(place, ..)| place.rules().iter().any(uses))
        .filter_map(|(place, pass, prefix)| Some((gives_up_after(&place, prefix)?, pass)))
        .min_by_key(|(ms, _)| *ms)?;
    (threshold >= least).then(|| {
        let text = format!(
            "guard {name} refuses from {} on, and nginx gives up after {} ({} in line {}): it refuses only when requests \
             already end with 504. Choose the threshold as in docs/overload.md",
            shown(threshold),
            shown(least),
            pass.name,
            pass.line
        );
        Finding::at(guard, "guard", text)
    })
}

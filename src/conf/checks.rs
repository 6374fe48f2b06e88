//! What only the whole configuration shows: questions that cannot be allowed or sent, and which of the noted warnings hold.
//!
//! Called at the end of the http block. Nothing here refuses a configuration.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use ratelimitly_config::text::{Count, Excerpt};
use ratelimitly_core::id::BucketId;
use ratelimitly_core::key::ApiKey;
use ratelimitly_core::wire::{MAX_DATAGRAM, rate_request_size};

use crate::conf::definitions::{TOKENS, Zone};
use crate::conf::loading::Loading;
use crate::conf::rules::{Admission, Line};
use crate::conf::warnings::{About, Outcome, Warnings};
use crate::nginx::conf::{Conf, Place};

/// Warns of zones and rules in effect that the service or the client would refuse.
pub fn check_in_effect(cf: &Conf, key: &ApiKey, loading: &mut Loading) {
    warn_of_windows(cf, key, loading);
    let Loading { in_effect, warnings, .. } = loading;
    for (admission, label_len) in &in_effect.admissions {
        warn_of_size(cf, key, admission, *label_len, warnings);
        warn_of_tokens(cf, admission, warnings);
    }
}

/// Writes the warnings that hold, and how many were left out.
pub fn check_all(cf: &Conf, mut loading: Loading) {
    let outcome = Outcome {
        asking: !loading.in_effect.admissions.is_empty(),
        fail_open: loading.in_effect.fail_open,
        guards: loading.in_effect.guards(),
        fed: &loading.in_effect.fed,
    };
    loading.warnings.write_noted(cf, &outcome);
    loading.warnings.write_counts(cf);
}

/// The client refuses a request with such a window before anything is sent.
fn warn_of_windows(cf: &Conf, key: &ApiKey, loading: &mut Loading) {
    let quota_ms = key.quotas().rate_window_size_ms_max;
    let Loading { in_effect, zones: definitions, warnings, .. } = loading;
    let mut zones: Vec<_> = in_effect.admissions.iter().flat_map(|(admission, _)| &admission.zones).collect();
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    zones.dedup_by(|a, b| a.name == b.name);
    for zone in zones {
        let Some(window_ms) = zone.rate.fixed().map(|rate| rate.window_ms).filter(|&ms| ms > quota_ms) else {
            continue;
        };
        let Some(place) = definitions.place(&zone.name) else { continue };
        let name = Excerpt::new(&zone.name);
        let message = format_args!(
            "the window of zone \"{name}\", {window_ms} ms, is above the API key's quota of {quota_ms} ms: every request \
             that it applies to follows \"ratelimitly_fail\""
        );
        warnings.write(cf, About::Window, place, "ratelimitly_zone", message);
    }
}

/// Of lines with an `if=` or with tokens that a request decides, no question is certain to hold any.
fn warn_of_size(cf: &Conf, key: &ApiKey, admission: &Admission, label_len: usize, warnings: &mut Warnings) {
    let (resources, guards) = certain_blocks(admission);
    let size = rate_request_size(key.kind(), guards, resources, label_len);
    if size <= MAX_DATAGRAM {
        return;
    }
    let message = format_args!(
        "the rules from here on are too many for one request: {}, {} and a label of {} need {size} bytes, at most \
         {MAX_DATAGRAM} are allowed; such a request follows \"ratelimitly_fail\"",
        Count(resources, "zone"),
        Count(guards, "guard"),
        Count(label_len, "byte"),
    );
    warnings.write(cf, About::Size, &admission.place, "ratelimitly", message);
}

/// How many zones and guards are in every question.
fn certain_blocks(admission: &Admission) -> (usize, usize) {
    let Some(lines) = &admission.lines else { return (admission.zones.len(), admission.guards.len()) };
    let certain = || lines.iter().filter(|line| line.is_certain());
    let asks = |line: &&Line| line.tokens.fixed().is_some_and(|tokens| tokens > 0);
    let guards: HashSet<usize> = certain().flat_map(|line| line.guards.iter().copied()).collect();
    (certain().filter(asks).map(|line| line.zones.len()).sum(), guards.len())
}

/// The servers grant all tokens of a question or none, so a bucket that never holds as many denies each. A line with an
/// `if=` is in a question with those without one, and perhaps with no other.
fn warn_of_tokens(cf: &Conf, admission: &Admission, warnings: &mut Warnings) {
    let mut asked = Asked::default();
    let Some(lines) = &admission.lines else {
        asked.add(&admission.zones, TOKENS);
        return warn_of_bucket(cf, &asked, &admission.place, FROM_HERE, warnings);
    };
    let add = |asked: &mut Asked, line: &Line| {
        asked.add(&admission.zones[line.zones.clone()], line.tokens.fixed().unwrap_or(0));
    };
    lines.iter().filter(|line| line.is_certain()).for_each(|line| add(&mut asked, line));
    warn_of_bucket(cf, &asked, &admission.place, FROM_HERE, warnings);
    if asked.too_much().is_some() {
        return;
    }
    for line in lines.iter().filter(|line| !line.is_certain()) {
        let mut asked = asked.clone();
        add(&mut asked, line);
        warn_of_bucket(cf, &asked, &line.place, WITH_THIS, warnings);
    }
}

/// Whom a warning of tokens is about: what asks, and which requests never pass.
const FROM_HERE: (&str, &str) = ("the rules from here on ask", "no request is ever allowed");
const WITH_THIS: (&str, &str) =
    ("this rule and those without \"if=\" ask", "no request that it applies to is ever allowed");

fn warn_of_bucket(cf: &Conf, asked: &Asked, place: &Place, words: (&str, &str), warnings: &mut Warnings) {
    let Some((zone, tokens, limit)) = asked.too_much() else { return };
    let (name, (asks, harm)) = (Excerpt::new(&zone.name), words);
    let message = format_args!(
        "{asks} zone \"{name}\" for {}, but its rate grants {limit}: {harm}; expected a higher rate, fewer tokens or the \
         zone fewer times",
        Count(tokens, "token"),
    );
    warnings.write(cf, About::Tokens, place, "ratelimitly", message);
}

/// The tokens that a question asks of each bucket, with the bucket's first zone, in the order of the zones.
#[derive(Clone, Default)]
struct Asked {
    buckets: Vec<(Rc<Zone>, usize)>,
    by_bucket: HashMap<Bucket, usize>,
}

impl Asked {
    fn add(&mut self, zones: &[Rc<Zone>], tokens: u16) {
        for zone in zones {
            let at = *self.by_bucket.entry(bucket_of(zone)).or_insert(self.buckets.len());
            if at == self.buckets.len() {
                self.buckets.push((Rc::clone(zone), 0));
            }
            self.buckets[at].1 += usize::from(tokens);
        }
    }

    /// The first bucket that never holds as many tokens: its zone, the tokens, and what its rate grants.
    fn too_much(&self) -> Option<(&Zone, usize, u32)> {
        self.buckets.iter().find_map(|(zone, tokens)| {
            let limit = zone.rate.fixed()?.limit;
            (*tokens > limit as usize).then_some((&**zone, *tokens, limit))
        })
    }
}

type Bucket = (Option<BucketId>, Option<*const Zone>);

/// What two zones of one bucket have in common: the bucket's id, or the zone itself where a request decides the bucket.
fn bucket_of(zone: &Rc<Zone>) -> Bucket {
    match &zone.fixed {
        Some(resource) => (Some(resource.bucket), None),
        None => (None, Some(Rc::as_ptr(zone))),
    }
}

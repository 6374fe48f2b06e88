//! What only the whole configuration shows: questions that cannot be allowed or sent, and which of the noted warnings hold.
//!
//! Called at the end of the http block. Nothing here refuses a configuration.

use std::collections::HashMap;
use std::rc::Rc;

use ratelimitly_config::text::{Count, Excerpt};
use ratelimitly_core::id::BucketId;
use ratelimitly_core::key::ApiKey;
use ratelimitly_core::wire::{MAX_DATAGRAM, rate_request_size};

use crate::conf::definitions::Zone;
use crate::conf::loading::Loading;
use crate::conf::rules::Admission;
use crate::conf::warnings::{About, Outcome, Warnings};
use crate::nginx::conf::Conf;

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

fn warn_of_size(cf: &Conf, key: &ApiKey, admission: &Admission, label_len: usize, warnings: &mut Warnings) {
    let (resources, guards) = (admission.zones.len(), admission.guards.len());
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

/// The servers grant all tokens of a question or none, so a bucket that never holds as many denies each.
fn warn_of_tokens(cf: &Conf, admission: &Admission, warnings: &mut Warnings) {
    let mut asked = HashMap::new();
    for zone in &admission.zones {
        *asked.entry(bucket_of(zone)).or_insert(0u32) += 1;
    }
    let over = admission.zones.iter().find_map(|zone| {
        let (tokens, rate) = (asked[&bucket_of(zone)], zone.rate.fixed()?);
        (tokens > rate.limit).then_some((zone, tokens, rate.limit))
    });
    let Some((zone, tokens, limit)) = over else { return };
    let name = Excerpt::new(&zone.name);
    let message = format_args!(
        "the rules from here on ask zone \"{name}\" for {}, but its rate grants {limit}: no request is ever allowed; \
         expected a higher rate or the zone fewer times",
        Count(tokens as usize, "token"),
    );
    warnings.write(cf, About::Tokens, &admission.place, "ratelimitly", message);
}

/// What two zones of one bucket have in common: the bucket's id, or the zone itself where a request decides the bucket.
fn bucket_of(zone: &Rc<Zone>) -> (Option<BucketId>, Option<*const Zone>) {
    match &zone.fixed {
        Some(resource) => (Some(resource.bucket), None),
        None => (None, Some(Rc::as_ptr(zone))),
    }
}

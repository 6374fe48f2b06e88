//! What was found for a request and the answer made of it, with whatever a fault overrides. Called by the limiter;
//! the overrides come from a server's faults.

use super::bucket;
use crate::event::Verdict;
use ratelimitly_core::wire::{GuardAnswer, Resource, ResourceAnswer};
use std::collections::BTreeMap;

/// What faults put in the place of the truth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Overrides {
    /// The verdict; it wins over the other two.
    pub verdict: Option<Verdict>,
    /// Current latency, milliseconds, by the guard's place.
    pub latencies: BTreeMap<usize, u32>,
    /// Deficit by the resource's place.
    pub deficits: BTreeMap<usize, u16>,
}

/// An answer's entries.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub guards: Vec<GuardAnswer>,
    pub resources: Vec<ResourceAnswer>,
}

impl Answer {
    pub fn is_allow(&self) -> bool {
        self.guards.iter().all(GuardAnswer::passes) && self.resources.iter().all(|answer| answer.deficit == 0)
    }

    pub fn verdict(&self) -> Verdict {
        if self.is_allow() { Verdict::Allow } else { Verdict::Deny }
    }

    fn force_allow(&mut self) {
        self.guards.iter_mut().for_each(|answer| answer.current_latency_ms = 0);
        self.resources.iter_mut().for_each(|answer| answer.deficit = 0);
    }

    /// Makes the first resource short of all its tokens, or the first guard as slow as its threshold.
    fn force_deny(&mut self, claims: &[Claim]) {
        if !self.is_allow() {
            return;
        }
        if let (Some(answer), Some(claim)) = (self.resources.first_mut(), claims.first()) {
            answer.deficit = claim.tokens.max(1);
        } else if let Some(answer) = self.guards.first_mut() {
            answer.current_latency_ms = answer.guard.threshold_ms;
        }
    }
}

/// What one resource of a request asks of its bucket, and what the bucket can give.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub bucket: bucket::Key,
    pub tokens: u16,
    /// Tokens consumed in the window before this request.
    before: u32,
    deficit: u16,
}

impl Claim {
    /// `earlier` are the same request's claims before this one: a bucket that is named twice must serve both.
    pub fn new(bucket: bucket::Key, resource: &Resource, consumed: u64, earlier: &[Claim]) -> Claim {
        let supplied = |claim: &Claim| u64::from(claim.tokens - claim.deficit);
        let taken: u64 = earlier.iter().filter(|claim| claim.bucket == bucket).map(supplied).sum();
        let available = u64::from(resource.rate_limit).saturating_sub(consumed + taken);
        let short = u64::from(resource.tokens).saturating_sub(available);
        Claim {
            bucket,
            tokens: resource.tokens,
            before: u32::try_from(consumed).unwrap_or(u32::MAX),
            deficit: u16::try_from(short).unwrap_or(u16::MAX),
        }
    }
}

/// What buckets and trackers said when a request was first decided.
#[derive(Debug, Default)]
pub(super) struct Assessment {
    guards: Vec<GuardAnswer>,
    claims: Vec<Claim>,
}

impl Assessment {
    pub fn new(guards: Vec<GuardAnswer>, claims: Vec<Claim>) -> Assessment {
        Assessment { guards, claims }
    }

    pub fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// Whether every bucket could supply every token.
    pub fn fits(&self) -> bool {
        self.claims.iter().all(|claim| claim.deficit == 0)
    }

    pub fn answer(&self, overrides: &Overrides) -> Answer {
        let resources = self.claims.iter().map(|claim| ResourceAnswer {
            bucket: claim.bucket.id,
            window_size_ms: claim.bucket.window_ms,
            actual_rate: claim.before,
            deficit: claim.deficit,
        });
        let mut answer = Answer { guards: self.guards.clone(), resources: resources.collect() };
        for (&place, &latency_ms) in &overrides.latencies {
            if let Some(guard) = answer.guards.get_mut(place) {
                guard.current_latency_ms = latency_ms;
            }
        }
        for (&place, &tokens) in &overrides.deficits {
            if let Some(resource) = answer.resources.get_mut(place) {
                resource.deficit = tokens;
            }
        }
        match overrides.verdict {
            Some(Verdict::Allow) => answer.force_allow(),
            Some(Verdict::Deny) => answer.force_deny(&self.claims),
            None => {}
        }
        if answer.is_allow() {
            self.count_own_tokens(&mut answer);
        }
        answer
    }

    /// An allow consumes, so the rates it tells include the request's own tokens.
    fn count_own_tokens(&self, answer: &mut Answer) {
        for (answer, claim) in answer.resources.iter_mut().zip(&self.claims) {
            let same = self.claims.iter().filter(|other| other.bucket == claim.bucket);
            let own: u32 = same.map(|claim| u32::from(claim.tokens)).sum();
            answer.actual_rate = answer.actual_rate.saturating_add(own);
        }
    }
}

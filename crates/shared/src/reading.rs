//! The sums of all slots, read once: everything on a page comes from one reading, so that its figures fit together.

use crate::counters::{BOUNDS, CAUSE, CAUSES, Counter, DURATION, DURATION_SUM, FIXED, OF_GUARD, OF_ZONE};
use crate::counters::{OUTCOME, OUTCOMES, PLAIN};
use crate::layout::Layout;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sums.
pub struct Reading {
    sums: Vec<u64>,
    zones: usize,
}

impl Reading {
    pub fn new(layout: &Layout, words: &[AtomicU64]) -> Reading {
        let mut sums = Vec::new();
        for slot in layout.slots(words) {
            sums.resize(slot.len(), 0u64);
            for (sum, word) in sums.iter_mut().zip(slot) {
                *sum = sum.wrapping_add(word.load(Ordering::Relaxed));
            }
        }
        Reading { sums, zones: layout.definitions().zones.len() }
    }

    pub fn outcomes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OUTCOMES.into_iter().zip(self.sums[OUTCOME..].iter().copied())
    }

    pub fn failures(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CAUSES.into_iter().zip(self.sums[CAUSE..].iter().copied())
    }

    pub fn get(&self, counter: Counter) -> u64 {
        self.sums[PLAIN + counter as usize]
    }

    pub fn zone(&self, zone: usize) -> &[u64] {
        &self.sums[FIXED + zone * OF_ZONE..][..OF_ZONE]
    }

    pub fn guard(&self, guard: usize) -> &[u64] {
        &self.sums[FIXED + self.zones * OF_ZONE + guard * OF_GUARD..][..OF_GUARD]
    }

    /// Bound and durations up to it; the last one's bound is infinite, and its count that of all.
    pub fn durations(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let bounds = BOUNDS.into_iter().map(|(_, bound)| bound).chain(["+Inf"]);
        bounds.zip(&self.sums[DURATION..]).scan(0, |so_far, (bound, count)| {
            *so_far += count;
            Some((bound, *so_far))
        })
    }

    /// Milliseconds of all durations.
    pub fn duration_sum(&self) -> u64 {
        self.sums[DURATION_SUM]
    }
}

//! Latency trackers: the newest samples of a service, each for its life time; the current latency is their minimum.
//! Called by the limiter only.

use ratelimitly_core::id::{TrackerId, TrackerSettings};
use ratelimitly_core::wire::{Guard, Observation};
use std::collections::{HashMap, VecDeque};

/// Settings are part of a tracker's id already; with them here no client can disagree with another about them.
type Key = (u64, TrackerId, TrackerSettings);

#[derive(Debug, Default)]
pub(super) struct Trackers(HashMap<Key, Samples>);

/// Arrival and latency of each sample, oldest first.
type Samples = VecDeque<(u64, u32)>;

impl Trackers {
    pub fn observe(&mut self, now_ms: u64, key_id: u64, buffer_max: u32, observation: &Observation) {
        let most = observation.settings.max_samples.min(buffer_max).max(1) as usize;
        let key = (key_id, observation.tracker, observation.settings);
        let samples = self.0.entry(key).or_default();
        expire(samples, now_ms, observation.settings.ttl_ms);
        while samples.len() >= most {
            samples.pop_front();
        }
        samples.push_back((now_ms, observation.latency_ms));
    }

    /// The guard's current latency: the smallest sample, or 0 while there are fewer than its minimum (1 at least).
    pub fn current(&mut self, now_ms: u64, key_id: u64, guard: &Guard) -> u32 {
        let Some(samples) = self.0.get_mut(&(key_id, guard.tracker, guard.settings)) else { return 0 };
        expire(samples, now_ms, guard.settings.ttl_ms);
        if samples.len() < guard.settings.min_sample_threshold.max(1) as usize {
            return 0;
        }
        samples.iter().map(|&(_, latency_ms)| latency_ms).min().unwrap_or(0)
    }

    pub fn sweep(&mut self, now_ms: u64) {
        self.0.retain(|(_, _, settings), samples| {
            expire(samples, now_ms, settings.ttl_ms);
            !samples.is_empty()
        });
    }
}

fn expire(samples: &mut Samples, now_ms: u64, ttl_ms: u32) {
    while samples.front().is_some_and(|&(at_ms, _)| now_ms >= at_ms + u64::from(ttl_ms)) {
        samples.pop_front();
    }
}

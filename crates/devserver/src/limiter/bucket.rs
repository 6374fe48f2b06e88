//! Token buckets with a sliding window: a token counts from the moment it is consumed until one window later. Called
//! by the limiter only.
//!
//! Consumption is kept per slot of 1/1024 of the window (1 ms at least) and leaves when the slot's last millisecond
//! is one window old, so a bucket holds at most about 1025 slots and never forgets a token too early.

use ratelimitly_core::id::BucketId;
use ratelimitly_core::wire::Resource;
use std::collections::{HashMap, VecDeque};

/// Slots of a window.
const SLOTS: u64 = 1024;

/// What a bucket is found by. Window and limit are part of a bucket's id already; with them here no client can
/// disagree with another about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    key_id: u64,
    pub id: BucketId,
    pub window_ms: u32,
    pub limit: u32,
}

impl Key {
    pub fn new(key_id: u64, resource: &Resource) -> Key {
        Key { key_id, id: resource.bucket, window_ms: resource.window_size_ms, limit: resource.rate_limit }
    }
}

#[derive(Debug, Default)]
pub(super) struct Buckets(HashMap<Key, Bucket>);

impl Buckets {
    /// Tokens consumed within the window that ends now.
    pub fn consumed(&mut self, now_ms: u64, key: Key) -> u64 {
        self.0.get_mut(&key).map_or(0, |bucket| bucket.consumed(now_ms, key.window_ms))
    }

    pub fn consume(&mut self, now_ms: u64, key: Key, tokens: u16) {
        self.0.entry(key).or_default().consume(now_ms, key.window_ms, tokens);
    }

    pub fn sweep(&mut self, now_ms: u64) {
        self.0.retain(|key, bucket| bucket.consumed(now_ms, key.window_ms) > 0);
    }
}

#[derive(Debug, Default)]
struct Bucket {
    /// Last millisecond of a slot and the tokens consumed in it, oldest first.
    slots: VecDeque<(u64, u64)>,
    total: u64,
}

impl Bucket {
    fn consumed(&mut self, now_ms: u64, window_ms: u32) -> u64 {
        while let Some(&(end_ms, tokens)) = self.slots.front() {
            if now_ms < end_ms + u64::from(window_ms) {
                break;
            }
            self.total -= tokens;
            self.slots.pop_front();
        }
        self.total
    }

    fn consume(&mut self, now_ms: u64, window_ms: u32, tokens: u16) {
        if tokens == 0 {
            return;
        }
        let slot_ms = (u64::from(window_ms) / SLOTS).max(1);
        let end_ms = now_ms - now_ms % slot_ms + slot_ms - 1;
        self.total += u64::from(tokens);
        match self.slots.back_mut() {
            Some((last_ms, in_slot)) if *last_ms >= end_ms => *in_slot += u64::from(tokens),
            _ => self.slots.push_back((end_ms, u64::from(tokens))),
        }
    }
}

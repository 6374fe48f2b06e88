//! What is remembered of request ids: how often each was seen, what was found for it, whether its tokens are consumed.
//! Called by the limiter only. Ids of different keys never meet.

use super::Arrival;
use super::answer::Assessment;
use ratelimitly_core::id::RequestId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestKey {
    pub key_id: u64,
    pub id: RequestId,
}

#[derive(Debug, Default)]
pub(super) struct Memory(HashMap<RequestKey, Remembered>);

#[derive(Debug)]
struct Remembered {
    expires_ms: u64,
    /// Datagrams seen, by server. A handful of servers: a list beats a map.
    copies: Vec<(u64, u32)>,
    assessment: Option<Assessment>,
    consumed: bool,
}

impl Remembered {
    fn until(expires_ms: u64) -> Remembered {
        Remembered { expires_ms, copies: Vec::new(), assessment: None, consumed: false }
    }

    fn count(&mut self, server: u64) -> u32 {
        match self.copies.iter_mut().find(|(id, _)| *id == server) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                self.copies.push((server, 1));
                1
            }
        }
    }
}

impl Memory {
    pub fn arrive(&mut self, now_ms: u64, server: u64, key: RequestKey, ttl_ms: u32) -> Arrival {
        let expires_ms = now_ms + u64::from(ttl_ms);
        let (remembered, repeat) = match self.0.entry(key) {
            Entry::Occupied(entry) if now_ms < entry.get().expires_ms => (entry.into_mut(), true),
            entry => (entry.insert_entry(Remembered::until(expires_ms)).into_mut(), false),
        };
        Arrival { copy: remembered.count(server), repeat }
    }

    /// Whether this request has been decided before and that is still remembered.
    pub fn is_decided(&self, now_ms: u64, key: RequestKey) -> bool {
        let fresh = |remembered: &&Remembered| now_ms < remembered.expires_ms;
        self.0.get(&key).filter(fresh).is_some_and(|remembered| remembered.assessment.is_some())
    }

    /// Keeps a fresh assessment, whose TTL starts now, and hands out the one that holds and whether its tokens are
    /// consumed. Without a fresh one there must be an earlier one.
    pub fn first(
        &mut self,
        now_ms: u64,
        key: RequestKey,
        ttl_ms: u32,
        fresh: Option<Assessment>,
    ) -> (&Assessment, &mut bool) {
        let expires_ms = now_ms + u64::from(ttl_ms);
        let remembered = self.0.entry(key).or_insert_with(|| Remembered::until(expires_ms));
        if let Some(assessment) = fresh {
            remembered.expires_ms = expires_ms;
            remembered.assessment = Some(assessment);
            remembered.consumed = false;
        }
        (remembered.assessment.get_or_insert_default(), &mut remembered.consumed)
    }

    pub fn sweep(&mut self, now_ms: u64) {
        self.0.retain(|_, remembered| now_ms < remembered.expires_ms);
    }
}

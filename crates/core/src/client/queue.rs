//! The queue that the client's other rooms use. It counts its own work, for tests alone: how many of its entries were
//! passed over.
//!
//! Without the feature `audit` nothing is counted, and the counter takes no room.

use std::collections::VecDeque;

/// First in, first out.
pub(super) struct Queue<T> {
    entries: VecDeque<T>,
    steps: Steps,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { entries: VecDeque::new(), steps: Steps::default() }
    }
}

impl<T> Queue<T> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn push_back(&mut self, entry: T) {
        self.steps.count(1);
        self.entries.push_back(entry);
    }

    pub(super) fn push_front(&mut self, entry: T) {
        self.steps.count(1);
        self.entries.push_front(entry);
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        self.steps.count(1);
        self.entries.pop_front()
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.entries.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().inspect(|_| self.steps.count(1))
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.steps.count(self.entries.len());
        self.entries.retain(keep);
    }

    /// Entries passed over so far.
    #[cfg(feature = "audit")]
    pub(super) fn steps(&self) -> u64 {
        self.steps.count.get()
    }
}

/// A count of steps.
#[derive(Default)]
struct Steps {
    #[cfg(feature = "audit")]
    count: std::cell::Cell<u64>,
}

impl Steps {
    #[inline(always)]
    fn count(&self, _steps: usize) {
        #[cfg(feature = "audit")]
        self.count.set(self.count.get() + _steps as u64);
    }
}

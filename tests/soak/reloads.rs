//! How many reloads there have been, by which a request that a reload cut short is told from one that was lost. Counted by
//! `main.rs`, read by the clients.

use std::sync::atomic::{AtomicU64, Ordering};

/// Odd while a reload is under way: each adds one when it begins and one when the old worker is gone.
#[derive(Debug, Default)]
pub(crate) struct Reloads(AtomicU64);

impl Reloads {
    /// A reload begins or ends.
    pub fn turn(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// The count of now, to be asked before a connection is opened.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether a reload may have ended a connection that was opened at this count: one has begun since, or was under way.
    pub fn since(&self, opened: u64) -> bool {
        self.count() != opened || opened % 2 == 1
    }
}

//! What tests ask of a client's inside: the work that it has done, and whether its books balance.
//!
//! Built with the feature `audit` alone, which the module never has.

use super::Client;
use std::collections::HashSet;

impl Client {
    /// Entries of its queues that the client has passed over since it was made. What an input may add to it follows from
    /// the number of endpoints.
    pub fn steps(&self) -> u64 {
        let keys = self.waiting.steps() + self.deadlines.steps();
        self.outbox.queue().1 + keys + self.completions.steps()
    }

    /// Entries that its queues hold now, those of cancelled admissions included.
    pub fn queued_entries(&self) -> usize {
        self.outbox.queue().0 + self.waiting.len() + self.deadlines.len() + self.completions.len()
    }

    /// Checks that each datagram buffer is either free, once, or in use by an admission in flight or by the send queue.
    ///
    /// # Panics
    /// It is not so.
    pub fn audit(&self) {
        let owners: HashSet<_> = self.outbox.audit().into_iter().collect();
        let in_flight: HashSet<_> = self.slots.audit().into_iter().collect();
        assert_eq!(
            owners, in_flight,
            "each admission in flight owns one buffer, and no other admission does"
        );
    }
}

//! How many reloads there have been, by which a request that a reload cut short is told from one that was lost. Counted by
//! `main.rs`, read by the clients.

use tokio::sync::watch;

/// Odd while a reload is under way: each adds one when it begins and one when the old worker is gone.
#[derive(Debug, Default)]
pub(crate) struct Reloads(watch::Sender<u64>);

impl Reloads {
    /// A reload begins or ends.
    pub fn turn(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    /// The count of now, to be asked before a connection is opened.
    pub fn count(&self) -> u64 {
        *self.0.borrow()
    }

    /// Whether a reload may have ended a connection that was opened at this count: one has begun since, or was under way.
    pub fn since(&self, opened: u64) -> bool {
        concern(opened, self.count())
    }

    /// Waits for such a reload.
    pub async fn next(&self, opened: u64) {
        // The sender is here: it cannot go while this waits.
        let _ = self.0.subscribe().wait_for(|count| concern(opened, *count)).await;
    }
}

fn concern(opened: u64, now: u64) -> bool {
    now != opened || opened % 2 == 1
}

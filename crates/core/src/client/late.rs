//! The ids of admissions that have ended, kept in full for answers that are still of interest (`watch`).
//!
//! A fixed table: each id has one place, which the next id that falls there takes over. Ids are this client's own random
//! bits, so no server and no attacker can choose ids that collide.

use crate::id::RequestId;
use crate::time::Millis;

/// Places. With 20,000 admissions per second and answers that are 20 ms late, one in ten is taken over before.
const PLACES: usize = 4096;

/// An ended admission.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    id: RequestId,
    /// When its round 0 began.
    pub(super) began: Millis,
    /// Past this time its answers are of no interest.
    pub(super) until: Millis,
    /// Members below 64 that have answered, by the position that they had.
    pub(super) answered: u64,
}

/// The table.
#[derive(Default)]
pub(super) struct Late(Vec<Option<Ended>>);

impl Late {
    /// Keeps an id.
    pub(super) fn keep(&mut self, id: RequestId, began: Millis, until: Millis, answered: u64) {
        if self.0.is_empty() {
            self.0.resize(PLACES, None);
        }
        self.0[place(&id)] = Some(Ended { id, began, until, answered });
    }

    /// What was kept of an id.
    pub(super) fn find(&mut self, id: &RequestId) -> Option<&mut Ended> {
        self.0.get_mut(place(id))?.as_mut().filter(|ended| ended.id == *id)
    }
}

fn place(id: &RequestId) -> usize {
    usize::from(u16::from_le_bytes([id.0[0], id.0[1]])) % PLACES
}

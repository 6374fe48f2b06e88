//! The core's only notion of time. Callers read a clock; this room never does.

use std::ops::Add;

/// A moment on the caller's monotonic clock, in milliseconds from an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// Milliseconds from `earlier` to `self`; 0 where `earlier` is the later one.
    pub fn since(self, earlier: Millis) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for Millis {
    type Output = Millis;

    /// The moment `ms` milliseconds later; saturates at the end of time.
    fn add(self, ms: u64) -> Millis {
        Millis(self.0.saturating_add(ms))
    }
}

/// A wall-clock time, in Unix milliseconds. It goes into the `time_stamp` field of a datagram and decides nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallMillis(pub u64);

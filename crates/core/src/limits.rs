//! What an answer means in tokens and seconds: how many are left, and how long to wait.
//!
//! Called where a variable is read, and to see how long a refusal is remembered. Pure arithmetic in 64 bits. It knows no
//! clock, so a step of one changes nothing; a wait in seconds is whole, at least 1, and at most the window rounded up.

/// A zone as it was asked and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneResult {
    /// Tokens that a window holds, 1..=4294967295.
    pub rate: u32,
    /// The window, milliseconds, 1..=4294967295.
    pub window_ms: u32,
    /// Tokens that the bucket has given within its window.
    pub count: u32,
    /// Tokens that it could not supply; above 0 the zone refused.
    pub deficit: u16,
}

impl ZoneResult {
    /// Whether the zone refused.
    pub fn refused(&self) -> bool {
        self.deficit > 0
    }

    /// Tokens left in the window. A server may have given more than the rate, so this stops at 0.
    pub fn remaining(&self) -> u32 {
        self.rate.saturating_sub(self.count)
    }

    /// How long the missing tokens take to come back, milliseconds, at most the window; 0 where none are missing. What
    /// is below a millisecond is cut off, so a refusal that is remembered for this time never outlives it.
    pub fn wait_ms(&self) -> u32 {
        self.wait(|missing, rate| missing / rate)
    }

    /// How long to wait after a refusal by this zone, seconds.
    pub fn retry_after_s(&self) -> u32 {
        seconds(self.wait(|missing, rate| missing.div_ceil(rate)))
    }

    /// When the picture changes, seconds: after a refusal its wait, else the window.
    pub fn reset_s(&self) -> u32 {
        if self.refused() { self.retry_after_s() } else { seconds(self.window_ms) }
    }

    /// Deficit x window / rate. 16 and 32 bits multiplied fit 48.
    fn wait(&self, divide: impl FnOnce(u64, u64) -> u64) -> u32 {
        let missing = u64::from(self.deficit) * u64::from(self.window_ms);
        let wait_ms = divide(missing, u64::from(self.rate).max(1));
        u32::try_from(wait_ms).unwrap_or(u32::MAX).min(self.window_ms)
    }

    /// Whether this zone says more about the limit than `other`: a refusal more than a pass, the longer wait more than
    /// the shorter, the smaller share of tokens left more than the larger.
    fn is_tighter_than(&self, other: &ZoneResult) -> bool {
        match (self.refused(), other.refused()) {
            (true, true) => {
                let wait = |zone: &ZoneResult| zone.wait(|missing, rate| missing.div_ceil(rate));
                wait(self) > wait(other)
            }
            (false, false) => {
                let share = |zone: &ZoneResult, rate: u32| u64::from(zone.remaining()) * u64::from(rate);
                share(self, other.rate) < share(other, self.rate)
            }
            (refused, _) => refused,
        }
    }
}

/// The tightest zone and its index: the refusing one with the longest wait, else the one with the smallest share of its
/// tokens left; the first of equals. `None`: there is no zone.
pub fn tightest(zones: impl IntoIterator<Item = ZoneResult>) -> Option<(usize, ZoneResult)> {
    let tighter = |held: (usize, ZoneResult), next: (usize, ZoneResult)| {
        if next.1.is_tighter_than(&held.1) { next } else { held }
    };
    zones.into_iter().enumerate().reduce(tighter)
}

/// What stands for several occurrences of one zone: the one with the fewest tokens left; of equals one that refused, with
/// the longest wait, so that its reset is no later than the wait that the client is told; then the first. `None`: there
/// is no occurrence.
pub fn of_repeats(zones: impl IntoIterator<Item = ZoneResult>) -> Option<ZoneResult> {
    let rank = |zone: &ZoneResult| (zone.remaining(), u32::MAX - zone.wait_ms());
    zones.into_iter().reduce(|held, next| if rank(&next) < rank(&held) { next } else { held })
}

/// How long to wait after a refusal by a guard, seconds: until its tracker's samples have expired, which `ttl_ms` says.
pub fn guard_retry_after_s(ttl_ms: u32) -> u32 {
    seconds(ttl_ms)
}

/// How long to wait, milliseconds, in whole seconds: rounded up, at least 1.
pub fn seconds(wait_ms: u32) -> u32 {
    wait_ms.div_ceil(1_000).max(1)
}

//! The request policy: rounds, their lengths, the horizon (wire.md, "Request policy").

/// Gaps between rounds, in policy units. Every number is at least 1, a factor at least 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Every round lasts this many units.
    Fixed(u32),
    /// Starts at `initial`, grows by `step`, stops at `maximum`.
    Linear { initial: u32, step: u32, maximum: u32 },
    /// Starts at `initial`, is multiplied by `factor`, stops at `maximum`.
    Exponential { initial: u32, factor: u32, maximum: u32 },
}

/// Why a policy cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The horizon does not fit 32 bits of milliseconds.
    #[error("horizon does not fit 32 bits: {0} ms")]
    Horizon(u128),
    // + zero unit, zero gap, step, factor < 2, initial above maximum
}

/// A checked policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    _private: (),
}

impl Policy {
    /// `standard`: one replay, gaps 1 and 1, final receive 1, completion delivery on.
    ///
    /// # Errors
    /// Zero unit, or a horizon above 32 bits.
    pub fn standard(unit_ms: u32) -> Result<Policy, PolicyError> {
        let _ = unit_ms;
        todo!()
    }

    /// `single_round`: one send, one unit of waiting.
    ///
    /// # Errors
    /// Zero unit.
    pub fn single_round(unit_ms: u32) -> Result<Policy, PolicyError> {
        let _ = unit_ms;
        todo!()
    }

    /// `custom`: everything given. `replays` N, rounds 0..=N last B(k) units each, then `final_wait_units`.
    ///
    /// # Errors
    /// A zero where at least 1 is needed, a factor below 2, initial above maximum, or a horizon above 32 bits.
    pub fn custom(
        unit_ms: u32,
        replays: u16,
        schedule: Schedule,
        final_wait_units: u32,
        completion_delivery: bool,
    ) -> Result<Policy, PolicyError> {
        let _ = (unit_ms, replays, schedule, final_wait_units, completion_delivery);
        todo!()
    }

    /// H in milliseconds: the longest wait and the deduplication TTL on the wire.
    pub fn horizon_ms(&self) -> u32 {
        todo!()
    }

    /// N, the number of replays.
    pub fn replays(&self) -> u16 {
        todo!()
    }

    /// Length of round `k` (0..=N) in milliseconds.
    pub fn round_ms(&self, k: u32) -> u64 {
        let _ = k;
        todo!()
    }
}

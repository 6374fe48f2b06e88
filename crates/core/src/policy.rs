//! The request policy: rounds, their lengths, the horizon (docs/protocol.md, "Policy").
//!
//! Made once by the configuration, read by the client for each admission. A policy that exists is sound: every
//! number is in range and its horizon fits the 32 bits that the wire gives it. It knows neither keys (their
//! deduplication limit is the configuration's to check) nor clocks.

#[cfg(test)]
mod tests;

/// Gaps between rounds, in policy units. Every number is at least 1, a factor at least 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Every round lasts this many units.
    Fixed(u32),
    /// Starts at `initial`, grows by `step`, stops at `maximum`.
    Linear {
        /// Units of round 0.
        initial: u32,
        /// Units that each next round lasts longer.
        step: u32,
        /// Most units a round lasts.
        maximum: u32,
    },
    /// Starts at `initial`, is multiplied by `factor`, stops at `maximum`.
    Exponential {
        /// Units of round 0.
        initial: u32,
        /// How many times longer each next round lasts.
        factor: u32,
        /// Most units a round lasts.
        maximum: u32,
    },
}

impl Schedule {
    /// B(k): units that round `k` lasts.
    fn units(self, k: u32) -> u32 {
        match self {
            Schedule::Fixed(gap) => gap,
            Schedule::Linear { initial, step, maximum } => {
                initial.saturating_add(step.saturating_mul(k)).min(maximum)
            }
            Schedule::Exponential { initial, factor, maximum } => {
                initial.saturating_mul(factor.saturating_pow(k)).min(maximum)
            }
        }
    }

    fn check(self) -> Result<(), PolicyError> {
        let (initial, maximum) = match self {
            Schedule::Fixed(gap) => (gap, gap),
            Schedule::Linear { step: 0, .. } => return Err(PolicyError::Zero("step of the replay gap")),
            Schedule::Exponential { factor: factor @ (0 | 1), .. } => {
                return Err(PolicyError::Factor(factor));
            }
            Schedule::Linear { initial, maximum, .. } => (initial, maximum),
            Schedule::Exponential { initial, maximum, .. } => (initial, maximum),
        };
        if initial == 0 {
            return Err(PolicyError::Zero("replay gap"));
        }
        if initial > maximum {
            return Err(PolicyError::InitialAboveMaximum { initial, maximum });
        }
        Ok(())
    }
}

/// Why a policy cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The horizon does not fit 32 bits of milliseconds.
    #[error("horizon does not fit 32 bits: {0} ms")]
    Horizon(u128),
    /// The named number is 0.
    #[error("{0} is 0, must be at least 1")]
    Zero(&'static str),
    /// An exponential schedule that would not grow.
    #[error("factor of the replay gap is {0}, must be at least 2")]
    Factor(u32),
    /// Bounds of the unit in the wrong order.
    #[error("shortest unit of {min_ms} ms is above the longest one of {max_ms} ms")]
    MinAboveMax {
        /// The lower bound.
        min_ms: u32,
        /// The upper bound.
        max_ms: u32,
    },
    /// A schedule that would have to shrink.
    #[error("replay gap starts at {initial}, above its maximum {maximum}")]
    InitialAboveMaximum {
        /// Units of round 0.
        initial: u32,
        /// Most units a round may last.
        maximum: u32,
    },
}

/// Between which bounds the unit follows the measured round trip. Both are at least 1 ms, `min_ms` at most `max_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoUnit {
    /// The shortest unit, milliseconds.
    pub min_ms: u32,
    /// The longest unit, milliseconds. A request id is remembered for as long after the verdict.
    pub max_ms: u32,
}

/// Units that an admission lasts at least where the unit follows the round trip.
const LEAST_AUTO_UNITS: u32 = 3;

/// A checked policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    unit_ms: u32,
    replays: u16,
    schedule: Schedule,
    final_wait_units: u32,
    completion_delivery: bool,
    horizon_ms: u32,
    auto: Option<AutoUnit>,
    silent_after: u32,
}

impl Policy {
    /// `standard`: one replay, gaps 1 and 1, final receive 1, completion delivery on.
    ///
    /// # Errors
    /// Zero unit, or a horizon above 32 bits.
    pub fn standard(unit_ms: u32) -> Result<Policy, PolicyError> {
        Policy::custom(unit_ms, 1, Schedule::Fixed(1), 1, true)
    }

    /// `single_round`: one send, one unit of waiting.
    ///
    /// # Errors
    /// Zero unit.
    pub fn single_round(unit_ms: u32) -> Result<Policy, PolicyError> {
        Policy::custom(unit_ms, 0, Schedule::Fixed(1), 0, false)
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
        if unit_ms == 0 {
            return Err(PolicyError::Zero("policy unit"));
        }
        schedule.check()?;
        // At most 65536 rounds of 32-bit lengths: the sum fits 64 bits, the product 96.
        let rounds: u64 = (0..=u32::from(replays)).map(|k| u64::from(schedule.units(k))).sum();
        let horizon = u128::from(unit_ms) * (u128::from(rounds) + u128::from(final_wait_units));
        let horizon_ms = u32::try_from(horizon).map_err(|_| PolicyError::Horizon(horizon))?;
        Ok(Policy {
            unit_ms,
            replays,
            schedule,
            final_wait_units,
            completion_delivery,
            horizon_ms,
            auto: None,
            silent_after: 0,
        })
    }

    /// The same policy with a unit that follows the measured round trip. It begins with this policy's own unit, or the
    /// nearest one within the bounds. A policy that would listen for one unit only, as `single_round` does, listens for two
    /// more: a unit that is measured leaves little room for a slow answer.
    ///
    /// # Errors
    /// A bound of zero, a lower bound above the upper one, or a horizon above 32 bits at the upper one.
    pub fn with_auto_unit(self, bounds: AutoUnit) -> Result<Policy, PolicyError> {
        let AutoUnit { min_ms, max_ms } = bounds;
        if min_ms == 0 || max_ms == 0 {
            return Err(PolicyError::Zero("bound of the policy unit"));
        }
        if min_ms > max_ms {
            return Err(PolicyError::MinAboveMax { min_ms, max_ms });
        }
        let units = match self.units() {
            1 => LEAST_AUTO_UNITS,
            units => units,
        };
        let longest = u128::from(max_ms) * u128::from(units);
        u32::try_from(longest).map_err(|_| PolicyError::Horizon(longest))?;
        let unit_ms = self.unit_ms.clamp(min_ms, max_ms);
        let final_wait_units = self.final_wait_units + (units - self.units());
        Ok(Policy { unit_ms, final_wait_units, horizon_ms: units * unit_ms, auto: Some(bounds), ..self })
    }

    /// The same policy, which no longer waits for a server that has left so many consecutive admissions unanswered; 0: waits
    /// for it always.
    #[must_use]
    pub fn with_silent_after(self, admissions: u32) -> Policy {
        Policy { silent_after: admissions, ..self }
    }

    /// The bounds of a unit that follows the round trip; `None`: the unit is fixed.
    pub fn auto_unit(&self) -> Option<AutoUnit> {
        self.auto
    }

    /// After how many consecutive unanswered admissions a server is no longer waited for; 0: never.
    pub fn silent_after(&self) -> u32 {
        self.silent_after
    }

    /// Units that an admission may last.
    pub fn units(&self) -> u32 {
        self.horizon_ms / self.unit_ms
    }

    /// H with another unit, milliseconds. The unit is at most the upper bound.
    pub fn horizon_of(&self, unit_ms: u32) -> u32 {
        unit_ms.saturating_mul(self.units())
    }

    /// H of an admission that starts before any round trip was measured: each question may be answered as late as the upper
    /// bound. At most [`Policy::longest_horizon_ms`].
    pub fn first_horizon_ms(&self) -> u32 {
        let Some(bounds) = self.auto else { return self.horizon_ms };
        let last_units = self.schedule.units(u32::from(self.replays)).saturating_add(self.final_wait_units);
        let after_last = self.unit_ms.saturating_mul(last_units);
        self.horizon_ms.saturating_add(bounds.max_ms.saturating_sub(after_last))
    }

    /// H with the longest unit, milliseconds: the longest wait, and the greatest deduplication TTL on the wire.
    pub fn longest_horizon_ms(&self) -> u32 {
        self.auto.map_or(self.horizon_ms, |bounds| self.horizon_of(bounds.max_ms))
    }

    /// H in milliseconds: the longest wait and the deduplication TTL on the wire. Where the unit follows the round trip, H of
    /// the unit that it begins with.
    pub fn horizon_ms(&self) -> u32 {
        self.horizon_ms
    }

    /// U in milliseconds, at least 1; the one to begin with where it follows the round trip.
    pub fn unit_ms(&self) -> u32 {
        self.unit_ms
    }

    /// N, the number of replays.
    pub fn replays(&self) -> u16 {
        self.replays
    }

    /// Length of round `k` (0..=N) in milliseconds.
    pub fn round_ms(&self, k: u32) -> u64 {
        self.round_of(self.unit_ms, k)
    }

    /// The same with another unit.
    pub fn round_of(&self, unit_ms: u32, k: u32) -> u64 {
        u64::from(unit_ms) * u64::from(self.schedule.units(k))
    }

    /// Length of the final receive-only interval in milliseconds; 0 without one.
    pub fn final_ms(&self) -> u64 {
        u64::from(self.unit_ms) * u64::from(self.final_wait_units)
    }

    /// Whether the datagram goes once more to silent members just before an allow or a deny is returned.
    pub fn completion_delivery(&self) -> bool {
        self.completion_delivery
    }
}

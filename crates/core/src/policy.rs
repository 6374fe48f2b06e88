//! The request policy: rounds, their lengths, the horizon (docs/protocol.md, "Policy").
//!
//! Made once by the configuration, read by the client for each admission. A policy that exists is sound: every
//! number is in range and its horizon fits the 32 bits that the wire gives it. It knows neither keys (their
//! deduplication limit is the configuration's to check) nor clocks.

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

    /// Length of the final receive-only interval in milliseconds; 0 where there is none.
    pub fn final_ms(&self) -> u64 {
        u64::from(self.unit_ms) * u64::from(self.final_wait_units)
    }

    /// Whether the datagram goes once more to silent members just before an allow or a deny is returned.
    pub fn completion_delivery(&self) -> bool {
        self.completion_delivery
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schedule() -> impl Strategy<Value = Schedule> {
        let number = || prop_oneof![1..40u32, any::<u32>().prop_map(|n| n.max(1))];
        let ordered = (number(), number()).prop_map(|(a, b)| (a.min(b), a.max(b)));
        prop_oneof![
            number().prop_map(Schedule::Fixed),
            (ordered.clone(), number()).prop_map(|((initial, maximum), step)| Schedule::Linear {
                initial,
                step,
                maximum
            }),
            (ordered, number()).prop_map(|((initial, maximum), factor)| {
                Schedule::Exponential { initial, factor: factor.max(2), maximum }
            }),
        ]
    }

    /// B(0), B(1), … as docs/protocol.md defines them: start, grow, stop at the maximum.
    fn gaps(schedule: Schedule) -> impl Iterator<Item = u128> {
        let (initial, maximum) = match schedule {
            Schedule::Fixed(gap) => (gap, gap),
            Schedule::Linear { initial, maximum, .. } => (initial, maximum),
            Schedule::Exponential { initial, maximum, .. } => (initial, maximum),
        };
        let grow = move |gap: &u128| match schedule {
            Schedule::Fixed(_) => *gap,
            Schedule::Linear { step, .. } => gap + u128::from(step),
            Schedule::Exponential { factor, .. } => gap * u128::from(factor),
        };
        let stop = move |gap: u128| gap.min(u128::from(maximum));
        std::iter::successors(Some(u128::from(initial)), move |gap| Some(stop(grow(gap))))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn horizon_is_the_sum_of_its_rounds(
            unit_ms in prop_oneof![1..300u32, 1..=u32::MAX],
            replays in prop_oneof![0..9u16, any::<u16>()],
            schedule in schedule(),
            final_units in prop_oneof![0..5u32, any::<u32>()],
        ) {
            let rounds: u128 = gaps(schedule).take(usize::from(replays) + 1).sum();
            let horizon = u128::from(unit_ms) * (rounds + u128::from(final_units));
            match Policy::custom(unit_ms, replays, schedule, final_units, true) {
                Ok(policy) => {
                    prop_assert_eq!(u128::from(policy.horizon_ms()), horizon);
                    let lengths = (0..=u32::from(replays)).map(|k| policy.round_ms(k));
                    prop_assert_eq!(u128::from(lengths.sum::<u64>() + policy.final_ms()), horizon);
                }
                Err(error) => {
                    prop_assert!(horizon > u128::from(u32::MAX));
                    prop_assert_eq!(error, PolicyError::Horizon(horizon));
                }
            }
        }
    }

    #[test]
    fn named_policies_are_those_of_the_table() {
        let standard = Policy::standard(20).unwrap();
        assert_eq!((standard.replays(), standard.round_ms(0), standard.round_ms(1)), (1, 20, 20));
        assert_eq!(
            (standard.final_ms(), standard.horizon_ms(), standard.completion_delivery()),
            (20, 60, true)
        );

        let single = Policy::single_round(20).unwrap();
        assert_eq!((single.replays(), single.round_ms(0), single.final_ms()), (0, 20, 0));
        assert_eq!((single.horizon_ms(), single.completion_delivery()), (20, false));
    }

    #[test]
    fn a_horizon_may_fill_32_bits_and_no_more() {
        assert_eq!(Policy::single_round(u32::MAX).unwrap().horizon_ms(), u32::MAX);
        assert_eq!(Policy::standard(1_431_655_765).unwrap().horizon_ms(), u32::MAX);
        let error = Policy::standard(1_431_655_766).unwrap_err();
        assert_eq!(error.to_string(), "horizon does not fit 32 bits: 4294967298 ms");
    }

    #[test]
    fn a_unit_that_follows_the_round_trip_has_bounds_and_a_longer_first_horizon() {
        let bounds = |min_ms, max_ms| AutoUnit { min_ms, max_ms };
        let auto = |policy: Policy, bounds| policy.with_auto_unit(bounds);
        let standard = || Policy::standard(20).unwrap();

        let usual = auto(standard(), bounds(5, 100)).unwrap();
        assert_eq!((usual.unit_ms(), usual.horizon_ms(), usual.units()), (20, 60, 3));
        // The replay goes out after 20 ms and may be answered within 100.
        assert_eq!((usual.first_horizon_ms(), usual.longest_horizon_ms()), (120, 300));
        assert_eq!((usual.horizon_of(7), usual.round_of(7, 1)), (21, 7));

        let single = auto(Policy::single_round(20).unwrap(), bounds(5, 100)).unwrap();
        assert_eq!(
            (single.horizon_ms(), single.first_horizon_ms(), single.longest_horizon_ms()),
            (60, 100, 300)
        );
        assert_eq!((single.replays(), single.round_ms(0), single.final_ms()), (0, 20, 40));

        let short = auto(standard(), bounds(1, 6)).unwrap();
        assert_eq!((short.unit_ms(), short.horizon_ms(), short.first_horizon_ms()), (6, 18, 18));
        assert_eq!(auto(standard(), bounds(30, 40)).unwrap().unit_ms(), 30);

        assert_eq!((standard().first_horizon_ms(), standard().longest_horizon_ms()), (60, 60));
        assert_eq!(auto(standard(), bounds(0, 9)), Err(PolicyError::Zero("bound of the policy unit")));
        assert_eq!(auto(standard(), bounds(9, 8)), Err(PolicyError::MinAboveMax { min_ms: 9, max_ms: 8 }));
        let above = auto(standard(), bounds(5, 1_431_655_766));
        assert_eq!(above, Err(PolicyError::Horizon(4_294_967_298)));
    }

    #[test]
    fn growth_stops_at_the_maximum() {
        let linear = Schedule::Linear { initial: 2, step: 3, maximum: 9 };
        let policy = Policy::custom(10, 4, linear, 0, false).unwrap();
        assert_eq!([0, 1, 2, 3, u32::MAX].map(|k| policy.round_ms(k)), [20, 50, 80, 90, 90]);

        let exponential = Schedule::Exponential { initial: 2, factor: 3, maximum: 50 };
        let policy = Policy::custom(10, 4, exponential, 0, false).unwrap();
        assert_eq!([0, 1, 2, 3, u32::MAX].map(|k| policy.round_ms(k)), [20, 60, 180, 500, 500]);
    }

    #[test]
    fn numbers_below_their_least_are_refused_by_name() {
        let error = |unit, schedule| Policy::custom(unit, 1, schedule, 0, true).unwrap_err().to_string();
        assert_eq!(error(0, Schedule::Fixed(1)), "policy unit is 0, must be at least 1");
        assert_eq!(error(1, Schedule::Fixed(0)), "replay gap is 0, must be at least 1");
        let linear = |initial, step, maximum| Schedule::Linear { initial, step, maximum };
        assert_eq!(error(1, linear(0, 1, 1)), "replay gap is 0, must be at least 1");
        assert_eq!(error(1, linear(1, 0, 1)), "step of the replay gap is 0, must be at least 1");
        assert_eq!(error(1, linear(3, 1, 2)), "replay gap starts at 3, above its maximum 2");
        let exponential = |initial, factor, maximum| Schedule::Exponential { initial, factor, maximum };
        assert_eq!(error(1, exponential(0, 2, 1)), "replay gap is 0, must be at least 1");
        assert_eq!(error(1, exponential(1, 1, 1)), "factor of the replay gap is 1, must be at least 2");
        assert_eq!(error(1, exponential(3, 2, 2)), "replay gap starts at 3, above its maximum 2");
    }
}

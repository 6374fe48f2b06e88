//! Rounds, horizons and bounds of policies.

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
    assert_eq!((standard.final_ms(), standard.horizon_ms(), standard.completion_delivery()), (20, 60, true));

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
    assert_eq!((single.horizon_ms(), single.first_horizon_ms(), single.longest_horizon_ms()), (60, 100, 300));
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

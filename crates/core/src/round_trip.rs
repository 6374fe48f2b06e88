//! How far away a server is, and the policy's unit that fits it (`ratelimitly_policy ... unit=auto`).
//!
//! RFC 6298's smoothing of round trips, in whole numbers. There is no doubling after a silence, so that an outage does not
//! cost more the longer it lasts. Fed by `client/watch.rs`; it knows neither servers nor time.

use crate::policy::AutoUnit;

/// Fractions of a millisecond that are kept: 1/256.
const SHIFT: u32 = 8;
/// Longest sample, milliseconds: a quarter of an hour. Four deviations and one time fit 32 bits then.
const LONGEST_MS: u64 = 1 << 20;
/// The least room above the smoothed round trip, milliseconds.
const LEAST_ROOM_MS: u32 = 2;

/// A smoothed round trip and its mean deviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// 1/256 milliseconds.
    smoothed: u32,
    /// 1/256 milliseconds.
    variation: u32,
}

impl Estimate {
    /// What one sample tells.
    pub fn first(sample_ms: u64) -> Estimate {
        let sample = fixed(sample_ms);
        Estimate { smoothed: sample, variation: sample / 2 }
    }

    /// Takes a further sample.
    pub fn note(&mut self, sample_ms: u64) {
        let sample = fixed(sample_ms);
        let off = self.smoothed.abs_diff(sample);
        // 3/4 and 1/4, then 7/8 and 1/8. What is rounded is below 1/256 ms.
        self.variation = self.variation - self.variation / 4 + off / 4;
        self.smoothed = self.smoothed - self.smoothed / 8 + sample / 8;
    }

    /// The unit that fits: the smoothed round trip and four times its deviation, at least 2 ms, rounded up and within the
    /// bounds.
    pub fn unit_ms(&self, bounds: AutoUnit) -> u32 {
        let room = (4 * self.variation).max(LEAST_ROOM_MS << SHIFT);
        (self.smoothed + room).div_ceil(1 << SHIFT).clamp(bounds.min_ms, bounds.max_ms)
    }

    /// The estimate as a number, for keeping it where another worker finds it.
    pub fn to_bits(self) -> u64 {
        u64::from(self.smoothed) << 32 | u64::from(self.variation)
    }

    /// The estimate of [`Estimate::to_bits`]. Any other number makes an estimate too.
    pub fn from_bits(bits: u64) -> Estimate {
        let longest = (LONGEST_MS << SHIFT) as u32;
        Estimate { smoothed: ((bits >> 32) as u32).min(longest), variation: (bits as u32).min(longest) }
    }

    /// The smoothed round trip, seconds.
    pub fn smoothed_s(&self) -> f64 {
        seconds(self.smoothed)
    }

    /// The mean deviation, seconds.
    pub fn variation_s(&self) -> f64 {
        seconds(self.variation)
    }
}

fn fixed(ms: u64) -> u32 {
    (ms.min(LONGEST_MS) as u32) << SHIFT
}

fn seconds(fixed: u32) -> f64 {
    f64::from(fixed) / f64::from(1_000 << SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: AutoUnit = AutoUnit { min_ms: 5, max_ms: 100 };

    fn after(samples: &[u64]) -> Estimate {
        let (first, rest) = samples.split_first().expect("a sample");
        let mut estimate = Estimate::first(*first);
        rest.iter().for_each(|sample| estimate.note(*sample));
        estimate
    }

    #[test]
    fn the_first_sample_leaves_room_for_twice_as_much_again() {
        assert_eq!(Estimate::first(10).unit_ms(BOUNDS), 30);
        assert_eq!(Estimate::first(80).unit_ms(BOUNDS), 100);
        assert_eq!(Estimate::first(0).unit_ms(BOUNDS), 5);
    }

    #[test]
    fn a_steady_round_trip_ends_2_ms_below_its_unit() {
        for round_trip in [0, 1, 5, 21, 35, 59, 80, 98] {
            let unit = after(&[round_trip; 60]).unit_ms(BOUNDS);
            assert!((round_trip + 2..=round_trip + 3).contains(&u64::from(unit)) || unit == 5, "{unit}");
        }
    }

    #[test]
    fn one_sample_of_a_longer_way_is_enough() {
        let mut estimate = after(&[5; 100]);
        assert_eq!(estimate.unit_ms(BOUNDS), 7);
        estimate.note(50);
        assert!(estimate.unit_ms(BOUNDS) >= 52, "{}", estimate.unit_ms(BOUNDS));
    }

    #[test]
    fn a_spread_gets_room() {
        let samples: Vec<u64> = (0..200).map(|n| if n % 2 == 0 { 20 } else { 30 }).collect();
        let unit = after(&samples).unit_ms(BOUNDS);
        assert!((40..=48).contains(&unit), "{unit}");
    }

    #[test]
    fn it_tells_seconds() {
        let estimate = after(&[50; 200]);
        assert!((estimate.smoothed_s() - 0.05).abs() < 0.001 && estimate.variation_s() < 0.001);
    }

    proptest! {
        #[test]
        fn any_number_is_an_estimate(bits in any::<u64>(), sample in any::<u64>()) {
            let mut estimate = Estimate::from_bits(bits);
            prop_assert_eq!(Estimate::from_bits(estimate.to_bits()), estimate);
            estimate.note(sample);
            prop_assert!((5..=100).contains(&estimate.unit_ms(BOUNDS)));
            prop_assert_eq!(Estimate::from_bits(estimate.to_bits()), estimate);
        }

        #[test]
        fn any_samples_give_a_unit_within_the_bounds(samples in proptest::collection::vec(any::<u64>(), 1..50)) {
            let unit = after(&samples).unit_ms(BOUNDS);
            prop_assert!((5..=100).contains(&unit));
        }
    }
}

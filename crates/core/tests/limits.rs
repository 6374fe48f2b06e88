//! The arithmetic of limits: what is left, how long to wait, which zone is the tightest.

use proptest::prelude::*;
use ratelimitly_core::limits::{ZoneResult, guard_retry_after_s, of_repeats, seconds, tightest};

/// 100 tokens a minute.
const ZONE: ZoneResult = ZoneResult { rate: 100, window_ms: 60_000, count: 43, deficit: 0 };

fn refused(deficit: u16) -> ZoneResult {
    ZoneResult { count: 100, deficit, ..ZONE }
}

#[test]
fn a_zone_that_passed_has_the_rest_of_its_rate_and_resets_with_its_window() {
    assert_eq!((ZONE.remaining(), ZONE.reset_s(), ZONE.wait_ms()), (57, 60, 0));
}

#[test]
fn a_bucket_that_gave_more_than_its_rate_has_nothing_left() {
    assert_eq!(ZoneResult { count: u32::MAX, ..ZONE }.remaining(), 0);
}

#[test]
fn n08_a_refusal_waits_for_its_missing_tokens() {
    assert_eq!((refused(1).retry_after_s(), refused(1).wait_ms()), (1, 600));
    assert_eq!((refused(2).retry_after_s(), refused(2).wait_ms()), (2, 1_200));
    assert_eq!((refused(50).retry_after_s(), refused(50).reset_s()), (30, 30));
}

#[test]
fn n08_a_wait_is_at_most_the_window() {
    assert_eq!((refused(101).retry_after_s(), refused(u16::MAX).wait_ms()), (60, 60_000));
    let short = ZoneResult { window_ms: 1_500, ..refused(u16::MAX) };
    assert_eq!((short.retry_after_s(), short.wait_ms()), (2, 1_500));
}

#[test]
fn n08_a_wait_is_never_below_a_second() {
    let fast = ZoneResult { rate: u32::MAX, window_ms: 1, count: 0, deficit: 1 };
    assert_eq!((fast.retry_after_s(), fast.wait_ms()), (1, 0));
    assert_eq!(ZoneResult { deficit: 0, ..fast }.reset_s(), 1);
}

#[test]
fn n08_a_fraction_of_a_second_is_rounded_up_exactly() {
    // 1 x 3000 / 3 = 1000 ms, and one token of seven in 7001 ms is a little more than a second.
    assert_eq!(ZoneResult { rate: 3, window_ms: 3_000, count: 3, deficit: 1 }.retry_after_s(), 1);
    assert_eq!(ZoneResult { rate: 7, window_ms: 7_001, count: 7, deficit: 1 }.retry_after_s(), 2);
}

#[test]
fn n09_the_largest_numbers_do_not_overflow() {
    let largest = ZoneResult { rate: 1, window_ms: u32::MAX, count: u32::MAX, deficit: u16::MAX };
    assert_eq!((largest.retry_after_s(), largest.wait_ms()), (4_294_968, u32::MAX));
    assert_eq!(ZoneResult { rate: u32::MAX, count: 0, ..largest }.remaining(), u32::MAX);
    assert_eq!(ZoneResult { rate: 0, ..largest }.retry_after_s(), 4_294_968, "no division by zero");
}

#[test]
fn a_guard_waits_for_its_tracker() {
    assert_eq!((guard_retry_after_s(30_000), guard_retry_after_s(1_001), guard_retry_after_s(0)), (30, 2, 1));
}

#[test]
fn n10_the_tightest_of_those_that_passed_has_the_smallest_share_left() {
    let half = ZoneResult { count: 50, ..ZONE };
    let tenth = ZoneResult { rate: 10, count: 9, ..ZONE };
    assert_eq!(tightest([half, tenth, ZONE]), Some((1, tenth)));
    assert_eq!(tightest([]), None);
}

#[test]
fn n10_the_tightest_of_those_that_refused_waits_longest() {
    let empty = ZoneResult { count: 100, ..ZONE };
    assert_eq!(tightest([empty, refused(1), refused(5), ZONE]), Some((2, refused(5))));
}

#[test]
fn n10_the_first_of_equals_is_the_tightest() {
    let same_share = ZoneResult { rate: 200, count: 86, ..ZONE };
    assert_eq!(tightest([ZONE, same_share]).unwrap().0, 0);
    assert_eq!(tightest([refused(3), refused(3)]).unwrap().0, 0);
}

#[test]
fn of_repeats_the_one_with_the_fewest_tokens_left_stands() {
    let later = ZoneResult { count: 44, ..ZONE };
    assert_eq!(of_repeats([ZONE, later]), Some(later));
    let passed = ZoneResult { count: 100, ..ZONE };
    assert_eq!(of_repeats([passed, refused(50), refused(60)]), Some(refused(60)));
    assert_eq!(of_repeats([]), None);
}

fn any_zone() -> impl Strategy<Value = ZoneResult> {
    (1u32.., 1u32.., any::<u32>(), any::<u16>()).prop_map(|(rate, window_ms, count, deficit)| ZoneResult {
        rate,
        window_ms,
        count,
        deficit,
    })
}

proptest! {
    #[test]
    fn a_wait_is_at_least_a_second_and_at_most_the_window(zone in any_zone()) {
        let window_s = zone.window_ms.div_ceil(1_000);
        for wait in [zone.retry_after_s(), zone.reset_s()] {
            prop_assert!((1..=window_s.max(1)).contains(&wait));
        }
        prop_assert!(zone.wait_ms() <= zone.window_ms && seconds(zone.wait_ms()) <= zone.retry_after_s());
        prop_assert!(zone.remaining() <= zone.rate);
    }

    #[test]
    fn a_wait_in_seconds_covers_the_exact_one(zone in any_zone()) {
        let (missing, rate) = (u128::from(zone.deficit) * u128::from(zone.window_ms), u128::from(zone.rate));
        let covered_ms = u128::from(zone.retry_after_s()) * 1_000;
        prop_assert!(covered_ms * rate >= missing.min(u128::from(zone.window_ms) * rate));
    }

    #[test]
    fn no_other_zone_is_tighter_than_the_tightest(zones in proptest::collection::vec(any_zone(), 1..8)) {
        let (index, chosen) = tightest(zones.iter().copied()).unwrap();
        prop_assert_eq!(zones[index], chosen);
        for (other, zone) in zones.iter().enumerate() {
            let pair = if other < index { [*zone, chosen] } else { [chosen, *zone] };
            prop_assert_eq!(tightest(pair).unwrap().1, chosen, "against zone {}", other);
        }
        let refused = zones.iter().any(ZoneResult::refused);
        prop_assert_eq!(chosen.refused(), refused);
    }
}

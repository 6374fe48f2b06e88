//! The table of remembered denials.

use proptest::prelude::*;
use ratelimitly_core::id::BucketId;
use ratelimitly_core::limits::ZoneResult;
use ratelimitly_core::remembered::{LONGEST_MS, MOST, Remembered, asked, life_ms};
use ratelimitly_core::time::Millis;
use ratelimitly_core::wire::Resource;
use std::collections::HashMap;

const NOW: Millis = Millis(1_000);

fn bucket(n: u64) -> BucketId {
    // Spread as hashes are.
    let mixed = u128::from(n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    BucketId(mixed.to_le_bytes())
}

fn table() -> Remembered {
    Remembered::new([7; 16])
}

#[test]
fn a_refusal_is_remembered_until_its_time_is_over() {
    let mut table = table();
    table.remember(NOW, bucket(1), 1, 100);
    assert_eq!(table.left_ms(NOW, bucket(1), 1), Some(100));
    assert_eq!(table.left_ms(NOW + 99, bucket(1), 1), Some(1));
    assert_eq!(table.left_ms(NOW + 100, bucket(1), 1), None);
    assert_eq!(table.left_ms(NOW, bucket(2), 1), None);
}

#[test]
fn only_questions_of_at_least_as_many_tokens_are_refused() {
    let mut table = table();
    table.remember(NOW, bucket(1), 5, 100);
    assert_eq!(table.left_ms(NOW, bucket(1), 4), None);
    assert!(table.left_ms(NOW, bucket(1), 5).is_some() && table.left_ms(NOW, bucket(1), 6).is_some());
}

#[test]
fn what_says_more_stays() {
    let mut table = table();
    table.remember(NOW, bucket(1), 2, 100);
    table.remember(NOW, bucket(1), 5, 50);
    assert_eq!(table.left_ms(NOW, bucket(1), 2), Some(100));
    table.remember(NOW, bucket(1), 1, 50);
    assert_eq!(table.left_ms(NOW, bucket(1), 1), Some(50));
}

#[test]
fn a_time_of_zero_is_not_remembered() {
    let mut table = table();
    table.remember(NOW, bucket(1), 0, 0);
    assert_eq!(table.left_ms(NOW, bucket(1), u32::MAX), None);
}

#[test]
fn the_id_of_an_empty_entry_is_an_id_like_any_other() {
    let mut table = table();
    let zero = BucketId([0; 16]);
    assert_eq!(table.left_ms(Millis(0), zero, 0), None);
    table.remember(NOW, zero, 1, 10);
    assert_eq!(table.left_ms(NOW, zero, 1), Some(10));
}

#[test]
fn the_oldest_gives_way_and_the_newest_stays() {
    let mut table = table();
    for n in 0..100 * MOST as u64 {
        table.remember(NOW + n, bucket(n), 1, LONGEST_MS);
        assert!(table.left_ms(NOW + n, bucket(n), 1).is_some());
    }
    // Each place keeps its eight newest, so what is a tenth of the table old is nearly always there.
    let last = 100 * MOST as u64 - 1;
    let kept = (0..400).filter(|back| table.left_ms(NOW + last, bucket(last - back), 1).is_some());
    assert!(kept.count() > 390);
}

#[test]
fn ids_spread_over_the_table_whatever_the_secret() {
    for secret in [[0; 16], [255; 16], [7; 16]] {
        let mut table = Remembered::new(secret);
        for n in 0..2_048 {
            table.remember(NOW, bucket(n), 1, 100);
        }
        let kept = (0..2_048).filter(|n| table.left_ms(NOW, bucket(*n), 1).is_some()).count();
        assert!(kept > 1_950, "{kept} of half a table's ids");
    }
}

#[test]
fn the_life_is_the_smallest_of_three() {
    let zone = ZoneResult { rate: 10, window_ms: 60_000, count: 10, deficit: 1 };
    assert_eq!(life_ms(500, &zone), 500);
    assert_eq!(life_ms(60_000, &zone), 6_000);
    assert_eq!(life_ms(60_000, &ZoneResult { deficit: 10, ..zone }), LONGEST_MS);
    assert_eq!(life_ms(500, &ZoneResult { rate: 100_000, ..zone }), 0, "less than a millisecond");
    assert_eq!(life_ms(500, &ZoneResult { deficit: 0, ..zone }), 0, "nothing was refused");
}

#[test]
fn all_occurrences_of_a_bucket_are_asked_together() {
    let of = |n, tokens| Resource { bucket: bucket(n), window_size_ms: 1, rate_limit: 1, tokens };
    let question = [of(1, u16::MAX), of(2, 3), of(1, u16::MAX)];
    assert_eq!((asked(&question, bucket(1)), asked(&question, bucket(2))), (131_070, 3));
    assert_eq!(asked(&question, bucket(3)), 0);
}

proptest! {
    /// Whatever was remembered, a question is refused only within the time of a refusal of no more tokens.
    #[test]
    fn nothing_is_refused_that_was_not(
        steps in proptest::collection::vec((0..6u64, 0..4u32, 0..50u32, 0..30u64), 1..200),
    ) {
        let mut table = table();
        let mut noted: HashMap<u64, Vec<(u32, Millis)>> = HashMap::new();
        let mut now = NOW;
        for (id, tokens, life, pause) in steps {
            now = now + pause;
            if let Some(left) = table.left_ms(now, bucket(id), tokens) {
                let by = noted[&id].iter().any(|(least, until)| tokens >= *least && until.since(now) == left);
                prop_assert!(left > 0 && by);
            }
            table.remember(now, bucket(id), tokens, life);
            noted.entry(id).or_default().push((tokens, now + u64::from(life)));
            if life > 0 {
                prop_assert!(table.left_ms(now, bucket(id), tokens).is_some());
            }
        }
    }
}

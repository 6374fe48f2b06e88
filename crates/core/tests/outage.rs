//! Outages on a virtual clock: which lines the error log gets, and what they say.

use ratelimitly_core::outage::{End, Ending, Grouped, Length, Outage, Words};
use ratelimitly_core::time::Millis;

const WORDS: Words =
    Words { again: "answers again", one: "request without an answer", many: "requests without an answer" };

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;

/// A worker that has just had its first answer, at this many milliseconds.
fn answered_at(now: u64) -> Outage {
    let mut outage = Outage::default();
    assert_eq!(outage.succeeded(Millis(now)), None);
    outage
}

#[test]
fn an_outage_begins_with_its_first_failure_and_ends_with_the_first_answer_after_ten_seconds() {
    let mut outage = answered_at(100 * SECOND);
    assert_eq!(
        outage.failed(Millis(100_500)).map(|due| due.unlogged),
        Some(0),
        "the first line comes at once"
    );
    for failure in 1..1_520 {
        assert_eq!(outage.failed(Millis(100_500 + failure * 7)), None, "the minute is not over");
    }

    let end = outage.succeeded(Millis(112_500)).expect("the outage is over");

    assert_eq!(
        end,
        End { ending: Ending::Success, lasted_ms: 12_000, failures: 1_520, last_failure_ms: 1_367 }
    );
    assert_eq!(
        end.in_words(&WORDS).to_string(),
        "answers again after 12 s, 1,520 requests without an answer, the last one 1 s ago"
    );
    assert!(!outage.is_under_way());
    assert_eq!(outage.succeeded(Millis(130_000)), None, "an end is told once");
}

#[test]
fn an_answer_within_ten_seconds_of_the_one_before_does_not_end_an_outage() {
    let mut outage = answered_at(0);
    outage.failed(Millis(1)).expect("a line");

    assert_eq!(outage.succeeded(Millis(9_999)), None);
    assert_eq!(outage.succeeded(Millis(19_998)), None);
    assert!(outage.is_under_way());
    assert!(outage.succeeded(Millis(29_998)).is_some(), "ten seconds without an answer");
}

#[test]
fn an_outage_ends_with_the_first_admission_after_a_minute_without_a_failure() {
    let mut outage = answered_at(0);
    outage.failed(Millis(1_000)).expect("a line");
    outage.failed(Millis(4_000));
    for answer in (5_000..64_000).step_by(1_000) {
        assert_eq!(outage.succeeded(Millis(answer)), None);
        assert_eq!(outage.look(Millis(answer)), None);
    }

    let end = outage.look(Millis(64_000)).expect("the failures have stopped");

    assert_eq!(end, End { ending: Ending::Quiet, lasted_ms: 3_000, failures: 2, last_failure_ms: MINUTE });
    assert_eq!(
        end.in_words(&WORDS).to_string(),
        "no further failure for 60 s: 2 requests without an answer within 3 s"
    );
    assert_eq!(outage.look(Millis(64_000)), None, "an end is told once");
}

#[test]
fn a_lasting_outage_writes_a_line_each_minute_with_the_failures_in_between() {
    let mut outage = answered_at(0);
    let lines: Vec<(u64, u64)> = (0..5 * 60 * 10)
        .filter_map(|tenth| Some((tenth, outage.failed(Millis(tenth * 100))?.unlogged)))
        .collect();

    assert_eq!(lines, [(0, 0), (600, 599), (1_200, 599), (1_800, 599), (2_400, 599)]);
}

#[test]
fn one_failure_in_a_hundred_at_1000_requests_a_second_writes_a_line_a_minute() {
    let mut outage = answered_at(0);
    let mut lines = 0;
    for now in 1..5 * MINUTE {
        lines += u32::from(outage.look(Millis(now)).is_some());
        lines += match now % 100 {
            0 => u32::from(outage.failed(Millis(now)).is_some()),
            _ => u32::from(outage.succeeded(Millis(now)).is_some()),
        };
    }
    assert_eq!(lines, 5);
}

#[test]
fn outages_that_follow_each_other_write_at_most_one_pair_of_lines_a_minute() {
    let mut outage = answered_at(0);
    let (mut begins, mut ends, mut unlogged) = (0, 0, 0);
    // One request every 11 s, and every second one fails: each answer ends an outage.
    for request in 0..110 {
        let now = Millis(request * 11 * SECOND);
        ends += u64::from(outage.look(now).is_some());
        if request % 2 == 0 {
            if let Some(due) = outage.failed(now) {
                begins += 1;
                unlogged += due.unlogged;
            }
        } else {
            ends += u64::from(outage.succeeded(now).is_some());
        }
    }
    assert_eq!(begins, ends, "each begin that was written has its end, and no other outage has");
    assert!((15..=20).contains(&begins), "{begins} pairs in 20 minutes");
    assert!(begins + unlogged >= 50, "the others are counted: {begins} + {unlogged}");
}

#[test]
fn an_outage_that_begins_within_the_minute_and_lasts_is_told_when_the_minute_is_over() {
    let mut outage = answered_at(0);
    outage.failed(Millis(0)).expect("the first outage");
    outage.succeeded(Millis(11 * SECOND)).expect("its end");
    let mut lines = Vec::new();
    for second in 12..100 {
        if let Some(due) = outage.failed(Millis(second * SECOND)) {
            lines.push((second, due.unlogged));
        }
    }

    assert_eq!(lines, [(60, 48)]);
    let end = outage.succeeded(Millis(100 * SECOND)).expect("the log knows of it");
    assert_eq!((end.lasted_ms, end.failures), (88 * SECOND, 88));
}

#[test]
fn a_worker_that_exits_during_an_outage_tells_its_total() {
    let mut outage = answered_at(0);
    assert_eq!(outage.leave(Millis(1)), None, "nothing has failed");
    outage.failed(Millis(1_000)).expect("a line");
    outage.failed(Millis(1_400));

    let end = outage.leave(Millis(2_000)).expect("an end");

    assert_eq!(
        end.in_words(&WORDS).to_string(),
        "this worker exits during an outage: 2 requests without an answer within 400 ms, the last one 600 ms ago"
    );
    assert_eq!(outage.leave(Millis(2_001)), None);
}

#[test]
fn a_worker_that_exits_tells_an_outage_that_no_line_has_told_yet() {
    let mut outage = answered_at(0);
    outage.failed(Millis(0)).expect("the first outage");
    outage.succeeded(Millis(11 * SECOND)).expect("its end");
    assert_eq!(outage.failed(Millis(12 * SECOND)), None);

    assert_eq!(outage.leave(Millis(13 * SECOND)).map(|end| end.failures), Some(1));
}

#[test]
fn the_first_answer_of_a_worker_ends_its_outage() {
    let mut outage = Outage::default();
    outage.failed(Millis(60)).expect("a line");

    let end = outage.succeeded(Millis(500)).expect("the outage is over");

    assert_eq!(
        end.in_words(&WORDS).to_string(),
        "answers again after 440 ms, 1 request without an answer, the last one 440 ms ago"
    );
}

#[test]
fn numbers_and_lengths_are_written_for_people() {
    let grouped = [0, 999, 1_000, 12_034, 1_234_567].map(|n| Grouped(n).to_string());
    assert_eq!(grouped, ["0", "999", "1,000", "12,034", "1,234,567"]);
    let lengths = [0, 999, 1_000, 61_999, 4_000_000].map(|ms| Length(ms).to_string());
    assert_eq!(lengths, ["0 ms", "999 ms", "1 s", "61 s", "4,000 s"]);
}

//! Durations in nginx's time syntax, milliseconds mode: `1h30m`, `20ms`, `5` (seconds).
//!
//! Accepts what nginx's own parser accepts, its lenient corners included (a bare number after a unit is seconds,
//! spaces after a unit are skipped), so that a value means here what it means in any other directive.

const FORM: &str = "expected a duration such as 20ms, 5s or 1m30s (units w d h m s ms from large to small, a bare \
                    number is seconds)";

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Not of the form: no digit, a foreign unit, or units out of order.
    #[error("is not a duration, {FORM}")]
    Form,
    /// Zero milliseconds.
    #[error("is zero, {FORM} of at least 1ms")]
    Zero,
    /// Above 32 bits of milliseconds.
    #[error("is above 4294967295 ms, {FORM} of at most 4294967295ms")]
    Range,
}

/// Units in the order in which they may follow each other; each at most once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Start,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Last,
}

/// Reads a duration of 1..=4294967295 milliseconds.
///
/// # Errors
/// [`DurationError`] for a foreign form, zero, and above 32 bits.
pub fn parse_ms(text: &[u8]) -> Result<u32, DurationError> {
    let mut rest = text;
    let mut step = Step::Start;
    let mut total = 0u64;
    let mut any_digit = false;
    while !rest.is_empty() {
        let (value, digits) = leading_number(rest);
        any_digit |= digits > 0;
        rest = &rest[digits..];
        let (unit, scale, used) = next_unit(rest, step)?;
        total = total.saturating_add(value.saturating_mul(scale));
        step = unit;
        rest = without_leading_spaces(&rest[used..]);
    }
    match total {
        _ if !any_digit => Err(DurationError::Form),
        0 => Err(DurationError::Zero),
        ms => u32::try_from(ms).map_err(|_| DurationError::Range),
    }
}

/// Whether a duration is a number without any unit, so that it is seconds.
pub fn has_no_unit(text: &[u8]) -> bool {
    text.trim_ascii_end().iter().all(u8::is_ascii_digit)
}

/// The number at the start of `text` (saturating: too many digits are above every range) and its digits' count.
fn leading_number(text: &[u8]) -> (u64, usize) {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let append = |n: u64, b: &u8| n.saturating_mul(10).saturating_add(u64::from(b - b'0'));
    (text[..digits].iter().fold(0, append), digits)
}

/// The unit at the start of `text`, its milliseconds and its length; it must be smaller than the unit before.
fn next_unit(text: &[u8], before: Step) -> Result<(Step, u64, usize), DurationError> {
    let (unit, scale, used) = match text {
        // A bare number at the end is seconds, whatever stood before it.
        [] => return Ok((Step::Last, 1_000, 0)),
        [b'w', ..] => (Step::Week, 604_800_000, 1),
        [b'd', ..] => (Step::Day, 86_400_000, 1),
        [b'h', ..] => (Step::Hour, 3_600_000, 1),
        [b'm', b's', ..] => (Step::Millisecond, 1, 2),
        [b'm', ..] => (Step::Minute, 60_000, 1),
        [b's', ..] => (Step::Second, 1_000, 1),
        [b' ', ..] => (Step::Last, 1_000, 1),
        _ => return Err(DurationError::Form),
    };
    // nginx takes a number before a space for seconds too, hence the same limit.
    let limit = if unit == Step::Last { Step::Second } else { unit };
    if before >= limit { Err(DurationError::Form) } else { Ok((unit, scale, used)) }
}

/// Only spaces: nginx's parser refuses tabs and line ends.
fn without_leading_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&b| b == b' ').count()..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_alone_has_no_unit() {
        assert!(has_no_unit(b"250") && has_no_unit(b"250 "));
        assert!(!has_no_unit(b"250ms") && !has_no_unit(b"4m10"));
    }

    #[test]
    fn units_and_compounds() {
        assert_eq!(parse_ms(b"20ms"), Ok(20));
        assert_eq!(parse_ms(b"5s"), Ok(5_000));
        assert_eq!(parse_ms(b"1m30s"), Ok(90_000));
        assert_eq!(parse_ms(b"1w2d3h4m5s6ms"), Ok(788_645_006));
        assert_eq!(parse_ms(b"1h 30m"), Ok(5_400_000));
    }

    #[test]
    fn a_bare_number_is_seconds() {
        assert_eq!(parse_ms(b"1"), Ok(1_000));
        assert_eq!(parse_ms(b"1m5"), Ok(65_000));
    }

    #[test]
    fn limits_are_accepted_and_their_neighbours_refused() {
        assert_eq!(parse_ms(b"1ms"), Ok(1));
        assert_eq!(parse_ms(b"4294967295ms"), Ok(u32::MAX));
        assert_eq!(parse_ms(b"4294967296ms"), Err(DurationError::Range));
        assert_eq!(parse_ms(b"4294968s"), Err(DurationError::Range));
        assert_eq!(parse_ms(b"99999999999999999999999w"), Err(DurationError::Range));
        assert_eq!(parse_ms(b"0"), Err(DurationError::Zero));
        assert_eq!(parse_ms(b"0s0ms"), Err(DurationError::Zero));
    }

    #[test]
    fn foreign_forms_are_refused() {
        for text in
            ["", "x", "ms", "s", "1y", "1M", "5ms3s", "1s1m", "1s1s", "-1s", "1.5s", "1s\t", "1ss", "abc"]
        {
            assert_eq!(parse_ms(text.as_bytes()), Err(DurationError::Form), "{text:?}");
        }
    }

    #[test]
    fn every_error_names_the_accepted_form() {
        for error in [DurationError::Form, DurationError::Zero, DurationError::Range] {
            assert!(error.to_string().contains("expected a duration such as 20ms"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn composed_durations_come_back(h in 0..1000u32, m in 0..60u32, s in 0..60u32, ms in 1..1000u32) {
            let text = format!("{h}h{m}m{s}s{ms}ms");
            prop_assert_eq!(parse_ms(text.as_bytes()), Ok(h * 3_600_000 + m * 60_000 + s * 1_000 + ms));
        }

        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = parse_ms(&text);
        }

        #[test]
        fn near_durations_never_panic(text in "([0-9]{0,21}[wdhms ]{0,3}){0,6}") {
            if let Ok(ms) = parse_ms(text.as_bytes()) {
                prop_assert!(ms >= 1);
            }
        }
    }
}

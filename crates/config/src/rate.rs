//! Rates: `<n>r/<period><unit>`, as in `100r/s`, `5r/10m`.

use crate::number::{NumberError, parse_u32};

/// A token limit and the window that it holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens a window holds, 1..=4294967295.
    pub limit: u32,
    /// The window, milliseconds, 1..=4294967295.
    pub window_ms: u32,
}

const FORM: &str =
    "expected <n>r/<period><unit> with n of 1..4294967295, an optional period and the unit s, m or h";

/// Why a text is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not of the form at all.
    #[error("is not a rate, {FORM}")]
    Form,
    /// Zero tokens.
    #[error("allows nothing, {FORM}")]
    Zero,
    /// More tokens than 32 bits hold.
    #[error("has more than 4294967295 tokens, {FORM}")]
    Limit,
    /// The unit is missing or unknown.
    #[error("has an unknown unit, {FORM}")]
    Unit,
    /// The period is longer than 32 bits of milliseconds.
    #[error("has a period above 4294967295 ms, at most 4294967s, 71582m or 1193h are possible")]
    Period,
}

impl Rate {
    /// Reads a rate. An omitted or zero period is one unit.
    ///
    /// # Errors
    /// [`RateError`] for a foreign form, zero or too many tokens, an unknown unit and a period above 32 bits.
    pub fn parse(text: &[u8]) -> Result<Rate, RateError> {
        let at = text.windows(2).position(|pair| pair == b"r/").ok_or(RateError::Form)?;
        let limit = parse_u32(&text[..at]).map_err(|error| match error {
            NumberError::Range => RateError::Limit,
            NumberError::Empty | NumberError::Digit => RateError::Form,
        })?;
        if limit == 0 {
            return Err(RateError::Zero);
        }
        Ok(Rate { limit, window_ms: window_ms(&text[at + 2..])? })
    }
}

fn window_ms(text: &[u8]) -> Result<u32, RateError> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (period, unit) = text.split_at(digits);
    let unit_ms = match unit {
        b"s" => 1_000,
        b"m" => 60_000,
        b"h" => 3_600_000,
        _ => return Err(RateError::Unit),
    };
    let period = if period.is_empty() { 1 } else { parse_u32(period).map_err(|_| RateError::Period)?.max(1) };
    period.checked_mul(unit_ms).ok_or(RateError::Period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(limit: u32, window_ms: u32) -> Result<Rate, RateError> {
        Ok(Rate { limit, window_ms })
    }

    #[test]
    fn n04_plain_rates_and_the_largest_limit() {
        assert_eq!(Rate::parse(b"1r/s"), rate(1, 1_000));
        assert_eq!(Rate::parse(b"100r/m"), rate(100, 60_000));
        assert_eq!(Rate::parse(b"4294967295r/s"), rate(u32::MAX, 1_000));
        assert_eq!(Rate::parse(b"5r/10m"), rate(5, 600_000));
    }

    #[test]
    fn n04_zero_period_is_one_unit() {
        assert_eq!(Rate::parse(b"1r/0s"), rate(1, 1_000));
        assert_eq!(Rate::parse(b"1r/00h"), rate(1, 3_600_000));
    }

    #[test]
    fn n05_largest_periods_are_exact() {
        assert_eq!(Rate::parse(b"1r/4294967s"), rate(1, 4_294_967_000));
        assert_eq!(Rate::parse(b"1r/71582m"), rate(1, 4_294_920_000));
        assert_eq!(Rate::parse(b"1r/1193h"), rate(1, 4_294_800_000));
    }

    #[test]
    fn n06_longer_periods_are_refused() {
        for text in ["1r/4294968s", "1r/71583m", "1r/1194h", "1r/4294967296s", "1r/99999999999999999999s"] {
            assert_eq!(Rate::parse(text.as_bytes()), Err(RateError::Period), "{text}");
        }
    }

    #[test]
    fn n07_foreign_forms_are_refused() {
        assert_eq!(Rate::parse(b"0r/s"), Err(RateError::Zero));
        assert_eq!(Rate::parse(b"4294967296r/s"), Err(RateError::Limit));
        for text in ["1r/d", "1r/suffix", "1r/", "1r/5", "1r/1.5s", "1r/-1s", "1r/ s", "1r/ms", "1r/s "] {
            assert_eq!(Rate::parse(text.as_bytes()), Err(RateError::Unit), "{text}");
        }
        for text in ["not-a-rate", "", "r/s", "-1r/s", "1.5r/s", " 1r/s", "1 r/s", "1/s", "1R/s", "10"] {
            assert_eq!(Rate::parse(text.as_bytes()), Err(RateError::Form), "{text}");
        }
    }

    #[test]
    fn every_error_names_the_accepted_form() {
        for error in [RateError::Form, RateError::Zero, RateError::Limit, RateError::Unit] {
            assert!(error.to_string().contains("<n>r/<period><unit>"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn composed_rates_come_back(limit in 1..=u32::MAX, period in 1..=1193u32, unit in 0..3usize) {
            let (name, ms) = [("s", 1_000), ("m", 60_000), ("h", 3_600_000)][unit];
            let text = format!("{limit}r/{period}{name}");
            prop_assert_eq!(Rate::parse(text.as_bytes()), rate(limit, period * ms));
        }

        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = Rate::parse(&text);
        }

        #[test]
        fn near_rates_never_panic(text in "[0-9]{0,22}r?/?[0-9]{0,22}[smhd]?") {
            if let Ok(rate) = Rate::parse(text.as_bytes()) {
                prop_assert!(rate.limit >= 1 && rate.window_ms >= 1_000);
            }
        }
    }
}

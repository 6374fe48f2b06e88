//! Times as nginx writes them into variables: seconds with milliseconds, `0.123`, and lists of them for the upstreams
//! that a request went through, `0.001, 0.123 : 0.050`.
//!
//! Called in the log phase for `ratelimitly_report ... time=`. It allocates nothing.

/// Why a text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not a time, expected seconds as nginx writes them, such as 0.123, or a list of them such as \"0.001, 0.123 : 0.050\", \
     whose last one counts; \"-\" or nothing: no time"
)]
pub struct SecondsError;

/// The last time of a list, milliseconds; what is finer is cut off, and what 64 bits do not hold is their maximum.
/// `None`: the list ends in `-` or in nothing. nginx writes `-` for an upstream that gave no answer, and lets a list end
/// in ` : ` when no upstream could be chosen after an internal redirect.
///
/// # Errors
/// [`SecondsError`] where any element is neither a time nor `-` nor empty.
pub fn last_ms(text: &[u8]) -> Result<Option<u64>, SecondsError> {
    text.split(|byte| matches!(byte, b',' | b':')).try_fold(None, |_, element| element_ms(element))
}

fn element_ms(element: &[u8]) -> Result<Option<u64>, SecondsError> {
    let element = element.trim_ascii();
    if matches!(element, b"" | b"-") {
        return Ok(None);
    }
    let (whole, fraction) = match element.iter().position(|byte| *byte == b'.') {
        Some(point) => (&element[..point], Some(&element[point + 1..])),
        None => (element, None),
    };
    if !are_digits(whole) || fraction.is_some_and(|fraction| !are_digits(fraction)) {
        return Err(SecondsError);
    }
    let thousandths = fraction.unwrap_or_default().iter().chain(b"000").take(3);
    Ok(Some(whole.iter().chain(thousandths).fold(0, append)))
}

fn are_digits(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn append(number: u64, digit: &u8) -> u64 {
    number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_time_is_itself() {
        for (text, ms) in [
            ("0.123", 123),
            ("12.000", 12_000),
            ("0.000", 0),
            ("3", 3_000),
            ("0.5", 500),
            ("1.2345", 1_234),
            (" 0.007 ", 7),
        ] {
            assert_eq!(last_ms(text.as_bytes()), Ok(Some(ms)), "{text}");
        }
        assert_eq!(last_ms(b"99999999999999999999999999.5"), Ok(Some(u64::MAX)));
    }

    #[test]
    fn the_last_time_of_a_list_counts() {
        assert_eq!(last_ms(b"0.001, 0.123 : 0.050"), Ok(Some(50)));
        assert_eq!(last_ms(b"-, 0.020"), Ok(Some(20)));
        assert_eq!(last_ms(b"0.001,0.002"), Ok(Some(2)));
    }

    #[test]
    fn a_dash_or_nothing_at_the_end_is_no_time() {
        for text in ["", "-", " - ", "0.100, -", "0.100 : ", "0.100 : -"] {
            assert_eq!(last_ms(text.as_bytes()), Ok(None), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_wherever_they_stand() {
        for text in [
            "abc", "-0.1", "+1", ".5", "1.", "1.2.3", "1e3", "0,5s", "20ms", "abc, 0.1", "0.1, abc", "--",
            "0 1",
        ] {
            assert_eq!(last_ms(text.as_bytes()), Err(SecondsError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_nginx_writes_comes_back(list in proptest::collection::vec(0..10_000_000u64, 1..6), colon: bool) {
            let texts: Vec<_> = list.iter().map(|ms| format!("{}.{:03}", ms / 1000, ms % 1000)).collect();
            let text = texts.join(if colon { " : " } else { ", " });
            prop_assert_eq!(last_ms(text.as_bytes()), Ok(list.last().copied()));
        }

        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = last_ms(&text);
        }

        #[test]
        fn near_times_never_panic(text in "([0-9]{0,25}[.]?[0-9]{0,25}[-,: ]{0,3}){0,5}") {
            let _ = last_ms(text.as_bytes());
        }
    }
}

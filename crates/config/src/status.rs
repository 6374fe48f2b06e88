//! The status with which nginx answers a refused request: `ratelimitly_fail_status` and `ratelimitly_deny_status`.
//!
//! Called while a configuration loads. The codes left out mean something else to nginx: it closes the connection after
//! a 408, and 494 to 497 and 499 are its own, for requests that are broken or that the client gave up.

use crate::number::parse_u32;

const FORM: &str = "expected a status from 400 to 599, but not 408, 494, 495, 496, 497 or 499";

/// Why a text is not such a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// No digit, or something other than the digits 0 to 9.
    #[error("is not a number, {FORM}")]
    Number,
    /// Below 400 or above 599.
    #[error("is not the status of an error, {FORM}")]
    Range,
    /// A code that nginx uses for something else.
    #[error("has a meaning of its own in nginx, {FORM}")]
    Reserved,
}

/// Reads a status that refuses a request: 400 to 599 without 408, 494 to 497 and 499.
///
/// # Errors
/// [`StatusError`] for every other text.
pub fn parse(text: &[u8]) -> Result<u16, StatusError> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(StatusError::Number);
    }
    match parse_u32(text) {
        Ok(408 | 494..=497 | 499) => Err(StatusError::Reserved),
        Ok(code @ 400..=599) => Ok(code as u16),
        _ => Err(StatusError::Range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statuses_of_refusals_are_accepted() {
        for (text, code) in
            [("400", 400), ("429", 429), ("444", 444), ("498", 498), ("503", 503), ("599", 599)]
        {
            assert_eq!(parse(text.as_bytes()), Ok(code));
        }
    }

    #[test]
    fn statuses_that_nginx_uses_itself_are_refused() {
        for text in ["408", "494", "495", "496", "497", "499"] {
            assert_eq!(parse(text.as_bytes()), Err(StatusError::Reserved), "{text}");
        }
    }

    #[test]
    fn statuses_that_refuse_nothing_are_refused() {
        for text in ["0", "200", "302", "399", "600", "4294967296", "66036"] {
            assert_eq!(parse(text.as_bytes()), Err(StatusError::Range), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "429x", "-429", "+429", " 429", "4.29", "too many"] {
            assert_eq!(parse(text.as_bytes()), Err(StatusError::Number), "{text}");
        }
    }

    #[test]
    fn every_error_names_what_is_allowed() {
        for error in [StatusError::Number, StatusError::Range, StatusError::Reserved] {
            assert!(error.to_string().ends_with(FORM), "{error}");
        }
    }

    proptest! {
        #[test]
        fn accepted_codes_are_in_their_range(code: u16) {
            let allowed = (400..600).contains(&code) && code != 408 && code != 499 && !(494..498).contains(&code);
            prop_assert_eq!(parse(code.to_string().as_bytes()).ok(), allowed.then_some(code));
        }

        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}

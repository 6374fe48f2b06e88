//! How many tokens a rule asks for: `tokens=<n or template>`.
//!
//! Called while a configuration loads, and for each request where the value holds variables. It allocates nothing.

use crate::number::{NumberError, parse_u32};

const FORM: &str = "expected a whole number from 0 to 65535, in digits alone";

/// Why a text is no number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokensError {
    /// No digit at all.
    #[error("is empty, {FORM}")]
    Empty,
    /// Something other than the digits 0 to 9.
    #[error("is not a number of tokens, {FORM}")]
    Digit,
    /// Above 65535.
    #[error("is above 65535 tokens, {FORM}")]
    Range,
}

/// Reads a number of tokens, 0 to 65535.
///
/// # Errors
/// [`TokensError`] for anything but digits, and above the range.
pub fn parse(text: &[u8]) -> Result<u16, TokensError> {
    match parse_u32(text).map(u16::try_from) {
        Ok(Ok(tokens)) => Ok(tokens),
        Ok(Err(_)) | Err(NumberError::Range) => Err(TokensError::Range),
        Err(NumberError::Empty) => Err(TokensError::Empty),
        Err(NumberError::Digit) => Err(TokensError::Digit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_are_accepted_and_their_neighbours_refused() {
        assert_eq!(parse(b"0"), Ok(0));
        assert_eq!(parse(b"1"), Ok(1));
        assert_eq!(parse(b"65535"), Ok(u16::MAX));
        assert_eq!(parse(b"65536"), Err(TokensError::Range));
        assert_eq!(parse(b"4294967297"), Err(TokensError::Range));
        assert_eq!(parse(b"99999999999999999999999"), Err(TokensError::Range));
    }

    #[test]
    fn anything_but_digits_is_refused() {
        assert_eq!(parse(b""), Err(TokensError::Empty));
        for text in ["-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "-", "one", "\u{0661}"] {
            assert_eq!(parse(text.as_bytes()), Err(TokensError::Digit), "{text}");
        }
    }

    #[test]
    fn every_error_names_what_is_allowed() {
        for error in [TokensError::Empty, TokensError::Digit, TokensError::Range] {
            assert!(error.to_string().ends_with(FORM), "{error}");
        }
    }

    proptest! {
        #[test]
        fn narrows_as_std_does(n: u64) {
            prop_assert_eq!(parse(n.to_string().as_bytes()).ok(), u16::try_from(n).ok());
        }

        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}

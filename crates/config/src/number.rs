//! Unsigned decimal numbers of 32 bits, as directives write them: digits only, no sign, no space, no fraction.

/// Why a text is no such number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NumberError {
    /// No digit at all.
    #[error("is empty, expected a whole number up to {max}", max = u32::MAX)]
    Empty,
    /// Something other than the digits 0 to 9.
    #[error("is not a number, expected a whole number up to {max}", max = u32::MAX)]
    Digit,
    /// Above 4294967295.
    #[error("is above {max}, expected a whole number up to that", max = u32::MAX)]
    Range,
}

/// Reads a whole number of 0..=4294967295.
///
/// # Errors
/// [`NumberError`] for anything but digits, and above the range.
pub fn parse_u32(text: &[u8]) -> Result<u32, NumberError> {
    if text.is_empty() {
        return Err(NumberError::Empty);
    }
    if !text.iter().all(u8::is_ascii_digit) {
        return Err(NumberError::Digit);
    }
    let digit = |n: u32, b: &u8| n.checked_mul(10)?.checked_add(u32::from(b - b'0'));
    text.iter().try_fold(0, digit).ok_or(NumberError::Range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn n01_limits_are_accepted() {
        assert_eq!(parse_u32(b"0"), Ok(0));
        assert_eq!(parse_u32(b"4294967295"), Ok(u32::MAX));
        assert_eq!(parse_u32(b"0000000000000000000007"), Ok(7));
    }

    #[test]
    fn n02_everything_else_is_refused() {
        assert_eq!(parse_u32(b"4294967296"), Err(NumberError::Range));
        assert_eq!(parse_u32(b"18446744073709551616"), Err(NumberError::Range));
        assert_eq!(parse_u32(b"12x"), Err(NumberError::Digit));
        assert_eq!(parse_u32(b"-1"), Err(NumberError::Digit));
        assert_eq!(parse_u32(b"+1"), Err(NumberError::Digit));
        assert_eq!(parse_u32(b" 1"), Err(NumberError::Digit));
        assert_eq!(parse_u32(b""), Err(NumberError::Empty));
    }

    #[test]
    fn n03_at_the_limit_and_just_above() {
        assert_eq!(parse_u32(u64::from(u32::MAX).to_string().as_bytes()), Ok(u32::MAX));
        assert_eq!(parse_u32((u64::from(u32::MAX) + 1).to_string().as_bytes()), Err(NumberError::Range));
        assert_eq!(parse_u32(u64::MAX.to_string().as_bytes()), Err(NumberError::Range));
    }

    proptest! {
        #[test]
        fn n03_narrows_64_bits_as_std_does(n: u64) {
            prop_assert_eq!(parse_u32(n.to_string().as_bytes()).ok(), u32::try_from(n).ok());
        }

        #[test]
        fn arbitrary_bytes_never_panic(text: Vec<u8>) {
            let _ = parse_u32(&text);
        }
    }
}

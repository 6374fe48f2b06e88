//! The contents of `ratelimitly_auth_key_file`: an API key alone, on one line.
//!
//! Called at every load with what the file held. Whether the line is a key is `core::key`'s to say. No message shows any
//! of the content, for even a wrong one may be a secret.

/// Most bytes of a key file.
pub const MAX_BYTES: usize = 4096;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why contents cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// Nothing but white space.
    #[error("is empty, expected the API key alone on one line")]
    Empty,
    /// Above [`MAX_BYTES`].
    #[error("has more than {MAX_BYTES} bytes, expected the API key alone on one line")]
    TooLong,
    /// Something follows the first line.
    #[error("has more than one line, expected the API key alone on one line")]
    Lines,
    /// The two-byte characters of some editors and shells.
    #[error("is UTF-16 text, save it as UTF-8 or ASCII; expected the API key alone on one line")]
    Utf16,
    /// A file made for `include`.
    #[error(
        "holds a directive, expected the API key alone on one line; a file with \"ratelimitly_auth_key rl-aes1...;\" is \
         for \"include\""
    )]
    Directive,
}

/// The line that a key file holds, without a byte-order mark and the white space around it.
///
/// # Errors
/// [`KeyFileError`] where there is no such line, or more than one.
pub fn line(contents: &[u8]) -> Result<&[u8], KeyFileError> {
    if contents.len() > MAX_BYTES {
        return Err(KeyFileError::TooLong);
    }
    if contents.starts_with(b"\xff\xfe") || contents.starts_with(b"\xfe\xff") {
        return Err(KeyFileError::Utf16);
    }
    let line = contents.strip_prefix(BYTE_ORDER_MARK).unwrap_or(contents).trim_ascii();
    if line.is_empty() {
        Err(KeyFileError::Empty)
    } else if line.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        Err(KeyFileError::Lines)
    } else if line.starts_with(b"ratelimitly_") {
        Err(KeyFileError::Directive)
    } else {
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &[u8] = b"rl-aes1qyqsqqq";

    #[test]
    fn what_editors_leave_around_a_key_is_ignored() {
        for contents in [
            "rl-aes1qyqsqqq",
            "rl-aes1qyqsqqq\n",
            "rl-aes1qyqsqqq\r\n",
            "\u{feff}rl-aes1qyqsqqq\r\n",
            "\u{feff} rl-aes1qyqsqqq",
            "\n\n \t rl-aes1qyqsqqq \t \r\n\r\n\n",
        ] {
            assert_eq!(line(contents.as_bytes()), Ok(KEY), "{contents:?}");
        }
    }

    #[test]
    fn anything_but_one_line_is_refused() {
        for (contents, error) in [
            (&b""[..], KeyFileError::Empty),
            (b" \r\n\t", KeyFileError::Empty),
            (b"\xef\xbb\xbf\n", KeyFileError::Empty),
            (b"rl-aes1a\nrl-aes1b\n", KeyFileError::Lines),
            (b"# key\r\nrl-aes1b", KeyFileError::Lines),
            (b"rl-aes1a\rrl-aes1b", KeyFileError::Lines),
            (b"\xff\xfer\0l\0", KeyFileError::Utf16),
            (b"\xfe\xff\0r\0l", KeyFileError::Utf16),
            (b"ratelimitly_auth_key rl-aes1a;", KeyFileError::Directive),
        ] {
            assert_eq!(line(contents), Err(error), "{contents:?}");
        }
    }

    #[test]
    fn a_file_of_4_kib_is_read_and_a_longer_one_is_not() {
        let mut contents = KEY.to_vec();
        contents.resize(MAX_BYTES, b' ');
        assert_eq!(line(&contents), Ok(KEY));
        contents.push(b' ');
        assert_eq!(line(&contents), Err(KeyFileError::TooLong));
    }

    #[test]
    fn no_message_shows_the_content() {
        for contents in [&b"s3cret\ns3cret"[..], b"ratelimitly_x s3cret", b"\xff\xfes3cret", &[b'3'; 5000]] {
            let error = line(contents).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"));
        }
    }

    proptest! {
        #[test]
        fn an_accepted_line_is_a_part_of_the_contents(contents: Vec<u8>) {
            if let Ok(line) = line(&contents) {
                prop_assert!(!line.is_empty() && line.trim_ascii() == line);
                prop_assert!(contents.windows(line.len()).any(|part| part == line));
                prop_assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
            }
        }
    }
}

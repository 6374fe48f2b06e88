//! Showing foreign bytes in messages, and telling the parts of an argument apart.
//!
//! Values may be long, binary or chosen by a client, so a message never holds more than an [`Excerpt`] of one.

use std::fmt;

/// Most bytes of a foreign value that a message repeats.
pub const EXCERPT_BYTES: usize = 64;

/// How an API key begins, also one of the kinds that the module does not use, in any case of its letters.
const KEY_MARKS: [&[u8]; 4] = [b"rl-aes1", b"rl-cookie1", b"rl-secret1", b"rl-none1"];

/// The first bytes of a value, printable: other bytes appear as escapes, and `...` says that the value goes on. Nothing
/// is shown beyond the beginning of an API key: one that was put in the wrong place is still a secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; EXCERPT_BYTES],
    len: u8,
    cut: bool,
}

impl Excerpt {
    /// Copies at most [`EXCERPT_BYTES`] bytes.
    pub fn new(value: &[u8]) -> Excerpt {
        let start = &value[..value.len().min(EXCERPT_BYTES)];
        let len = key_start(start).unwrap_or(start.len());
        let mut bytes = [0; EXCERPT_BYTES];
        bytes[..len].copy_from_slice(&value[..len]);
        Excerpt { bytes, len: len as u8, cut: len < value.len() }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.bytes[..usize::from(self.len)].escape_ascii();
        write!(f, "{shown}{}", if self.cut { "..." } else { "" })
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Where the secret part of an API key begins.
fn key_start(text: &[u8]) -> Option<usize> {
    let end_of = |mark: &&[u8]| {
        let at = text.windows(mark.len()).position(|part| part.eq_ignore_ascii_case(mark))?;
        Some(at + mark.len())
    };
    KEY_MARKS.iter().filter_map(end_of).min()
}

/// Whether a value begins as an API key does.
pub fn begins_with_key(value: &[u8]) -> bool {
    KEY_MARKS.iter().any(|mark| value.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark)))
}

/// Splits `name=value` at its first `=`; `None` where there is none.
pub fn split_argument(argument: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = argument.iter().position(|&b| b == b'=')?;
    Some((&argument[..at], &argument[at + 1..]))
}

/// A value that starts with a quote: nginx keeps such quotes as bytes of the value and ends it at a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the value of \"{name}=\" starts with a quote, which nginx would keep as a byte of it: quote the whole argument \
     (\"{name}=<template>\")"
)]
pub struct QuoteError {
    /// The argument's name.
    pub name: &'static str,
}

/// Refuses a value that starts with `"` or `'`; `name` is the argument that the value belongs to.
///
/// # Errors
/// [`QuoteError`], which shows the right place for the quotes.
pub fn refuse_inner_quotes(name: &'static str, value: &[u8]) -> Result<(), QuoteError> {
    match value.first() {
        Some(b'"' | b'\'') => Err(QuoteError { name }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_shown_whole() {
        assert_eq!(Excerpt::new(b"abc").to_string(), "abc");
        assert_eq!(Excerpt::new(&[b'x'; EXCERPT_BYTES]).to_string(), "x".repeat(EXCERPT_BYTES));
    }

    #[test]
    fn long_text_is_cut() {
        let shown = Excerpt::new(&[b'x'; EXCERPT_BYTES + 1]).to_string();
        assert_eq!(shown, format!("{}...", "x".repeat(EXCERPT_BYTES)));
    }

    #[test]
    fn control_and_foreign_bytes_are_escaped() {
        assert_eq!(Excerpt::new(b"a\0\n\xff").to_string(), "a\\x00\\n\\xff");
    }

    #[test]
    fn keys_end_where_their_secret_begins() {
        for (value, shown) in [
            ("rl-aes1qyqsqqq", "rl-aes1..."),
            ("unit=RL-COOKIE1QQQ", "unit=RL-COOKIE1..."),
            ("a rl-aes1b rl-cookie1c", "a rl-aes1..."),
            ("rl-secret1qqq", "rl-secret1..."),
            ("rl-aes", "rl-aes"),
            ("rl-aes1", "rl-aes1"),
        ] {
            assert_eq!(Excerpt::new(value.as_bytes()).to_string(), shown);
        }
        let late = format!("{}rl-aes1qyqs", "x".repeat(EXCERPT_BYTES - 7));
        assert_eq!(Excerpt::new(late.as_bytes()).to_string(), format!("{}...", &late[..EXCERPT_BYTES]));
    }

    #[test]
    fn arguments_split_at_the_first_equals_sign() {
        assert_eq!(split_argument(b"bucket=a=b"), Some((&b"bucket"[..], &b"a=b"[..])));
        assert_eq!(split_argument(b"=x"), Some((&b""[..], &b"x"[..])));
        assert_eq!(split_argument(b"plain"), None);
    }

    #[test]
    fn quotes_inside_an_argument_are_refused_with_the_right_form() {
        let error = refuse_inner_quotes("bucket", b"\"a b\"").unwrap_err();
        assert!(error.to_string().contains("quote the whole argument (\"bucket=<template>\")"));
        assert!(refuse_inner_quotes("bucket", b"'a").is_err());
        assert!(refuse_inner_quotes("bucket", b"a\"b").is_ok());
    }
}

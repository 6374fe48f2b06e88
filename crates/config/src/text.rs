//! What messages are made of: foreign bytes made harmless, and numbers of things; what a value holds by mistake.
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

/// Whether an API key, or something that begins like one, is anywhere in a value.
pub fn holds_key(value: &[u8]) -> bool {
    key_start(value).is_some()
}

/// Quotes of word processors and of other languages, which nginx takes for plain bytes: \u{201c}, \u{201d}, \u{201e}, \u{2018},
/// \u{2019}, \u{201a}, \u{ab}, \u{bb}.
const TYPOGRAPHIC_QUOTES: [char; 8] =
    ['\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}', '\u{201a}', '\u{ab}', '\u{bb}'];

/// Whether a value, or the value of `name=value`, begins or ends with a typographic quote.
pub fn has_typographic_quotes(value: &[u8]) -> bool {
    let Ok(value) = std::str::from_utf8(value) else { return false };
    let inner = value.split_once('=').map_or("", |(_, value)| value);
    [value, inner]
        .iter()
        .any(|text| text.starts_with(TYPOGRAPHIC_QUOTES) || text.ends_with(TYPOGRAPHIC_QUOTES))
}

/// A number of things, in words: `1 zone`, `2 zones`.
#[derive(Clone, Copy, Debug)]
pub struct Count(pub usize, pub &'static str);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(n, thing) = self;
        write!(f, "{n} {thing}{}", if *n == 1 { "" } else { plural(thing) })
    }
}

fn plural(thing: &str) -> &'static str {
    if thing.ends_with('s') { "es" } else { "s" }
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
    fn keys_are_seen_anywhere_in_a_value() {
        assert!(holds_key(b"bucket=$host RL-AES1qqq") && !begins_with_key(b"bucket=rl-aes1qqq"));
        assert!(begins_with_key(b"rl-cookie1qqq") && !holds_key(b"rl-aes"));
    }

    #[test]
    fn typographic_quotes_are_seen_at_both_ends_of_a_value() {
        for value in [
            "\u{201c}bucket=a",
            "bucket=\u{201e}a",
            "b\u{201d}",
            "\u{2018}a\u{2019}",
            "service=\u{ab}x\u{bb}",
        ] {
            assert!(has_typographic_quotes(value.as_bytes()), "{value}");
        }
        for value in ["bucket=\"a\"", "bucket=it\u{2019}s", "", "caf\u{e9}"] {
            assert!(!has_typographic_quotes(value.as_bytes()), "{value}");
        }
        assert!(!has_typographic_quotes(b"\xe2\x80"));
    }

    #[test]
    fn things_are_counted_in_words() {
        let counted = [(1, "zone"), (0, "zone"), (2, "address"), (1, "address")];
        let words = counted.map(|(n, thing)| Count(n, thing).to_string());
        assert_eq!(words, ["1 zone", "0 zones", "2 addresses", "1 address"]);
    }
}

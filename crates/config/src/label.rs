//! The first bytes of a label that is too long.
//!
//! Called for each request whose label is cut (`ratelimitly_label <template> cut`). It allocates nothing.

/// The start of `text` of at most `max` bytes. A UTF-8 character that would be split there is left out; bytes that are not
/// UTF-8 are cut at `max`.
pub fn cut(text: &[u8], max: usize) -> &[u8] {
    let Some(start) = text.get(..max) else { return text };
    if text.len() == max || !is_continuation(text[max]) {
        return start;
    }
    // A character has at most four bytes, so its first one is among the last three here.
    let tail = start.iter().rev().take(3);
    match tail.enumerate().find(|(_, byte)| !is_continuation(**byte)) {
        Some((back, first)) if character_len(*first) > back + 1 => &start[..max - back - 1],
        _ => start,
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Bytes of the character that begins with this byte; 1 where none does.
fn character_len(first: u8) -> usize {
    match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_that_fits_stays_whole() {
        assert_eq!(cut(b"", 4), b"");
        assert_eq!(cut(b"abcd", 4), b"abcd");
        assert_eq!(cut("ab\u{e9}".as_bytes(), 4), "ab\u{e9}".as_bytes());
    }

    #[test]
    fn a_character_is_not_split() {
        assert_eq!(cut(b"abcde", 4), b"abcd");
        assert_eq!(cut("abc\u{e9}x".as_bytes(), 4), b"abc");
        assert_eq!(cut("ab\u{20ac}x".as_bytes(), 4), b"ab");
        assert_eq!(cut("a\u{1f980}x".as_bytes(), 4), b"a");
    }

    #[test]
    fn other_bytes_are_cut_at_the_limit() {
        assert_eq!(cut(&[0x80; 6], 4), [0x80; 4]);
        assert_eq!(cut(b"abc\xe9\x80", 4), b"abc");
        assert_eq!(cut(b"a\xc3\x80\x80\x80", 4), b"a\xc3\x80\x80");
    }

    proptest! {
        #[test]
        fn utf_8_stays_utf_8_and_loses_at_most_one_character(text in ".{0,40}", max in 4usize..40) {
            let start = cut(text.as_bytes(), max);
            let start = std::str::from_utf8(start).expect("whole characters");
            prop_assert!(text.starts_with(start) && start.len() <= max);
            prop_assert!(start.len() == text.len() || start.len() + 3 >= max);
        }
    }
}

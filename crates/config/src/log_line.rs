//! One message for nginx's error log: control characters made visible, and cut where it becomes too long.
//!
//! Called for each line that the module logs, and it allocates nothing. Foreign text (a DNS name, a value that a client
//! chose) can neither end the line nor begin another one.

use std::fmt::{self, Write};

/// Longest message in bytes. nginx cuts a whole line, time stamp and request details included, at 2048 bytes
/// wherever that falls; a message of this size still leaves room for them.
pub const MESSAGE_MAX: usize = 1792;

/// What stands at the end of a message that was cut.
pub const CUT_MARK: &str = "...";

/// Bytes before the mark.
const TEXT_MAX: usize = MESSAGE_MAX - CUT_MARK.len();

/// A message under construction, on the stack. Each byte of a control character becomes `\xNN`. A message over
/// [`MESSAGE_MAX`] bytes, or over a few less, is cut between two characters and ends in [`CUT_MARK`].
pub struct LogLine {
    bytes: [u8; MESSAGE_MAX],
    len: usize,
    full: bool,
}

impl LogLine {
    /// The message that `arguments` write.
    pub fn of(arguments: fmt::Arguments<'_>) -> LogLine {
        let mut line = LogLine { bytes: [0; MESSAGE_MAX], len: 0, full: false };
        // An error says that the line is full, or that a `Display` gave up. What was written until then is logged.
        let _ = line.write_fmt(arguments);
        if line.full {
            line.bytes[line.len..line.len + CUT_MARK.len()].copy_from_slice(CUT_MARK.as_bytes());
            line.len += CUT_MARK.len();
        }
        line
    }

    /// The message's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Appends as much of `text` as there is room for, and notes whether that is less than all of it.
    fn push(&mut self, text: &str) -> fmt::Result {
        let room = TEXT_MAX - self.len;
        let cut = text.floor_char_boundary(room.min(text.len()));
        self.bytes[self.len..self.len + cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.len += cut;
        self.full = cut < text.len();
        if self.full { Err(fmt::Error) } else { Ok(()) }
    }

    /// Appends `\xNN` for each byte of `c`, or nothing if there is no room for all of them.
    fn push_escaped(&mut self, c: char) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut utf8 = [0; 4];
        let bytes = c.encode_utf8(&mut utf8).as_bytes();
        let escapes = bytes.iter().map(|byte| {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            [b'\\', b'x', high, low]
        });
        let len = 4 * bytes.len();
        if TEXT_MAX - self.len < len {
            self.full = true;
            return Err(fmt::Error);
        }
        for (place, escape) in self.bytes[self.len..self.len + len].chunks_exact_mut(4).zip(escapes) {
            place.copy_from_slice(&escape);
        }
        self.len += len;
        Ok(())
    }
}

impl Write for LogLine {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        if self.full {
            return Err(fmt::Error);
        }
        while let Some((at, control)) = text.char_indices().find(|(_, c)| c.is_control()) {
            self.push(&text[..at])?;
            self.push_escaped(control)?;
            text = &text[at + control.len_utf8()..];
        }
        self.push(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(text: &str) -> String {
        let line = LogLine::of(format_args!("{text}"));
        String::from_utf8(line.as_bytes().to_vec()).expect("a line is UTF-8")
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["", "plain", "caf\u{e9} \u{1f980} %s %n \\ \"x\""] {
            assert_eq!(line(text), text);
        }
    }

    #[test]
    fn control_characters_are_shown_byte_by_byte() {
        assert_eq!(line("a\r\nb\0\x7f\x1b[0m"), "a\\x0d\\x0ab\\x00\\x7f\\x1b[0m");
        // A character of the second control block has two bytes; a terminal may obey it.
        assert_eq!(line("\u{9b}0m"), "\\xc2\\x9b0m");
    }

    #[test]
    fn the_parts_of_a_message_follow_each_other() {
        let made = LogLine::of(format_args!("{}\t{}", "a\n", 7));
        assert_eq!(made.as_bytes(), b"a\\x0a\\x097");
    }

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        let longest = "x".repeat(TEXT_MAX);
        assert_eq!(line(&longest), longest);
        assert_eq!(line(&format!("{longest}y")), format!("{longest}..."));
        assert_eq!(line(&"\u{20ac}".repeat(1000)), format!("{}...", "\u{20ac}".repeat(TEXT_MAX / 3)));
        let nearly = "x".repeat(TEXT_MAX - 3);
        assert_eq!(line(&format!("{nearly}\n")), format!("{nearly}..."), "an escape is whole or not there");
        assert_eq!(
            line(&format!("{nearly}\nabc")),
            format!("{nearly}..."),
            "nothing follows what was left out"
        );
    }

    proptest! {
        #[test]
        fn a_line_has_no_control_character_and_is_the_start_of_the_text(
            parts in prop::collection::vec(prop_oneof!["\\PC{0,80}", any::<String>(), "[\\x00-\\x1f]{0,500}"], 0..9),
        ) {
            let text = parts.concat();
            let escaped: String = text
                .chars()
                .map(|c| match c {
                    c if c.is_control() => c.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
                    c => c.to_string(),
                })
                .collect();
            let shown = line(&text);
            prop_assert!(shown.len() <= MESSAGE_MAX);
            if escaped.len() <= TEXT_MAX {
                prop_assert_eq!(shown, escaped);
            } else {
                let start = shown.strip_suffix(CUT_MARK).expect("a mark");
                prop_assert!(escaped.starts_with(start) && start.len() + 8 > TEXT_MAX);
            }
        }
    }
}

//! Label values of the Prometheus text format.

use std::fmt::{self, Write};

/// A name as the value of a label: `\`, `"` and line feeds escaped. A name that is not UTF-8 has each byte beyond printable
/// ASCII percent-encoded, and `%` too.
pub struct Value<'a>(pub &'a [u8]);

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text) => text.chars().try_for_each(|char| escaped(f, char)),
            Err(_) => self.0.iter().try_for_each(|byte| match byte {
                b'%' | 0..0x20 | 0x7f.. => write!(f, "%{byte:02X}"),
                _ => escaped(f, char::from(*byte)),
            }),
        }
    }
}

fn escaped(f: &mut fmt::Formatter<'_>, char: char) -> fmt::Result {
    match char {
        '\\' => f.write_str("\\\\"),
        '"' => f.write_str("\\\""),
        '\n' => f.write_str("\\n"),
        _ => f.write_char(char),
    }
}

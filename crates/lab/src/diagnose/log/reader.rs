//! Streams a log line by line in bounded memory. What cannot be read is counted and the first examples are kept. Called by
//! `diagnose.rs` with what each line is for.

use super::format::LineError;
use ratelimitly_config::log_line::LogLine;
use std::io::{self, BufRead};

/// Longest line, bytes. nginx's own buffer for a request's head is smaller.
const LONGEST: usize = 64 << 10;
/// Examples that are kept.
const EXAMPLES: usize = 3;
/// Characters of an example.
const SHOWN: usize = 120;

/// How many lines there were, and what was wrong with some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Lines that could be read.
    pub lines: u64,
    /// Lines that could not.
    pub unreadable: u64,
    /// The first of those: file, line, reason and beginning.
    pub examples: Vec<String>,
}

impl Read {
    /// Hands each line of a file to `take`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn all(
        &mut self,
        name: &str,
        mut file: impl BufRead,
        mut take: impl FnMut(&str) -> Result<(), LineError>,
    ) -> io::Result<()> {
        let (mut line, mut number) = (Vec::new(), 0_u64);
        while let Some(length) = next(&mut file, &mut line)? {
            number += 1;
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            if text.is_empty() {
                continue;
            }
            let taken = if length > LONGEST { Err(LineError::Long(LONGEST)) } else { take(text) };
            match taken {
                Ok(()) => self.lines += 1,
                Err(error) => self.unreadable(name, number, &error, text),
            }
        }
        Ok(())
    }

    fn unreadable(&mut self, name: &str, number: u64, error: &LineError, line: &str) {
        self.unreadable += 1;
        if self.examples.len() < EXAMPLES {
            let start: String = line.chars().take(SHOWN).collect();
            self.examples.push(printable(&format!("{name}:{number}: {error}: {start}")));
        }
    }
}

/// What came from a log as one line that a terminal cannot obey.
pub fn printable(text: &str) -> String {
    String::from_utf8_lossy(LogLine::of(format_args!("{text}")).as_bytes()).into_owned()
}

/// Reads up to the next newline. Keeps the first [`LONGEST`] bytes and gives the whole length; `None` at the end.
fn next(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<usize>> {
    line.clear();
    let mut length = 0;
    loop {
        let here = file.fill_buf()?;
        if here.is_empty() {
            return Ok((length > 0).then_some(length));
        }
        let end = here.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(here.len(), |end| end + 1);
        let room = LONGEST.saturating_sub(line.len()).min(used);
        line.extend_from_slice(&here[..room]);
        length += used;
        file.consume(used);
        if end.is_some() {
            return Ok(Some(length));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_cannot_be_read_are_counted_and_shown() {
        let long = "x".repeat(LONGEST + 1);
        let log = format!("good\n\nbad \x1b[2J\r\n{long}\ngood");
        let mut read = Read::default();
        let take = |line: &str| if line == "good" { Ok(()) } else { Err(LineError::Rest) };
        read.all("access.log", log.as_bytes(), take).expect("it can be read");
        assert_eq!((read.lines, read.unreadable), (2, 2));
        assert!(read.examples[0].starts_with("access.log:3: the line goes on"), "{:?}", read.examples);
        assert!(read.examples[0].ends_with("bad \\x1b[2J"), "{:?}", read.examples);
        assert!(read.examples[1].contains("longer than 65536 bytes"), "{:?}", read.examples);
    }
}

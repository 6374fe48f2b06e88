//! nginx's log files as tests read them: whole lines, patterns, and what an error log must never hold. Called by the
//! nginx handle and the lifecycle checks; never writes.

use regex::Regex;
use std::fs;
use std::path::Path;

/// What no error log may hold unless the test announced it: broken invariants, leaks, dead workers.
const FORBIDDEN: &str = concat!(
    r"\[(alert|emerg)\]|open socket|request count is zero|panicked|exited on signal|double free",
    r"|exited with (fatal )?code [1-9]",
    r"|\[(crit|error|warn|notice|info)\].*aborting",
    r"|runtime error: |Sanitizer",
);

/// What nginx's own code makes a sanitizer say (`ci/sanitize`): that it copies nothing from nowhere.
const OF_NGINX: &str = r"^src/\S+: runtime error: null pointer passed as argument";

/// A compiled pattern.
///
/// # Panics
/// It is no regular expression.
pub fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| panic!("{error}"))
}

/// The file's whole lines; a line that is still being written is left out.
pub fn lines(file: &Path) -> Vec<String> {
    let bytes = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    if whole.is_empty() { Vec::new() } else { whole.split('\n').map(str::to_owned).collect() }
}

/// Lines that no error log may hold, less those that one of `expected` matches.
pub fn forbidden(lines: &[String], expected: &[Regex]) -> Vec<String> {
    let (forbidden, of_nginx) = (pattern(FORBIDDEN), pattern(OF_NGINX));
    let bad = lines.iter().filter(|line| forbidden.is_match(line) && !of_nginx.is_match(line));
    bad.filter(|line| !expected.iter().any(|pattern| pattern.is_match(line))).cloned().collect()
}

/// A line's message: what follows level, process and connection in nginx's error log.
pub fn message(line: &str) -> &str {
    let after_level = line.split_once("] ").map_or(line, |(_, rest)| rest);
    let after_process = after_level.split_once(": ").map_or(after_level, |(_, rest)| rest);
    match after_process.split_once(' ') {
        Some((connection, rest)) if connection.starts_with('*') => rest,
        _ => after_process,
    }
}

//! The log escaper: any message becomes one line of bounded length. A terminal cannot obey it, and it begins as the
//! message does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::log_line::{CUT_MARK, LogLine, MESSAGE_MAX};

/// Inputs are shorter than a line, so the text is also written several times in a row.
const TIMES: [usize; 2] = [1, 5];

fuzz_target!(|input: &[u8]| {
    let text = String::from_utf8_lossy(input);
    let half = text.floor_char_boundary(text.len() / 2);
    let (left, right) = text.split_at(half);
    for times in TIMES {
        let line = LogLine::of(format_args!("{left}{right}{}", text.repeat(times - 1)));
        let line = std::str::from_utf8(line.as_bytes()).expect("UTF-8");
        assert!(line.len() <= MESSAGE_MAX && !line.chars().any(char::is_control));
        let escaped: String = text.repeat(times).chars().map(shown).collect();
        match line.strip_suffix(CUT_MARK) {
            Some(start) if line != escaped => {
                assert!(escaped.starts_with(start) && escaped.len() + CUT_MARK.len() > MESSAGE_MAX);
                assert!(start.len() + CUT_MARK.len() + 8 > MESSAGE_MAX);
            }
            _ => assert_eq!(line, escaped),
        }
    }
});

fn shown(c: char) -> String {
    let text = c.to_string();
    match c.is_control() {
        true => text.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        false => text,
    }
}

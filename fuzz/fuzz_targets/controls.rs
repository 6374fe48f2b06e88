//! Values of the operator's directives: what is accepted is in its range and made of the characters that it may have.
//! Conditions agree with each other, and a key file's line is one line of the file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::{condition, key_file, log_level, seconds, status, tokens};

fuzz_target!(|text: &[u8]| {
    if let Ok(code) = status::parse(text) {
        assert!((400..600).contains(&code) && !matches!(code, 408 | 494..=497 | 499));
        assert_eq!(decimal(text), Some(code.into()));
    }
    match tokens::parse(text) {
        Ok(tokens) => assert_eq!(decimal(text), Some(tokens.into())),
        Err(error) => assert!(decimal(text).is_none_or(|n| n > 65_535) && error.to_string().len() < 300),
    }
    // What is false for a rule is off for a dry run, and never reads like "no" by mistake.
    assert!(condition::applies(text) || !condition::is_dry_run(text) && !condition::looks_like_no(text));
    if log_level::parse(text).is_ok() {
        let words: [&[u8]; 5] = [b"off", b"info", b"notice", b"warn", b"error"];
        assert!(words.iter().any(|word| word.eq_ignore_ascii_case(text)));
    }
    if let Ok(line) = key_file::line(text) {
        assert!(!line.is_empty() && text.len() <= key_file::MAX_BYTES);
        assert!(text.windows(line.len()).any(|window| window == line));
        assert!(!line.contains(&b'\n') && !line.contains(&b'\r') && line == line.trim_ascii());
    }
    times(text);
});

/// A list of times: the last one, written as nginx does, means the same.
fn times(text: &[u8]) {
    let Ok(last) = seconds::last_ms(text) else { return };
    let allowed = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_whitespace() || b".,:-".contains(byte);
    assert!(text.iter().all(allowed));
    if let Some(ms) = last {
        let written = format!("0.001, {}.{:03}", ms / 1000, ms % 1000);
        assert_eq!(seconds::last_ms(written.as_bytes()), Ok(Some(ms)));
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| {
        text.iter().fold(0, |n: u64, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

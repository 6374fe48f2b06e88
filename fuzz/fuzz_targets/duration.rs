//! Durations: a text that is accepted means 1 to 4294967295 milliseconds, and the same when these are written out.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::duration::parse_ms;

fuzz_target!(|text: &[u8]| match parse_ms(text) {
    Ok(ms) => {
        assert!(ms > 0);
        assert_eq!(parse_ms(format!("{ms}ms").as_bytes()), Ok(ms));
        assert!(text.iter().all(|byte| byte.is_ascii_digit() || b" wdhms".contains(byte)));
    }
    Err(error) => assert!(error.to_string().len() < 300),
});

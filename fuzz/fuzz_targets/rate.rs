//! Rates: a text that is accepted means tokens and a window that are not zero, and is made of the characters of a rate alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::rate::Rate;

fuzz_target!(|text: &[u8]| match Rate::parse(text) {
    Ok(rate) => {
        assert!(rate.limit > 0 && rate.window_ms >= 1000 && rate.window_ms.is_multiple_of(1000));
        assert!(text.iter().all(|byte| byte.is_ascii_digit() || b"r/smh".contains(byte)));
        let plain = format!("{}r/{}s", rate.limit, rate.window_ms / 1000);
        assert_eq!(Rate::parse(plain.as_bytes()), Ok(rate));
    }
    Err(error) => assert!(error.to_string().len() < 300),
});

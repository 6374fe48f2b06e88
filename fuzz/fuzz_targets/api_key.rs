//! API keys: any text, and any payload behind a right checksum. A text that is accepted is the key that it encodes to; a text
//! that is not is never repeated.
#![no_main]

use bech32::{Bech32, Hrp};
use libfuzzer_sys::fuzz_target;
use ratelimitly_core::key::ApiKey;
use ratelimitly_fuzz::RAW;

/// Kinds that are served, and some that are not.
const KINDS: [&str; 4] = ["rl-aes", "rl-cookie", "rl-none", "rl-secret"];

fuzz_target!(|input: &[u8]| {
    let Some(text) = text(input) else { return };
    match ApiKey::parse(&text) {
        Ok(key) => {
            assert_eq!(key.encode(), text.to_ascii_lowercase());
            assert!(!format!("{key:?}").contains(&text[12..24]));
        }
        Err(error) => {
            let said = format!("{error} {error:?}");
            assert!(said.len() < 400 && (text.len() < 60 || !said.contains(&text)));
        }
    }
});

fn text(input: &[u8]) -> Option<String> {
    let (&first, rest) = input.split_first()?;
    if first & 1 == RAW {
        return Some(std::str::from_utf8(rest).ok()?.to_owned());
    }
    let hrp = Hrp::parse_unchecked(KINDS[usize::from(first >> 1) % KINDS.len()]);
    bech32::encode_lower::<Bech32>(hrp, rest).ok()
}

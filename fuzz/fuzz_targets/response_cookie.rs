//! Responses under the cookie key.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_core::key::KeyKind;

fuzz_target!(|input: &[u8]| ratelimitly_fuzz::response(KeyKind::Cookie, input));

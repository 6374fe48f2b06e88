//! Arguments of the form `name=value`, separated by newlines, and names of definitions: each value that is given back is one
//! of the arguments, under its name, and no other argument was there.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::arguments::{named, refuse_enclosed, refuse_quoted, refuse_quotes, split};
use ratelimitly_config::number::parse_u32;
use ratelimitly_config::{name, older};

const NAMES: [&str; 3] = ["bucket", "rate", "a"];
const DIRECTIVES: [&str; 3] = ["ratelimitly_policy", "ratelimitly_zone", "ratelimitly_guard"];

fuzz_target!(|text: &[u8]| {
    let arguments: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
    match named(&arguments, NAMES) {
        Ok(values) => {
            let given: Vec<(&str, &[u8])> =
                NAMES.iter().zip(values).filter_map(|(name, value)| Some((*name, value?))).collect();
            assert_eq!(given.len(), arguments.len(), "each argument is one value");
            for (name, value) in given {
                let whole = [name.as_bytes(), b"=", value].concat();
                assert!(arguments.contains(&&whole[..]));
            }
        }
        Err(error) => assert!(error.to_string().len() < 500),
    }
    let quoted = arguments.iter().filter_map(|argument| split(argument)).any(|(name, value)| {
        if refuse_enclosed(name, value).is_err() {
            assert!(refuse_quoted(name, value).is_err(), "what ends in a quote too begins with one");
        }
        refuse_quoted(name, value).is_err()
    });
    assert_eq!(refuse_quotes(&arguments).is_err(), quoted);
    for directive in DIRECTIVES {
        if let Some(older) = older::form(directive, &arguments) {
            assert!(older.to_string().len() < 500);
        }
    }
    match name::parse(text) {
        Ok(name) => assert!(!name.is_empty() && name == text && split(name).is_none()),
        Err(error) => assert!(error.to_string().len() < 500),
    }
    if let Ok(number) = parse_u32(text) {
        assert_eq!(parse_u32(number.to_string().as_bytes()), Ok(number));
    }
});

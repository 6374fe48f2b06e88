//! Fields that name policies, for names of any bytes: each is a list of strings with whole numbers behind them, and the
//! array is JSON with as many names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratelimitly_config::fields::{FieldList, FieldName, JsonNames};

fuzz_target!(|input: &[u8]| {
    let Some((numbers, names)) = input.split_at_checked(8) else { return };
    let number = |at: usize| u32::from_le_bytes(numbers[at..at + 4].try_into().expect("four bytes"));
    let (first, second) = (number(0), number(4));
    let names: Vec<&[u8]> = names.split(|byte| *byte == 0).collect();

    let (mut limits, mut policies, mut array) = (Vec::new(), Vec::new(), Vec::new());
    let mut list = FieldList::new(&mut limits);
    names.iter().for_each(|name| list.limit(&FieldName::new(name), first, second));
    let mut list = FieldList::new(&mut policies);
    names.iter().for_each(|name| list.policy(&FieldName::new(name), first, second));
    let mut json = JsonNames::new(&mut array);
    names.iter().for_each(|name| json.name(name));
    json.end();

    assert_eq!(members(&limits, &format!(";r={first};t={second}")), names.len());
    let whole = second > 0 && second % 1000 == 0;
    let window = if whole { format!(";w={}", second / 1000) } else { String::new() };
    assert_eq!(members(&policies, &format!(";q={first}{window}")), names.len());
    let read: Vec<String> = serde_json::from_slice(&array).expect("JSON");
    assert_eq!(read.len(), names.len());
    for (read, name) in read.iter().zip(names) {
        assert!(std::str::from_utf8(name).is_err() || read.as_bytes() == name);
    }
});

/// The number of members, each a string of RFC 9651 with these parameters.
fn members(mut field: &[u8], parameters: &str) -> usize {
    for count in 1.. {
        field = after_string(field.strip_prefix(b"\"").expect("a string"));
        field = field.strip_prefix(parameters.as_bytes()).expect("the parameters");
        match field.strip_prefix(b", ") {
            Some(rest) => field = rest,
            None => {
                assert!(field.is_empty());
                return count;
            }
        }
    }
    unreachable!("a field has an end")
}

fn after_string(mut text: &[u8]) -> &[u8] {
    loop {
        let (byte, rest) = text.split_first().expect("the string's end");
        text = rest;
        match byte {
            b'"' => return text,
            b'\\' => {
                assert!(matches!(text.first(), Some(b'"' | b'\\')));
                text = &text[1..];
            }
            byte => assert!((b' '..=b'~').contains(byte)),
        }
    }
}

//! Values that name policies to a client: the members of `RateLimit-Policy` and `RateLimit`, and a JSON array of names.
//!
//! Called where a variable is read. Each list appends to the caller's buffer, which keeps its memory, so that nothing is
//! allocated once the buffer has grown. Names are the operator's zone and guard names: any bytes. The fields are lists of
//! structured fields (RFC 9651), as draft-ietf-httpapi-ratelimit-headers-11 has them.

/// The decimal digits of each number below 100.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
                            5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// A `RateLimit-Policy` or `RateLimit` field, member by member.
#[derive(Debug)]
pub struct FieldList<'a> {
    out: &'a mut Vec<u8>,
    is_first: bool,
}

impl<'a> FieldList<'a> {
    /// An empty list at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> FieldList<'a> {
        FieldList { out, is_first: true }
    }

    /// Appends a member of `RateLimit-Policy`: `"name";q=100;w=60`. `w` is left out unless the window is a whole number
    /// of seconds.
    pub fn policy(&mut self, name: &FieldName, tokens: u32, window_ms: u32) {
        self.member(name);
        self.parameter(b"q", tokens);
        if window_ms > 0 && window_ms.is_multiple_of(1_000) {
            self.parameter(b"w", window_ms / 1_000);
        }
    }

    /// Appends a member of `RateLimit`: `"name";r=57;t=60`, with the seconds until more tokens are there.
    pub fn limit(&mut self, name: &FieldName, remaining: u32, reset_s: u32) {
        self.member(name);
        self.parameter(b"r", remaining);
        self.parameter(b"t", reset_s);
    }

    fn member(&mut self, name: &FieldName) {
        separate(self.out, &mut self.is_first);
        self.out.extend_from_slice(&name.0);
    }

    fn parameter(&mut self, key: &[u8; 1], value: u32) {
        self.out.extend_from_slice(&[b';', key[0], b'=']);
        self.out.extend_from_slice(Digits::of(value.into()).as_bytes());
    }
}

/// A name as the fields have it: a string of RFC 9651. Made while the configuration is loaded.
#[derive(Debug)]
pub struct FieldName(Box<[u8]>);

impl FieldName {
    /// Quotes and escapes any bytes.
    pub fn new(name: &[u8]) -> FieldName {
        let mut out = Vec::with_capacity(name.len() + 2);
        field_string(&mut out, name);
        FieldName(out.into_boxed_slice())
    }
}

/// A JSON array of strings, name by name.
#[derive(Debug)]
pub struct JsonNames<'a> {
    out: &'a mut Vec<u8>,
    is_first: bool,
}

impl<'a> JsonNames<'a> {
    /// An empty array at the end of `out`; `end` closes it.
    pub fn new(out: &'a mut Vec<u8>) -> JsonNames<'a> {
        out.push(b'[');
        JsonNames { out, is_first: true }
    }

    /// Appends a name. Bytes that are not UTF-8 are percent-encoded, as they are in the fields.
    pub fn name(&mut self, name: &[u8]) {
        separate(self.out, &mut self.is_first);
        self.out.push(b'"');
        for chunk in name.utf8_chunks() {
            chunk.valid().bytes().for_each(|byte| json_byte(self.out, byte));
            chunk.invalid().iter().for_each(|byte| percent(self.out, *byte));
        }
        self.out.push(b'"');
    }

    /// Closes the array.
    pub fn end(self) {
        self.out.push(b']');
    }
}

fn separate(out: &mut Vec<u8>, is_first: &mut bool) {
    if !std::mem::take(is_first) {
        out.extend_from_slice(b", ");
    }
}

/// A string of RFC 9651: `"` and `\` escaped, other bytes than printable ASCII percent-encoded.
fn field_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            _ => percent(out, *byte),
        }
    }
    out.push(b'"');
}

/// A byte of UTF-8 inside a JSON string.
fn json_byte(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        ..b' ' => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&hex(byte));
        }
        _ => out.push(byte),
    }
}

fn percent(out: &mut Vec<u8>, byte: u8) {
    out.push(b'%');
    out.extend_from_slice(&hex(byte));
}

fn hex(byte: u8) -> [u8; 2] {
    [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]
}

/// A number in decimal digits.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    /// Right-aligned.
    digits: [u8; Digits::MOST],
    first: usize,
}

impl Digits {
    /// Digits of the largest number.
    const MOST: usize = 20;

    /// The digits of a number, two at a time.
    #[inline]
    pub fn of(number: u64) -> Digits {
        let (mut digits, mut first, mut rest) = ([b'0'; Digits::MOST], Digits::MOST, number);
        while rest >= 10 {
            first -= 2;
            let pair = (rest % 100) as usize * 2;
            digits[first..first + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
            rest /= 100;
        }
        if rest > 0 || number == 0 {
            first -= 1;
            digits[first] = b'0' + rest as u8;
        }
        Digits { digits, first }
    }

    /// Seconds and three decimals of a number of milliseconds, at most 9999999999999999.999 seconds.
    pub fn of_seconds(ms: u64) -> Digits {
        let Digits { mut digits, first } = Digits::of(ms.min(10_u64.pow(Digits::MOST as u32 - 1) - 1));
        // The seconds make room for the point.
        let point = Digits::MOST - 4;
        let first = first.min(point);
        digits.copy_within(first..=point, first - 1);
        digits[point] = b'.';
        Digits { digits, first: first - 1 }
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.digits[self.first..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(write: impl FnOnce(&mut FieldList<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut FieldList::new(&mut out));
        String::from_utf8(out).expect("a field is ASCII")
    }

    fn json(names: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut array = JsonNames::new(&mut out);
        names.iter().for_each(|name| array.name(name));
        array.end();
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn n11_members_are_a_list() {
        let policies = fields(|list| {
            list.policy(&FieldName::new(b"per_client"), 100, 60_000);
            list.policy(&FieldName::new(b"all"), u32::MAX, 1_500);
        });
        assert_eq!(policies, "\"per_client\";q=100;w=60, \"all\";q=4294967295");
        let limits = fields(|list| {
            list.limit(&FieldName::new(b"per_client"), 57, 60);
            list.limit(&FieldName::new(b"all"), 0, 1);
        });
        assert_eq!(limits, "\"per_client\";r=57;t=60, \"all\";r=0;t=1");
    }

    #[test]
    fn names_are_escaped_in_fields() {
        let field = fields(|list| list.limit(&FieldName::new("a\"b\\c d\u{e9}\n%~\u{7f}".as_bytes()), 1, 2));
        assert_eq!(field, "\"a\\\"b\\\\c d%C3%A9%0A%~%7F\";r=1;t=2");
    }

    #[test]
    fn names_are_escaped_in_json() {
        assert_eq!(json(&[]), "[]");
        assert_eq!(json(&[b"a", b"b"]), "[\"a\", \"b\"]");
        assert_eq!(
            json(&["q\"\\/\u{e9}\u{1f980}\n\0".as_bytes()]),
            "[\"q\\\"\\\\/\u{e9}\u{1f980}\\u000A\\u0000\"]"
        );
        assert_eq!(json(&[b"x\xff\xc3y"]), "[\"x%FF%C3y\"]");
    }

    #[test]
    fn a_list_is_appended_to_what_is_there() {
        let mut out = b"x".to_vec();
        FieldList::new(&mut out).limit(&FieldName::new(b"a"), 1, 1);
        assert_eq!(out, b"x\"a\";r=1;t=1");
    }

    fn text(digits: Digits) -> String {
        String::from_utf8_lossy(digits.as_bytes()).into_owned()
    }

    #[test]
    fn numbers_are_written_at_each_length() {
        for number in (0..20).flat_map(|power| [10_u64.pow(power) - 1, 10_u64.pow(power)]).chain([u64::MAX]) {
            assert_eq!(text(Digits::of(number)), number.to_string());
        }
    }

    #[test]
    fn milliseconds_are_written_as_seconds() {
        let seconds = |ms| text(Digits::of_seconds(ms));
        assert_eq!([0, 7, 42, 999].map(seconds), ["0.000", "0.007", "0.042", "0.999"]);
        assert_eq!([1_000, 12_034, 1_234_567].map(seconds), ["1.000", "12.034", "1234.567"]);
        assert_eq!(seconds(u64::MAX), "9999999999999999.999");
    }

    proptest! {
        #[test]
        fn any_number_is_written(number: u64, ms in 0..10_u64.pow(19)) {
            prop_assert_eq!(text(Digits::of(number)), number.to_string());
            prop_assert_eq!(text(Digits::of_seconds(ms)), format!("{}.{:03}", ms / 1000, ms % 1000));
        }

        #[test]
        fn a_field_holds_only_what_a_string_may_hold(name: Vec<u8>, remaining: u32, reset: u32) {
            let field = fields(|list| list.limit(&FieldName::new(&name), remaining, reset));
            let tail = format!("\";r={remaining};t={reset}");
            let inner = field.strip_prefix('"').and_then(|rest| rest.strip_suffix(&tail));
            let mut bytes = inner.expect("a string and two parameters").bytes();
            while let Some(byte) = bytes.next() {
                prop_assert!((b' '..=b'~').contains(&byte) && byte != b'"');
                if byte == b'\\' {
                    prop_assert!(matches!(bytes.next(), Some(b'"' | b'\\')));
                }
            }
        }

        #[test]
        fn any_name_is_valid_json(names: Vec<Vec<u8>>) {
            let array = json(&names.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let read: Vec<String> = serde_json::from_str(&array).expect("JSON");
            let plain = names.iter().zip(&read).all(|(name, read)| match std::str::from_utf8(name) {
                Ok(name) => name == read,
                Err(_) => read.contains('%'),
            });
            prop_assert!(plain && read.len() == names.len());
        }
    }
}

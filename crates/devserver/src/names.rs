//! Names for the ids of buckets and trackers. An id is a hash, so an event alone does not say which zone it is about; a
//! developer gives the rendered name and its settings, and events then carry that name. Filled from the command line,
//! asked by `sighting.rs` for each event. Pure.

use ratelimitly_config::{duration, number, rate::Rate};
use ratelimitly_core::id::{BucketId, TrackerId, TrackerSettings};
use std::collections::HashMap;
use std::str::FromStr;

const FORM: &str = "must be bucket=<name>@<rate>, like bucket=checkout@100r/m, or service=<name>@<settings>, like \
                    service=shop@ttl=20ms,min_sample_threshold=0";

/// The settings of `ratelimitly_tracker` where it names none.
const DEFAULT_SETTINGS: TrackerSettings =
    TrackerSettings { ttl_ms: 30_000, max_samples: 128, min_sample_threshold: 8 };

/// One name, and the id that it stands for. Made by parsing `bucket=checkout@100r/m`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    id: [u8; 16],
    shown: String,
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Name, String> {
        let (kind, rest) = text.split_once('=').ok_or(FORM)?;
        let (shown, settings) = rest.rsplit_once('@').ok_or(FORM)?;
        let name = unescape(shown)?;
        let id = match kind {
            "bucket" => bucket(&name, settings)?.0,
            "service" => TrackerId::new(&name, tracker(settings)?).0,
            _ => return Err(FORM.into()),
        };
        Ok(Name { id, shown: shown.to_owned() })
    }
}

impl Name {
    /// Whether it is the name of this id.
    pub(crate) fn is_id(&self, id: &[u8; 16]) -> bool {
        self.id == *id
    }
}

/// All names. An id without one is shown as hexadecimal digits only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(HashMap<[u8; 16], String>);

impl Names {
    pub fn new(names: Vec<Name>) -> Names {
        Names(names.into_iter().map(|name| (name.id, name.shown)).collect())
    }

    pub fn of(&self, id: &[u8; 16]) -> Option<String> {
        self.0.get(id).cloned()
    }
}

fn bucket(name: &[u8], rate: &str) -> Result<BucketId, String> {
    let parsed = Rate::parse(rate.as_bytes()).map_err(|error| format!("the rate \"{rate}\" {error}"))?;
    Ok(BucketId::new(name, parsed.window_ms, parsed.limit))
}

fn tracker(settings: &str) -> Result<TrackerSettings, String> {
    let mut parsed = DEFAULT_SETTINGS;
    for setting in settings.split(',') {
        let (name, value) = setting.split_once('=').ok_or(FORM)?;
        let number = || number::parse_u32(value.as_bytes()).map_err(|error| format!("{setting}: {error}"));
        match name {
            "ttl" => {
                parsed.ttl_ms =
                    duration::parse_ms(value.as_bytes()).map_err(|error| format!("{setting}: {error}"))?;
            }
            "max_samples" => parsed.max_samples = number()?,
            "min_sample_threshold" => parsed.min_sample_threshold = number()?,
            _ => {
                return Err(format!(
                    "unknown setting \"{name}\", must be ttl, max_samples or min_sample_threshold"
                ));
            }
        }
    }
    Ok(parsed)
}

/// The bytes of a name: `\x7f` is one byte, `\\` a backslash. `$binary_remote_addr` renders to bytes that are no text.
fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        match rest {
            [] => return Ok(bytes),
            [b'\\', b'\\', tail @ ..] => {
                bytes.push(b'\\');
                rest = tail;
            }
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.push(hex_digit(*high) << 4 | hex_digit(*low));
                rest = tail;
            }
            [b'\\', ..] => {
                return Err("a backslash must be followed by x and two hexadecimal digits, \
                                       or by a backslash"
                    .into());
            }
            [byte, tail @ ..] => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
}

/// The value of a byte that is a hexadecimal digit.
fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn a_bucket_is_found_by_the_id_that_its_zone_has() {
        let names = Names::new(vec![name("bucket=demo:checkout@3r/10m"), name("bucket=a@b@5r/s")]);
        let id = |name: &str, window_ms, limit| BucketId::new(name.as_bytes(), window_ms, limit).0;
        assert_eq!(names.of(&id("demo:checkout", 600_000, 3)).as_deref(), Some("demo:checkout"));
        assert_eq!(names.of(&id("a@b", 1000, 5)).as_deref(), Some("a@b"));
        assert_eq!(names.of(&id("demo:checkout", 600_000, 4)), None);
    }

    #[test]
    fn a_tracker_has_the_defaults_of_its_directive() {
        let settings = TrackerSettings { ttl_ms: 20, min_sample_threshold: 0, ..DEFAULT_SETTINGS };
        let id = TrackerId::new(b"shop", settings).0;
        let names = Names::new(vec![name("service=shop@ttl=20ms,min_sample_threshold=0")]);
        assert_eq!(names.of(&id).as_deref(), Some("shop"));
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        let id = BucketId::new(b"api:\x7f\x00\x00\x01\\", 60_000, 100).0;
        let names = Names::new(vec![name(r"bucket=api:\x7f\x00\x00\x01\\@100r/m")]);
        assert_eq!(names.of(&id).as_deref(), Some(r"api:\x7f\x00\x00\x01\\"));
    }

    #[test]
    fn a_name_that_cannot_be_read_says_what_would_be_right() {
        for (text, part) in [
            ("checkout", "like bucket=checkout@100r/m"),
            ("bucket=checkout", "bucket=<name>@<rate>"),
            ("zone=checkout@3r/s", "must be bucket="),
            ("bucket=checkout@3", "the rate \"3\" is not a rate"),
            ("service=shop@20ms", "service=<name>@<settings>"),
            ("service=shop@life=20ms", "must be ttl, max_samples"),
            ("service=shop@ttl=0", "ttl=0:"),
            (r"bucket=\n@3r/s", "two hexadecimal digits"),
        ] {
            let error = text.parse::<Name>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

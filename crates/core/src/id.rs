//! Identifiers: content-defined bucket and tracker ids, request ids, server ids (docs/protocol.md, "Ids made from
//! content" and "Discovery").
//!
//! Called by the wire codec, the client, discovery and the nginx module, which makes bucket and tracker ids of
//! rendered names on the request path: nothing here allocates. It never draws randomness of its own.

use blake2s_simd::Params;
use std::fmt;

/// 16-byte id of a resource bucket.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketId(pub [u8; 16]);

impl BucketId {
    /// Id of the bucket `name` (exact bytes, NULs included) with this window and limit.
    pub fn new(name: &[u8], window_size_ms: u32, rate_limit: u32) -> BucketId {
        BucketId(content_id(b"ratelimitly.resource.v1\0", name, [window_size_ms, rate_limit]))
    }
}

/// 16-byte id of a latency tracker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackerId(pub [u8; 16]);

impl TrackerId {
    /// Id of the tracker `name` (exact bytes) with these settings.
    pub fn new(name: &[u8], settings: TrackerSettings) -> TrackerId {
        let TrackerSettings { ttl_ms, max_samples, min_sample_threshold } = settings;
        let fields = [ttl_ms, max_samples, min_sample_threshold];
        TrackerId(content_id(b"ratelimitly.latency-tracker.v2\0", name, fields))
    }
}

/// What a tracker keeps; part of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrackerSettings {
    /// Life of a sample, milliseconds.
    pub ttl_ms: u32,
    /// Most samples kept, at least 1.
    pub max_samples: u32,
    /// Fewest samples for a latency to count.
    pub min_sample_threshold: u32,
}

/// 16 bytes of a random UUID (version 4).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub [u8; 16]);

impl RequestId {
    /// Makes a version-4 UUID of 16 random bytes by setting its version and variant bits.
    pub fn from_random(mut bytes: [u8; 16]) -> RequestId {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        RequestId(bytes)
    }
}

/// A server's 64-bit id. The smaller id is the older server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ServerId(pub u64);

impl ServerId {
    /// Reads the id out of an SRV target's first DNS label, `s-<decimal>` in any case without leading zeros.
    /// `target` is the name in text form (`s-1015809.example.com.`). `None`: not of that form or above u64.
    pub fn from_srv_target(target: &str) -> Option<ServerId> {
        let label = target.split('.').next()?;
        let digits = label.strip_prefix("s-").or_else(|| label.strip_prefix("S-"))?;
        // u64's own parser takes a leading '+', which a server name never has.
        let decimal = digits.bytes().all(|byte| byte.is_ascii_digit());
        let canonical = digits == "0" || !digits.starts_with('0');
        if decimal && canonical { digits.parse().ok().map(ServerId) } else { None }
    }
}

/// First 16 bytes of BLAKE2s-256 over the domain (its NUL included), the name behind its length, and the fields.
fn content_id<const FIELDS: usize>(domain: &[u8], name: &[u8], fields: [u32; FIELDS]) -> [u8; 16] {
    // The length field is 32 bits wide; a longer name, which no configuration or request can produce, would
    // still get an id, only not one that another client computes.
    let name_len = u32::try_from(name.len()).unwrap_or(u32::MAX);
    let mut hash = Params::new().to_state();
    hash.update(domain);
    hash.update(&name_len.to_le_bytes());
    hash.update(name);
    for field in fields {
        hash.update(&field.to_le_bytes());
    }
    // The first half of the 32-byte digest; a digest of 16 bytes would be a different one.
    let digest = hash.finalize();
    std::array::from_fn(|i| digest.as_array()[i])
}

fn write_hex(bytes: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Lower-case hexadecimal for both `Display` and `Debug`: what logs show and what a reader searches for.
macro_rules! hex_formats {
    ($($id:ident),*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(&self.0, f)
            }
        }
    )*};
}

hex_formats!(BucketId, TrackerId, RequestId);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_ids_are_decimal_without_leading_zeros() {
        let id = |target| ServerId::from_srv_target(target).map(|id| id.0);
        assert_eq!(id("s-1015809.example.com."), Some(1_015_809));
        assert_eq!(id("S-18446744073709551615.x"), Some(u64::MAX));
        assert_eq!(id("s-0"), Some(0));
        for target in
            ["", "s-", "s-.x", "s-01.x", "s-00", "s-+1.x", "s--1.x", "s-1a.x", "t-1.x", "1.x", "s1.x"]
        {
            assert_eq!(id(target), None, "{target}");
        }
        assert_eq!(id("s-18446744073709551616.x"), None);
        assert_eq!(id("x.s-1.example.com"), None);
    }

    #[test]
    fn ids_show_as_lower_case_hexadecimal() {
        let bytes = std::array::from_fn(|i| 0xF0 + i as u8);
        let shown = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
        assert_eq!(format!("{} {:?}", BucketId(bytes), BucketId(bytes)), format!("{shown} {shown}"));
        assert_eq!(format!("{} {:?}", TrackerId(bytes), TrackerId(bytes)), format!("{shown} {shown}"));
        assert_eq!(format!("{} {:?}", RequestId(bytes), RequestId(bytes)), format!("{shown} {shown}"));
        assert_eq!(ServerId(42).to_string(), "42");
    }

    #[test]
    fn every_field_is_part_of_an_id() {
        assert_ne!(BucketId::new(b"a", 1, 2), BucketId::new(b"a", 2, 1));
        assert_ne!(BucketId::new(b"a", 1, 2), BucketId::new(b"a\0", 1, 2));
        let settings = TrackerSettings { ttl_ms: 1, max_samples: 2, min_sample_threshold: 3 };
        let id = TrackerId::new(b"a", settings);
        assert_ne!(id, TrackerId::new(b"a", TrackerSettings { ttl_ms: 9, ..settings }));
        assert_ne!(id, TrackerId::new(b"a", TrackerSettings { max_samples: 9, ..settings }));
        assert_ne!(id, TrackerId::new(b"a", TrackerSettings { min_sample_threshold: 9, ..settings }));
    }
}

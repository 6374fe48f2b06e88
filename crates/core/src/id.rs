//! Identifiers: content-defined bucket and tracker ids, request ids, server ids (wire.md, "Content-defined ids"
//! and "Discovery").

/// 16-byte id of a resource bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketId(pub [u8; 16]);

impl BucketId {
    /// Id of the bucket `name` (exact bytes, NULs included) with this window and limit.
    pub fn new(name: &[u8], window_size_ms: u32, rate_limit: u32) -> BucketId {
        let _ = (name, window_size_ms, rate_limit);
        todo!()
    }
}

/// 16-byte id of a latency tracker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackerId(pub [u8; 16]);

impl TrackerId {
    /// Id of the tracker `name` (exact bytes) with these settings.
    pub fn new(name: &[u8], settings: TrackerSettings) -> TrackerId {
        let _ = (name, settings);
        todo!()
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub [u8; 16]);

impl RequestId {
    /// Makes a version-4 UUID of 16 random bytes by setting its version and variant bits.
    pub fn from_random(bytes: [u8; 16]) -> RequestId {
        let _ = bytes;
        todo!()
    }
}

/// A server's 64-bit id. The smaller id is the older server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ServerId(pub u64);

impl ServerId {
    /// Reads the id out of an SRV target's first DNS label, `s-<decimal>` in any case without leading zeros.
    /// `target` is the name in text form (`s-1015809.example.com.`). `None`: not of that form or above u64.
    pub fn from_srv_target(target: &str) -> Option<ServerId> {
        let _ = target;
        todo!()
    }
}
// Display of BucketId, TrackerId, RequestId: lower-case hex; Debug the same. Display of ServerId: decimal.

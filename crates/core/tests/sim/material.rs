//! What the simulated world is made of: keys, addresses, and blocks that carry a serial number where a real one
//! carries a hash, so that a request is known again wherever it turns up.

use ratelimitly_core::id::{BucketId, TrackerId, TrackerSettings};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_core::wire::{Guard, Observation, Pdu, Resource};
use std::net::SocketAddr;

/// An AES key with generous quotas.
pub fn key() -> ApiKey {
    key_of(KeyKind::Aes)
}

/// A key of either kind; windows up to 65536 ms.
pub fn key_of(kind: KeyKind) -> ApiKey {
    let quotas = Quotas {
        rate_buckets_max: 1 << 16,
        latency_services_max: 1 << 10,
        metrics_labels_max: 1 << 10,
        latency_buffer_size_max: 1 << 7,
        dedup_ttl_ms_max: 2000,
        rate_window_size_ms_max: 1 << 16,
    };
    ApiKey::new(kind, 4242, [7; 32], quotas).expect("a valid key")
}

/// The address of endpoint `n` of server `id`.
pub fn endpoint(id: u64, n: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, (id >> 8) as u8, id as u8], 4000 + n))
}

pub fn guard(serial: u64) -> Guard {
    Guard { tracker: TrackerId(tag(serial)), settings: settings(), threshold_ms: 100 }
}

pub fn resource(serial: u64) -> Resource {
    Resource { bucket: BucketId(tag(serial)), window_size_ms: 1000, rate_limit: 100, tokens: 1 }
}

pub fn observation() -> Observation {
    Observation { tracker: TrackerId(tag(0)), settings: settings(), latency_ms: 17 }
}

fn settings() -> TrackerSettings {
    TrackerSettings { ttl_ms: 30_000, max_samples: 128, min_sample_threshold: 8 }
}

fn tag(serial: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&serial.to_le_bytes());
    bytes
}

/// The serial number in a request's first block; 0 for a report.
pub fn serial_of(pdu: &Pdu<'_>) -> u64 {
    let Pdu::RateRequest(request) = pdu else { return 0 };
    let first = request.guards().next().map(|guard| guard.tracker.0);
    let first = first.or_else(|| request.resources().next().map(|resource| resource.bucket.0));
    first.map_or(0, |bytes| u64::from_le_bytes(*bytes.first_chunk().expect("16 bytes")))
}

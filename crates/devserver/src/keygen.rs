//! Makes API keys for the development server, with a secret from the system's generator. Called by `cli.rs` and by
//! tests. Such keys mean nothing to the RateLimitly service.

use rand::RngExt;
use ratelimitly_core::key::{ApiKey, KeyError, KeyKind, Quotas};

/// Quotas of a key that nothing else is asked of: 65536 buckets, 1024 latency services, 4096 labels, 1024 samples a
/// tracker, a deduplication TTL of 300 ms at most, windows of every length.
pub fn default_quotas() -> Quotas {
    Quotas {
        rate_buckets_max: 1 << 16,
        latency_services_max: 1 << 10,
        metrics_labels_max: 1 << 12,
        latency_buffer_size_max: 1 << 10,
        dedup_ttl_ms_max: 300,
        rate_window_size_ms_max: u32::MAX,
    }
}

/// A new key with a random secret.
///
/// # Errors
/// `KeyError::Quotas` where a quota cannot be expressed in a key.
pub fn generate(kind: KeyKind, key_id: u64, quotas: Quotas) -> Result<ApiKey, KeyError> {
    ApiKey::new(kind, key_id, rand::rng().random(), quotas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_key_reads_back() {
        for kind in [KeyKind::Aes, KeyKind::Cookie] {
            let text = generate(kind, 42, default_quotas()).unwrap().encode();
            let read = ApiKey::parse(&text).unwrap();
            assert_eq!((read.kind(), read.key_id(), read.quotas()), (kind, 42, &default_quotas()));
        }
    }

    #[test]
    fn no_two_keys_are_equal() {
        let make = || generate(KeyKind::Aes, 42, default_quotas()).unwrap().encode();
        assert_ne!(make(), make());
    }
}

//! The API key: Bech32 text, its payload and quotas (wire.md, "API key"). The secret lives here and nowhere else in
//! clear; it is wiped on drop and no `Debug` output shows it.

/// How datagrams of a key are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// `rl-aes`: AES-256-GCM.
    Aes,
    /// `rl-cookie`: a 32-byte cookie, the PDU in clear.
    Cookie,
}

/// What the key's quota word grants, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Buckets, a power of two up to 2^24.
    pub rate_buckets_max: u32,
    /// Latency services, a power of two up to 2^24.
    pub latency_services_max: u32,
    /// Metrics labels, a power of two up to 2^31.
    pub metrics_labels_max: u32,
    /// Samples a tracker keeps, a power of two up to 2^15.
    pub latency_buffer_size_max: u32,
    /// Longest deduplication TTL, milliseconds, 10..=2000 in steps of 10.
    pub dedup_ttl_ms_max: u32,
    /// Longest rate window, milliseconds: a power of two up to 2^30, or 4294967295.
    pub rate_window_size_ms_max: u32,
}

/// Why a text is no usable API key. Never carries the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Not Bech32 (mixed case, foreign character, checksum, padding …).
    #[error("invalid bech32: {0}")]
    Bech32(&'static str),
    // + Kind (rl-none, rl-secret, others), Length, Version(u8), Quotas(&'static str)
}

/// A decoded API key. `Debug` shows kind and key id only.
#[derive(Clone)]
pub struct ApiKey {
    _private: (),
}

impl ApiKey {
    /// Decodes the text form.
    ///
    /// # Errors
    /// Every departure from wire.md's description, each with its own variant.
    pub fn parse(text: &str) -> Result<ApiKey, KeyError> {
        let _ = text;
        todo!()
    }

    /// Builds a key of its parts (for the development server's `keygen` and tests).
    ///
    /// # Errors
    /// `KeyError::Quotas` where a quota cannot be expressed in the quota word.
    pub fn new(kind: KeyKind, key_id: u64, secret: [u8; 32], quotas: Quotas) -> Result<ApiKey, KeyError> {
        let _ = (kind, key_id, secret, quotas);
        todo!()
    }

    /// The text form, lower case. It contains the secret.
    pub fn encode(&self) -> String {
        todo!()
    }

    /// The key's kind.
    pub fn kind(&self) -> KeyKind {
        todo!()
    }

    /// The key's id.
    pub fn key_id(&self) -> u64 {
        todo!()
    }

    /// The key's quotas.
    pub fn quotas(&self) -> &Quotas {
        todo!()
    }
}

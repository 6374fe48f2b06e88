//! The API key: Bech32 text, its payload and quotas (docs/protocol.md, "API key").
//!
//! Called by the configuration (once per key), the development server and [`crate::wire::Auth`]. The secret lives
//! in one heap place that clones share; it is wiped when the last of them goes. No error and no `Debug` output
//! ever carries the text or the secret.

use bech32::primitives::decode::{
    CharError, CheckedHrpstring, CheckedHrpstringError, UncheckedHrpstringError,
};
use bech32::{Bech32, Hrp};
use std::fmt;
use std::sync::Arc;
use zeroize::{Zeroize, Zeroizing};

/// The only payload format there is.
const FORMAT_VERSION: u8 = 1;
/// Version, key id, secret, quota word.
const PAYLOAD_LEN: usize = 1 + 8 + 32 + 4;
/// 5-bit characters of a payload; it divides evenly, so a right key has no padding at all.
const PAYLOAD_CHARS: usize = PAYLOAD_LEN * 8 / 5;

/// How datagrams of a key are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// `rl-aes`: AES-256-GCM.
    Aes,
    /// `rl-cookie`: a 32-byte cookie, the PDU in clear.
    Cookie,
}

impl KeyKind {
    /// The kind's human-readable part in a key's text.
    pub fn prefix(self) -> &'static str {
        match self {
            KeyKind::Aes => "rl-aes",
            KeyKind::Cookie => "rl-cookie",
        }
    }
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
    /// Bech32 of a kind that is not served: `rl-none`, `rl-secret`, or another that stays unnamed.
    #[error("unsupported API key kind ({0}), must be rl-aes or rl-cookie")]
    Kind(&'static str),
    /// The payload has this many bytes; so do keys of the retired formats without a version.
    #[error("invalid bech32: payload has {0} bytes, an API key has {PAYLOAD_LEN}")]
    Length(usize),
    /// The payload's format version.
    #[error("unknown API key format version {0}, must be {FORMAT_VERSION}")]
    Version(u8),
    /// A quota that the quota word must not hold, or that it cannot express.
    #[error("invalid API key quotas: {0}")]
    Quotas(&'static str),
}

/// A decoded API key. `Debug` shows kind and key id only.
#[derive(Clone)]
pub struct ApiKey {
    kind: KeyKind,
    key_id: u64,
    quotas: Quotas,
    secret: Secret,
}

/// The one place of a secret. Shared rather than copied, so that moving or cloning a key leaves nothing behind.
pub(crate) type Secret = Arc<Zeroizing<[u8; 32]>>;

impl ApiKey {
    /// Decodes the text form.
    ///
    /// # Errors
    /// Each way to differ from docs/protocol.md has its own error variant.
    pub fn parse(text: &str) -> Result<ApiKey, KeyError> {
        let checked = CheckedHrpstring::new::<Bech32>(text).map_err(|error| bech32_error(text, error))?;
        let kind = kind_of(text)?;
        let payload = payload_of(&checked)?;
        let (&[version], rest) = take(payload.as_slice());
        let (key_id, rest) = take::<8>(rest);
        let (secret, rest) = take::<32>(rest);
        let (quota_word, _) = take::<4>(rest);
        if version != FORMAT_VERSION {
            return Err(KeyError::Version(version));
        }
        let quotas = Quotas::from_word(u32::from_le_bytes(*quota_word))?;
        Ok(ApiKey { kind, key_id: u64::from_le_bytes(*key_id), quotas, secret: place(secret) })
    }

    /// Builds a key of its parts (for the development server's `keygen` and tests).
    ///
    /// # Errors
    /// `KeyError::Quotas` where a quota cannot be expressed in the quota word.
    pub fn new(kind: KeyKind, key_id: u64, mut secret: [u8; 32], quotas: Quotas) -> Result<ApiKey, KeyError> {
        let placed = place(&secret);
        secret.zeroize();
        quotas.to_word()?;
        Ok(ApiKey { kind, key_id, quotas, secret: placed })
    }

    /// The text form, lower case. It contains the secret.
    pub fn encode(&self) -> String {
        let mut payload = Zeroizing::new(Vec::with_capacity(PAYLOAD_LEN));
        payload.push(FORMAT_VERSION);
        payload.extend_from_slice(&self.key_id.to_le_bytes());
        payload.extend_from_slice(self.secret.as_slice());
        let word = self.quotas.to_word().expect("checked when the key was made");
        payload.extend_from_slice(&word.to_le_bytes());
        let prefix = Hrp::parse_unchecked(self.kind.prefix());
        bech32::encode_lower::<Bech32>(prefix, &payload).expect("88 characters are within Bech32's 1023")
    }

    /// The key's kind.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The key's id.
    pub fn key_id(&self) -> u64 {
        self.key_id
    }

    /// The key's quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey")
            .field("kind", &self.kind)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

/// Copies the secret straight to its heap place, which a `Zeroizing` built first and moved there would not do.
fn place(secret: &[u8; 32]) -> Secret {
    let mut placed = Secret::new(Zeroizing::new([0; 32]));
    if let Some(bytes) = Arc::get_mut(&mut placed) {
        bytes.copy_from_slice(secret);
    }
    placed
}

fn kind_of(text: &str) -> Result<KeyKind, KeyError> {
    let prefix = text.rsplit_once('1').map_or("", |(prefix, _)| prefix);
    let is = |name: &str| prefix.eq_ignore_ascii_case(name);
    match () {
        () if is("rl-aes") => Ok(KeyKind::Aes),
        () if is("rl-cookie") => Ok(KeyKind::Cookie),
        () if is("rl-none") => Err(KeyError::Kind("rl-none")),
        () if is("rl-secret") => Err(KeyError::Kind("rl-secret")),
        () => Err(KeyError::Kind("unknown")),
    }
}

fn payload_of(checked: &CheckedHrpstring<'_>) -> Result<Zeroizing<[u8; PAYLOAD_LEN]>, KeyError> {
    let chars = checked.data_part_ascii_no_checksum().len();
    if chars * 5 % 8 > 4 {
        return Err(KeyError::Bech32("more than 4 padding bits"));
    }
    // Only now a length can be told; every other one than the right one may have padding, which then is moot.
    if chars != PAYLOAD_CHARS {
        return Err(KeyError::Length(chars * 5 / 8));
    }
    let mut payload = Zeroizing::new([0; PAYLOAD_LEN]);
    for (slot, byte) in payload.iter_mut().zip(checked.byte_iter()) {
        *slot = byte;
    }
    Ok(payload)
}

/// The next field of a payload, whose length was checked before.
fn take<const LEN: usize>(bytes: &[u8]) -> (&[u8; LEN], &[u8]) {
    bytes.split_first_chunk().expect("the fields add up to PAYLOAD_LEN")
}

fn bech32_error(text: &str, error: CheckedHrpstringError) -> KeyError {
    // The decoder reads from the end, so a prefix without separator would be called a foreign character.
    if !text.contains('1') {
        return KeyError::Bech32("no separator");
    }
    KeyError::Bech32(match error {
        CheckedHrpstringError::Parse(UncheckedHrpstringError::Char(char_error)) => match char_error {
            CharError::NothingAfterSeparator => "nothing after the separator",
            CharError::MixedCase => "mixed case",
            _ => "foreign character",
        },
        CheckedHrpstringError::Checksum(_) => "checksum does not match",
        _ => "malformed prefix",
    })
}

impl Quotas {
    /// Decodes the quota word.
    fn from_word(word: u32) -> Result<Quotas, KeyError> {
        let field = |shift: u32, bits: u32| word >> shift & ((1 << bits) - 1);
        let (buckets, services, labels, samples) = (field(0, 5), field(5, 5), field(10, 5), field(15, 4));
        let (dedup, window) = (field(19, 8), field(27, 5));
        if buckets > 24 {
            return Err(KeyError::Quotas("rate buckets above 2^24"));
        }
        if services > 24 {
            return Err(KeyError::Quotas("latency services above 2^24"));
        }
        if !(1..=200).contains(&dedup) {
            return Err(KeyError::Quotas("deduplication TTL outside 10..=2000 ms"));
        }
        Ok(Quotas {
            rate_buckets_max: 1 << buckets,
            latency_services_max: 1 << services,
            metrics_labels_max: 1 << labels,
            latency_buffer_size_max: 1 << samples,
            dedup_ttl_ms_max: dedup * 10,
            rate_window_size_ms_max: if window == 31 { u32::MAX } else { 1 << window },
        })
    }

    /// Encodes the quota word.
    fn to_word(self) -> Result<u32, KeyError> {
        let buckets = exponent(self.rate_buckets_max, 24, "rate buckets are no power of two up to 2^24")?;
        let services =
            exponent(self.latency_services_max, 24, "latency services are no power of two up to 2^24")?;
        let labels = exponent(self.metrics_labels_max, 31, "metrics labels are no power of two")?;
        let samples =
            exponent(self.latency_buffer_size_max, 15, "latency buffer size is no power of two up to 2^15")?;
        let window = match self.rate_window_size_ms_max {
            u32::MAX => 31,
            ms => exponent(ms, 30, "rate window is neither a power of two up to 2^30 ms nor 4294967295 ms")?,
        };
        let dedup = self.dedup_ttl_ms_max;
        if !(10..=2000).contains(&dedup) || !dedup.is_multiple_of(10) {
            return Err(KeyError::Quotas("deduplication TTL is not in 10..=2000 ms in steps of 10"));
        }
        Ok(buckets | services << 5 | labels << 10 | samples << 15 | (dedup / 10) << 19 | window << 27)
    }
}

fn exponent(quota: u32, most: u32, complaint: &'static str) -> Result<u32, KeyError> {
    let exponent = quota.trailing_zeros();
    if quota.is_power_of_two() && exponent <= most { Ok(exponent) } else { Err(KeyError::Quotas(complaint)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTAS: Quotas = Quotas {
        rate_buckets_max: 1 << 24,
        latency_services_max: 1,
        metrics_labels_max: 1 << 31,
        latency_buffer_size_max: 1 << 15,
        dedup_ttl_ms_max: 2000,
        rate_window_size_ms_max: 1 << 30,
    };

    fn refusal(quotas: Quotas) -> KeyError {
        ApiKey::new(KeyKind::Aes, 1, [2; 32], quotas).unwrap_err()
    }

    #[test]
    fn extreme_quotas_survive_the_text_form() {
        let least = Quotas {
            rate_buckets_max: 1,
            latency_services_max: 1 << 24,
            metrics_labels_max: 1,
            latency_buffer_size_max: 1,
            dedup_ttl_ms_max: 10,
            rate_window_size_ms_max: 1,
        };
        let widest_window = Quotas { rate_window_size_ms_max: u32::MAX, ..QUOTAS };
        for quotas in [QUOTAS, least, widest_window] {
            let text = ApiKey::new(KeyKind::Cookie, u64::MAX, [0xFF; 32], quotas).unwrap().encode();
            assert_eq!(*ApiKey::parse(&text).unwrap().quotas(), quotas);
        }
    }

    #[test]
    fn quotas_that_the_word_cannot_express_are_refused() {
        let complaints = [
            refusal(Quotas { rate_buckets_max: 3, ..QUOTAS }),
            refusal(Quotas { rate_buckets_max: 1 << 25, ..QUOTAS }),
            refusal(Quotas { latency_services_max: 1 << 25, ..QUOTAS }),
            refusal(Quotas { metrics_labels_max: 0, ..QUOTAS }),
            refusal(Quotas { latency_buffer_size_max: 1 << 16, ..QUOTAS }),
            refusal(Quotas { dedup_ttl_ms_max: 0, ..QUOTAS }),
            refusal(Quotas { dedup_ttl_ms_max: 15, ..QUOTAS }),
            refusal(Quotas { dedup_ttl_ms_max: 2010, ..QUOTAS }),
            refusal(Quotas { rate_window_size_ms_max: 1 << 31, ..QUOTAS }),
        ];
        assert!(complaints.iter().all(|error| matches!(error, KeyError::Quotas(_))), "{complaints:?}");
    }

    /// Text that never was a key and keys of the retired formats get the same opening words.
    #[test]
    fn undecodable_and_legacy_keys_are_invalid_bech32() {
        let legacy = bech32::encode_lower::<Bech32>(Hrp::parse_unchecked("rl-aes"), &[0; 44]).unwrap();
        let error = |text: &str| ApiKey::parse(text).unwrap_err().to_string();
        assert_eq!(error("random text"), "invalid bech32: no separator");
        assert_eq!(error("rl-aes1nonsense"), "invalid bech32: foreign character");
        assert_eq!(error(&legacy), "invalid bech32: payload has 44 bytes, an API key has 45");
    }

    #[test]
    fn other_kinds_are_refused_without_their_name() {
        let text = bech32::encode_lower::<Bech32>(Hrp::parse_unchecked("my-wallet"), &[1; 45]).unwrap();
        let error = ApiKey::parse(&text).unwrap_err();
        assert_eq!(error.to_string(), "unsupported API key kind (unknown), must be rl-aes or rl-cookie");
    }

    #[test]
    fn a_bech32m_checksum_is_refused() {
        let text = bech32::encode_lower::<bech32::Bech32m>(Hrp::parse_unchecked("rl-aes"), &[1; 45]).unwrap();
        assert_eq!(ApiKey::parse(&text).unwrap_err(), KeyError::Bech32("checksum does not match"));
    }

    #[test]
    fn debug_shows_kind_and_id_only() {
        let key = ApiKey::new(KeyKind::Aes, 42, [0xAB; 32], QUOTAS).unwrap();
        assert_eq!(format!("{key:?}"), "ApiKey { kind: Aes, key_id: 42, .. }");
    }

    #[test]
    fn clones_share_the_secret_instead_of_copying_it() {
        let key = ApiKey::new(KeyKind::Cookie, 42, [0xAB; 32], QUOTAS).unwrap();
        assert!(Arc::ptr_eq(key.secret(), key.clone().secret()));
    }
}

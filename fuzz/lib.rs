//! What the fuzz targets share: the two keys of the vectors, and how a fuzzer's input becomes a datagram. A mutated tag or
//! checksum is nearly always wrong and hides the decoder behind it, so the first byte chooses: the rest as it is, or
//! the rest as content that is sealed here. Used by the targets and by `seeds`.
#![forbid(unsafe_code)]

use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_core::wire::{Auth, MAX_DATAGRAM, Pdu, peek};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::sync::LazyLock;

/// First byte of an input whose rest is a whole datagram, or a key's text.
pub const RAW: u8 = 0;
/// First byte of an input whose rest is a PDU, or a key's payload.
pub const SEALED: u8 = 1;

/// The secrets of the vectors' first AES key and first cookie key.
const AES_FIRST: u8 = 0;
const COOKIE_FIRST: u8 = 0x64;
/// TLV type, size and content of the tenant that sealed inputs get.
const TENANT: [u8; 40] = {
    let mut tenant = [0x11; 40];
    (tenant[0], tenant[1], tenant[2], tenant[3]) = (0x52, 0x4C, 40, 0);
    tenant
};
const NONCE: [u8; 12] = *b"twelve bytes";

static AES: LazyLock<Auth> = LazyLock::new(|| Auth::new(&key(KeyKind::Aes)));
static COOKIE: LazyLock<Auth> = LazyLock::new(|| Auth::new(&key(KeyKind::Cookie)));

/// The opener of a kind's key.
pub fn auth(kind: KeyKind) -> &'static Auth {
    match kind {
        KeyKind::Aes => &AES,
        KeyKind::Cookie => &COOKIE,
    }
}

/// The key of the vectors.
pub fn key(kind: KeyKind) -> ApiKey {
    let quotas = Quotas {
        rate_buckets_max: 65536,
        latency_services_max: 1024,
        metrics_labels_max: 4096,
        latency_buffer_size_max: 32,
        dedup_ttl_ms_max: 300,
        rate_window_size_ms_max: u32::MAX,
    };
    let key_id = if kind == KeyKind::Aes { 4242 } else { 77 };
    ApiKey::new(kind, key_id, secret(kind), quotas).expect("quotas of the vectors")
}

fn secret(kind: KeyKind) -> [u8; 32] {
    let first = if kind == KeyKind::Aes { AES_FIRST } else { COOKIE_FIRST };
    std::array::from_fn(|at| first + at as u8)
}

/// The datagram that an input stands for; `None` where the input is empty or longer than any datagram that is read.
pub fn datagram(kind: KeyKind, input: &[u8]) -> Option<Vec<u8>> {
    let (&first, rest) = input.split_first()?;
    let datagram = if first & 1 == RAW { rest.to_vec() } else { sealed(kind, rest) };
    (datagram.len() <= MAX_DATAGRAM).then_some(datagram)
}

fn sealed(kind: KeyKind, pdu: &[u8]) -> Vec<u8> {
    let mut datagram = TENANT.to_vec();
    match kind {
        KeyKind::Aes => {
            datagram.extend([0x41, 0x45, 32, 0]);
            datagram.extend(NONCE);
            let mut content = pdu.to_vec();
            let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &secret(kind)).expect("32 bytes"));
            let nonce = Nonce::assume_unique_for_key(NONCE);
            let tag = cipher.seal_in_place_separate_tag(nonce, Aad::from(&datagram), &mut content);
            datagram.extend(tag.expect("a short text can be sealed").as_ref());
            datagram.extend(content);
        }
        KeyKind::Cookie => {
            datagram.extend([0x43, 0x41, 36, 0]);
            datagram.extend(secret(kind));
            datagram.extend(pdu);
        }
    }
    datagram
}

/// A response target: whatever opens and is a response must be the same after it has been sealed and opened again.
///
/// # Panics
/// It is not: a finding.
pub fn response(kind: KeyKind, input: &[u8]) {
    let Some(mut received) = datagram(kind, input) else { return };
    let claimed = peek(&received);
    let Ok((tenant, pdu)) = auth(kind).open(&mut received) else { return };
    assert_eq!(claimed, Ok(tenant));
    let Pdu::RateResponse(view) = pdu else { return };
    let (guards, resources): (Vec<_>, Vec<_>) = (view.guards().collect(), view.resources().collect());
    let no_deficit = resources.iter().all(|resource| resource.deficit == 0);
    assert_eq!(view.grants(), no_deficit && guards.iter().all(|guard| guard.passes()));

    let mut again = Vec::new();
    let sealed = auth(kind).seal_rate_response(&mut again, &tenant, b"another 12 b", &guards, &resources);
    sealed.expect("it came in a datagram");
    let (_, pdu) = auth(kind).open(&mut again).expect("a datagram of our own opens");
    let Pdu::RateResponse(view) = pdu else { panic!("a response stays one") };
    assert!(view.guards().eq(guards) && view.resources().eq(resources));
}

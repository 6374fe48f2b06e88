//! Limits and edges that the known-answer vectors do not reach.

use super::*;
use crate::key::{ApiKey, Quotas};

const TENANT: Tenant = Tenant {
    key_or_server_id: 77,
    request_id: RequestId([7; 16]),
    timestamp_ms: 1_790_000_000_123,
    steering_feedback: 0,
};
const NONCE: [u8; 12] = [9; 12];
const RESOURCE: Resource =
    Resource { bucket: BucketId([3; 16]), window_size_ms: 1000, rate_limit: 100, tokens: 1 };
const REQUEST: RateRequest<'static> =
    RateRequest { dedup_ttl_ms: 60, guards: &[], resources: &[RESOURCE], label: None };

fn auth(kind: KeyKind) -> Auth {
    let quotas = Quotas {
        rate_buckets_max: 1,
        latency_services_max: 1,
        metrics_labels_max: 1,
        latency_buffer_size_max: 1,
        dedup_ttl_ms_max: 60,
        rate_window_size_ms_max: u32::MAX,
    };
    Auth::new(&ApiKey::new(kind, 77, [0xC5; 32], quotas).unwrap())
}

fn sealed(auth: &Auth, label: Option<&[u8]>) -> Vec<u8> {
    let mut out = vec![];
    auth.seal_rate_request(&mut out, &TENANT, &NONCE, &RateRequest { label, ..REQUEST }).unwrap();
    out
}

#[test]
fn a_label_may_have_256_bytes_and_no_more() {
    let auth = auth(KeyKind::Aes);
    assert_eq!(sealed(&auth, Some(&[b'l'; 256])).len(), 376);
    let request = RateRequest { label: Some(&[b'l'; 257]), ..REQUEST };
    let mut out = vec![1];
    let error = auth.seal_rate_request(&mut out, &TENANT, &NONCE, &request).unwrap_err();
    assert_eq!(error.to_string(), "label has 257 bytes, at most 256 are allowed");
    assert_eq!(out, []);
}

#[test]
fn an_empty_label_is_no_label() {
    let auth = auth(KeyKind::Cookie);
    assert_eq!(sealed(&auth, Some(b"")), sealed(&auth, None));
}

#[test]
fn too_large_names_the_bytes_needed() {
    let auth = auth(KeyKind::Cookie);
    let observations = [Observation {
        tracker: TrackerId([1; 16]),
        settings: TrackerSettings { ttl_ms: 1, max_samples: 1, min_sample_threshold: 1 },
        latency_ms: 1,
    }; 40];
    let mut out = vec![1];
    let error = auth.seal_report(&mut out, &TENANT, &NONCE, &observations).unwrap_err();
    assert_eq!(error.to_string(), "request needs 1368 bytes, a datagram holds 1200");
    assert_eq!(out, []);
}

#[test]
fn the_largest_requests_are_those_of_the_specification() {
    let fits = |kind, guards, resources| rate_request_size(kind, guards, resources, 0) <= MAX_DATAGRAM;
    assert!(fits(KeyKind::Aes, 0, 39) && fits(KeyKind::Cookie, 0, 39));
    assert!(!fits(KeyKind::Aes, 0, 40) && !fits(KeyKind::Cookie, 0, 40));
    assert!(fits(KeyKind::Aes, 31, 0) && !fits(KeyKind::Aes, 32, 0));
    assert!(fits(KeyKind::Cookie, 30, 0) && !fits(KeyKind::Cookie, 31, 0));
    assert!(
        !fits(KeyKind::Aes, usize::MAX, usize::MAX) && report_size(KeyKind::Aes, usize::MAX) > MAX_DATAGRAM
    );
}

#[test]
fn sealing_again_keeps_the_buffer() {
    let (auth, mut out) = (auth(KeyKind::Aes), Vec::with_capacity(MAX_DATAGRAM));
    let place = out.as_ptr();
    for label in [None, Some(&[b'l'; 256][..]), Some(b"x")] {
        auth.seal_rate_request(&mut out, &TENANT, &NONCE, &RateRequest { label, ..REQUEST }).unwrap();
    }
    assert_eq!((out.as_ptr(), out.capacity()), (place, MAX_DATAGRAM));
}

#[test]
fn aes_hides_the_pdu_and_authenticates_all_before_it() {
    let auth = auth(KeyKind::Aes);
    let original = sealed(&auth, None);
    assert!(!original.windows(16).any(|bytes| bytes == RESOURCE.bucket.0));
    // Type and size fields fail as what they are, whatever is changed elsewhere fails the tag.
    for at in (4..40).chain(44..original.len()) {
        let mut changed = original.clone();
        changed[at] ^= 1;
        assert_eq!(auth.open(&mut changed).map(|_| ()), Err(DecodeError::Authentication), "byte {at}");
    }
}

#[test]
fn observers_read_the_nonce_of_aes_datagrams_only() {
    let (aes, cookie) = (auth(KeyKind::Aes), auth(KeyKind::Cookie));
    let (hidden, clear) = (sealed(&aes, None), sealed(&cookie, None));
    assert_eq!((aes.nonce(&hidden), aes.nonce(&clear), cookie.nonce(&hidden)), (Some(NONCE), None, None));
    assert_eq!((aes.nonce(&hidden[..55]), aes.nonce(&hidden[..56])), (None, Some(NONCE)));
}

#[test]
fn every_cookie_byte_counts() {
    let auth = auth(KeyKind::Cookie);
    let original = sealed(&auth, None);
    for at in 44..76 {
        let mut changed = original.clone();
        changed[at] ^= 0x80;
        assert_eq!(auth.open(&mut changed).map(|_| ()), Err(DecodeError::Authentication), "byte {at}");
    }
}

#[test]
fn every_cut_of_a_datagram_is_refused() {
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let auth = auth(kind);
        let original = sealed(&auth, Some(b"scope"));
        for len in 0..original.len() {
            let error = auth.open(&mut original[..len].to_vec()).map(|_| ()).unwrap_err();
            let expected = if kind == KeyKind::Aes && len >= 72 {
                DecodeError::Authentication
            } else {
                DecodeError::Truncated
            };
            assert_eq!(error, expected, "{kind:?} cut to {len}");
        }
    }
}

#[test]
fn a_tenant_size_outside_the_datagram_is_refused() {
    let mut datagram = sealed(&auth(KeyKind::Cookie), None);
    let mut with_size = |size: u16| {
        datagram[2..4].copy_from_slice(&size.to_le_bytes());
        peek(&datagram).map(|tenant| tenant.key_or_server_id)
    };
    assert_eq!(with_size(39), Err(DecodeError::Size(39)));
    assert_eq!(with_size(40), Ok(77));
    assert_eq!(with_size(116), Ok(77));
    assert_eq!(with_size(117), Err(DecodeError::Truncated));
}

/// Offsets in a cookie datagram with one resource: the label TLV starts behind head, header, counts and block.
#[test]
fn a_label_that_does_not_fill_its_tlv_is_refused() {
    const LABEL_AT: usize = 76 + 8 + 4 + 28;
    let auth = auth(KeyKind::Cookie);
    let original = sealed(&auth, Some(b"scope"));
    let label_of = |at: usize, value: u16| {
        let mut datagram = original.clone();
        datagram[at..at + 2].copy_from_slice(&value.to_le_bytes());
        match auth.open(&mut datagram) {
            Ok((_, Pdu::RateRequest(view))) => Ok(view.label.map(<[u8]>::to_vec)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        }
    };
    assert_eq!(label_of(LABEL_AT, 0x4C4D), Ok(Some(b"scope".to_vec())));
    assert_eq!(label_of(LABEL_AT, 0x4C4E), Ok(None), "another TLV is ignored");
    assert_eq!(label_of(LABEL_AT + 2, 16), Err(DecodeError::Label));
    assert_eq!(label_of(LABEL_AT + 4, 0), Err(DecodeError::Label));
    assert_eq!(label_of(LABEL_AT + 4, 7), Err(DecodeError::Truncated));
}

#[test]
fn a_guard_passes_strictly_below_its_threshold() {
    let settings = TrackerSettings { ttl_ms: 1, max_samples: 1, min_sample_threshold: 1 };
    let guard = Guard { tracker: TrackerId([1; 16]), settings, threshold_ms: 100 };
    let passes = |current_latency_ms| GuardAnswer { guard, current_latency_ms }.passes();
    assert_eq!([0, 99, 100, 101].map(passes), [true, true, false, false]);
}

#[test]
fn debug_shows_the_kind_only() {
    assert_eq!(format!("{:?}", auth(KeyKind::Cookie)), "Auth { kind: Cookie, .. }");
}

#[test]
fn g15_an_observed_latency_is_clamped_to_what_the_wire_holds() {
    let clamped = [0, 1, 2, 4_294_967_295, 4_294_967_296, u64::MAX].map(Observation::latency_of);
    assert_eq!(clamped, [1, 1, 2, u32::MAX, u32::MAX, u32::MAX]);
}

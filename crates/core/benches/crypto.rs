//! What the codec costs for each admission: sealing a request, opening a response, making an id.
//!
//! Evidence for the choice of the AES-GCM crate as well. The candidates were compared once, outside the repository,
//! for building all of them takes minutes: least nanoseconds over 1000 batches, Zen 3 with AES-NI, 56 bytes of
//! authenticated data, PDU of 40 / 120 / 600 bytes.
//!
//! | crate | seal | open, tag in front of the ciphertext |
//! |---|---|---|
//! | ring 0.17 | 152 / 167 / 247 | 152 / 164 / 250 |
//! | aws-lc-rs 1.19 | 187 / 205 / 380 | 197 / 222 / 370 (not in place; 208 / 237 / 395 after moving the tag) |
//! | aes-gcm 0.11 | 228 / 265 / 455 | 232 / 270 / 475 |
//!
//! A bucket id in the five updates that `id` makes: blake2s_simd 1.0 145, blake2 0.11 162 (one buffer and one
//! update instead would save 12, which is not worth a limit on names).

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use ratelimitly_core::id::{BucketId, RequestId, TrackerId, TrackerSettings};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_core::wire::{Auth, Guard, Pdu, RateRequest, Resource, ResourceAnswer, Tenant};
use std::hint::black_box;

const QUOTAS: Quotas = Quotas {
    rate_buckets_max: 65536,
    latency_services_max: 1024,
    metrics_labels_max: 4096,
    latency_buffer_size_max: 32,
    dedup_ttl_ms_max: 300,
    rate_window_size_ms_max: u32::MAX,
};
const SETTINGS: TrackerSettings =
    TrackerSettings { ttl_ms: 30_000, max_samples: 128, min_sample_threshold: 8 };
const TENANT: Tenant = Tenant {
    key_or_server_id: 4242,
    request_id: RequestId([7; 16]),
    timestamp_ms: 1_790_000_000_123,
    steering_feedback: 0,
};
const NONCE: [u8; 12] = [9; 12];

fn auth(kind: KeyKind) -> Auth {
    Auth::new(&ApiKey::new(kind, 4242, [5; 32], QUOTAS).expect("quotas are expressible"))
}

fn seal(c: &mut Criterion) {
    let resource = Resource {
        bucket: BucketId::new(b"checkout", 1000, 100),
        window_size_ms: 1000,
        rate_limit: 100,
        tokens: 1,
    };
    let guard =
        Guard { tracker: TrackerId::new(b"backend", SETTINGS), settings: SETTINGS, threshold_ms: 100 };
    let small = RateRequest { dedup_ttl_ms: 60, guards: &[], resources: &[resource], label: None };
    let resources = [resource; 4];
    let larger = RateRequest { guards: &[guard], resources: &resources, label: Some(b"scope=api"), ..small };
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let (auth, mut out) = (auth(kind), Vec::with_capacity(1200));
        for (name, request) in [("1 resource", &small), ("1 guard, 4 resources, label", &larger)] {
            c.bench_function(&format!("seal request, {kind:?}, {name}"), |b| {
                b.iter(|| auth.seal_rate_request(&mut out, black_box(&TENANT), &NONCE, black_box(request)));
            });
        }
    }
}

fn open(c: &mut Criterion) {
    let answer = ResourceAnswer {
        bucket: BucketId::new(b"checkout", 1000, 100),
        window_size_ms: 1000,
        actual_rate: 1,
        deficit: 0,
    };
    for kind in [KeyKind::Aes, KeyKind::Cookie] {
        let (auth, mut sealed) = (auth(kind), Vec::new());
        auth.seal_rate_response(&mut sealed, &TENANT, &NONCE, &[], &[answer]).expect("fits");
        let sealed: [u8; 116] = {
            sealed.resize(116, 0);
            sealed.try_into().expect("just resized")
        };
        let len = if kind == KeyKind::Aes { 112 } else { 116 };
        c.bench_function(&format!("open response, {kind:?}, 1 resource"), |b| {
            b.iter_batched_ref(
                || sealed,
                |datagram| match auth.open(&mut datagram[..len]) {
                    Ok((_, Pdu::RateResponse(view))) => view.grants(),
                    other => panic!("{other:?}"),
                },
                BatchSize::SmallInput,
            );
        });
    }
}

fn ids(c: &mut Criterion) {
    c.bench_function("bucket id, 20-byte name", |b| {
        b.iter(|| BucketId::new(black_box(b"checkout:203.0.113.7"), 1000, 100));
    });
    c.bench_function("tracker id, 7-byte name", |b| {
        b.iter(|| TrackerId::new(black_box(b"backend"), SETTINGS));
    });
}

criterion_group!(benches, seal, open, ids);
criterion_main!(benches);

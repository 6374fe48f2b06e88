//! What one admission costs in the core: building and sealing its request, opening and judging its answer, with
//! every output drained as the module does it. With 1, 100 and 10,000 in flight, answers in the order of the requests.
//!
//! The client's ids follow from its seed, so that all answers are sealed beforehand by a twin client with the same
//! seed and nothing but the client's own work is timed. For comparison: bare AES-256-GCM over the same bytes.
//! Times are this thread's processor time, so that other programs on the machine count as little as can be.

use cpu_time::ThreadTime;
use criterion::{Criterion, criterion_group, criterion_main};
use ratelimitly_core::client::{Ask, Client, Discovered, Outcome, SendResult};
use ratelimitly_core::id::{BucketId, ServerId};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_core::membership::{Member, Membership};
use ratelimitly_core::policy::Policy;
use ratelimitly_core::time::{Millis, WallMillis};
use ratelimitly_core::wire::{self, Auth, Resource, ResourceAnswer, Tenant};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

const QUOTAS: Quotas = Quotas {
    rate_buckets_max: 65536,
    latency_services_max: 1024,
    metrics_labels_max: 4096,
    latency_buffer_size_max: 32,
    dedup_ttl_ms_max: 300,
    rate_window_size_ms_max: u32::MAX,
};
const NOW: Millis = Millis(1_000);
const WALL: WallMillis = WallMillis(1_790_000_000_123);
/// Admissions of one timed run: a few milliseconds, so that some runs pass undisturbed even on a busy machine.
const RUN: usize = 4_000;
/// A one-resource answer under AES: tenant TLV 40, auth TLV 32, PDU 40.
const ANSWER_LEN: usize = 112;
/// Datagrams that a caller receives into, in turn.
const RECEIVE_BUFFERS: usize = 64;

type Answer = [u8; ANSWER_LEN];

fn key() -> ApiKey {
    ApiKey::new(KeyKind::Aes, 4242, [5; 32], QUOTAS).expect("quotas are expressible")
}

/// Who names the bucket: the caller, or the client's user for each request.
#[derive(Clone, Copy)]
enum Bucket {
    Given(BucketId),
    Computed,
}

impl Bucket {
    fn resource(self) -> Resource {
        let bucket = match self {
            Bucket::Given(bucket) => bucket,
            Bucket::Computed => BucketId::new(black_box(b"checkout:203.0.113.7"), 1000, 100),
        };
        Resource { bucket, window_size_ms: 1000, rate_limit: 100, tokens: 1 }
    }
}

/// A client with `servers` members.
fn client(servers: u64) -> Client {
    let mut client = Client::new(&key(), Policy::standard(20).expect("a policy"), [11; 32]);
    let endpoint = |id| ([127, 0, 0, 1], 4000 + id as u16).into();
    let members = (0..servers).map(|id| Member { id: ServerId(id), endpoints: vec![endpoint(id)] }).collect();
    let membership = Arc::new(Membership::new(members).expect("members"));
    client.handle_discovered(NOW, Discovered { membership, ttl_s: 300, partial: false });
    client
}

/// Starts an admission and drains what it wants; `send` stands for the socket.
#[inline]
fn start(client: &mut Client, bucket: Bucket, mut send: impl FnMut(&[u8])) {
    let ask = Ask { guards: &[], resources: &[bucket.resource()], label: b"" };
    client.start(NOW, WALL, black_box(&ask)).expect("an admission starts");
    let mut sent = 0;
    for transmit in client.transmits(NOW, 8) {
        send(black_box(transmit.bytes));
        sent += 1;
    }
    client.handle_sent(NOW, &[SendResult::Sent; 8][..sent]);
    while client.poll_deadline().is_some() {}
    black_box(client.poll_discovery(NOW));
}

/// Takes in one answer and its completion, if it is the one that decides.
#[inline]
fn judge(client: &mut Client, answer: &mut Answer) -> Option<Outcome> {
    client.handle_datagram(answer);
    client.finish_batch(NOW);
    client.poll_completion().map(|completion| completion.outcome)
}

/// The answers of server `id` to the first `count` requests of a client.
fn answers(id: u64, count: usize) -> Vec<Answer> {
    let (mut twin, auth) = (client(1), Auth::new(&key()));
    let mut answers = Vec::with_capacity(count);
    let resource = Bucket::Computed.resource();
    let granted =
        ResourceAnswer { bucket: resource.bucket, window_size_ms: 1000, actual_rate: 1, deficit: 0 };
    let mut bytes = Vec::new();
    for _ in 0..count {
        start(&mut twin, Bucket::Given(resource.bucket), |datagram| {
            let asked = wire::peek(datagram).expect("a request");
            let tenant = Tenant { key_or_server_id: id, steering_feedback: 1, ..asked };
            auth.seal_rate_response(&mut bytes, &tenant, &[9; 12], &[], &[granted]).expect("it fits");
            answers.push(bytes.as_slice().try_into().expect("the answer's known length"));
        });
    }
    answers
}

/// Time of `RUN` admissions while `in_flight` are in flight: each step starts one and judges the oldest.
#[inline(never)] // A name for profilers to count by.
fn run(in_flight: usize, bucket: Bucket, answers: &[Vec<Answer>]) -> Duration {
    let mut client = client(answers.len() as u64);
    for _ in 1..in_flight {
        start(&mut client, bucket, |_| {});
    }
    let mut received = [[0; ANSWER_LEN]; RECEIVE_BUFFERS];
    let began = ThreadTime::now();
    for step in 0..RUN {
        start(&mut client, bucket, |_| {});
        for (nth, answers) in answers.iter().enumerate() {
            let buffer = &mut received[step % RECEIVE_BUFFERS];
            buffer.copy_from_slice(&answers[step]);
            let outcome = judge(&mut client, buffer);
            assert_eq!(outcome, (nth == 0).then_some(Outcome::Allow));
        }
    }
    let took = began.elapsed();
    assert_eq!(client.in_flight(), in_flight - 1);
    took
}

fn bench(c: &mut Criterion, name: &str, in_flight: usize, bucket: Bucket, answers: &[Vec<Answer>]) {
    c.bench_function(name, |bencher| {
        bencher.iter_custom(|iterations| {
            // Whole runs only: filling the client is part of each.
            let runs = iterations.div_ceil(RUN as u64);
            let took: Duration = (0..runs).map(|_| run(in_flight, bucket, answers)).sum();
            took.mul_f64(iterations as f64 / (runs * RUN as u64) as f64)
        });
    });
}

fn admissions(c: &mut Criterion) {
    let one = [answers(0, RUN)];
    let given = Bucket::Given(Bucket::Computed.resource().bucket);
    for in_flight in [1, 100, 10_000] {
        bench(c, &format!("admission, id given, {in_flight} in flight"), in_flight, given, &one);
    }
    for in_flight in [1, 10_000] {
        bench(
            c,
            &format!("admission, id computed, {in_flight} in flight"),
            in_flight,
            Bucket::Computed,
            &one,
        );
    }
    let three = [0, 1, 2].map(|id| answers(id, RUN));
    bench(c, "admission, id given, 3 servers that all answer, 100 in flight", 100, given, &three);
}

/// Sealing and opening 40 bytes of PDU with 56 bytes of authenticated data, and nothing else.
fn bare(c: &mut Criterion) {
    let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &[5; 32]).expect("a key"));
    let (authenticated, mut pdu) = ([3; 56], [7; 40]);
    let nonce = || Nonce::assume_unique_for_key([9; 12]);
    c.bench_function("bare AES-256-GCM, seal and open", |bencher| {
        let mut both = || {
            let aad = Aad::from(black_box(&authenticated));
            let tag = cipher.seal_in_place_separate_tag(nonce(), aad, black_box(&mut pdu)).expect("sealed");
            let aad = Aad::from(black_box(&authenticated));
            black_box(cipher.open_in_place_separate_tag(nonce(), aad, tag, black_box(&mut pdu), 0..)).is_ok()
        };
        bencher.iter_custom(|iterations| {
            let began = ThreadTime::now();
            for _ in 0..iterations {
                assert!(both());
            }
            began.elapsed()
        });
    });
}

criterion_group!(benches, bare, admissions);
criterion_main!(benches);

//! Fresh bytes in the generator of request ids and nonces: two clients with one state, as two machines restored from one
//! snapshot have, draw the same until they are stirred, and never afterwards.

use ratelimitly_core::client::{Ask, Client, Discovered};
use ratelimitly_core::id::{BucketId, ServerId};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_core::membership::{Member, Membership};
use ratelimitly_core::policy::Policy;
use ratelimitly_core::time::{Millis, WallMillis};
use ratelimitly_core::wire::Resource;
use std::sync::Arc;

fn client(seed: [u8; 32]) -> Client {
    let quotas = Quotas {
        rate_buckets_max: 1 << 16,
        latency_services_max: 1 << 10,
        metrics_labels_max: 1 << 10,
        latency_buffer_size_max: 1 << 7,
        dedup_ttl_ms_max: 2000,
        rate_window_size_ms_max: 1 << 16,
    };
    let key = ApiKey::new(KeyKind::Aes, 4242, [7; 32], quotas).expect("a valid key");
    let mut client = Client::new(&key, Policy::standard(20).expect("a policy"), seed);
    let endpoints = vec!["127.0.0.1:4000".parse().expect("an address")];
    let membership = Membership::new(vec![Member { id: ServerId(7), endpoints }]).expect("a member");
    client.handle_discovered(
        Millis(0),
        Discovered { membership: Arc::new(membership), ttl_s: 300, partial: false },
    );
    client
}

/// The datagram of one admission, its nonce included.
fn datagram(client: &mut Client) -> Vec<u8> {
    let resource = Resource { bucket: BucketId([1; 16]), window_size_ms: 1000, rate_limit: 100, tokens: 1 };
    let ask = Ask { guards: &[], resources: &[resource], label: b"" };
    let key = client.start(Millis(0), WallMillis(0), &ask).expect("it starts");
    let bytes = client.transmits(Millis(0), 64).last().expect("a datagram").bytes.to_vec();
    client.cancel(key);
    bytes
}

#[test]
fn clients_with_one_state_draw_the_same_until_they_are_stirred_with_different_bytes() {
    let (mut one, mut other) = (client([3; 32]), client([3; 32]));
    assert_eq!(datagram(&mut one), datagram(&mut other), "one state");

    one.stir(&[1; 32]);
    other.stir(&[2; 32]);

    assert_ne!(datagram(&mut one), datagram(&mut other));
    assert_ne!(datagram(&mut one), datagram(&mut other));
}

#[test]
fn fresh_bytes_are_mixed_with_the_old_state_and_do_not_replace_it() {
    let (mut one, mut other) = (client([3; 32]), client([4; 32]));

    one.stir(&[0; 32]);
    other.stir(&[0; 32]);

    assert_ne!(datagram(&mut one), datagram(&mut other), "bytes that an attacker knows replace nothing");
}

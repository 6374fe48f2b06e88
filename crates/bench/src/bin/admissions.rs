//! So many admissions in the core and nothing else: what `ci/bench --check` counts the instructions of. Answers are sealed
//! by the same key's server side, so that half of the work is a server's; it is the same in every run.
#![forbid(unsafe_code)]

use ratelimitly_core::client::{Ask, Client, Discovered, Outcome, SendResult};
use ratelimitly_core::id::{BucketId, ServerId};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_core::membership::{Member, Membership};
use ratelimitly_core::policy::Policy;
use ratelimitly_core::time::{Millis, WallMillis};
use ratelimitly_core::wire::{self, Auth, Resource, ResourceAnswer, Tenant};
use std::sync::Arc;

const NOW: Millis = Millis(1_000);
const WALL: WallMillis = WallMillis(1_790_000_000_123);
const SERVER: u64 = 7;
const QUOTAS: Quotas = Quotas {
    rate_buckets_max: 65536,
    latency_services_max: 1024,
    metrics_labels_max: 4096,
    latency_buffer_size_max: 32,
    dedup_ttl_ms_max: 300,
    rate_window_size_ms_max: u32::MAX,
};

fn main() {
    let times = std::env::args().nth(1).and_then(|times| times.parse().ok());
    let times: u64 = times.expect("the argument is a number of admissions");
    let key = ApiKey::new(KeyKind::Aes, 4242, [5; 32], QUOTAS).expect("the quotas are expressible");
    let (mut client, auth) = (client(&key), Auth::new(&key));
    let mut datagram = Vec::new();
    for nth in 0..times {
        ask(&mut client, &auth, nth, &mut datagram);
        client.handle_datagram(&mut datagram);
        client.finish_batch(NOW);
        let outcome = client.poll_completion().map(|completion| completion.outcome);
        assert_eq!(outcome, Some(Outcome::Allow));
    }
}

fn client(key: &ApiKey) -> Client {
    let mut client = Client::new(key, Policy::standard(20).expect("a policy"), [11; 32]);
    let member = Member { id: ServerId(SERVER), endpoints: vec![([127, 0, 0, 1], 4000).into()] };
    let membership = Arc::new(Membership::new(vec![member]).expect("a member"));
    client.handle_discovered(NOW, Discovered { membership, ttl_s: 300, partial: false });
    client
}

/// Starts an admission, drains what it wants, and puts the answer to it into `answer`.
fn ask(client: &mut Client, auth: &Auth, nth: u64, answer: &mut Vec<u8>) {
    let bucket = BucketId([3; 16]);
    let resource = Resource { bucket, window_size_ms: 1000, rate_limit: 100, tokens: 1 };
    let ask = Ask { guards: &[], resources: &[resource], label: b"" };
    client.start(NOW, WALL, &ask).expect("an admission starts");
    let sent = client.transmits(NOW, 64).next().expect("a datagram").bytes;
    let asked = wire::peek(sent).expect("a request");
    let tenant = Tenant { key_or_server_id: SERVER, steering_feedback: 1, ..asked };
    let granted = ResourceAnswer { bucket, window_size_ms: 1000, actual_rate: 1, deficit: 0 };
    let mut nonce = [9; 12];
    nonce[..8].copy_from_slice(&nth.to_le_bytes());
    auth.seal_rate_response(answer, &tenant, &nonce, &[], &[granted]).expect("it fits a datagram");
    client.handle_sent(NOW, &[SendResult::Sent]);
    while client.poll_deadline().is_some() {}
    client.poll_discovery(NOW);
}

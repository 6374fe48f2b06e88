//! A simulated world in which the module's own core asks servers at a distance: a clock of microseconds, a network with
//! delay, jitter and loss, and servers that always allow. All chance comes from one seed, so each world repeats exactly.
//!
//! Called by `distances.rs` for each cell of its table. The core sees time as under nginx, in whole milliseconds, and its
//! timers fire at such a moment. Nothing here sleeps or opens a socket. It has no event loop that is busy: each datagram is
//! handled when it arrives.

use fastrand::Rng;
use ratelimitly_core::client::{AdmissionKey, Ask, Client, Counters, Discovered, Outcome, SendResult};
use ratelimitly_core::id::{BucketId, ServerId};
use ratelimitly_core::key::KeyKind;
use ratelimitly_core::membership::{Member, Membership};
use ratelimitly_core::policy::Policy;
use ratelimitly_core::time::{Millis, WallMillis};
use ratelimitly_core::wire::{Auth, Pdu, Resource, ResourceAnswer, Tenant};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

/// Requests per second, at random moments.
const RATE: f64 = 500.0;
/// Half the width of a round trip's spread, as a share of the round trip: 0.1 is "within 10%".
const JITTER: f64 = 0.1;
/// Most transmits that are taken at once.
const BATCH: usize = 64;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Microseconds to a server and back, without jitter.
    pub round_trip_us: u64,
    /// Share of datagrams that the network loses, 0 to 1, in either direction.
    pub loss: f64,
    /// The policy.
    pub policy: Policy,
    /// Servers, all at the same distance.
    pub servers: u64,
    /// Whether the oldest server never answers.
    pub oldest_dead: bool,
}

/// What came of a world's admissions.
#[derive(Clone, Debug)]
pub struct Outcomes {
    /// Milliseconds that each admission took, failures included, in the order of their ends.
    pub waited_ms: Vec<f64>,
    /// Admissions without a verdict.
    pub failures: usize,
    /// The core's own counts.
    pub counters: Counters,
}

/// What happens at a moment.
enum Event {
    Request,
    ToServer { to: SocketAddr, bytes: Vec<u8> },
    ToClient { bytes: Vec<u8> },
    Timer { key: AdmissionKey },
}

struct World {
    client: Client,
    auth: Auth,
    setting: Setting,
    random: Rng,
    now_us: u64,
    /// By time and then by number, so that events of one moment keep their order.
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    /// When each admission in flight began, microseconds.
    started: HashMap<AdmissionKey, u64>,
    outcomes: Outcomes,
}

/// Runs so many admissions to their ends.
pub fn run(setting: &Setting, admissions: u64, seed: u64) -> Outcomes {
    let mut world = World::new(setting, seed);
    let mut at = 0.0;
    for _ in 0..admissions {
        at -= world.random.f64().max(f64::MIN_POSITIVE).ln() * 1e6 / RATE;
        world.schedule(at as u64, Event::Request);
    }
    while let Some(((at, _), event)) = world.events.pop_first() {
        world.now_us = at;
        world.handle(event);
    }
    world.outcomes.counters = world.client.counters();
    world.outcomes
}

impl World {
    fn new(setting: &Setting, seed: u64) -> World {
        let mut random = Rng::with_seed(seed);
        let mut bytes = [0; 32];
        bytes.fill_with(|| random.u8(..));
        let key = ratelimitly_harness::key(KeyKind::Aes);
        let mut client = Client::new(&key, setting.policy.clone(), bytes);
        let members =
            (1..=setting.servers).map(|id| Member { id: ServerId(id), endpoints: vec![address(id)] });
        let membership = Arc::new(Membership::new(members.collect()).expect("servers with addresses"));
        client.handle_discovered(Millis(0), Discovered { membership, ttl_s: 300, partial: false });
        let outcomes = Outcomes { waited_ms: Vec::new(), failures: 0, counters: Counters::default() };
        World {
            client,
            auth: Auth::new(&key),
            setting: setting.clone(),
            random,
            now_us: 0,
            events: BTreeMap::new(),
            scheduled: 0,
            started: HashMap::new(),
            outcomes,
        }
    }

    /// The time as nginx's clock has it.
    fn now(&self) -> Millis {
        Millis(self.now_us / 1_000)
    }

    fn schedule(&mut self, at_us: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((at_us.max(self.now_us), self.scheduled), event);
    }

    fn handle(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Request => self.start(),
            Event::ToServer { to, bytes } => return self.serve(to, bytes),
            Event::ToClient { mut bytes } => {
                self.client.handle_datagram(&mut bytes);
                self.client.finish_batch(now);
            }
            Event::Timer { key } => self.client.handle_timeout(now, key),
        }
        self.drain();
    }

    fn start(&mut self) {
        let resource =
            Resource { bucket: BucketId([1; 16]), window_size_ms: 1_000, rate_limit: 1_000_000, tokens: 1 };
        let ask = Ask { guards: &[], resources: &[resource], label: b"" };
        let key = self.client.start(self.now(), WallMillis(self.now().0), &ask).expect("members are known");
        self.started.insert(key, self.now_us);
    }

    /// The caller's duty after every input: sends, arms timers, takes completions.
    fn drain(&mut self) {
        let now = self.now();
        while self.client.has_transmits() {
            let batch = self.client.transmits(now, BATCH).map(|one| (one.to, one.bytes.to_vec()));
            let batch: Vec<(SocketAddr, Vec<u8>)> = batch.collect();
            self.client.handle_sent(now, &vec![SendResult::Sent; batch.len()]);
            for (to, bytes) in batch {
                self.fly(Event::ToServer { to, bytes });
            }
        }
        while let Some((key, deadline)) = self.client.poll_deadline() {
            self.schedule(deadline.0 * 1_000, Event::Timer { key });
        }
        while let Some(completion) = self.client.poll_completion() {
            let started = self.started.remove(&completion.key).expect("each admission ends once");
            self.outcomes.waited_ms.push((self.now_us - started) as f64 / 1_000.0);
            self.outcomes.failures += usize::from(matches!(completion.outcome, Outcome::Failed(_)));
        }
    }

    /// A datagram's way in one direction: half a round trip with jitter, or nowhere.
    fn fly(&mut self, event: Event) {
        let spread = 1.0 + JITTER * (2.0 * self.random.f64() - 1.0);
        let delay = self.setting.round_trip_us as f64 / 2.0 * spread;
        if self.random.f64() >= self.setting.loss {
            self.schedule(self.now_us + delay as u64, event);
        }
    }

    /// A server receives a question and answers it at once.
    fn serve(&mut self, to: SocketAddr, mut bytes: Vec<u8>) {
        let id = u64::from(to.port());
        if self.setting.oldest_dead && id == 1 {
            return;
        }
        let (tenant, pdu) = self.auth.open(&mut bytes).expect("the client seals what a server can open");
        let Pdu::RateRequest(request) = pdu else { return };
        let granted: Vec<ResourceAnswer> = request.resources().map(grant).collect();
        let tenant = Tenant { key_or_server_id: id, steering_feedback: 1, ..tenant };
        let mut answer = Vec::new();
        self.auth.seal_rate_response(&mut answer, &tenant, &[3; 12], &[], &granted).expect("it fits");
        self.fly(Event::ToClient { bytes: answer });
    }
}

fn grant(resource: Resource) -> ResourceAnswer {
    let Resource { bucket, window_size_ms, .. } = resource;
    ResourceAnswer { bucket, window_size_ms, actual_rate: 1, deficit: 0 }
}

/// The address of a server: its id is its port.
fn address(id: u64) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], u16::try_from(id).expect("a handful of servers")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(round_trip_us: u64) -> Setting {
        let policy = Policy::standard(20).expect("a policy");
        Setting { round_trip_us, loss: 0.0, policy, servers: 1, oldest_dead: false }
    }

    #[test]
    fn a_world_repeats_exactly_and_another_seed_is_another_world() {
        let lossy = Setting { loss: 0.01, ..setting(10_000) };
        let (one, again, other) = (run(&lossy, 300, 7), run(&lossy, 300, 7), run(&lossy, 300, 8));
        assert_eq!(one.waited_ms, again.waited_ms);
        assert_eq!(one.counters, again.counters);
        assert_ne!(one.waited_ms, other.waited_ms);
    }

    #[test]
    fn admissions_wait_one_round_trip_and_fail_beyond_the_horizon() {
        let near = run(&setting(10_000), 200, 1);
        assert!(near.waited_ms.iter().all(|ms| (9.0..=11.0).contains(ms)), "{:?}", near.waited_ms);
        assert_eq!((near.failures, near.counters.sent.requests, near.counters.sent.replays), (0, 200, 0));
        let far = run(&setting(100_000), 200, 1);
        assert_eq!((far.failures, far.counters.sent.replays), (200, 200));
    }

    #[test]
    fn a_dead_oldest_server_costs_a_unit() {
        let three = Setting { servers: 3, oldest_dead: true, ..setting(1_000) };
        let waited = run(&three, 200, 1).waited_ms;
        assert!(waited.iter().all(|ms| (19.0..=20.0).contains(ms)), "{waited:?}");
    }
}

//! The client as a state machine: bytes are read as a list of things that happen to it, in any order, and its promises are
//! checked all along. Used by the test `state_machine` with seeded bytes, and by the fuzz target of that name.
//!
//! Checked: each admission ends once, or was cancelled, never ends and is not sent any more; no datagram buffer is lost or freed twice; nothing
//! live stays queued at the end; no input costs more because of what else is queued, waiting or cancelled.

use ratelimitly_core::client::{AdmissionKey, Ask, Client, Discovered, Outcome, SendResult, StartError};
use ratelimitly_core::id::{BucketId, ServerId, TrackerId, TrackerSettings};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_core::membership::{Member, Membership};
use ratelimitly_core::policy::{AutoUnit, Policy, Schedule};
use ratelimitly_core::time::{Millis, WallMillis};
use ratelimitly_core::wire::{Auth, Observation, Pdu, Resource, ResourceAnswer, Tenant};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Servers that a discovery may find, each with so many endpoints.
const SERVERS: u64 = 4;
const ENDPOINTS: u16 = 2;
/// Most steps that one action may take on average: a few for each endpoint, and passing the withdrawn transmits that a
/// queue may keep, twice.
const STEPS_EACH: u64 = 12 * SERVERS * ENDPOINTS as u64 + 2 * WITHDRAWN as u64;
/// Most withdrawn transmits that an otherwise empty queue keeps until the next one is read.
const WITHDRAWN: usize = 64;
/// What the clock may jump by, milliseconds: a late worker jumps over whole rounds and horizons.
const JUMPS: [u64; 8] = [0, 1, 3, 9, 10, 31, 100, 5_000];

/// A client and all that is known about it from outside.
struct Machine<'a> {
    input: &'a [u8],
    client: Client,
    auth: Auth,
    now: Millis,
    /// Admissions that were started and have neither ended nor been cancelled.
    open: Vec<AdmissionKey>,
    /// Datagrams of what was sent, as the servers got them.
    sent: Vec<Vec<u8>>,
    gone: HashSet<AdmissionKey>,
    /// How many admissions were started. Each has its number as its label, which tells whose a datagram is.
    started: u64,
    /// The numbers of the open admissions.
    numbers: HashMap<AdmissionKey, u64>,
    /// The numbers of the admissions that were cancelled before they ended.
    cancelled: HashSet<u64>,
    actions: u64,
}

/// Lets happen what the input says.
///
/// # Panics
/// A promise is broken.
pub fn run(input: &[u8]) {
    let mut machine = Machine::new(input);
    while let Some(action) = machine.byte() {
        machine.act(action);
        machine.check();
    }
    machine.finish();
}

impl<'a> Machine<'a> {
    fn new(input: &'a [u8]) -> Machine<'a> {
        let quotas = Quotas {
            rate_buckets_max: 65536,
            latency_services_max: 1024,
            metrics_labels_max: 4096,
            latency_buffer_size_max: 32,
            dedup_ttl_ms_max: 300,
            rate_window_size_ms_max: u32::MAX,
        };
        let key = ApiKey::new(KeyKind::Cookie, 77, [7; 32], quotas).expect("a key");
        let (head, input) = input.split_first().unwrap_or((&0, input));
        let schedule = Schedule::Fixed(1 + u32::from(head >> 4 & 1));
        let policy =
            Policy::custom(10, u16::from(head & 3), schedule, u32::from(head >> 2 & 1), head >> 3 & 1 == 1);
        let policy = policy.expect("a policy").with_silent_after(2 * u32::from(head >> 5 & 1));
        let policy = match head >> 6 & 1 {
            0 => policy,
            _ => policy.with_auto_unit(AutoUnit { min_ms: 3, max_ms: 30 }).expect("sound bounds"),
        };
        Machine {
            input,
            client: Client::new(&key, policy, [9; 32]),
            auth: Auth::new(&key),
            now: Millis(1_000),
            open: Vec::new(),
            sent: Vec::new(),
            gone: HashSet::new(),
            started: 0,
            numbers: HashMap::new(),
            cancelled: HashSet::new(),
            actions: 0,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.input.split_first()?;
        self.input = rest;
        Some(*first)
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte().unwrap_or(0)) % end.max(1)
    }

    fn act(&mut self, action: u8) {
        self.actions += 1;
        match action % 16 {
            0..=3 => self.start(),
            4 | 5 => self.cancel(),
            6 | 7 => self.send(),
            8 => self.answer(),
            9 => self.timeout(),
            10 => self.now = self.now + JUMPS[self.below(JUMPS.len())],
            11 => self.discover(),
            12 => self.client.handle_discovery_failed(self.now),
            13 => self.report(),
            14 => self.take_completions(1),
            _ => drop((self.client.poll_deadline(), self.client.poll_discovery(self.now))),
        }
    }

    fn wall(&self) -> WallMillis {
        WallMillis(self.now.0)
    }

    fn start(&mut self) {
        let resource =
            Resource { bucket: BucketId([3; 16]), window_size_ms: 1_000, rate_limit: 10, tokens: 1 };
        let label = self.started.to_string();
        let ask = Ask { guards: &[], resources: &[resource], label: label.as_bytes() };
        match self.client.start(self.now, self.wall(), &ask) {
            Ok(key) => {
                assert!(!self.gone.contains(&key), "a key names one admission only");
                assert!(
                    self.open.iter().all(|other| other.slot != key.slot),
                    "a slot is used once at a time"
                );
                self.open.push(key);
                self.numbers.insert(key, self.started);
                self.started += 1;
            }
            Err(error) => assert_eq!(error, StartError::NoMembers),
        }
    }

    /// An admission that has ended may still have its completion deliveries queued, whether or not it is cancelled. What
    /// is cancelled before it has ended has nothing to send.
    fn cancel(&mut self) {
        let is_certain = self.below(2) == 1;
        if is_certain {
            self.take_completions(usize::MAX);
        }
        if let Some(key) = self.pick() {
            if is_certain {
                self.cancelled.insert(self.numbers[&key]);
            }
            self.end(key);
            self.client.cancel(key);
            self.client.cancel(key);
        }
    }

    /// An admission that is open.
    fn pick(&mut self) -> Option<AdmissionKey> {
        let place = self.below(self.open.len());
        self.open.get(place).copied()
    }

    fn end(&mut self, key: AdmissionKey) {
        let place = self.open.iter().position(|open| *open == key);
        self.open.swap_remove(place.expect("an admission ends once, and only if it was not cancelled"));
        assert!(self.gone.insert(key));
        self.numbers.remove(&key);
    }

    /// A batch goes out, or parts of it.
    fn send(&mut self) {
        let most = 1 + self.below(8);
        let datagrams: Vec<Vec<u8>> =
            self.client.transmits(self.now, most).map(|one| one.bytes.to_vec()).collect();
        assert!(datagrams.len() <= most);
        assert_eq!(datagrams.is_empty(), !self.client.has_transmits());
        let mut results = Vec::new();
        for datagram in datagrams {
            self.check_sent(&datagram);
            let result = [SendResult::Sent, SendResult::Sent, SendResult::Failed, SendResult::WouldBlock];
            results.push(result[self.below(4)]);
            self.sent.push(datagram);
        }
        self.client.handle_sent(self.now, &results);
    }

    /// A datagram belongs to an admission that was not cancelled, or is a report.
    fn check_sent(&self, datagram: &[u8]) {
        let mut bytes = datagram.to_vec();
        let (_, pdu) = self.auth.open(&mut bytes).expect("what the client sends opens");
        let Pdu::RateRequest(request) = pdu else { return };
        let label = request.label.expect("each admission has a label");
        let number = std::str::from_utf8(label).expect("digits").parse().expect("a number");
        assert!(!self.cancelled.contains(&number), "admission {number} is sent after it was cancelled");
    }

    /// A server answers something that it may have got, or answers nonsense.
    fn answer(&mut self) {
        let place = self.below(self.sent.len());
        let Some(datagram) = self.sent.get(place) else { return };
        let mut bytes = datagram.clone();
        let (tenant, pdu) = self.auth.open(&mut bytes).expect("what the client sends opens");
        let Pdu::RateRequest(request) = pdu else { return };
        let resource = request.resources().next().expect("a resource");
        let kind = self.below(8);
        let answer = ResourceAnswer {
            bucket: resource.bucket,
            window_size_ms: resource.window_size_ms,
            actual_rate: 1,
            deficit: (kind & 1) as u16,
        };
        let server = self.below(SERVERS as usize + 1) as u64;
        let tenant = Tenant { key_or_server_id: server, steering_feedback: (kind & 2) as u8, ..tenant };
        let answers = vec![answer; if kind == 7 { 2 } else { 1 }];
        let mut sealed = Vec::new();
        self.auth.seal_rate_response(&mut sealed, &tenant, &[5; 12], &[], &answers).expect("it fits");
        if kind == 6 {
            sealed.truncate(sealed.len() / 2);
        }
        self.client.handle_datagram(&mut sealed);
        if self.below(3) > 0 {
            self.client.finish_batch(self.now);
        }
    }

    fn timeout(&mut self) {
        if let Some(key) = self.pick() {
            self.client.handle_timeout(self.now, key);
        }
    }

    fn discover(&mut self) {
        let chosen = 1 + self.below((1 << SERVERS) - 1);
        let members = (0..SERVERS).filter(|id| chosen >> id & 1 == 1).map(|id| Member {
            id: ServerId(id),
            endpoints: (0..ENDPOINTS).map(|n| ([127, 0, 0, 1], 4_000 + 10 * id as u16 + n).into()).collect(),
        });
        let membership = Arc::new(Membership::new(members.collect()).expect("a member"));
        self.client.handle_discovered(self.now, Discovered { membership, ttl_s: 1, partial: false });
    }

    fn report(&mut self) {
        let settings = TrackerSettings { ttl_ms: 1_000, max_samples: 8, min_sample_threshold: 1 };
        let observation = Observation { tracker: TrackerId([1; 16]), settings, latency_ms: 5 };
        let _ = self.client.report(self.now, self.wall(), &observation);
    }

    fn take_completions(&mut self, most: usize) {
        for _ in 0..most {
            let Some(done) = self.client.poll_completion() else { return };
            let decided = !matches!(done.outcome, Outcome::Failed(_));
            assert_eq!(done.server.is_some(), decided, "a verdict names its server, a failure none");
            self.end(done.key);
        }
    }

    /// What holds at any time.
    fn check(&self) {
        self.client.audit();
        assert_eq!(self.client.in_flight(), self.open.len(), "those that are open are those in flight");
        assert!(self.client.steps() <= STEPS_EACH * self.actions, "{} steps", self.client.steps());
    }

    /// Time passes until everything must have ended.
    fn finish(mut self) {
        self.actions += 1;
        self.client.finish_batch(self.now);
        self.now = self.now + 10_000;
        for key in self.open.clone() {
            self.actions += 1;
            self.client.handle_timeout(self.now, key);
        }
        self.take_completions(usize::MAX);
        assert!(self.open.is_empty(), "each admission ends");
        while self.client.has_transmits() {
            self.actions += 1;
            let batch = self.client.transmits(self.now, 64).map(|one| one.bytes.to_vec());
            let batch: Vec<Vec<u8>> = batch.collect();
            batch.iter().for_each(|datagram| self.check_sent(datagram));
            let most = batch.len();
            self.client.handle_sent(self.now, &vec![SendResult::Sent; most]);
        }
        while self.client.poll_deadline().is_some() {}
        self.check();
        self.client.handle_discovery_failed(self.now);
        let left = self.client.queued_entries();
        assert!(left <= WITHDRAWN, "{left} entries stay queued, all of them withdrawn");
    }
}

//! A simulated world around one client: a virtual clock, servers that follow a script, a network that can lose,
//! delay, double and reorder, and the caller's part of the contract (timers, sending, draining).
//!
//! Used by the `client*` and `simulation` tests. Time passes only in `run_until`; nothing here sleeps or reads a
//! clock, and all chance comes from one seed.
#![allow(dead_code)] // Each test binary uses its own part of this.

pub mod material;
pub mod network;
pub mod server;

use self::material::{endpoint, guard, key, resource, serial_of};
use self::network::Network;
use self::server::{Receipt, Reply, Server};
use fastrand::Rng;
use ratelimitly_core::client::{
    AdmissionKey, Ask, Client, Completion, Discovered, Outcome, SendResult, StartError,
};
use ratelimitly_core::id::{RequestId, ServerId};
use ratelimitly_core::key::ApiKey;
use ratelimitly_core::membership::{Member, Membership};
use ratelimitly_core::policy::Policy;
use ratelimitly_core::time::{Millis, WallMillis};
use ratelimitly_core::wire::{Auth, Pdu};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// The wall clock's reading at virtual time 0.
pub const WALL: u64 = 1_790_000_000_000;

/// Most transmits that are taken at once.
pub const BATCH: usize = 64;

/// One transmit, as it left the client.
#[derive(Clone, Debug)]
pub struct Sent {
    pub at: Millis,
    pub to: SocketAddr,
    pub request_id: RequestId,
    pub timestamp_ms: u64,
    pub steering_feedback: u8,
    /// Serial number of the admission (see `Sim::start`), 0 for a report.
    pub serial: u64,
    pub bytes: Vec<u8>,
    /// Whether the client calls it a replay.
    pub replay: bool,
    /// Whether the endpoint could be sent to.
    pub ok: bool,
}

/// One completion, and when it came.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub at: Millis,
    pub serial: u64,
    pub completion: Completion,
}

/// A datagram on its way.
pub enum Flight {
    ToServer { to: SocketAddr, bytes: Vec<u8> },
    ToClient { bytes: Vec<u8> },
}

/// The world.
pub struct Sim {
    pub client: Client,
    pub now: Millis,
    /// How far the wall clock was set forward, milliseconds.
    pub clock_step: u64,
    pub servers: Vec<Server>,
    pub network: Network,
    /// Endpoints that cannot be sent to.
    pub unreachable: HashSet<SocketAddr>,
    /// How many datagrams the caller's socket still takes; `usize::MAX` is without end.
    pub room: usize,
    /// Most milliseconds that the caller handles a timeout too late; drawn for each.
    pub lateness: u64,
    pub sent: Vec<Sent>,
    pub done: Vec<Done>,
    /// Times at which the client asked for a discovery.
    pub discoveries: Vec<Millis>,
    /// Next deadline of each admission in flight, and when it will be handled.
    pub timers: HashMap<AdmissionKey, (Millis, Millis)>,
    pub serials: HashMap<AdmissionKey, u64>,
    pub auth: Auth,
    flights: BTreeMap<(Millis, u64), Flight>,
    flight_count: u64,
    last_serial: u64,
    pub random: Rng,
}

impl Sim {
    /// A world with these servers, known to the client for 300 seconds.
    pub fn new(policy: Policy, servers: Vec<Server>) -> Sim {
        let mut sim = Sim::cold(policy, servers);
        sim.discover(300);
        sim.discoveries.clear();
        sim
    }

    /// A world whose client knows no members yet.
    pub fn cold(policy: Policy, servers: Vec<Server>) -> Sim {
        Sim::with_key(&key(), policy, servers, 1)
    }

    pub fn with_key(key: &ApiKey, policy: Policy, servers: Vec<Server>, seed: u64) -> Sim {
        let mut random = Rng::with_seed(seed);
        let mut client_seed = [0; 32];
        client_seed.fill_with(|| random.u8(..));
        Sim {
            client: Client::new(key, policy, client_seed),
            now: Millis(1_000),
            clock_step: 0,
            servers,
            network: Network::perfect(),
            unreachable: HashSet::new(),
            room: usize::MAX,
            lateness: 0,
            sent: Vec::new(),
            done: Vec::new(),
            discoveries: Vec::new(),
            timers: HashMap::new(),
            serials: HashMap::new(),
            auth: Auth::new(key),
            flights: BTreeMap::new(),
            flight_count: 0,
            last_serial: 0,
            random,
        }
    }

    pub fn wall(&self) -> WallMillis {
        WallMillis(WALL + self.now.0 + self.clock_step)
    }

    /// The servers as discovery would find them.
    pub fn membership(&self) -> Arc<Membership> {
        self.members(|_| true)
    }

    fn members(&self, wanted: impl Fn(u64) -> bool) -> Arc<Membership> {
        let members = self.servers.iter().filter(|server| wanted(server.id));
        let members =
            members.map(|server| Member { id: ServerId(server.id), endpoints: server.endpoints.clone() });
        Arc::new(Membership::new(members.collect()).expect("a server with an endpoint"))
    }

    /// A discovery finds the servers now.
    pub fn discover(&mut self, ttl_s: u32) {
        self.find(self.membership(), ttl_s);
    }

    /// A discovery finds some of the servers now.
    pub fn discover_only(&mut self, ids: &[u64], ttl_s: u32) {
        self.find(self.members(|id| ids.contains(&id)), ttl_s);
    }

    /// A discovery finds the servers now, but could not find every listed server's addresses out.
    pub fn discover_partly(&mut self, ttl_s: u32) {
        let membership = self.membership();
        self.client.handle_discovered(self.now, Discovered { membership, ttl_s, partial: true });
        self.drain();
    }

    /// A discovery that goes on has found some of the servers by now.
    pub fn usable_only(&mut self, ids: &[u64]) {
        let membership = self.members(|id| ids.contains(&id));
        self.client.handle_usable(self.now, membership);
        self.drain();
    }

    fn find(&mut self, membership: Arc<Membership>, ttl_s: u32) {
        self.client.handle_discovered(self.now, Discovered { membership, ttl_s, partial: false });
        self.drain();
    }

    /// A discovery fails now.
    pub fn fail_discovery(&mut self) {
        self.client.handle_discovery_failed(self.now);
        self.drain();
    }

    /// Starts an admission for one resource. Its serial number is in the bucket id.
    pub fn start(&mut self) -> AdmissionKey {
        self.try_start(0, 1).expect("an admission starts")
    }

    /// Starts an admission with so many guards and resources.
    pub fn try_start(&mut self, guards: usize, resources: usize) -> Result<AdmissionKey, StartError> {
        self.last_serial += 1;
        let serial = self.last_serial;
        let guards = vec![guard(serial); guards];
        let resources = vec![resource(serial); resources];
        self.start_ask(serial, &Ask { guards: &guards, resources: &resources, label: b"" })
    }

    /// Starts an admission for anything.
    pub fn start_ask(&mut self, serial: u64, ask: &Ask<'_>) -> Result<AdmissionKey, StartError> {
        let result = self.client.start(self.now, self.wall(), ask);
        if let Ok(key) = result {
            self.serials.insert(key, serial);
        }
        self.drain();
        result
    }

    /// Starts a probe for one resource.
    pub fn start_probe(&mut self) -> Result<AdmissionKey, StartError> {
        self.last_serial += 1;
        let ask = Ask { guards: &[], resources: &[resource(self.last_serial)], label: b"" };
        let result = self.client.start_probe(self.now, self.wall(), &ask);
        if let Ok(key) = result {
            self.serials.insert(key, self.last_serial);
        }
        self.drain();
        result
    }

    /// Serial number of the admission started last.
    pub fn last_serial(&self) -> u64 {
        self.last_serial
    }

    pub fn cancel(&mut self, key: AdmissionKey) {
        self.client.cancel(key);
        self.timers.remove(&key);
        self.drain();
    }

    /// Hands one datagram to the client as a batch of its own.
    pub fn receive(&mut self, mut bytes: Vec<u8>) {
        self.client.handle_datagram(&mut bytes);
        self.client.finish_batch(self.now);
        self.drain();
    }

    /// The caller's duty after every input: take out everything that the client has to say.
    pub fn drain(&mut self) {
        loop {
            let transmits = self.client.transmits(self.now, BATCH);
            let batch: Vec<_> = transmits.map(|one| (one.to, one.bytes.to_vec(), one.replay)).collect();
            let results: Vec<SendResult> = batch.iter().map(|(to, ..)| self.try_send(to)).collect();
            for ((to, bytes, replay), result) in batch.iter().zip(&results) {
                if *result != SendResult::WouldBlock {
                    self.note_sent(*to, bytes, *replay, *result == SendResult::Sent);
                }
            }
            self.client.handle_sent(self.now, &results);
            self.take_deadlines();
            self.take_completions();
            if self.client.poll_discovery(self.now) {
                self.discoveries.push(self.now);
            }
            // Without room in the socket the rest waits.
            if batch.is_empty() || self.room == 0 {
                return;
            }
        }
    }

    fn try_send(&mut self, to: &SocketAddr) -> SendResult {
        match self.room {
            0 => SendResult::WouldBlock,
            _ if self.unreachable.contains(to) => SendResult::Failed,
            _ => {
                self.room -= 1;
                SendResult::Sent
            }
        }
    }

    fn take_deadlines(&mut self) {
        while let Some((key, deadline)) = self.client.poll_deadline() {
            let handled = deadline + self.random.u64(..self.lateness + 1);
            self.timers.insert(key, (deadline, handled));
        }
    }

    fn take_completions(&mut self) {
        while let Some(completion) = self.client.poll_completion() {
            self.timers.remove(&completion.key);
            let serial =
                self.serials.remove(&completion.key).expect("a completion of an admission in flight");
            self.done.push(Done { at: self.now, serial, completion });
        }
    }

    fn note_sent(&mut self, to: SocketAddr, bytes: &[u8], replay: bool, ok: bool) {
        let mut opened = bytes.to_vec();
        let (tenant, pdu) = self.auth.open(&mut opened).expect("the client seals what a server can open");
        let serial = serial_of(&pdu);
        self.sent.push(Sent {
            at: self.now,
            to,
            request_id: tenant.request_id,
            timestamp_ms: tenant.timestamp_ms,
            steering_feedback: tenant.steering_feedback,
            serial,
            bytes: bytes.to_vec(),
            replay,
            ok,
        });
        if ok {
            for delay in self.network.deliveries(&mut self.random) {
                self.fly(delay, Flight::ToServer { to, bytes: bytes.to_vec() });
            }
        }
    }

    fn fly(&mut self, delay: u64, flight: Flight) {
        self.flight_count += 1;
        self.flights.insert((self.now + delay, self.flight_count), flight);
    }

    /// Lets time pass until `end`, with everything that happens up to and at that moment.
    pub fn run_until(&mut self, end: Millis) {
        while let Some(next) = self.next_event().filter(|at| *at <= end) {
            self.now = next.max(self.now);
            self.deliver();
            self.fire_timers();
        }
        self.now = end;
    }

    /// Lets so many milliseconds pass.
    pub fn run(&mut self, ms: u64) {
        self.run_until(self.now + ms);
    }

    fn next_event(&self) -> Option<Millis> {
        let timer = self.timers.values().map(|(_, handled)| *handled).min();
        let flight = self.flights.keys().next().map(|(at, _)| *at);
        timer.into_iter().chain(flight).min()
    }

    /// Datagrams that have arrived by now: servers take theirs, the client's are one read batch.
    fn deliver(&mut self) {
        let mut batch = Vec::new();
        while let Some(entry) = self.flights.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                Flight::ToServer { to, bytes } => self.serve(to, bytes),
                Flight::ToClient { bytes } => batch.push(bytes),
            }
        }
        for bytes in &mut batch {
            self.client.handle_datagram(bytes);
        }
        self.client.finish_batch(self.now);
        self.drain();
    }

    fn serve(&mut self, to: SocketAddr, mut bytes: Vec<u8>) {
        let Some(server) = self.servers.iter_mut().find(|server| server.endpoints.contains(&to)) else {
            return;
        };
        let (tenant, pdu) = self.auth.open(&mut bytes).expect("the client seals what a server can open");
        let Pdu::RateRequest(request) = pdu else { return };
        let receipt = Receipt::new(self.now, tenant, &request);
        let replies: Vec<(u64, Vec<u8>)> = server
            .take(&receipt)
            .iter()
            .map(|reply| (reply.after_ms, receipt.answer(&self.auth, server.id, reply)))
            .collect();
        for (after_ms, bytes) in replies {
            for delay in self.network.deliveries(&mut self.random) {
                self.fly(after_ms + delay, Flight::ToClient { bytes: bytes.clone() });
            }
        }
    }

    fn fire_timers(&mut self) {
        let due = self.timers.iter().filter(|(_, (_, handled))| *handled <= self.now);
        let mut due: Vec<AdmissionKey> = due.map(|(key, _)| *key).collect();
        due.sort_by_key(|key| self.serials[key]);
        for key in due {
            // Completing one may end another's timer; then it is not called.
            if self.timers.get(&key).is_some_and(|(_, handled)| *handled <= self.now) {
                self.client.handle_timeout(self.now, key);
                self.drain();
            }
        }
    }

    /// An answer to the last request that server `id` could have got, ready to `receive`.
    pub fn answer(&self, id: u64, reply: &Reply) -> Vec<u8> {
        let sent = self.sent.last().expect("something was sent");
        self.answer_to(sent, id, reply)
    }

    pub fn answer_to(&self, sent: &Sent, id: u64, reply: &Reply) -> Vec<u8> {
        let mut bytes = sent.bytes.clone();
        let (tenant, pdu) = self.auth.open(&mut bytes).expect("the client's own datagram");
        let Pdu::RateRequest(request) = pdu else { panic!("a report has no answer") };
        Receipt::new(self.now, tenant, &request).answer(&self.auth, id, reply)
    }

    /// The only completion so far.
    pub fn only(&self) -> Completion {
        assert_eq!(self.done.len(), 1, "exactly one completion: {:?}", self.done);
        self.done[0].completion
    }

    pub fn outcome(&self) -> Outcome {
        self.only().outcome
    }

    /// How often something was sent to the first endpoint of server `id`.
    pub fn sent_to(&self, id: u64) -> usize {
        self.sent.iter().filter(|sent| sent.to == endpoint(id, 0)).count()
    }

    /// The times of all transmits to the first endpoint of server `id`.
    pub fn times_to(&self, id: u64) -> Vec<u64> {
        self.sent.iter().filter(|sent| sent.to == endpoint(id, 0)).map(|sent| sent.at.0).collect()
    }
}

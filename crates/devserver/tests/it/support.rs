//! A client that says exactly what a test wants said, and the development server it talks to. Called by every family.

use ratelimitly_core::id::{BucketId, RequestId, TrackerId, TrackerSettings};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_core::wire::{
    Auth, DecodeError, Guard, GuardAnswer, Observation, Pdu, RateRequest, Resource, ResourceAnswer, Tenant,
};
use ratelimitly_devserver::{Command, Config, DevServer, Event, Fate, Fault, Servers, keygen};
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Deduplication TTL of requests: the longest that a key allows, so that no stalled test outlives it.
const TTL_MS: u32 = 2000;

pub fn key(kind: KeyKind) -> ApiKey {
    let quotas = Quotas { dedup_ttl_ms_max: TTL_MS, ..keygen::default_quotas() };
    keygen::generate(kind, 42, quotas).unwrap()
}

/// A development server with a key, and a client of that key.
pub struct Bench {
    pub dev: DevServer,
    pub client: Client,
}

impl Bench {
    pub async fn new(servers: usize) -> Bench {
        Bench::of_kind(KeyKind::Aes, servers).await
    }

    pub async fn of_kind(kind: KeyKind, servers: usize) -> Bench {
        let key = key(kind);
        let dev = DevServer::start(Config::default().servers(servers).key(key.clone())).await.unwrap();
        Bench { client: Client::new(&key).await, dev }
    }

    pub fn addr(&self, place: usize) -> SocketAddr {
        self.dev.servers()[place].addr
    }

    pub fn id(&self, place: usize) -> u64 {
        self.dev.servers()[place].id
    }

    pub async fn fault(&self, servers: impl Into<Servers>, fault: Fault) {
        self.dev.apply(Command::Fault { servers: servers.into(), fault }).await.unwrap();
    }

    pub async fn fault_everywhere(&self, fault: Fault) {
        self.fault(Servers::All, fault).await;
    }

    pub async fn apply(&self, command: Command) {
        self.dev.apply(command).await.unwrap();
    }

    /// Asks the first server and takes its answer.
    pub async fn ask(&self, ask: &Ask) -> Answer {
        self.client.send(self.addr(0), ask).await;
        self.client.answer().await.expect("an answer that counts")
    }

    /// Waits until this many events of this fate are recorded.
    pub async fn await_fates(&self, count: usize, fate: Fate) -> Vec<Event> {
        let fated =
            |events: &[Event]| events.iter().filter(|event| event.fate == Some(fate)).count() == count;
        self.dev.wait_events(PATIENCE, fated).await.expect("the events in time")
    }
}

/// A request to be sent, each with an id of its own.
#[derive(Clone, Debug)]
pub struct Ask {
    pub id: RequestId,
    pub guards: Vec<Guard>,
    pub resources: Vec<Resource>,
    pub label: Option<Vec<u8>>,
    pub steering_feedback: u8,
}

impl Ask {
    pub fn new(guards: impl Into<Vec<Guard>>, resources: impl Into<Vec<Resource>>) -> Ask {
        Ask {
            id: RequestId::from_random(rand::random()),
            guards: guards.into(),
            resources: resources.into(),
            label: None,
            steering_feedback: 0,
        }
    }

    /// One token of a bucket that holds `limit` a minute.
    pub fn token(limit: u32) -> Ask {
        Ask::new([], [resource("bucket", limit, 1)])
    }
}

/// A resource with a window of a minute, longer than any test.
pub fn resource(name: &str, rate_limit: u32, tokens: u16) -> Resource {
    let window_size_ms = 60_000;
    let bucket = BucketId::new(name.as_bytes(), window_size_ms, rate_limit);
    Resource { bucket, window_size_ms, rate_limit, tokens }
}

pub const SETTINGS: TrackerSettings =
    TrackerSettings { ttl_ms: 60_000, max_samples: 8, min_sample_threshold: 1 };

pub fn guard(name: &str, threshold_ms: u32) -> Guard {
    Guard { tracker: TrackerId::new(name.as_bytes(), SETTINGS), settings: SETTINGS, threshold_ms }
}

pub fn observation(name: &str, latency_ms: u32) -> Observation {
    Observation { tracker: TrackerId::new(name.as_bytes(), SETTINGS), settings: SETTINGS, latency_ms }
}

/// An answer that authenticates and parses.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub server: u64,
    pub id: RequestId,
    pub steering_feedback: u8,
    pub guards: Vec<GuardAnswer>,
    pub resources: Vec<ResourceAnswer>,
    pub allow: bool,
}

pub struct Client {
    pub socket: UdpSocket,
    auth: Auth,
    key_id: u64,
}

impl Client {
    pub async fn new(key: &ApiKey) -> Client {
        Client::at("127.0.0.1:0", key).await
    }

    pub async fn at(address: &str, key: &ApiKey) -> Client {
        let socket = UdpSocket::bind(address).await.unwrap();
        Client { socket, auth: Auth::new(key), key_id: key.key_id() }
    }

    /// Seals the request, each time under a fresh nonce.
    pub fn seal(&self, ask: &Ask) -> Vec<u8> {
        let mut datagram = Vec::new();
        let request = RateRequest {
            dedup_ttl_ms: TTL_MS,
            guards: &ask.guards,
            resources: &ask.resources,
            label: ask.label.as_deref(),
        };
        let tenant = self.tenant(ask.id, ask.steering_feedback);
        self.auth.seal_rate_request(&mut datagram, &tenant, &rand::random(), &request).unwrap();
        datagram
    }

    pub async fn send(&self, to: SocketAddr, ask: &Ask) {
        self.send_bytes(to, &self.seal(ask)).await;
    }

    pub async fn send_bytes(&self, to: SocketAddr, datagram: &[u8]) {
        self.socket.send_to(datagram, to).await.unwrap();
    }

    pub async fn report(&self, to: SocketAddr, id: RequestId, observations: &[Observation]) {
        let mut datagram = Vec::new();
        self.auth.seal_report(&mut datagram, &self.tenant(id, 0), &rand::random(), observations).unwrap();
        self.send_bytes(to, &datagram).await;
    }

    fn tenant(&self, request_id: RequestId, steering_feedback: u8) -> Tenant {
        Tenant {
            key_or_server_id: self.key_id,
            request_id,
            timestamp_ms: 1_790_000_000_000,
            steering_feedback,
        }
    }

    /// The next datagram that arrives.
    pub async fn datagram(&self) -> Vec<u8> {
        let mut buffer = vec![0; 2048];
        let (length, _) = within(self.socket.recv_from(&mut buffer)).await.unwrap();
        buffer.truncate(length);
        buffer
    }

    /// The next datagram that arrives, opened.
    pub async fn answer(&self) -> Result<Answer, DecodeError> {
        self.open(&mut self.datagram().await)
    }

    pub fn open(&self, datagram: &mut [u8]) -> Result<Answer, DecodeError> {
        let (tenant, pdu) = self.auth.open(datagram)?;
        let Pdu::RateResponse(view) = pdu else { panic!("a server sends responses only") };
        Ok(Answer {
            server: tenant.key_or_server_id,
            id: tenant.request_id,
            steering_feedback: tenant.steering_feedback,
            guards: view.guards().collect(),
            resources: view.resources().collect(),
            allow: view.grants(),
        })
    }
}

/// The future's value, or a failed test when it takes too long.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("in time")
}

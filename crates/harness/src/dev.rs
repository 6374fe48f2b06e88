//! The development server as tests use it: started with a key, shared with the nginx that asks it, and its events cut
//! down to what the test itself caused. Called by tests and by the lifecycle checks, which reset it.

use crate::ports::free_ports;
use crate::wait::holds_within;
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_devserver::{Command, Config, DevServer, DnsFault, Event, Fault, FaultKind, Kind, Servers};
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// The rate of the lifecycle checks' own bucket (`alive.conf`), by which their requests are told from the test's.
const ALIVE_RATE: u32 = 1_000_000;
/// Requests that are made for a replay.
const REPLAY_TRIES: usize = 4;
/// How long a datagram may take that was sent before its request ended.
const SETTLED: Duration = Duration::from_secs(2);
/// Longest wait for events.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running development server and the key that it serves. Clones are the same server; it ends with the last one.
#[derive(Clone)]
pub struct Dev(Arc<Inner>);

struct Inner {
    server: DevServer,
    key: ApiKey,
}

/// A key of this kind with generous quotas (`quotas`).
pub fn key(kind: KeyKind) -> ApiKey {
    ApiKey::new(kind, 42, [0x5a; 32], quotas()).expect("every quota is a power of two in its range")
}

/// The quotas of the harness's keys: a horizon of 2 s, windows of any length.
pub fn quotas() -> Quotas {
    Quotas {
        rate_buckets_max: 1 << 20,
        latency_services_max: 1 << 20,
        metrics_labels_max: 1 << 20,
        latency_buffer_size_max: 1 << 10,
        dedup_ttl_ms_max: 2000,
        rate_window_size_ms_max: u32::MAX,
    }
}

impl Dev {
    /// Three servers and their zone, with an AES key.
    pub async fn start() -> Dev {
        Dev::with(|config| config).await
    }

    /// One server; then each admission is one datagram unless it is repeated.
    pub async fn single() -> Dev {
        Dev::with(|config| config.servers(1)).await
    }

    /// Servers for a test that stops and restarts some of them: no other program gets their ports meanwhile.
    pub async fn restartable(servers: u16) -> Dev {
        let listen = (Ipv4Addr::LOCALHOST, free_ports(servers)).into();
        Dev::with(|config| Config { listen, ..config }.servers(servers.into())).await
    }

    /// With a configuration of the test's own; the AES key is added where it names none.
    ///
    /// # Panics
    /// The server cannot start.
    pub async fn with(configure: impl FnOnce(Config) -> Config) -> Dev {
        let mut config = configure(Config::default());
        if config.keys.is_empty() {
            config = config.key(key(KeyKind::Aes));
        }
        let key = config.keys[0].clone();
        let server = DevServer::start(config).await.expect("the development server starts");
        Dev(Arc::new(Inner { server, key }))
    }

    /// The key in its text form, for `ratelimitly_auth_key`.
    pub fn key(&self) -> String {
        self.0.key.encode()
    }

    /// Sets a fault at every server; when this returns, it is in effect.
    ///
    /// # Panics
    /// Its parameters make no sense.
    pub async fn fault(&self, fault: Fault) {
        let command = Command::Fault { servers: Servers::All, fault };
        self.apply(command).await.expect("a fault that can be set");
    }

    /// Clears these faults at every server, or all of them where none is named. Answers that `hold` kept back leave.
    ///
    /// # Panics
    /// A held answer cannot be sent.
    pub async fn clear(&self, faults: impl Into<Vec<FaultKind>>) {
        let command = Command::Clear { servers: Servers::All, faults: faults.into() };
        self.apply(command).await.expect("faults that can be cleared");
    }

    /// Sets a fault of DNS; when this returns, it is in effect.
    ///
    /// # Panics
    /// Its parameters make no sense.
    pub async fn dns_fault(&self, fault: DnsFault) {
        self.apply(Command::Dns { fault }).await.expect("a DNS fault that can be set");
    }

    /// Clears every fault of DNS.
    pub async fn clear_dns(&self) {
        self.apply(Command::ClearDns { faults: Vec::new() }).await.expect("DNS faults can be cleared");
    }

    /// The rate requests that the test caused, one event for each datagram at each server.
    pub fn requests(&self) -> Vec<Event> {
        self.own(Kind::Request)
    }

    /// The latency reports that arrived, one event for each datagram at each server.
    pub fn reports(&self) -> Vec<Event> {
        self.own(Kind::Report)
    }

    /// The first datagram of each admission that the test caused, in the order of their arrival.
    pub fn admissions(&self) -> Vec<Event> {
        first_of_each(self.requests())
    }

    /// The first datagram of each report, in the order of their arrival.
    pub fn distinct_reports(&self) -> Vec<Event> {
        first_of_each(self.reports())
    }

    /// Waits until the test's own rate requests fulfil the condition, and gives them.
    ///
    /// # Panics
    /// They did not in time.
    pub async fn await_requests(&self, what: &str, condition: impl FnMut(&[Event]) -> bool) -> Vec<Event> {
        self.await_own(Kind::Request, what, condition).await
    }

    /// Waits until the reports fulfil the condition, and gives them.
    ///
    /// # Panics
    /// They did not in time.
    pub async fn await_reports(&self, what: &str, condition: impl FnMut(&[Event]) -> bool) -> Vec<Event> {
        self.await_own(Kind::Report, what, condition).await
    }

    /// Lets `ask` make a request that no server answers until one was sent more than once; gives what the last `ask` gave
    /// and that request's datagrams. A worker that the machine keeps from working for a whole round leaves that round's
    /// replay out, and rightly so; then another request is made.
    ///
    /// # Panics
    /// None is replayed.
    pub async fn replayed<T>(&self, mut ask: impl AsyncFnMut() -> T) -> (T, Vec<Event>) {
        for _ in 0..REPLAY_TRIES {
            self.clear_events();
            let given = ask().await;
            if holds_within(SETTLED, || self.requests().len() > 1).await {
                return (given, self.requests());
            }
        }
        panic!("none of {REPLAY_TRIES} requests was replayed; the last one: {:#?}", self.requests());
    }

    async fn await_own(
        &self,
        kind: Kind,
        what: &str,
        mut condition: impl FnMut(&[Event]) -> bool,
    ) -> Vec<Event> {
        let fulfilled = self.wait_events(PATIENCE, |all| condition(&own(all, kind))).await;
        match fulfilled {
            Ok(all) => own(&all, kind),
            Err(all) => panic!("not within {PATIENCE:?}: {what}; there are {:#?}", own(&all, kind)),
        }
    }

    fn own(&self, kind: Kind) -> Vec<Event> {
        own(&self.events(), kind)
    }
}

impl Deref for Dev {
    type Target = DevServer;

    fn deref(&self) -> &DevServer {
        &self.0.server
    }
}

fn own(events: &[Event], kind: Kind) -> Vec<Event> {
    let of_checks = |event: &Event| event.resources.iter().any(|resource| resource.rate_limit == ALIVE_RATE);
    events.iter().filter(|event| event.kind == kind && !of_checks(event)).cloned().collect()
}

fn first_of_each(mut events: Vec<Event>) -> Vec<Event> {
    let mut known = HashSet::new();
    events.retain(|event| known.insert(event.request_id.clone()));
    events
}

//! How a development server is set up. Filled by tests directly and by `cli.rs` from the command line.

use crate::command::Command;
use crate::names::Name;
use ratelimitly_core::key::ApiKey;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The first server's id where none is given: a server started in the first second of 2025-01-01.
pub const FIRST_SERVER_ID: u64 = 1_015_809;
/// Distance between the ids that are made up, one second of start time.
pub const SERVER_ID_STEP: u64 = 1 << 23;

/// Everything a development server needs to start. `Config::default()` is three servers and their zone `dev.test` on
/// ephemeral ports of 127.0.0.1, with no key.
#[derive(Clone, Debug)]
pub struct Config {
    /// Ids of the servers.
    pub server_ids: Vec<u64>,
    /// Where the servers listen. Port 0: each on a port of its own choice; else the first server takes this port and
    /// the others the ports after it.
    pub listen: SocketAddr,
    /// The address under which clients reach the servers, where it is another than `listen`'s: DNS lists it. Needed where
    /// `listen` is 0.0.0.0 or [::].
    pub advertise: Option<IpAddr>,
    /// Where DNS listens, UDP and TCP on the same port. Port 0: an ephemeral one.
    pub dns: SocketAddr,
    /// DNS zone, without the trailing dot.
    pub zone: String,
    /// Keys that are served, each with its own buckets and trackers.
    pub keys: Vec<ApiKey>,
    /// TTL of the zone's records; whole seconds.
    pub ttl: Duration,
    /// Seed of the faults' random decisions.
    pub seed: u64,
    /// Requests whose time stamp is further off are dropped; `None`: the time stamp is not looked at.
    pub max_clock_skew: Option<Duration>,
    /// Commands applied before `DevServer::start` returns.
    pub commands: Vec<Command>,
    /// File that gets one JSON line an event; it is truncated first.
    pub events: Option<PathBuf>,
    /// Names that events show beside the ids of buckets and trackers.
    pub names: Vec<Name>,
    /// Whether events are kept in memory for `DevServer::events`.
    pub record: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            server_ids: default_ids(3),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            advertise: None,
            dns: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            zone: "dev.test".into(),
            keys: Vec::new(),
            ttl: Duration::from_secs(1),
            seed: 0,
            max_clock_skew: None,
            commands: Vec::new(),
            events: None,
            names: Vec::new(),
            record: true,
        }
    }
}

impl Config {
    /// This many servers, their ids ascending from `FIRST_SERVER_ID`.
    #[must_use]
    pub fn servers(mut self, count: usize) -> Config {
        self.server_ids = default_ids(count);
        self
    }

    /// Servers of these ids.
    #[must_use]
    pub fn server_ids(mut self, ids: impl IntoIterator<Item = u64>) -> Config {
        self.server_ids = ids.into_iter().collect();
        self
    }

    /// Adds a key.
    #[must_use]
    pub fn key(mut self, key: ApiKey) -> Config {
        self.keys.push(key);
        self
    }

    /// Adds a command that is applied at start.
    #[must_use]
    pub fn command(mut self, command: Command) -> Config {
        self.commands.push(command);
        self
    }
}

/// Ids for `count` servers, ascending: the first is the oldest.
pub fn default_ids(count: usize) -> Vec<u64> {
    (0..count as u64).map(|n| FIRST_SERVER_ID + n * SERVER_ID_STEP).collect()
}

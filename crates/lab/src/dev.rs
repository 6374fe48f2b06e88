//! The development server that an experiment's nginx asks: three servers, their DNS zone and a key. Started by the
//! experiments; it ends when it is dropped.

use crate::error::{Error, io};
use ratelimitly_core::key::{KeyKind, Quotas};
use ratelimitly_devserver::{Command, Config, DevServer, Fault, Kind, Servers, keygen};
use std::collections::HashSet;

/// A development server and the key that it serves.
pub struct Dev {
    server: DevServer,
    key: String,
}

impl Dev {
    /// Starts it; `record` keeps its events for `count`.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub async fn start(record: bool) -> Result<Dev, Error> {
        Dev::with(3, record).await
    }

    /// The same with so many servers.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub async fn with(servers: usize, record: bool) -> Result<Dev, Error> {
        // The longest horizon that a key can allow.
        let quotas = Quotas { dedup_ttl_ms_max: 2000, ..keygen::default_quotas() };
        let key = keygen::generate(KeyKind::Aes, 1, quotas).expect("quotas that a key can express");
        let text = key.encode();
        let config = Config { record, ..Config::default() }.servers(servers).key(key);
        let server = DevServer::start(config).await.map_err(io("the development server"))?;
        Ok(Dev { server, key: text })
    }

    /// Fills `{key}`, `{zone}` and `{dns}` in.
    pub fn fill(&self, text: &str) -> String {
        text.replace("{key}", &self.key)
            .replace("{zone}", self.server.zone())
            .replace("{dns}", &self.server.dns_addr().to_string())
    }

    /// Sets a fault.
    ///
    /// # Panics
    /// Its parameters make no sense.
    pub async fn fault(&self, servers: Servers, fault: Fault) {
        let command = Command::Fault { servers, fault };
        self.server.apply(command).await.expect("a fault that can be set");
    }

    /// The oldest server's id.
    pub fn oldest(&self) -> u64 {
        self.server.servers().iter().map(|server| server.id).min().expect("at least one server")
    }

    /// How many datagrams of this kind arrived so far, replays included.
    pub fn datagrams(&self, kind: Kind) -> usize {
        self.server.events().iter().filter(|event| event.kind == kind).count()
    }

    /// How many different requests or reports arrived so far.
    pub fn count(&self, kind: Kind) -> usize {
        let events = self.server.events();
        let ids: HashSet<_> =
            events.iter().filter(|event| event.kind == kind).map(|event| &event.request_id).collect();
        ids.len()
    }
}

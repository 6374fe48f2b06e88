//! The development server that an experiment's nginx asks: three servers, their DNS zone and a key. Started by the
//! experiments; it ends when it is dropped.

use crate::error::{Error, io};
use ratelimitly_core::key::{KeyKind, Quotas};
use ratelimitly_devserver::{Config, DevServer, Kind, keygen};
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
        // The longest horizon that a key can allow.
        let quotas = Quotas { dedup_ttl_ms_max: 2000, ..keygen::default_quotas() };
        let key = keygen::generate(KeyKind::Aes, 1, quotas).expect("quotas that a key can express");
        let text = key.encode();
        let config = Config { record, ..Config::default() }.key(key);
        let server = DevServer::start(config).await.map_err(io("the development server"))?;
        Ok(Dev { server, key: text })
    }

    /// Fills `{key}`, `{zone}` and `{dns}` in.
    pub fn fill(&self, text: &str) -> String {
        text.replace("{key}", &self.key)
            .replace("{zone}", self.server.zone())
            .replace("{dns}", &self.server.dns_addr().to_string())
    }

    /// How many different requests or reports arrived so far.
    pub fn count(&self, kind: Kind) -> usize {
        let events = self.server.events();
        let ids: HashSet<_> =
            events.iter().filter(|event| event.kind == kind).map(|event| &event.request_id).collect();
        ids.len()
    }
}

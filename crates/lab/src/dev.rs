//! The development server that an experiment's nginx asks: three servers, their DNS zone and a key. Started by the
//! experiments; it ends when it is dropped.

use crate::error::{Error, io};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_devserver::{Config, DevServer, Kind};
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
        let quotas = Quotas {
            rate_buckets_max: 1 << 10,
            latency_services_max: 1 << 10,
            metrics_labels_max: 1 << 10,
            latency_buffer_size_max: 1 << 10,
            dedup_ttl_ms_max: 2000,
            rate_window_size_ms_max: u32::MAX,
        };
        let key = ApiKey::new(KeyKind::Aes, 1, [0x1b; 32], quotas);
        let key = key.map_err(|error| Error::Nginx(format!("the experiment's key: {error}")))?;
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

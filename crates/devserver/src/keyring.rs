//! The keys that are served, found by key id. Filled at start, read by `server.rs` for every datagram. Holds ciphers,
//! never texts.

use rand::RngExt;
use ratelimitly_core::key::ApiKey;
use ratelimitly_core::wire::Auth;
use std::collections::HashMap;
use std::io;

/// What a server needs of one key.
#[derive(Debug)]
pub(crate) struct Tenancy {
    pub auth: Auth,
    /// Seals under a secret nobody has: answers of the fault `wrong_authentication`.
    pub wrong_auth: Auth,
    /// Longest time that a request is remembered, milliseconds.
    pub dedup_ttl_max_ms: u32,
    /// Most samples a tracker keeps.
    pub samples_max: u32,
}

#[derive(Debug)]
pub(crate) struct Keyring(HashMap<u64, Tenancy>);

impl Keyring {
    /// Refuses two keys of one id: no datagram could tell which is meant.
    pub fn new(keys: &[ApiKey]) -> io::Result<Keyring> {
        let mut tenancies = HashMap::new();
        for key in keys {
            if tenancies.insert(key.key_id(), Tenancy::new(key)).is_some() {
                let text =
                    format!("key id {} is given twice, every key needs an id of its own", key.key_id());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        }
        Ok(Keyring(tenancies))
    }

    pub fn get(&self, key_id: u64) -> Option<&Tenancy> {
        self.0.get(&key_id)
    }
}

impl Tenancy {
    fn new(key: &ApiKey) -> Tenancy {
        let other_secret = rand::rng().random();
        let wrong = ApiKey::new(key.kind(), key.key_id(), other_secret, *key.quotas())
            .expect("the quotas of a valid key are valid");
        Tenancy {
            auth: Auth::new(key),
            wrong_auth: Auth::new(&wrong),
            dedup_ttl_max_ms: key.quotas().dedup_ttl_ms_max,
            samples_max: key.quotas().latency_buffer_size_max,
        }
    }
}

//! What commands answer, above all the server's state. Made by `devserver.rs`, `fleet.rs` and `dns/zone.rs`; pure data.

use super::{DnsFault, Fault};
use crate::event::Verdict;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What a command answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// Done.
    Done,
    /// Answers that `release` sent.
    Released {
        /// How many.
        answers: usize,
    },
    /// The answer to `status`.
    Status(Status),
}

/// The server's state, as `status` tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Every server, in the order of their start.
    pub servers: Vec<ServerStatus>,
    /// Request ids by the verdict of their first answer, so that each admission counts once.
    pub admissions: Verdicts,
    /// DNS queries received.
    pub dns: DnsCounts,
    /// DNS faults.
    pub dns_faults: Vec<DnsFault>,
    /// Answers that `hold` keeps back.
    pub held: usize,
}

/// One server's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Server id.
    pub id: u64,
    /// Its UDP address, also while it is down.
    pub address: SocketAddr,
    /// Whether its socket is open.
    pub up: bool,
    /// Its faults.
    pub faults: Vec<Fault>,
    /// Answers that it made: one for each copy of a request, also those that a fault held back or lost.
    pub answers: Verdicts,
    /// Datagrams dropped silently.
    pub ignored: Ignored,
}

/// How many verdicts of either kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// Allows.
    pub allow: u64,
    /// Denies.
    pub deny: u64,
}

impl Verdicts {
    pub(crate) fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Allow => self.allow += 1,
            Verdict::Deny => self.deny += 1,
        }
    }
}

/// Datagrams that a server dropped silently, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ignored {
    /// Not of the protocol's form, or no message for a server.
    pub malformed: u64,
    /// Of a key id that is not served.
    pub unknown_key: u64,
    /// Tag, cookie or kind of authentication is wrong.
    pub authentication: u64,
    /// Time stamp further off than the configured limit.
    pub clock_skew: u64,
}

/// DNS queries received, answered or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsCounts {
    /// Over UDP.
    pub udp: u64,
    /// Over TCP.
    pub tcp: u64,
    /// For SRV records.
    pub srv: u64,
    /// For A records.
    pub a: u64,
    /// For AAAA records.
    pub aaaa: u64,
}

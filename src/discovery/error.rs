//! Why a discovery could not be set up or found no members.

use super::skipped::Skipped;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use ratelimitly_config::text::Count;
use ratelimitly_core::membership::LeftOut;
use ratelimitly_core::membership::answer::LookupError;
use ratelimitly_core::membership::gathering::Lacking;

/// Settings that no discovery can work with.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The SRV name is not a DNS name.
    #[error("\"{name}\" is not a DNS name: {reason}")]
    Name {
        /// The name as configured, with its service prefix.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No nameserver is given.
    #[error("no nameserver is known")]
    NoNameserver,
    /// IPv4 and IPv6 are both off.
    #[error("both address families are off; leave ipv4 or ipv6 on")]
    NoFamily,
}

/// Why a discovery ended without members.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The SRV lookup failed, or said that there is no such record.
    #[error("the SRV lookup of {name} failed: {cause}")]
    Lookup {
        /// The SRV name.
        name: String,
        /// What the nameserver or the system said.
        #[source]
        cause: LookupError,
    },
    /// No nameserver answered the SRV lookup in time.
    #[error("the SRV lookup of {name} was not answered within {timeout_ms} ms")]
    TimedOut {
        /// The SRV name.
        name: String,
        /// The limit of one discovery, milliseconds.
        timeout_ms: u64,
    },
    /// There are SRV records, but none with a target of the form `s-<id>` and a port.
    #[error("no SRV record of {name} has a target of the form s-<id>{}", Skipped(skipped))]
    NoUsableTarget {
        /// The SRV name.
        name: String,
        /// What was passed over.
        skipped: LeftOut,
    },
    /// No server has an address.
    #[error("no address was found for {} of {name}; {lacking}", Count(*servers, "server"))]
    NoAddress {
        /// The SRV name.
        name: String,
        /// Servers that are listed.
        servers: usize,
        /// How the lookups of one of them ended.
        lacking: Lacking,
    },
    /// Some server has addresses, but none that a datagram can be meant for.
    #[error("no usable address was found for {} of {name}{}", Count(*servers, "server"), Skipped(skipped))]
    NoUsableAddress {
        /// The SRV name.
        name: String,
        /// Servers that are listed.
        servers: usize,
        /// What was passed over.
        skipped: LeftOut,
    },
    /// The resolver could not be built.
    #[error("the resolver cannot be built: {cause}")]
    Resolver {
        /// What it said.
        cause: String,
    },
    /// The deadline's timer could not be set.
    #[error("the timer of the discovery cannot be set: {cause}")]
    Timer {
        /// What happened.
        cause: String,
    },
    /// The discovery's task could not be started.
    #[error("the task of the discovery could not be started")]
    NotStarted,
    /// The discovery's task ended in a panic, which has been logged.
    #[error("the discovery ended in a panic")]
    Panicked,
}

/// hickory's error in the core's words.
pub fn lookup_error(error: &NetError) -> LookupError {
    match error {
        NetError::Timeout => LookupError::TimedOut,
        NetError::Dns(DnsError::NoRecordsFound(none)) if none.response_code == ResponseCode::NXDomain => {
            LookupError::NoSuchName
        }
        NetError::Dns(DnsError::NoRecordsFound(_)) => LookupError::NoSuchRecord,
        NetError::Dns(DnsError::ResponseCode(code)) => LookupError::Refused(code.to_string()),
        other => LookupError::Network(other.to_string()),
    }
}

//! Why a discovery could not be set up or found no members.

use super::Skipped;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;

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
        cause: String,
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
    #[error("no SRV record of {name} has a target of the form s-<id>{skipped}")]
    NoUsableTarget {
        /// The SRV name.
        name: String,
        /// What was passed over.
        skipped: Skipped,
    },
    /// No target has an address.
    #[error("none of the {targets} targets of {name} has an address: {cause}")]
    NoAddress {
        /// The SRV name.
        name: String,
        /// Usable targets.
        targets: usize,
        /// How one of the lookups failed.
        cause: String,
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

/// A lookup's failure in few words.
pub(super) fn cause(error: &NetError) -> String {
    match error {
        NetError::Timeout => "no answer in time".to_owned(),
        NetError::Dns(DnsError::NoRecordsFound(none)) if none.response_code == ResponseCode::NXDomain => {
            "there is no such name".to_owned()
        }
        NetError::Dns(DnsError::NoRecordsFound(_)) => "the name has no such record".to_owned(),
        NetError::Dns(DnsError::ResponseCode(code)) => format!("the nameserver answered \"{code}\""),
        NetError::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}

//! Why a discovery could not be set up or found no members.

use super::Skipped;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use ratelimitly_config::text::Count;

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
    #[error("no SRV record of {name} has a target of the form s-<id>{skipped}")]
    NoUsableTarget {
        /// The SRV name.
        name: String,
        /// What was passed over.
        skipped: Skipped,
    },
    /// No target has an address.
    #[error("no address was found for {} of {name}: {cause}", Count(*targets, "target"))]
    NoAddress {
        /// The SRV name.
        name: String,
        /// Usable targets.
        targets: usize,
        /// How one of the lookups failed.
        #[source]
        cause: LookupError,
    },
    /// Some target has addresses, but none that a datagram can be meant for.
    #[error("no usable address was found for {} of {name}{skipped}", Count(*targets, "target"))]
    NoUsableAddress {
        /// The SRV name.
        name: String,
        /// Usable targets.
        targets: usize,
        /// What was passed over.
        skipped: Skipped,
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

/// Why one lookup gave no records.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LookupError {
    /// The nameserver says that the name does not exist.
    #[error("there is no such name")]
    NoSuchName,
    /// The name exists, but has no record of this type.
    #[error("the name has no such record")]
    NoSuchRecord,
    /// Aliases lead to aliases without end.
    #[error("its aliases form a loop or too long a chain")]
    TooManyAliases,
    /// The nameserver refused or failed.
    #[error("the nameserver answered \"{0}\"")]
    Refused(ResponseCode),
    /// No nameserver answered.
    #[error("no nameserver answered in time")]
    TimedOut,
    /// The answer is malformed, or the nameserver cannot be reached.
    #[error("{0}")]
    Network(String),
}

impl From<&NetError> for LookupError {
    fn from(error: &NetError) -> LookupError {
        match error {
            NetError::Timeout => LookupError::TimedOut,
            NetError::Dns(DnsError::NoRecordsFound(none)) if none.response_code == ResponseCode::NXDomain => {
                LookupError::NoSuchName
            }
            NetError::Dns(DnsError::NoRecordsFound(_)) => LookupError::NoSuchRecord,
            NetError::Dns(DnsError::ResponseCode(code)) => LookupError::Refused(*code),
            other => LookupError::Network(other.to_string()),
        }
    }
}

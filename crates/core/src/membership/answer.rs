//! What one lookup of addresses gave: addresses, DNS's word that there are none, or a failure.
//!
//! Made by the caller, who asks DNS, and read by `gathering`. The difference between "there are none" and "it could
//! not be found out" decides whether a server's known addresses stay.

use super::bounds::{MOST_ADDRESSES, Smallest};
use std::fmt;
use std::net::IpAddr;

/// An address family, as DNS separates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4: A records.
    V4,
    /// IPv6: AAAA records.
    V6,
}

impl Family {
    /// Both, in the order in which they are asked for.
    pub const BOTH: [Family; 2] = [Family::V4, Family::V6];

    pub(super) fn index(self) -> usize {
        self as usize
    }

    pub(super) fn holds(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Family::V4)
    }
}

/// The record type's name.
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "A",
            Family::V6 => "AAAA",
        })
    }
}

/// Why one lookup gave no records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// The nameserver refused or failed: the name of its response code.
    #[error("the nameserver answered \"{0}\"")]
    Refused(String),
    /// No nameserver answered.
    #[error("no nameserver answered in time")]
    TimedOut,
    /// The answer is malformed, or the nameserver cannot be reached.
    #[error("{0}")]
    Network(String),
}

impl LookupError {
    /// Whether DNS has spoken: there is no such record. Every other error leaves it open.
    pub fn is_answer(&self) -> bool {
        matches!(self, LookupError::NoSuchName | LookupError::NoSuchRecord)
    }
}

/// The addresses of one answer, at most a server's share of them: the smallest are kept while the answer is read, so
/// that a huge one takes no more memory than a small one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    pub(super) usable: Smallest<IpAddr, MOST_ADDRESSES>,
    pub(super) unusable: Smallest<IpAddr, MOST_UNUSABLE>,
}

/// Most unusable addresses of one answer that are remembered, for the log.
const MOST_UNUSABLE: usize = 8;

impl Addresses {
    /// No address yet.
    pub fn new() -> Addresses {
        Addresses::default()
    }

    /// Takes an address in. An IPv4-mapped IPv6 address (`::ffff:192.0.2.1`) counts as that IPv4 address.
    pub fn add(&mut self, address: IpAddr) {
        let address = address.to_canonical();
        if is_usable(address) {
            self.usable.add(address);
        } else {
            self.unusable.add(address);
        }
    }
}

impl FromIterator<IpAddr> for Addresses {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Addresses {
        let mut kept = Addresses::new();
        addresses.into_iter().for_each(|address| kept.add(address));
        kept
    }
}

/// Whether a datagram can be meant for this canonical address.
fn is_usable(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !broadcast
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(addresses: &[&str]) -> (Vec<String>, Vec<String>) {
        let addresses: Addresses = addresses.iter().map(|text| text.parse::<IpAddr>().unwrap()).collect();
        let texts = |kept: &[IpAddr]| kept.iter().map(IpAddr::to_string).collect();
        (texts(addresses.usable.items()), texts(addresses.unusable.items()))
    }

    #[test]
    fn mapped_addresses_are_judged_as_the_ipv4_addresses_that_they_are() {
        let (usable, unusable) = kept(&[
            "::ffff:224.0.0.1",
            "::ffff:255.255.255.255",
            "::ffff:0.0.0.0",
            "::ffff:192.0.2.1",
            "192.0.2.1",
        ]);
        assert_eq!(usable, ["192.0.2.1"], "and two spellings of one address are one");
        assert_eq!(unusable, ["0.0.0.0", "224.0.0.1", "255.255.255.255"]);
    }

    #[test]
    fn addresses_that_no_datagram_can_be_meant_for_are_unusable() {
        let (usable, unusable) = kept(&["::", "ff02::1", "0.0.0.0", "239.1.2.3", "255.255.255.255", "::1"]);
        assert_eq!(usable, ["::1"]);
        assert_eq!(unusable.len(), 5);
    }
}

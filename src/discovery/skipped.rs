//! What a discovery leaves out of the answers, and how a log line says so. Not an error while a member remains.

use super::lookup::{MOST_ADDRESSES, MOST_TARGETS};
use ratelimitly_config::text::Count;
use ratelimitly_core::id::ServerId;
use std::fmt;
use std::net::IpAddr;

/// Most ids and addresses that one line names.
const MOST_NAMED: usize = 8;

/// Parts of the answers that a discovery left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// SRV records whose target is not of the form `s-<id>` or whose port is 0.
    pub targets_unusable: usize,
    /// Usable SRV records beyond [`MOST_TARGETS`].
    pub targets_cut: usize,
    /// Addresses that no datagram can be meant for: unspecified, broadcast, multicast.
    pub addresses_unusable: Vec<IpAddr>,
    /// Addresses beyond [`MOST_ADDRESSES`] a target.
    pub addresses_cut: usize,
    /// Servers for whose target no usable address was found in time.
    pub without_address: Vec<ServerId>,
}

/// `; skipped: …` for the end of a log line; nothing if nothing was left out.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "; skipped: ";
        let mut item = |n: usize, thing, why: fmt::Arguments<'_>| {
            if n == 0 {
                return Ok(());
            }
            write!(f, "{}{} {why}", std::mem::replace(&mut separator, ", "), Count(n, thing))
        };
        item(self.targets_unusable, "SRV record", format_args!("without a target s-<id> or without a port"))?;
        item(self.targets_cut, "SRV record", format_args!("beyond the limit of {MOST_TARGETS}"))?;
        let unusable = &self.addresses_unusable;
        item(unusable.len(), "address", format_args!("that nothing can be sent to:{}", Named("", unusable)))?;
        item(self.addresses_cut, "address", format_args!("beyond the limit of {MOST_ADDRESSES} a target"))?;
        let servers = &self.without_address;
        item(servers.len(), "server", format_args!("without a usable address:{}", Named("s-", servers)))
    }
}

/// The first of several things, each after a space and a prefix.
struct Named<'a, T>(&'static str, &'a [T]);

impl<T: fmt::Display> fmt::Display for Named<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named(prefix, things) = self;
        things.iter().take(MOST_NAMED).try_for_each(|thing| write!(f, " {prefix}{thing}"))
    }
}

//! How a log line says what a discovery left out of DNS's answers. Not an error while a member remains.

use ratelimitly_config::text::Count;
use ratelimitly_core::membership::{LeftOut, MOST_ADDRESSES, MOST_ENDPOINTS, MOST_SERVERS};
use std::fmt;

/// Most ids and addresses that one line names.
const MOST_NAMED: usize = 8;

/// `; skipped: …` for the end of a log line; nothing if nothing was left out.
pub struct Skipped<'a>(pub &'a LeftOut);

impl fmt::Display for Skipped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "; skipped: ";
        let mut item = |n: usize, thing, why: fmt::Arguments<'_>| {
            if n == 0 {
                return Ok(());
            }
            write!(f, "{}{} {why}", std::mem::replace(&mut separator, ", "), Count(n, thing))
        };
        let left_out = self.0;
        item(
            left_out.records_unusable,
            "SRV record",
            format_args!("without a target s-<id> or without a port"),
        )?;
        over(left_out, &mut item)?;
        let unusable = &left_out.addresses_unusable;
        item(unusable.len(), "address", format_args!("that nothing can be sent to:{}", Named("", unusable)))?;
        let servers = &left_out.without_address;
        item(servers.len(), "server", format_args!("without a usable address:{}", Named("s-", servers)))
    }
}

/// What there is too much of: `3 SRV records beyond the limit of 64 servers`.
pub struct Over<'a>(pub &'a LeftOut);

impl fmt::Display for Over<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        over(self.0, &mut |n, thing, why| {
            if n == 0 {
                return Ok(());
            }
            write!(f, "{}{} {why}", std::mem::replace(&mut separator, ", "), Count(n, thing))
        })
    }
}

type Item<'a> = &'a mut dyn FnMut(usize, &'static str, fmt::Arguments<'_>) -> fmt::Result;

fn over(left_out: &LeftOut, item: Item<'_>) -> fmt::Result {
    item(
        left_out.records_over.count,
        "SRV record",
        format_args!("beyond the limit of {MOST_SERVERS} servers"),
    )?;
    item(
        left_out.addresses_over.count,
        "address",
        format_args!("beyond the limit of {MOST_ADDRESSES} a server and {MOST_ENDPOINTS} in all"),
    )
}

/// The first of several things, each after a space and a prefix.
struct Named<'a, T>(&'static str, &'a [T]);

impl<T: fmt::Display> fmt::Display for Named<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named(prefix, things) = self;
        things.iter().take(MOST_NAMED).try_for_each(|thing| write!(f, " {prefix}{thing}"))
    }
}

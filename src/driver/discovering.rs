//! Keeping the core's membership fresh: starts a discovery when the core says that one is due, and hands its result in.

use super::Driver;
use crate::conf::MainConf;
use crate::discovery::{DiscoveryError, Found, Settings, Skipped};
use crate::nginx::clock;
use crate::nginx::log::{Level, Log};
use ratelimitly_core::client::Discovered;
use ratelimitly_core::membership::{Member, Membership};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

impl Driver {
    /// Starts a discovery if one is due. Its result comes in a later turn of the event loop.
    pub(super) fn discover_if_due(self: &Rc<Self>) {
        let now = clock::monotonic();
        if self.with_core("discovery", |core| core.poll_discovery(now)) != Some(true) {
            return;
        }
        let driver = Rc::downgrade(self);
        let discovery = self.discovery.borrow();
        let Some(discovery) = discovery.as_ref() else { return };
        discovery.start(Box::new(move |result| {
            if let Some(driver) = driver.upgrade() {
                driver.discovered(result);
            }
        }));
    }

    fn discovered(self: &Rc<Self>, result: Result<Found, DiscoveryError>) {
        let now = clock::monotonic();
        let found = match result {
            Ok(found) => Membership::new(found.members).map(|members| (members, found.ttl_s, found.skipped)),
            Err(error) => {
                self.notes.discovery_failed(&error);
                None
            }
        };
        match found {
            Some((members, ttl_s, skipped)) => {
                self.notes.discovery_succeeded();
                let membership = self.remember(members, &skipped);
                self.with_core("members", |core| {
                    core.handle_discovered(now, Discovered { membership, ttl_s })
                });
            }
            None => {
                self.with_core("a failed discovery", |core| core.handle_discovery_failed(now));
            }
        }
        self.settle();
    }

    /// Logs a membership that differs from the last one; the same members stay the same allocation.
    fn remember(&self, membership: Membership, skipped: &Skipped) -> Arc<Membership> {
        let mut known = self.membership.borrow_mut();
        match &*known {
            Some(known) if **known == membership => Arc::clone(known),
            _ => {
                Log::of_cycle().write(
                    Level::Info,
                    format_args!(
                        "ratelimitly: members of {} are now {}{skipped}",
                        self.srv_name,
                        List(membership.members())
                    ),
                );
                Arc::clone(known.insert(Arc::new(membership)))
            }
        }
    }
}

/// Members as one line of a log: ids with their addresses.
struct List<'a>(&'a [Member]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, member) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{} at", member.id)?;
            for endpoint in &member.endpoints {
                write!(f, " {endpoint}")?;
            }
        }
        Ok(())
    }
}

/// What discovery is to look up, and whom to ask.
pub(super) fn settings(conf: &MainConf) -> Settings {
    Settings {
        srv_name: conf.srv_name.clone(),
        servers: conf.dns.servers.clone(),
        timeout_ms: conf.dns.timeout_ms,
        valid_s: conf.dns.valid_s,
        ipv4: conf.dns.ipv4,
        ipv6: conf.dns.ipv6,
        faults: Rc::clone(&conf.faults),
    }
}

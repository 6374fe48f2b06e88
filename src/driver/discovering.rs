//! Keeping the core's membership fresh: starts a discovery when the core says that one is due, and hands its result in.

use super::Driver;
use crate::conf::MainConf;
use crate::discovery::{DiscoveryError, Found, Settings};
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
        self.discovery.start(Box::new(move |result| {
            if let Some(driver) = driver.upgrade() {
                driver.discovered(result);
            }
        }));
    }

    fn discovered(self: &Rc<Self>, result: Result<Found, DiscoveryError>) {
        let now = clock::monotonic();
        let found = result.and_then(|found| {
            let membership = Membership::new(found.members).ok_or(DiscoveryError::NoUsableTarget)?;
            Ok(Discovered { membership: self.remember(membership), ttl_s: found.ttl_s })
        });
        match found {
            Ok(found) => {
                self.notes.discovery_succeeded();
                self.with_core("members", |core| core.handle_discovered(now, found));
            }
            Err(error) => {
                self.notes.discovery_failed(&self.srv_name, &error);
                self.with_core("a failed discovery", |core| core.handle_discovery_failed(now));
            }
        }
        self.settle();
    }

    /// Logs a membership that differs from the last one; the same members stay the same allocation.
    fn remember(&self, membership: Membership) -> Arc<Membership> {
        let mut known = self.membership.borrow_mut();
        match &*known {
            Some(known) if **known == membership => Arc::clone(known),
            _ => {
                Log::of_cycle().write(
                    Level::Info,
                    format_args!("ratelimitly: members of {} are now {}", self.srv_name, List(membership.members())),
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
    todo!()
}

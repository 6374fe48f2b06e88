//! Keeping the core's membership fresh: starts a discovery when the core says that one is due, and hands its result in.

mod lines;

pub(super) use lines::Lines;

use super::Driver;
use crate::discovery::{self, Event, Found, Handler, Skipped};
use crate::nginx::clock;
use crate::nginx::log::{Level, Log};
use crate::settings::Settings;
use ratelimitly_core::client::Discovered;
use ratelimitly_core::membership::gathering::Gathered;
use ratelimitly_core::membership::{LeftOut, Member, Membership};
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// How long a cold worker waits at most for further addresses once it has one (the resolution delay of RFC 8305),
/// milliseconds.
const RESOLUTION_DELAY_MS: u32 = 50;

impl Driver {
    /// Starts a discovery if one is due. Its events come in later turns of the event loop.
    pub(super) fn discover_if_due(self: &Rc<Self>) {
        let now = clock::monotonic();
        if self.with_core("discovery", |core| core.poll_discovery(now)) != Some(true) {
            return;
        }
        let known = self.membership.borrow().clone();
        let discovery = self.discovery.borrow();
        let Some(discovery) = discovery.as_ref() else { return };
        discovery.start(known, handler(Rc::downgrade(self)));
    }

    fn heard(self: &Rc<Self>, event: Event) {
        let now = clock::monotonic();
        match event {
            Event::Waits(nameservers) => {
                self.lines.waits(&self.srv_name, &nameservers);
                return;
            }
            Event::Usable(membership) => {
                let membership = self.remember(membership, None);
                self.with_core("members", |core| core.handle_usable(now, membership));
            }
            Event::Ended(Ok(found)) => self.discovered(found),
            Event::Ended(Err(error)) => {
                self.lines.failed(&error);
                self.with_core("a failed discovery", |core| core.handle_discovery_failed(now));
            }
        }
        self.settle();
    }

    fn discovered(&self, found: Found) {
        let now = clock::monotonic();
        let Found { gathered: Gathered { membership, partial, left_out }, ttl_s } = found;
        self.lines.succeeded();
        if let Some(lacking) = &partial {
            self.lines.partial(&self.srv_name, lacking);
        }
        self.lines.over_bounds(&self.srv_name, &left_out);
        let membership = self.remember(membership, Some(left_out));
        let partial = partial.is_some();
        self.with_core("members", |core| {
            core.handle_discovered(now, Discovered { membership, ttl_s, partial })
        });
    }

    /// Logs a membership that differs from the last one, or of which something else was left out, which shows at a
    /// discovery's end. The same members stay the same allocation.
    fn remember(&self, membership: Membership, left_out: Option<LeftOut>) -> Arc<Membership> {
        let mut known = self.membership.borrow_mut();
        let same = known.as_ref().is_some_and(|known| **known == membership);
        if !same || self.lines.leaves_out_more(left_out.as_ref()) {
            Log::of_cycle().write(
                Level::Notice,
                format_args!(
                    "ratelimitly: members of {} are now {}{}",
                    self.srv_name,
                    List(membership.members()),
                    Skipped(left_out.as_ref().unwrap_or(&LeftOut::default()))
                ),
            );
        }
        if let Some(left_out) = left_out {
            self.lines.left_out.replace(left_out);
        }
        match &*known {
            Some(known) if same => Arc::clone(known),
            _ => Arc::clone(known.insert(Arc::new(membership))),
        }
    }
}

/// A driver that is gone hears nothing any more.
fn handler(driver: Weak<Driver>) -> Handler {
    Rc::new(move |event| {
        if let Some(driver) = driver.upgrade() {
            driver.heard(event);
        }
    })
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
pub(super) fn settings(settings: &Settings) -> discovery::Settings {
    discovery::Settings {
        srv_name: settings.srv_name.clone(),
        dns: settings.dns.clone(),
        delay_ms: settings.policy.unit_ms().min(RESOLUTION_DELAY_MS),
        faults: Rc::clone(&settings.faults),
    }
}

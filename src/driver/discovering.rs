//! Keeping the core's membership fresh: starts a discovery when the core says that one is due, and hands its result in.

mod lines;

use super::Driver;
use crate::discovery::{self, Discovery, Event, Found, Handler, Skipped};
use crate::fault::Fault;
use crate::nginx::clock;
use crate::nginx::log::{Level, Log};
use crate::settings::Settings;
use lines::Lines;
use ratelimitly_core::client::{Client, Discovered};
use ratelimitly_core::membership::gathering::Gathered;
use ratelimitly_core::membership::{LeftOut, Member, Membership};
use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// How long a cold worker waits at most for further addresses once it has one (the resolution delay of RFC 8305),
/// milliseconds.
const RESOLUTION_DELAY_MS: u32 = 50;

/// Discovery as the driver keeps it.
pub(super) struct Discovering {
    discovery: RefCell<Option<Discovery>>,
    srv_name: String,
    /// The members found last.
    known: RefCell<Option<Arc<Membership>>>,
    lines: Lines,
}

impl Driver {
    /// Starts a discovery if one is due. Its events come in later event-loop iterations.
    pub(super) fn discover_if_due(self: &Rc<Self>) {
        let now = clock::monotonic();
        if self.with_core("discovery", |core| core.poll_discovery(now)) == Some(true) {
            self.discovering.start(handler(Rc::downgrade(self)));
        }
    }

    fn heard(self: &Rc<Self>, event: Event) {
        let now = clock::monotonic();
        match event {
            Event::Waits(nameservers) => return self.discovering.waits(&nameservers),
            Event::Usable(membership) => {
                let membership = self.discovering.remember(membership, None);
                self.hand_in(|core| core.handle_usable(now, membership));
            }
            Event::Ended(Ok(found)) => {
                let found = self.discovering.found(found);
                self.shared.discovery(true);
                self.hand_in(|core| core.handle_discovered(now, found));
            }
            Event::Ended(Err(error)) => {
                self.discovering.lines.failed(&error);
                self.shared.discovery(false);
                self.with_core("a failed discovery", |core| core.handle_discovery_failed(now));
            }
        }
        self.settle();
    }

    /// Gives the core members that discovery has found, and tells the other workers and the breaker.
    fn hand_in(&self, hand_in: impl FnOnce(&mut Client) -> bool) {
        let are_new = self.with_core("members", |core| {
            let are_new = hand_in(core);
            self.shared.found_members(core);
            are_new
        });
        if are_new == Some(true) {
            self.note_members_to_breaker();
        }
    }
}

impl Discovering {
    /// `known`: members that another worker has found, and logged.
    pub fn new(
        conf: &Settings,
        known: Option<Arc<Membership>>,
    ) -> Result<Discovering, discovery::SetupError> {
        if conf.faults.fires(Fault::Resolver) {
            return Err(discovery::SetupError::NoNameserver);
        }
        Ok(Discovering {
            discovery: RefCell::new(Some(Discovery::new(settings(conf))?)),
            srv_name: conf.srv_name.clone(),
            known: RefCell::new(known),
            lines: Lines::default(),
        })
    }

    /// Ends the tasks and closes the sockets.
    pub fn leave(&self) {
        self.discovery.take();
        self.lines.leave();
    }

    fn start(&self, handler: Handler) {
        let known = self.known.borrow().clone();
        if let Some(discovery) = self.discovery.borrow().as_ref() {
            discovery.start(known, handler);
        }
    }

    fn waits(&self, nameservers: &[SocketAddr]) {
        self.lines.waits(&self.srv_name, nameservers);
    }

    fn found(&self, found: Found) -> Discovered {
        let Found { gathered: Gathered { membership, partial, left_out }, ttl_s } = found;
        self.lines.succeeded();
        if let Some(lacking) = &partial {
            self.lines.partial(&self.srv_name, lacking);
        }
        self.lines.over_bounds(&self.srv_name, &left_out);
        let membership = self.remember(membership, Some(left_out));
        Discovered { membership, ttl_s, partial: partial.is_some() }
    }

    /// Logs a membership that differs from the last one, or of which something else was left out, which shows at a
    /// discovery's end. The same members stay the same allocation.
    fn remember(&self, membership: Membership, left_out: Option<LeftOut>) -> Arc<Membership> {
        let mut known = self.known.borrow_mut();
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
fn settings(settings: &Settings) -> discovery::Settings {
    discovery::Settings {
        srv_name: settings.srv_name.clone(),
        dns: settings.dns.clone(),
        delay_ms: settings.policy.unit_ms().min(RESOLUTION_DELAY_MS),
        faults: Rc::clone(&settings.faults),
    }
}

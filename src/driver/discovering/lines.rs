//! The log lines about discoveries: failures with their end, silent nameservers, and what DNS lists beyond the bounds.
//!
//! Each kind is paced, so that no nameserver can fill the error log. Called by `discovering` and when the worker exits.

use crate::discovery::{DiscoveryError, Over};
use crate::nginx::clock;
use crate::nginx::log::{Level, Log};
use ratelimitly_core::membership::LeftOut;
use ratelimitly_core::membership::gathering::Lacking;
use ratelimitly_core::outage::{End, Outage, Words};
use ratelimitly_core::pace::Paced;
use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;

const WORDS: Words =
    Words { again: "discovery succeeds again", one: "failed discovery", many: "failed discoveries" };

/// What is known of the lines so far.
#[derive(Default)]
pub(super) struct Lines {
    failures: RefCell<Outage>,
    waits: RefCell<Paced>,
    partial: RefCell<Paced>,
    over: RefCell<Paced>,
    /// What the last discovery left out.
    pub(super) left_out: RefCell<LeftOut>,
}

impl Lines {
    pub(super) fn failed(&self, error: &DiscoveryError) {
        if let Some(due) = self.failures.borrow_mut().failed(clock::monotonic()) {
            error_line(format_args!("discovery failed: {error}{due}"));
        }
    }

    pub(super) fn succeeded(&self) {
        let end = self.failures.borrow_mut().recovered(clock::monotonic());
        end.inspect(|end| self.ended(*end));
    }

    /// The worker exits.
    pub(super) fn leave(&self) {
        let end = self.failures.borrow_mut().leave(clock::monotonic());
        end.inspect(|end| self.ended(*end));
    }

    fn ended(&self, end: End) {
        error_line(format_args!("{}", end.in_words(&WORDS)));
    }

    pub(super) fn waits(&self, name: &str, nameservers: &[SocketAddr]) {
        let Some(due) = self.waits.borrow_mut().occurred(clock::monotonic()) else { return };
        error_line(format_args!(
            "discovery of {name} has no address after 2 s, it waits for {}{due}",
            Nameservers(nameservers)
        ));
    }

    pub(super) fn partial(&self, name: &str, lacking: &Lacking) {
        if let Some(due) = self.partial.borrow_mut().occurred(clock::monotonic()) {
            Log::of_cycle().write(
                Level::Warn,
                format_args!(
                    "ratelimitly: discovery of {name} is partial; {lacking}; it is repeated soon{due}"
                ),
            );
        }
    }

    /// Says what was left out because DNS lists too much, if it is not what was left out before.
    pub(super) fn over_bounds(&self, name: &str, left_out: &LeftOut) {
        let now = left_out.over_bounds();
        if self.left_out.borrow().over_bounds() == now || now.is_nothing() {
            return;
        }
        if let Some(due) = self.over.borrow_mut().occurred(clock::monotonic()) {
            error_line(format_args!("DNS lists too much for {name}, not used: {}{due}", Over(left_out)));
        }
    }
}

impl Lines {
    /// Whether a discovery that has ended left out something else than the one before, and not nothing.
    pub(super) fn leaves_out_more(&self, left_out: Option<&LeftOut>) -> bool {
        left_out.is_some_and(|now| *now != LeftOut::default() && *now != *self.left_out.borrow())
    }
}

fn error_line(message: fmt::Arguments<'_>) {
    Log::of_cycle().write(Level::Error, format_args!("ratelimitly: {message}"));
}

/// Nameservers in a sentence.
struct Nameservers<'a>(&'a [SocketAddr]);

impl fmt::Display for Nameservers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("no nameserver"),
            [one] => write!(f, "nameserver {one}"),
            [first, more @ ..] => {
                write!(f, "nameservers {first}")?;
                more.iter().try_for_each(|one| write!(f, ", {one}"))
            }
        }
    }
}

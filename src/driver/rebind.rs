//! Replacing the socket when a server asked for another source port, and when no server answers.
//!
//! For a server: only when no admission is in flight, and never under the socket's own read event: a zero-delay event does it. The
//! replacement is registered before the old socket goes; where that fails the old one stays in use.

use super::Driver;
use crate::nginx::log::Log;
use std::fmt;

/// Wait after a replacement that failed, milliseconds.
const RETRY_MS: u64 = 1000;

impl Driver {
    /// Sends from a new source port if the core wants to leave one that has brought no answers. Where no socket is to be had
    /// the old one stays, and the core asks again later.
    pub(super) fn leave_silent_port(&self) {
        let keep_ms =
            self.with_core("a silent port", |core| core.poll_new_port().then(|| core.horizon_ms())).flatten();
        if keep_ms.is_none() {
            return;
        }
        let replaced = self.transport.replace(keep_ms);
        self.shared.rebind(replaced.is_ok());
        match replaced {
            Ok((old, new)) => {
                self.with_core("a new port", |core| core.handle_rebound());
                self.notes.left_silent_port(old, new);
            }
            Err(error) => self.notes.silent_port_kept(&error),
        }
    }

    /// Logs the first one of the answers that ask for another port.
    pub(super) fn note_rebind_pending(&self) {
        if self.rebind_pending() && self.transport.first_rebind_note() {
            self.note_rebind(format_args!("pending until no admission is in flight"));
        }
    }

    /// Logs each step at the level of single requests; what an operator has to know of them is paced.
    fn note_rebind(&self, step: fmt::Arguments<'_>) {
        Log::of_cycle().write(self.detail, format_args!("ratelimitly: rebind {step}"));
    }

    /// Posts the replacement, if one is pending and nothing stands against it.
    pub(super) fn rebind_if_due(&self) {
        if self.rebind_is_possible() {
            self.transport.rebind_soon();
        }
    }

    fn rebind_pending(&self) -> bool {
        self.is_live() && self.core.borrow().rebind_pending()
    }

    fn rebind_is_possible(&self) -> bool {
        self.rebind_pending() && self.in_flight() == 0
    }

    pub(super) fn rebind(&self) {
        if !self.rebind_is_possible() {
            return;
        }
        let replaced = self.transport.replace(None);
        self.shared.rebind(replaced.is_ok());
        match replaced {
            Ok((old, new)) => {
                self.with_core("a rebind", |core| core.handle_rebound());
                self.notes.rebound(old, new);
                self.note_rebind(format_args!("source port {old} is now {new}"));
            }
            Err(error) => {
                self.transport.rebind_in(RETRY_MS);
                self.notes.rebind_failed(&error, RETRY_MS);
                self.note_rebind(format_args!("tried, {error}"));
            }
        }
    }
}

//! Replacing the socket when a server asked for another source port.
//!
//! Only when no admission is in flight, and never under the socket's own read event: a zero-delay event does it. The
//! replacement is registered before the old socket goes; where that fails the old one stays in use.

use super::Driver;
use crate::conf::Fault;
use crate::nginx::connection::OpenError;
use crate::nginx::log::Log;
use crate::nginx::posted::PostedEvent;
use crate::nginx::timer::{Leaving, Timer};
use std::fmt;
use std::rc::Weak;

/// Wait after a replacement that failed, milliseconds.
const RETRY_MS: u64 = 1000;

/// The zero-delay event.
pub(super) fn event(driver: Weak<Driver>) -> PostedEvent {
    PostedEvent::new("replacing the UDP socket", move || {
        if let Some(driver) = driver.upgrade() {
            driver.rebind();
        }
    })
}

/// The timer behind a replacement that failed; a leaving worker does not wait for it.
pub(super) fn timer(driver: Weak<Driver>) -> Timer {
    Timer::new("replacing the UDP socket again", Leaving::GoesOn, move || {
        if let Some(driver) = driver.upgrade() {
            driver.rebind_if_due();
        }
    })
}

impl Driver {
    /// Logs the first answer of a row that asks for another port.
    pub(super) fn note_rebind_pending(&self) {
        let pending = !self.broken.get() && self.core.borrow().rebind_pending();
        if pending && !self.rebind_noted.replace(pending) {
            self.note_rebind(format_args!("pending until no admission is in flight"));
        }
    }

    /// Logs each step at the level of single requests; what an operator has to know of them is paced.
    fn note_rebind(&self, step: fmt::Arguments<'_>) {
        Log::of_cycle().write(self.detail, format_args!("ratelimitly: rebind {step}"));
    }

    /// Posts the replacement, if one is pending and nothing stands against it.
    pub(super) fn rebind_if_due(&self) {
        if self.rebind_is_possible() && !self.rebind_timer.is_armed() && !self.rebind_event.is_posted() {
            self.rebind_event.post();
        }
    }

    fn rebind_is_possible(&self) -> bool {
        !self.broken.get() && self.core.borrow().rebind_pending() && self.in_flight() == 0
    }

    fn rebind(&self) {
        if !self.rebind_is_possible() {
            return;
        }
        match self.replace_socket() {
            Ok((old, new)) => {
                self.with_core("a rebind", |core| core.handle_rebound());
                self.rebind_noted.set(false);
                self.notes.rebound(old, new);
                self.note_rebind(format_args!("source port {old} is now {new}"));
            }
            Err(error) => {
                self.rebind_timer.arm(RETRY_MS);
                self.notes.rebind_failed(&error, RETRY_MS);
                self.note_rebind(format_args!("tried, {error}"));
            }
        }
    }

    /// Opens the new socket, then closes the old one. Returns both ports.
    fn replace_socket(&self) -> Result<(u16, u16), OpenError> {
        if self.faults.fires(Fault::Rebind) {
            return Err(OpenError::TooManyFiles);
        }
        let new = self.open_socket()?;
        let new_port = new.port();
        let old = self.socket.replace(Some(new));
        Ok((old.map_or(0, |old| old.port()), new_port))
    }
}

//! Replacing the socket when a server asked for another source port, and when no server answers.
//!
//! For a server: only when no admission is in flight, and never under the socket's own read event: a zero-delay event does it. The
//! replacement is registered before the old socket goes; where that fails the old one stays in use.

use super::Driver;
use crate::fault::Fault;
use crate::nginx::connection::OpenError;
use crate::nginx::log::Log;
use crate::nginx::posted::PostedEvent;
use crate::nginx::timer::{Leaving, Timer};
use crate::nginx::udp::UdpSocket;
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

/// The timer that closes the old socket of a silent port; a leaving worker does not wait for it.
pub(super) fn old_socket_timer(driver: Weak<Driver>) -> Timer {
    Timer::new("closing the old UDP socket", Leaving::GoesOn, move || {
        if let Some(driver) = driver.upgrade() {
            driver.old_socket.take();
        }
    })
}

impl Driver {
    /// Sends from a new source port if the core wants to leave one that has brought no answers. Where no socket is to be had
    /// the old one stays, and the core asks again later.
    pub(super) fn leave_silent_port(&self) {
        if self.with_core("a silent port", |core| core.poll_new_port()) != Some(true) {
            return;
        }
        match self.open_replacement() {
            Ok(new) => {
                let new_port = new.port();
                let old = self.socket.replace(Some(new));
                let old_port = old.as_ref().map_or(0, UdpSocket::port);
                self.old_socket.replace(old);
                let horizon_ms = self.with_core("a new port", |core| {
                    core.handle_rebound();
                    core.horizon_ms()
                });
                self.old_socket_timer.arm(horizon_ms.unwrap_or_default());
                self.rebind_noted.set(false);
                self.notes.left_silent_port(old_port, new_port);
            }
            Err(error) => self.notes.silent_port_kept(&error),
        }
    }

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
        let new = self.open_replacement()?;
        let new_port = new.port();
        let old = self.socket.replace(Some(new));
        Ok((old.map_or(0, |old| old.port()), new_port))
    }

    /// A registered socket beside the one in use. The injected fault comes last, so a caller that has already closed the old
    /// socket has none.
    fn open_replacement(&self) -> Result<UdpSocket, OpenError> {
        let new = self.open_socket()?;
        if self.faults.fires(Fault::Rebind) {
            return Err(OpenError::TooManyFiles);
        }
        Ok(new)
    }
}

//! The running development server: starts servers and DNS, applies commands, hands out events. Used by the binary
//! and by the end-to-end tests; it runs on the caller's tokio runtime and ends when it is dropped.

use crate::command::{Command, CommandError, DnsCounts, Reply, Status};
use crate::config::Config;
use crate::event::Event;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A server's id and UDP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Server id.
    pub id: u64,
    /// UDP address, port included.
    pub addr: SocketAddr,
}

/// A development server: some servers that share one state, and their DNS zone. Dropping it ends every task and
/// closes every socket.
#[derive(Debug)]
pub struct DevServer {}

impl DevServer {
    /// Opens every socket and starts serving on the current tokio runtime.
    ///
    /// # Errors
    /// A zone, key, id or command that makes no sense (`InvalidInput`), and every socket or file that cannot be opened.
    pub async fn start(config: Config) -> io::Result<DevServer> {
        let _ = config;
        todo!()
    }

    /// Where DNS answers, over UDP and TCP.
    pub fn dns_addr(&self) -> SocketAddr {
        todo!()
    }

    /// The DNS zone, without the trailing dot.
    pub fn zone(&self) -> &str {
        todo!()
    }

    /// The servers, in the order of their start.
    pub fn servers(&self) -> Vec<ServerInfo> {
        todo!()
    }

    /// Applies a command; when this returns, it is in effect.
    ///
    /// # Errors
    /// See `CommandError`.
    pub async fn apply(&self, command: Command) -> Result<Reply, CommandError> {
        let _ = command;
        todo!()
    }

    /// Clears faults, buckets, trackers and remembered requests: `Command::Reset`.
    ///
    /// # Errors
    /// A socket that was down cannot be opened again.
    pub async fn reset(&self) -> Result<(), CommandError> {
        self.apply(Command::Reset).await.map(drop)
    }

    /// State and counters: `Command::Status`.
    pub fn status(&self) -> Status {
        todo!()
    }

    /// DNS queries received so far.
    pub fn dns_counts(&self) -> DnsCounts {
        todo!()
    }

    /// Every event recorded so far.
    pub fn events(&self) -> Vec<Event> {
        todo!()
    }

    /// Forgets the recorded events.
    pub fn clear_events(&self) {
        todo!()
    }

    /// Waits until the recorded events fulfil `predicate`. `Ok`: the events at that moment; `Err`: the events when the
    /// time was over.
    ///
    /// # Errors
    /// The predicate did not become true in time.
    pub async fn wait_events(
        &self,
        timeout: Duration,
        predicate: impl FnMut(&[Event]) -> bool,
    ) -> Result<Vec<Event>, Vec<Event>> {
        let _ = (timeout, predicate);
        todo!()
    }
}

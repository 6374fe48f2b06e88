//! What nginx's processes share: where each count lies among the words of a shared area, the page that Prometheus reads, and
//! the servers that a worker has found.
//!
//! Called by the module's `shared` room, which gets the words from nginx. The words are atomic, so that every function here is
//! safe while other processes write too. No nginx, no memory of its own, no clock: a caller says what time it is and
//! which processes live.
#![forbid(unsafe_code)]

mod counters;
mod digest;
mod entry;
mod label;
mod layout;
mod page;
mod processes;
mod reading;

pub use counters::{CAUSES, OUTCOMES, SKIP};
pub use counters::{Counter, GuardCount, Set, ZoneCount};
pub use digest::Digest;
pub use entry::{ENTRY_WORDS, Entry, MOST_ENDPOINTS, MOST_SERVERS, Server};
pub use layout::{Definitions, Gauge, Layout};
pub use page::{Build, page};
pub use processes::{Flag, Process, Processes, Workers};

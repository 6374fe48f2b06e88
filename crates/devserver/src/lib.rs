//! A RateLimitly-compatible development server, for trying and testing. **It is not the RateLimitly service.**
//!
//! N servers that share one set of buckets, trackers and remembered requests, their DNS zone, faults that can be set at
//! start and at run time, and a stream of events. Used by the binary `ratelimitly-devserver` and by the end-to-end
//! tests; never by the module.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod cli;
pub mod command;
pub mod config;
mod control;
mod devserver;
mod dns;
pub mod event;
mod faults;
mod fleet;
pub mod keygen;
mod keyring;
mod limiter;
pub mod names;
mod outbox;
mod recorder;
mod respond;
mod server;
mod sighting;

pub use command::{
    AddressAnswer, Command, CommandError, DnsFault, DnsFaultKind, Family, Fault, FaultKind, Lost, Member,
    NoEdnsCode, Order, Reply, Servers,
};
pub use config::Config;
pub use devserver::{DevServer, ServerInfo};
pub use event::{AnswerSeen, CountSeen, Event, Fate, Kind, Verdict};

/// What the server says about itself at start.
pub const NOTICE: &str = "ratelimitly-devserver is a development server for trying and testing. It is not the RateLimitly service: its limits hold only inside this process.";

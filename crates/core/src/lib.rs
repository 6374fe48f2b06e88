//! The RateLimitly client without input and output: keys, ids, the wire codec, the request policy and the
//! admission state machine.
//!
//! Called by the nginx module (`src/`), and its codec also by the development server. It never opens a socket,
//! reads a clock, draws randomness of its own or knows nginx: time, datagrams and a random seed come in as
//! arguments, and what should happen goes out as plain data.
#![forbid(unsafe_code)]

pub mod backlog;
pub mod breaker;
pub mod client;
pub mod id;
pub mod key;
pub mod limits;
pub mod membership;
pub mod outage;
pub mod pace;
pub mod policy;
pub mod refusals;
pub mod remembered;
pub mod round_trip;
pub mod time;
pub mod wire;

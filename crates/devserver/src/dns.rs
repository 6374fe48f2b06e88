//! The DNS zone of the servers: `zone` decides what a query's answer is, `serve` carries queries and answers over UDP
//! and TCP. Started by `devserver.rs`, changed by commands. It answers for its own zone only and never recurses.

mod serve;
mod zone;

pub(crate) use serve::{Sockets, serve};
pub(crate) use zone::Zone;

//! The development server from outside: real sockets, the real binary, a resolver and a client that nobody here wrote.
//! One file a family of behaviours; `support` is the client that speaks the wire's every detail.
#![forbid(unsafe_code)]

mod application;
mod binary;
mod deduplication;
mod dns;
mod events;
mod faults;
mod limits;
mod official_client;
mod sockets;
mod support;

//! What every program needs that runs a real nginx with the module: nginx itself, the development server, HTTP clients,
//! upstream servers, load and quantiles. Used by the end-to-end tests, `ci/demo`, `ci/soak`, `ci/memcheck`, `ci/bench` and
//! `ci/lab`. Nothing here knows a test's subject, and nothing here waits a fixed time where a condition can be awaited.
//!
//! A test builds a [`Dev`] (the development server), an [`Nginx`] from a whole configuration text, and drives it with
//! the clients of [`http`], [`h2`], [`h3`] and [`raw`]. It ends with [`Nginx::finish`], which runs the lifecycle checks that
//! every test shares. Tests run on a runtime with several threads: `#[tokio::test(flavor = "multi_thread")]`.
#![forbid(unsafe_code)]

pub mod app;
mod builder;
pub mod check;
mod dev;
pub mod environment;
pub mod figures;
pub mod h2;
#[cfg(feature = "http3")]
pub mod h3;
mod holdings;
pub mod http;
mod lifecycle;
pub mod load;
pub mod log;
mod nginx;
mod ports;
pub mod process;
pub mod raw;
mod template;
pub mod tls;
mod upstream;
mod wait;

pub use builder::Builder;
pub use check::{Checked, check_config};
pub use dev::{Dev, key, quotas};
pub use nginx::Nginx;
pub use ports::{free_port, free_ports};
pub use upstream::{Answer, Seen, Upstream};
pub use wait::{eventually, eventually_some, holds_within};

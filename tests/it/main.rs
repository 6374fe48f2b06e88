//! The end-to-end tests: a real nginx with the module, the development server and real clients. Each module is a family of
//! behaviours, described at its top; docs/testing.md lists them. One program, so that it is linked once and all families
//! run side by side: no test may change what belongs to the process (environment, working folder, signal handlers).

mod admission;
mod breaker;
mod checks;
mod client_view;
mod configuration;
mod controls;
mod cross;
mod diagnose;
mod distance;
mod dns;
mod endpoints;
mod event_methods;
mod faults;
mod guards;
mod handed_on;
mod hostile;
mod http2;
mod http3;
mod interop;
mod keepalive;
mod kitchen;
mod lifecycle;
mod limits;
mod metrics;
mod outage;
mod packaging;
mod pressure;
mod protocols;
mod readiness;
mod recipes;
mod remember;
mod reports;
mod routing;
mod secrets;
mod shared_object;
mod smoke;
mod steering;
mod values;

/// Both failure policies: what holds under both is tried under both.
const POLICIES: [&str; 2] = ["open", "close"];
/// Both failure policies and the status that each makes of a failure.
const FAILURES: [(&str, u16); 2] = [("open", 200), ("close", 429)];

//! Safe wrappers over the parts of nginx that the module needs: logs, sockets on the event loop, timers, posted
//! events, requests, the clock. The only rooms with unsafe code beyond the first lines of a callback; they know
//! nothing of RateLimitly.

pub mod border;
pub mod clock;
pub mod complex_value;
pub mod conf;
pub mod connection;
pub mod cycle;
pub mod log;
pub mod phases;
pub mod posted;
pub mod request;
pub mod timer;
pub mod udp;

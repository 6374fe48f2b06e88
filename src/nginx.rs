//! Safe wrappers over the parts of nginx that the module needs: logs, sockets on the event loop, timers, posted
//! events, requests, the clock. Unsafe code elsewhere is the first lines of a callback, the pointer to this module's own
//! configuration, and a suspended request's pointer in `context`. Nothing here knows the protocol or a directive.

pub mod address;
pub mod border;
pub mod clock;
pub mod complex_value;
pub mod conf;
pub mod connection;
pub mod content;
pub mod cycle;
pub mod log;
pub mod module;
pub mod phases;
pub mod posted;
pub mod process;
pub mod request;
pub mod shared;
pub mod timer;
pub mod udp;
pub mod value;

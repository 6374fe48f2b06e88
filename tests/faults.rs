//! Faults inside the module: set-up, discovery, panics, the replacement socket.

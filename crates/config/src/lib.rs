//! Text of directive arguments and of `resolv.conf` to typed values; no nginx, no I/O.
#![forbid(unsafe_code)]

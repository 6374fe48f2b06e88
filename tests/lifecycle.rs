//! Reload, quit, aborts, and a process without a master.

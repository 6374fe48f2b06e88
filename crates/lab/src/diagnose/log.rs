//! Reads the logs of nginx and of the application line by line, and keeps of them what the diagnosis needs, in bounded
//! memory. Used by `diagnose.rs`; `cause.rs` judges.

mod distinct;
pub mod entry;
pub mod format;
pub mod histogram;
mod path;
pub mod reader;
pub mod tally;
mod time;
pub mod timeline;

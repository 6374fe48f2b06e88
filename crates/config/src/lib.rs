//! Text of directive arguments and of `resolv.conf` to typed values.
//!
//! Called by the module's configuration room while nginx loads, and for values that hold variables also by its rendering
//! room for each request. What runs for a request (rates, thresholds, `tokens`, `condition`, `seconds`, and `log_line`,
//! through which each line of the error log passes) allocates nothing. Every error says what is wrong and what would be
//! accepted; the caller adds the directive's name. No nginx, no I/O, no clock in here.
#![forbid(unsafe_code)]

pub mod address;
pub mod arguments;
pub mod condition;
pub mod dns_name;
pub mod duration;
pub mod fields;
pub mod key_file;
pub mod key_text;
pub mod label;
pub mod log_level;
pub mod log_line;
pub mod name;
pub mod number;
pub mod older;
pub mod policy;
pub mod rate;
pub mod resolv_conf;
pub mod resolver;
pub mod seconds;
pub mod status;
pub mod text;
pub mod tokens;
pub mod variables;

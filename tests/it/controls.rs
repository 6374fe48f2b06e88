//! The operator's controls: what a failure and a denial mean at a place, and whom the rules apply to.

mod causes;
mod dry_run;
mod enforcement;
pub mod fields;
mod headers;
mod key_file;
mod outcome;
mod plain;
mod report_time;
mod skip;
mod tokens;

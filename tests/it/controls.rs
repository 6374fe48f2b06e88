//! The operator's controls: what a failure and a denial mean at a place, and whom the rules apply to.

mod enforcement;
mod outcome;
mod skip;
mod tokens;

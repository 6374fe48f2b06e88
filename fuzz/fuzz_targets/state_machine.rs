//! The core as a state machine: the input says what happens to a client and in which order, and every promise of the machine
//! that the core's own test uses is checked.
#![no_main]

#[path = "../../crates/core/tests/machine/mod.rs"]
mod machine;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| machine::run(input));

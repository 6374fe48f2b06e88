//! The part of the lab that runs nothing: the diagnosis of an operator's logs and configuration. A library, so that the
//! end-to-end tests can read what a real nginx logged; the experiments are the program's own.
#![forbid(unsafe_code)]

pub mod diagnose;

//! The nginx module.

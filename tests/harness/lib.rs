//! The harness that every end-to-end test shares.

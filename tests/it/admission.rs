//! Admissions themselves: what is asked of the servers, when a worker's first requests are admitted, what nginx makes
//! of each verdict, and many admissions at once. Each test is named after its row of the conformance checklist.
//! Where a request goes inside nginx beside its admission is the subject of `routing.rs`.

use ratelimitly_harness::{Dev, Nginx};

mod batches;
mod cold;
mod fresh_bytes;
mod rules;
mod schedule;
mod verdicts;

/// An nginx whose worker knows the servers, so that nothing here depends on the first discovery.
async fn warm(text: &str, dev: &Dev, fail: &str) -> Nginx {
    Nginx::builder(text).dev(dev).set("fail", fail).warm().await
}

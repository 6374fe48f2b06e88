//! When a latency is reported, when it is not, and what is measured.

use ratelimitly_harness::{Dev, Nginx};

mod outcomes;
mod unasked;

/// The log lines about reports that were tried, sent or not.
pub(crate) fn attempts(nginx: &Nginx) -> Vec<String> {
    nginx.log_lines("ratelimitly: report ")
}

/// Waits until so many reports have arrived.
async fn arrived(dev: &Dev, count: usize) {
    dev.await_reports(&format!("{count} reports"), |reports| reports.len() >= count).await;
}

//! Waiting for conditions: polled often, bounded generously, so that no test depends on how fast the machine is.
//! Used by the whole harness and by tests.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Between two looks at a condition.
const POLL: Duration = Duration::from_millis(10);

/// Waits until the condition holds.
///
/// # Panics
/// It did not hold in time; `what` says what was waited for.
pub async fn eventually(timeout: Duration, what: impl Display, mut condition: impl FnMut() -> bool) {
    eventually_some(timeout, what, async || condition().then_some(())).await;
}

/// Waits until the asynchronous look gives a value.
///
/// # Panics
/// It gave none in time; `what` says what was waited for.
pub async fn eventually_some<T>(
    timeout: Duration,
    what: impl Display,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = look().await {
            return value;
        }
        assert!(started.elapsed() < timeout, "not within {timeout:?}: {what}");
        tokio::time::sleep(POLL).await; // then polled again
    }
}

/// Tells whether the condition held within the time.
pub async fn holds_within(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() > timeout {
            return false;
        }
        tokio::time::sleep(POLL).await; // then polled again
    }
    true
}

/// The same for places that cannot be asynchronous: `Drop`. Tells whether the condition held in time.
pub(crate) fn blocking(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while !condition() {
        if started.elapsed() > timeout {
            return false;
        }
        std::thread::sleep(POLL); // then polled again
    }
    true
}

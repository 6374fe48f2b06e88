//! The border that no panic crosses: every function that nginx calls runs its body through [`guarded`].
//!
//! A panic that left an `extern "C"` function would end the worker and every request in it. Here it ends only what
//! it hit: it is logged at `alert` (its text and place by the panic hook in `logging`) and becomes a plain value.

use crate::nginx::clock;
use crate::nginx::log::{Level, Log};
use ratelimitly_core::pace::PacedBy;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body`; a panic in it is logged, and `on_panic` returned in its place. `entry` names the body in that line.
///
/// What the panic left half done is the caller's to set right: whatever `body` changed stays changed.
pub fn guarded<R>(entry: &'static str, on_panic: R, body: impl FnOnce() -> R) -> R {
    catch(entry, body).unwrap_or(on_panic)
}

/// Like [`guarded`], for callers that must clean up after a panic themselves: `None` says that there was one.
pub fn catch<R>(entry: &'static str, body: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => Some(value),
        Err(payload) => {
            // A payload whose own drop panics must not cross the border either.
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(second);
            }
            note(entry);
            None
        }
    }
}

/// Logs that a panic was stopped; one that every request repeats must not fill the log.
fn note(entry: &'static str) {
    thread_local!(static PACES: RefCell<PacedBy<&'static str>> = const { RefCell::new(PacedBy::new()) });
    let due = PACES.with(|paces| paces.borrow_mut().occurred(entry, clock::monotonic()));
    if let Some(due) = due {
        Log::of_cycle().write(
            Level::Alert,
            format_args!("ratelimitly: a panic was stopped in {entry}; the worker goes on{due}"),
        );
    }
}

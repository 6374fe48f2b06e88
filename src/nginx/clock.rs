//! nginx's cached clocks as the core's types. They move once per event-loop iteration, and reading them costs no
//! system call.

use ngx::ffi;
use ratelimitly_core::time::{Millis, WallMillis};

// A narrower clock starts anew after 49 days, which no deadline here is prepared for.
const _: () = assert!(size_of::<ffi::ngx_msec_t>() == size_of::<u64>(), "the module is for 64-bit platforms");

/// nginx's monotonic clock (`ngx_current_msec`), on which every deadline runs.
pub fn monotonic() -> Millis {
    // SAFETY: a plain word that only this thread writes.
    Millis(unsafe { ffi::ngx_current_msec } as u64)
}

/// The wall clock: the timestamp on the wire, and the end of a reported duration.
pub fn wall() -> WallMillis {
    // SAFETY: `ngx_cached_time` points into a static table of nginx that is set up before any module runs.
    let (sec, msec) = unsafe { ((*ffi::ngx_cached_time).sec, (*ffi::ngx_cached_time).msec) };
    WallMillis((sec as u64).saturating_mul(1000).saturating_add(msec as u64))
}

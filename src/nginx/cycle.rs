//! The configuration cycle in effect, and how this process runs.

use ngx::ffi::{self, ngx_cycle_t};

/// The cycle in effect; before the first one is complete, nginx's provisional one, which has no http block.
pub fn current() -> *mut ngx_cycle_t {
    // SAFETY: a plain pointer that only this thread writes.
    unsafe { ffi::ngx_cycle }
}

/// Whether this one process is master and worker (`master_process off`): it lives on through a reload.
pub fn is_single_process() -> bool {
    // SAFETY: a plain word that is set before the first cycle is run.
    unsafe { ffi::ngx_process == ffi::NGX_PROCESS_SINGLE as usize }
}

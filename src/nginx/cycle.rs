//! Configuration cycles: the one in effect, what HTTP modules keep in one, and how this process runs.
//!
//! A `&Cycle` is made in the first lines of a callback and lasts no longer than that callback.

use crate::nginx::module::{self, ModuleIndex};
use ngx::ffi::{self, ngx_cycle_t, ngx_http_conf_ctx_t};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::NonNull;

/// A cycle of nginx, which nginx changes behind every reference; hence the cell.
#[repr(transparent)]
pub struct Cycle(UnsafeCell<ngx_cycle_t>);

impl Cycle {
    /// The cycle behind `cycle`.
    ///
    /// # Safety
    /// `cycle` must be a live cycle, and the result must not outlive the callback that got it.
    pub unsafe fn from_ptr<'a>(cycle: *mut ngx_cycle_t) -> &'a Cycle {
        // SAFETY: the caller's promise; the layout is the same (`repr(transparent)`).
        unsafe { &*cycle.cast::<Cycle>() }
    }

    /// Calls `look` with the cycle in effect; before the first one is complete that is nginx's provisional one, which has
    /// neither modules nor an http block.
    pub fn with_current<T>(look: impl FnOnce(&Cycle) -> T) -> T {
        // SAFETY: nginx points to a live cycle before it calls any module. It replaces the pointer on this thread only, in a
        // reload, which no callback of a module can start.
        look(unsafe { Cycle::from_ptr(ffi::ngx_cycle) })
    }

    /// What this module configured in the cycle's http block; `None` for a cycle that has no http block, and for one that
    /// does not load the module: the http block's table of such a cycle has no entry for it.
    pub fn own_http_conf(&self) -> Option<NonNull<c_void>> {
        if !self.loads_own_module() {
            return None;
        }
        // SAFETY: the cycle's table has an entry for each module, the http module's being null or the block's context. The
        // block's table has an entry for each HTTP module of the cycle, and this module is one.
        unsafe {
            let table = NonNull::new((*self.0.get()).conf_ctx)?;
            let http = &raw const ffi::ngx_http_module;
            let context = (*table.as_ptr().add((*http).index)).cast::<ngx_http_conf_ctx_t>().as_ref()?;
            NonNull::new(*context.main_conf.add(ModuleIndex::own().get()))
        }
    }

    /// Whether the cycle has its modules: nginx's provisional one, before the first is loaded, has none.
    pub fn is_complete(&self) -> bool {
        // SAFETY: a plain word of a live cycle.
        unsafe { !(*self.0.get()).modules.is_null() }
    }

    /// With `master_process off` a reload may add this module; the cycle before it has never heard of it.
    fn loads_own_module(&self) -> bool {
        // SAFETY: a complete cycle's list of modules ends in null, and it does not change any more; a provisional one has
        // none.
        unsafe {
            let mut next = (*self.0.get()).modules;
            while !next.is_null() && !(*next).is_null() {
                if std::ptr::addr_eq(*next, module::table()) {
                    return true;
                }
                next = next.add(1);
            }
        }
        false
    }
}

/// Whether this process answers requests: nginx starts helpers for its caches, too.
pub fn serves_requests() -> bool {
    // SAFETY: a plain word that is set when the process starts.
    let kind = unsafe { ffi::ngx_process };
    kind == ffi::NGX_PROCESS_SINGLE as usize || kind == ffi::NGX_PROCESS_WORKER as usize
}

/// Whether this one process is master and worker (`master_process off`): it lives on through a reload.
pub fn is_single_process() -> bool {
    // SAFETY: a plain word that is set before the first cycle is run.
    unsafe { ffi::ngx_process == ffi::NGX_PROCESS_SINGLE as usize }
}

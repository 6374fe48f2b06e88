//! This process and others of nginx: their ids, a worker's number, how many workers there may be.

use crate::nginx::conf::Conf;
use crate::nginx::cycle;
use ngx::ffi::{self, ngx_core_conf_t};

/// The id of this process.
pub fn id() -> u64 {
    std::process::id().into()
}

/// Whether a process lives. One that belongs to another user lives too.
pub fn lives(id: u64) -> bool {
    let Ok(id) = libc::pid_t::try_from(id) else { return false };
    // SAFETY: signal 0 delivers no signal; the system only checks that the process exists.
    let found = unsafe { libc::kill(id, 0) } == 0;
    found || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The worker's number, from 0; a worker that takes the place of another has its number.
pub fn worker() -> usize {
    // SAFETY: a plain word that is set when the process starts.
    unsafe { ffi::ngx_worker }
}

/// Processors that nginx counts.
pub fn processors() -> usize {
    // SAFETY: a plain word that is set before any module runs.
    usize::try_from(unsafe { ffi::ngx_ncpu }).unwrap_or(1)
}

/// Workers that serve the cycle in effect once all have started.
pub fn configured_workers() -> usize {
    if cycle::is_single_process() {
        return 1;
    }
    // SAFETY: the cycle in effect is live, and its table has an entry for each module; `worker_processes` is settled.
    let count = unsafe {
        let core = &raw const ffi::ngx_core_module;
        let table = (*ffi::ngx_cycle).conf_ctx.cast::<*mut ngx_core_conf_t>();
        (*table.add((*core).index)).as_ref().map(|core| core.worker_processes)
    };
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(1)
}

/// nginx's version, as in `nginx -v`.
pub fn nginx_version() -> &'static str {
    ffi::NGINX_VERSION.to_str().unwrap_or("")
}

impl Conf {
    /// `worker_processes`, where it has been read already: it may stand behind the http block.
    pub fn workers(&self) -> Option<usize> {
        // SAFETY: the cycle being loaded is live, and its table has an entry for each module; the core module's own is made
        // before anything is read.
        let count = unsafe {
            let core = &raw const ffi::ngx_core_module;
            let table = (*(*self.as_ptr()).cycle).conf_ctx.cast::<*mut ngx_core_conf_t>();
            (*table.add((*core).index)).as_ref()?.worker_processes
        };
        usize::try_from(count).ok()
    }
}

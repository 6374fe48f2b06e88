//! Registering the module in nginx's phases and among its variables, at the end of loading a configuration.

use crate::nginx::conf::{Conf, NoMemory};
use ngx::ffi::{
    self, ngx_array_t, ngx_http_core_main_conf_t, ngx_http_get_variable_pt, ngx_http_handler_pt, ngx_str_t,
    ngx_uint_t,
};

/// A phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before content: `try_files`, `mirror`.
    PreContent = ffi::ngx_http_phases_NGX_HTTP_PRECONTENT_PHASE as isize,
    /// After the response.
    Log = ffi::ngx_http_phases_NGX_HTTP_LOG_PHASE as isize,
}

impl Conf {
    /// Puts `handler` at the front of its phase's array. nginx runs a phase from the end of the array, so it is the last
    /// of the phase, also where modules register later; the log phase alone runs from the front.
    pub fn put_handler_first(&self, phase: Phase, handler: ngx_http_handler_pt) -> Result<(), NoMemory> {
        let handlers = self.phase_handlers(phase)?;
        // SAFETY: the array is the core module's, with this element type, and live while loading. `elts` is read after
        // the push, which may move it.
        unsafe {
            if ffi::ngx_array_push(handlers).is_null() {
                return Err(NoMemory);
            }
            let first = (*handlers).elts.cast::<ngx_http_handler_pt>();
            first.copy_to(first.add(1), (*handlers).nelts - 1);
            first.write(handler);
        }
        Ok(())
    }

    fn phase_handlers(&self, phase: Phase) -> Result<*mut ngx_array_t, NoMemory> {
        // SAFETY: a static of nginx, set up before any module loads.
        let index = unsafe { ffi::ngx_http_core_module.ctx_index };
        let core = self.http_main_conf(index).ok_or(NoMemory)?.cast::<ngx_http_core_main_conf_t>();
        // SAFETY: the core module's main configuration is live inside http{}, and `phase` is one of its phases.
        Ok(unsafe { &raw mut (*core.as_ptr()).phases[phase as usize].handlers })
    }

    /// Adds a variable that is computed anew for each reader; call it before the http block is parsed.
    pub fn add_variable(
        &self,
        name: &'static [u8],
        evaluate: ngx_http_get_variable_pt,
    ) -> Result<(), NoMemory> {
        let mut name = text(name);
        // SAFETY: the loader is live; nginx copies the name, and fills in the entry, which stays in the configuration's pool.
        unsafe {
            let flags = ffi::NGX_HTTP_VAR_NOCACHEABLE as ngx_uint_t;
            let variable =
                ffi::ngx_http_add_variable(self.as_ptr(), &mut name, flags).as_mut().ok_or(NoMemory)?;
            variable.get_handler = evaluate;
        }
        Ok(())
    }

    /// The index of a variable in every request's table of cached values.
    pub fn variable_index(&self, name: &'static [u8]) -> Result<usize, NoMemory> {
        let mut name = text(name);
        // SAFETY: as in `add_variable`.
        let index = unsafe { ffi::ngx_http_get_variable_index(self.as_ptr(), &mut name) };
        usize::try_from(index).map_err(|_| NoMemory)
    }
}

fn text(name: &'static [u8]) -> ngx_str_t {
    ngx_str_t { len: name.len(), data: name.as_ptr().cast_mut() }
}

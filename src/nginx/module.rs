//! The one module of this shared object, as nginx numbers it while loading, and indices into nginx's tables of HTTP modules.
//!
//! Rooms that read such a table take a [`ModuleIndex`] and no number: a number may be beyond the table's end.

use ngx::ffi::{self, ngx_module_t, ngx_uint_t};

unsafe extern "C" {
    /// The table that `lib.rs` exports.
    static ngx_http_ratelimitly_module: ngx_module_t;
}

/// The module's table. Its address tells it from other modules.
pub fn table() -> *const ngx_module_t {
    &raw const ngx_http_ratelimitly_module
}

/// The index of an HTTP module in the tables that have an entry for each: a request's, and those of a cycle that loads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleIndex(ngx_uint_t);

impl ModuleIndex {
    /// This module's.
    pub fn own() -> ModuleIndex {
        // SAFETY: nginx numbers its modules before it calls any of them, and later reloads keep the number.
        ModuleIndex(unsafe { (*table()).ctx_index })
    }

    /// That of nginx's own HTTP core module.
    pub fn http_core() -> ModuleIndex {
        // SAFETY: a static of nginx, numbered as above.
        ModuleIndex(unsafe { ffi::ngx_http_core_module.ctx_index })
    }

    /// The number.
    pub fn get(self) -> ngx_uint_t {
        self.0
    }
}

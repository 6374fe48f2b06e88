//! What nginx keeps for this module in each configuration cycle: the http block's configuration, and beside it what the
//! cycle's workers keep.
//!
//! Made when nginx begins to read an http block; reached by the handlers and by the hooks into a process's life. It decides
//! nothing.

use crate::conf::{self, MainConf};
use crate::nginx::clock;
use crate::nginx::conf::Conf;
use crate::nginx::cycle::Cycle;
use crate::nginx::log::{Level, Log};
use crate::nginx::module::ModuleIndex;
use crate::nginx::request::Request;
use crate::nginx::timer::Timer;
use crate::render::{Buffers, Owner};
use crate::settings::Settings;
use crate::worker::WorkerSlot;
use ngx::ffi::ngx_conf_t;
use ratelimitly_core::pace::PacedBy;
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::c_void;
use std::fmt::Display;

/// This module's entry in nginx's table of main configurations. The rooms that load take it for its first field.
#[repr(C)]
pub struct CycleConf {
    /// What the directives say.
    pub conf: MainConf,
    /// The worker's driver.
    pub worker: WorkerSlot,
    /// Tries again to warm the worker up.
    pub warm_up: OnceCell<Timer>,
    buffers: Cell<Option<Box<Buffers>>>,
    refused_values: RefCell<PacedBy<Owner>>,
}

impl CycleConf {
    /// That of the cycle that serves this request.
    #[inline]
    pub fn of_request(request: &Request) -> &CycleConf {
        // SAFETY: a live request's table has this module's entry, made by `create`; it stays until the cycle goes, which
        // outlives its requests, and its configuration is not written once loading has ended.
        unsafe { &*(*(*request.as_ptr()).main_conf.add(ModuleIndex::own().get())).cast::<CycleConf>() }
    }

    /// That of a cycle; `None` if it has no http block or does not load the module.
    pub fn of_cycle(cycle: &Cycle) -> Option<&CycleConf> {
        // SAFETY: the entry was made by `create`, and stays as long as the cycle, which the result borrows.
        cycle.own_http_conf().map(|entry| unsafe { entry.cast::<CycleConf>().as_ref() })
    }

    /// The http block's settings.
    #[inline]
    pub fn settings(&self) -> &Settings {
        &self.conf.settings
    }

    /// Recycled memory for rendering; give it back with `return_buffers`.
    pub fn take_buffers(&self) -> Box<Buffers> {
        self.buffers.take().unwrap_or_default()
    }

    /// Gives the memory of `take_buffers` back.
    pub fn return_buffers(&self, buffers: Box<Buffers>) {
        self.buffers.set(Some(buffers));
    }

    /// Logs, paced for each owner, that a rendered value cannot be used.
    pub fn note_refused_value(&self, log: Log, owner: Owner, cause: &dyn Display) {
        if let Some(due) = self.refused_values.borrow_mut().occurred(owner, clock::monotonic()) {
            log.write(Level::Warn, format_args!("ratelimitly: {cause}{due}"));
        }
    }
}

/// nginx's `create_main_conf`.
///
/// # Safety
/// To be called by nginx.
pub unsafe extern "C" fn create(cf: *mut ngx_conf_t) -> *mut c_void {
    // SAFETY: nginx passes the loader.
    let cf = unsafe { Conf::from_ptr(cf) };
    conf::create(cf, || {
        Some(CycleConf {
            conf: MainConf::new()?,
            worker: WorkerSlot::default(),
            warm_up: OnceCell::new(),
            buffers: Cell::default(),
            refused_values: RefCell::default(),
        })
    })
}

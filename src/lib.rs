//! `ngx_http_ratelimitly_module`: nginx asks RateLimitly whether a request may proceed.
//!
//! This file is the table that nginx reads: the module, its hooks into loading and into a process's life. The rooms:
//! `settings` and `conf` (what the directives say), `render` (values for a request), `handler` (the two phases), `context`
//! (what is kept for a request), `worker` and `driver` (the worker's client and its sockets), `cycle_conf` (what nginx keeps
//! for a cycle), `discovery` (DNS), `logging`, `variable`, `fault` (for tests), and `nginx` with the safe wrappers. The
//! protocol is `ratelimitly-core`'s.

mod conf;
mod context;
mod cycle_conf;
mod discovery;
mod driver;
mod fault;
mod handler;
mod logging;
mod nginx;
mod pages;
mod render;
mod settings;
mod shared;
mod variable;
mod warm_up;
mod worker;

use crate::cycle_conf::CycleConf;
use crate::nginx::border;
use crate::nginx::conf::Conf;
use crate::nginx::cycle::{self, Cycle};
use crate::nginx::log::Log;
use crate::nginx::phases::Phase;
use ngx::core::Status;
use ngx::ffi::{
    self, ngx_command_t, ngx_conf_t, ngx_cycle_t, ngx_http_module_t, ngx_int_t, ngx_module_t, ngx_uint_t,
};

static CONTEXT: ngx_http_module_t = ngx_http_module_t {
    preconfiguration: Some(preconfiguration),
    postconfiguration: Some(postconfiguration),
    create_main_conf: Some(cycle_conf::create),
    init_main_conf: None,
    create_srv_conf: None,
    merge_srv_conf: None,
    create_loc_conf: Some(conf::create_location_conf),
    merge_loc_conf: Some(conf::merge_location_conf),
};

/// nginx reads the table and never writes it.
static mut COMMANDS: [ngx_command_t; conf::COUNT] = conf::commands::<pages::Handlers>();

/// The list of modules in this shared object, under the names that nginx looks for.
mod exported {
    use super::ngx_http_ratelimitly_module;
    ngx::ngx_modules!(ngx_http_ratelimitly_module);
}

/// The module, as nginx finds it in the shared object.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static mut ngx_http_ratelimitly_module: ngx_module_t = ngx_module_t {
    ctx: (&raw const CONTEXT).cast_mut().cast(),
    commands: (&raw const COMMANDS).cast_mut().cast(),
    type_: ffi::NGX_HTTP_MODULE as ngx_uint_t,
    init_module: Some(init_module),
    init_process: Some(init_process),
    exit_process: Some(exit_process),
    ..ngx_module_t::default()
};

unsafe extern "C" fn preconfiguration(cf: *mut ngx_conf_t) -> ngx_int_t {
    // SAFETY: nginx passes its live loader for the length of this call.
    let cf = unsafe { Conf::from_ptr(cf) };
    border::guarded("the start of loading", Status::NGX_ERROR, || {
        status(
            cf.add_variables(variable::names(), Some(variable::evaluate))
                .and_then(|()| cf.add_note(variable::PASSAGE))
                .and_then(|()| cf.add_note(variable::READ)),
        )
    })
    .0
}

unsafe extern "C" fn postconfiguration(cf: *mut ngx_conf_t) -> ngx_int_t {
    // SAFETY: nginx passes its live loader for the length of this call.
    let cf = unsafe { Conf::from_ptr(cf) };
    border::guarded("the end of loading", Status::NGX_ERROR, || status(finish_loading(cf))).0
}

fn finish_loading(cf: &Conf) -> Result<(), conf::Rejected> {
    let main = conf::finish(cf)?;
    main.settings.variables.set(cf.variable_range(variable::names(), cf.note_index(variable::READ)?)?);
    main.passage.set(cf.note_index(variable::PASSAGE)?);
    cf.put_handler_first(Phase::PreContent, Some(handler::precontent))?;
    cf.put_handler_first(Phase::Log, Some(handler::log))?;
    Ok(())
}

fn status<E>(result: Result<(), E>) -> Status {
    if result.is_ok() { Status::NGX_OK } else { Status::NGX_ERROR }
}

/// A new cycle is about to take over. Where the process stays the same the old cycle's driver goes once it is idle.
unsafe extern "C" fn init_module(new: *mut ngx_cycle_t) -> ngx_int_t {
    // SAFETY: nginx passes the new cycle, which is complete but for its modules' part.
    let new = unsafe { Cycle::from_ptr(new) };
    border::guarded("a new cycle", (), || {
        if cycle::is_single_process() {
            // The old cycle may be of a configuration without this module.
            let is_first = Cycle::with_current(|old| {
                if let Some(old) = CycleConf::of_cycle(old) {
                    old.worker.retire();
                }
                !old.is_complete()
            });
            if let Some(new) = CycleConf::of_cycle(new).filter(|_| !is_first) {
                new.conf.shared.begin(true);
                warm_up::begin(new);
            }
        }
    });
    Status::NGX_OK.0
}

unsafe extern "C" fn init_process(cycle: *mut ngx_cycle_t) -> ngx_int_t {
    // SAFETY: nginx passes the cycle that the process is going to serve.
    let cycle = unsafe { Cycle::from_ptr(cycle) };
    border::guarded("a worker's start", (), || {
        logging::install();
        let kept = CycleConf::of_cycle(cycle);
        logging::refresh(Log::of_cycle(), kept.is_some_and(|kept| kept.settings().debug));
        if let Some(kept) = kept.filter(|_| cycle::serves_requests()) {
            kept.conf.shared.begin(cycle::is_single_process());
            warm_up::begin(kept);
        }
    });
    Status::NGX_OK.0
}

unsafe extern "C" fn exit_process(cycle: *mut ngx_cycle_t) {
    // SAFETY: nginx passes the cycle that the process has served last.
    let cycle = unsafe { Cycle::from_ptr(cycle) };
    border::guarded("a worker's end", (), || {
        if let Some(kept) = CycleConf::of_cycle(cycle) {
            kept.worker.shut_down();
            kept.conf.shared.leave();
        }
    });
}

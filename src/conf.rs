//! The module's configuration: what directives say, checked and resolved to names while nginx loads, and what the
//! other rooms read for a worker or a request.
//!
//! `commands` is the table that nginx calls; `settings`, `define` and `rules` hold the directives; `finish` checks the
//! whole at the end of the http block. Nothing here runs for a request but plain field reads.

mod checks;
mod commands;
mod define;
mod definitions;
mod doubts;
mod fault;
mod finish;
mod hints;
mod label;
mod loading;
mod problem;
mod rules;
mod settings;
mod template;
mod warnings;

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use ngx::core::{NGX_CONF_ERROR, NGX_CONF_OK};
use ngx::ffi::ngx_conf_t;
use ratelimitly_config::policy::DEFAULT_UNIT_MS;
use ratelimitly_core::key::ApiKey;
use ratelimitly_core::policy::Policy;

pub use commands::COMMANDS;
pub use definitions::{Guard, NAME_MAX, Tracker, Zone};
pub use fault::{Fault, Faults};
pub use finish::{Rejected, finish};
pub use label::Label;
pub use rules::Admission;
pub use template::{Parsed, Template};

use crate::nginx::border::guarded;
use crate::nginx::conf::Conf;
use crate::nginx::cycle::Cycle;
use crate::nginx::log::Level;
use crate::nginx::module::ModuleIndex;
use crate::nginx::phases::{NoteIndex, VariableIndex};
use crate::nginx::request::Request;
use crate::worker::WorkerSlot;
use loading::Loading;
use rules::{Report, Rules};

/// What happens to a request without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// It goes on.
    Open,
    /// It is refused.
    Close,
}

/// How discovery asks DNS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsSettings {
    /// The servers in order; empty only where no rule and no report is in effect.
    pub servers: Vec<SocketAddr>,
    /// Longest duration of one discovery, milliseconds.
    pub timeout_ms: u64,
    /// What replaces the records' TTLs, seconds.
    pub valid_s: Option<u32>,
    /// Whether A records are wanted.
    pub ipv4: bool,
    /// Whether AAAA records are wanted.
    pub ipv6: bool,
}

/// The http block's configuration, one for each configuration cycle.
pub struct MainConf {
    /// The key; there is one wherever a rule or a report is in effect.
    pub key: Option<ApiKey>,
    /// The request policy.
    pub policy: Policy,
    /// What happens without a verdict.
    pub fail: Fail,
    /// The UDP socket's source address.
    pub bind: Option<IpAddr>,
    /// Whether debug lines are raised to `info`.
    pub debug: bool,
    /// The name that discovery asks for, `_ratelimitly._udp.<name>`; empty without a key and a name.
    pub srv_name: String,
    /// How discovery asks for it.
    pub dns: DnsSettings,
    /// Index of `$ratelimitly_verdict`.
    pub verdict_index: Cell<VariableIndex>,
    /// Where each request has its note of how it came to the handler.
    pub passage: Cell<NoteIndex>,
    /// What the worker keeps here for this cycle.
    pub worker: WorkerSlot,
    /// Injected faults.
    pub faults: Rc<Faults>,
    /// What only loading needs; `finish` empties it.
    loading: Loading,
}

/// A server's or location's configuration.
#[derive(Default)]
pub struct LocationConf {
    /// The rules in effect.
    pub admission: Option<Rc<Admission>>,
    /// The label in effect.
    pub label: Option<Rc<Label>>,
    /// The tracker that reports go to.
    pub report: Option<Rc<Tracker>>,
    rules: Rules,
    own_report: Option<Report>,
}

impl MainConf {
    fn new() -> Option<MainConf> {
        Some(MainConf {
            key: None,
            policy: Policy::standard(DEFAULT_UNIT_MS).ok()?,
            fail: Fail::Open,
            bind: None,
            debug: false,
            srv_name: String::new(),
            dns: DnsSettings::default(),
            verdict_index: Cell::default(),
            passage: Cell::default(),
            worker: Default::default(),
            faults: Rc::default(),
            loading: Loading::default(),
        })
    }

    /// The configuration of the cycle that serves this request.
    #[inline]
    pub fn of_request(request: &Request) -> &MainConf {
        // SAFETY: a live request's table has this module's main configuration, made by `create_main_conf`; it stays
        // until the cycle goes, which outlives its requests, and is not written once loading has ended.
        unsafe { &*(*(*request.as_ptr()).main_conf.add(ModuleIndex::own().get())).cast::<MainConf>() }
    }

    /// The configuration of a cycle; `None` if it has no http block or does not load the module.
    pub fn of_cycle(cycle: &Cycle) -> Option<&MainConf> {
        // SAFETY: the entry was made by `create_main_conf`, and stays as long as the cycle, which the result borrows.
        cycle.own_http_conf().map(|main| unsafe { main.cast::<MainConf>().as_ref() })
    }
}

impl MainConf {
    /// The level of lines about single requests.
    pub fn detail_level(&self) -> Level {
        if self.debug { Level::Info } else { Level::Debug }
    }
}

impl LocationConf {
    /// The configuration in effect where this request is now; internal routing changes it.
    #[inline]
    pub fn of_request(request: &Request) -> &LocationConf {
        // SAFETY: as in `MainConf::of_request`; the table of the present location has this module's entry, made by
        // `create_location_conf` and merged.
        unsafe { &*(*(*request.as_ptr()).loc_conf.add(ModuleIndex::own().get())).cast::<LocationConf>() }
    }
}

/// nginx's `create_main_conf`.
///
/// # Safety
/// To be called by nginx.
pub unsafe extern "C" fn create_main_conf(cf: *mut ngx_conf_t) -> *mut c_void {
    // SAFETY: nginx passes the loader.
    create(unsafe { Conf::from_ptr(cf) }, MainConf::new)
}

/// nginx's `create_loc_conf`.
///
/// # Safety
/// To be called by nginx.
pub unsafe extern "C" fn create_location_conf(cf: *mut ngx_conf_t) -> *mut c_void {
    // SAFETY: nginx passes the loader.
    create(unsafe { Conf::from_ptr(cf) }, || Some(LocationConf::default()))
}

/// A new value in the configuration's pool, or null: nginx takes that for an error.
fn create<T>(cf: &Conf, make: impl FnOnce() -> Option<T>) -> *mut c_void {
    guarded("creating a configuration", std::ptr::null_mut(), || {
        let placed = make().and_then(|value| cf.place_value(value).ok());
        placed.map_or(std::ptr::null_mut(), |place| place.as_ptr().cast())
    })
}

/// nginx's `merge_loc_conf`.
///
/// # Safety
/// To be called by nginx, with configurations that `create_location_conf` made.
pub unsafe extern "C" fn merge_location_conf(
    cf: *mut ngx_conf_t,
    parent: *mut c_void,
    child: *mut c_void,
) -> *mut c_char {
    // SAFETY: nginx passes the loader and two different values of `create_location_conf`, used by nobody else meanwhile.
    let (cf, parent, child) =
        unsafe { (Conf::from_ptr(cf), &*parent.cast::<LocationConf>(), &mut *child.cast::<LocationConf>()) };
    guarded("merging a configuration", NGX_CONF_ERROR, || {
        let Some(main) = cf.http_conf(ModuleIndex::own()) else { return NGX_CONF_ERROR };
        // SAFETY: made by `create_main_conf`, a third value.
        rules::merge(unsafe { main.cast::<MainConf>().as_mut() }, parent, child);
        NGX_CONF_OK
    })
}

//! The module's configuration: what directives say, checked and resolved to names while nginx loads, and what the
//! other rooms read for a worker or a request.
//!
//! `commands` is the table that nginx calls; `key`, `settings`, `define`, `rules`, `report` and `enforcement` hold the directives;
//! `finish` checks the whole at the end of the http block. What comes of it for a worker is `crate::settings`. For a request nothing
//! here runs but plain field reads and the evaluation of templates. It knows nothing of a worker: `cycle_conf` puts the two
//! together.

mod checks;
mod commands;
mod define;
mod definitions;
mod doubts;
mod enforcement;
#[cfg(feature = "fault-injection")]
mod fault;
mod finish;
mod hints;
mod key;
mod label;
mod loading;
mod pages;
mod problem;
mod report;
mod rules;
mod settings;
mod template;
mod warnings;

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::rc::Rc;

use ngx::core::{NGX_CONF_ERROR, NGX_CONF_OK};
use ngx::ffi::ngx_conf_t;
use ratelimitly_config::policy::DEFAULT_UNIT_MS;
use ratelimitly_core::policy::Policy;

pub use commands::{COUNT, commands};
pub use definitions::{Guard, NAME_MAX, TOKENS, Tracker, Zone};
pub use enforcement::DryRun;
pub use finish::{Rejected, finish};
pub use label::Label;
pub use pages::{Page, Pages};
pub use report::Report;
pub use rules::{Admission, Line, Selection};
pub use template::{Parsed, Template};

use crate::nginx::border::guarded;
use crate::nginx::conf::Conf;
use crate::nginx::module::ModuleIndex;
use crate::nginx::phases::NoteIndex;
use crate::nginx::request::Request;
use crate::settings::{Enforcement, Settings};
use crate::shared::Shared;
use enforcement::Own;
use loading::Loading;
use report::OwnReport;
use rules::Rules;

/// The http block's configuration, one for each configuration cycle.
pub struct MainConf {
    /// What a worker and the handlers read.
    pub settings: Settings,
    /// Where each request has its note of how it came to the handler.
    pub passage: Cell<NoteIndex>,
    /// What workers share: the counters and the servers found; `finish` makes it.
    pub shared: Rc<Shared>,
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
    /// The report in effect.
    pub report: Option<Rc<Report>>,
    /// What becomes of requests that get no verdict or a denial.
    pub enforcement: Enforcement,
    /// Whether the rules are only tried out.
    pub dry_run: DryRun,
    /// The page of this module that answers here, whose readers are never asked about.
    pub page: Option<Page>,
    rules: Rules,
    own: Own,
    own_report: Option<OwnReport>,
}

impl MainConf {
    /// The configuration before any directive is read. `None`: the default policy is out of its own range.
    pub fn new() -> Option<MainConf> {
        Some(MainConf {
            settings: Settings::new(Policy::standard(DEFAULT_UNIT_MS).ok()?),
            passage: Cell::default(),
            shared: Shared::none(),
            loading: Loading::default(),
        })
    }
}

impl LocationConf {
    /// The configuration in effect where this request is now; internal routing changes it.
    #[inline]
    pub fn of_request(request: &Request) -> &LocationConf {
        // SAFETY: a live request's table of the present location has this module's entry, made by `create_location_conf` and
        // merged; it stays until the cycle goes, which outlives its requests, and is not written once loading has ended.
        unsafe { &*(*(*request.as_ptr()).loc_conf.add(ModuleIndex::own().get())).cast::<LocationConf>() }
    }
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
pub fn create<T>(cf: &Conf, make: impl FnOnce() -> Option<T>) -> *mut c_void {
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
    // SAFETY: nginx passes the loader and two different values of `create_location_conf`, which nothing else uses meanwhile.
    let (cf, parent, child) =
        unsafe { (Conf::from_ptr(cf), &*parent.cast::<LocationConf>(), &mut *child.cast::<LocationConf>()) };
    guarded("merging a configuration", NGX_CONF_ERROR, || {
        let Some(main) = cf.http_conf(ModuleIndex::own()) else { return NGX_CONF_ERROR };
        // SAFETY: this module's entry begins with the `MainConf`, a third value.
        rules::merge(unsafe { main.cast::<MainConf>().as_mut() }, parent, child);
        NGX_CONF_OK
    })
}

//! The table of directives, and the functions that nginx calls for them: raw pointers become references, a
//! [`Problem`] becomes a line of the error log, a panic an error.

use std::ffi::{CStr, c_char, c_void};

use ngx::core::{NGX_CONF_ERROR, NGX_CONF_OK};
use ngx::ffi::{
    NGX_CONF_ANY, NGX_HTTP_LOC_CONF, NGX_HTTP_LOC_CONF_OFFSET, NGX_HTTP_MAIN_CONF, NGX_HTTP_MAIN_CONF_OFFSET,
    NGX_HTTP_SRV_CONF, ngx_command_t, ngx_conf_t, ngx_str_t, ngx_uint_t,
};

use crate::conf::hints::{Explained, Slip, warn_of_text};
use crate::conf::pages::Pages;
use crate::conf::problem::Problem;
use crate::conf::{LocationConf, MainConf, define, enforcement, key, pages, report, rules, settings};
use crate::nginx::border::guarded;
use crate::nginx::conf::Conf;
use crate::nginx::log::Level;
use crate::nginx::module::ModuleIndex;

type Setter = unsafe extern "C" fn(*mut ngx_conf_t, *mut ngx_command_t, *mut c_void) -> *mut c_char;

const NULL: ngx_command_t = ngx_command_t {
    name: ngx_str_t { len: 0, data: std::ptr::null_mut() },
    type_: 0,
    set: None,
    conf: 0,
    offset: 0,
    post: std::ptr::null_mut(),
};

/// A directive of the http block. Arguments are counted by the setter, whose message shows the accepted form.
const fn http(name: &'static CStr, set: Setter) -> ngx_command_t {
    command(name, NGX_HTTP_MAIN_CONF, NGX_HTTP_MAIN_CONF_OFFSET, set)
}

/// A directive of servers and locations.
const fn place(name: &'static CStr, set: Setter) -> ngx_command_t {
    command(name, NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF, NGX_HTTP_LOC_CONF_OFFSET, set)
}

/// A directive of locations alone.
const fn page(name: &'static CStr, set: Setter) -> ngx_command_t {
    command(name, NGX_HTTP_LOC_CONF, NGX_HTTP_LOC_CONF_OFFSET, set)
}

/// A directive of the http block, servers and locations. In the http block its configuration is the one that servers
/// inherit from.
const fn anywhere(name: &'static CStr, set: Setter) -> ngx_command_t {
    let contexts = NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF;
    command(name, contexts, NGX_HTTP_LOC_CONF_OFFSET, set)
}

const fn command(name: &'static CStr, contexts: u32, conf: usize, set: Setter) -> ngx_command_t {
    ngx_command_t {
        name: ngx_str_t { len: name.count_bytes(), data: name.as_ptr().cast::<u8>().cast_mut() },
        type_: (contexts | NGX_CONF_ANY) as ngx_uint_t,
        set: Some(set),
        conf,
        offset: 0,
        post: std::ptr::null_mut(),
    }
}

/// Defines the `extern "C"` function of a directive of the http block.
macro_rules! http_setter {
    ($name:ident, $handler:path) => {
        unsafe extern "C" fn $name(
            cf: *mut ngx_conf_t,
            _cmd: *mut ngx_command_t,
            conf: *mut c_void,
        ) -> *mut c_char {
            // SAFETY: nginx passes the loader and, by the table's offset, this module's main configuration, which
            // nothing else refers to during the call.
            let (cf, main) = unsafe { (Conf::from_ptr(cf), &mut *conf.cast::<MainConf>()) };
            answer(cf, || $handler(cf, main))
        }
    };
}

/// Defines the `extern "C"` function of a directive that servers and locations accept.
macro_rules! place_setter {
    ($name:ident, $handler:path) => {
        unsafe extern "C" fn $name(
            cf: *mut ngx_conf_t,
            _cmd: *mut ngx_command_t,
            conf: *mut c_void,
        ) -> *mut c_char {
            // SAFETY: nginx passes the loader and, by the table's offset, this module's location configuration.
            unsafe { at_place(cf, conf, $handler) }
        }
    };
}

/// Defines the `extern "C"` function of a page's directive, whose content handler another room has.
macro_rules! page_setter {
    ($name:ident, $handler:path, $content:ident) => {
        unsafe extern "C" fn $name<P: Pages>(
            cf: *mut ngx_conf_t,
            _cmd: *mut ngx_command_t,
            conf: *mut c_void,
        ) -> *mut c_char {
            let handler =
                |cf: &_, main: &mut _, location: &mut _| $handler(cf, main, location, Some(P::$content));
            // SAFETY: nginx passes the loader and, by the table's offset, this module's location configuration.
            unsafe { at_place(cf, conf, handler) }
        }
    };
}

/// Runs the handler of a directive that stands in a server or a location.
///
/// # Safety
/// `cf` must be the loader that nginx has passed, and `conf` this module's configuration of the place. Nothing else may refer
/// to that or to the module's main configuration during the call.
unsafe fn at_place(
    cf: *mut ngx_conf_t,
    conf: *mut c_void,
    handler: impl FnOnce(&Conf, &mut MainConf, &mut LocationConf) -> Result<(), Problem>,
) -> *mut c_char {
    // SAFETY: the caller's promise.
    let (cf, location) = unsafe { (Conf::from_ptr(cf), &mut *conf.cast::<LocationConf>()) };
    answer(cf, || {
        let main = cf.http_conf(ModuleIndex::own()).ok_or(Problem::NoHttp)?;
        // SAFETY: this module's entry begins with the `MainConf`, another value than the location's; the caller's promise.
        handler(cf, unsafe { main.cast::<MainConf>().as_mut() }, location)
    })
}

/// Runs a handler and tells nginx, and the error log, what came of it.
fn answer(cf: &Conf, handler: impl FnOnce() -> Result<(), Problem>) -> *mut c_char {
    guarded("a directive", NGX_CONF_ERROR, || match handler() {
        Ok(()) => {
            warn_of_text(cf);
            NGX_CONF_OK
        }
        Err(problem) => {
            cf.log(Level::Emerg, &cf.directive(), Explained(problem, Slip::of(cf)));
            NGX_CONF_ERROR
        }
    })
}

/// `ratelimitly_auth_key`, whose argument is gone afterwards: nginx would keep it as long as the configuration, and in
/// freed memory beyond that.
unsafe extern "C" fn set_auth_key(
    cf: *mut ngx_conf_t,
    _cmd: *mut ngx_command_t,
    conf: *mut c_void,
) -> *mut c_char {
    // SAFETY: nginx passes the loader and, by the table's offset, this module's main configuration, which nothing else
    // refers to during the call.
    let (cf, main) = unsafe { (Conf::from_ptr(cf), &mut *conf.cast::<MainConf>()) };
    let answered = answer(cf, || key::auth_key(cf, main));
    // SAFETY: the handler keeps nothing of the arguments; a directive of the http block comes from a file.
    unsafe { cf.wipe_arguments() };
    answered
}

http_setter!(set_auth_key_file, key::auth_key_file);
http_setter!(set_dns_srv, settings::dns_srv);
http_setter!(set_dns_resolver, settings::dns_resolver);
http_setter!(set_policy, settings::policy);
http_setter!(set_bind, settings::bind);
http_setter!(set_debug, settings::debug);
http_setter!(set_warm_up, settings::warm_up);
http_setter!(set_breaker, settings::breaker);
http_setter!(set_zone, define::zone);
http_setter!(set_tracker, define::tracker);
http_setter!(set_guard, define::guard);
http_setter!(set_group, define::group);
#[cfg(feature = "fault-injection")]
http_setter!(set_fault, crate::conf::fault::fault);
place_setter!(set_fail, enforcement::fail);
place_setter!(set_fail_status, enforcement::fail_status);
place_setter!(set_deny_status, enforcement::deny_status);
place_setter!(set_dry_run, enforcement::dry_run);
place_setter!(set_log_level, enforcement::log_level);
place_setter!(set_rule, rules::rule);
place_setter!(set_label, rules::label);
place_setter!(set_report, report::report);

page_setter!(set_metrics, pages::metrics, metrics);
page_setter!(set_ready, pages::ready, ready);

/// Entries of [`commands`].
pub const COUNT: usize = 25 + cfg!(feature = "fault-injection") as usize;

/// Every directive, ended by an empty entry, with the pages that `P` has.
pub const fn commands<P: Pages>() -> [ngx_command_t; COUNT] {
    [
        http(c"ratelimitly_auth_key", set_auth_key),
        http(c"ratelimitly_auth_key_file", set_auth_key_file),
        http(c"ratelimitly_dns_srv", set_dns_srv),
        http(c"ratelimitly_dns_resolver", set_dns_resolver),
        http(c"ratelimitly_resolver", set_dns_resolver),
        http(c"ratelimitly_policy", set_policy),
        http(c"ratelimitly_bind", set_bind),
        http(c"ratelimitly_debug", set_debug),
        http(c"ratelimitly_warm_up", set_warm_up),
        http(c"ratelimitly_breaker", set_breaker),
        http(c"ratelimitly_zone", set_zone),
        http(c"ratelimitly_tracker", set_tracker),
        http(c"ratelimitly_guard", set_guard),
        http(c"ratelimitly_group", set_group),
        #[cfg(feature = "fault-injection")]
        http(c"ratelimitly_fault", set_fault),
        anywhere(c"ratelimitly_fail", set_fail),
        anywhere(c"ratelimitly_fail_status", set_fail_status),
        anywhere(c"ratelimitly_deny_status", set_deny_status),
        anywhere(c"ratelimitly_dry_run", set_dry_run),
        anywhere(c"ratelimitly_log_level", set_log_level),
        place(c"ratelimitly", set_rule),
        place(c"ratelimitly_label", set_label),
        place(c"ratelimitly_report", set_report),
        page(c"ratelimitly_metrics", set_metrics::<P>),
        page(c"ratelimitly_ready", set_ready::<P>),
        NULL,
    ]
}

//! Pages of this module's own: `ratelimitly_metrics` and `ratelimitly_ready`.
//!
//! A page's location counts as `ratelimitly off` without a report, even if it inherits or holds rules: no probe is refused.

use crate::conf::define::unknown;
use crate::conf::problem::Problem;
use crate::conf::settings::set_once;
use crate::conf::{LocationConf, MainConf};
use crate::nginx::conf::Conf;
use ngx::ffi::{ngx_http_handler_pt, ngx_http_request_t, ngx_int_t};

/// The content handlers of the pages.
pub trait Pages {
    /// That of `ratelimitly_metrics`.
    ///
    /// # Safety
    /// To be called by nginx, with a live request.
    unsafe extern "C" fn metrics(r: *mut ngx_http_request_t) -> ngx_int_t;

    /// That of `ratelimitly_ready`.
    ///
    /// # Safety
    /// To be called by nginx, with a live request.
    unsafe extern "C" fn ready(r: *mut ngx_http_request_t) -> ngx_int_t;
}

/// The page of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// `ratelimitly_metrics`.
    Metrics,
    /// `ratelimitly_ready`.
    Ready {
        /// Whether an outage of the limiter makes nginx not ready.
        strict: bool,
    },
}

const METRICS: &str = "ratelimitly_metrics";
const READY: &str = "ratelimitly_ready [strict]";

/// `ratelimitly_metrics`.
pub fn metrics(
    cf: &Conf,
    main: &mut MainConf,
    location: &mut LocationConf,
    handler: ngx_http_handler_pt,
) -> Result<(), Problem> {
    if !cf.arguments().is_empty() {
        return Err(Problem::Count { usage: METRICS });
    }
    page(cf, main, location, Page::Metrics, METRICS, handler)
}

/// `ratelimitly_ready`, which turns `ratelimitly_warm_up` on.
pub fn ready(
    cf: &Conf,
    main: &mut MainConf,
    location: &mut LocationConf,
    handler: ngx_http_handler_pt,
) -> Result<(), Problem> {
    let strict = match cf.arguments()[..] {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"strict") => true,
        [other] => return Err(unknown(other, READY)),
        _ => return Err(Problem::Count { usage: READY }),
    };
    main.loading.given.ready = true;
    page(cf, main, location, Page::Ready { strict }, READY, handler)
}

fn page(
    cf: &Conf,
    main: &mut MainConf,
    location: &mut LocationConf,
    page: Page,
    usage: &'static str,
    handler: ngx_http_handler_pt,
) -> Result<(), Problem> {
    set_once(&mut location.page, usage, page)?;
    main.loading.given.page = Some(());
    cf.handle_content(handler).map_err(|_| Problem::NoHttp)
}

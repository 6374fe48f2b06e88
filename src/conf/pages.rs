//! Pages of this module's own: `ratelimitly_metrics`.
//!
//! A page's location counts as `ratelimitly off` without a report, whatever it inherits or holds: a probe must never be refused.

use crate::conf::problem::Problem;
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
}

const METRICS: &str = "ratelimitly_metrics";

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
    if location.is_page {
        return Err(Problem::Duplicate { usage: METRICS });
    }
    location.is_page = true;
    main.loading.given.page = Some(());
    cf.handle_content(handler).map_err(|_| Problem::NoHttp)
}

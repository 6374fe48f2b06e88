//! The content handlers of this module's own pages.
//!
//! Called by nginx where `ratelimitly_metrics` stands. They read what the workers share and never wait.

use crate::conf::Pages;
use crate::cycle_conf::CycleConf;
use crate::nginx::border;
use crate::nginx::content::Text;
use crate::nginx::request::Request;
use ngx::ffi::{ngx_http_request_t, ngx_int_t};
use ngx::http::HTTPStatus;

/// The pages, for the table of directives.
pub struct Handlers;

impl Pages for Handlers {
    unsafe extern "C" fn metrics(r: *mut ngx_http_request_t) -> ngx_int_t {
        border::guarded("the metrics page", HTTPStatus::INTERNAL_SERVER_ERROR.into(), || {
            // SAFETY: nginx runs a content handler on a live request.
            unsafe { Request::answer(r, metrics_text) }
        })
        .0
    }
}

fn metrics_text(request: &Request) -> Text {
    Text {
        status: HTTPStatus::OK,
        media_type: "text/plain",
        content_type: "text/plain; version=0.0.4; charset=utf-8",
        body: CycleConf::of_request(request).conf.shared.page().into_bytes(),
    }
}

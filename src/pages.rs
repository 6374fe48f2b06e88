//! The content handlers of this module's own pages.
//!
//! Called by nginx where `ratelimitly_metrics` or `ratelimitly_ready` stands. They read what the workers share and never wait.

use crate::conf::{LocationConf, Page, Pages};
use crate::cycle_conf::CycleConf;
use crate::nginx::border;
use crate::nginx::content::Text;
use crate::nginx::process;
use crate::nginx::request::Request;
use crate::shared::Workers;
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

    unsafe extern "C" fn ready(r: *mut ngx_http_request_t) -> ngx_int_t {
        border::guarded("the readiness page", HTTPStatus::INTERNAL_SERVER_ERROR.into(), || {
            // SAFETY: nginx runs a content handler on a live request.
            unsafe { Request::answer(r, ready_text) }
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

fn ready_text(request: &Request) -> Text {
    let kept = CycleConf::of_request(request);
    let is_strict = LocationConf::of_request(request).page == Some(Page::Ready { strict: true });
    let missing = missing(kept.conf.shared.workers(), kept.settings().in_effect, is_strict);
    let (status, body) = match missing {
        None => (HTTPStatus::OK, "ready\n".to_owned()),
        Some(missing) => (HTTPStatus(503), format!("not ready: {missing}\n")),
    };
    Text {
        status,
        media_type: "text/plain",
        content_type: "text/plain; charset=utf-8",
        body: body.into_bytes(),
    }
}

/// What keeps nginx from being ready. Without `strict` an outage of the limiter does not, once each worker has had servers.
fn missing(workers: Workers, in_effect: bool, is_strict: bool) -> Option<String> {
    let all = process::configured_workers() as u64;
    let Workers { current, ready, without_members, open, .. } = workers;
    if current < all {
        Some(format!("{current} of {all} workers have started"))
    } else if !in_effect {
        None
    } else if ready < all {
        Some(format!("{ready} of {all} workers have found servers"))
    } else if is_strict && without_members > 0 {
        Some(format!("{without_members} of {all} workers have no servers"))
    } else if is_strict && open > 0 {
        Some(format!("{open} of {all} workers have stopped waiting for silent servers"))
    } else {
        None
    }
}

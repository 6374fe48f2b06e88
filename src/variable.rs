//! `$ratelimitly_verdict`: the main request's verdict, `allow` or `deny` after a valid result and not found otherwise. And
//! the name of the slot in which the handler notes how a request came to it, which no configuration can name.

use crate::context::Context;
use crate::nginx::border;
use crate::nginx::request::Request;
use ngx::core::Status;
use ngx::ffi::{ngx_http_request_t, ngx_int_t, ngx_variable_value_t};

/// The variable's name.
pub const NAME: &[u8] = b"ratelimitly_verdict";

/// The handler's note (`context::refused_before`). The space keeps configurations from naming it.
pub const PASSAGE: &[u8] = b"ratelimitly passage";

/// nginx asks for the value.
pub unsafe extern "C" fn evaluate(
    r: *mut ngx_http_request_t,
    value: *mut ngx_variable_value_t,
    _data: usize,
) -> ngx_int_t {
    // SAFETY: nginx evaluates variables of a live request into a slot of its own, for the length of this call.
    let (request, value) = unsafe { (Request::from_ptr(r), &mut *value) };
    let verdict = border::guarded("the variable", None, || verdict(request));
    match verdict {
        Some(text) => {
            value.data = text.as_ptr().cast_mut();
            value.set_len(text.len() as u32);
            value.set_valid(1);
            value.set_no_cacheable(1);
            value.set_not_found(0);
        }
        None => value.set_not_found(1),
    }
    Status::NGX_OK.0
}

fn verdict(request: &Request) -> Option<&'static [u8]> {
    Context::of(request.main())?.decision()?.verdict()
}

//! Answering a request with a text of this module's own: a content handler's part of nginx.

use crate::nginx::conf::{Conf, NoMemory};
use crate::nginx::module::ModuleIndex;
use crate::nginx::request::Request;
use ngx::core::Status;
use ngx::ffi::{
    self, ngx_chain_t, ngx_http_core_loc_conf_t, ngx_http_handler_pt, ngx_http_request_t, ngx_str_t,
    ngx_table_elt_t, ngx_uint_t,
};
use ngx::http::HTTPStatus;
use std::ptr::NonNull;

/// A text and what the client is told of it.
pub struct Text {
    /// The status.
    pub status: HTTPStatus,
    /// The media type without parameters.
    pub media_type: &'static str,
    /// The whole `Content-Type`, which begins with `media_type`.
    pub content_type: &'static str,
    /// The text.
    pub body: Vec<u8>,
}

impl Conf {
    /// Makes `handler` the content handler of the location that is being read.
    pub fn handle_content(&self, handler: ngx_http_handler_pt) -> Result<(), NoMemory> {
        let core = self.location_conf(ModuleIndex::http_core()).ok_or(NoMemory)?;
        // SAFETY: the core module's configuration of the location being read, which nothing refers to during this call.
        unsafe { (*core.cast::<ngx_http_core_loc_conf_t>().as_ptr()).handler = handler };
        Ok(())
    }
}

impl Request {
    /// Answers a GET or HEAD with what `make` gives; other methods get 405. No cache may keep the answer. The result is what
    /// the content handler returns.
    ///
    /// # Safety
    /// `r` must be a live request whose content handler is running.
    pub unsafe fn answer(r: *mut ngx_http_request_t, make: impl FnOnce(&Request) -> Text) -> Status {
        // SAFETY: the caller's promise; nginx's functions take such a request, and it is live until the handler returns.
        unsafe {
            if (*r).method & (ffi::NGX_HTTP_GET | ffi::NGX_HTTP_HEAD) as ngx_uint_t == 0 {
                return HTTPStatus(ffi::NGX_HTTP_NOT_ALLOWED as usize).into();
            }
            let discarded = Status(ffi::ngx_http_discard_request_body(r));
            if discarded != Status::NGX_OK {
                return discarded;
            }
            let text = make(Request::from_ptr(r));
            if set_head(r, &text).is_err() {
                return HTTPStatus::INTERNAL_SERVER_ERROR.into();
            }
            let sent = Status(ffi::ngx_http_send_header(r));
            if sent == Status::NGX_ERROR || sent.0 > Status::NGX_OK.0 || (*r).header_only() != 0 {
                return sent;
            }
            match body(r, &text.body) {
                Ok(mut chain) => Status(ffi::ngx_http_output_filter(r, &mut chain)),
                Err(NoMemory) => Status::NGX_ERROR,
            }
        }
    }
}

/// # Safety
/// As for [`Request::answer`].
unsafe fn set_head(r: *mut ngx_http_request_t, text: &Text) -> Result<(), NoMemory> {
    // SAFETY: the caller's promise. The texts are static, and nginx reads them only. The list gives an entry of the request's
    // pool, all of which is written.
    unsafe {
        let out = &raw mut (*r).headers_out;
        (*out).status = text.status.0;
        (*out).content_length_n = text.body.len() as _;
        (*out).content_type = of_static(text.content_type);
        // Shorter than the whole, so that no filter appends a character set.
        (*out).content_type_len = text.media_type.len();
        (*out).content_type_lowcase = std::ptr::null_mut();
        let field = NonNull::new(ffi::ngx_list_push(&raw mut (*out).headers).cast::<ngx_table_elt_t>());
        let field = field.ok_or(NoMemory)?.as_ptr();
        field.write_bytes(0, 1);
        (*field).hash = 1;
        (*field).key = of_static("Cache-Control");
        (*field).value = of_static("no-store");
    }
    Ok(())
}

/// # Safety
/// As for [`Request::answer`].
unsafe fn body(r: *mut ngx_http_request_t, body: &[u8]) -> Result<ngx_chain_t, NoMemory> {
    // SAFETY: the caller's promise. The buffer has room for the bytes and lives as long as the request.
    unsafe {
        let buffer = NonNull::new(ffi::ngx_create_temp_buf((*r).pool, body.len())).ok_or(NoMemory)?.as_mut();
        buffer.last.copy_from_nonoverlapping(body.as_ptr(), body.len());
        buffer.last = buffer.last.add(body.len());
        buffer.set_last_buf(u32::from(r == (*r).main));
        buffer.set_last_in_chain(1);
        Ok(ngx_chain_t { buf: buffer, next: std::ptr::null_mut() })
    }
}

fn of_static(text: &'static str) -> ngx_str_t {
    ngx_str_t { len: text.len(), data: text.as_ptr().cast_mut() }
}

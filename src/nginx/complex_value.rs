//! nginx's complex values: text with variables, compiled while loading and evaluated for a request.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use ngx::core::Status;
use ngx::ffi::{self, ngx_http_compile_complex_value_t, ngx_http_complex_value_t, ngx_str_t};

use crate::nginx::conf::Conf;
use crate::nginx::request::Request;

/// A text with at least one variable, compiled. What it points to is in the configuration's pool, so it must not
/// outlive the cycle; keep it in a configuration structure.
pub struct ComplexValue(NonNull<ngx_http_complex_value_t>);

/// nginx could not compile the text and has logged why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a valid template")]
pub struct CompileError;

/// nginx had no memory for a value, or a variable's handler failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nginx could not evaluate a template")]
pub struct EvaluateError;

impl ComplexValue {
    /// Compiles a part of a directive's argument. `None`: it holds no variable, its value is its text.
    ///
    /// # Errors
    /// [`CompileError`], after nginx has logged it.
    pub fn compile(cf: &Conf, text: &[u8]) -> Result<Option<ComplexValue>, CompileError> {
        let place =
            cf.place_value(MaybeUninit::<ngx_http_complex_value_t>::zeroed()).map_err(|_| CompileError)?;
        let place = place.cast::<ngx_http_complex_value_t>();
        let mut source = pool_copy(cf, text)?;
        // SAFETY: a plain C structure, for which zero means "none" throughout.
        let mut compile = unsafe { MaybeUninit::<ngx_http_compile_complex_value_t>::zeroed().assume_init() };
        compile.cf = cf.as_ptr();
        compile.value = &mut source;
        compile.complex_value = place.as_ptr();
        // SAFETY: every pointer is live; the compiled value refers to the copy's bytes in the pool, not to `source`.
        let status = unsafe { ffi::ngx_http_compile_complex_value(&mut compile) };
        if status != Status::NGX_OK.0 {
            return Err(CompileError);
        }
        // SAFETY: filled by the call above.
        let is_static = unsafe { (*place.as_ptr()).lengths.is_null() };
        Ok((!is_static).then_some(ComplexValue(place)))
    }

    /// The value for this request: exact bytes, NULs included, in the request's pool. A missing variable is empty.
    ///
    /// Runs the handlers of the variables, which belong to other modules: hold no borrow that they could come upon.
    ///
    /// # Errors
    /// [`EvaluateError`] where nginx fails, which is an internal failure and no property of the value.
    pub fn evaluate<'r>(&self, request: &'r Request) -> Result<&'r [u8], EvaluateError> {
        let mut value = ngx_str_t { len: 0, data: std::ptr::null_mut() };
        // SAFETY: a live request and a compiled value of the configuration that serves it.
        let status = unsafe { ffi::ngx_http_complex_value(request.as_ptr(), self.0.as_ptr(), &mut value) };
        if status != Status::NGX_OK.0 {
            return Err(EvaluateError);
        }
        if value.len == 0 {
            return Ok(&[]);
        }
        // SAFETY: nginx wrote `len` bytes into the request's pool, which lives as long as the request.
        Ok(unsafe { std::slice::from_raw_parts(value.data, value.len) })
    }
}

/// A copy with a final NUL: nginx's compiler looks one byte past a `$`.
fn pool_copy(cf: &Conf, text: &[u8]) -> Result<ngx_str_t, CompileError> {
    // SAFETY: the loader's pool is live; `len + 1` bytes are asked for and written.
    unsafe {
        let data = ffi::ngx_pnalloc((*cf.as_ptr()).pool, text.len() + 1).cast::<u8>();
        if data.is_null() {
            return Err(CompileError);
        }
        data.copy_from_nonoverlapping(text.as_ptr(), text.len());
        data.add(text.len()).write(0);
        Ok(ngx_str_t { len: text.len(), data })
    }
}

//! nginx's error log: levels, the question whether a level is on, and writing one line.
//!
//! Called by the tracing subscriber and by every room that logs on its own. It allocates nothing, hands nginx no
//! format but a constant one, and never lets a control byte of foreign text (a DNS name, a header) into a line.

use ngx::ffi::{self, ngx_log_t, ngx_uint_t};
use ratelimitly_config::log_line::LogLine;
use std::fmt;
use std::ptr::NonNull;

/// nginx's log levels, the most urgent first.
#[allow(dead_code, reason = "listed whole, whichever of them are in use")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The configuration cannot be used.
    Emerg = ffi::NGX_LOG_EMERG as isize,
    /// An invariant is broken.
    Alert = ffi::NGX_LOG_ALERT as isize,
    /// Critical.
    Crit = ffi::NGX_LOG_CRIT as isize,
    /// An operation failed.
    Error = ffi::NGX_LOG_ERR as isize,
    /// Something is wrong that is being coped with.
    Warn = ffi::NGX_LOG_WARN as isize,
    /// Worth noting.
    Notice = ffi::NGX_LOG_NOTICE as isize,
    /// Normal events that are rare.
    Info = ffi::NGX_LOG_INFO as isize,
    /// Detail of single requests.
    Debug = ffi::NGX_LOG_DEBUG as isize,
}

/// One of nginx's logs. Cheap to copy; not to be kept across event-loop iterations, because a reload or the end
/// of a request frees the log behind it.
#[derive(Clone, Copy)]
pub struct Log(NonNull<ngx_log_t>);

impl Log {
    /// The log of the current configuration cycle, in effect wherever no request is at hand.
    pub fn of_cycle() -> Log {
        Log::of_running_cycle().expect("nginx has a cycle with a log before it runs any module")
    }

    /// Like [`of_cycle`](Log::of_cycle) for callers that must not panic.
    pub fn of_running_cycle() -> Option<Log> {
        // SAFETY: nginx replaces `ngx_cycle` only from its main thread, on which this runs, and always by a cycle that
        // is alive; both pointers are read now and not kept here.
        let log = unsafe { ffi::ngx_cycle.as_ref().map(|cycle| cycle.log) };
        log.and_then(NonNull::new).map(Log)
    }

    /// The log behind `log`, a connection's or a configuration's. `None` for a null pointer.
    ///
    /// # Safety
    /// `log` must be null or point to a live log for as long as the returned value and its copies are used.
    pub unsafe fn from_ptr(log: *mut ngx_log_t) -> Option<Log> {
        NonNull::new(log).map(Log)
    }

    /// The pointer that nginx's own functions want.
    pub fn as_ptr(self) -> *mut ngx_log_t {
        self.0.as_ptr()
    }

    /// Whether a line of `level` would be written. Debug counts as on for `error_log … debug` and for the debug
    /// masks `debug_core` and `debug_http`, whether or not nginx was built with `--with-debug`.
    pub fn enabled(self, level: Level) -> bool {
        // SAFETY: a live log, as the constructors require; read at once.
        let admitted = unsafe { (*self.0.as_ptr()).log_level };
        match level {
            Level::Debug => admits_debug(admitted),
            urgent => admitted >= urgent as ngx_uint_t,
        }
    }

    /// Writes one line, if `level` is on. [`LogLine`] shows control characters and cuts what is too long, so
    /// that a line stays one line.
    pub fn write(self, level: Level, message: fmt::Arguments<'_>) {
        if !self.enabled(level) {
            return;
        }
        let line = LogLine::of(message);
        let text = line.as_bytes();
        // SAFETY: the log is live; "%*s" takes a size_t and that many bytes, and `text` outlives the call, which
        // copies it.
        unsafe {
            ffi::ngx_log_error_core(
                level as ngx_uint_t,
                self.0.as_ptr(),
                0,
                c"%*s".as_ptr(),
                text.len(),
                text.as_ptr(),
            );
        }
    }
}

/// `log_level` holds a plain level up to 8 (debug), or a mask of debug kinds from 0x10 up.
fn admits_debug(log_level: ngx_uint_t) -> bool {
    let kinds = (ffi::NGX_LOG_DEBUG_CORE | ffi::NGX_LOG_DEBUG_HTTP) as ngx_uint_t;
    log_level == ffi::NGX_LOG_DEBUG as ngx_uint_t || log_level & kinds != 0
}

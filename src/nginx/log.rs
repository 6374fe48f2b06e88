//! nginx's error log: levels, the question whether a level is on, and writing one line.
//!
//! Called by the tracing subscriber and by every room that logs on its own. It allocates nothing, hands nginx no
//! format but a constant one, and never lets a control byte of foreign text (a DNS name, a header) into a line.

use ngx::ffi::{self, ngx_log_t, ngx_uint_t};
use std::fmt::{self, Write};
use std::ptr::NonNull;

/// Longest message in bytes. nginx cuts a whole line, time stamp and request details included, at 2048 bytes
/// wherever that falls; a message of this size still leaves room for them.
pub const MESSAGE_MAX: usize = 1792;

/// What stands at the end of a message that was cut.
const CUT_MARK: &str = "...";

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

/// One of nginx's logs. Cheap to copy; not to be kept across turns of the event loop, because a reload or the end
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

    /// Writes one line, if `level` is on. Control characters are written as `\xNN`, so that a line stays one line;
    /// a message over [`MESSAGE_MAX`] bytes is cut between two characters and ends in `...`.
    pub fn write(self, level: Level, message: fmt::Arguments<'_>) {
        if !self.enabled(level) {
            return;
        }
        let mut line = Line::new();
        // An error here only says that the line is full (or that a `Display` gave up): what there is, is logged.
        let _ = line.write_fmt(message);
        let text = line.finish();
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

/// A message under construction, on the stack.
struct Line {
    bytes: [u8; MESSAGE_MAX],
    len: usize,
    full: bool,
}

impl Line {
    fn new() -> Line {
        Line { bytes: [0; MESSAGE_MAX], len: 0, full: false }
    }

    /// Appends `text` whole, or notes that the line is full.
    fn push(&mut self, text: &str) -> fmt::Result {
        let room = MESSAGE_MAX - CUT_MARK.len() - self.len;
        let cut = text.floor_char_boundary(room.min(text.len()));
        self.bytes[self.len..self.len + cut].copy_from_slice(&text.as_bytes()[..cut]);
        self.len += cut;
        self.full = cut < text.len();
        if self.full { Err(fmt::Error) } else { Ok(()) }
    }

    /// Appends `c` as `\xNN` for each of its bytes, all or nothing.
    fn push_escaped(&mut self, c: char) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let mut utf8 = [0; 4];
        for &byte in c.encode_utf8(&mut utf8).as_bytes() {
            let escape = [b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            if MESSAGE_MAX - CUT_MARK.len() - self.len < escape.len() {
                self.full = true;
                return Err(fmt::Error);
            }
            self.push(str::from_utf8(&escape).map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }

    /// The message, with its mark if it was cut.
    fn finish(&mut self) -> &[u8] {
        if self.full {
            self.bytes[self.len..self.len + CUT_MARK.len()].copy_from_slice(CUT_MARK.as_bytes());
            self.len += CUT_MARK.len();
            self.full = false;
        }
        &self.bytes[..self.len]
    }
}

impl Write for Line {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        if self.full {
            return Err(fmt::Error);
        }
        while let Some((at, control)) = text.char_indices().find(|(_, c)| c.is_control()) {
            self.push(&text[..at])?;
            self.push_escaped(control)?;
            text = &text[at + control.len_utf8()..];
        }
        self.push(text)
    }
}

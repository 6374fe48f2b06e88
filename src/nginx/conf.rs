//! nginx while it loads a configuration: a directive's arguments, messages with file and line, values in the
//! configuration's pool, and what other modules have configured.
//!
//! A `&Conf` is made in the first lines of a callback and lasts no longer than that callback.

use std::borrow::Cow;
use std::cell::UnsafeCell;
use std::ffi::{OsString, c_void};
use std::fmt;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;

use ngx::core::Status;
use ngx::ffi::{
    self, ngx_buf_t, ngx_command_t, ngx_conf_t, ngx_http_conf_ctx_t, ngx_http_core_loc_conf_t,
    ngx_resolver_connection_t, ngx_resolver_t, ngx_str_t, ngx_uint_t,
};

use crate::nginx::address::socket_addr;
use crate::nginx::border::guarded;
use crate::nginx::log::{Level, Log};
use crate::nginx::module::ModuleIndex;

/// nginx's loader. nginx changes it behind every reference, hence the cell.
#[repr(transparent)]
pub struct Conf(UnsafeCell<ngx_conf_t>);

/// File and line of a directive, as `<file>:<line>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place(Rc<str>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// nginx had no memory. It has logged that itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("out of memory")]
pub struct NoMemory;

impl Conf {
    /// The loader behind `cf`.
    ///
    /// # Safety
    /// `cf` must be what nginx passed to the callback in progress, and the result must not outlive that callback.
    pub unsafe fn from_ptr<'a>(cf: *mut ngx_conf_t) -> &'a Conf {
        // SAFETY: the caller's promise; the layout is the same (`repr(transparent)`).
        unsafe { &*cf.cast::<Conf>() }
    }

    /// The pointer that nginx's functions want.
    pub fn as_ptr(&self) -> *mut ngx_conf_t {
        self.0.get()
    }

    /// The directive's name as it was written.
    pub fn directive(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.words().first().map_or(b"", |word| bytes(word)))
    }

    /// The directive's arguments, without its name.
    pub fn arguments(&self) -> Vec<&[u8]> {
        self.words().iter().skip(1).map(bytes).collect()
    }

    fn words(&self) -> &[ngx_str_t] {
        // SAFETY: nginx fills `args` before it calls a directive's setter and keeps it until the setter returns; where
        // no directive is being set (merging, postconfiguration) the array is the last directive's or null.
        unsafe {
            let Some(args) = (*self.as_ptr()).args.as_ref() else { return &[] };
            slice(args.elts.cast::<ngx_str_t>(), args.nelts)
        }
    }

    /// Logs `ratelimitly: "<directive>" directive: <message> in <file>:<line>`, as nginx's own configuration errors end.
    pub fn log(&self, level: Level, directive: &str, message: impl fmt::Display) {
        let line = format!("ratelimitly: \"{directive}\" directive: {message}");
        // SAFETY: the loader is live; "%*s" takes a size_t and that many bytes, which nginx copies.
        unsafe {
            ffi::ngx_conf_log_error(
                level as ngx_uint_t,
                self.as_ptr(),
                0,
                c"%*s".as_ptr(),
                line.len(),
                line.as_ptr(),
            );
        }
    }

    /// The same for a directive that was read before, at `place`.
    pub fn log_at(&self, place: &Place, level: Level, directive: &str, message: impl fmt::Display) {
        // SAFETY: the loader's log is live during the callback, and the value is not kept.
        if let Some(log) = unsafe { Log::from_ptr((*self.as_ptr()).log) } {
            log.write(level, format_args!("ratelimitly: \"{directive}\" directive: {message} in {place}"));
        }
    }

    /// Warns about the directive being read.
    pub fn warn(&self, message: impl fmt::Display) {
        self.log(Level::Warn, &self.directive(), message);
    }

    /// Whether a module that is loaded has a directive of this name.
    pub fn is_directive(&self, name: &[u8]) -> bool {
        let named = |command: &ngx_command_t| bytes(&command.name).eq_ignore_ascii_case(name);
        // SAFETY: the cycle being loaded is live and has a table of live modules, ended by null; each module has null
        // or a table of directives, ended by an entry without a name. nginx writes none of them during a callback.
        unsafe {
            let mut modules = (*(*self.as_ptr()).cycle).modules;
            while let Some(module) = modules.as_ref().and_then(|module| module.as_ref()) {
                let mut commands = module.commands;
                while let Some(command) = commands.as_ref().filter(|command| command.name.len != 0) {
                    if named(command) {
                        return true;
                    }
                    commands = commands.add(1);
                }
                modules = modules.add(1);
            }
        }
        false
    }

    /// Overwrites the arguments of the directive being read, and what nginx's reader still holds of their text: the part
    /// of its buffer that it has read, and the copy of the file that builds with `--with-debug` make. For `nginx -T`,
    /// which prints that copy, the copy stays.
    ///
    /// # Safety
    /// No slice of [`arguments`](Self::arguments) may be used any more, and the directive must come from a file.
    pub unsafe fn wipe_arguments(&self) {
        // SAFETY: `args` holds the directive's words, each in memory of the pool that nginx wrote for this directive alone
        // and does not read after the setter. The buffer's bytes before `pos` were consumed, those from `last` on hold
        // nothing. The copy is this cycle's own, and only `nginx -T` reads it.
        unsafe {
            let file = (*self.as_ptr()).conf_file.as_ref();
            for word in self.words().iter().skip(1) {
                if let Some(copy) = file.and_then(|file| file.dump.as_ref())
                    && ffi::ngx_dump_config == 0
                {
                    wipe_text(copy, bytes(word));
                }
                word.data.write_bytes(b'*', word.len);
            }
            if let Some(buffer) = file.and_then(|file| file.buffer.as_ref()) {
                wipe_between(buffer.start, buffer.pos);
                wipe_between(buffer.last, buffer.end);
            }
        }
    }

    /// Where the directive being read stands, for messages that come later.
    pub fn place(&self) -> Place {
        // SAFETY: the file being parsed, if any, is live during a callback; its name is the file's own.
        let place = unsafe {
            (*self.as_ptr()).conf_file.as_ref().map(|file| (bytes(&file.file.name).to_vec(), file.line))
        };
        match place {
            Some((name, line)) => Place(format!("{}:{line}", String::from_utf8_lossy(&name)).into()),
            None => Place("the command line".into()),
        }
    }

    /// A path of the directive being read, relative to the folder of nginx's configuration.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn full_path(&self, text: &[u8]) -> Result<PathBuf, NoMemory> {
        const OF_CONFIGURATION: ngx_uint_t = 1;
        // nginx's function wants a final NUL behind a path that is whole already.
        let mut copy = [text, b"\0"].concat();
        let mut name = ngx_str_t { len: text.len(), data: copy.as_mut_ptr() };
        // SAFETY: the cycle being loaded is live, and `name` is `copy` or, afterwards, text of the cycle's pool.
        let path = unsafe {
            let status = ffi::ngx_conf_full_name((*self.as_ptr()).cycle, &mut name, OF_CONFIGURATION);
            (status == Status::NGX_OK.0).then(|| bytes(&name).to_vec())
        };
        path.map(|path| PathBuf::from(OsString::from_vec(path))).ok_or(NoMemory)
    }

    /// Moves `value` into the configuration's pool, which drops it when the cycle goes.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn place_value<T>(&self, value: T) -> Result<NonNull<T>, NoMemory> {
        const { assert!(align_of::<T>() <= align_of::<usize>(), "nginx aligns to a word") };
        // SAFETY: the loader's pool is live; nginx hands out `size_of::<T>()` bytes aligned to a word, which stay until
        // the pool goes. The handler, which drops that very type, is set only after the value is whole.
        unsafe {
            let cleanup =
                ffi::ngx_pool_cleanup_add((*self.as_ptr()).pool, size_of::<T>()).as_mut().ok_or(NoMemory)?;
            let place = NonNull::new(cleanup.data.cast::<T>()).ok_or(NoMemory)?;
            place.as_ptr().write(value);
            cleanup.handler = Some(drop_placed::<T>);
            Ok(place)
        }
    }

    /// The http block's own configuration of an HTTP module, while inside that block.
    pub fn http_conf(&self, module: ModuleIndex) -> Option<NonNull<c_void>> {
        self.http_context().and_then(|context| {
            // SAFETY: the table has an entry for each HTTP module that is being loaded, and this one is, as it is called.
            NonNull::new(unsafe { *context.main_conf.add(module.get()) })
        })
    }

    /// An HTTP module's configuration of the location that is being read.
    pub fn location_conf(&self, module: ModuleIndex) -> Option<NonNull<c_void>> {
        self.http_context().and_then(|context| {
            // SAFETY: inside a location `ctx` is the location's own context, with an entry for each HTTP module.
            NonNull::new(unsafe { *context.loc_conf.add(module.get()) })
        })
    }

    fn http_context(&self) -> Option<&ngx_http_conf_ctx_t> {
        // SAFETY: inside http{}, where every callback of an HTTP module runs, `ctx` is the block's context.
        unsafe { (*self.as_ptr()).ctx.cast::<ngx_http_conf_ctx_t>().as_ref() }
    }

    /// The `resolver` and `resolver_timeout` of the http block itself; complete once its servers are merged.
    pub fn http_resolver(&self) -> ResolverSettings {
        let core = self.http_context().and_then(|context| {
            let core = ModuleIndex::http_core().get();
            // SAFETY: the core module's entry of the block's own location table is its location configuration.
            unsafe { (*context.loc_conf.add(core)).cast::<ngx_http_core_loc_conf_t>().as_ref() }
        });
        let Some(core) = core else { return ResolverSettings::absent(DEFAULT_RESOLVER_TIMEOUT_MS) };
        let timeout_ms = match core.resolver_timeout {
            // NGX_CONF_UNSET_MSEC: nginx merges the default into the servers and leaves the block's own value unset.
            ffi::ngx_msec_t::MAX => DEFAULT_RESOLVER_TIMEOUT_MS,
            set => set as u64,
        };
        // SAFETY: null or a resolver that nginx made in the configuration's pool.
        match unsafe { core.resolver.as_ref() } {
            Some(resolver) => ResolverSettings::read(resolver, timeout_ms),
            None => ResolverSettings::absent(timeout_ms),
        }
    }
}

const DEFAULT_RESOLVER_TIMEOUT_MS: u64 = 30_000;

/// Whom to ask for DNS records, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverSettings {
    /// The nameservers in order; empty where none was configured.
    pub servers: Vec<SocketAddr>,
    /// `resolver_timeout`, which bounds one discovery; milliseconds.
    pub timeout_ms: u64,
    /// `valid=`, which replaces the records' times to live; seconds.
    pub valid_s: Option<u32>,
    /// Whether A records are wanted.
    pub ipv4: bool,
    /// Whether AAAA records are wanted.
    pub ipv6: bool,
}

impl ResolverSettings {
    fn absent(timeout_ms: u64) -> ResolverSettings {
        ResolverSettings { servers: Vec::new(), timeout_ms, valid_s: None, ipv4: true, ipv6: true }
    }

    fn read(resolver: &ngx_resolver_t, timeout_ms: u64) -> ResolverSettings {
        let connections = &resolver.connections;
        // SAFETY: nginx made the array with this element type; it stays with the resolver.
        let connections =
            unsafe { slice(connections.elts.cast::<ngx_resolver_connection_t>(), connections.nelts) };
        // SAFETY: each connection's address is a whole one of its family, in the configuration's pool.
        let servers: Vec<_> = connections.iter().filter_map(|c| unsafe { socket_addr(c.sockaddr) }).collect();
        if servers.is_empty() {
            return ResolverSettings::absent(timeout_ms);
        }
        let valid_s = u32::try_from(resolver.valid).ok().filter(|&seconds| seconds != 0);
        ResolverSettings {
            servers,
            timeout_ms,
            valid_s,
            ipv4: wants_ipv4(resolver),
            ipv6: wants_ipv6(resolver),
        }
    }
}

#[cfg(nginx1_23_1)]
fn wants_ipv4(resolver: &ngx_resolver_t) -> bool {
    resolver.ipv4() != 0
}

#[cfg(nginx1_23_1)]
fn wants_ipv6(resolver: &ngx_resolver_t) -> bool {
    resolver.ipv6() != 0
}

/// `ipv4=off` came with 1.23.1.
#[cfg(not(nginx1_23_1))]
fn wants_ipv4(_resolver: &ngx_resolver_t) -> bool {
    true
}

#[cfg(not(nginx1_23_1))]
fn wants_ipv6(resolver: &ngx_resolver_t) -> bool {
    resolver.ipv6 != 0
}

/// Overwrites each occurrence of `text` in what a buffer holds.
///
/// # Safety
/// The buffer's bytes up to `last` must be nginx's own, and nothing else may read them during the call. `text` must not be
/// among them.
unsafe fn wipe_text(buffer: &ngx_buf_t, text: &[u8]) {
    // SAFETY: the caller's promise.
    let Ok(len) = usize::try_from(unsafe { buffer.last.offset_from(buffer.start) }) else { return };
    if buffer.start.is_null() || text.is_empty() {
        return;
    }
    // SAFETY: `len` bytes of the buffer, which nothing else refers to for now.
    let held = unsafe { slice::from_raw_parts_mut(buffer.start, len) };
    let mut from = 0;
    while let Some(at) = held[from..].windows(text.len()).position(|part| part == text) {
        held[from + at..from + at + text.len()].fill(b'*');
        from += at + text.len();
    }
}

/// # Safety
/// `start` and `end` must be in one buffer whose bytes between them nginx writes before it reads them; or both null.
unsafe fn wipe_between(start: *mut u8, end: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if let Ok(len) = usize::try_from(end.offset_from(start)) {
            start.write_bytes(0, len);
        }
    }
}

/// # Safety
/// `elements` must point to `count` elements that stay as they are for `'a`, unless `count` is 0.
unsafe fn slice<'a, T>(elements: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; nginx never has a null array with elements.
    unsafe { slice::from_raw_parts(elements, count) }
}

/// The bytes of one of nginx's strings, as long as the string itself is borrowed.
pub fn bytes(text: &ngx_str_t) -> &[u8] {
    // SAFETY: an ngx_str_t of nginx has `len` bytes at `data`, in the same pool as the string that is borrowed here.
    unsafe { slice(text.data, text.len) }
}

unsafe extern "C" fn drop_placed<T>(data: *mut c_void) {
    guarded("the end of a configuration", (), || {
        // SAFETY: set by `place_value` with this type, called once when the pool goes.
        unsafe { data.cast::<T>().drop_in_place() }
    });
}

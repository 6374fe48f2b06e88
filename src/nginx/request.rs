//! One HTTP request of nginx: what the module asks of it, and suspending and resuming it.
//!
//! A `&Request` is made in the first lines of a callback and lasts no longer than that callback: nginx frees a request
//! as soon as it is finalized.

use crate::nginx::border;
use crate::nginx::log::Log;
use crate::nginx::module::ModuleIndex;
use crate::nginx::phases::{NoteIndex, VariableIndex, VariableRange};
use crate::nginx::value::Slot;
use ngx::core::Status;
use ngx::ffi::{
    self, ngx_connection_t, ngx_http_core_main_conf_t, ngx_http_request_t, ngx_msec_t, ngx_pool_t, ngx_uint_t,
};
use ngx::http::HTTPStatus;
use ratelimitly_core::time::WallMillis;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

/// nginx's request. nginx changes it behind every reference, hence the cell.
#[repr(transparent)]
pub struct Request(UnsafeCell<ngx_http_request_t>);

/// nginx refused to watch the client's connection, or had no memory.
#[derive(Debug, thiserror::Error)]
#[error("nginx could not watch the client's connection")]
pub struct WatchError;

/// What this module keeps for one request.
///
/// # Safety
/// One type alone in this shared object may implement this: nginx's table of contexts tells no types apart. When `release`
/// has returned or panicked, nothing may refer to the value any more.
pub unsafe trait Kept: Sized {
    /// The request's pool goes; the value is dropped next.
    fn release(&self);
}

/// nginx had no memory for a request. It has logged that itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nginx had no memory")]
pub struct NoMemory;

/// Values in a request's pool.
pub struct PoolSlice<T> {
    start: NonNull<T>,
    len: usize,
}

impl<T: Copy> PoolSlice<T> {
    /// The values.
    pub fn as_ref(&self) -> &[T] {
        // SAFETY: `pool_slice` has written them, and its caller does not use them once the pool has gone.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The values, to be changed.
    pub fn as_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `as_ref`; nothing else refers to them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

type Cleanup = unsafe extern "C" fn(*mut c_void);

impl Request {
    /// The request behind `r`.
    ///
    /// # Safety
    /// `r` must be a live request of a cycle that loads this module, and the result must not be used after it has been
    /// finalized or freed.
    pub unsafe fn from_ptr<'a>(r: *mut ngx_http_request_t) -> &'a Request {
        // SAFETY: the caller's promise; the layout is the same (`repr(transparent)`).
        unsafe { &*r.cast::<Request>() }
    }

    /// The pointer that nginx's functions want.
    pub fn as_ptr(&self) -> *mut ngx_http_request_t {
        self.0.get()
    }

    /// Reads fields of the request.
    fn read<T>(&self, fields: impl FnOnce(&ngx_http_request_t) -> T) -> T {
        // SAFETY: a live request, by `from_ptr`. `fields`, from this file, calls nothing that could change it meanwhile.
        fields(unsafe { &*self.as_ptr() })
    }

    /// The pool that lives as long as the request.
    fn pool(&self) -> *mut ngx_pool_t {
        self.read(|r| r.pool)
    }

    /// The request's connection; for HTTP/2 and 3 the stream's own.
    fn connection(&self) -> *mut ngx_connection_t {
        self.read(|r| r.connection)
    }

    /// The log of the request's connection, whose lines name the client and the request.
    pub fn log(&self) -> Log {
        // SAFETY: the connection's log lives as long as the connection, longer than the request.
        unsafe { Log::from_ptr((*self.connection()).log) }.unwrap_or_else(Log::of_cycle)
    }

    /// Whether this is the client's own request and no subrequest.
    pub fn is_main(&self) -> bool {
        self.read(|r| r.main) == self.as_ptr()
    }

    /// The client's own request.
    pub fn main(&self) -> &Request {
        // SAFETY: a subrequest's main request outlives it.
        unsafe { Request::from_ptr(self.read(|r| r.main)) }
    }

    /// The value that this module keeps for the request. Puts it back into nginx's table where internal routing has cleared
    /// that: unlike the table, the pool's list of cleanups survives redirects, and unlike `r->cleanup` the log phase.
    pub fn kept<T: Kept>(&self) -> Option<&T> {
        // SAFETY: the table has an entry for each HTTP module of the request's cycle. This module sets its own here and in
        // `keep` only, to the value that `keep` has put into the request's pool, which lives as long as the request.
        unsafe {
            let entry = (*self.as_ptr()).ctx.add(ModuleIndex::own().get());
            if (*entry).is_null() {
                *entry = self.cleanup_data(release::<T>)?.as_ptr();
            }
            Some(&*(*entry).cast::<T>())
        }
    }

    /// Puts a value into the request's pool, for `kept` to find until the pool goes. `None`: no memory.
    #[inline]
    pub fn keep<T: Kept>(&self, value: impl FnOnce() -> T) -> Option<&T> {
        const { assert!(align_of::<T>() <= align_of::<usize>(), "nginx aligns to a word") };
        // SAFETY: a live pool; nginx hands out `size_of::<T>()` bytes aligned to a word, which stay until the pool goes. The
        // handler is set only after the value is whole. The entry of the table is this module's own, as in `kept`.
        unsafe {
            let cleanup = ffi::ngx_pool_cleanup_add(self.pool(), size_of::<T>()).as_mut()?;
            let place = NonNull::new(cleanup.data.cast::<T>())?;
            // Made in its place, if the compiler can.
            place.as_ptr().write(value());
            cleanup.handler = Some(release::<T>);
            *(*self.as_ptr()).ctx.add(ModuleIndex::own().get()) = place.as_ptr().cast();
            Some(place.as_ref())
        }
    }

    /// The data of the pool's first cleanup with this handler.
    fn cleanup_data(&self, wanted: Cleanup) -> Option<NonNull<c_void>> {
        // SAFETY: the pool's list is live and ends in null; nothing changes it during the walk.
        unsafe {
            let mut entry = (*self.pool()).cleanup;
            while let Some(cleanup) = entry.as_ref() {
                if cleanup.handler.is_some_and(|handler| handler as usize == wanted as usize) {
                    return NonNull::new(cleanup.data);
                }
                entry = cleanup.next;
            }
        }
        None
    }

    /// Notes that one of these variables is read whose value may still change.
    pub fn note_reader(&self, range: VariableRange) {
        self.set_note(range.read(), 1);
    }

    /// Clears what the noted readers have left in the request's cache of indexed variables, so that the next reader computes
    /// the values. Without a noted reader nothing is cached.
    #[inline]
    pub fn forget_variables(&self, range: VariableRange) {
        if self.note(range.read()) != 0 {
            self.forget_all(range);
        }
    }

    #[cold]
    fn forget_all(&self, range: VariableRange) {
        self.set_note(range.read(), 0);
        self.with_variables(range.first(), range.len(), |slots| {
            slots.iter_mut().for_each(Slot::forget);
        });
    }

    /// The number that this module has noted here; 0 before it noted any.
    pub fn note(&self, index: NoteIndex) -> u32 {
        self.with_variables(index.variable(), 1, |slots| slots[0].note()).unwrap_or(0)
    }

    /// Notes a number of at most 28 bits. The slot's variable stays without a value.
    pub fn set_note(&self, index: NoteIndex, note: u32) {
        self.with_variables(index.variable(), 1, |slots| slots[0].set_note(note));
    }

    /// Calls `look` with the slots of `len` variables; `None` where the request's configuration has no such variables.
    fn with_variables<T>(
        &self,
        first: VariableIndex,
        len: usize,
        look: impl FnOnce(&mut [Slot]) -> T,
    ) -> Option<T> {
        let core = ModuleIndex::http_core().get();
        // SAFETY: a live request's main configuration holds the core module's, which counts the variables that the
        // request's array was made for. The slots are this thread's, and `look`, from this file, calls nothing of nginx.
        unsafe {
            let core = *(*self.as_ptr()).main_conf.add(core);
            let count = (*core.cast::<ngx_http_core_main_conf_t>()).variables.nelts;
            if first.get().checked_add(len)? > count {
                return None;
            }
            let slots = (*self.as_ptr()).variables.add(first.get());
            Some(look(Slot::all(std::slice::from_raw_parts_mut(slots, len))))
        }
    }

    /// A copy of `bytes` in the request's pool.
    ///
    /// # Errors
    /// [`NoMemory`]: nginx has none.
    pub fn pool_copy(&self, bytes: &[u8]) -> Result<&[u8], NoMemory> {
        // SAFETY: a live pool, whose memory stays as long as the request; `len` bytes are asked for and written.
        unsafe {
            let place =
                NonNull::new(ffi::ngx_pnalloc(self.pool(), bytes.len()).cast::<u8>()).ok_or(NoMemory)?;
            place.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            Ok(std::slice::from_raw_parts(place.as_ptr(), bytes.len()))
        }
    }

    /// `len` values in the request's pool. `None`: nginx has no memory.
    ///
    /// # Safety
    /// The result must not be used after the request's pool has gone.
    pub unsafe fn pool_slice<T: Copy + Default>(&self, len: usize) -> Option<PoolSlice<T>> {
        const { assert!(align_of::<T>() <= align_of::<usize>(), "nginx aligns to a word") };
        let size = len.checked_mul(size_of::<T>())?;
        // SAFETY: a live pool; nginx hands out `size` bytes aligned to a word, and each value is written before it is read.
        unsafe {
            let start = NonNull::new(ffi::ngx_palloc(self.pool(), size).cast::<T>())?;
            (0..len).for_each(|index| start.add(index).write(T::default()));
            Some(PoolSlice { start, len })
        }
    }

    /// The status of the error that nginx has made of the request, as `error_page` changed it; 0 before any.
    pub fn error_status(&self) -> ngx_uint_t {
        self.read(|r| r.err_status)
    }

    /// Whether the request has ended, and now runs its `post_action`.
    pub fn is_post_action(&self) -> bool {
        self.read(|r| r.post_action() != 0)
    }

    /// When nginx began to read the request.
    pub fn started(&self) -> WallMillis {
        let (sec, msec) = self.read(|r| (r.start_sec, r.start_msec as ngx_msec_t));
        WallMillis((sec as u64).saturating_mul(1000).saturating_add(msec as u64))
    }

    /// Whether the client's connection has failed, timed out or been torn down.
    pub fn connection_lost(&self) -> bool {
        // SAFETY: a live request has its connection.
        let connection = unsafe { &*self.connection() };
        connection.error() != 0 || connection.timedout() != 0 || connection.destroyed() != 0
    }

    /// Suspends the request: its client is watched for an abort, and nothing else moves it.
    pub fn suspend(&self) -> Result<(), WatchError> {
        // SAFETY: a live request and its connection, on nginx's thread; the handlers are nginx's own or ours.
        unsafe {
            let read = (*self.connection()).read;
            if (*read).ready() != 0 {
                // An abort that has been delivered already would raise no further event.
                ffi::ngx_post_event(read, ptr::addr_of_mut!(ffi::ngx_posted_events));
            } else if ffi::ngx_handle_read_event(read, 0) != Status::NGX_OK.0 {
                return Err(WatchError);
            }
            let write = (*self.connection()).write;
            if (*write).error() != 0 {
                // So has a cancelled HTTP/3 stream, which raises a write event only.
                ffi::ngx_post_event(write, ptr::addr_of_mut!(ffi::ngx_posted_events));
            }
            (*self.as_ptr()).read_event_handler = Some(ffi::ngx_http_test_reading);
            (*self.as_ptr()).write_event_handler = Some(on_write_while_suspended);
        }
        Ok(())
    }

    /// Lets the request's phases go on, and then what they posted. The request may be gone afterwards, so this takes
    /// a pointer and no reference lives across it.
    ///
    /// # Safety
    /// `r` must be a live request that was suspended by `suspend` and is not running now.
    pub unsafe fn resume(r: *mut ngx_http_request_t) {
        // SAFETY: the caller's promise. The connection outlives the request (for HTTP/2 and 3 the stream's fake
        // connection goes with the stream, after its posted requests), so it is read before.
        unsafe {
            let connection = (*r).connection;
            if ffi::ngx_handle_read_event((*connection).read, 0) != Status::NGX_OK.0 {
                finalize(r, HTTPStatus::INTERNAL_SERVER_ERROR);
            } else {
                (*r).read_event_handler = Some(ffi::ngx_http_block_reading);
                (*r).write_event_handler = Some(ffi::ngx_http_core_run_phases);
                ffi::ngx_http_core_run_phases(r);
            }
            ffi::ngx_http_run_posted_requests(connection);
        }
    }

    /// Ends the request of a client that has gone. The request may be gone afterwards, as with `resume`.
    ///
    /// # Safety
    /// As for `resume`; nginx may have ended the request before and keep its memory only because something in it is blocked
    /// (a subrequest that waits for a cache lock or for a thread). Ending it once more is then what nginx does, too.
    pub unsafe fn give_up(r: *mut ngx_http_request_t) {
        // SAFETY: the caller's promise; the connection is read before, as in `resume`.
        unsafe {
            let connection = (*r).connection;
            finalize(r, HTTPStatus::CLIENT_CLOSED_REQUEST);
            ffi::ngx_http_run_posted_requests(connection);
        }
    }
}

/// Ends a request, which may be gone afterwards.
///
/// # Safety
/// `r` must be a live request.
unsafe fn finalize(r: *mut ngx_http_request_t, status: HTTPStatus) {
    // SAFETY: the caller's promise.
    unsafe { ffi::ngx_http_finalize_request(r, Status::from(status).0) };
}

/// The request's pool goes, and what was kept with it.
unsafe extern "C" fn release<T: Kept>(data: *mut c_void) {
    let kept: *mut T = data.cast();
    // SAFETY: nginx calls each cleanup of a pool once, before its memory goes; `data` is the value that `keep` placed.
    border::guarded("a request's cleanup", (), || unsafe { &*kept }.release());
    // SAFETY: as above, and nothing refers to the value any more, as `Kept` demands.
    border::guarded("a request's cleanup", (), || unsafe { kept.drop_in_place() });
}

/// A cancelled HTTP/3 stream raises only a write event.
unsafe extern "C" fn on_write_while_suspended(r: *mut ngx_http_request_t) {
    // SAFETY: nginx calls this for a live request and its connection, and does not touch them afterwards but through
    // its own checks.
    unsafe {
        let connection = (*r).connection;
        if (*connection).error() != 0 || (*(*connection).write).error() != 0 {
            (*connection).set_error(1);
            finalize(r, HTTPStatus::CLIENT_CLOSED_REQUEST);
        }
    }
}

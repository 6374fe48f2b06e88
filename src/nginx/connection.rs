//! A socket on nginx's event loop: one descriptor in one of nginx's connection slots, and the handler that learns
//! of its readiness.
//!
//! Used for the worker's UDP socket and for discovery's sockets. It reads and writes nothing itself, never blocks,
//! and never leaves the descriptor or the slot behind: dropping a [`Connection`] gives both back.

use crate::nginx::border;
use crate::nginx::log::Log;
use ngx::core::Status;
use ngx::ffi::{self, ngx_connection_t, ngx_event_t};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};
use std::rc::Rc;

/// What a socket's owner wants to be told.
///
/// A connection keeps its handler alive, so a handler that owns its own connection would never be freed: let it
/// hold a `Weak` to that owner instead. A handler may drop the connection it is called for.
pub trait Ready {
    /// There may be something to read (data, an error, the end). Read until "would block" and then call
    /// [`Connection::arm_read`], or stop earlier and call [`Connection::post_read`].
    fn readable(&self);

    /// It may be possible to write. Called only after [`Connection::arm_write`].
    fn writable(&self) {}
}

/// Why a socket could not be put on the event loop.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The limit on open files (`worker_rlimit_nofile`) or the system's is reached.
    #[error("too many open files; raise worker_rlimit_nofile")]
    TooManyFiles,
    /// All of `worker_connections` are in use.
    #[error("all worker_connections are in use; raise worker_connections")]
    NoFreeSlot,
    /// The descriptor's number is beyond nginx's table of files.
    #[error("the socket has number {0}, beyond nginx's table of files; raise worker_connections")]
    BeyondFileTable(RawFd),
    /// The socket could not be made or set up.
    #[error("the socket cannot be used: {0}")]
    Socket(#[source] io::Error),
    /// The event method (epoll, poll, …) refused the socket; nginx has logged why.
    #[error("nginx's event method refused the socket")]
    Refused,
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE) => OpenError::TooManyFiles,
            _ => OpenError::Socket(error),
        }
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> io::Error {
        match error {
            OpenError::Socket(error) => error,
            OpenError::TooManyFiles => io::Error::from_raw_os_error(libc::EMFILE),
            other => io::Error::other(other),
        }
    }
}

/// An open socket in one of nginx's connection slots. Belongs to the worker's only thread.
pub struct Connection {
    slot: NonNull<ngx_connection_t>,
    shared: Rc<Shared>,
}

/// What the event callbacks find through the slot's `data`.
struct Shared {
    open: Cell<bool>,
    handler: Rc<dyn Ready>,
}

impl Connection {
    /// Puts `fd` into a free slot and makes it non-blocking. Nothing is watched yet: call
    /// [`arm_read`](Connection::arm_read). On an error `fd` is closed. nginx may close idle client connections to
    /// free a slot, so hold no borrow that their cleanup could need.
    pub fn open(fd: OwnedFd, handler: Rc<dyn Ready>) -> Result<Connection, OpenError> {
        set_nonblocking(&fd)?;
        // SAFETY: the descriptor is open and owned here, and the cycle's log is live; on failure nginx keeps neither.
        let slot = unsafe { ffi::ngx_get_connection(fd.as_raw_fd(), Log::of_cycle().as_ptr()) };
        let slot = NonNull::new(slot).ok_or_else(|| why_no_slot(&fd))?;
        let shared = Rc::new(Shared { open: Cell::new(true), handler });
        // From here on the slot owns the descriptor; closing the slot closes it.
        let _ = fd.into_raw_fd();
        // SAFETY: a slot just handed out is ours alone until ngx_close_connection, with its two events in place.
        // `data` stays valid that long because the Connection holds the `Rc`.
        unsafe { prepare(slot, Rc::as_ptr(&shared)) };
        Ok(Connection { slot, shared })
    }

    /// The descriptor, open as long as the connection.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the slot is ours until `drop`, and its descriptor open; the result borrows from `self`.
        unsafe { BorrowedFd::borrow_raw((*self.slot.as_ptr()).fd) }
    }

    /// Asks to be told when there is something to read. Call it only when the last read would have blocked, or
    /// before the first: with epoll an event that was not read up does not come again.
    pub fn arm_read(&self) -> Result<(), OpenError> {
        // SAFETY: the slot is ours until `drop`; its read event is part of the cycle's tables, which outlive it.
        let armed = unsafe {
            let read = (*self.slot.as_ptr()).read;
            (*read).set_ready(0);
            ffi::ngx_handle_read_event(read, 0)
        };
        accepted(armed)
    }

    /// Asks to be told when it is possible to write. Call it only when the last write would have blocked.
    pub fn arm_write(&self) -> Result<(), OpenError> {
        // SAFETY: as in `arm_read`, for the write event.
        let armed = unsafe {
            let write = (*self.slot.as_ptr()).write;
            (*write).set_ready(0);
            ffi::ngx_handle_write_event(write, 0)
        };
        accepted(armed)
    }

    /// Lets `readable` be called in the next event-loop iteration, for a reader that stopped before "would block".
    /// Dropping the connection before then cancels it.
    pub fn post_read(&self) {
        // SAFETY: the slot and its event are ours until `drop`, where ngx_close_connection unlinks a posted event.
        unsafe {
            let read = (*self.slot.as_ptr()).read;
            ffi::ngx_post_event(read, ptr::addr_of_mut!(ffi::ngx_posted_next_events));
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.open.set(false);
        let log = Log::of_cycle().as_ptr();
        // SAFETY: the slot is ours and open up to this call, which deletes its timers, its registration and its
        // posted events, frees it and closes the descriptor. The log is renewed before: a reload may have freed
        // the one from opening.
        unsafe {
            let slot = self.slot.as_ptr();
            (*slot).log = log;
            (*(*slot).read).log = log;
            (*(*slot).write).log = log;
            ffi::ngx_close_connection(slot);
        }
    }
}

/// Fills in what ngx_get_connection leaves empty.
///
/// # Safety
/// `slot` must have just been handed out by nginx, and `shared` must live until it is closed.
unsafe fn prepare(slot: NonNull<ngx_connection_t>, shared: *const Shared) {
    // SAFETY: the caller's promise: nothing else refers to the slot or its two events.
    unsafe {
        let slot = slot.as_ptr();
        (*slot).data = shared.cast_mut().cast();
        for (event, handler) in [((*slot).read, on_read as Callback), ((*slot).write, on_write as Callback)] {
            (*event).handler = Some(handler);
            (*event).log = (*slot).log;
            // Without it nginx calls the socket of a leaving worker left open, and worker_shutdown_timeout would
            // call its handler as if the peer had closed.
            (*event).set_resolver(1);
        }
    }
}

type Callback = unsafe extern "C" fn(*mut ngx_event_t);

unsafe extern "C" fn on_read(event: *mut ngx_event_t) {
    // SAFETY: nginx calls this for an event of an open slot (see `found`).
    let (slot, shared) = unsafe { found(event) };
    border::guarded("a socket's read event", (), || shared.handler.readable());
    // SAFETY: `open` says that the handler has not dropped the Connection, so slot and event are still its own.
    // Under level-triggered methods an event that was not re-armed is switched off, or it would fire for ever.
    unsafe {
        if shared.open.get() {
            ffi::ngx_handle_read_event((*slot).read, 0);
        }
    }
}

unsafe extern "C" fn on_write(event: *mut ngx_event_t) {
    // SAFETY: nginx calls this for an event of an open slot (see `found`).
    let (slot, shared) = unsafe { found(event) };
    border::guarded("a socket's write event", (), || shared.handler.writable());
    // SAFETY: as in `on_read`.
    unsafe {
        if shared.open.get() {
            ffi::ngx_handle_write_event((*slot).write, 0);
        }
    }
}

/// The slot and the shared state of an event that fired.
///
/// # Safety
/// `event` must belong to an open slot of this room. nginx sees to that: closing unlinks posted events, and an event
/// that the kernel reported before its slot was closed or reused carries the old `instance` bit (epoll, kqueue) and is
/// passed over.
unsafe fn found(event: *mut ngx_event_t) -> (*mut ngx_connection_t, Rc<Shared>) {
    // SAFETY: an open slot's `data` is the `Rc` that its Connection holds; the second count keeps it alive while
    // the handler runs, which may drop the Connection.
    unsafe {
        let slot: *mut ngx_connection_t = (*event).data.cast();
        let shared: *const Shared = (*slot).data.cast();
        Rc::increment_strong_count(shared);
        (slot, Rc::from_raw(shared))
    }
}

fn accepted(status: ffi::ngx_int_t) -> Result<(), OpenError> {
    if status == Status::NGX_OK.0 { Ok(()) } else { Err(OpenError::Refused) }
}

fn why_no_slot(fd: &OwnedFd) -> OpenError {
    // SAFETY: nginx's current cycle, read on its own thread and not kept.
    let (has_table, size) = unsafe { (!(*ffi::ngx_cycle).files.is_null(), (*ffi::ngx_cycle).files_n) };
    if has_table && fd.as_raw_fd() as usize >= size {
        OpenError::BeyondFileTable(fd.as_raw_fd())
    } else {
        OpenError::NoFreeSlot
    }
}

fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: fcntl on an open descriptor with integer arguments touches no memory of ours.
    let changed = unsafe {
        let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
        flags != -1 && libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) != -1
    };
    if changed { Ok(()) } else { Err(io::Error::last_os_error()) }
}

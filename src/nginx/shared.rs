//! Memory that nginx's processes share: areas of words, made while nginx loads and handed on to the next configuration where
//! name and size stay the same.
//!
//! nginx keeps the area's slab header; ours is one allocation behind it, which the header's `data` points to. What the words
//! mean is the caller's. The process that loads a configuration unmaps the areas of the one before that it does not take over.
//! A worker never loads one; a process without a master does, while requests of before still run, so that it maps the areas
//! that it uses once more for itself ([`Area::keep`]).

use crate::nginx::border::guarded;
use crate::nginx::conf::{Conf, NoMemory, bytes};
use crate::nginx::log::{Level, Log};
use crate::nginx::module;
use ngx::core::Status;
use ngx::ffi::{
    self, ngx_int_t, ngx_shm_zone_t, ngx_slab_page_t, ngx_slab_pool_t, ngx_slab_stat_t, ngx_str_t,
};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

/// An area. It has no words until nginx has made it, at the end of loading.
pub struct Area {
    start: Cell<NonNull<AtomicU64>>,
    len: Cell<usize>,
    /// Words that nginx is asked for.
    wanted: usize,
    /// nginx's mapping.
    whole: Cell<Mapping>,
    /// This process's own mapping of it.
    own: Cell<Option<Mapping>>,
}

/// Mapped memory: where and how many bytes.
#[derive(Clone, Copy)]
struct Mapping {
    start: *mut c_void,
    size: usize,
}

/// What takes over an area once nginx has made it or handed it on.
pub trait Takes {
    /// `false`: the area is not one of this configuration's, and nginx must not start.
    fn take(&self, is_fresh: bool) -> bool;
}

/// An area and its taker, as nginx keeps them for the cycle.
struct Pending {
    area: Rc<Area>,
    taker: Rc<dyn Takes>,
}

impl Area {
    /// An area to be; `words` of memory once nginx has made it.
    pub fn new(words: usize) -> Rc<Area> {
        let whole = Mapping { start: std::ptr::null_mut(), size: 0 };
        Rc::new(Area {
            start: Cell::new(NonNull::dangling()),
            len: Cell::new(0),
            wanted: words,
            whole: Cell::new(whole),
            own: Cell::new(None),
        })
    }

    /// The words; none before nginx has made the area.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: `len` words at `start` are shared memory, zeroed when it was made and used through atomics alone. It stays
        // mapped as long as the process serves the cycle: in a worker nothing unmaps it, and a process without a master
        // has called `keep` when the cycle came into effect.
        unsafe { std::slice::from_raw_parts(self.start.get().as_ptr(), self.len.get()) }
    }

    /// Calls `look` with the words under the area's lock; with none before nginx has made the area. `look` must be short, for
    /// other workers wait meanwhile. If the process is killed in it, nginx's master gives the lock back.
    pub fn locked<R>(&self, look: impl FnOnce(&[AtomicU64]) -> R) -> R {
        // A process that has mapped the area for itself is the only one.
        let is_shared = self.own.get().is_none() && self.len.get() > 0;
        let _lock = is_shared.then(|| Lock::new(self.whole.get().start.cast()));
        look(self.words())
    }

    /// Maps the area once more, for a process that will load the next configuration itself. If the system refuses, the area has
    /// no words from now on.
    pub fn keep(&self) {
        let Mapping { start, size } = self.whole.get();
        if self.own.get().is_some() || self.len.get() == 0 {
            return;
        }
        // SAFETY: an old size of 0 keeps nginx's mapping, which is shared and valid, and maps its memory at another address.
        let own = unsafe { libc::mremap(start, 0, size, libc::MREMAP_MAYMOVE) };
        if own == libc::MAP_FAILED {
            self.len.set(0);
            return;
        }
        self.own.set(Some(Mapping { start: own, size }));
        // SAFETY: the words lie in nginx's mapping, and at the same distance from the start in the new one.
        let same = unsafe { own.byte_offset(self.start.get().as_ptr().byte_offset_from(start)) };
        self.start.set(NonNull::new(same.cast()).unwrap_or(self.start.get()));
    }
}

/// nginx's mutex of an area, held.
struct Lock(*mut ngx_slab_pool_t);

impl Lock {
    fn new(pool: *mut ngx_slab_pool_t) -> Lock {
        // SAFETY: nginx's mapping of the area, which begins with the slab header and its mutex, is there (`locked`).
        unsafe { ffi::ngx_shmtx_lock(&raw mut (*pool).mutex) };
        Lock(pool)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: as in `new`; this process holds the mutex.
        unsafe { ffi::ngx_shmtx_unlock(&raw mut (*self.0).mutex) };
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        if let Some(Mapping { start, size }) = self.own.take() {
            // SAFETY: `keep` has mapped it, and no slice of `words` outlives the area.
            unsafe { libc::munmap(start, size) };
        }
    }
}

/// Bytes to ask nginx for, so that `words` fit behind its slab header, with room to align the pages of any size.
fn area_size(words: usize) -> usize {
    // SAFETY: a plain word that is set before any module runs.
    let page = unsafe { ffi::ngx_pagesize };
    // One entry and one statistic for each size of small allocations: from 8 bytes to half a page.
    let sizes = usize::BITS as usize;
    let header =
        size_of::<ngx_slab_pool_t>() + sizes * (size_of::<ngx_slab_page_t>() + size_of::<ngx_slab_stat_t>());
    let pages = (words * size_of::<AtomicU64>()).div_ceil(page) + 2;
    (header + pages * (page + size_of::<ngx_slab_page_t>())).next_multiple_of(page)
}

impl Conf {
    /// Has nginx make `area` under `name`, or take it over from the cycle before. `taker` learns of it.
    ///
    /// # Errors
    /// [`NoMemory`]; nginx has logged why.
    pub fn share(&self, name: &str, area: &Rc<Area>, taker: Rc<dyn Takes>) -> Result<(), NoMemory> {
        let size = area_size(area.wanted);
        let pending = self.place_value(Pending { area: Rc::clone(area), taker })?;
        // SAFETY: the loader is live; its pool keeps the name as long as the zone. nginx gives a zone that is live as long as
        // the cycle, as `pending` is, and calls `init` with it before the cycle is in effect.
        unsafe {
            let place = NonNull::new(ffi::ngx_pnalloc((*self.as_ptr()).pool, name.len()).cast::<u8>());
            let place = place.ok_or(NoMemory)?;
            place.copy_from_nonoverlapping(NonNull::from(name.as_bytes()).cast(), name.len());
            let mut name = ngx_str_t { len: name.len(), data: place.as_ptr() };
            let tag = module::table().cast_mut().cast();
            let zone =
                ffi::ngx_shared_memory_add(self.as_ptr(), &mut name, size, tag).as_mut().ok_or(NoMemory)?;
            zone.data = pending.as_ptr().cast();
            zone.init = Some(init);
        }
        Ok(())
    }
}

/// nginx has mapped a zone: a fresh one, or the one of the cycle before.
unsafe extern "C" fn init(zone: *mut ngx_shm_zone_t, _before: *mut c_void) -> ngx_int_t {
    guarded("a shared area", Status::NGX_ERROR, || {
        // SAFETY: nginx passes the zone that `share` has set up, whose `data` is the cycle's `Pending`. Its memory begins with
        // the slab header, which nginx has initialized; nothing else uses either during the call.
        let (zone, pending) = unsafe { (&*zone, &*(*zone).data.cast::<Pending>()) };
        // SAFETY: as above.
        let Some((start, is_fresh)) = (unsafe { words(zone, pending.area.wanted) }) else {
            return Status::NGX_ERROR;
        };
        if is_fresh {
            note_size(zone);
        }
        pending.area.start.set(start);
        pending.area.len.set(pending.area.wanted);
        pending.area.whole.set(Mapping { start: zone.shm.addr.cast(), size: zone.shm.size });
        if pending.taker.take(is_fresh) { Status::NGX_OK } else { Status::NGX_ERROR }
    })
    .0
}

/// Tells what an area takes, in the log of the configuration that is coming into effect.
fn note_size(zone: &ngx_shm_zone_t) {
    // SAFETY: nginx has set the zone's log to the new cycle's just before, and it lives as long as the cycle.
    let log = unsafe { Log::from_ptr(zone.shm.log) }.unwrap_or_else(Log::of_cycle);
    let name = String::from_utf8_lossy(bytes(&zone.shm.name));
    let kib = zone.shm.size / 1024;
    log.write(Level::Info, format_args!("ratelimitly: {kib} KiB of shared memory for \"{name}\""));
}

/// The zone's one allocation, and whether it was made just now.
///
/// # Safety
/// The zone's memory must be mapped and begin with an initialized slab header, which nothing else uses meanwhile.
unsafe fn words(zone: &ngx_shm_zone_t, len: usize) -> Option<(NonNull<AtomicU64>, bool)> {
    // SAFETY: the caller's promise. The allocation is page-aligned memory of `len` zeroed words, or that of an earlier cycle
    // under the same name and size.
    unsafe {
        let pool = zone.shm.addr.cast::<ngx_slab_pool_t>();
        if let Some(kept) = NonNull::new((*pool).data.cast()) {
            return Some((kept, false));
        }
        let made = NonNull::new(ffi::ngx_slab_calloc(pool, len * size_of::<AtomicU64>()));
        let Some(made) = made else {
            let name = String::from_utf8_lossy(bytes(&zone.shm.name));
            Log::of_cycle().write(
                Level::Emerg,
                format_args!(
                    "ratelimitly: the shared area \"{name}\" of {} bytes is too small",
                    zone.shm.size
                ),
            );
            return None;
        };
        (*pool).data = made.as_ptr();
        Some((made.cast(), true))
    }
}

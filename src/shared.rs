//! What the workers share: this cycle's counters in shared memory, and what a worker says of itself there.
//!
//! The one room that knows both nginx's shared memory and the layout of `ratelimitly-shared`. Made at the end of loading; called
//! by the handlers, the context and the driver to count, and by the pages to read. If no rule, report or page is in effect,
//! there is no area, and counting does nothing. `members` keeps the servers that were found, for workers that start.

mod members;

pub use members::SharedMembers;

use crate::nginx::clock;
use crate::nginx::conf::{Conf, NoMemory};
use crate::nginx::process;
use crate::nginx::shared::{Area, Takes};
use ratelimitly_core::client::{Client, RECEIVED_COUNTS, SENT_COUNTS};
use ratelimitly_core::time::{Millis, WallMillis};
use ratelimitly_shared::{Build, Counter, Flag, Gauge, Layout, Process, SKIP, page};
pub use ratelimitly_shared::{CAUSES, Definitions, GuardCount, OUTCOMES, Set, Workers, ZoneCount};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Fewest sets of counters.
const SLOTS_MIN: usize = 16;

/// The counters of one configuration cycle.
pub struct Shared {
    layout: Layout,
    area: Rc<Area>,
    members: SharedMembers,
    /// Where the set of this worker begins and ends, in words.
    set: Cell<(usize, usize)>,
    /// This process's entry among those of all processes.
    entry: Cell<Option<usize>>,
    /// The word of its admissions in flight.
    in_flight: Cell<usize>,
    /// When the cycle was loaded: its number, and the age of its key.
    loaded: (Millis, WallMillis),
    unit_ms: u32,
    /// The core's counts as far as they are counted here.
    sent: [Cell<u64>; SENT_COUNTS],
    received: [Cell<u64>; RECEIVED_COUNTS],
}

impl Shared {
    /// No counters.
    pub fn none() -> Rc<Shared> {
        Shared::new(Definitions::default(), 1, 0, SharedMembers::none())
    }

    fn new(definitions: Definitions, slots: usize, unit_ms: u32, members: SharedMembers) -> Rc<Shared> {
        let layout = Layout::new(definitions, slots);
        let area = Area::new(layout.words());
        Rc::new(Shared {
            set: Cell::new(layout.place_of(0)),
            layout,
            area,
            members,
            entry: Cell::new(None),
            in_flight: Cell::new(usize::MAX),
            loaded: (clock::monotonic(), clock::wall()),
            unit_ms,
            sent: Default::default(),
            received: Default::default(),
        })
    }

    /// Asks nginx for the counters of these definitions, or for those that the cycle before had of them.
    ///
    /// # Errors
    /// [`NoMemory`]; nginx has logged why.
    pub fn of_conf(
        cf: &Conf,
        definitions: Definitions,
        unit_ms: u32,
        members: SharedMembers,
    ) -> Result<Rc<Shared>, NoMemory> {
        let slots = process::processors().max(cf.workers().unwrap_or(0)).max(SLOTS_MIN);
        let shared = Shared::new(definitions, slots, unit_ms, members);
        let name = format!("ratelimitly_counters_{:016x}", shared.layout.digest());
        cf.share(&name, &shared.area, Rc::clone(&shared) as Rc<dyn Takes>)?;
        Ok(shared)
    }

    /// This process serves the cycle from now on; `loads`: it will load the next one, too.
    pub fn begin(&self, loads: bool) {
        if loads {
            self.area.keep();
            self.members.keep();
        }
        let words = self.area.words();
        if words.is_empty() {
            return;
        }
        self.set.set(self.layout.place_of(process::worker()));
        let processes = self.layout.processes(words);
        let entry = processes.take(process::id(), self.loaded.0.0, process::lives);
        let entry = entry.and_then(|entry| entry.position(processes));
        self.in_flight.set(entry.map_or(usize::MAX, |entry| self.layout.in_flight_of(entry)));
        self.entry.set(entry);
        self.layout.set(words, Gauge::KeyLoaded, self.loaded.1.0);
        self.layout.set(words, Gauge::Unit, self.unit_ms.into());
    }

    /// This process serves the cycle no longer.
    pub fn leave(&self) {
        self.in_entry(|entry| entry.leave());
        self.entry.set(None);
        self.in_flight.set(usize::MAX);
    }

    /// The worker's set, to count in.
    #[inline]
    pub fn set(&self) -> Set<'_> {
        let (from, to) = self.set.get();
        self.layout.set_in(self.area.words().get(from..to).unwrap_or_default())
    }

    /// Notes the latency that a server gave for the guard of this number.
    #[inline]
    pub fn guard_latency(&self, guard: usize, ms: u32) {
        let words = self.area.words();
        if !words.is_empty() {
            self.layout.set_latency(words, guard, ms);
        }
    }

    fn in_entry(&self, act: impl FnOnce(Process<'_>)) {
        let words = self.area.words();
        if let Some(entry) = self.entry.get().filter(|_| !words.is_empty()) {
            self.layout.processes(words).at(entry).map(act);
        }
    }

    /// Says how many admissions are in flight in this worker.
    #[inline]
    pub fn in_flight(&self, count: usize) {
        if let Some(word) = self.area.words().get(self.in_flight.get()) {
            word.store(count as u64, Ordering::Relaxed);
        }
    }

    /// The request came to rules, and no rule applied to it.
    pub fn skipped(&self) {
        self.set().outcome(SKIP);
    }

    /// A new client begins with what another worker has found.
    pub fn hand_members_to(&self, core: &mut Client) {
        if let Some(count) = self.members.hand_to(core) {
            self.know_members(count);
        }
    }

    /// A look-up has found members, which the workers to come begin with.
    pub fn found_members(&self, core: &Client) {
        let Some((membership, ..)) = core.known() else { return };
        let words = self.area.words();
        if !words.is_empty() {
            let count = membership.members().len();
            self.layout.set(words, Gauge::Members, count as u64);
            self.layout.set(words, Gauge::MembersUpdated, clock::wall().0);
            self.know_members(count);
        }
        self.members.keep_of(core);
    }

    /// The unit in use, the round trip to the oldest server that answers, and each server's for the workers to come.
    pub fn distance(&self, core: &Client) {
        let words = self.area.words();
        if words.is_empty() {
            return;
        }
        let answering = core.round_trips().find(|member| !member.silent);
        let round_trip_s =
            answering.and_then(|member| member.estimate).map_or(0.0, |found| found.smoothed_s());
        self.layout.set(words, Gauge::Unit, core.unit_ms().into());
        self.layout.set(words, Gauge::RoundTrip, (round_trip_s * 1e6) as u64);
        if round_trip_s > 0.0 {
            self.members.keep_of(core);
        }
    }

    fn know_members(&self, count: usize) {
        self.in_entry(|entry| {
            entry.set(Flag::HasMembers, count > 0);
            if count > 0 {
                entry.set(Flag::Ready, true);
            }
        });
    }

    /// A discovery has ended.
    pub fn discovery(&self, has_found: bool) {
        self.set().count(if has_found { Counter::Discovered } else { Counter::DiscoveryFailed }, 1);
    }

    /// A replacement of the source port has ended.
    pub fn rebind(&self, is_replaced: bool) {
        self.set().count(if is_replaced { Counter::Rebound } else { Counter::RebindFailed }, 1);
    }

    /// The kernel has dropped datagrams.
    pub fn dropped(&self, count: u32) {
        self.set().count(Counter::Dropped, count.into());
    }

    /// The worker's breaker has opened or closed.
    pub fn breaker(&self, is_open: bool) {
        self.set().count(if is_open { Counter::BreakerOpened } else { Counter::BreakerClosed }, 1);
        self.in_entry(|entry| entry.set(Flag::BreakerOpen, is_open));
    }

    /// A new client counts from 0.
    pub fn new_client(&self) {
        self.sent.iter().chain(&self.received).for_each(|count| count.set(0));
        self.in_entry(|entry| entry.set(Flag::HasMembers, false));
    }

    /// Counts what the core has sent since the last call.
    #[inline]
    pub fn sent(&self, now: &[u64; SENT_COUNTS]) {
        self.set().count_all(Counter::SentRequests, now, &self.sent);
    }

    /// Counts what the core has received since the last call.
    #[inline]
    pub fn received(&self, now: &[u64; RECEIVED_COUNTS]) {
        self.set().count_all(Counter::Valid, now, &self.received);
    }

    /// What the live workers say of themselves.
    pub fn workers(&self) -> Workers {
        let words = self.area.words();
        if words.is_empty() {
            Workers::default()
        } else {
            self.layout.processes(words).workers(process::lives)
        }
    }

    /// The page for Prometheus; empty where there are no counters.
    pub fn page(&self) -> String {
        let words = self.area.words();
        if words.is_empty() {
            return String::new();
        }
        let build = Build { version: env!("CARGO_PKG_VERSION"), nginx: process::nginx_version() };
        page(&self.layout, words, process::lives, build)
    }
}

impl Takes for Shared {
    fn take(&self, is_fresh: bool) -> bool {
        let words = self.area.words();
        if is_fresh {
            self.layout.mark(words, self.loaded.1.0);
        }
        self.layout.fits(words)
    }
}

/// Without a master the process lives on when a cycle goes.
impl Drop for Shared {
    fn drop(&mut self) {
        self.leave();
    }
}

//! Where everything lies in the counters' area.
//!
//! The area is an array of words: a head (magic, version, gauges of the whole), an entry for each process, the last latency of
//! each guard, and then the slots, each on cache lines of its own, so that two workers that count do not slow each other.

use crate::counters::{FIXED, OF_GUARD, OF_ZONE, Set};
use crate::digest::Digest;
use crate::processes::{self, Processes};
use std::sync::atomic::{AtomicU64, Ordering};

/// "ratelimi", as an area of this module begins.
const MAGIC: u64 = u64::from_le_bytes(*b"ratelimi");
/// Of the layout; it is part of the area's name too.
const VERSION: u64 = 1;

/// Words to a pair of cache lines, which processors fetch together.
pub(crate) const LINES: usize = 16;
/// Process entries for each slot: a worker, and those of before that still drain.
const PROCESSES_PER_SLOT: usize = 4;

/// Values of the whole, in the head of the area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Gauge {
    /// When the area was made, milliseconds of the wall clock.
    Started = 2,
    /// When the key in effect was read, milliseconds of the wall clock.
    KeyLoaded,
    /// Members found last.
    Members,
    /// When they were found, milliseconds of the wall clock.
    MembersUpdated,
    /// The policy's unit, milliseconds.
    Unit,
    /// Smoothed round trip of the oldest server that answers, microseconds; 0: not known.
    RoundTrip,
}

/// The zones and guards that are counted, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definitions {
    /// The zones' names.
    pub zones: Vec<Box<[u8]>>,
    /// The guards' names.
    pub guards: Vec<Box<[u8]>>,
}

/// The layout for some definitions and slots.
#[derive(Clone, Debug)]
pub struct Layout {
    definitions: Definitions,
    slots: usize,
    latencies: usize,
    first: usize,
    stride: usize,
}

impl Layout {
    /// `slots`: sets of counters, at least 1.
    pub fn new(definitions: Definitions, slots: usize) -> Layout {
        let slots = slots.max(1);
        let latencies = LINES + processes::WORDS * PROCESSES_PER_SLOT * slots;
        let first = (latencies + definitions.guards.len()).next_multiple_of(LINES);
        let own = FIXED + definitions.zones.len() * OF_ZONE + definitions.guards.len() * OF_GUARD;
        Layout { definitions, slots, latencies, first, stride: own.next_multiple_of(LINES) }
    }

    /// Words of the area.
    pub fn words(&self) -> usize {
        self.first + self.slots * self.stride
    }

    /// The end of the area's name, different for each layout.
    pub fn digest(&self) -> u64 {
        let Definitions { zones, guards } = &self.definitions;
        let numbers = [VERSION, self.slots as u64, zones.len() as u64, guards.len() as u64];
        let head = numbers.into_iter().fold(Digest::default(), Digest::number);
        zones.iter().chain(guards).fold(head, |digest, name| digest.text(name)).get()
    }

    /// The names.
    pub(crate) fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Marks fresh words, which are all 0, as an area of this layout.
    pub fn mark(&self, words: &[AtomicU64], wall_ms: u64) {
        words[1].store(VERSION, Ordering::Relaxed);
        words[0].store(MAGIC, Ordering::Release);
        self.set(words, Gauge::Started, wall_ms);
    }

    /// Whether the words are an area of this layout, as far as they tell; the name tells the rest.
    pub fn fits(&self, words: &[AtomicU64]) -> bool {
        words.len() == self.words()
            && words[0].load(Ordering::Acquire) == MAGIC
            && words[1].load(Ordering::Relaxed) == VERSION
    }

    /// Where the set of the worker with this number begins and ends, in words. Others may share it.
    pub fn place_of(&self, worker: usize) -> (usize, usize) {
        let at = self.first + worker % self.slots * self.stride;
        (at, at + self.stride)
    }

    /// The counters in the words of [`place_of`](Self::place_of).
    #[inline]
    pub fn set_in<'a>(&self, words: &'a [AtomicU64]) -> Set<'a> {
        Set::new(words, self.definitions.zones.len())
    }

    /// The slots' words, one after the other.
    pub(crate) fn slots<'a>(&self, words: &'a [AtomicU64]) -> impl Iterator<Item = &'a [AtomicU64]> {
        words[self.first..].chunks_exact(self.stride)
    }

    /// Sets a gauge.
    pub fn set(&self, words: &[AtomicU64], gauge: Gauge, value: u64) {
        words[gauge as usize].store(value, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, words: &[AtomicU64], gauge: Gauge) -> u64 {
        words[gauge as usize].load(Ordering::Relaxed)
    }

    /// Notes the latency that a server gave for a guard, milliseconds.
    #[inline]
    pub fn set_latency(&self, words: &[AtomicU64], guard: usize, ms: u32) {
        if guard < self.definitions.guards.len() {
            // 0 is "none yet".
            words[self.latencies + guard].store(u64::from(ms) + 1, Ordering::Relaxed);
        }
    }

    pub(crate) fn latency(&self, words: &[AtomicU64], guard: usize) -> Option<u64> {
        words[self.latencies + guard].load(Ordering::Relaxed).checked_sub(1)
    }

    /// Where the word of a process's admissions in flight is.
    pub fn in_flight_of(&self, entry: usize) -> usize {
        LINES + entry * processes::WORDS + processes::IN_FLIGHT
    }

    /// The entries of the processes.
    pub fn processes<'a>(&self, words: &'a [AtomicU64]) -> Processes<'a> {
        Processes::new(words.get(LINES..self.latencies).unwrap_or_default())
    }
}

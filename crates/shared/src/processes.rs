//! The processes that use an area: an entry for each, with values that are true only while it lives.
//!
//! A worker takes an entry when it starts and gives it back when it leaves. The entry of one that was killed stays until
//! another worker takes it, and readers pass it over: they ask the system whether the process lives.

use std::sync::atomic::{AtomicU64, Ordering};

/// Words of an entry.
pub(crate) const WORDS: usize = 8;

const PID: usize = 0;
const CYCLE: usize = 1;
pub(crate) const IN_FLIGHT: usize = 2;
const FLAGS: usize = 3;

/// What a worker says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Flag {
    /// It has had members once.
    Ready = 1,
    /// It has members now.
    HasMembers = 2,
    /// Its breaker is open.
    BreakerOpen = 4,
}

/// The entries of all processes.
#[derive(Clone, Copy)]
pub struct Processes<'a>(&'a [AtomicU64]);

/// The live workers, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// Workers of the newest cycle.
    pub current: u64,
    /// Those of them that have had members once.
    pub ready: u64,
    /// Those of them that have none now.
    pub without_members: u64,
    /// Those of them whose breaker is open.
    pub open: u64,
    /// Admissions in flight, in the workers of older cycles too.
    pub in_flight: u64,
}

impl<'a> Processes<'a> {
    pub(crate) fn new(words: &'a [AtomicU64]) -> Processes<'a> {
        Processes(words)
    }

    /// The entry at a [`position`](Process::position).
    #[inline]
    pub fn at(self, position: usize) -> Option<Process<'a>> {
        self.0.get(position * WORDS..(position + 1) * WORDS).map(Process)
    }

    fn entries(self) -> impl Iterator<Item = Process<'a>> {
        self.0.chunks_exact(WORDS).map(Process)
    }

    /// Takes an entry for the process `pid` and the cycle that it serves, where one is free or belongs to a process that lives
    /// no more. `None`: there are more processes than entries, so nothing shows this one's values.
    pub fn take(self, pid: u64, cycle: u64, lives: impl Fn(u64) -> bool) -> Option<Process<'a>> {
        self.entries().find(|entry| {
            let owner = entry.pid();
            let is_free = owner == 0 || !lives(owner);
            let order = Ordering::Relaxed;
            is_free && entry.0[PID].compare_exchange(owner, pid, order, order).is_ok() && {
                entry.0[CYCLE].store(cycle, order);
                entry.0[IN_FLIGHT].store(0, order);
                entry.0[FLAGS].store(0, order);
                true
            }
        })
    }

    /// Adds the live ones up.
    pub fn workers(self, lives: impl Fn(u64) -> bool) -> Workers {
        let live = || self.entries().filter(|entry| entry.pid() != 0 && lives(entry.pid()));
        let newest = live().map(|entry| entry.word(CYCLE)).max();
        let mut sum = Workers::default();
        for entry in live() {
            sum.in_flight += entry.word(IN_FLIGHT);
            if Some(entry.word(CYCLE)) == newest {
                sum.current += 1;
                sum.ready += u64::from(entry.has(Flag::Ready));
                sum.without_members += u64::from(!entry.has(Flag::HasMembers));
                sum.open += u64::from(entry.has(Flag::BreakerOpen));
            }
        }
        sum
    }
}

/// The entry of one process.
#[derive(Clone, Copy)]
pub struct Process<'a>(&'a [AtomicU64]);

impl Process<'_> {
    fn word(self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    fn pid(self) -> u64 {
        self.word(PID)
    }

    fn has(self, flag: Flag) -> bool {
        self.word(FLAGS) & flag as u64 != 0
    }

    /// Which of all processes' entries it is.
    pub fn position(self, of: Processes<'_>) -> Option<usize> {
        of.0.chunks_exact(WORDS).position(|words| std::ptr::eq(words, self.0))
    }

    /// Says whether something is so.
    pub fn set(self, flag: Flag, is_so: bool) {
        if is_so {
            self.0[FLAGS].fetch_or(flag as u64, Ordering::Relaxed);
        } else {
            self.0[FLAGS].fetch_and(!(flag as u64), Ordering::Relaxed);
        }
    }

    /// Gives the entry back.
    pub fn leave(self) {
        self.0[PID].store(0, Ordering::Relaxed);
    }
}

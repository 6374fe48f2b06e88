//! Pacing: what could be logged with every request is logged the first time and then once a minute, with a count.
//!
//! Used by every room that logs failures. It reads no clock and writes no line.

use crate::time::Millis;
use std::fmt;

/// Keeps a line that could repeat without end to the first occurrence and then one a minute.
#[derive(Debug, Default)]
pub struct Paced {
    logged: Option<Millis>,
    unlogged: u64,
}

/// A pace of its own for each of a few kinds.
#[derive(Debug)]
pub struct PacedBy<K>(Vec<(K, Paced)>);

impl<K> PacedBy<K> {
    /// No kind yet.
    pub const fn new() -> PacedBy<K> {
        PacedBy(Vec::new())
    }
}

impl<K: PartialEq> PacedBy<K> {
    /// Notes an occurrence of a kind; `Some`: log it.
    pub fn occurred(&mut self, kind: K, now: Millis) -> Option<Due> {
        if let Some((_, paced)) = self.0.iter_mut().find(|(known, _)| *known == kind) {
            return paced.occurred(now);
        }
        let mut paced = Paced::new();
        let due = paced.occurred(now);
        self.0.push((kind, paced));
        due
    }
}

impl<K> Default for PacedBy<K> {
    fn default() -> PacedBy<K> {
        PacedBy::new()
    }
}

/// Says that a line is due; its `Display` tells, for the end of that line, how many went unlogged before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Occurrences since the last line that were not logged.
    pub unlogged: u64,
}

/// Shortest time between two lines of one kind, milliseconds.
const PACE_MS: u64 = 60_000;

impl Paced {
    /// For a static or a constant.
    pub const fn new() -> Paced {
        Paced { logged: None, unlogged: 0 }
    }

    /// Notes an occurrence; `Some`: log it.
    pub fn occurred(&mut self, now: Millis) -> Option<Due> {
        if self.logged.is_some_and(|logged| now.since(logged) < PACE_MS) {
            self.unlogged += 1;
            return None;
        }
        self.logged = Some(now);
        Some(Due { unlogged: std::mem::take(&mut self.unlogged) })
    }

    /// Ends a row of occurrences: the next one is a first again.
    pub fn reset(&mut self) {
        *self = Paced::new();
    }
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unlogged {
            0 => Ok(()),
            count => write!(f, " ({count} more since the last such line)"),
        }
    }
}

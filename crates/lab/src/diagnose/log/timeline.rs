//! The logs as slots of time: what arrived in each, at what paths, from how many clients, and how long it took. Filled by
//! `diagnose.rs` line by line, read by `cause.rs`.
//!
//! Memory is bounded: at most [`SLOTS`] slots, which become wider as the log goes on, and at most [`PATHS`] groups of paths.

use super::distinct::Distinct;
use super::entry::{Answered, Worked};
use super::histogram::Histogram;
use std::collections::{BTreeMap, HashMap};

const SLOTS: usize = 2048;
const PATHS: usize = 64;
/// Where paths are counted for which there is no room.
const OTHER: &str = "(other paths)";
/// A slot with fewer lines says nothing by its medians.
const ENOUGH: u64 = 20;
/// So few slots are not joined further.
const FEWEST: usize = 16;

/// The requests to one group of paths in a slot.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Requests in nginx's log.
    pub requests: u64,
    /// `$upstream_header_time`.
    pub header: Histogram,
    /// The application's own time.
    pub app: Histogram,
}

/// A stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Slot {
    /// Requests that were sent to an upstream.
    pub reached: u64,
    /// 504s.
    pub timeouts: u64,
    /// Different clients.
    pub clients: Distinct,
    /// By the path's number.
    pub costs: Vec<Cost>,
}

/// All slots.
#[derive(Debug)]
pub struct Timeline {
    /// Seconds of a slot.
    width: f64,
    slots: BTreeMap<u64, Slot>,
    paths: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Default for Timeline {
    fn default() -> Timeline {
        let paths = vec![OTHER.to_owned()];
        Timeline { width: 1.0, slots: BTreeMap::new(), paths, numbers: HashMap::new() }
    }
}

impl Timeline {
    /// Takes a line of nginx's log in.
    pub fn answered(&mut self, line: &Answered) {
        let path = self.number(&line.path);
        let slot = self.slot(line.at);
        slot.reached += u64::from(line.reached());
        slot.timeouts += u64::from(line.status == 504);
        if let Some(client) = &line.client {
            slot.clients.add(client);
        }
        let cost = slot.cost(path);
        cost.requests += 1;
        if let Some(seconds) = line.header_time {
            cost.header.add(seconds);
        }
        self.bound();
    }

    /// Takes a line of the application's log in.
    pub fn worked(&mut self, line: &Worked) {
        let path = self.number(&line.path);
        self.slot(line.at).cost(path).app.add(line.took);
        self.bound();
    }

    /// Seconds of a slot.
    pub fn width(&self) -> f64 {
        self.width
    }

    /// The slots in order, with the moments when they begin, seconds since 1970.
    pub fn slots(&self) -> impl Iterator<Item = (f64, &Slot)> {
        self.slots.iter().map(|(number, slot)| (*number as f64 * self.width, slot))
    }

    /// The name of a group of paths.
    pub fn path(&self, number: usize) -> &str {
        &self.paths[number]
    }

    /// The number of a group of paths that occurred.
    pub fn find(&self, path: &str) -> Option<usize> {
        self.numbers.get(path).copied()
    }

    /// Joins slots until most of them have enough lines for a median.
    pub fn settle(&mut self) {
        while self.slots.len() > FEWEST && self.usual_lines() < ENOUGH {
            self.widen();
        }
    }

    fn usual_lines(&self) -> u64 {
        let mut lines: Vec<u64> =
            self.slots.values().map(|slot| slot.costs.iter().map(|cost| cost.requests).sum()).collect();
        lines.sort_unstable();
        lines.get(lines.len() / 2).copied().unwrap_or(0)
    }

    fn number(&mut self, path: &str) -> usize {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        if self.paths.len() == PATHS {
            return 0;
        }
        self.paths.push(path.to_owned());
        self.numbers.insert(path.to_owned(), self.paths.len() - 1);
        self.paths.len() - 1
    }

    fn slot(&mut self, at: f64) -> &mut Slot {
        self.slots.entry((at.max(0.0) / self.width) as u64).or_default()
    }

    fn bound(&mut self) {
        while self.slots.len() > SLOTS {
            self.widen();
        }
    }

    /// Slots of twice the width.
    fn widen(&mut self) {
        self.width *= 2.0;
        let narrow = std::mem::take(&mut self.slots);
        for (number, slot) in narrow {
            self.slots.entry(number / 2).or_default().merge(&slot);
        }
    }
}

impl Slot {
    /// Adds all of another one.
    pub fn merge(&mut self, other: &Slot) {
        self.reached += other.reached;
        self.timeouts += other.timeouts;
        self.clients.merge(&other.clients);
        for (path, cost) in other.costs.iter().enumerate() {
            let mine = self.cost(path);
            mine.requests += cost.requests;
            mine.header.merge(&cost.header);
            mine.app.merge(&cost.app);
        }
    }

    fn cost(&mut self, path: usize) -> &mut Cost {
        if self.costs.len() <= path {
            self.costs.resize_with(path + 1, Cost::default);
        }
        &mut self.costs[path]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at: f64, path: &str) -> Answered {
        Answered { at, path: path.into(), status: 200, header_time: Some(0.05), ..Answered::default() }
    }

    #[test]
    fn a_log_of_any_length_has_a_bounded_number_of_slots_and_paths() {
        let mut timeline = Timeline::default();
        for second in 0..20_000 {
            timeline.answered(&line(f64::from(second), &format!("/{}", "a".repeat(second as usize % 80))));
        }
        timeline.answered(&line(3e10, "/"));
        assert!(timeline.slots.len() <= SLOTS && timeline.paths.len() == PATHS);
        assert_eq!(timeline.width(), 16.0);
        let requests = |slot: &Slot| slot.costs.iter().map(|cost| cost.requests).sum::<u64>();
        assert_eq!(timeline.slots().map(|(_, slot)| requests(slot)).sum::<u64>(), 20_001);
    }

    #[test]
    fn slots_with_few_lines_are_joined() {
        let mut timeline = Timeline::default();
        (0..1000).for_each(|second| timeline.answered(&line(f64::from(second), "/")));
        timeline.settle();
        assert_eq!(timeline.width(), 32.0);
    }
}

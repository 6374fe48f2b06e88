//! Memory and descriptors of nginx's processes, from /proc, and whether they stay where they were. Called by `main.rs`
//! before each reload and by the report; reads only.

use ratelimitly_harness::figures::median;
use ratelimitly_harness::{Nginx, process};
use std::time::Duration;

/// When things have to be where they stay.
const SETTLED: Duration = Duration::from_secs(60);
/// How many samples make a figure: single ones depend on what is under way.
const WINDOW: usize = 5;
/// What may be added to memory (KiB) by fragmentation alone, beside a twentieth.
const SLACK_KIB: u64 = 1024;
/// What may be added to descriptors: connections under way.
const SLACK_FILES: u64 = 8;

/// One look at the master and the worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    at: Duration,
    /// Master's memory, worker's memory (KiB), master's files, worker's files.
    values: [u64; 4],
}

const NAMES: [&str; 4] = ["master memory KiB", "worker memory KiB", "master files", "worker files"];

impl Sample {
    pub fn take(nginx: &Nginx, at: Duration) -> Sample {
        let (master, worker) = (nginx.master_pid(), nginx.worker_pid());
        Sample { at, values: [memory(master), memory(worker), files(master), files(worker)] }
    }
}

fn memory(pid: u32) -> u64 {
    process::resident_kib(pid).unwrap_or(0)
}

fn files(pid: u32) -> u64 {
    process::open_files(pid).map_or(0, |files| files.len() as u64)
}

/// A value after the first minute and at the end.
#[derive(Clone, Debug)]
pub(crate) struct Trend {
    pub name: &'static str,
    pub early: u64,
    pub late: u64,
    pub flat: bool,
}

/// `None`: too short to tell.
pub(crate) fn trends(samples: &[Sample]) -> Option<Vec<Trend>> {
    let settled: Vec<&Sample> = samples.iter().filter(|sample| sample.at >= SETTLED).collect();
    if settled.len() < 2 * WINDOW {
        return None;
    }
    let (early, late) = (&settled[..WINDOW], &settled[settled.len() - WINDOW..]);
    let trend = |place: usize| {
        let middle = |window: &[&Sample]| median(window.iter().map(|sample| sample.values[place] as f64));
        let [early, late] = [early, late].map(|window| middle(window).unwrap_or(0.0) as u64);
        let most = if place < 2 { early + early / 20 + SLACK_KIB } else { early + SLACK_FILES };
        Trend { name: NAMES[place], early, late, flat: early > 0 && late <= most }
    };
    Some((0..NAMES.len()).map(trend).collect())
}

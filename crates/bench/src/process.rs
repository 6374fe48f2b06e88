//! Where processes may run, and which files a measurement needs. Used by everything that measures; it changes nothing but
//! the affinity of this process.

use crate::Error;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::path::Path;

/// Keeps this process and what it starts away from the worker's processor, where there is another one.
pub fn leave_to_worker() -> Result<(), Error> {
    let mut cpus = sched_getaffinity(None)?;
    if cpus.count() > 1 {
        cpus.unset(WORKER_CPU);
        sched_setaffinity(None, &cpus)?;
    }
    Ok(())
}

/// Puts the calling thread on the worker's processor.
pub fn run_where_the_worker_runs() -> Result<(), Error> {
    let mut cpus = CpuSet::new();
    cpus.set(WORKER_CPU);
    Ok(sched_setaffinity(None, &cpus)?)
}

/// The processor that the worker has to itself.
pub const WORKER_CPU: usize = 0;

/// Whether a file is there that a condition needs.
pub fn require(path: &Path, package: &str) -> Result<(), Error> {
    if path.exists() {
        Ok(())
    } else {
        Err(format!("{} is missing: install {package} (ci/setup bench)", path.display()).into())
    }
}

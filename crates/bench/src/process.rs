//! What the kernel tells about a process, and where processes may run. Used by everything that measures; it changes
//! nothing but the affinity of this process.

use crate::Error;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for something that starts, under valgrind and on a busy machine too.
const START: Duration = Duration::from_secs(120);

/// Longest wait for something that was asked to end.
const END: Duration = Duration::from_secs(60);
/// Between two times that it is asked.
const AGAIN: Duration = Duration::from_secs(1);

/// Processor seconds of a process.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

impl Cpu {
    /// What process `pid` has used so far, from `/proc`.
    pub fn of(pid: u32) -> Result<Cpu, Error> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name in parentheses may hold anything; the fields after it are the third and on.
        let (_, fields) = stat.rsplit_once(')').ok_or("a stat file without a name")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |field: usize| -> Result<f64, Error> {
            Ok(fields.get(field - 3).ok_or("a short stat file")?.parse::<f64>()?)
        };
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        Ok(Cpu { user: ticks(14)? / per_second, system: ticks(15)? / per_second })
    }

    /// What was used since `earlier`.
    pub fn since(self, earlier: Cpu) -> Cpu {
        Cpu { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

/// Resident memory of a process, bytes.
pub fn resident(pid: u32) -> Result<u64, Error> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib = line.trim().strip_suffix(" kB").ok_or("VmRSS without its unit")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

/// The first child of a process: the worker of a master that has one.
pub fn child_of(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Sends a signal.
pub fn signal(pid: u32, signal: Signal) -> Result<(), Error> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("no such process id")?;
    Ok(kill_process(pid, signal)?)
}

/// Asks a process to end, and waits for it.
pub fn end(child: &mut Child, how: Signal) -> Result<ExitStatus, Error> {
    end_run_by(child.id(), child, how)
}

/// Asks process `pid` to end, which `child` is or runs, and waits for `child`; it is killed if it does not end. It is asked
/// again each second: nginx without a master acts on a signal that comes just before it waits for events only after the
/// next event.
pub fn end_run_by(pid: u32, child: &mut Child, how: Signal) -> Result<ExitStatus, Error> {
    signal(pid, how)?;
    let started = Instant::now();
    let mut again = AGAIN;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if started.elapsed() > END {
            child.kill()?;
            return Err(format!("a process did not end within {END:?}").into());
        }
        if started.elapsed() > again {
            again += AGAIN;
            let _ = signal(pid, how); // it may have ended, and what runs it not yet
        }
        thread::sleep(Duration::from_millis(5)); // then looked at again
    }
}

/// Waits until the look gives something.
pub fn await_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, Error> {
    let limit = Instant::now() + START;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if Instant::now() > limit {
            return Err(format!("not within {START:?}: {what}").into());
        }
        thread::sleep(Duration::from_millis(5)); // then looked at again
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn who_overlooks_the_first_signal_is_asked_again() {
        let script = "trap 'trap - TERM' TERM; echo; while :; do sleep 0.05; done";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut ready = [0];
        shell.stdout.take().expect("its output").read_exact(&mut ready).expect("a line once it listens");
        let status = end(&mut shell, Signal::TERM).expect("it ends");
        assert!(!status.success());
    }
}

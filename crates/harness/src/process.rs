//! What /proc tells about processes: who nginx's workers are, which files and UDP sockets they hold, what memory and
//! processor time they use. Called by the nginx handle, the lifecycle checks and the programs that measure; reads only.
//! A process that is gone has no children, no title and no files.

use procfs::net::UdpNetEntry;
use procfs::process::{FDTarget, Process, Stat};
use procfs::{ProcError, ProcResult};
use std::collections::HashSet;
use std::ops::Sub;
use std::time::Duration;

/// A UDP socket of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpSocket {
    /// Its local port; 0 where it is not bound.
    pub port: u16,
    /// Whether it is of the family AF_INET6.
    pub ipv6: bool,
    /// Bytes waiting in its receive queue.
    pub waiting: u64,
}

fn process(pid: u32) -> ProcResult<Process> {
    Process::new(i32::try_from(pid).map_err(|_| ProcError::NotFound(None))?)
}

fn stat(pid: u32) -> Option<Stat> {
    process(pid).and_then(|process| process.stat()).ok()
}

/// Processes whose parent is this one.
pub fn children(parent: u32) -> Vec<u32> {
    let children =
        process(parent).and_then(|process| process.task_main_thread()).and_then(|task| task.children());
    children.unwrap_or_default()
}

/// Whether the process exists and is no zombie.
pub fn is_running(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Whether the process sleeps, as nginx does only where it waits for events: its event-loop iteration is over.
pub fn is_waiting(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == 'S')
}

/// Processor time that the process has used, in user and kernel mode, in ticks (100 per second).
pub fn cpu_ticks(pid: u32) -> u64 {
    stat(pid).map_or(0, |stat| stat.utime + stat.stime)
}

/// How long the process has run on a processor so far. Unlike the clock on the wall, it does not count the time in which
/// other processes had the processor.
pub fn run_time(pid: u32) -> Duration {
    let run = process(pid).and_then(|process| process.schedstat());
    Duration::from_nanos(run.map_or(0, |run| run.sum_exec_runtime))
}

/// The process's title, which nginx sets once a process is ready: `nginx: worker process`.
pub fn title(pid: u32) -> String {
    let words = process(pid).and_then(|process| process.cmdline()).unwrap_or_default();
    words.join(" ").trim_end().to_owned()
}

/// nginx's workers that are at work: neither starting nor shutting down.
pub fn workers(master: u32) -> Vec<u32> {
    let mut workers = children(master);
    // Valgrind keeps its own command line: there a child of the master is a worker.
    let is_worker = |title: &str| title == "nginx: worker process" || title.contains("--tool=memcheck");
    workers.retain(|pid| is_worker(&title(*pid)));
    workers.sort_unstable();
    workers
}

/// What each open file descriptor of the process points at.
///
/// # Errors
/// The process is gone or belongs to another user.
pub fn open_files(pid: u32) -> ProcResult<Vec<FDTarget>> {
    // A descriptor that is closed meanwhile is left out.
    Ok(process(pid)?.fd()?.flatten().map(|file| file.target).collect())
}

/// The UDP sockets that the process holds, listening ones for HTTP/3 included.
///
/// # Errors
/// The process is gone or belongs to another user.
pub fn udp_sockets(pid: u32) -> ProcResult<Vec<UdpSocket>> {
    let inode = |file: FDTarget| if let FDTarget::Socket(inode) = file { Some(inode) } else { None };
    let own: HashSet<u64> = open_files(pid)?.into_iter().filter_map(inode).collect();
    let process = process(pid)?;
    let mut all = process.udp()?;
    // A kernel without IPv6 has no such table.
    all.extend(process.udp6().unwrap_or_default());
    Ok(all.iter().filter(|entry| own.contains(&entry.inode)).map(UdpSocket::from).collect())
}

impl From<&UdpNetEntry> for UdpSocket {
    fn from(entry: &UdpNetEntry) -> UdpSocket {
        let local = entry.local_address;
        UdpSocket { port: local.port(), ipv6: local.is_ipv6(), waiting: entry.rx_queue.into() }
    }
}

/// Resident memory of a process, KiB.
///
/// # Errors
/// The process is gone.
pub fn resident_kib(pid: u32) -> ProcResult<u64> {
    process(pid)?.status()?.vmrss.ok_or_else(|| ProcError::Other("a process without VmRSS".into()))
}

/// Processor seconds of a process.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

impl Cpu {
    /// What the process has used so far.
    ///
    /// # Errors
    /// The process is gone.
    pub fn of(pid: u32) -> ProcResult<Cpu> {
        let stat = process(pid)?.stat()?;
        let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
        Ok(Cpu { user: seconds(stat.utime), system: seconds(stat.stime) })
    }
}

/// What was used between two looks.
impl Sub for Cpu {
    type Output = Cpu;

    fn sub(self, earlier: Cpu) -> Cpu {
        Cpu { user: self.user - earlier.user, system: self.system - earlier.system }
    }
}

//! What /proc tells about nginx's processes: who the workers are, how many files they hold, which UDP sockets are
//! theirs. Called by the nginx handle and the lifecycle checks; reads only.

use std::collections::HashSet;
use std::fs;
use std::io;

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

/// Processes whose parent is this one.
pub fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// The fourth field of `stat`; the second, in parentheses, may hold anything.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether the process exists and is no zombie.
pub fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Whether the process sleeps, as nginx does only where it waits for events: what a turn of its loop had to do is done.
pub fn is_waiting(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('S'))
}

/// Processor time that the process has used, in user and kernel mode, in ticks (100 per second).
pub fn cpu_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Fields 14 and 15; the second, in parentheses, may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(11);
    fields.take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// The process's title, which nginx sets once a process is ready: `nginx: worker process`.
pub fn title(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
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

/// What each open file descriptor of the process points at, such as `socket:[4711]`.
///
/// # Errors
/// The process is gone or belongs to someone else.
pub fn open_files(pid: u32) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))?;
    let links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(links.map(|link| link.to_string_lossy().into_owned()).collect())
}

/// The UDP sockets that the process holds, listening ones for HTTP/3 included.
///
/// # Errors
/// The process is gone or belongs to someone else.
pub fn udp_sockets(pid: u32) -> io::Result<Vec<UdpSocket>> {
    let inode = |file: String| file.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    let own: HashSet<u64> = open_files(pid)?.into_iter().filter_map(inode).collect();
    let mut sockets = Vec::new();
    for (table, ipv6) in [("udp", false), ("udp6", true)] {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        let rows = text.lines().skip(1).filter_map(|row| parse_row(row, ipv6));
        sockets.extend(rows.filter(|(inode, _)| own.contains(inode)).map(|(_, socket)| socket));
    }
    Ok(sockets)
}

/// A row of /proc/net/udp: `sl local_address rem_address st tx_queue:rx_queue tr:when retrnsmt uid timeout inode …`.
fn parse_row(row: &str, ipv6: bool) -> Option<(u64, UdpSocket)> {
    let fields: Vec<&str> = row.split_whitespace().collect();
    let port = u16::from_str_radix(fields.get(1)?.rsplit_once(':')?.1, 16).ok()?;
    let waiting = u64::from_str_radix(fields.get(4)?.rsplit_once(':')?.1, 16).ok()?;
    Some((fields.get(9)?.parse().ok()?, UdpSocket { port, ipv6, waiting }))
}

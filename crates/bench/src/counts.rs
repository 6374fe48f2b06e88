//! Instructions and system calls of a request, counted by callgrind and strace in single-process mode. Both count whole
//! processes, so each figure is the difference of two runs that differ in nothing but the number of requests: starting,
//! discovery and stopping are in both.

use crate::nginx::{Mode, Nginx, Parts};
use crate::{Error, callgrind};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A counting tool makes nginx slower; clocks that run as much slower let it keep up with its deadlines.
pub const SLOWED: u32 = 8;

/// A number of connections, and how often they ask.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections.
    pub connections: usize,
    /// Requests in all that are in both runs, and in the longer one only.
    pub requests: (u64, u64),
    /// How many times slower nginx's clocks run.
    pub slowed: u32,
    /// Requests a second of an open loop; `None`: closed loops.
    pub rate: Option<f64>,
}

impl Load {
    /// Closed loops. With many in flight a worker that a tool slows down would miss its deadlines.
    pub fn closed(connections: usize, requests: u64) -> Load {
        Load {
            connections,
            requests: (requests / 4, requests),
            slowed: if connections > 1 { SLOWED } else { 1 },
            rate: None,
        }
    }
}

/// System calls by name.
pub type Calls = BTreeMap<String, f64>;

/// User instructions of one request, nginx's own included.
pub fn instructions(parts: &Parts, load: Load) -> Result<f64, Error> {
    let (both, more) = load.requests;
    let count = |requests| callgrind::total(&run(parts, Mode::Callgrind, load, requests)?);
    Ok((count(both + more)? as f64 - count(both)? as f64) / more as f64)
}

/// System calls of one request, likewise.
pub fn system_calls(parts: &Parts, load: Load) -> Result<f64, Error> {
    Ok(calls(parts, load)?.values().sum())
}

/// The same by their names.
pub fn calls(parts: &Parts, load: Load) -> Result<Calls, Error> {
    let (both, more) = load.requests;
    let count =
        |requests| -> Result<Calls, Error> { strace_calls(&run(parts, Mode::Strace, load, requests)?) };
    let (short, mut long) = (count(both)?, count(both + more)?);
    for (name, calls) in short {
        *long.entry(name).or_default() -= calls;
    }
    long.values_mut().for_each(|calls| *calls /= more as f64);
    Ok(long)
}

/// One run under callgrind, whose file stays: for `callgrind_annotate`.
pub fn profile(parts: &Parts, requests: u64, out: &Path) -> Result<(), Error> {
    Ok(fs::write(out, run(parts, Mode::Callgrind, Load::closed(1, requests), requests)?)?)
}

/// A whole run; gives what the tool wrote.
fn run(parts: &Parts, mode: Mode, load: Load, requests: u64) -> Result<String, Error> {
    let nginx = Nginx::start_slowed(parts, mode, load.slowed)?;
    let seen = nginx
        .warm_up()
        .and_then(|()| nginx.client(load.connections))
        .and_then(|mut client| match load.rate {
            Some(rate) => client.offer(rate, requests),
            None => client.ask(requests),
        })
        .and_then(|seen| seen.sound("counting"));
    if let Err(error) = seen {
        return Err(format!("{error}\n{}", nginx.complaints()).into());
    }
    nginx.end_and_read(if mode == Mode::Callgrind { "callgrind" } else { "strace" })
}

/// Instructions of a program that does something so many times, per time.
pub fn program(binary: &Path, times: u64) -> Result<f64, Error> {
    let count = |times: u64| -> Result<u64, Error> {
        let folder = tempfile::tempdir()?;
        let out = folder.path().join("callgrind");
        let run = Command::new("valgrind")
            .arg("--tool=callgrind")
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(binary)
            .arg(times.to_string())
            .output()?;
        if !run.status.success() {
            return Err(format!("{}: {}", binary.display(), String::from_utf8_lossy(&run.stderr)).into());
        }
        callgrind::total(&fs::read_to_string(&out)?)
    };
    Ok((count(2 * times)? as f64 - count(times)? as f64) / times as f64)
}

/// A line a call: `  0.12    0.000123    1    12345    17 epoll_wait`, of which the errors may be missing. After the second
/// ruler comes the total.
fn strace_calls(text: &str) -> Result<Calls, Error> {
    let mut calls = Calls::new();
    for line in text
        .lines()
        .skip_while(|line| !line.starts_with('-'))
        .skip(1)
        .take_while(|line| !line.starts_with('-'))
    {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (count, name) =
            fields.get(3).zip(fields.last()).ok_or_else(|| format!("strace wrote {line:?}"))?;
        calls.insert((*name).to_owned(), count.parse()?);
    }
    if calls.is_empty() { Err("strace wrote no calls".into()) } else { Ok(calls) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_and_without_errors() {
        let text = "% time     seconds  usecs/call     calls    errors syscall\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    \x2060.00    0.000600           3       200        17 recvfrom\n\
                    \x2040.00    0.000400           4       100           epoll_wait\n\
                    ------ ----------- ----------- --------- --------- ----------------\n\
                    100.00    0.001000           3       300        17 total\n";
        let calls = strace_calls(text).unwrap();
        assert_eq!(calls, Calls::from([("epoll_wait".to_owned(), 100.0), ("recvfrom".to_owned(), 200.0)]));
    }
}

//! `ci/bench scale`: about 6,000 requests a second each, with 10, 100, 1,000 and 10,000 of them in flight, because the
//! answers take that much longer. What a request costs must not depend on how many others wait.

use crate::conditions::{self, SINGLE_ROUND};
use crate::counts::{self, Calls, Load, SLOWED};
use crate::machine::Machine;
use crate::nginx::{Mode, Nginx, Parts};
use crate::results::{Samples, write};
use crate::surroundings::Servers;
use crate::{Error, Scale};
use ratelimitly_harness::process::{Cpu, resident_kib};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Requests in flight, and how long each answer takes, microseconds.
const SIZES: [(usize, u64); 4] = [(10, 1_600), (100, 16_000), (1_000, 160_000), (10_000, 1_600_000)];
/// About what comes of the sizes, requests a second.
const RATE: f64 = 6_000.0;
/// Calls that send and receive datagrams; nginx itself makes none of them for this location.
const DATAGRAMS: [&str; 3] = ["sendto", "sendmmsg", "recvmmsg"];
/// Requests that are counted, at the least.
const COUNTED: u64 = 2000;

/// A file of results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Where it was measured.
    pub machine: Machine,
    /// One a number in flight.
    pub sizes: Vec<Size>,
}

impl Results {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Results, Error> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// What was measured with so many in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Size {
    /// How many.
    pub in_flight: usize,
    /// Milliseconds that each answer takes.
    pub delay_ms: f64,
    /// Requests a second.
    pub rate: Samples,
    /// Worker's processor seconds per 10,000 requests.
    pub cpu: Samples,
    /// The same of a bare location that is asked as often by as many connections.
    pub bare_cpu: Samples,
    /// Resident memory that the requests in flight add, KiB; their connections included.
    pub memory_kib: Samples,
    /// User instructions that the module adds to a request.
    pub instructions: Option<f64>,
    /// System calls that it adds, by name.
    #[serde(default)]
    pub calls: Calls,
}

/// The whole run.
pub fn measure(arguments: &Scale) -> Result<(), Error> {
    let servers = Servers::start()?;
    let module = conditions::module(&servers.one, &servers.aes, SINGLE_ROUND)?;
    let duration = Duration::from_secs_f64(arguments.seconds);
    let earlier = if arguments.times_only { Results::read(&arguments.json)?.sizes } else { Vec::new() };
    let mut results = Results { machine: Machine::look(), sizes: Vec::new() };
    for (in_flight, delay_us) in SIZES {
        let mut size = Size { in_flight, delay_ms: delay_us as f64 / 1000.0, ..Size::default() };
        if let Some(counted) = earlier.iter().find(|counted| counted.in_flight == in_flight) {
            (size.instructions, size.calls) = (counted.instructions, counted.calls.clone());
        }
        let runs = if arguments.counts_only { 0 } else { arguments.runs };
        for run in 1..=runs {
            eprintln!("{in_flight} in flight, run {run} of {runs}");
            servers.answerers.delay(Duration::from_micros(delay_us));
            time(&mut size, &servers, &module, duration)?;
        }
        if !arguments.times_only {
            eprintln!("{in_flight} in flight, counting");
            servers.answerers.delay(Duration::from_micros(delay_us * u64::from(SLOWED)));
            count(&mut size, &module)?;
        }
        results.sizes.push(size);
        write(&arguments.json, &results)?;
    }
    print!("{}", table(&results));
    Ok(())
}

fn time(size: &mut Size, servers: &Servers, module: &Parts, duration: Duration) -> Result<(), Error> {
    let nginx = Nginx::start(module, Mode::Worker)?;
    nginx.warm_up()?;
    let asked = servers.answerers.each[0].seen();
    let memory = resident_kib(nginx.worker)?;
    // All at once would be a burst of them for ever: begun at the rate they go on with, they stay apart.
    let mut client = nginx.client(size.in_flight)?.paced(RATE);
    let before = Cpu::of(nginx.worker)?;
    let seen = client.ask_for(duration)?.sound("the loops")?;
    let used = Cpu::of(nginx.worker)? - before;
    if servers.answerers.each[0].seen() - asked != seen.good() {
        return Err("a request was sent more or less than once".into());
    }
    size.rate.0.push(seen.rate());
    size.cpu.0.push((used.user + used.system) * 10_000.0 / seen.good() as f64);
    size.memory_kib.0.push((resident_kib(nginx.worker)? - memory) as f64);
    // As many connections again would be too many for some limits on open files.
    drop((client, nginx));
    size.bare_cpu.0.push(bare_cpu(size.in_flight, seen.rate(), duration)?);
    Ok(())
}

/// What the same rate over as many connections costs without the module.
fn bare_cpu(connections: usize, rate: f64, duration: Duration) -> Result<f64, Error> {
    let nginx = Nginx::start(&Parts::default(), Mode::Worker)?;
    let mut client = nginx.client(connections)?;
    let before = Cpu::of(nginx.worker)?;
    let seen = client.offer(rate, (rate * duration.as_secs_f64()) as u64)?.sound("the bare location")?;
    let used = Cpu::of(nginx.worker)? - before;
    Ok((used.user + used.system) * 10_000.0 / seen.good() as f64)
}

/// Counts at an even rate. Closed loops that have once met in a turn of nginx's loop stay together, the fewer there are the
/// sooner, and share what a turn costs: that would say nothing about the number in flight.
fn count(size: &mut Size, module: &Parts) -> Result<(), Error> {
    let in_flight = size.in_flight as u64;
    let load = Load {
        connections: size.in_flight + size.in_flight / 2,
        requests: (in_flight, COUNTED.max(in_flight)),
        slowed: SLOWED,
        rate: Some(RATE / f64::from(SLOWED)),
    };
    let bare = Parts::default();
    size.instructions = Some(counts::instructions(module, load)? - counts::instructions(&bare, load)?);
    size.calls = counts::calls(module, load)?;
    for (name, calls) in counts::calls(&bare, load)? {
        *size.calls.entry(name).or_default() -= calls;
    }
    Ok(())
}

fn table(results: &Results) -> String {
    let mut out = String::from(
        "| in flight | answers after ms | requests/s | instructions added | datagram calls added | waits added | other calls \
         added | worker CPU s per 10,000 requests | the same bare | KiB added |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for size in &results.sizes {
        let instructions = size.instructions.map_or("–".into(), |count| format!("{count:.0}"));
        let of = |names: &[&str]| names.iter().filter_map(|name| size.calls.get(*name)).sum::<f64>();
        let (datagrams, waits) = (of(&DATAGRAMS), of(&["epoll_wait"]));
        let others = size.calls.values().sum::<f64>() - datagrams - waits;
        out += &format!(
            "| {} | {} | {:.0} | {} | {:.2} | {:.2} | {:.2} | {:.3} | {:.3} | {:.0} |\n",
            size.in_flight,
            size.delay_ms,
            size.rate.median(),
            instructions,
            datagrams,
            waits,
            others,
            size.cpu.median(),
            size.bare_cpu.median(),
            size.memory_kib.median(),
        );
    }
    out
}

//! The run of `ci/bench nginx`: all conditions, interleaved, and its results as a JSON file and Markdown tables. `scale` and
//! `chart` use its types too.

mod table;

use crate::conditions::{self, AUTH, BARE, Condition, LUA, ONE, THREE};
use crate::counts::Load;
use crate::machine::Machine;
use crate::surroundings::{Peers, Servers};
use crate::timing::Peak;
use crate::{Error, counts, memory, timing};
use ratelimitly_harness::figures::median;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Requests of one counted run with one connection.
const COUNTED: u64 = 1000;
/// Requests of one counted run with `MANY` connections.
const COUNTED_MANY: u64 = 8000;
/// In flight, where many are.
const MANY: usize = 1000;
/// Rates of the open loops whose latencies are compared, requests a second.
pub const RATES: [u32; 6] = [1000, 2000, 4000, 6000, 8000, 12_000];
/// Metrics that are counted; all others are timed.
const COUNTS: [&str; 3] = ["instructions", "system calls, 1 in flight", "system calls, 1000 in flight"];
/// What is compared there.
pub const COMPARED: [&str; 5] = [BARE, AUTH, LUA, ONE, THREE];
/// An open loop needs room to its peak, or the line before it only grows.
const ROOM: f64 = 0.8;

/// What was measured of one thing, once each run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Samples(pub Vec<f64>);

impl Samples {
    /// The middle one.
    pub fn median(&self) -> f64 {
        median(self.0.iter().copied()).unwrap_or(f64::NAN)
    }

    /// The least and the most.
    pub fn range(&self) -> (f64, f64) {
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        (least, self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }
}

/// One condition's results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Its short name.
    pub name: String,
    /// What it is.
    pub title: String,
    /// Everything measured, by name.
    pub metrics: BTreeMap<String, Samples>,
}

impl Row {
    fn add(&mut self, metric: impl Into<String>, value: f64) {
        self.metrics.entry(metric.into()).or_default().0.push(value);
    }

    /// The median of a metric; NaN where it was not measured.
    pub fn median(&self, metric: &str) -> f64 {
        self.metrics.get(metric).map_or(f64::NAN, Samples::median)
    }
}

/// A file of results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Where instructions and system calls were counted; they hardly depend on it.
    pub counted_on: Machine,
    /// Where everything else was measured.
    pub timed_on: Option<Machine>,
    /// Milliseconds of a bare UDP round trip, one right after the other.
    pub round_trip_ms: Samples,
    /// Microseconds of a sender's processor for one datagram.
    #[serde(default)]
    pub send_one_us: Samples,
    /// The same for one to each of three servers.
    #[serde(default)]
    pub send_three_us: Samples,
    /// One row a condition.
    pub rows: Vec<Row>,
}

impl Results {
    /// The row of a condition.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// What was counted, without what was timed.
    fn counts(mut self) -> Results {
        self.timed_on = None;
        (self.round_trip_ms, self.send_one_us, self.send_three_us) = Default::default();
        for row in &mut self.rows {
            row.metrics.retain(|metric, _| COUNTS.contains(&metric.as_str()));
        }
        self
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Results, Error> {
        let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// Writes results as JSON.
pub fn write(path: &Path, results: &impl Serialize) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, serde_json::to_string_pretty(results)? + "\n")?;
    Ok(())
}

/// The whole run.
pub fn measure(arguments: &crate::Nginx) -> Result<(), Error> {
    let (servers, peers) = (Servers::start()?, Peers::start()?);
    let mut conditions = conditions::all(&servers, &peers)?;
    if !arguments.only.is_empty() {
        conditions.retain(|condition| arguments.only.iter().any(|name| name == condition.name));
    }
    let mut results = match arguments.times_only {
        true => Results::read(&arguments.json)?.counts(),
        false => empty(&conditions),
    };
    // Written again and again, so that a long run may be cut short.
    if !arguments.times_only {
        for run in 1..=arguments.runs {
            eprintln!("counting, run {run} of {}", arguments.runs);
            for place in 0..results.rows.len() {
                count(&mut results.rows[place], &conditions)?;
                write(&arguments.json, &results)?;
            }
        }
    }
    if !arguments.counts_only {
        results.timed_on = Some(Machine::look());
        for run in 1..=arguments.runs {
            eprintln!("timing, run {run} of {}", arguments.runs);
            time(&mut results, &servers, &conditions, Duration::from_secs_f64(arguments.seconds))?;
            write(&arguments.json, &results)?;
        }
    }
    print!("{}", table::all(&results));
    Ok(())
}

/// One condition under callgrind.
pub fn profile(arguments: &crate::Profile) -> Result<(), Error> {
    let (servers, peers) = (Servers::start()?, Peers::start()?);
    let conditions = conditions::all(&servers, &peers)?;
    let condition = conditions.iter().find(|condition| condition.name == arguments.condition);
    let condition = condition.ok_or_else(|| format!("no condition \"{}\"", arguments.condition))?;
    counts::profile(&condition.parts, arguments.requests, &arguments.out)
}

fn empty(conditions: &[Condition]) -> Results {
    let row = |condition: &Condition| Row {
        name: condition.name.into(),
        title: condition.title.into(),
        metrics: BTreeMap::new(),
    };
    Results {
        counted_on: Machine::look(),
        timed_on: None,
        round_trip_ms: Samples::default(),
        send_one_us: Samples::default(),
        send_three_us: Samples::default(),
        rows: conditions.iter().map(row).collect(),
    }
}

/// The row of each condition, in the conditions' order.
fn each<'a>(
    results: &'a mut Results,
    conditions: &'a [Condition],
) -> impl Iterator<Item = (&'a mut Row, &'a Condition)> {
    results.rows.iter_mut().filter_map(|row| {
        let condition = conditions.iter().find(|condition| condition.name == row.name)?;
        Some((row, condition))
    })
}

fn count(row: &mut Row, conditions: &[Condition]) -> Result<(), Error> {
    let Some(condition) = conditions.iter().find(|condition| condition.name == row.name) else {
        return Ok(());
    };
    let parts = &condition.parts;
    row.add("instructions", counts::instructions(parts, Load::closed(1, COUNTED))?);
    row.add("system calls, 1 in flight", counts::system_calls(parts, Load::closed(1, COUNTED))?);
    row.add("system calls, 1000 in flight", counts::system_calls(parts, Load::closed(MANY, COUNTED_MANY))?);
    Ok(())
}

fn time(
    results: &mut Results,
    servers: &Servers,
    conditions: &[Condition],
    duration: Duration,
) -> Result<(), Error> {
    results.round_trip_ms.0.push(timing::round_trip(servers, None, duration)?);
    results.send_one_us.0.push(timing::send_cost(servers, 1)?);
    results.send_three_us.0.push(timing::send_cost(servers, 3)?);
    let peaks = timing::peaks(conditions.iter().map(|condition| &condition.parts), duration)?;
    for (condition, peak) in conditions.iter().zip(peaks) {
        if let Some(row) = results.rows.iter_mut().find(|row| row.name == condition.name) {
            time_one(row, servers, condition, peak, duration)?;
        }
    }
    loads(results, servers, conditions, duration.div_f64(2.0))
}

fn time_one(
    row: &mut Row,
    servers: &Servers,
    condition: &Condition,
    peak: Peak,
    duration: Duration,
) -> Result<(), Error> {
    row.add("requests a second", peak.rate);
    row.add("user seconds", peak.user);
    row.add("system seconds", peak.system);
    let latency = timing::latency(&condition.parts, peak.rate / 2.0, duration)?;
    row.add("p50 at half", latency.p50);
    row.add("p99 at half", latency.p99);
    row.add("p99.9 at half", latency.p999);
    if condition.name == ONE {
        let same = timing::latency(&conditions::bare().parts, peak.rate / 2.0, duration)?;
        row.add("bare p50 at that rate", same.p50);
        row.add("round trip at that rate", timing::round_trip(servers, Some(peak.rate / 2.0), duration)?);
    }
    if let Some(kib) = memory::per_1000(servers, condition)? {
        row.add("KiB waiting", kib);
    }
    Ok(())
}

/// Latency at the same rates for all that are compared.
fn loads(
    results: &mut Results,
    servers: &Servers,
    conditions: &[Condition],
    duration: Duration,
) -> Result<(), Error> {
    for rate in RATES {
        for (row, condition) in each(results, conditions) {
            let within = f64::from(rate) <= ROOM * row.median("requests a second");
            if COMPARED.contains(&condition.name) && within {
                let latency = timing::latency(&condition.parts, f64::from(rate), duration)?;
                row.add(format!("p50 at {rate}"), latency.p50);
                row.add(format!("p99 at {rate}"), latency.p99);
                if condition.name == ONE {
                    let alone = timing::round_trip(servers, Some(f64::from(rate)), duration)?;
                    row.add(format!("round trip at {rate}"), alone);
                }
            }
        }
    }
    Ok(())
}

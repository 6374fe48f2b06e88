//! `ci/lab unit`: what the policy's unit costs at different round trips. For each pair of unit and round trip it counts
//! datagrams and failures of real requests and reads from the module's log how long they waited. The development server's
//! fault `delay` makes the round trip. Counts hold on a busy machine too; times are no finer than a unit.

use crate::client::{read, start, verdict, warm};
use crate::error::Error;
use clap::Args;
use ratelimitly_devserver::{Command, Fault, Servers};
use ratelimitly_harness::figures::median;
use ratelimitly_harness::{Dev, Nginx};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const CONF: &str = r#"load_module {module};
events { worker_connections 1024; }
http {
    access_log off;
    {service}
    ratelimitly_debug on;
    ratelimitly_policy {policy};
    ratelimitly_zone all "bucket=all" rate=100000r/s;
    server {
        listen 127.0.0.1:{port};
        location / {
            add_header X-Verdict $ratelimitly_verdict always;
            ratelimitly zone=all;
            empty_gif;
        }
    }
}
"#;

/// The module's line for a finished admission, up to its duration in milliseconds.
const WAITED: &str = " waited=";
/// Requests that are under way at a time.
const TOGETHER: usize = 5;
/// Without a new datagram for this long, none is under way any more.
const QUIET: Duration = Duration::from_millis(300);
/// Longest wait for that.
const SETTLING: Duration = Duration::from_secs(10);

/// What the experiment is run with.
#[derive(Args, Debug)]
pub struct Options {
    /// Units of the policy `standard`, milliseconds.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 20, 40, 60, 120])]
    units: Vec<u32>,
    /// Delays of every answer, milliseconds.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 5, 10, 25, 50, 100])]
    delays: Vec<u64>,
    /// Requests for each pair.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    requests: u32,
}

/// What is measured under one nginx.
pub struct Condition {
    /// The arguments of `ratelimitly_policy`.
    pub policy: String,
    /// Servers.
    pub servers: usize,
    /// How late every answer is.
    pub delay_ms: u64,
    /// What befalls the oldest server.
    pub oldest: Option<Fault>,
    /// Requests before those that count: they teach the worker the distance.
    pub learning: u32,
    /// Requests.
    pub requests: u32,
}

/// What came of the requests of one condition.
pub struct Counted {
    requests: u32,
    servers: usize,
    datagrams: usize,
    /// Requests without a verdict.
    failures: usize,
    /// What the module logged, milliseconds.
    waited: Vec<u64>,
}

/// Runs every pair, then the same units with an oldest server that is silent, and prints both tables.
///
/// # Errors
/// A run cannot be made.
pub async fn run(options: Options) -> Result<ExitCode, Error> {
    println!("One server. Each cell: datagrams for each admission / failures / waited, median.\n");
    println!("{}", head("delay", &options.units));
    for &delay in &options.delays {
        let mut row = format!("| {delay} ms |");
        for &unit in &options.units {
            let counted = measure(&Condition::new(unit, 1, delay, None, options.requests)).await?;
            let _ = write!(row, " {} |", counted.cell());
        }
        println!("{row}");
    }
    println!("\nThree servers without a delay.\n");
    println!("{}", head("oldest server", &options.units));
    for (name, fault) in [("answers", None), ("is silent", Some(Fault::Silent))] {
        let mut row = format!("| {name} |");
        for &unit in &options.units {
            let counted = measure(&Condition::new(unit, 3, 0, fault.clone(), options.requests)).await?;
            let _ = write!(row, " {} |", counted.cell());
        }
        println!("{row}");
    }
    Ok(ExitCode::SUCCESS)
}

fn head(first: &str, units: &[u32]) -> String {
    let mut text = format!("| {first} |");
    units.iter().for_each(|unit| {
        let _ = write!(text, " `unit={unit}ms` |");
    });
    text + "\n|---|" + &"---|".repeat(units.len())
}

impl Condition {
    fn new(unit_ms: u32, servers: usize, delay_ms: u64, oldest: Option<Fault>, requests: u32) -> Condition {
        Condition {
            policy: format!("standard unit={unit_ms}ms"),
            servers,
            delay_ms,
            oldest,
            learning: 0,
            requests,
        }
    }
}

/// Asks nginx for pages under a condition.
///
/// # Errors
/// nginx cannot be run.
pub async fn measure(condition: &Condition) -> Result<Counted, Error> {
    let Condition { ref policy, servers, delay_ms, ref oldest, learning, requests } = *condition;
    let dev = Dev::with(|config| config.servers(servers)).await;
    let nginx = start(Nginx::builder(CONF).dev(&dev).set("policy", policy), "info").await?;
    warm(&nginx, "/").await?;
    settled(&dev).await;
    if delay_ms > 0 {
        dev.fault(Fault::Delay { ms: delay_ms }).await;
    }
    if let Some(fault) = oldest.clone() {
        let id = dev.servers().iter().map(|server| server.id).min().expect("at least one server");
        let command = Command::Fault { servers: Servers::from(id), fault };
        dev.apply(command).await.expect("a fault that can be set");
    }
    ask(nginx.port(), learning).await;
    settled(&dev).await;
    let (sent_before, logged_before) = (dev.requests().len(), waits(&nginx)?.len());
    let failures = ask(nginx.port(), requests).await;
    settled(&dev).await;
    let waited = waits(&nginx)?.split_off(logged_before);
    let datagrams = dev.requests().len() - sent_before;
    Ok(Counted { requests, servers, datagrams, failures, waited })
}

/// Makes the requests, a few at a time; gives how many had no verdict.
async fn ask(port: u16, requests: u32) -> usize {
    let mut left = requests as usize;
    let mut failures = 0;
    while left > 0 {
        let mut together = JoinSet::new();
        for _ in 0..left.min(TOGETHER) {
            together.spawn(async move { verdict(port, "/").await });
        }
        left -= together.len();
        failures += together.join_all().await.iter().filter(|verdict| verdict.is_none()).count();
    }
    failures
}

/// Waits until no datagram comes any more.
async fn settled(dev: &Dev) {
    let (started, mut last, mut since) = (Instant::now(), dev.requests().len(), Instant::now());
    while since.elapsed() < QUIET && started.elapsed() < SETTLING {
        sleep(Duration::from_millis(20)).await; // then looked at again
        let now = dev.requests().len();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

/// How long the admissions waited that nginx has logged, in the order of their ends.
fn waits(nginx: &Nginx) -> Result<Vec<u64>, Error> {
    let log = read(nginx, "error.log")?;
    Ok(log.lines().filter(|line| line.contains("ratelimitly: admission ")).filter_map(waited).collect())
}

fn waited(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(WAITED)?;
    rest.split_once("ms")?.0.parse().ok()
}

impl Counted {
    fn cell(&self) -> String {
        let of = if self.servers == 1 { String::new() } else { format!(" to {} servers", self.servers) };
        format!("{:.2}{of} / {:.0}% / {}", self.questions(), self.failed() * 100.0, self.median())
    }

    /// Datagrams to all servers for each request.
    pub fn questions(&self) -> f64 {
        self.datagrams as f64 / f64::from(self.requests)
    }

    /// Share of requests without a verdict.
    pub fn failed(&self) -> f64 {
        self.failures as f64 / f64::from(self.requests)
    }

    /// How long a request waited, its horizon if it failed.
    pub fn median(&self) -> String {
        median(self.waited.iter().map(|ms| *ms as f64)).map_or("-".to_owned(), |ms| format!("{ms} ms"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_read_from_the_line_of_an_admission() {
        let line =
            "2026/12/01 [info] 1#1: *2 ratelimitly: admission verdict=allow server=9 waited=21ms members=1";
        assert_eq!(waited(line), Some(21));
        assert_eq!(waited("ratelimitly: admission failure=send: no route"), None);
    }

    #[test]
    fn a_cell_tells_counts_for_each_admission() {
        let counted =
            Counted { requests: 4, servers: 1, datagrams: 8, failures: 1, waited: vec![20, 21, 21, 60] };
        assert_eq!(counted.cell(), "2.00 / 25% / 21 ms");
    }
}

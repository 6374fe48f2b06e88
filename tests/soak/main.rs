//! The soak behind `ci/soak`: minutes of mixed requests at a steady rate, clients that leave, servers and DNS that fail at
//! random, a reload every few seconds; then a ledger of what nginx logged against what the development server saw.
//! One seed decides everything that is random, and every failure prints it. Changes nothing outside its own folder.
#![forbid(unsafe_code)]

mod chaos;
mod clients;
mod counted;
mod ledger;
mod places;
mod reloads;
mod report;
mod site;
mod traffic;
mod watch;

use clap::Parser;
use clients::Clients;
use counted::Counted;
use ratelimitly_harness::{eventually, process};
use reloads::Reloads;
use report::Report;
use site::Site;
use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::LocalSet;

/// Between two reloads.
const RELOAD: Duration = Duration::from_secs(5);
/// Longest life of an old worker. nginx keeps a QUIC connection that was closed for three times its estimate of an
/// acknowledgement's time, which is seconds where the other worker got the datagrams: what is usual is judged by the median.
const DRAINED: Duration = Duration::from_secs(60);

/// Mixed requests at a steady rate against a real nginx whose servers and DNS fail at random and which is reloaded every
/// 5 seconds, then a ledger of the access log against what the development server saw. Fails, and prints the seed that
/// repeats it, if they disagree or something grew or broke.
#[derive(Clone, Copy, Debug, Parser)]
#[command(name = "ci/soak")]
struct Plan {
    /// How long the load lasts
    #[arg(value_name = "MINUTES", value_parser = length, default_value = "5")]
    length: Duration,
    /// Decides everything that is random [default: a new one]
    #[arg(long, default_value_t = fastrand::u64(..), hide_default_value = true)]
    seed: u64,
    /// Requests per second
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Keeps nginx's folder, with a debug log
    #[arg(long)]
    keep: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    let plan = Plan::parse();
    println!("soak: {} s at {} requests/s, --seed {}", plan.length.as_secs(), plan.rate, plan.seed);
    // A check of the harness fails by a panic; it must not hide the seed.
    let local = LocalSet::new();
    let problems = match local.run_until(async move { tokio::task::spawn_local(run(plan)).await }).await {
        Ok(report) => report.print(),
        Err(panic) => vec![format!("the soak ended early: {panic}")],
    };
    for problem in &problems {
        println!("FAILED: {problem}");
    }
    if problems.is_empty() {
        println!("soak: passed");
        return ExitCode::SUCCESS;
    }
    println!("soak: FAILED; again with: ci/soak {} --seed {}", plan.length.as_secs_f64() / 60.0, plan.seed);
    ExitCode::FAILURE
}

fn length(minutes: &str) -> Result<Duration, String> {
    let minutes: f64 = minutes.parse().map_err(|_| "it must be a number of minutes".to_owned())?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())
}

async fn run(plan: Plan) -> Report {
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let mut site = Site::start(random.u64(..), plan.keep).await;
    let before = Counted::of(&site.nginx).await;
    let until = Instant::now() + plan.length;

    let chaos = tokio::spawn(chaos::run(site.dev.clone(), random.fork()));
    let reloads = Arc::new(Reloads::default());
    let clients = Clients::new(site.ports(), site.certificate.clone(), reloads.clone());
    let traffic = tokio::spawn(traffic::run(clients, plan.rate, until, random.fork()));
    let (samples, mut ends) = reload_until(&mut site, &reloads, until, &mut random).await;
    chaos.abort();
    let tally = traffic.await.expect("the clients do not panic");
    chaos::clear(&site.dev).await;
    // The worker of the checks at the end has no QUIC connection to drain.
    ends.push(reload(&mut site).await);

    let counted = Counted::of(&site.nginx).await.since(&before);
    let warnings = site.nginx.log_lines(r"ratelimitly: ").len();
    let events = site.events.clone();
    // The harness's own checks: same workers, nothing held, a last reload, a clean log. They keep the folder.
    let (log, finished) = site.finish().await;
    let ledger = ledger::settle(&log, &events);
    Report { tally, ledger, counted, samples, ends, length: plan.length, finished, warnings }
}

/// Reloads every few seconds, each with the other or the same failure policy, and looks at the processes before each.
/// Also gives how long each old worker took to end.
async fn reload_until(
    site: &mut Site,
    reloads: &Reloads,
    until: Instant,
    random: &mut fastrand::Rng,
) -> (Vec<watch::Sample>, Vec<Duration>) {
    let started = Instant::now();
    let (mut samples, mut ends) = (Vec::new(), Vec::new());
    while let Some(next) = Instant::now().checked_add(RELOAD).filter(|next| *next < until) {
        tokio::time::sleep_until(next.into()).await;
        samples.push(watch::Sample::take(&site.nginx, started.elapsed()));
        site.nginx.set("fail", if random.bool() { "open" } else { "close" });
        reloads.turn();
        ends.push(reload(site).await);
        reloads.turn();
    }
    tokio::time::sleep_until(until.into()).await;
    (samples, ends)
}

/// Gives how long the old worker took to end.
async fn reload(site: &mut Site) -> Duration {
    let begun = Instant::now();
    let old = site.nginx.start_reload().await;
    let gone = || old.iter().all(|pid| !process::is_running(*pid));
    eventually(DRAINED, format!("the old workers {old:?} end"), gone).await;
    begun.elapsed()
}

/// What a panic said.
pub(crate) fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Runs a check of the harness and gives its panic's text.
pub(crate) async fn checked(check: impl Future<Output = ()> + 'static) -> Result<(), String> {
    tokio::task::spawn_local(check)
        .await
        .map_err(|error| error.try_into_panic().map(said).unwrap_or_default())
}

//! `ci/lab reports`: what spoils a guard, and what `if=` and `time=` of `ratelimitly_report` make of it. An application
//! loses slots under a load that it could take before; something beside it reports fast samples, or its clients read
//! slowly. Runs the three forms of the report side by side, so that the machine's other load meets all of them.

mod figures;
mod site;

use crate::client;
use crate::error::{Error, io};
use crate::overload::upstream::Upstream;
use clap::Args;
use figures::Figures;
use ratelimitly_devserver::Config;
use ratelimitly_harness::Dev;
use ratelimitly_harness::load::{Client, Due};
use site::{Spoiler, Terms};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Moments of a run, seconds since the load began.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// The load ends.
    end: f64,
    /// The application loses slots.
    change: f64,
    /// Figures are counted from here on.
    judge: f64,
}

const FULL: Timing = Timing { end: 20.0, change: 4.0, judge: 10.0 };
const QUICK: Timing = Timing { end: 11.0, change: 2.0, judge: 8.0 };

/// A load that falls behind by more is not quite the load that it says it is, seconds.
const LATE: f64 = 0.25;
/// Tries of a row for such a load before one is taken as it is.
const TRIES: usize = 3;

/// What the experiment is run with.
#[derive(Args, Debug)]
pub struct Options {
    /// 11 s each; fails if a direction is wrong.
    #[arg(long)]
    quick: bool,
    /// Only these.
    #[arg(long, value_enum)]
    spoiler: Vec<Spoiler>,
}

/// Runs what the options say.
///
/// # Errors
/// A run cannot be made.
pub async fn run(options: Options) -> Result<ExitCode, Error> {
    let timing = if options.quick { QUICK } else { FULL };
    let spoilers = if options.spoiler.is_empty() { &Spoiler::ALL[..] } else { &options.spoiler };
    let mut all_held = true;
    println!("{}", figures::HEAD);
    for spoiler in spoilers {
        let figures = patiently(*spoiler, timing).await?;
        println!("{}", figures::row(spoiler.title(), &figures));
        for wrong in figures::wrong(*spoiler, &figures) {
            println!("\n{}: WRONG: {wrong}\n", spoiler.title());
            all_held = false;
        }
    }
    Ok(if options.quick && !all_held { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Again where the machine was too busy for the load. The last try counts as it is.
async fn patiently(spoiler: Spoiler, timing: Timing) -> Result<[Figures; 3], Error> {
    for _ in 1..TRIES {
        let (figures, lag) = forms(spoiler, timing).await?;
        if lag < LATE {
            return Ok(figures);
        }
        eprintln!("{}: once more, the load fell {:.0} ms behind", spoiler.title(), lag * 1000.0);
    }
    Ok(forms(spoiler, timing).await?.0)
}

/// The figures of each form of the report, in the order of [`Terms::ALL`], and how far a load fell behind, seconds.
async fn forms(spoiler: Spoiler, timing: Timing) -> Result<([Figures; 3], f64), Error> {
    let mut running = JoinSet::new();
    for (place, terms) in Terms::ALL.into_iter().enumerate() {
        running.spawn(async move { measure(spoiler, terms, timing).await.map(|measured| (place, measured)) });
    }
    let (mut all, mut longest) = ([Figures::default(); 3], 0.0_f64);
    while let Some(ended) = running.join_next().await {
        let (place, (figures, lag)) = ended.map_err(|error| io("a run")(error.into()))??;
        all[place] = figures;
        longest = longest.max(lag);
    }
    Ok((all, longest))
}

async fn measure(spoiler: Spoiler, terms: Terms, timing: Timing) -> Result<(Figures, f64), Error> {
    let folder = tempfile::tempdir().map_err(io("a folder for the upstream's log"))?;
    let upstream = Upstream::start(spoiler.capacity(false), &folder.path().join("upstream.log"))?;
    let dev = Dev::with(|config| Config { record: false, ..config }).await;
    let builder = site::nginx(spoiler, terms, upstream.address()).dev(&dev);
    let nginx = client::start(builder, "crit").await?;
    client::warm(&nginx, "/light").await?;
    let ahead = Duration::from_millis(200);
    let start = Instant::now() + ahead;
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + ahead;
    let address = SocketAddr::from(([127, 0, 0, 1], nginx.port()));
    let plan = requests(spoiler, timing.end);
    let load = move || Client::connect(address, 0, b"")?.growing().fire(start.into_std(), plan);
    let load = tokio::task::spawn_blocking(load);
    sleep_until(start + Duration::from_secs_f64(timing.change)).await;
    upstream.change(spoiler.capacity(true));
    let fired = load.await.map_err(|error| io("the load")(error.into()))?;
    let fired = fired.map_err(|error| Error::Load(error.to_string()))?;
    let (log, begun) = (client::read(&nginx, "access.log")?, unix.as_secs_f64());
    Ok((Figures::of(&log, begun + timing.judge, begun + timing.end)?, fired.lag))
}

/// Requests at even intervals, as users send them.
fn requests(spoiler: Spoiler, end: f64) -> impl Iterator<Item = Due> {
    let requests = (end * spoiler.per_second()) as usize;
    (0..requests).map(move |number| {
        let path = spoiler.path(number);
        let request = format!("GET {path} HTTP/1.1\r\nHost: lab\r\n\r\n").into_bytes();
        Due { at: Duration::from_secs_f64(number as f64 / spoiler.per_second()), request: request.into() }
    })
}

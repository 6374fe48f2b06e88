//! `ci/lab overload`: the experiment in which `limit_req` stays silent while the application falls behind, with and
//! without remedies. Runs the jobs, as many at a time as asked, and writes tables and drawings.

mod condition;
mod diagnosis;
mod figures;
mod logs;
mod plot;
mod queue;
mod remedy;
mod report;
mod results;
mod run;
mod sweep;
pub mod upstream;

use crate::error::{Error, io};
use clap::Args;
use condition::Condition;
use figures::Figures;
use remedy::{Guard, Remedy};
use results::{Cell, Results};
use run::{Job, Timing, Trace};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const FULL: Timing = Timing { end: 25.0, change: 8.0, judge: 14.0 };
/// Shorter, for there are many settings.
const SWEEP: Timing = Timing { end: 18.0, change: 4.0, judge: 10.0 };
const QUICK: Timing = Timing { end: 10.0, change: 2.0, judge: 8.0 };

/// A load that falls behind by more is not quite the load that it says it is, seconds.
const LATE: f64 = 0.25;
/// Tries of a run for such a load before one is taken as it is.
const TRIES: usize = 2;

/// What the experiment is run with.
#[derive(Args, Debug)]
pub struct Options {
    /// 10 s a condition, without a remedy and with the guard only; fails if a direction is wrong.
    #[arg(long, conflicts_with_all = ["sweep", "remedy"])]
    quick: bool,
    /// Tries many settings of the guard and prints the table.
    #[arg(long, conflicts_with = "remedy")]
    sweep: bool,
    /// Only these conditions.
    #[arg(long, value_enum)]
    condition: Vec<Condition>,
    /// Only these remedies.
    #[arg(long, value_enum)]
    remedy: Vec<Remedy>,
    /// Runs of everything, of which the median is shown.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    /// Requests a second that may be under way at a time, all instances together; one instance always runs.
    #[arg(long, default_value_t = 1200)]
    capacity: u32,
    /// Folder for results.md, results.json and the drawings; without it only Markdown is printed.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Life of the guard's samples, milliseconds.
    #[arg(long, default_value_t = Guard::default().ttl)]
    ttl: u32,
    /// The guard's threshold, milliseconds.
    #[arg(long, default_value_t = Guard::default().threshold)]
    threshold: u32,
    /// Most samples that the guard's tracker keeps.
    #[arg(long, default_value_t = Guard::default().max_samples)]
    max_samples: u32,
    /// Fewest samples that count.
    #[arg(long, default_value_t = Guard::default().min_sample_threshold)]
    min_sample_threshold: u32,
}

/// How much may run at a time.
#[derive(Clone, Copy)]
pub struct Limits {
    capacity: u32,
}

/// Runs what the options say.
///
/// # Errors
/// A run cannot be made, or a file cannot be written.
pub async fn run(options: Options) -> Result<ExitCode, Error> {
    let limits = Limits { capacity: options.capacity };
    if options.sweep {
        print!("{}", sweep::sweep(options.guard(), SWEEP, limits).await?);
        return Ok(ExitCode::SUCCESS);
    }
    let traces = batch(options.jobs(), limits).await?;
    let results = Results {
        guard: options.guard(),
        cells: traces.chunks(usize::from(options.repeat)).map(Cell::of).collect(),
    };
    if options.quick {
        return Ok(directions(&results));
    }
    print!("{}", report::markdown(&results, usize::from(options.repeat)));
    if let Some(folder) = &options.out {
        std::fs::create_dir_all(folder).map_err(io(folder.display().to_string()))?;
        report::write(&results, usize::from(options.repeat), folder)?;
        results.conditions().try_for_each(|condition| plot::draw(&results, condition, folder))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn guard(&self) -> Guard {
        Guard {
            ttl: self.ttl,
            threshold: self.threshold,
            max_samples: self.max_samples,
            min_sample_threshold: self.min_sample_threshold,
        }
    }

    /// Repeats of a cell lie side by side.
    fn jobs(&self) -> Vec<Job> {
        let conditions = chosen(&self.condition, &Condition::ALL);
        let quick = [Remedy::None, Remedy::Guard];
        let remedies = chosen(&self.remedy, if self.quick { &quick } else { &Remedy::ALL });
        let timing = if self.quick { QUICK } else { FULL };
        let pairs =
            conditions.iter().flat_map(|condition| remedies.iter().map(move |remedy| (condition, remedy)));
        let repeats = |(condition, remedy): (&Condition, &Remedy)| {
            let job = Job { condition: *condition, remedy: *remedy, guard: self.guard(), timing, seed: 0 };
            (1..=u64::from(self.repeat)).map(move |seed| Job { seed, ..job })
        };
        pairs.flat_map(repeats).collect()
    }
}

fn chosen<T: Copy>(some: &[T], all: &[T]) -> Vec<T> {
    if some.is_empty() { all.to_vec() } else { some.to_vec() }
}

/// Runs jobs side by side, as far as the limits allow, and gives their traces in the order of the jobs.
///
/// # Errors
/// A run fails; the others are given up then.
pub async fn batch(jobs: Vec<Job>, limits: Limits) -> Result<Vec<Trace>, Error> {
    let room = Arc::new(Semaphore::new(limits.capacity as usize));
    let mut running = JoinSet::new();
    for (place, job) in jobs.into_iter().enumerate() {
        let busiest = job.condition.scene(true).traffic.per_second.max(200.0) as u32;
        let room = Arc::clone(&room);
        running.spawn(async move {
            let _place = room.acquire_many(busiest.min(limits.capacity)).await;
            eprintln!("running {}, {}", job.condition.title(), job.remedy.title());
            patiently(job).await.map(|trace| (place, trace))
        });
    }
    let mut traces = Vec::new();
    while let Some(ended) = running.join_next().await {
        traces.push(ended.map_err(|error| io("a run")(error.into()))??);
    }
    traces.sort_by_key(|(place, _)| *place);
    Ok(traces.into_iter().map(|(_, trace)| trace).collect())
}

/// Runs a job again where the machine was too busy for its load, for other programs come and go. The last try counts as
/// it is; the report says how far its load fell behind.
async fn patiently(job: Job) -> Result<Trace, Error> {
    for _ in 0..TRIES {
        let trace = job.run().await?;
        if trace.lag < LATE {
            return Ok(trace);
        }
        let (condition, remedy) = (job.condition.title(), job.remedy.title());
        eprintln!("{condition}, {remedy}: once more, the load fell {:.0} ms behind", trace.lag * 1000.0);
    }
    job.run().await
}

/// What has to hold on any machine: without a remedy everything collapses, with the guard it does not.
fn directions(results: &Results) -> ExitCode {
    let mut all = true;
    println!(
        "{:<22} {:<16} {:>8} {:>8} {:>8} {:>9}  expected",
        "condition", "remedy", "success", "429", "504", "p99"
    );
    for cell in &results.cells {
        let Figures { success, refused_429, failed_504, late_504, .. } = cell.median;
        let (held, expected) = match (cell.condition, cell.remedy) {
            (Condition::Baseline, _) => (success > 95.0, "above 95%"),
            (_, Remedy::None) => (success < 20.0, "below 20%"),
            _ => (success > 40.0 && late_504 == 0.0, "above 40%, no 504"),
        };
        all &= held;
        let p99 = cell.median.p99_ms.map_or("-".into(), |p99| format!("{p99:.0} ms"));
        println!(
            "{:<22} {:<16} {success:>7.1}% {refused_429:>7.1}% {failed_504:>7.1}% {p99:>9}  {expected}{}",
            cell.condition.title(),
            cell.remedy.title(),
            if held { "" } else { ": WRONG" },
        );
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

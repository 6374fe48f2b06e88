//! `ratelimitly-bench`: measures real nginx workers with and without the module, beside what people use today. Called by
//! `ci/bench`, which builds everything and names it in the environment.
//!
//! It prints Markdown tables and writes JSON. It judges nothing, except in `check`, which compares instructions with the
//! figures kept in the repository. It is no part of the module and no test uses its timings.
#![forbid(unsafe_code)]

mod answerer;
mod baseline;
mod callgrind;
mod chart;
mod conditions;
mod counts;
mod gate;
mod machine;
mod memory;
mod nginx;
mod process;
mod results;
mod samples;
mod scale;
mod surroundings;
mod timing;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Whatever keeps a measurement from being made, as a text for people.
type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Parser)]
#[command(name = "ratelimitly-bench", version, about = "Measures what the module adds to nginx")]
struct Cli {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Every condition: instructions, system calls, processor time, latency, memory
    Nginx(Nginx),
    /// 10 to 10,000 requests in flight at one rate
    Scale(Scale),
    /// Compares instructions per admission with the figures kept in the repository
    Check(Check),
    /// Names the functions that grew in the conditions that failed `check`
    Blame(Blame),
    /// One condition under callgrind: the file for `callgrind_annotate`
    Profile(Profile),
    /// criterion's results of the core's benchmarks as a table
    Core(Core),
    /// Draws the chart from the results of `scale`
    Chart(Chart),
}

#[derive(clap::Args, Debug)]
struct Nginx {
    /// Interleaved runs of each condition
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Seconds of each timed run
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Conditions by their names, separated by commas; all of them where none is named
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leaves out what only a quiet machine can tell: rates, processor time, latency, memory
    #[arg(long)]
    counts_only: bool,
    /// Keeps instructions and system calls of an earlier run's file and measures the rest
    #[arg(long, conflicts_with = "counts_only")]
    times_only: bool,
    /// Where the results go
    #[arg(long)]
    json: PathBuf,
}

#[derive(clap::Args, Debug)]
struct Scale {
    /// Runs of each size, of which the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Seconds of each timed run
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
    /// Leaves out what only a quiet machine can tell: rates, processor time, memory
    #[arg(long)]
    counts_only: bool,
    /// Keeps instructions and system calls of an earlier run's file and measures the rest
    #[arg(long, conflicts_with = "counts_only")]
    times_only: bool,
    /// Where the results go
    #[arg(long)]
    json: PathBuf,
}

#[derive(clap::Args, Debug)]
struct Check {
    /// The figures kept
    #[arg(long)]
    baseline: PathBuf,
    /// Replaces the figures kept by those of now
    #[arg(long)]
    update: bool,
    /// Where the names of the conditions go that have grown
    #[arg(long)]
    grown: PathBuf,
}

#[derive(clap::Args, Debug)]
struct Blame {
    /// The functions' figures kept
    #[arg(long)]
    functions: PathBuf,
    /// Replaces them by those of now
    #[arg(long)]
    update: bool,
    /// The names of the conditions that have grown
    #[arg(long)]
    grown: PathBuf,
}

#[derive(clap::Args, Debug)]
struct Profile {
    /// The condition's name
    #[arg(long, default_value = conditions::ONE)]
    condition: String,
    /// Requests
    #[arg(long, default_value_t = 5000)]
    requests: u64,
    /// callgrind's file
    #[arg(long)]
    out: PathBuf,
}

#[derive(clap::Args, Debug)]
struct Chart {
    /// Results of `scale`
    #[arg(long)]
    scale: PathBuf,
    /// Folder of the chart
    #[arg(long)]
    out: PathBuf,
}

#[derive(clap::Args, Debug)]
struct Core {
    /// criterion's folder
    #[arg(long)]
    criterion: PathBuf,
}

fn main() -> ExitCode {
    let done = match Cli::parse().action {
        Action::Nginx(arguments) => results::measure(&arguments),
        Action::Scale(arguments) => scale::measure(&arguments),
        Action::Check(arguments) => baseline::check(&arguments),
        Action::Blame(arguments) => baseline::blame(&arguments),
        Action::Profile(arguments) => results::profile(&arguments),
        Action::Core(arguments) => samples::print(&arguments),
        Action::Chart(arguments) => chart::draw(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ratelimitly-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

//! The lab behind `ci/lab`: experiments with a real nginx, the real module, the development server and real sockets, whose
//! figures are shown in docs/overload.md. It takes nginx and the module from `RATELIMITLY_NGINX` and
//! `RATELIMITLY_MODULE`, which `ci/lab` sets. Never used by the module.
#![forbid(unsafe_code)]

mod client;
mod distances;
mod error;
mod keepalive;
mod overload;
mod reports;
mod unit;

use clap::{Parser, Subcommand};
use ratelimitly_lab::diagnose;
use std::process::ExitCode;

/// Experiments that show how the module behaves in trouble.
#[derive(Parser, Debug)]
#[command(name = "ci/lab")]
struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand, Debug)]
enum Experiment {
    /// An application that falls behind, with and without remedies.
    Overload(overload::Options),
    /// An application that closes idle connections while nginx uses them.
    Keepalive(keepalive::Options),
    /// Datagrams, failures and waiting at different round trips and units of the policy.
    Unit(unit::Options),
    /// What an admission costs at different distances to the servers: a simulated grid, and some of it under nginx.
    Distances(distances::Options),
    /// What spoils a guard, and what `if=` and `time=` of its report make of that.
    Reports(reports::Options),
    /// From logs, why the application fell behind; from nginx -T, what is set up wrong.
    Diagnose(diagnose::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse().experiment {
        Experiment::Overload(options) => overload::run(options).await,
        Experiment::Keepalive(options) => keepalive::run(options).await,
        Experiment::Unit(options) => unit::run(options).await,
        Experiment::Distances(options) => distances::run(options).await,
        Experiment::Reports(options) => reports::run(options).await,
        Experiment::Diagnose(options) => diagnosis(&options),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("ci/lab: {error}");
        ExitCode::FAILURE
    })
}

/// Reads files and prints; nothing is run.
fn diagnosis(options: &diagnose::Options) -> Result<ExitCode, error::Error> {
    print!("{}", diagnose::run(options)?);
    Ok(ExitCode::SUCCESS)
}

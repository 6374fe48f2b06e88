//! The demo behind `ci/demo`: three servers of the development server, their DNS zone, an upstream and nginx with
//! nginx-conf/demo.conf, real requests, and a table of what came of them. Exits with 1 if a row is not what it should
//! be. With `--keep` everything runs on in a process of its own until that is told to stop.
#![forbid(unsafe_code)]

mod keep;
mod scenes;
mod table;

use clap::Parser;
use std::process::ExitCode;

/// Shows what the module decides, with real requests through a real nginx to a development server.
#[derive(Debug, Parser)]
#[command(name = "ci/demo")]
struct Arguments {
    /// Leaves everything running at the end, and says how to use it and how to stop it
    #[arg(long)]
    keep: bool,
    /// The process that stays: `--keep` starts it
    #[arg(long, hide = true)]
    foreground: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Arguments::parse() {
        Arguments { foreground: true, .. } => keep::until_stopped().await,
        Arguments { keep: true, .. } => keep::in_background(),
        _ => outcome(scenes::play().await).await,
    }
}

async fn outcome(played: scenes::Played) -> ExitCode {
    let right = played.all_right;
    played.nginx.finish().await;
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

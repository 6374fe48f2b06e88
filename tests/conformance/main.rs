//! Each row of the conformance checklist, the tests that carry its id in their names, and their results in the last
//! `ci/test`.
//!
//! Run by `ci/conformance`, in the root of the repository. It reads the checklist, the sources and the logs, and runs no
//! test itself. It fails where a row has neither a test nor a reason, where a test's id is no row, where a row's test failed,
//! and where it was not run.

mod report;
mod sources;

use clap::Parser;
use report::{Report, Results};
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints each row of docs/conformance.md with its tests and their results in the logs of the last ci/test. A row counts
/// as tested by an end-to-end test only, unless it is about a pure function or the client's core.
#[derive(Parser)]
#[command(name = "ci/conformance")]
struct Cli {
    /// Folder of the logs; without logs no test counts as left out
    #[arg(long, default_value = "target/log")]
    logs: PathBuf,
}

fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(report) => {
            print!("{report}");
            if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("ci/conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<Report, String> {
    let rows = sources::rows(&sources::read("docs/conformance.md")?)?;
    let reasons = sources::reasons(&sources::read("docs/testing.md")?);
    let mut tests = sources::tests("tests", true)?;
    tests.extend(sources::tests("crates", false)?);
    let mut results = Results::default();
    for (name, log) in sources::logs(&cli.logs)? {
        results.add(&name, &log);
    }
    Ok(Report::new(&rows, &reasons, &tests, &results))
}

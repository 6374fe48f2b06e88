//! `ci/lab distances`: what an admission costs at different distances to the servers, under each policy, with and without
//! loss, with one, three and five servers, all well or with the oldest one dead.
//!
//! The whole grid runs the core in a simulated network (`world`), from fixed seeds, so that its figures can be made again
//! exactly. A few of its cells are then measured under a real nginx with the development server's fault `delay` (`check`).
//! Writes every cell to `cells.md` and a drawing (`plot`); prints the tables of docs/performance.md (`tables`).

mod cells;
mod check;
mod plot;
mod tables;
mod world;

use crate::error::{Error, io};
use cells::Grid;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// What the experiment is run with.
#[derive(Args, Debug)]
pub struct Options {
    /// Admissions in each cell.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    admissions: u64,
    /// All chance comes from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the drawing and the table of all cells go.
    #[arg(long, default_value = "target/lab/distances")]
    out: PathBuf,
    /// Leave the cells under a real nginx out.
    #[arg(long)]
    simulation_only: bool,
}

/// Runs the grid, writes and prints what came of it.
///
/// # Errors
/// A file cannot be written, or an nginx cannot be run.
pub async fn run(options: Options) -> Result<ExitCode, Error> {
    let grid = Grid::run(options.admissions, options.seed);
    std::fs::create_dir_all(&options.out).map_err(io(options.out.display().to_string()))?;
    let cells = options.out.join("cells.md");
    std::fs::write(&cells, tables::all(&grid)).map_err(io(cells.display().to_string()))?;
    plot::draw(&grid, &options.out.join("distances.svg"))?;
    println!("{}", tables::short(&grid));
    if !options.simulation_only {
        println!("{}", check::run(&grid).await?);
    }
    Ok(ExitCode::SUCCESS)
}

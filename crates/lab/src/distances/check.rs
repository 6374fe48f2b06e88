//! A few cells of the grid under a real nginx, with the development server's fault `delay` as the distance. Called by
//! `distances.rs`. Counts hold on a busy machine too; the delay and the event loop add a millisecond or two to times.

use super::cells::{Cell, Grid, POLICIES};
use super::tables::{milliseconds, percent};
use crate::error::Error;
use crate::unit::{self, Condition};
use ratelimitly_devserver::Fault;
use std::fmt::Write as _;

/// Requests for each cell.
const REQUESTS: u32 = 100;
/// Requests before them, where the policy follows the distance: nginx starts beside a near server, which is moved away then.
const LEARNING: u32 = 200;
/// Round trips of one server, microseconds.
const ALONE_US: [u64; 4] = [1_000, 25_000, 50_000, 100_000];
/// Round trip to three servers, the oldest of which is dead, microseconds.
const THREE_US: u64 = 1_000;

/// Runs the cells and gives a table of both worlds.
///
/// # Errors
/// nginx cannot be run.
pub async fn run(grid: &Grid) -> Result<String, Error> {
    let mut text =
        String::from("Under nginx / in the simulated network: waited p50, questions, failures.\n\n");
    text +=
        "| policy | servers | round trip | waited p50 | questions | failures |\n|---|---|---|---|---|---|\n";
    for (policy, _) in POLICIES {
        for round_trip_us in ALONE_US {
            text += &row(grid, policy, (1, false), round_trip_us).await?;
        }
        text += &row(grid, policy, (3, true), THREE_US).await?;
    }
    Ok(text)
}

async fn row(grid: &Grid, policy: &str, fleet: (u64, bool), round_trip_us: u64) -> Result<String, Error> {
    let cells = grid.line(policy, fleet, 0.0);
    let cell = cells.into_iter().find(|cell| cell.setting.round_trip_us == round_trip_us);
    let Cell { p50_ms, questions, failures, .. } = cell.expect("a round trip of the grid");
    let (servers, oldest_dead) = fleet;
    let condition = Condition {
        policy: policy.to_owned(),
        servers: usize::try_from(servers).expect("a handful"),
        delay_ms: round_trip_us / 1_000,
        oldest: oldest_dead.then_some(Fault::Silent),
        learning: if policy.contains("auto") { LEARNING } else { 0 },
        requests: REQUESTS,
    };
    let counted = unit::measure(&condition).await?;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "| `{policy}` | {servers}{} | {} | {} / {p50_ms:.1} ms | {:.2} / {questions:.2} | {} / {} |",
        if oldest_dead { ", oldest dead" } else { "" },
        milliseconds(round_trip_us),
        counted.median(),
        counted.questions() / f64::from(u32::try_from(servers).expect("a handful")),
        percent(counted.failed()),
        percent(*failures),
    );
    Ok(text)
}

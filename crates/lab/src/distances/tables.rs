//! The grid as Markdown: every cell, and the shorter tables of docs/performance.md. Called by `distances.rs`.

use super::cells::{Cell, FLEETS, Grid, LOSSES, POLICIES, ROUND_TRIPS_US};
use std::fmt::Write as _;

/// Every cell, one row for each.
pub fn all(grid: &Grid) -> String {
    let mut text = format!(
        "# Distances: every cell\n\n`ci/lab distances --admissions {} --seed {}`, simulated network.\n\n",
        grid.admissions, grid.seed
    );
    text += "| policy | servers | loss | round trip | waited p50 | waited p99 | questions | datagrams | failures |\n";
    text += "|---|---|---|---:|---:|---:|---:|---:|---:|\n";
    for cell in &grid.cells {
        let Cell { policy, p50_ms, p99_ms, questions, datagrams, failures, setting } = cell;
        let (servers, loss) = (fleet((setting.servers, setting.oldest_dead)), percent(setting.loss));
        let round_trip = milliseconds(setting.round_trip_us);
        let _ = writeln!(
            text,
            "| {policy} | {servers} | {loss} | {round_trip} | {p50_ms:.1} ms | {p99_ms:.1} ms | {questions:.2} \
             | {datagrams:.2} | {} |",
            percent(*failures)
        );
    }
    text
}

/// The tables of docs/performance.md.
pub fn short(grid: &Grid) -> String {
    let mut text = String::from("One server, no loss: waited p50 / questions / failures.\n\n");
    text += &by_round_trip(grid, (1, false), 0.0);
    text += "\nThree servers, the oldest one dead, no loss: waited p50 / questions / failures.\n\n";
    text += &by_round_trip(grid, (3, true), 0.0);
    text += "\nRound trip 10 ms: waited p99 / datagrams sent and received / failures.\n\n";
    text + &by_fleet(grid, 10_000)
}

fn by_round_trip(grid: &Grid, fleet: (u64, bool), loss: f64) -> String {
    let mut text = head("round trip");
    for (row, round_trip_us) in ROUND_TRIPS_US.into_iter().enumerate() {
        let _ = write!(text, "| {} |", milliseconds(round_trip_us));
        for (policy, _) in POLICIES {
            let cell = grid.line(policy, fleet, loss)[row];
            let failures = percent(cell.failures);
            let _ = write!(text, " {:.1} ms / {:.2} / {failures} |", cell.p50_ms, cell.questions);
        }
        text.push('\n');
    }
    text
}

fn by_fleet(grid: &Grid, round_trip_us: u64) -> String {
    let mut text = head("servers, loss");
    for servers in FLEETS {
        for loss in LOSSES {
            let _ = write!(text, "| {}, {} |", fleet(servers), percent(loss));
            for (policy, _) in POLICIES {
                let cells = grid.line(policy, servers, loss);
                let cell = cells.iter().find(|cell| cell.setting.round_trip_us == round_trip_us);
                let cell = cell.expect("a round trip of the grid");
                let failures = percent(cell.failures);
                let _ = write!(text, " {:.1} ms / {:.2} / {failures} |", cell.p99_ms, cell.datagrams);
            }
            text.push('\n');
        }
    }
    text
}

fn head(first: &str) -> String {
    let mut text = format!("| {first} |");
    for (policy, _) in POLICIES {
        let _ = write!(text, " `{policy}` |");
    }
    text + "\n|---|" + &"---|".repeat(POLICIES.len()) + "\n"
}

/// A fleet in words.
fn fleet((servers, oldest_dead): (u64, bool)) -> String {
    let oldest = if oldest_dead { ", oldest dead" } else { "" };
    format!("{servers}{oldest}")
}

/// A share as a percentage, as fine as it needs to be.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 9.95 { format!("{percent:.0}%") } else { format!("{percent:.1}%") }
}

/// Microseconds as milliseconds.
pub fn milliseconds(us: u64) -> String {
    format!("{} ms", us as f64 / 1_000.0)
}

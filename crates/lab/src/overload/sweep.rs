//! The guard's settings one after the other: each of the four is varied while the others stay at the chosen point, under
//! all conditions; and the tracker's own defaults. Gives a table. Called by `overload.rs`.

use super::condition::Condition;
use super::figures::Figures;
use super::remedy::{Guard, Remedy};
use super::run::{Job, Timing};
use super::{Limits, batch};
use crate::error::Error;
use std::fmt::Write as _;

/// Lives of a sample, milliseconds.
const TTLS: [u32; 7] = [5, 10, 20, 50, 100, 200, 1000];
/// Thresholds, milliseconds.
const THRESHOLDS: [u32; 5] = [100, 200, 350, 500, 700];
const MAX_SAMPLES: [u32; 3] = [1, 4, 128];
const MIN_SAMPLES: [u32; 4] = [0, 2, 4, 8];

/// The settings that are tried; the chosen ones come first.
fn settings(chosen: Guard) -> Vec<(&'static str, Guard)> {
    let mut all = vec![("chosen", chosen)];
    all.extend(TTLS.map(|ttl| ("ttl", Guard { ttl, ..chosen })));
    all.extend(THRESHOLDS.map(|threshold| ("threshold", Guard { threshold, ..chosen })));
    all.extend(MAX_SAMPLES.map(|max_samples| ("max_samples", Guard { max_samples, ..chosen })));
    all.extend(
        MIN_SAMPLES
            .map(|min_sample_threshold| ("min_sample_threshold", Guard { min_sample_threshold, ..chosen })),
    );
    // The tracker's own defaults, with the same threshold.
    all.push(("the defaults", Guard { ttl: 30_000, max_samples: 128, min_sample_threshold: 8, ..chosen }));
    let mut known = std::collections::HashSet::new();
    all.retain(|(_, guard)| known.insert(format!("{guard:?}")));
    all
}

/// Runs every setting under every condition and gives the table.
///
/// # Errors
/// A run fails.
pub async fn sweep(chosen: Guard, timing: Timing, limits: Limits) -> Result<String, Error> {
    let settings = settings(chosen);
    let job = |guard: Guard, condition| Job { condition, remedy: Remedy::Guard, guard, timing, seed: 1 };
    let jobs = settings.iter().flat_map(|(_, guard)| Condition::ALL.map(|condition| job(*guard, condition)));
    let traces = batch(jobs.collect(), limits).await?;
    let mut text = String::from("| varied | ttl | threshold | max_samples | min_sample_threshold |");
    Condition::ALL.iter().for_each(|condition| text += &format!(" {} |", condition.title()));
    text += " greatest p99 | 504s |\n|---|---:|---:|---:|---:|";
    text += &"---:|".repeat(Condition::ALL.len() + 2);
    for ((varied, guard), traces) in settings.iter().zip(traces.chunks(Condition::ALL.len())) {
        let figures: Vec<Figures> = traces.iter().map(Figures::of).collect();
        text += &row(varied, guard, &figures);
    }
    Ok(text + "\n")
}

fn row(varied: &str, guard: &Guard, figures: &[Figures]) -> String {
    let Guard { ttl, threshold, max_samples, min_sample_threshold } = guard;
    let mut row =
        format!("\n| {varied} | {ttl} ms | {threshold} ms | {max_samples} | {min_sample_threshold} |");
    figures.iter().for_each(|figures| {
        let _ = write!(row, " {:.0}% |", figures.success);
    });
    let p99 = figures.iter().filter_map(|figures| figures.p99_ms).fold(0.0, f64::max);
    let late: f64 = figures.iter().map(|figures| figures.late_504).sum();
    row + &format!(" {p99:.0} ms | {late:.0} |")
}

//! The results as Markdown and JSON. Called by `overload.rs`; computes nothing.

use super::condition::Condition;
use super::figures::Figures;
use super::remedy::{Guard, Remedy};
use super::results::{Cell, Results};
use crate::error::{Error, io};
use std::fmt::Write as _;
use std::path::Path;

/// Writes `results.md` and `results.json` to the folder.
///
/// # Errors
/// They cannot be written.
pub fn write(results: &Results, repeats: usize, folder: &Path) -> Result<(), Error> {
    let json = serde_json::to_string_pretty(results).map_err(|error| io("results.json")(error.into()))?;
    std::fs::write(folder.join("results.json"), json + "\n").map_err(io("results.json"))?;
    std::fs::write(folder.join("results.md"), markdown(results, repeats)).map_err(io("results.md"))
}

/// The whole report.
pub fn markdown(results: &Results, repeats: usize) -> String {
    let mut text = String::from("# Overload: measured\n\n");
    let _ = writeln!(text, "Median of {repeats} run(s). {}\n", describe(&results.guard));
    let runs = || results.cells.iter().flat_map(|cell| &cell.runs);
    let behind = |lag: f64| runs().filter(|run| run.lag_ms > lag).count();
    let _ = writeln!(
        text,
        "The load fell more than 50 ms behind its schedule in {} of {} runs, more than 250 ms in {}.\n",
        behind(50.0),
        runs().count(),
        behind(250.0),
    );
    text += "## Success at a glance\n\n";
    text += &overview(results);
    for condition in results.conditions() {
        let _ = writeln!(text, "\n## {}: {}\n", condition.title(), condition.change());
        text += &table(results, condition);
    }
    text += "\n## What the logs say\n\n";
    text += &diagnoses(results);
    text += "\n## Expectations\n\n";
    text += &expectations(results);
    text
}

fn describe(guard: &Guard) -> String {
    let Guard { ttl, threshold, max_samples, min_sample_threshold } = guard;
    format!(
        "Guard: `ttl={ttl}ms threshold={threshold}ms max_samples={max_samples} min_sample_threshold={min_sample_threshold}`."
    )
}

fn overview(results: &Results) -> String {
    let mut text = String::from("| remedy |");
    let conditions: Vec<_> = results.conditions().collect();
    conditions.iter().for_each(|condition| text += &format!(" {} |", condition.title()));
    text += "\n|---|";
    text += &"---:|".repeat(conditions.len());
    for remedy in Remedy::ALL {
        let cells: Vec<_> = conditions.iter().map(|condition| results.cell(*condition, remedy)).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(text, "\n| {} |", remedy.title());
        for cell in cells {
            text += &cell.map_or(" |".into(), |cell| format!(" {:.0}% |", cell.median.success));
        }
    }
    text + "\n"
}

fn table(results: &Results, condition: Condition) -> String {
    let mut text = String::from(
        "| remedy | success | 429 | 502 | 504 | p50 | p99 | accept queue, median / most | wasted work | no verdict |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for cell in Remedy::ALL.into_iter().filter_map(|remedy| results.cell(condition, remedy)) {
        text += &row(cell);
    }
    text
}

fn row(cell: &Cell) -> String {
    let Figures { success, refused_429, failed_502, failed_504, queue_median, queue_max, wasted, .. } =
        cell.median;
    let ms = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.0} ms"));
    let undecided =
        if cell.remedy.guarded() { format!("{:.1}%", cell.median.undecided) } else { "-".to_owned() };
    format!(
        "| {} | {success:.1}% | {refused_429:.1}% | {failed_502:.1}% | {failed_504:.1}% | {} | {} | {queue_median:.0} / {queue_max:.0} | {wasted:.0}% | {undecided} |\n",
        cell.remedy.title(),
        ms(cell.median.p50_ms),
        ms(cell.median.p99_ms),
    )
}

fn diagnoses(results: &Results) -> String {
    let mut text = String::from(
        "| what was changed | remedy | wait | light request at the application | heavy share | requests per second | keys | the logs say |\n\
         |---|---|---:|---:|---:|---:|---:|---|\n",
    );
    let shown = |cell: &&Cell| matches!(cell.remedy, Remedy::None | Remedy::Guard);
    for cell in results.cells.iter().filter(shown) {
        let (usual, then) = (cell.said.usual, cell.said.then);
        let _ = writeln!(
            text,
            "| {} | {} | {:.0} → {:.0} ms | {:.0} → {:.0} ms | {:.0} → {:.0}% | {:.0} → {:.0} | {:.0} → {:.0} | {} |",
            cell.condition.title(),
            cell.remedy.title(),
            usual.wait * 1000.0,
            then.wait * 1000.0,
            usual.processing * 1000.0,
            then.processing * 1000.0,
            usual.heavy * 100.0,
            then.heavy * 100.0,
            usual.per_second,
            then.per_second,
            usual.keys,
            then.keys,
            cell.said.words,
        );
    }
    text
}

fn expectations(results: &Results) -> String {
    let mut text = String::from("| expectation | measured | |\n|---|---:|---|\n");
    for expected in results.expectations() {
        let mark = if expected.held { "held" } else { "**not held**" };
        let _ = writeln!(text, "| {} | {} | {mark} |", expected.what, expected.figure);
    }
    text
}

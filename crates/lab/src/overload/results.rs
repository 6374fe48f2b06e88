//! The results of all runs: medians over repeats, and the expectations that they are held to. Filled by `overload.rs`,
//! written by `report.rs` and `plot.rs`.

use super::condition::Condition;
use super::diagnosis::Said;
use super::figures::{self, Figures, Second, median};
use super::remedy::{Guard, Remedy};
use super::run::Trace;
use serde::Serialize;

/// Success with the guard may be so many points below that of `max_conns`.
const BEHIND: f64 = 5.0;
/// Success with `max_conns` may be so many points off the article's.
const OFF: f64 = 8.0;
/// Greatest 99th percentile of successes with the guard, milliseconds.
const P99: f64 = 900.0;

/// One remedy under one condition.
#[derive(Serialize)]
pub struct Cell {
    /// The condition.
    pub condition: Condition,
    /// The remedy.
    pub remedy: Remedy,
    /// The median of each figure over the repeats.
    pub median: Figures,
    /// The repeats.
    pub runs: Vec<Figures>,
    /// The first repeat, second for second.
    pub seconds: Vec<Second>,
    /// What the first repeat's logs say.
    #[serde(skip)]
    pub said: Said,
}

/// Everything.
#[derive(Serialize)]
pub struct Results {
    /// The guard's settings.
    pub guard: Guard,
    /// Each remedy under each condition, in the order of the tables.
    pub cells: Vec<Cell>,
}

/// Something that the experiment should show, and whether it did.
pub struct Expectation {
    /// What.
    pub what: String,
    /// Whether it held.
    pub held: bool,
    /// The figure.
    pub figure: String,
}

impl Cell {
    /// Of the repeats of one run, of which there is at least one.
    pub fn of(traces: &[Trace]) -> Cell {
        let job = traces[0].job;
        let runs: Vec<Figures> = traces.iter().map(Figures::of).collect();
        Cell {
            condition: job.condition,
            remedy: job.remedy,
            median: Figures::median(&runs.iter().collect::<Vec<_>>()),
            runs,
            seconds: figures::seconds(&traces[0]),
            said: traces[0].said.clone(),
        }
    }
}

impl Results {
    /// A cell, if it was run.
    pub fn cell(&self, condition: Condition, remedy: Remedy) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.condition == condition && cell.remedy == remedy)
    }

    /// The conditions that were run.
    pub fn conditions(&self) -> impl Iterator<Item = Condition> {
        let run = |condition: &Condition| self.cells.iter().any(|cell| cell.condition == *condition);
        Condition::ALL.into_iter().filter(run)
    }

    /// What the experiment should show, as far as it was run.
    pub fn expectations(&self) -> Vec<Expectation> {
        self.cells.iter().flat_map(|cell| self.expected(cell)).collect()
    }

    fn expected(&self, cell: &Cell) -> Vec<Expectation> {
        let title = cell.condition.title();
        let say = |what: &str, held, figure| Expectation { what: format!("{title}: {what}"), held, figure };
        let (calm, success) = (cell.condition == Condition::Baseline, cell.median.success);
        let percent = |value: f64| format!("{value:.1}%");
        match cell.remedy {
            Remedy::None if calm => vec![say("100% without a remedy", success >= 99.9, percent(success))],
            Remedy::None => vec![say("0% without a remedy", success <= 1.0, percent(success))],
            Remedy::MaxConns => {
                let article = cell.condition.article();
                let what = format!("max_conns=20 within {OFF:.0} points of {article:.0}%");
                vec![say(&what, (success - article).abs() <= OFF, percent(success))]
            }
            Remedy::Guard if calm => {
                let refused = cell.median.refused_429;
                let figure = format!("{success:.1}%, {refused:.1}% refused");
                vec![say("untouched by the guard", success >= 99.9 && refused == 0.0, figure)]
            }
            Remedy::Guard => self.guarded(cell, say),
            _ => Vec::new(),
        }
    }

    fn guarded(&self, cell: &Cell, say: impl Fn(&str, bool, String) -> Expectation) -> Vec<Expectation> {
        let late = cell.median.late_504;
        let p99 = cell.median.p99_ms.map_or("no success".into(), |p99| format!("{p99:.0} ms"));
        let quick = cell.median.p99_ms.is_some_and(|p99| p99 < P99);
        let mut expected = vec![
            say("no 504 with the guard", late == 0.0, format!("{late:.0}")),
            say(&format!("p99 of successes below {P99:.0} ms"), quick, p99),
        ];
        if let Some(best) = self.cell(cell.condition, Remedy::MaxConns) {
            // Repeat by repeat: both ran at the same time on the same machine.
            let behind =
                median(best.runs.iter().zip(&cell.runs).map(|(best, own)| best.success - own.success));
            let what = format!("guard at most {BEHIND:.0} points behind max_conns=20");
            expected.push(say(&what, behind <= BEHIND, format!("{behind:.1}")));
        }
        expected
    }
}

//! What the soak prints at its end, and which of it is a failure. Called by `main.rs`.

use crate::counted::Counted;
use crate::ledger::Ledger;
use crate::traffic::{Counts, Tally};
use crate::watch::{Sample, trends};
use ratelimitly_harness::figures::median;
use std::fmt::Write;
use std::time::Duration;

/// Longest usual life of an old worker.
const OLD_WORKER: Duration = Duration::from_secs(5);

/// Everything that a run has to tell.
pub(crate) struct Report {
    pub tally: Tally,
    pub ledger: Ledger,
    /// What the metrics say.
    pub counted: Counted,
    pub samples: Vec<Sample>,
    /// How long the old worker of each reload took to end.
    pub ends: Vec<Duration>,
    pub length: Duration,
    /// What the harness's checks at the end said.
    pub finished: Result<(), String>,
    /// Lines of the module in the error log.
    pub warnings: usize,
}

impl Report {
    /// Prints the figures and gives the problems.
    pub fn print(self) -> Vec<String> {
        let Report { tally, ledger, ends, .. } = &self;
        let statuses = tally.statuses.iter().fold(String::new(), |mut text, (status, count)| {
            let _ = write!(text, " {status}: {count}");
            text
        });
        println!("clients:  {} answered,{statuses}", tally.statuses.values().sum::<u64>());
        for (protocol, Counts { answered, left, ended }) in &tally.protocols {
            println!(
                "          {protocol:<17} {answered:>6} answered, {left:>5} left early, {ended:>4} ended by a reload"
            );
        }
        println!("          lines of the module in the error log: {}", self.warnings);
        let (usual, longest) = (usual(ends), ends.iter().max().copied().unwrap_or_default());
        println!(
            "reloads:  {}; the old worker ends after {usual:.1?}, {longest:.1?} at the longest",
            ends.len()
        );
        println!("ledger:   lines {:?}", ledger.lines);
        println!("          outcomes {:?}", ledger.outcomes);
        println!("          with a verdict {:?}", ledger.decided);
        println!(
            "          {} admissions in {} datagrams, {} without a verdict; {} reports",
            ledger.admissions, ledger.datagrams, ledger.asked_without_verdict, ledger.reports
        );
        println!("          {} lines or admissions that do not agree", ledger.problem_count);
        if ledger.late > 0 {
            println!("          {} decided once more when their deduplication time was over", ledger.late);
        }
        self.problems()
    }

    fn problems(self) -> Vec<String> {
        let mut problems = self.counted.problems(&self.ledger);
        println!("          {} counters of the metrics that do not agree", problems.len());
        problems.extend(self.ledger.problems);
        problems.extend(self.tally.lost.into_iter().map(|what| format!("no answer: {what}")));
        for (protocol, counts) in self.tally.protocols {
            if counts.answered == 0
                || counts.left == 0
                || !self.ledger.decided.contains_key(protocol.logged())
            {
                problems.push(format!(
                    "no answers, no clients that leave or no verdicts over {protocol}: {counts:?}"
                ));
            }
        }
        let usual = usual(&self.ends);
        if usual > OLD_WORKER {
            problems.push(format!("most old workers take longer than {OLD_WORKER:?}: {usual:.1?}"));
        }
        if let Err(check) = self.finished {
            problems.push(format!("a check at the end: {check}"));
        }
        match trends(&self.samples) {
            Some(trends) => {
                for trend in trends {
                    println!(
                        "flat:     {:<18} {:>7} after a minute, {:>7} at the end",
                        trend.name, trend.early, trend.late
                    );
                    if !trend.flat {
                        problems.push(format!("grows: {trend:?}"));
                    }
                }
            }
            None => println!("flat:     not looked at, {} s are too short", self.length.as_secs()),
        }
        problems
    }
}

/// The median.
fn usual(ends: &[Duration]) -> Duration {
    Duration::from_secs_f64(median(ends.iter().map(Duration::as_secs_f64)).unwrap_or(0.0))
}

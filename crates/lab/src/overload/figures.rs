//! The figures of a run: counted from what users saw, from the accept queue and from the application's log. Pure.

use super::run::Trace;
use ratelimitly_harness::figures::{self, quantile};
use serde::Serialize;

/// What a run came to between the moment of judgement and the end.
#[derive(Clone, Debug, Serialize, PartialEq)]
pub struct Figures {
    /// Answers with 200, percent of the requests that were sent.
    pub success: f64,
    /// Answers with 429, percent.
    pub refused_429: f64,
    /// Answers with 502, percent.
    pub failed_502: f64,
    /// Answers with 504, percent.
    pub failed_504: f64,
    /// No answer at all, percent.
    pub unanswered: f64,
    /// 504s that were answered after the moment of judgement, whenever they were sent.
    pub late_504: f64,
    /// Median time of a success, milliseconds; absent where there was none.
    pub p50_ms: Option<f64>,
    /// 99th percentile of a success, milliseconds.
    pub p99_ms: Option<f64>,
    /// Median length of the accept queue.
    pub queue_median: f64,
    /// Greatest length of the accept queue.
    pub queue_max: f64,
    /// Share of the application's working time that went to clients that had gone, percent.
    pub wasted: f64,
    /// Requests without a verdict where the module was asked, percent of the whole run.
    pub undecided: f64,
    /// How far the load fell behind its schedule, milliseconds.
    pub lag_ms: f64,
}

/// What users saw in one second of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Answers with 200 to requests that were sent in it.
    pub success: f64,
    /// With 429.
    pub refused_429: f64,
    /// With 502.
    pub failed_502: f64,
    /// With 504.
    pub failed_504: f64,
    /// 99th percentile of the successes, milliseconds.
    pub p99_ms: Option<f64>,
}

impl Figures {
    /// Counts them.
    pub fn of(trace: &Trace) -> Figures {
        let (from, to) = (trace.job.timing.judge, trace.job.timing.end);
        let judged: Vec<_> = trace.shots.iter().filter(|shot| shot.at >= from && shot.at < to).collect();
        let share =
            |status| percent(judged.iter().filter(|shot| shot.status == status).count(), judged.len());
        let took: Vec<f64> =
            judged.iter().filter(|shot| shot.status == 200).map(|shot| shot.took * 1000.0).collect();
        let late = trace.shots.iter().filter(|shot| shot.status == 504 && shot.at + shot.took >= from);
        let lengths = trace.queue.iter().filter(|(at, _)| *at >= from && *at < to);
        let lengths: Vec<f64> = lengths.map(|(_, length)| f64::from(*length)).collect();
        Figures {
            success: share(200),
            refused_429: share(429),
            failed_502: share(502),
            failed_504: share(504),
            unanswered: share(0),
            late_504: late.count() as f64,
            p50_ms: quantile(took.iter().copied(), 0.5),
            p99_ms: quantile(took.iter().copied(), 0.99),
            queue_median: quantile(lengths.iter().copied(), 0.5).unwrap_or(0.0),
            queue_max: quantile(lengths.iter().copied(), 1.0).unwrap_or(0.0),
            wasted: wasted(trace),
            undecided: undecided(trace),
            lag_ms: trace.lag * 1000.0,
        }
    }

    /// The median of each figure.
    pub fn median(of: &[&Figures]) -> Figures {
        let middle = |figure: fn(&Figures) -> f64| median(of.iter().map(|figures| figure(figures)));
        let maybe = |figure: fn(&Figures) -> Option<f64>| {
            let some = of.iter().filter_map(|figures| figure(figures));
            figures::median(some)
        };
        Figures {
            success: middle(|figures| figures.success),
            refused_429: middle(|figures| figures.refused_429),
            failed_502: middle(|figures| figures.failed_502),
            failed_504: middle(|figures| figures.failed_504),
            unanswered: middle(|figures| figures.unanswered),
            late_504: middle(|figures| figures.late_504),
            p50_ms: maybe(|figures| figures.p50_ms),
            p99_ms: maybe(|figures| figures.p99_ms),
            queue_median: middle(|figures| figures.queue_median),
            queue_max: middle(|figures| figures.queue_max),
            wasted: middle(|figures| figures.wasted),
            undecided: middle(|figures| figures.undecided),
            lag_ms: middle(|figures| figures.lag_ms),
        }
    }
}

/// What users saw, second for second, by the moment when a request was sent.
pub fn seconds(trace: &Trace) -> Vec<Second> {
    let one = |second: usize| {
        let inside = |at: f64| at >= second as f64 && at < (second + 1) as f64;
        let shots: Vec<_> = trace.shots.iter().filter(|shot| inside(shot.at)).collect();
        let count = |status| shots.iter().filter(|shot| shot.status == status).count() as f64;
        let successes = shots.iter().filter(|shot| shot.status == 200);
        Second {
            success: count(200),
            refused_429: count(429),
            failed_502: count(502),
            failed_504: count(504),
            p99_ms: quantile(successes.map(|shot| shot.took * 1000.0), 0.99),
        }
    };
    (0..trace.job.timing.end.ceil() as usize).map(one).collect()
}

fn wasted(trace: &Trace) -> f64 {
    let (from, to) = (trace.job.timing.judge, trace.job.timing.end);
    let work = || trace.finished.iter().filter(|work| work.at >= from && work.at < to);
    let all: f64 = work().map(|work| work.took).sum();
    let gone: f64 = work().filter(|work| work.gone).map(|work| work.took).sum();
    // A sum of nothing is -0.
    if all > 0.0 { (gone / all * 100.0).abs() } else { 0.0 }
}

fn undecided(trace: &Trace) -> f64 {
    if !trace.job.remedy.guarded() {
        return 0.0;
    }
    let without = trace.answered.iter().filter(|line| line.at >= 0.0 && !line.verdict).count();
    percent(without, trace.answered.len())
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// The middle value, 0 where there is none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    figures::median(values).unwrap_or(0.0)
}

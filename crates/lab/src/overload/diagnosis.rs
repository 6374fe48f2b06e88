//! Which change made the application fall behind, told from the two access logs alone, in the order in which an operator
//! would look. Knows nothing of the condition that was run.

use super::figures::median;
use super::logs::{Answered, Finished};
use std::collections::HashSet;

/// A wait that is longer than usual by so much is a queue, seconds.
const QUEUE: f64 = 0.05;
/// What counts as grown.
const GROWN: f64 = 1.25;
/// The same for a share of all requests.
const SHARE: f64 = 0.05;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No wait has grown.
    None,
    /// Requests take longer at the application.
    LongerProcessing,
    /// More requests go to the slow endpoint.
    MoreHeavy,
    /// More requests from more keys.
    MoreKeys,
    /// More requests from the same keys.
    MorePerKey,
    /// Nothing that logs show: the application does fewer things at a time.
    FewerSlots,
}

impl Cause {
    /// For tables.
    pub fn title(self) -> &'static str {
        match self {
            Cause::None => "nothing waits",
            Cause::LongerProcessing => "longer processing",
            Cause::MoreHeavy => "more heavy requests",
            Cause::MoreKeys => "more keys",
            Cause::MorePerKey => "more requests a key",
            Cause::FewerSlots => "fewer slots",
        }
    }
}

/// What the logs show in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct View {
    /// Median wait in the accept queue, seconds: nginx's `$upstream_header_time` less the application's own time.
    pub wait: f64,
    /// The application's median time for a light request, seconds.
    pub processing: f64,
    /// Share of requests to the heavy endpoint, 0 to 1.
    pub heavy: f64,
    /// Requests a second in nginx's log.
    pub per_second: f64,
    /// Distinct keys a second.
    pub keys: f64,
}

/// What the logs say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Diagnosis {
    /// The usual.
    pub usual: View,
    /// From the first second with a queue until the first timeouts, three seconds at most.
    pub then: View,
    /// That first second, if a queue built up.
    pub onset: Option<usize>,
    /// The cause.
    pub cause: Cause,
}

/// Both logs of one nginx and one application.
#[derive(Clone, Copy)]
pub struct Logs<'a> {
    /// nginx's.
    pub answered: &'a [Answered],
    /// The application's.
    pub finished: &'a [Finished],
}

impl Logs<'_> {
    /// Compares what happens once requests queue up with what was usual in the seconds before `usual_until`.
    pub fn diagnose(&self, usual_until: usize, end: usize) -> Diagnosis {
        let usual = self.view(1..usual_until);
        // One slow second alone is no queue that grows.
        let lasts = |second: usize| (second..=second + 1).all(|second| self.queues(second, usual.wait));
        let onset = (usual_until..end).find(|&second| lasts(second));
        let Some(onset) = onset else {
            return Diagnosis { usual, then: self.view(usual_until..end), onset: None, cause: Cause::None };
        };
        let timeouts = self.answered.iter().filter(|line| line.status == 504).map(|line| line.at);
        let first = timeouts.fold(f64::INFINITY, f64::min).min(end as f64).floor() as usize;
        let then = self.view(onset..first.clamp(onset + 1, onset + 3));
        Diagnosis { usual, then, onset: Some(onset), cause: cause(&usual, &then) }
    }

    fn queues(&self, second: usize, usual: f64) -> bool {
        self.view(second..second + 1).wait > usual + QUEUE
    }

    /// The median over the seconds of the range.
    fn view(&self, seconds: std::ops::Range<usize>) -> View {
        let views: Vec<View> = seconds.map(|second| self.second(second)).collect();
        let middle = |figure: fn(&View) -> f64| median(views.iter().map(figure));
        View {
            wait: middle(|view| view.wait),
            processing: middle(|view| view.processing),
            heavy: middle(|view| view.heavy),
            per_second: middle(|view| view.per_second),
            keys: middle(|view| view.keys),
        }
    }

    fn second(&self, second: usize) -> View {
        let inside = |at: f64| at.floor() == second as f64;
        let lines: Vec<_> = self.answered.iter().filter(|line| inside(line.at)).collect();
        let work: Vec<_> = self.finished.iter().filter(|work| inside(work.at)).collect();
        let light = |uri: &str| uri == "/light";
        let times = lines.iter().filter(|line| light(&line.uri)).filter_map(|line| line.header_time);
        let processing = median(work.iter().filter(|work| light(&work.uri)).map(|work| work.took));
        let heavy = lines.iter().filter(|line| !light(&line.uri)).count();
        let keys: HashSet<&str> = lines.iter().map(|line| line.key.as_str()).collect();
        View {
            wait: (median(times) - processing).max(0.0),
            processing,
            heavy: heavy as f64 / lines.len().max(1) as f64,
            per_second: lines.len() as f64,
            keys: keys.len() as f64,
        }
    }
}

/// The order matters: each step takes for granted that the ones before it found nothing.
fn cause(usual: &View, then: &View) -> Cause {
    let grown = |figure: fn(&View) -> f64| figure(then) > GROWN * figure(usual);
    if grown(|view| view.processing) {
        Cause::LongerProcessing
    } else if then.heavy > usual.heavy + SHARE {
        Cause::MoreHeavy
    } else if grown(|view| view.keys) && grown(|view| view.per_second) {
        Cause::MoreKeys
    } else if grown(|view| view.per_second) {
        Cause::MorePerKey
    } else {
        Cause::FewerSlots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: View = View { wait: 0.001, processing: 0.05, heavy: 0.0, per_second: 200.0, keys: 10.0 };

    #[test]
    fn each_cause_is_told_by_what_it_changes() {
        let then = View { wait: 0.4, ..USUAL };
        let of = |then: View| cause(&USUAL, &then);
        assert_eq!(of(View { processing: 0.12, ..then }), Cause::LongerProcessing);
        assert_eq!(of(View { heavy: 0.4, ..then }), Cause::MoreHeavy);
        assert_eq!(of(View { per_second: 400.0, keys: 30.0, ..then }), Cause::MoreKeys);
        assert_eq!(of(View { per_second: 400.0, ..then }), Cause::MorePerKey);
        assert_eq!(of(View { per_second: 160.0, ..then }), Cause::FewerSlots);
    }

    #[test]
    fn without_a_growing_wait_there_is_no_cause() {
        let line = |second: usize, status, header_time| Answered {
            at: second as f64 + 0.5,
            status,
            uri: "/light".into(),
            key: "key-0".into(),
            header_time,
            verdict: false,
        };
        let finished: Vec<_> = (0..10)
            .map(|second| Finished { at: second as f64 + 0.5, uri: "/light".into(), took: 0.05, gone: false })
            .collect();
        let steady: Vec<_> = (0..10).map(|second| line(second, 200, Some(0.051))).collect();
        let growing: Vec<_> =
            (0..10).map(|second| line(second, 200, Some(if second < 5 { 0.051 } else { 0.5 }))).collect();
        let diagnose = |answered: &[Answered]| Logs { answered, finished: &finished }.diagnose(3, 10);

        assert_eq!(diagnose(&steady).cause, Cause::None);
        assert_eq!((diagnose(&growing).onset, diagnose(&growing).cause), (Some(5), Cause::FewerSlots));
    }
}

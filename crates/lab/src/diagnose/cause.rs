//! Why the application fell behind, told from the slots of `log/timeline.rs` in the order in which an operator would look;
//! or that the logs cannot tell. Pure.
//!
//! Each step takes for granted that the ones before it found nothing. The last cause is told by elimination alone, so it
//! needs the application's own times.

use super::log::timeline::{Cost, Slot, Timeline};
use super::view::View;
use ratelimitly_harness::figures::median;

/// A wait that is longer than usual by so much, and by this share of the usual response time, is a queue; seconds.
const QUEUE: f64 = 0.05;
/// What counts as grown.
pub const GROWN: f64 = 1.25;
/// The usual is that of so many slots at most, and of so many at least.
const USUAL: usize = 300;
const FEWEST: usize = 5;
/// Slots of the trouble that are looked at.
const LOOKED_AT: usize = 10;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Requests take longer at the application.
    LongerProcessing,
    /// More of the requests are slow ones.
    MoreHeavy,
    /// More requests from more clients.
    MoreClients,
    /// More requests from the same clients.
    MorePerClient,
    /// Nothing that logs show: the application does fewer things at a time.
    FewerSlots,
}

impl Cause {
    /// A few words.
    pub fn title(self) -> &'static str {
        match self {
            Cause::LongerProcessing => "longer processing",
            Cause::MoreHeavy => "more heavy requests",
            Cause::MoreClients => "more requests, from more clients",
            Cause::MorePerClient => "more requests per client",
            Cause::FewerSlots => "fewer slots",
        }
    }

    /// What removes it.
    pub fn remedy(self) -> &'static str {
        match self {
            Cause::LongerProcessing => "mend the database or the external service that became slow",
            Cause::MoreHeavy => "move the heavy work to an upstream of its own, or out of the request",
            Cause::MoreClients | Cause::MorePerClient => {
                "add capacity; or limit by key or in total, if the requests are unwanted"
            }
            Cause::FewerSlots => "bring the lost nodes or workers back",
        }
    }
}

/// What the logs say.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// No wait has grown.
    NothingWaits,
    /// The cause.
    Found(Cause),
    /// Why it cannot be told.
    CannotTell(&'static str),
}

/// The judgement and the figures behind it.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// What the logs say.
    pub judgement: Judgement,
    /// When it began, seconds since 1970.
    pub onset: Option<f64>,
    /// The time before, or all of it.
    pub usual: View,
    /// The first slots of the trouble.
    pub then: Option<View>,
}

/// Judges.
pub fn diagnose(timeline: &Timeline) -> Diagnosis {
    let slots: Vec<(f64, &Slot)> = timeline.slots().collect();
    // The application's log helps only where its paths are nginx's.
    let worked = slots.iter().any(|(_, slot)| weighted(slot, waited).is_some());
    let signals: Vec<Signal> = slots.iter().map(|(_, slot)| Signal::of(slot, worked)).collect();
    let width = timeline.width();
    let view = |range: std::ops::Range<usize>| View::of(slots[range].iter().map(|(_, slot)| *slot), width);
    let Some(onset) = (FEWEST..slots.len()).find(|at| begins(&signals, *at)) else {
        let usual = view(0..slots.len());
        return Diagnosis { judgement: without_onset(&usual), onset: None, usual, then: None };
    };
    let until = (onset + 1..slots.len()).take(LOOKED_AT - 1).find(|at| collapsed(slots[*at].1));
    let end = until.unwrap_or(slots.len().min(onset + LOOKED_AT));
    // The slot before the trouble may hold its beginning already.
    let before = if onset > FEWEST { onset - 1 } else { onset };
    let (usual, then) = (view(onset.saturating_sub(USUAL)..before), view(onset..end));
    let judgement = judge(&usual, &then);
    Diagnosis { judgement, onset: Some(slots[onset].0), usual, then: Some(then) }
}

/// How long requests of a slot wait, where that can be told, and how long they take.
#[derive(Clone, Copy, Debug)]
struct Signal {
    /// Seconds: in the queue with the application's log, in all without it. Infinite if nothing was answered.
    wait: Option<f64>,
    response: Option<f64>,
}

impl Signal {
    fn of(slot: &Slot, worked: bool) -> Signal {
        let response = weighted(slot, |cost| cost.header.median());
        let wait = if worked { weighted(slot, waited) } else { response };
        let stuck = response.is_none() && slot.timeouts > 0;
        Signal { wait: if stuck { Some(f64::INFINITY) } else { wait }, response }
    }
}

/// What a request waited before the application took it, seconds.
pub fn waited(cost: &Cost) -> Option<f64> {
    Some((cost.header.median()? - cost.app.median()?).max(0.0))
}

/// The mean of a figure over the answered requests of a slot.
pub fn weighted(slot: &Slot, figure: impl Fn(&Cost) -> Option<f64>) -> Option<f64> {
    let figures = slot.costs.iter().filter_map(|cost| Some((figure(cost)?, cost.header.count() as f64)));
    let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), (figure, of)| (sum + figure * of, count + of));
    (count > 0.0).then(|| sum / count)
}

/// Whether waiting grows here and in the next slot. One slow slot alone is no queue that grows.
fn begins(signals: &[Signal], at: usize) -> bool {
    let usual = &signals[at.saturating_sub(USUAL)..at];
    let waits = usual.iter().filter_map(|signal| signal.wait.filter(|wait| wait.is_finite()));
    if waits.clone().count() < FEWEST {
        return false;
    }
    let wait = median(waits).unwrap_or(0.0);
    let response = median(usual.iter().filter_map(|signal| signal.response)).unwrap_or(0.0);
    let limit = wait + QUEUE.max((GROWN - 1.0) * response);
    let grown = |at: usize| signals.get(at).and_then(|signal| signal.wait).is_some_and(|wait| wait > limit);
    grown(at) && grown(at + 1)
}

fn collapsed(slot: &Slot) -> bool {
    slot.timeouts * 2 > slot.reached
}

fn without_onset(all: &View) -> Judgement {
    if all.response.is_none() && all.timeouts == 0 {
        return Judgement::CannotTell("the access log has no $upstream_header_time");
    }
    if all.timeouts * 100 > all.requests {
        return Judgement::CannotTell(
            "requests time out, and the log has no usual time before that; give an earlier log first",
        );
    }
    Judgement::NothingWaits
}

fn judge(usual: &View, then: &View) -> Judgement {
    let more = then.per_second > GROWN * usual.per_second;
    if then.pace(usual).is_some_and(|pace| pace > GROWN) {
        Judgement::Found(Cause::LongerProcessing)
    } else if then.mix(usual).is_some_and(|mix| mix > GROWN) {
        Judgement::Found(Cause::MoreHeavy)
    } else if more && then.clients > GROWN * usual.clients {
        Judgement::Found(Cause::MoreClients)
    } else if more {
        Judgement::Found(Cause::MorePerClient)
    } else if then.pace(usual).is_some() {
        Judgement::Found(Cause::FewerSlots)
    } else {
        Judgement::CannotTell(
            "longer processing and fewer slots look the same in nginx's log; give the application's log (--app-log)",
        )
    }
}

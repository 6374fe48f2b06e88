//! The text of a diagnosis: what was read, what became of the requests, why the application fell behind and the figures
//! that say so, and what the configuration has wrong. Makes text only.

use super::cause::{Cause, Diagnosis, Judgement};
use super::log::reader::{Read, printable};
use super::log::timeline::Timeline;
use super::view::View;
use std::fmt::Write;

/// Paths in the table.
const PATHS: usize = 8;

/// What was read of a log.
pub fn read(what: &str, read: &Read) -> String {
    let mut text = format!("{what}: {} lines", read.lines);
    if read.unreadable > 0 {
        let _ = write!(text, "; {} could not be read, such as", read.unreadable);
        read.examples.iter().for_each(|example| {
            let _ = write!(text, "\n  {example}");
        });
    }
    text + "\n"
}

/// The judgement and its figures.
pub fn cause(diagnosis: &Diagnosis, timeline: &Timeline) -> String {
    let mut text = String::from("Why the application fell behind\n");
    match &diagnosis.judgement {
        Judgement::NothingWaits => {
            text += "  Nothing waits: it did not fall behind. Refusals above have another cause.\n"
        }
        Judgement::CannotTell(why) => {
            let _ = writeln!(text, "  The logs cannot tell: {why}.");
        }
        Judgement::Found(cause) => {
            let _ = writeln!(text, "  Cause: {}. {}", cause.title(), reason(*cause));
            let _ = writeln!(text, "  Cure: {}.", cause.remedy());
        }
    }
    if let Some((onset, then)) = diagnosis.onset.zip(diagnosis.then.as_ref()) {
        let _ = writeln!(text, "  It began at {} (slots of {} s).", moment(onset), timeline.width());
        text += &figures(&diagnosis.usual, then);
        text += &paths(&diagnosis.usual, then, timeline);
    }
    text
}

fn reason(cause: Cause) -> &'static str {
    match cause {
        Cause::LongerProcessing => "The application takes longer for the same paths.",
        Cause::MoreHeavy => "Paths keep their times, and the share of the slow ones has grown.",
        Cause::MoreClients => "Times and shares are as usual; requests and clients are more.",
        Cause::MorePerClient => "Times, shares and clients are as usual; requests are more.",
        Cause::FewerSlots => "Times, shares and requests are as usual; it works on fewer requests at a time.",
    }
}

/// Seconds since 1970 and the time of day, Greenwich.
fn moment(at: f64) -> String {
    let second = at as u64 % 86_400;
    format!("{at:.0} ({:02}:{:02}:{:02} UTC)", second / 3600, second / 60 % 60, second % 60)
}

fn figures(usual: &View, then: &View) -> String {
    let ms = |value: Option<f64>| value.map_or("-".into(), |value| format!("{:.0} ms", value * 1000.0));
    let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.1}"));
    let factor = |value: Option<f64>| value.map_or("-".into(), |value| format!("x {value:.2}"));
    let rows = [
        ("wait in the application's queue", ms(usual.wait), ms(then.wait)),
        ("response time seen by nginx", ms(usual.response), ms(then.response)),
        ("application's time for the same paths", "x 1.00".into(), factor(then.pace(usual))),
        ("cost of the mixture at usual times", "x 1.00".into(), factor(then.mix(usual))),
        ("requests per second", number(Some(usual.per_second)), number(Some(then.per_second))),
        ("clients in a slot, about", format!("{:.0}", usual.clients), format!("{:.0}", then.clients)),
        ("requests that it works on at a time", number(usual.busy), number(then.busy)),
    ];
    let mut text = format!("  {:<40} {:>10} {:>10}\n", "", "usual", "then");
    for (what, usual, then) in rows {
        let _ = writeln!(text, "  {what:<40} {usual:>10} {then:>10}");
    }
    text
}

/// The paths with the most requests, then or before.
fn paths(usual: &View, then: &View, timeline: &Timeline) -> String {
    let count = usual.costs.len().max(then.costs.len());
    let mut order: Vec<usize> = (0..count).collect();
    let share = |path: usize| usual.share(path).max(then.share(path));
    order.sort_by(|a, b| share(*b).total_cmp(&share(*a)));
    order.truncate(PATHS);
    let mut text = format!("  {:<40} {:>15} {:>22}\n", "path", "share", "application's time");
    for path in order.into_iter().filter(|path| share(*path) > 0.0) {
        let ms =
            |view: &View| view.processing(path).map_or("-".into(), |took| format!("{:.0}", took * 1000.0));
        let share = format!("{:.0} -> {:.0}%", usual.share(path) * 100.0, then.share(path) * 100.0);
        let name = printable(timeline.path(path));
        let _ =
            writeln!(text, "  {name:<40} {share:>15} {:>22}", format!("{} -> {} ms", ms(usual), ms(then)));
    }
    text
}

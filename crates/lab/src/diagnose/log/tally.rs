//! What became of the requests, counted over the whole log: who refused, what failed, what was repeated. Filled line by
//! line by `diagnose.rs`; the table of it is part of the report.

use super::entry::Answered;
use super::histogram::Histogram;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

/// Different names that are counted by themselves.
const NAMES: usize = 32;
/// Methods that nginx does not repeat unless it is told to.
const NOT_IDEMPOTENT: [&str; 3] = ["POST", "LOCK", "PATCH"];

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// An answer.
    Answered,
    /// This module: a bucket or a guard.
    Denied,
    /// This module: no verdict, `ratelimitly_fail close`.
    FailClose,
    /// This module or nginx: 500.
    Error,
    /// `limit_req` or `limit_conn`.
    Limited,
    /// 502 without a server: `max_conns`, or all are down.
    NoServer,
    /// 504.
    TimedOut,
    /// 502 from or after a server.
    Broken,
    /// 499.
    Left,
    /// 429 or 503 of the application or another module.
    Elsewhere,
}

impl Fate {
    /// Of a line.
    pub fn of(line: &Answered) -> Fate {
        match (line.outcome.as_deref(), line.status) {
            (Some("deny" | "deny_remembered"), 400..) => Fate::Denied,
            (Some("fail_close"), _) => Fate::FailClose,
            (Some("error"), _) => Fate::Error,
            _ if line.limited && line.status >= 400 => Fate::Limited,
            (_, 502) if line.upstream.as_deref().is_some_and(is_name) => Fate::NoServer,
            (_, 502) => Fate::Broken,
            (_, 504) => Fate::TimedOut,
            (_, 499) => Fate::Left,
            (_, 429 | 503) => Fate::Elsewhere,
            _ => Fate::Answered,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Fate::Answered => "answered",
            Fate::Denied => "refused by this module",
            Fate::FailClose => "refused without a verdict (ratelimitly_fail close)",
            Fate::Error => "500 of this module",
            Fate::Limited => "refused by limit_req or limit_conn",
            Fate::NoServer => "502, no server could be chosen (max_conns, or all are down)",
            Fate::TimedOut => "504, the application gave no answer in time",
            Fate::Broken => "502, the application refused or closed the connection",
            Fate::Left => "499, the client left",
            Fate::Elsewhere => "429 or 503 of the application or another module",
        }
    }
}

/// An upstream's name instead of an address with a port or a socket's path.
fn is_name(upstream: &str) -> bool {
    let last = upstream.rsplit([' ', ',']).next().unwrap_or_default();
    !last.is_empty() && !last.contains(':') && !last.contains('/')
}

impl Answered {
    /// Whether it was sent to a server of an upstream.
    pub fn reached(&self) -> bool {
        let sent = self.upstream.as_deref().is_some_and(|upstream| !is_name(upstream));
        sent || self.header_time.is_some()
    }

    fn repeatable(&self) -> bool {
        self.method.as_deref().is_none_or(|method| !NOT_IDEMPOTENT.contains(&method))
    }
}

/// The counts.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests of each fate.
    pub fates: BTreeMap<Fate, u64>,
    /// What refused, by `$ratelimitly_denied_by`.
    denied_by: Names,
    /// Why there was no verdict.
    failures: Names,
    /// Requests that passed without a verdict.
    fail_open: u64,
    /// Requests that a dry run would have refused.
    dry_run: u64,
    /// Requests that nginx sent to more than one server, and those of them that are not idempotent.
    repeated: (u64, u64),
    /// 502s of requests that nginx did not repeat because they are not idempotent.
    lost: u64,
    /// How long clients had waited that left.
    left: Histogram,
    /// How long requests took that ended with 504.
    gave_up: Histogram,
    /// How long admissions took.
    admissions: Histogram,
    /// Requests from private and loopback addresses, and from any address.
    pub private: (u64, u64),
}

/// Counts by name, in bounded memory.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, u64>);

impl Names {
    fn add(&mut self, name: &str) {
        let known = self.0.contains_key(name) || self.0.len() < NAMES;
        *self.0.entry(if known { name } else { "(other)" }.to_owned()).or_default() += 1;
    }

    fn shown(&self) -> String {
        let mut names: Vec<_> = self.0.iter().collect();
        names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        names.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }
}

impl Tally {
    /// Counts a line.
    pub fn add(&mut self, line: &Answered) {
        let fate = Fate::of(line);
        *self.fates.entry(fate).or_default() += 1;
        if let Some(by) = line.denied_by.as_ref().filter(|_| fate == Fate::Denied) {
            self.denied_by.add(by);
        }
        if let Some(failure) = &line.failure {
            self.failures.add(failure);
        }
        let outcome = line.outcome.as_deref().unwrap_or("");
        self.fail_open += u64::from(outcome == "fail_open");
        self.dry_run += u64::from(outcome.ends_with("_dry_run"));
        self.repeats(line, fate);
        self.times(line, fate);
        if let Some(address) = line.client.as_deref().and_then(|client| client.parse().ok()) {
            self.private.0 += u64::from(is_private(address));
            self.private.1 += 1;
        }
    }

    fn repeats(&mut self, line: &Answered, fate: Fate) {
        let repeatable = line.repeatable();
        if line.upstream_status.as_deref().is_some_and(|status| status.contains(',')) {
            self.repeated.0 += 1;
            self.repeated.1 += u64::from(!repeatable);
        } else if fate == Fate::Broken && !repeatable {
            self.lost += 1;
        }
    }

    fn times(&mut self, line: &Answered, fate: Fate) {
        let into =
            |times: &mut Histogram, time: Option<f64>| time.into_iter().for_each(|time| times.add(time));
        match fate {
            Fate::Left => into(&mut self.left, line.request_time),
            Fate::TimedOut => into(&mut self.gave_up, line.request_time),
            _ => {}
        }
        into(&mut self.admissions, line.admission_time);
    }

    /// How long clients wait, milliseconds, from those that left, and how that is known.
    pub fn clients_wait(&self) -> Option<(u32, String)> {
        const FEWEST: u64 = 20;
        let seconds = self.left.quantile(0.9).filter(|_| self.left.count() >= FEWEST)?;
        let how = format!("nine in ten of the {} clients that left had waited no longer", self.left.count());
        Some(((seconds * 1000.0).round() as u32, how))
    }

    /// The table and the lines below it.
    pub fn report(&self) -> String {
        let all: u64 = self.fates.values().sum();
        let mut text = String::from("What became of the requests\n");
        for (fate, count) in &self.fates {
            let percent = *count as f64 * 100.0 / all as f64;
            let _ = writeln!(text, "{count:>10} {percent:>5.1}%  {}", fate.title());
        }
        self.notes().iter().for_each(|note| {
            let _ = writeln!(text, "  {note}");
        });
        text
    }

    fn notes(&self) -> Vec<String> {
        let (repeated, twice) = self.repeated;
        let time = |times: &Histogram| times.median().map_or(0.0, |median| median);
        let notes = [
            (self.denied_by.0.len(), format!("refused by: {}", self.denied_by.shown())),
            (self.failures.0.len(), format!("no verdict because of: {}", self.failures.shown())),
            (self.fail_open as usize, format!("passed without a verdict: {}", self.fail_open)),
            (self.dry_run as usize, format!("would have been refused without the dry run: {}", self.dry_run)),
            (self.gave_up.count() as usize, format!("504s came after {:.3} s (median)", time(&self.gave_up))),
            (self.left.count() as usize, format!("clients left after {:.3} s (median)", time(&self.left))),
            (self.admissions.count() as usize, admissions(&self.admissions)),
            (repeated as usize, format!("sent to more than one server: {repeated}, seen by no client")),
            (
                twice as usize,
                format!("of these not idempotent: {twice}; their work may have been done twice"),
            ),
            (
                self.lost as usize,
                format!("POST, PATCH or LOCK lost with a 502: {}; the keepalive race looks so", self.lost),
            ),
        ];
        notes.into_iter().filter(|(count, _)| *count > 0).map(|(_, note)| note).collect()
    }
}

fn admissions(times: &Histogram) -> String {
    let at = |share| times.quantile(share).unwrap_or(0.0) * 1000.0;
    format!("admissions took {:.0} ms (median), {:.0} ms (99%)", at(0.5), at(0.99))
}

fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_private() || address.is_loopback() || address.is_link_local(),
        IpAddr::V6(address) => address.is_unique_local() || address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(status: u16, upstream: &str) -> Answered {
        let upstream = Some(upstream.to_owned()).filter(|upstream| !upstream.is_empty());
        Answered { status, upstream, ..Answered::default() }
    }

    fn outcome(outcome: &str, status: u16) -> Answered {
        Answered { outcome: Some(outcome.into()), ..line(status, "") }
    }

    #[test]
    fn each_refusal_is_put_down_to_the_one_that_refused() {
        for (line, expected) in [
            (outcome("deny", 429), Fate::Denied),
            (outcome("deny_remembered", 503), Fate::Denied),
            (outcome("fail_close", 429), Fate::FailClose),
            (outcome("error", 500), Fate::Error),
            (outcome("deny_dry_run", 200), Fate::Answered),
            (Answered { limited: true, ..line(429, "") }, Fate::Limited),
            (line(429, ""), Fate::Elsewhere),
            (line(502, "app"), Fate::NoServer),
            (line(502, "127.0.0.1:80, app"), Fate::NoServer),
            (line(502, "127.0.0.1:80"), Fate::Broken),
            (line(502, "unix:/run/app.sock"), Fate::Broken),
            (Answered { outcome: Some("allow".into()), ..line(504, "[::1]:80") }, Fate::TimedOut),
            (line(499, ""), Fate::Left),
        ] {
            assert_eq!(Fate::of(&line), expected, "{line:?}");
        }
    }

    #[test]
    fn what_was_repeated_and_what_was_lost_is_counted() {
        let mut tally = Tally::default();
        let sent = |method: &str, status, statuses: &str| Answered {
            method: Some(method.into()),
            upstream_status: Some(statuses.into()),
            ..line(status, "127.0.0.1:80")
        };
        tally.add(&sent("GET", 200, "502, 200"));
        tally.add(&sent("POST", 200, "502, 200"));
        tally.add(&sent("POST", 502, "502"));
        assert_eq!((tally.repeated, tally.lost), ((2, 1), 1));
        let report = tally.report();
        assert!(
            report.contains("sent to more than one server: 2") && report.contains("not idempotent: 1"),
            "{report}"
        );
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Names::default();
        (0..100).for_each(|nth| names.add(&nth.to_string()));
        assert_eq!(names.0.len(), NAMES + 1);
        assert!(names.shown().starts_with("(other) 68, "), "{}", names.shown());
    }
}

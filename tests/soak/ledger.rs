//! The ledger: each line of the access log against the admissions that the development server saw under the same
//! `$request_id`. Called by `main.rs` when everything has ended; reads two files, touches nothing.

use crate::site::Kept;
use ratelimitly_devserver::{Event, Kind, Verdict};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Problems beyond these are counted only.
const SHOWN: usize = 20;

/// What the comparison found.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Lines by verdict: `allow`, `deny`, `-`.
    pub lines: BTreeMap<String, u64>,
    /// Lines with a verdict by protocol, as nginx names it: `https:HTTP/2.0`.
    pub decided: BTreeMap<String, u64>,
    /// Lines without a verdict that had an admission nevertheless: failures and clients that left.
    pub asked_without_verdict: u64,
    /// Datagrams of requests, and admissions among them.
    pub datagrams: u64,
    /// Distinct request ids.
    pub admissions: u64,
    /// Requests that a server decided anew and otherwise because their datagram came after the time to remember them.
    pub late: u64,
    /// Reports, distinct ones.
    pub reports: u64,
    /// The first of what does not agree.
    pub problems: Vec<String>,
    /// All of it.
    pub problem_count: usize,
}

/// What the servers saw under one label.
#[derive(Default)]
struct Seen {
    requests: HashSet<String>,
    /// Verdicts in the order of their events.
    verdicts: Vec<Decided>,
}

/// A server's verdict.
struct Decided {
    verdict: &'static str,
    at_ms: u64,
    server: u64,
    ttl_ms: u64,
}

impl Seen {
    /// The verdicts given while the service had to remember the request, counted from its first arrival. What reaches a
    /// server later is a new request to it: completion delivery at the very end of the horizon, or anything on a machine
    /// that stood still.
    fn remembered(&self) -> Vec<&'static str> {
        let Some(first) = self.verdicts.first() else { return Vec::new() };
        let timely = self.verdicts.iter().filter(|decided| decided.at_ms < first.at_ms + first.ttl_ms);
        let mut verdicts: Vec<_> = timely.map(|decided| decided.verdict).collect();
        verdicts.sort_unstable();
        verdicts.dedup();
        verdicts
    }

    /// For people: `+0 ms 1015809 allow`.
    fn told(&self) -> String {
        let start = self.verdicts.first().map_or(0, |decided| decided.at_ms);
        let told = |d: &Decided| format!("+{} ms {} {}", d.at_ms - start, d.server, d.verdict);
        self.verdicts.iter().map(told).collect::<Vec<_>>().join(", ")
    }
}

struct Line<'a> {
    id: &'a str,
    status: u16,
    verdict: &'a str,
    protocol: &'a str,
}

/// Compares the two.
pub(crate) fn settle(kept: &Kept, events: &Path) -> Ledger {
    let mut ledger = Ledger::default();
    let mut seen = ledger.read_events(events);
    let log = std::fs::read_to_string(&kept.log).unwrap_or_default();
    for text in log.lines() {
        match parse(text) {
            Some(line) => ledger.enter(&line, seen.remove(line.id).unwrap_or_default(), text),
            None => ledger.problem(format!("a line of the access log that is none: {text}")),
        }
    }
    for label in seen.keys() {
        ledger.problem(format!("an admission of a request that was never logged, label {label}"));
    }
    if ledger.lines.is_empty() || ledger.admissions == 0 {
        ledger.problem("nothing was logged or nothing was asked: the ledger proves nothing".into());
    }
    ledger
}

/// `<request id> <status> <verdict> <scheme>:<protocol> "<request>"`.
fn parse(text: &str) -> Option<Line<'_>> {
    let mut words = text.split(' ');
    let id = words.next().filter(|id| id.len() == 32)?;
    Some(Line { id, status: words.next()?.parse().ok()?, verdict: words.next()?, protocol: words.next()? })
}

impl Ledger {
    fn problem(&mut self, text: String) {
        self.problem_count += 1;
        if self.problems.len() < SHOWN {
            self.problems.push(text);
        }
    }

    /// Events by label; those without one are the harness's own and reports.
    fn read_events(&mut self, file: &Path) -> HashMap<String, Seen> {
        let mut seen: HashMap<String, Seen> = HashMap::new();
        let mut reports = HashSet::new();
        let lines = File::open(file).map(|file| BufReader::new(file).lines());
        for text in lines.into_iter().flatten() {
            let event = text.map_err(|error| error.to_string());
            let event =
                event.and_then(|text| serde_json::from_str::<Event>(&text).map_err(|e| e.to_string()));
            match event {
                Ok(event) if event.kind == Kind::Report => drop(reports.insert(event.request_id)),
                Ok(event) => self.note(&mut seen, event),
                Err(error) => self.problem(format!("an event that cannot be read: {error}")),
            }
        }
        self.reports = reports.len() as u64;
        self.admissions = seen.values().map(|seen| seen.requests.len() as u64).sum();
        seen
    }

    fn note(&mut self, seen: &mut HashMap<String, Seen>, event: Event) {
        let Some(label) = event.label else { return };
        self.datagrams += 1;
        let seen = seen.entry(label.text).or_default();
        seen.requests.insert(event.request_id);
        seen.verdicts.extend(event.verdict.map(|verdict| Decided {
            verdict: if verdict == Verdict::Allow { "allow" } else { "deny" },
            at_ms: event.time_ms,
            server: event.server,
            ttl_ms: event.dedup_ttl_ms.unwrap_or_default().into(),
        }));
    }

    fn enter(&mut self, line: &Line<'_>, seen: Seen, text: &str) {
        *self.lines.entry(line.verdict.to_owned()).or_default() += 1;
        let admissions = seen.requests.len();
        match line.verdict {
            "allow" | "deny" => {
                *self.decided.entry(line.protocol.to_owned()).or_default() += 1;
                if admissions != 1 || seen.remembered() != [line.verdict] {
                    self.problem(format!("{text}: {admissions} admissions, verdicts {}", seen.told()));
                }
                self.late += u64::from(seen.verdicts.iter().any(|decided| decided.verdict != line.verdict));
                // A client that leaves after the verdict is logged with 499.
                if (line.status == 429) != (line.verdict == "deny") && line.status != 499 {
                    self.problem(format!("{text}: this status does not follow from that verdict"));
                }
            }
            "-" => {
                self.asked_without_verdict += u64::from(admissions > 0);
                if admissions > 1 {
                    self.problem(format!("{text}: {admissions} admissions and no verdict"));
                }
            }
            _ => self.problem(format!("{text}: no such verdict")),
        }
        if line.status >= 500 {
            self.problem(format!("{text}: nothing in this site answers so"));
        }
    }
}

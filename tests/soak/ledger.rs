//! The ledger: each line of the access log against the admissions that the development server saw under the same
//! `$request_id`. Called by `main.rs` when everything has ended; reads two files, touches nothing.

use crate::places::{Demand, Failure, demand};
use crate::site::Kept;
use ratelimitly_devserver::{Event, Kind, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Problems beyond these are counted only.
const SHOWN: usize = 20;

/// What every run has to bring about; `fail_close_dry_run` depends on the reloads.
const OUTCOMES: [&str; 6] = ["allow", "deny", "fail_open", "fail_close", "skip", "deny_dry_run"];

/// What the comparison found.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Lines by verdict: `allow`, `deny`, `-`.
    pub lines: BTreeMap<String, u64>,
    /// Lines by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// What refused, as the lines name it, each once a line.
    pub denied: BTreeMap<String, u64>,
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
    /// Tokens of every zone of every datagram.
    tokens: BTreeSet<u16>,
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
    outcome: &'a str,
    failure: &'a str,
    /// What refused, in brackets.
    denied_by: &'a str,
    demand: Demand,
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
    for outcome in OUTCOMES {
        if !ledger.outcomes.contains_key(outcome) {
            ledger.problem(format!("no line has the outcome {outcome}: the ledger proves nothing about it"));
        }
    }
    if ledger.lines.is_empty() || ledger.admissions == 0 {
        ledger.problem("nothing was logged or nothing was asked: the ledger proves nothing".into());
    }
    ledger
}

/// `<request id> <status> <verdict> <scheme>:<protocol> "<request>" <outcome> <failure> [<denied by>]`.
fn parse(text: &str) -> Option<Line<'_>> {
    let (head, rest) = text.split_once(" \"")?;
    let (request, tail) = rest.rsplit_once("\" ")?;
    let (mut head, mut request, mut tail) = (head.split(' '), request.split(' '), tail.splitn(3, ' '));
    let id = head.next().filter(|id| id.len() == 32)?;
    Some(Line {
        id,
        status: head.next()?.parse().ok()?,
        verdict: head.next()?,
        protocol: head.next()?,
        demand: demand(request.next()?, request.next().unwrap_or_default()),
        outcome: tail.next()?,
        failure: tail.next()?,
        denied_by: tail.next()?,
    })
}

impl Line<'_> {
    /// What is wrong with the line itself; nothing where it is as its place demands.
    fn fault(&self) -> Option<&'static str> {
        let Demand { asks, tokens, failure, dry_run, deny_status, fail_status } = self.demand;
        let verdict = match self.outcome {
            "allow" => "allow",
            "deny" | "deny_dry_run" => "deny",
            _ => "-",
        };
        // A client that leaves after the decision is logged with 499.
        let is = |status| self.status == status || self.status == 499;
        let refused = [deny_status, fail_status, 429].contains(&self.status);
        let failed = matches!(self.outcome, "fail_open" | "fail_close" | "fail_close_dry_run" | "error");
        match self.outcome {
            _ if self.verdict != verdict => Some("the verdict does not fit the outcome"),
            _ if failed != (self.failure != "-") => Some("a failure has a cause, and nothing else has one"),
            _ if (verdict == "deny") != (self.denied_by != "[-]") => {
                Some("what refused is named after a deny alone")
            }
            "skip" if !asks || tokens > 0 => Some("a rule that applies was skipped"),
            "skip" | "-" if refused => Some("nothing refuses a request that was not decided"),
            "skip" | "-" => None,
            _ if !asks || tokens == 0 => Some("no rule of this place applies"),
            "allow" | "fail_open" | "deny_dry_run" | "fail_close_dry_run" if refused => {
                Some("this outcome lets the request through")
            }
            "allow" => None,
            "deny" if dry_run || !is(deny_status) => Some("a deny has the status of its place"),
            "fail_close" if dry_run || !is(fail_status) => Some("a failure has the status of its place"),
            "deny_dry_run" | "fail_close_dry_run" if !dry_run => Some("this place enforces its rules"),
            "fail_open" if failure == Failure::Close => Some("this place fails close"),
            "fail_close" | "fail_close_dry_run" if failure == Failure::Open => Some("this place fails open"),
            "deny" | "fail_open" | "fail_close" | "deny_dry_run" | "fail_close_dry_run" => None,
            _ => Some("there is no such outcome here"),
        }
    }
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
        seen.tokens.extend(event.resources.iter().map(|resource| resource.tokens));
        seen.verdicts.extend(event.verdict.map(|verdict| Decided {
            verdict: if verdict == Verdict::Allow { "allow" } else { "deny" },
            at_ms: event.time_ms,
            server: event.server,
            ttl_ms: event.dedup_ttl_ms.unwrap_or_default().into(),
        }));
    }

    fn enter(&mut self, line: &Line<'_>, seen: Seen, text: &str) {
        *self.lines.entry(line.verdict.to_owned()).or_default() += 1;
        *self.outcomes.entry(line.outcome.to_owned()).or_default() += 1;
        for name in line.denied_by.trim_matches(['[', ']']).split(", ").filter(|name| *name != "-") {
            *self.denied.entry(name.to_owned()).or_default() += 1;
        }
        let admissions = seen.requests.len();
        if let Some(fault) = line.fault() {
            self.problem(format!("{text}: {fault}"));
        }
        if seen.tokens.iter().any(|tokens| *tokens != line.demand.tokens) {
            self.problem(format!("{text}: asked for {:?}, not {}", seen.tokens, line.demand.tokens));
        }
        match line.verdict {
            "allow" | "deny" => {
                *self.decided.entry(line.protocol.to_owned()).or_default() += 1;
                if admissions != 1 || seen.remembered() != [line.verdict] {
                    self.problem(format!("{text}: {admissions} admissions, verdicts {}", seen.told()));
                }
                self.late += u64::from(seen.verdicts.iter().any(|decided| decided.verdict != line.verdict));
            }
            _ => {
                self.asked_without_verdict += u64::from(admissions > 0);
                if admissions > usize::from(line.outcome != "skip") {
                    self.problem(format!("{text}: {admissions} admissions and no verdict"));
                }
            }
        }
        if line.status >= 500 {
            self.problem(format!("{text}: nothing in this site answers so"));
        }
    }
}

//! What nginx counted (`ratelimitly_metrics`), to be held against the ledger: the sums over all workers and reloads equal what
//! the access log says, line by line. Read by `main.rs` before the load and after the last old worker has gone.

use crate::ledger::Ledger;
use ratelimitly_harness::{Nginx, http};
use std::collections::BTreeMap;

/// Counts by name: outcomes, and `zone:<name>` and `guard:<name>` for what refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    outcomes: BTreeMap<String, u64>,
    denied: BTreeMap<String, u64>,
    /// Reports of which a datagram was sent.
    reports: u64,
    /// Datagrams of questions, replays and completion deliveries included.
    datagrams: u64,
}

impl Counted {
    pub async fn of(nginx: &Nginx) -> Counted {
        let page = http::get(nginx.named_port("port_metrics"), "/metrics").await.text();
        let mut counted = Counted::default();
        for (name, value) in page.lines().filter_map(|line| line.rsplit_once(' ')) {
            counted.note(name, value.parse().unwrap_or(0));
        }
        counted
    }

    fn note(&mut self, sample: &str, count: u64) {
        let Some((name, labels)) = sample.strip_prefix("ratelimitly_").and_then(|name| name.split_once('{'))
        else {
            return;
        };
        let labels: Vec<&str> = labels.split('"').skip(1).step_by(2).collect();
        match (name, &labels[..]) {
            ("admissions_total", [outcome]) => add(&mut self.outcomes, outcome, count),
            ("zone_results_total", [zone, "deny" | "deny_dry_run"]) => {
                add(&mut self.denied, &format!("zone:{zone}"), count);
            }
            ("guard_results_total", [guard, "deny" | "deny_dry_run"]) => {
                add(&mut self.denied, &format!("guard:{guard}"), count);
            }
            ("reports_total", ["sent"]) => self.reports += count,
            ("datagrams_sent_total", ["request" | "replay" | "completion"]) => self.datagrams += count,
            _ => {}
        }
    }

    /// What was counted since.
    pub fn since(mut self, before: &Counted) -> Counted {
        let less = |all: &mut BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
            all.iter_mut().for_each(|(name, count)| *count -= before.get(name).unwrap_or(&0));
            all.retain(|_, count| *count > 0);
        };
        less(&mut self.outcomes, &before.outcomes);
        less(&mut self.denied, &before.denied);
        self.reports -= before.reports;
        self.datagrams -= before.datagrams;
        self
    }

    /// What does not agree with the ledger. Of what was sent the servers may have seen less: the faults drop datagrams.
    pub fn problems(&self, ledger: &Ledger) -> Vec<String> {
        let mut logged = ledger.outcomes.clone();
        logged.remove("-");
        let mut problems = Vec::new();
        if self.outcomes != logged {
            problems.push(format!("counted {:?}, logged {logged:?}", self.outcomes));
        }
        if self.denied != ledger.denied {
            problems.push(format!("counted as refusing {:?}, logged {:?}", self.denied, ledger.denied));
        }
        for (what, sent, seen) in
            [("reports", self.reports, ledger.reports), ("datagrams", self.datagrams, ledger.datagrams)]
        {
            if sent < seen || seen == 0 {
                problems.push(format!("counted {sent} {what} as sent, the servers saw {seen}"));
            }
        }
        problems
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    *counts.entry(name.to_owned()).or_default() += count;
}

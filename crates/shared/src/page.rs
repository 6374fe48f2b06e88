//! The page that Prometheus reads (text format 0.0.4). docs/metrics.md says what each metric means.
//!
//! Every series of a fixed label value is there from the first scrape on, with 0: an event that makes its series appear would
//! be invisible to `rate()`. No bucket, address, key or anything else that a client sends makes a series.

use crate::counters::Counter;
use crate::label::Value;
use crate::layout::{Gauge, Layout};
use crate::processes::Workers;
use crate::reading::Reading;
use std::fmt::{Display, Write};
use std::sync::atomic::AtomicU64;

/// What was built, for `ratelimitly_build_info`.
#[derive(Clone, Copy, Debug)]
pub struct Build<'a> {
    /// The module's version.
    pub version: &'a str,
    /// nginx's.
    pub nginx: &'a str,
}

/// The page of an area; `lives` says whether a process lives.
pub fn page(layout: &Layout, words: &[AtomicU64], lives: impl Fn(u64) -> bool, build: Build<'_>) -> String {
    let mut page = Page { text: String::with_capacity(8192), family: "" };
    let reading = Reading::new(layout, words);
    admissions(&mut page, &reading);
    zones(&mut page, layout, &reading);
    guards(&mut page, layout, words, &reading);
    datagrams(&mut page, &reading);
    service(&mut page, layout, words, &reading);
    workers(&mut page, layout.processes(words).workers(lives));
    process(&mut page, layout, words, build);
    page.text
}

fn admissions(page: &mut Page, reading: &Reading) {
    page.family("admissions_total", COUNTER, "Requests by how their admission ended.");
    reading.outcomes().for_each(|(outcome, count)| page.labelled("outcome", outcome, count));
    page.family("failures_total", COUNTER, "Admissions without a valid result, by cause.");
    reading.failures().for_each(|(cause, count)| page.labelled("cause", cause, count));
    page.family("admission_duration_seconds", "histogram", "How long admissions took.");
    let mut all = 0;
    for (bound, count) in reading.durations() {
        page.sample("_bucket", &[("le", &bound)], count);
        all = count;
    }
    page.sample("_sum", &[], Seconds(reading.duration_sum()));
    page.sample("_count", &[], all);
}

fn zones(page: &mut Page, layout: &Layout, reading: &Reading) {
    page.family("zone_results_total", COUNTER, "Zones asked, by what became of them.");
    let results = ["pass", "deny", "deny_dry_run", "deny_remembered"];
    for (number, name) in layout.definitions().zones.iter().enumerate() {
        page.results("zone", name, &results, reading.zone(number));
    }
}

fn guards(page: &mut Page, layout: &Layout, words: &[AtomicU64], reading: &Reading) {
    let names = || layout.definitions().guards.iter().enumerate();
    page.family("guard_results_total", COUNTER, "Guards asked, by what became of them.");
    for (number, name) in names() {
        page.results("guard", name, &["pass", "deny", "deny_dry_run"], reading.guard(number));
    }
    page.family(
        "guard_latency_seconds",
        GAUGE,
        "The latency that a server gave last for the guard's tracker.",
    );
    for (number, name) in names() {
        let latency = layout.latency(words, number).unwrap_or(0);
        page.sample("", &[("guard", &Value(name))], Seconds(latency));
    }
}

fn datagrams(page: &mut Page, reading: &Reading) {
    let mut family = |name, help, label, series: &[(&str, Counter)]| {
        page.family(name, COUNTER, help);
        for (value, counter) in series {
            page.labelled(label, value, reading.get(*counter));
        }
    };
    family(
        "datagrams_sent_total",
        "Datagrams that the system took.",
        "kind",
        &[
            ("request", Counter::SentRequests),
            ("replay", Counter::SentReplays),
            ("completion", Counter::SentCompletions),
            ("report", Counter::SentReports),
            ("probe", Counter::SentProbes),
        ],
    );
    family(
        "datagrams_received_total",
        "Datagrams received, by what they were found to be.",
        "result",
        &[
            ("valid", Counter::Valid),
            ("late", Counter::Late),
            ("unknown", Counter::Unknown),
            ("unauthentic", Counter::Unauthentic),
            ("malformed", Counter::Malformed),
            ("cardinality", Counter::Cardinality),
        ],
    );
    page.single("send_errors_total", COUNTER, "Sends that failed.", reading.get(Counter::SendErrors));
    page.single(
        "datagrams_dropped_total",
        COUNTER,
        "Datagrams that the kernel dropped before a worker read them.",
        reading.get(Counter::Dropped),
    );
}

fn service(page: &mut Page, layout: &Layout, words: &[AtomicU64], reading: &Reading) {
    let mut two = |name, help, label, [first, second]: [(&str, Counter); 2]| {
        page.family(name, COUNTER, help);
        page.labelled(label, first.0, reading.get(first.1));
        page.labelled(label, second.0, reading.get(second.1));
    };
    let reports = [("sent", Counter::ReportsSent), ("failed", Counter::ReportsFailed)];
    two("reports_total", "Latency reports.", "result", reports);
    let discoveries = [("found", Counter::Discovered), ("failed", Counter::DiscoveryFailed)];
    two("discoveries_total", "Look-ups of the servers.", "result", discoveries);
    let rebinds = [("replaced", Counter::Rebound), ("failed", Counter::RebindFailed)];
    two("rebinds_total", "Replacements of a worker's UDP source port.", "result", rebinds);
    let transitions = [("open", Counter::BreakerOpened), ("closed", Counter::BreakerClosed)];
    two("breaker_transitions_total", "Breakers that opened or closed.", "to", transitions);

    page.single("members", GAUGE, "Servers that a worker found last.", layout.get(words, Gauge::Members));
    page.single(
        "members_updated_timestamp_seconds",
        GAUGE,
        "When a worker last found servers; 0: not yet.",
        Seconds(layout.get(words, Gauge::MembersUpdated)),
    );
    page.single("unit_seconds", GAUGE, "The policy's unit.", Seconds(layout.get(words, Gauge::Unit)));
    page.single(
        "round_trip_seconds",
        GAUGE,
        "Smoothed round trip to the oldest server that answers, under unit=auto; 0: not measured.",
        Micros(layout.get(words, Gauge::RoundTrip)),
    );
}

fn workers(page: &mut Page, workers: Workers) {
    page.single("admissions_in_flight", GAUGE, "Admissions that wait for an answer.", workers.in_flight);
    page.single("workers", GAUGE, "Workers of the configuration in effect.", workers.current);
    page.single("workers_ready", GAUGE, "Those of them that have had servers.", workers.ready);
    page.single("breaker_open", GAUGE, "Those of them whose breaker is open.", workers.open);
}

fn process(page: &mut Page, layout: &Layout, words: &[AtomicU64], build: Build<'_>) {
    let times = [
        ("key_loaded_timestamp_seconds", "When the API key in effect was read.", Gauge::KeyLoaded),
        ("start_time_seconds", "When these counters began.", Gauge::Started),
    ];
    for (name, help, gauge) in times {
        page.single(name, GAUGE, help, Seconds(layout.get(words, gauge)));
    }
    page.family("build_info", GAUGE, "The module's version, and nginx's.");
    page.sample("", &[("version", &build.version), ("nginx", &build.nginx)], 1);
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// Milliseconds, written as seconds.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Microseconds, written as seconds.
struct Micros(u64);

impl Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// The text, and in it the family that samples are written for.
struct Page {
    text: String,
    family: &'static str,
}

/// Writing into a string does not fail, so that the results of `write!` say nothing.
impl Page {
    /// Begins a family.
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        let _ = writeln!(self.text, "# HELP ratelimitly_{name} {help}\n# TYPE ratelimitly_{name} {kind}");
    }

    fn sample(&mut self, suffix: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let _ = write!(self.text, "ratelimitly_{}{suffix}", self.family);
        for (position, (label, text)) in labels.iter().enumerate() {
            let before = if position == 0 { '{' } else { ',' };
            let _ = write!(self.text, "{before}{label}=\"{text}\"");
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    fn labelled(&mut self, label: &str, value: &str, count: u64) {
        self.sample("", &[(label, &value)], count);
    }

    /// The results of one zone or guard.
    fn results(&mut self, label: &str, name: &[u8], results: &[&str], counts: &[u64]) {
        for (result, count) in results.iter().zip(counts) {
            self.sample("", &[(label, &Value(name)), ("result", result)], count);
        }
    }

    /// A family of one sample without labels.
    fn single(&mut self, name: &'static str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample("", &[], value);
    }
}

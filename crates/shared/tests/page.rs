//! The page of an area that is plain memory: what is counted in any slot appears on it, in the form that Prometheus reads.

use proptest::prelude::*;
use ratelimitly_shared::{
    Build, Counter, Definitions, Flag, Gauge, GuardCount, Layout, Set, ZoneCount, page,
};
use std::sync::atomic::AtomicU64;

const BUILD: Build<'_> = Build { version: "0", nginx: "1" };

struct Area {
    layout: Layout,
    words: Vec<AtomicU64>,
}

impl Area {
    fn new(zones: &[&[u8]], guards: &[&[u8]], slots: usize) -> Area {
        let names = |names: &[&[u8]]| names.iter().map(|name| Box::from(*name)).collect();
        let layout = Layout::new(Definitions { zones: names(zones), guards: names(guards) }, slots);
        let words: Vec<AtomicU64> = (0..layout.words()).map(|_| AtomicU64::new(0)).collect();
        layout.mark(&words, 5_250);
        Area { layout, words }
    }

    fn count(&self, worker: usize, count: impl FnOnce(Set<'_>)) {
        let (from, to) = self.layout.place_of(worker);
        count(self.layout.set_in(&self.words[from..to]));
    }

    fn page(&self) -> String {
        page(&self.layout, &self.words, |_| true, BUILD)
    }

    fn has(&self, line: &str) {
        let page = self.page();
        assert!(page.lines().any(|found| found == format!("ratelimitly_{line}")), "no {line} in {page}");
    }
}

#[test]
fn the_slots_of_all_workers_add_up() {
    let area = Area::new(&[b"z"], &[b"g"], 4);
    for worker in [0, 1, 3, 7] {
        area.count(worker, |set| {
            set.outcome(0);
            set.zone(0, ZoneCount::Deny);
            set.guard(0, GuardCount::DenyDryRun);
            set.count(Counter::Late, 10);
            set.failure(8);
        });
    }
    area.has(r#"admissions_total{outcome="allow"} 4"#);
    area.has(r#"zone_results_total{zone="z",result="deny"} 4"#);
    area.has(r#"zone_results_total{zone="z",result="pass"} 0"#);
    area.has(r#"guard_results_total{guard="g",result="deny_dry_run"} 4"#);
    area.has(r#"datagrams_received_total{result="late"} 40"#);
    area.has(r#"failures_total{cause="breaker"} 4"#);
}

#[test]
fn a_duration_is_in_each_bucket_from_its_own_on() {
    let area = Area::new(&[], &[], 1);
    for ms in [0, 1, 60, 61, 1000, 1001] {
        area.count(0, |set| set.duration(ms));
    }
    let buckets = [("0.0005", 1), ("0.001", 2), ("0.04", 2), ("0.06", 3), ("0.1", 4), ("1", 5), ("+Inf", 6)];
    for (bound, count) in buckets {
        area.has(&format!(r#"admission_duration_seconds_bucket{{le="{bound}"}} {count}"#));
    }
    area.has("admission_duration_seconds_count 6");
    area.has("admission_duration_seconds_sum 2.123");
}

#[test]
fn gauges_are_seconds() {
    let area = Area::new(&[], &[b"g"], 1);
    area.layout.set_latency(&area.words, 0, 250);
    area.layout.set(&area.words, Gauge::Unit, 20);
    area.layout.set(&area.words, Gauge::RoundTrip, 1_500);
    area.has("start_time_seconds 5.250");
    area.has("unit_seconds 0.020");
    area.has("round_trip_seconds 0.001500");
    area.has(r#"guard_latency_seconds{guard="g"} 0.250"#);
}

#[test]
fn names_are_escaped() {
    let area = Area::new(&[b"a\\b\"c\nd", "zo\u{e9}".as_bytes(), b"\xff%\n\""], &[], 1);
    area.has(r#"zone_results_total{zone="a\\b\"c\nd",result="pass"} 0"#);
    area.has("zone_results_total{zone=\"zo\u{e9}\",result=\"pass\"} 0");
    area.has(r#"zone_results_total{zone="%FF%25%0A\"",result="pass"} 0"#);
}

#[test]
fn a_worker_takes_a_free_entry_or_that_of_a_dead_process() {
    let area = Area::new(&[], &[], 1);
    let processes = area.layout.processes(&area.words);
    for pid in 1..=4 {
        let entry = processes.take(pid, 7, |_| true).expect("a free entry");
        entry.set(Flag::Ready, true);
    }
    assert!(processes.take(5, 8, |_| true).is_none(), "each entry has a live owner");

    let entry = processes.take(5, 8, |pid| pid != 3).expect("the entry of 3");
    entry.set(Flag::BreakerOpen, true);

    let workers = processes.workers(|_| true);
    assert_eq!((workers.current, workers.ready, workers.open), (1, 0, 1), "5 alone is of the newest cycle");
    assert_eq!(processes.workers(|pid| pid != 5).ready, 3);
    entry.leave();
    assert_eq!(processes.workers(|_| true).current, 3);
}

#[test]
fn another_layout_has_another_name() {
    let digest = |zones: &[&[u8]], guards: &[&[u8]], slots| Area::new(zones, guards, slots).layout.digest();
    let one = digest(&[b"ab", b"c"], &[], 16);
    let others =
        [digest(&[b"a", b"bc"], &[], 16), digest(&[b"ab"], &[b"c"], 16), digest(&[b"ab", b"c"], &[], 17)];
    assert_eq!(one, digest(&[b"ab", b"c"], &[], 16));
    assert!(!others.contains(&one));
}

#[test]
fn an_area_fits_its_own_layout_alone() {
    let area = Area::new(&[b"a"], &[], 1);
    assert!(area.layout.fits(&area.words));
    assert!(!area.layout.fits(&area.words[1..]));
    assert!(!Area::new(&[b"a"], &[], 2).layout.fits(&area.words));
    let blank: Vec<AtomicU64> = area.words.iter().map(|_| AtomicU64::new(0)).collect();
    assert!(!area.layout.fits(&blank));
}

proptest! {
    /// Each line is a comment or one sample, for a name of any bytes.
    #[test]
    fn no_name_breaks_a_line(name in prop::collection::vec(any::<u8>(), 1..20)) {
        let area = Area::new(&[&name], &[&name], 1);
        for line in area.page().lines() {
            let is_sample = line.starts_with("ratelimitly_")
                && line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<f64>().is_ok());
            prop_assert!(line.starts_with("# ") || is_sample, "{line}");
        }
    }
}

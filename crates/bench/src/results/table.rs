//! Results as Markdown: the conditions, what was aimed at, and latency against load.

use super::{COMPARED, RATES, Results, Row, Samples};
use crate::conditions::{AUTH, BARE, LUA, ONE, ONE_STANDARD, THREE, THREE_STANDARD};
use std::fmt::Write;

/// Name of a metric, head of its column, digits after the point.
type Column = (&'static str, &'static str, usize);

const COUNTS: [Column; 3] = [
    ("instructions", "user instructions", 0),
    ("system calls, 1 in flight", "system calls, 1 in flight", 2),
    ("system calls, 1000 in flight", "system calls, 1,000 in flight", 2),
];
const COSTS: [Column; 4] = [
    ("requests a second", "requests/s at the peak", 0),
    ("user seconds", "worker CPU s per 10,000 requests, user", 3),
    ("system seconds", "system", 3),
    ("KiB waiting", "KiB per 1,000 waiting", 0),
];
const LATENCIES: [Column; 3] =
    [("p50 at half", "p50 ms", 3), ("p99 at half", "p99 ms", 3), ("p99.9 at half", "p99.9 ms", 3)];

/// All tables.
pub fn all(results: &Results) -> String {
    let mut out = String::from("| condition | who is asked |\n|---|---|\n");
    for row in &results.rows {
        let _ = writeln!(out, "| `{}` | {} |", row.name, row.title);
    }
    out.push('\n');
    conditions(&mut out, results, &COUNTS);
    if results.timed_on.is_some() {
        conditions(&mut out, results, &COSTS);
        conditions(&mut out, results, &LATENCIES);
        loads(&mut out, results);
        floors(&mut out, results);
    }
    aims(&mut out, results);
    out
}

fn conditions(out: &mut String, results: &Results, columns: &[Column]) {
    let heads: Vec<&str> = columns.iter().map(|(_, head, _)| *head).collect();
    let _ = writeln!(out, "| condition | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
    for row in &results.rows {
        let cells = columns.iter().map(|(metric, _, digits)| cell(row.metrics.get(*metric), *digits));
        let _ = writeln!(out, "| `{}` | {} |", row.name, cells.collect::<Vec<_>>().join(" | "));
    }
    out.push('\n');
}

/// Median and, where it differs from it, the range.
fn cell(samples: Option<&Samples>, digits: usize) -> String {
    let Some(samples) = samples else { return "–".into() };
    let (least, most) = samples.range();
    let [median, least, most] = [samples.median(), least, most].map(|value| number(value, digits));
    if least == most { median } else { format!("{median} ({least}–{most})") }
}

fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) =
        text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place) % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    rest.map_or(grouped.clone(), |rest| format!("{grouped}.{rest}"))
}

fn loads(out: &mut String, results: &Results) {
    let rows: Vec<&Row> = COMPARED.iter().filter_map(|name| results.row(name)).collect();
    let heads: Vec<String> = rows.iter().map(|row| format!("`{}` p50 / p99 ms", row.name)).collect();
    let _ = writeln!(
        out,
        "| requests/s | {} | bare round trip ms |\n|---|{}---|",
        heads.join(" | "),
        "---|".repeat(heads.len())
    );
    for rate in RATES {
        let cells = rows.iter().map(|row| match row.metrics.get(&format!("p50 at {rate}")) {
            Some(p50) => format!("{:.3} / {:.3}", p50.median(), row.median(&format!("p99 at {rate}"))),
            None => "–".into(),
        });
        let cells: Vec<String> = cells.collect();
        let alone = results.row(ONE).and_then(|row| row.metrics.get(&format!("round trip at {rate}")));
        let _ = writeln!(out, "| {rate} | {} | {} |", cells.join(" | "), cell(alone, 3));
    }
    out.push('\n');
}

/// What no module can save.
fn floors(out: &mut String, results: &Results) {
    let [trip, one, three] = [&results.round_trip_ms, &results.send_one_us, &results.send_three_us];
    let _ = writeln!(
        out,
        "A bare round trip without pauses takes {} ms. Sending costs the sender {} us for one datagram and {} us for one to \
         each of three servers.\n",
        cell(Some(trip), 3),
        cell(Some(one), 1),
        cell(Some(three), 1),
    );
}

/// What a request costs a worker in each run, seconds of processor time.
fn cpu(row: &Row) -> Vec<f64> {
    let of = |metric| row.metrics.get(metric).map_or(&[][..], |samples: &Samples| &samples.0);
    of("user seconds").iter().zip(of("system seconds")).map(|(user, system)| user + system).collect()
}

/// In each run, what `row` adds to the bare location's processor time, as a multiple of what `other` adds.
fn times(bare: &Row, row: &Row, other: &Row) -> Samples {
    let runs = cpu(bare).into_iter().zip(cpu(row)).zip(cpu(other));
    Samples(runs.map(|((bare, row), other)| (row - bare) / (other - bare)).collect())
}

fn aims(out: &mut String, results: &Results) {
    let rows = [BARE, AUTH, LUA, ONE, THREE, ONE_STANDARD, THREE_STANDARD].map(|name| results.row(name));
    let [Some(a), Some(c), Some(d), Some(e), Some(f), Some(es), Some(fs)] = rows else { return };
    let one = |value: f64| Samples(vec![value]);
    let added = |row: &Row, metric: &str| row.median(metric) - a.median(metric);
    let at_half = e.median("p50 at half") - e.median("bare p50 at that rate");
    let at_2000 = added(e, "p50 at 2000") - e.median("round trip at 2000");
    let lines = [
        ("worker CPU added by `one-server` / by `auth_request`", times(a, e, c), 0.5),
        ("worker CPU added by `one-server` / by `lua-redis`", times(a, e, d), 0.7),
        ("user instructions added by `one-server`", one(added(e, "instructions")), 9000.0),
        ("system calls added by `one-server`, 1 in flight", one(added(e, "system calls, 1 in flight")), 3.0),
        (
            "system calls added by `one-server`, 1,000 in flight",
            one(added(e, "system calls, 1000 in flight")),
            0.5,
        ),
        ("p50 added by `one-server` at 2,000 req/s, ms, less a bare round trip", one(at_2000), 0.05),
        ("the same at half of its peak", one(at_half - e.median("round trip at that rate")), 0.05),
        ("worker CPU added by `three-servers` / by `one-server`", times(a, f, e), 1.5),
        ("worker CPU added by `three-servers-standard` / by `one-server-standard`", times(a, fs, es), 2.0),
    ];
    let _ = writeln!(out, "| aim | measured | at most | |\n|---|---|---|---|");
    for (what, measured, most) in lines.into_iter().filter(|(_, measured, _)| !measured.median().is_nan()) {
        let digits = if most > 100.0 { 0 } else { 3 };
        let met = if measured.median() <= most { "met" } else { "missed" };
        let _ = writeln!(out, "| {what} | {} | {most} | {met} |", cell(Some(&measured), digits));
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn thousands_are_set_apart() {
        let shown = [(0.0, 0), (999.4, 0), (1000.0, 0), (-123_456.0, 0), (1_234_567.891, 2)];
        let shown = shown.map(|(value, digits)| number(value, digits));
        assert_eq!(shown, ["0", "999", "1,000", "-123,456", "1,234,567.89"]);
    }
}

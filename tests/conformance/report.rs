//! The report: each row with its tests and their results. It reads no file.

use crate::sources::{Row, Test};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

/// Rows about a pure function or the client's core, for which a test of a crate is enough.
static PURE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^(N|K|X|L11|D18|D19|D2)").expect("a valid pattern"));
/// One test in the output of cargo test.
static RESULT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^test (?:[a-z0-9_:]*::)?([a-z0-9_]+)(?: - should panic)? \.\.\. (\w+)")
        .expect("a valid pattern")
});

/// What the logs say of each test, by the function's name: the log and the result.
#[derive(Default)]
pub struct Results(BTreeMap<String, Vec<(String, String)>>);

impl Results {
    /// Adds the results of one log.
    pub fn add(&mut self, log: &str, text: &str) {
        for found in RESULT.captures_iter(text) {
            let said = self.0.entry(found[1].to_owned()).or_default();
            said.push((log.to_owned(), found[2].to_owned()));
        }
    }

    fn state(&self, test: &str) -> State {
        let said = self.0.get(test).map_or(&[][..], Vec::as_slice);
        let any = |wanted: &str| said.iter().any(|(_, result)| result == wanted);
        match (any("FAILED"), any("ok")) {
            (true, _) => State::Failed,
            (false, true) => State::Passed,
            // Or ignored.
            (false, false) => State::NotRun,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Passed,
    Failed,
    NotRun,
}

/// The lines of the report and what they add up to.
#[derive(Default)]
pub struct Report {
    lines: Vec<String>,
    rows: usize,
    tested: usize,
    reasoned: usize,
    bare: usize,
    failed: usize,
    not_run: usize,
    of_no_row: usize,
    any_results: bool,
}

impl Report {
    /// Brings rows, reasons, tests and results together.
    pub fn new(
        rows: &[Row],
        reasons: &BTreeMap<String, String>,
        tests: &[Test],
        results: &Results,
    ) -> Report {
        let mut report = Report { any_results: !results.0.is_empty(), ..Report::default() };
        let mut by_id: BTreeMap<String, Vec<&Test>> = BTreeMap::new();
        for test in tests {
            for id in test.ids() {
                by_id.entry(id).or_default().push(test);
            }
        }
        for row in rows {
            let tests = by_id.remove(&row.id).unwrap_or_default();
            report.row(row, reasons.get(&row.id), &tests);
            for test in tests {
                report.test(&row.id, test, results.state(&test.name));
            }
        }
        for (id, tests) in by_id {
            report.of_no_row += 1;
            let names: BTreeSet<&str> = tests.iter().map(|test| test.name.as_str()).collect();
            report.line(&id, "STRANGE", &format!("no such row: {}", Vec::from_iter(names).join(" ")));
        }
        report
    }

    fn row(&mut self, row: &Row, reason: Option<&String>, tests: &[&Test]) {
        self.rows += 1;
        if tests.iter().any(|test| test.end_to_end || PURE.is_match(&row.id)) {
            self.tested += 1;
        } else if let Some(reason) = reason {
            self.reasoned += 1;
            self.line(&row.id, "reason", reason);
        } else {
            self.bare += 1;
            self.line(&row.id, "NOTHING", &format!("neither a test nor a reason: {}", row.text));
        }
    }

    fn test(&mut self, id: &str, test: &Test, state: State) {
        let word = match state {
            State::Passed => "ok",
            State::Failed => "FAILED",
            State::NotRun => "not run",
        };
        self.failed += usize::from(state == State::Failed);
        self.not_run += usize::from(state == State::NotRun);
        self.line(id, word, &test.name);
    }

    fn line(&mut self, id: &str, state: &str, text: &str) {
        self.lines.push(format!("{id:<4} {state:<8} {text}"));
    }

    /// Whether every row is tested or has a reason, and every test of a row was run and passed.
    pub fn is_clean(&self) -> bool {
        let left_out = if self.any_results { self.not_run } else { 0 };
        self.bare + self.failed + self.of_no_row + left_out == 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        let Report { rows, tested, reasoned, bare, failed, not_run, of_no_row, .. } = self;
        write!(f, "{rows} rows: {tested} with tests, {reasoned} with a reason, {bare} with neither; ")?;
        writeln!(f, "tests: {failed} failed, {not_run} not run, {of_no_row} of no row")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tests: &[(&str, bool)], reasons: &[(&str, &str)], log: &str) -> Report {
        let row = |id: &str| Row { id: id.to_owned(), text: "a case".to_owned() };
        let rows = [row("A01"), row("K01")];
        let test =
            |(name, end_to_end): &(&str, bool)| Test { name: (*name).to_owned(), end_to_end: *end_to_end };
        let tests: Vec<Test> = tests.iter().map(test).collect();
        let reasons = reasons.iter().map(|(id, why)| ((*id).to_owned(), (*why).to_owned())).collect();
        let mut results = Results::default();
        results.add("crates", log);
        Report::new(&rows, &reasons, &tests, &results)
    }

    const BOTH: [(&str, bool); 2] = [("a01_one", true), ("k01_two", false)];

    #[test]
    fn rows_with_passed_tests_are_clean() {
        let report = report(&BOTH, &[], "test family::a01_one ... ok\ntest k01_two - should panic ... ok\n");
        assert!(report.is_clean(), "{report}");
        assert!(report.to_string().ends_with(
            "2 rows: 2 with tests, 0 with a reason, 0 with neither; tests: 0 failed, 0 not run, 0 of no row\n"
        ));
    }

    #[test]
    fn a_failed_test_is_not_clean_though_it_passed_elsewhere() {
        let report =
            report(&BOTH, &[], "test a01_one ... FAILED\ntest a01_one ... ok\ntest k01_two ... ok\n");
        assert!(!report.is_clean() && report.to_string().contains("A01  FAILED"), "{report}");
    }

    #[test]
    fn a_test_that_was_left_out_counts_once_anything_was_run() {
        assert!(!report(&BOTH, &[], "test a01_one ... ok\n").is_clean());
        assert!(report(&BOTH, &[], "").is_clean());
    }

    #[test]
    fn a_row_needs_an_end_to_end_test_or_a_reason() {
        let crates_only = [("a01_one", false), ("k01_two", false)];
        assert!(!report(&crates_only, &[], "").is_clean());
        assert!(report(&crates_only, &[("A01", "cannot be")], "").is_clean());
    }

    #[test]
    fn a_test_of_no_row_is_not_clean() {
        let tests = [BOTH[0], BOTH[1], ("z99_other", true)];
        assert!(!report(&tests, &[], "").is_clean());
    }
}

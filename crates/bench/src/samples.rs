//! What `ci/bench core` prints: criterion's own samples as a table. It runs no benchmark itself.

use crate::Error;
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// The beginning of the name of the benchmark that the others are compared with.
const BARE: &str = "bare";

/// criterion's file of one benchmark's samples.
#[derive(Deserialize)]
struct Samples {
    /// Iterations of each sample.
    iters: Vec<f64>,
    /// Nanoseconds of each sample.
    times: Vec<f64>,
}

/// One benchmark, nanoseconds an iteration.
struct Row {
    name: String,
    median: f64,
    fastest: f64,
}

impl Row {
    fn new(name: String, samples: &Samples) -> Result<Row, Error> {
        let mut each: Vec<f64> = samples.times.iter().zip(&samples.iters).map(|(time, n)| time / n).collect();
        each.sort_by(f64::total_cmp);
        match each.as_slice() {
            [] => Err(format!("no sample of {name}").into()),
            [fastest, ..] => Ok(Row { name, median: each[(each.len() - 1) / 2], fastest: *fastest }),
        }
    }
}

/// Prints a line for each benchmark below criterion's folder: median and fastest sample, and the ratio to the bare cipher.
pub fn print(arguments: &crate::Core) -> Result<(), Error> {
    let rows = rows(&arguments.criterion)?;
    print!("{}", table(&rows));
    Ok(())
}

fn rows(folder: &Path) -> Result<Vec<Row>, Error> {
    let nothing = || format!("no results below {}", folder.display());
    let mut rows = Vec::new();
    for entry in fs::read_dir(folder).map_err(|_| nothing())? {
        let entry = entry?;
        let Ok(text) = fs::read_to_string(entry.path().join("new/sample.json")) else { continue };
        rows.push(Row::new(entry.file_name().to_string_lossy().into_owned(), &serde_json::from_str(&text)?)?);
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    if rows.is_empty() { Err(nothing().into()) } else { Ok(rows) }
}

fn table(rows: &[Row]) -> String {
    let bare = rows.iter().find(|row| row.name.starts_with(BARE)).map(|row| row.fastest);
    let mut table = format!("{:<66} {:>9} {:>9} {:>7}\n", "benchmark", "median ns", "fastest", "x bare");
    for row in rows {
        // criterion's arguments may have left the bare cipher out.
        let ratio = bare.map_or("-".to_owned(), |bare| format!("{:.2}", row.fastest / bare));
        table += &format!("{:<66} {:>9.0} {:>9.0} {ratio:>7}\n", row.name, row.median, row.fastest);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, times: &[f64]) -> Row {
        let samples = Samples { iters: vec![2.0; times.len()], times: times.to_vec() };
        Row::new(name.to_owned(), &samples).expect("there are samples")
    }

    #[test]
    fn samples_become_median_fastest_and_a_ratio() {
        let rows = [row("bare cipher", &[8.0, 4.0, 6.0]), row("one server", &[20.0, 12.0])];
        let table = table(&rows);
        let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[1], ["bare", "cipher", "3", "2", "1.00"]);
        assert_eq!(words[2], ["one", "server", "6", "6", "3.00"]);
    }

    #[test]
    fn a_benchmark_without_samples_is_an_error() {
        let none = Samples { iters: Vec::new(), times: Vec::new() };
        assert!(Row::new("none".to_owned(), &none).is_err());
    }
}

//! What the report is made of, read from the repository: the checklist's rows, the reasons for rows without a test, the
//! tests that carry a row's id in their names, and the logs. It judges nothing.

use regex::Regex;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// One row of the checklist.
pub struct Row {
    /// Such as `C11`.
    pub id: String,
    /// Its other cells.
    pub text: String,
}

/// A test whose name begins with ids of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    /// The function's name, or that of a macro's row.
    pub name: String,
    /// Whether a real nginx is part of it.
    pub end_to_end: bool,
}

impl Test {
    /// The ids that the name begins with, in capitals.
    pub fn ids(&self) -> impl Iterator<Item = String> + '_ {
        self.name.split('_').take_while(|word| is_id(&word.to_uppercase())).map(str::to_uppercase)
    }
}

/// A letter and two digits.
fn is_id(word: &str) -> bool {
    matches!(word.as_bytes(), [b'A'..=b'Z', b'0'..=b'9', b'0'..=b'9'])
}

static TABLE_ROW: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^\| ([A-Z]\d{2}) \| (.*) \|$").expect("a valid pattern"));
/// A test function, or a row of a macro that makes one, whose name begins with ids.
static TEST_NAME: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r##"(?m)^ *(?:(?:async )?fn +((?:[a-z]\d{2}_)+\w+) *\(|((?:[a-z]\d{2}_)+\w+):\s+(?:r?#*"|around\())"##;
    Regex::new(pattern).expect("a valid pattern")
});

/// A file's text.
pub fn read(path: impl AsRef<Path>) -> Result<String, String> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// The rows of the checklist's tables; each id may stand once.
pub fn rows(checklist: &str) -> Result<Vec<Row>, String> {
    let mut rows: Vec<Row> = Vec::new();
    for found in TABLE_ROW.captures_iter(checklist) {
        let id = found[1].to_owned();
        if rows.iter().any(|row| row.id == id) {
            return Err(format!("the checklist has the row {id} twice"));
        }
        rows.push(Row { id, text: found[2].to_owned() });
    }
    if rows.is_empty() { Err("the checklist has no row".to_owned()) } else { Ok(rows) }
}

/// Why rows have no test of their own: the tables of docs/testing.md whose first cell is an id.
pub fn reasons(page: &str) -> BTreeMap<String, String> {
    TABLE_ROW.captures_iter(page).map(|found| (found[1].to_owned(), found[2].to_owned())).collect()
}

/// The tests below a folder whose names begin with an id.
pub fn tests(folder: &str, end_to_end: bool) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    for path in rust_files(Path::new(folder))? {
        tests.extend(test_names(&read(path)?).map(|name| Test { name, end_to_end }));
    }
    tests.sort();
    tests.dedup();
    Ok(tests)
}

fn test_names(source: &str) -> impl Iterator<Item = String> + '_ {
    let name =
        |found: regex::Captures<'_>| found.get(1).or(found.get(2)).map(|name| name.as_str().to_owned());
    TEST_NAME.captures_iter(source).filter_map(name)
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("{} cannot be read: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Name and text of each log that a run of cargo test left.
pub fn logs(folder: &Path) -> Result<Vec<(String, String)>, String> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut logs = Vec::new();
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(name) = name.strip_prefix("test-").and_then(|name| name.strip_suffix(".log")) {
            logs.push((name.to_owned(), read(&path)?));
        }
    }
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_a_tests_name() {
        let test = Test { name: "c11_c12_the_quota_b10".to_owned(), end_to_end: true };
        assert_eq!(test.ids().collect::<Vec<_>>(), ["C11", "C12"]);
    }

    #[test]
    fn functions_and_rows_of_macros_are_tests() {
        let source = "async fn c01_warm() {}\n    fn n02_n03_numbers() {}\n    r07_rate:\n        r#\"x\"#, \"y\";\n\
                      r08_word: \"x\",\n    w01_part:\n        around(\nfn other() {}\n";
        let expected = ["c01_warm", "n02_n03_numbers", "r07_rate", "r08_word", "w01_part"];
        assert_eq!(test_names(source).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_row_that_stands_twice_is_an_error() {
        assert!(rows("| A01 | x | y |\n| A01 | x | y |\n").is_err());
        assert_eq!(rows("| A01 | x | y |\n| ID | x |\n").expect("one row").len(), 1);
        assert!(rows("no table").is_err());
    }
}

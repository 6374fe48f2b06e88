//! Reads what callgrind wrote: user instructions in all, and of each function by itself. Called by `counts` and `gate`.

use crate::Error;
use std::collections::{BTreeMap, HashMap};

/// User instructions of a dump.
pub fn total(text: &str) -> Result<u64, Error> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    Ok(line.ok_or("callgrind wrote no totals")?.trim().parse()?)
}

/// User instructions of each function without those that it calls.
pub fn functions(text: &str) -> BTreeMap<String, u64> {
    let mut names: HashMap<&str, String> = HashMap::new();
    let mut costs: BTreeMap<String, u64> = BTreeMap::new();
    let (mut function, mut called) = (String::new(), false);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = named(name, &mut names);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            named(name, &mut names);
        } else if line.starts_with("calls=") {
            called = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '*')) {
            // The line behind a call has the callee's cost.
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok());
            if let Some(cost) = cost.filter(|_| !std::mem::take(&mut called)) {
                *costs.entry(function.clone()).or_default() += cost;
            }
        }
    }
    costs
}

/// `(7) name` defines a number, `(7)` stands for its name.
fn named<'a>(text: &'a str, names: &mut HashMap<&'a str, String>) -> String {
    match text.split_once(' ') {
        Some((number, name)) => {
            names.insert(number, without_hash(name).to_owned());
            without_hash(name).to_owned()
        }
        None => names.get(text).cloned().unwrap_or_else(|| text.to_owned()),
    }
}

/// Rust puts a hash behind a name that changes with each compiler.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "events: Ir\n\
        fn=(1) main\n10 100\n+3 5\ncfn=(2) core::start::h0123456789abcdef\ncalls=4 20\n+1 4000\n* 7\n\
        fn=(2)\n20 3000\n\
        fn=(1)\n30 1\n\
        totals: 3113\n";

    #[test]
    fn a_function_has_its_own_instructions_and_not_those_that_it_calls() {
        let expected = [("core::start".to_owned(), 3000), ("main".to_owned(), 113)];
        assert_eq!(functions(DUMP), BTreeMap::from(expected));
        assert_eq!(total(DUMP).expect("a total"), 3113);
    }
}

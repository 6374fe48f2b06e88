//! Reads a configuration as `nginx -T` prints it, and points out what the reports from the field found by hand. Called by
//! `diagnose.rs`. It knows nginx's configuration only as text: nothing is loaded, and no file is opened.

mod dump;
pub mod finding;
mod glob;
mod guards;
mod place;
mod rules;
mod tokens;
mod tree;
mod upstreams;

use finding::{Finding, Known};
use place::Place;

type Check = fn(&[Place<'_>], &Known) -> Vec<Finding>;

/// All checks, in the order of the report.
const CHECKS: [Check; 8] = [
    upstreams::keepalive,
    upstreams::retries,
    upstreams::read_timeout,
    rules::fallbacks,
    rules::returns,
    rules::retry_after,
    rules::proxy_address,
    guards::settings,
];

/// A configuration.
pub struct Conf {
    dump: dump::Dump,
}

impl Conf {
    /// Reads the output of `nginx -T`, or one file; `path` names it where the text does not.
    pub fn read(path: &str, text: &[u8]) -> Conf {
        Conf { dump: dump::read(path, text) }
    }

    /// What could not be read. The checks see what stands before it.
    pub fn faults(&self) -> &[String] {
        &self.dump.faults
    }

    /// Whether there is an http block.
    pub fn has_http(&self) -> bool {
        self.dump.directives.iter().any(|directive| directive.name == "http")
    }

    /// What the checks point out.
    pub fn findings(&self, known: &Known) -> Vec<Finding> {
        let places = place::places(&self.dump.directives);
        CHECKS.iter().flat_map(|check| check(&places, known)).collect()
    }

    /// The text of a `log_format`.
    pub fn log_format(&self, name: &str) -> Option<String> {
        let places = place::places(&self.dump.directives);
        let named = places.iter().flat_map(|place| place.own("log_format"));
        let format = named.filter(|format| format.first() == name).last()?;
        let texts = format.args.iter().skip(1).filter(|arg| !arg.starts_with("escape="));
        Some(texts.map(String::as_str).collect())
    }
}

/// nginx's durations, milliseconds. `None`: zero, or made of a variable.
fn duration(text: &str) -> Option<u32> {
    ratelimitly_config::duration::parse_ms(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests;

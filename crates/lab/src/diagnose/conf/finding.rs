//! A finding of the checks, and what they know besides the configuration. Used by every check.

use super::tree::Directive;
use std::fmt;

/// What is wrong, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Short name of the check.
    pub check: &'static str,
    /// The file.
    pub file: String,
    /// The line of the directive, from 1.
    pub line: u32,
    /// What is wrong, what it does, and what would be right.
    pub text: String,
}

impl Finding {
    /// About a directive.
    pub fn at(directive: &Directive, check: &'static str, text: impl Into<String>) -> Finding {
        Finding { check, file: directive.file.to_string(), line: directive.line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {} [{}]", self.file, self.line, self.text, self.check)
    }
}

/// A version of nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub [u32; 3]);

impl std::str::FromStr for Version {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Version, Self::Err> {
        let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        let numbers = numbers.ok().and_then(|numbers| numbers.try_into().ok());
        numbers.map(Version).ok_or("expected three numbers such as 1.30.6")
    }
}

/// What the checks know besides the configuration. Each is `None` where it is not known.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// When the application closes idle connections, milliseconds.
    pub app_keepalive_ms: Option<u32>,
    /// How long clients wait, milliseconds, and how that is known.
    pub clients_wait: Option<(u32, String)>,
    /// nginx's version.
    pub nginx: Option<Version>,
    /// Requests in the access log from private or loopback addresses, and all of them.
    pub private: Option<(u64, u64)>,
    /// Answers of upstreams per second in the access log.
    pub answers_per_second: Option<f64>,
}

//! Why an experiment could not be run. An experiment that ran and gave bad figures is no error.

use std::io;

/// What kept an experiment from running.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, socket or process.
    #[error("{what}: {source}")]
    Io {
        /// The thing, and what was tried with it.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// nginx ended or does not serve.
    #[error("nginx did not start: {0}")]
    Nginx(String),
    /// The module gave no verdict before the load began.
    #[error("no verdict within {seconds} s though the development server runs: {log}")]
    NoVerdict {
        /// How long it was tried.
        seconds: u64,
        /// nginx's error log's text.
        log: String,
    },
    /// A log line that this program did not write.
    #[error("{file}: not a line of this log: {line}")]
    Line {
        /// The file.
        file: &'static str,
        /// The line.
        line: String,
    },
    /// A drawing.
    #[error("{0}: cannot be drawn: {1}")]
    Drawing(String, String),
    /// The load generator.
    #[error("the load: {0}")]
    Load(String),
    /// Logs or a configuration that cannot be read.
    #[error(transparent)]
    Diagnosis(#[from] ratelimitly_lab::diagnose::Error),
}

/// Adds the thing that failed to an I/O error.
pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    move |source| Error::Io { what, source }
}

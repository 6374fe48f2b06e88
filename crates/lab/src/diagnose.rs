//! `ratelimitly-lab diagnose`: from an operator's own logs, which of the causes of docs/overload.md it was, with the figures
//! that say so; from `nginx -T`, what the reports from the field found by hand. It reads files and prints text. It starts
//! nothing, and is never used by the module.

mod cause;
mod conf;
mod log;
mod options;
mod report;
mod view;

pub use cause::{Cause, Judgement};
pub use options::{Options, RECOMMENDED};

use cause::Diagnosis;
use conf::Conf;
use conf::finding::Known;
use log::entry::Lines;
use log::format::FormatError;
use log::reader::{Read, printable};
use log::tally::Tally;
use log::timeline::Timeline;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Bytes of a configuration that are read.
const CONFIG: u64 = 64 << 20;

/// What keeps a diagnosis from being made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file.
    #[error("{file}: {source}")]
    File {
        /// Its path.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A format.
    #[error("the format {what} cannot be used: {source}")]
    Format {
        /// Of which log.
        what: &'static str,
        /// Why.
        source: FormatError,
    },
    /// A format that is to be found by its name.
    #[error("--format {0:?} is neither a format with variables nor a log_format of --config")]
    NoSuchFormat(String),
    /// Logs of another format.
    #[error("no line of {what} fits its format; it must be given with {option}\n{examples}")]
    NoLine {
        /// The log.
        what: &'static str,
        /// The option that names the format.
        option: &'static str,
        /// Lines that did not fit.
        examples: String,
    },
}

/// Everything that was read.
#[derive(Default)]
struct Seen {
    access: Read,
    app: Read,
    tally: Tally,
    timeline: Timeline,
}

/// Reads what the options name and gives the report.
///
/// # Errors
/// [`Error`]: a file cannot be read, a format cannot be used, or no line of a log fits.
pub fn run(options: &Options) -> Result<String, Error> {
    let conf = options.config.as_deref().map(configuration).transpose()?;
    let mut text = String::new();
    let mut known = Known {
        app_keepalive_ms: options.app_keepalive,
        clients_wait: options.clients_wait.map(|ms| (ms, "--clients-wait".to_owned())),
        nginx: options.nginx_version,
        ..Known::default()
    };
    if !options.access_log.is_empty() {
        let mut seen = logs(options, conf.as_ref())?;
        seen.timeline.settle();
        let diagnosis = cause::diagnose(&seen.timeline);
        seen.tell(&mut known, &diagnosis);
        text += &seen.report(options, &diagnosis);
    }
    if let Some(conf) = &conf {
        let gap = if text.is_empty() { "" } else { "\n" };
        text += &format!("{gap}{}", findings(conf, &known));
    }
    Ok(text)
}

fn configuration(path: &Path) -> Result<Conf, Error> {
    let mut text = Vec::new();
    open(path)?.take(CONFIG).read_to_end(&mut text).map_err(|source| file(path, source))?;
    Ok(Conf::read(&path.display().to_string(), &text))
}

fn logs(options: &Options, conf: Option<&Conf>) -> Result<Seen, Error> {
    let unusable = |what| move |source| Error::Format { what, source };
    let access = Lines::access(&access_format(options, conf)?, &options.client);
    let access = access.map_err(unusable("of the access log"))?;
    let app = Lines::app(&options.app_format).map_err(unusable("of the application's log"))?;
    let mut seen = Seen::default();
    each(&options.access_log, &mut seen.access, |line| {
        let line = access.answered(line)?;
        seen.tally.add(&line);
        seen.timeline.answered(&line);
        Ok(())
    })?;
    fits(&seen.access, "the access log", "--format")?;
    each(&options.app_log, &mut seen.app, |line| {
        seen.timeline.worked(&app.worked(line)?);
        Ok(())
    })?;
    fits(&seen.app, "the application's log", "--app-format")?;
    Ok(seen)
}

fn access_format(options: &Options, conf: Option<&Conf>) -> Result<String, Error> {
    match &options.format {
        None => Ok(RECOMMENDED.to_owned()),
        Some(format) if format.contains('$') => Ok(format.clone()),
        Some(name) => conf.and_then(|conf| conf.log_format(name)).ok_or(Error::NoSuchFormat(name.clone())),
    }
}

fn each(
    paths: &[PathBuf],
    read: &mut Read,
    mut take: impl FnMut(&str) -> Result<(), log::format::LineError>,
) -> Result<(), Error> {
    for path in paths {
        let name = path.display().to_string();
        read.all(&name, open(path)?, &mut take).map_err(|source| file(path, source))?;
    }
    Ok(())
}

fn fits(read: &Read, what: &'static str, option: &'static str) -> Result<(), Error> {
    if read.lines > 0 || read.unreadable == 0 {
        return Ok(());
    }
    Err(Error::NoLine { what, option, examples: read.examples.join("\n") })
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, File::open(path).map_err(|source| file(path, source))?)))
}

fn file(path: &Path, source: io::Error) -> Error {
    Error::File { file: path.display().to_string(), source }
}

impl Seen {
    /// What the configuration's checks want to know of the logs.
    fn tell(&self, known: &mut Known, diagnosis: &Diagnosis) {
        known.clients_wait = known.clients_wait.take().or_else(|| self.tally.clients_wait());
        known.private = Some(self.tally.private).filter(|(_, all)| *all > 0);
        let busiest = diagnosis.then.as_ref().unwrap_or(&diagnosis.usual).answers_per_second;
        known.answers_per_second = Some(busiest).filter(|answers| *answers > 0.0);
    }

    fn report(&self, options: &Options, diagnosis: &Diagnosis) -> String {
        let mut text = report::read("Access log", &self.access);
        if !options.app_log.is_empty() {
            text += &report::read("Application's log", &self.app);
        }
        let cause = report::cause(diagnosis, &self.timeline);
        format!("{text}\n{}\n{cause}", self.tally.report())
    }
}

fn findings(conf: &Conf, known: &Known) -> String {
    let findings = conf.findings(known);
    let mut lines: Vec<String> =
        conf.faults().iter().map(|fault| format!("cannot be read: {fault}")).collect();
    if !conf.has_http() {
        lines.push("there is no http block: give the output of nginx -T".to_owned());
    }
    lines.extend(findings.iter().map(ToString::to_string));
    if lines.is_empty() {
        lines.push("nothing to point out".to_owned());
    }
    let shown = lines.iter().map(|line| format!("  {}\n", printable(line)));
    format!("Configuration\n{}", shown.collect::<String>())
}

#[cfg(test)]
mod tests;

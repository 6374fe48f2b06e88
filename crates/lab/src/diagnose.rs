//! `ratelimitly-lab diagnose`: from an operator's own logs, which of the causes of docs/overload.md it was, with the figures
//! that say so; from `nginx -T`, what the reports from the field found by hand. It reads files and prints text. It starts
//! nothing, and is never used by the module.

mod cause;
mod conf;
mod log;
mod options;
mod report;
mod view;

pub use cause::{Cause, Diagnosis, Judgement};
pub use options::{Options, RECOMMENDED};
pub use view::View;

use conf::Conf;
use conf::finding::Known;
use log::entry::Lines;
use log::format::FormatError;
use log::reader::{Read, printable};
use log::tally::Tally;
use log::timeline::Timeline;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

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

/// Two logs that are at hand as texts: those of an experiment.
pub struct Logs {
    seen: Seen,
}

/// A log's text and its format.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The lines.
    pub text: &'a str,
    /// As in [`Options`].
    pub format: &'a str,
}

impl Logs {
    /// Reads nginx's log, whose clients this variable tells apart, and the application's.
    ///
    /// # Errors
    /// [`Error`]: a format cannot be used, or no line fits.
    pub fn read(access: Text<'_>, client: &str, app: Text<'_>) -> Result<Logs, Error> {
        let mut reader = Reader::new(access.format, client, app.format)?;
        reader.access("nginx's log", access.text.as_bytes())?;
        reader.app("the application's log", app.text.as_bytes())?;
        Ok(Logs { seen: reader.finish()? })
    }

    /// Judges.
    pub fn diagnose(&self) -> Diagnosis {
        cause::diagnose(&self.seen.timeline)
    }

    /// The number of a path in a [`View`].
    pub fn path(&self, name: &str) -> Option<usize> {
        self.seen.timeline.find(name)
    }
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
        let seen = logs(options, conf.as_ref())?;
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

/// What is set up wrong in the output of `nginx -T`, or in one file, where nothing else is known.
pub fn point_out(path: &str, text: &[u8]) -> String {
    findings(&Conf::read(path, text), &Known::default())
}

fn configuration(path: &Path) -> Result<Conf, Error> {
    let mut text = Vec::new();
    open(path)?.take(CONFIG).read_to_end(&mut text).map_err(|source| file(path, source))?;
    Ok(Conf::read(&name(path), &text))
}

fn logs(options: &Options, conf: Option<&Conf>) -> Result<Seen, Error> {
    let mut reader = Reader::new(&access_format(options, conf)?, &options.client, &options.app_format)?;
    options.access_log.iter().try_for_each(|path| reader.access(&name(path), open(path)?))?;
    options.app_log.iter().try_for_each(|path| reader.app(&name(path), open(path)?))?;
    reader.finish()
}

/// The formats of both logs, and what was read with them.
struct Reader {
    access: Lines,
    app: Lines,
    seen: Seen,
}

impl Reader {
    fn new(access: &str, client: &str, app: &str) -> Result<Reader, Error> {
        let unusable = |what| move |source| Error::Format { what, source };
        let access = Lines::access(access, client).map_err(unusable("of the access log"))?;
        let app = Lines::app(app).map_err(unusable("of the application's log"))?;
        Ok(Reader { access, app, seen: Seen::default() })
    }

    fn access(&mut self, name: &str, file: impl BufRead) -> Result<(), Error> {
        let Reader { access, seen: Seen { access: read, tally, timeline, .. }, .. } = self;
        let taken = read.all(name, file, |line| {
            let line = access.answered(line)?;
            tally.add(&line);
            timeline.answered(&line);
            Ok(())
        });
        taken.map_err(|source| Error::File { file: name.to_owned(), source })
    }

    fn app(&mut self, name: &str, file: impl BufRead) -> Result<(), Error> {
        let Reader { app, seen: Seen { app: read, timeline, .. }, .. } = self;
        let taken = read.all(name, file, |line| {
            timeline.worked(&app.worked(line)?);
            Ok(())
        });
        taken.map_err(|source| Error::File { file: name.to_owned(), source })
    }

    fn finish(mut self) -> Result<Seen, Error> {
        fits(&self.seen.access, "the access log", "--format")?;
        fits(&self.seen.app, "the application's log", "--app-format")?;
        self.seen.timeline.settle();
        Ok(self.seen)
    }
}

fn access_format(options: &Options, conf: Option<&Conf>) -> Result<String, Error> {
    match &options.format {
        None => Ok(RECOMMENDED.to_owned()),
        Some(format) if format.contains('$') => Ok(format.clone()),
        Some(name) => conf.and_then(|conf| conf.log_format(name)).ok_or(Error::NoSuchFormat(name.clone())),
    }
}

fn fits(read: &Read, what: &'static str, option: &'static str) -> Result<(), Error> {
    if read.lines > 0 || read.unreadable == 0 {
        return Ok(());
    }
    Err(Error::NoLine { what, option, examples: read.examples.join("\n") })
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn open(path: &Path) -> Result<Box<dyn BufRead>, Error> {
    if path == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, File::open(path).map_err(|source| file(path, source))?)))
}

fn file(path: &Path, source: io::Error) -> Error {
    Error::File { file: name(path), source }
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

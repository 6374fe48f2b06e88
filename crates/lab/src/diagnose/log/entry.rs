//! What the diagnosis takes from a line of nginx's access log, and from one of the application's. Called by `reader.rs`
//! for each line. Values that are missing are `None`; a value of another form is an error of its line.

use super::format::{Format, FormatError, LineError};
use super::path::group;
use super::time;
use ratelimitly_config::seconds::last_ms;

/// A line of nginx's access log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answered {
    /// When the request arrived, seconds since 1970; when it ended, where the log has no `$request_time`.
    pub at: f64,
    /// Status.
    pub status: u16,
    /// Method, where the log has it.
    pub method: Option<String>,
    /// Path without its arguments, numbers replaced: see `path.rs`.
    pub path: String,
    /// The client's key or address.
    pub client: Option<String>,
    /// `$upstream_addr`.
    pub upstream: Option<String>,
    /// `$upstream_status`.
    pub upstream_status: Option<String>,
    /// Seconds until the last upstream's header.
    pub header_time: Option<f64>,
    /// Seconds from the request's arrival to its end.
    pub request_time: Option<f64>,
    /// `$ratelimitly_outcome`, or the verdict where the log has no outcome.
    pub outcome: Option<String>,
    /// `$ratelimitly_failure`.
    pub failure: Option<String>,
    /// `$ratelimitly_time`, seconds.
    pub admission_time: Option<f64>,
    /// `$ratelimitly_denied_by`.
    pub denied_by: Option<String>,
    /// `$limit_req_status` or `$limit_conn_status` is `REJECTED`.
    pub limited: bool,
}

/// A line of the application's log.
#[derive(Clone, Debug, PartialEq)]
pub struct Worked {
    /// When the work began, seconds since 1970.
    pub at: f64,
    /// Path, as in [`Answered`].
    pub path: String,
    /// Seconds from taking the connection to the response.
    pub took: f64,
}

/// Reads lines of one format.
pub struct Lines {
    format: Format,
    /// The variable that names the client.
    client: String,
}

/// The values of one line.
struct Values<'a> {
    format: &'a Format,
    values: Vec<&'a str>,
}

impl Lines {
    /// Of nginx's access log.
    ///
    /// # Errors
    /// The format has no time, no status or no path.
    pub fn access(format: &str, client: &str) -> Result<Lines, FormatError> {
        let lines = Lines { format: Format::parse(format)?, client: client.to_owned() };
        lines.needs(&["status"], "$status")?;
        lines.timed()
    }

    /// Of the application's log.
    ///
    /// # Errors
    /// The format has no time, no path or no `$app_time`.
    pub fn app(format: &str) -> Result<Lines, FormatError> {
        let lines = Lines { format: Format::parse(format)?, client: String::new() };
        lines.needs(&["app_time", "app_time_ms"], "$app_time (seconds) or $app_time_ms")?;
        lines.timed()
    }

    fn timed(self) -> Result<Lines, FormatError> {
        self.needs(&["msec", "time_iso8601", "time_local"], "$msec, $time_iso8601 or $time_local")?;
        self.needs(&["request", "uri", "request_uri"], "$request, $uri or $request_uri")?;
        Ok(self)
    }

    fn needs(&self, any: &[&str], what: &'static str) -> Result<(), FormatError> {
        let found = any.iter().any(|name| self.format.position(name).is_some());
        if found { Ok(()) } else { Err(FormatError::Lacks(what)) }
    }

    /// Reads a line of nginx's access log.
    ///
    /// # Errors
    /// [`LineError`]
    pub fn answered(&self, line: &str) -> Result<Answered, LineError> {
        let values = self.values(line)?;
        let request_time = values.seconds("request_time")?;
        let (method, path) = values.request();
        let text = |name| values.get(name).map(str::to_owned);
        let rejected = |name| values.get(name) == Some("REJECTED");
        Ok(Answered {
            at: values.moment()? - request_time.unwrap_or(0.0),
            status: values.status()?,
            method: method.map(str::to_owned),
            path: group(path),
            client: text(&self.client),
            upstream: text("upstream_addr"),
            upstream_status: text("upstream_status"),
            header_time: values.seconds("upstream_header_time")?,
            request_time,
            outcome: text("ratelimitly_outcome").or_else(|| text("ratelimitly_verdict")),
            failure: text("ratelimitly_failure"),
            admission_time: values.seconds("ratelimitly_time")?,
            denied_by: text("ratelimitly_denied_by"),
            limited: rejected("limit_req_status") || rejected("limit_conn_status"),
        })
    }

    /// Reads a line of the application's log.
    ///
    /// # Errors
    /// [`LineError`]
    pub fn worked(&self, line: &str) -> Result<Worked, LineError> {
        let values = self.values(line)?;
        let took = match values.get("app_time_ms") {
            Some(ms) => ms.parse::<f64>().ok().map(|ms| ms / 1000.0),
            None => values.get("app_time").and_then(|seconds| seconds.parse().ok()),
        };
        // A week is longer than any request.
        let took = took.filter(|took| (0.0..604_800.0).contains(took));
        let took = took.ok_or_else(|| values.fault("app_time", "a time such as 0.051"))?;
        Ok(Worked { at: values.moment()? - took, path: group(values.request().1), took })
    }

    fn values<'a>(&'a self, line: &'a str) -> Result<Values<'a>, LineError> {
        let mut values = Vec::new();
        self.format.values(line, &mut values)?;
        Ok(Values { format: &self.format, values })
    }
}

impl<'a> Values<'a> {
    /// A value, if the format has the variable and the variable was found.
    fn get(&self, name: &str) -> Option<&'a str> {
        let value = self.format.position(name).and_then(|at| self.values.get(at).copied());
        value.filter(|value| !matches!(*value, "" | "-"))
    }

    fn fault(&self, name: &'static str, expected: &'static str) -> LineError {
        let value: String = self.get(name).unwrap_or("-").chars().take(40).collect();
        LineError::Value { name, value, expected }
    }

    fn moment(&self) -> Result<f64, LineError> {
        type Read = fn(&str) -> Option<f64>;
        let forms: [(&'static str, Read); 3] =
            [("msec", time::msec), ("time_iso8601", time::iso8601), ("time_local", time::local)];
        let known = forms.iter().find(|(name, _)| self.format.position(name).is_some());
        let (name, read) = known.unwrap_or(&forms[0]);
        self.get(name).and_then(read).ok_or_else(|| self.fault(name, "a moment as nginx writes it"))
    }

    fn status(&self) -> Result<u16, LineError> {
        let status = self.get("status").and_then(|status| status.parse().ok());
        status.filter(|status| *status < 1000).ok_or_else(|| self.fault("status", "a status"))
    }

    /// Seconds; the last of a list, as the last upstream gave the answer.
    fn seconds(&self, name: &'static str) -> Result<Option<f64>, LineError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let ms = last_ms(value.as_bytes()).map_err(|_| self.fault(name, "seconds such as 0.123"))?;
        Ok(ms.map(|ms| ms as f64 / 1000.0))
    }

    /// Method and path. A client may send any text as its request line.
    fn request(&self) -> (Option<&'a str>, &'a str) {
        let mut words = self.get("request").unwrap_or("").splitn(3, ' ');
        let (method, target) = (words.next().filter(|method| !method.is_empty()), words.next());
        let path = self.get("uri").or_else(|| self.get("request_uri")).or(target);
        (self.get("request_method").or(method), path.unwrap_or("-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "$msec $status \"$request\" $remote_addr $upstream_addr $upstream_header_time $request_time \
                          $ratelimitly_outcome $limit_req_status";

    #[test]
    fn a_line_is_read_with_the_moment_of_arrival() {
        let lines = Lines::access(FORMAT, "remote_addr").expect("a format");
        let line =
            "1000.250 504 \"GET /a/17?x HTTP/1.1\" 10.0.0.1 127.0.0.1:9, 127.0.0.1:8 0.5, - 1.000 allow -";
        let read = lines.answered(line).expect("a line");
        assert_eq!((read.at, read.status, read.path.as_str()), (999.25, 504, "/a/*"));
        assert_eq!((read.header_time, read.outcome.as_deref()), (None, Some("allow")));
        assert_eq!(read.client.as_deref(), Some("10.0.0.1"));
    }

    #[test]
    fn the_application_writes_seconds_or_milliseconds() {
        let seconds = Lines::app("$msec $uri $app_time").expect("a format");
        assert_eq!(seconds.worked("1000.5 /a 0.25").expect("a line").at, 1000.25);
        let ms = Lines::app("$time_iso8601 \"$request\" $app_time_ms").expect("a format");
        let read = ms.worked("1970-01-01T00:00:10Z \"GET /a HTTP/1.1\" 250").expect("a line");
        assert_eq!((read.at, read.took), (9.75, 0.25));
        assert!(seconds.worked("1000.5 /a nan").is_err());
    }

    #[test]
    fn a_format_without_the_necessary_is_refused() {
        let lacks =
            |format| Lines::access(format, "remote_addr").err().expect("it lacks something").to_string();
        assert_eq!(lacks("$msec $status"), "it lacks $request, $uri or $request_uri");
        assert_eq!(lacks("$uri $status"), "it lacks $msec, $time_iso8601 or $time_local");
        assert_eq!(lacks("$uri $msec"), "it lacks $status");
    }
}

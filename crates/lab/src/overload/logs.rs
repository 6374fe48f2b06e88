//! The two access logs of an experiment, nginx's and the application's, read back: what the
//! share of wasted work is counted from. The diagnosis reads them by itself.

use crate::error::Error;

/// A line of nginx's access log in the format `lab`.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// When it was logged, seconds since the load began.
    pub at: f64,
    /// Status.
    pub status: u16,
    /// Path.
    pub uri: String,
    /// The client's key.
    pub key: String,
    /// `$upstream_header_time`, seconds.
    pub header_time: Option<f64>,
    /// Whether a verdict of the module is in the line.
    pub verdict: bool,
}

/// A line of the application's access log.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// When it was finished, seconds since the load began.
    pub at: f64,
    /// Path.
    pub uri: String,
    /// Time from accepting the connection to the end of the response, seconds.
    pub took: f64,
    /// Whether nginx had closed the connection by then.
    pub gone: bool,
}

/// Reads nginx's access log; `start` is the load's beginning in Unix time.
///
/// # Errors
/// A line of another format.
pub fn nginx(text: &str, start: f64) -> Result<Vec<Answered>, Error> {
    let parse = |line: &str| answered(line, start);
    text.lines().map(|line| parse(line).ok_or_else(|| fault("access.log", line))).collect()
}

/// Reads the application's access log.
///
/// # Errors
/// A line of another format.
pub fn upstream(text: &str, start: f64) -> Result<Vec<Finished>, Error> {
    let parse = |line: &str| finished(line, start);
    text.lines().map(|line| parse(line).ok_or_else(|| fault("upstream.log", line))).collect()
}

fn fault(file: &'static str, line: &str) -> Error {
    Error::Line { file, line: line.to_owned() }
}

fn answered(line: &str, start: f64) -> Option<Answered> {
    let mut fields = line.split(' ');
    let at = fields.next()?.parse::<f64>().ok()? - start;
    let status = fields.next()?.parse().ok()?;
    let (uri, key) = (fields.next()?.to_owned(), fields.next()?.to_owned());
    let rest: Vec<&str> = fields.collect();
    let [_, header_time, _, verdict] = rest[..] else { return None };
    Some(Answered { at, status, uri, key, header_time: header_time.parse().ok(), verdict: verdict != "-" })
}

fn finished(line: &str, start: f64) -> Option<Finished> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [at, uri, took, fate] = fields[..] else { return None };
    Some(Finished {
        at: at.parse::<f64>().ok()? - start,
        uri: uri.to_owned(),
        took: took.parse().ok()?,
        gone: fate == "gone",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_each_log_is_read() {
        let line = "1000.250 200 /light key-3 127.0.0.1:9000 0.051 0.052 allow";
        let read = nginx(line, 1000.0).expect("a good line");
        assert_eq!((read[0].at, read[0].status, read[0].key.as_str()), (0.25, 200, "key-3"));
        assert_eq!((read[0].header_time, read[0].verdict), (Some(0.051), true));

        let read = upstream("1000.500 /heavy 0.3011 gone", 1000.0).expect("a good line");
        assert_eq!((read[0].at, read[0].took, read[0].gone), (0.5, 0.3011, true));
    }

    #[test]
    fn what_has_no_upstream_time_has_none() {
        let read = nginx("1000.250 429 /light key-3 - - 0.000 -", 1000.0).expect("a good line");
        assert_eq!((read[0].header_time, read[0].verdict), (None, false));
    }

    #[test]
    fn another_format_is_named() {
        let error = nginx("127.0.0.1 - - [x] \"GET / HTTP/1.1\"", 0.0).expect_err("no line of the lab");
        assert!(error.to_string().starts_with("access.log: not a line of this log"));
    }
}

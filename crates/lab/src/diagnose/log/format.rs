//! nginx's `log_format` read backwards: takes a line apart into the values of its variables. Called by `entry.rs`.
//!
//! A value ends where the text behind its variable begins. Values that are lists of upstreams may hold blanks
//! (`0.001, 0.123 : 0.050`), and a local time holds one. The work on a line is linear in its length.

/// Why a `log_format` cannot be read backwards.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Two variables that touch.
    #[error("there is no text between ${0} and ${1}: where one ends cannot be told")]
    Touching(String, String),
    /// `$` without a name.
    #[error("a \"$\" without a variable's name")]
    Name,
    /// Something that the diagnosis cannot do without.
    #[error("it lacks {0}")]
    Lacks(&'static str),
}

/// Why a line does not fit a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Text between two variables.
    #[error("expected {expected:?} {place}")]
    Text {
        /// The text.
        expected: String,
        /// Where.
        place: String,
    },
    /// More than the format.
    #[error("the line goes on behind the end of the format")]
    Rest,
    /// A value of another form.
    #[error("${name} is {value:?}, expected {expected}")]
    Value {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// Longer than any line of a log.
    #[error("the line is longer than {0} bytes")]
    Long(usize),
}

/// A variable and the text behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: String,
    behind: String,
}

/// A `log_format`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    before: String,
    variables: Vec<Variable>,
}

impl Format {
    /// Reads the text of a `log_format`, its quoted parts joined.
    ///
    /// # Errors
    /// [`FormatError`]
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        let (before, mut rest) = text.split_at(text.find('$').unwrap_or(text.len()));
        let mut variables: Vec<Variable> = Vec::new();
        while let Some(behind) = rest.strip_prefix('$') {
            let (name, behind) = name(behind).ok_or(FormatError::Name)?;
            let (text, next) = behind.split_at(behind.find('$').unwrap_or(behind.len()));
            if let Some(last) = variables.last().filter(|last| last.behind.is_empty()) {
                return Err(FormatError::Touching(last.name.clone(), name.to_owned()));
            }
            variables.push(Variable { name: name.to_owned(), behind: text.to_owned() });
            rest = next;
        }
        Ok(Format { before: before.to_owned(), variables })
    }

    /// Where a variable stands: the index of its value in what `values` gives.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.variables.iter().position(|variable| variable.name == name)
    }

    /// The values of a line, in the order of the variables.
    ///
    /// # Errors
    /// [`LineError`] where the line does not fit.
    pub fn values<'a>(&self, line: &'a str, values: &mut Vec<&'a str>) -> Result<(), LineError> {
        values.clear();
        let text = |expected: &str, place: String| LineError::Text { expected: expected.to_owned(), place };
        let mut rest = line.strip_prefix(self.before.as_str());
        for variable in &self.variables {
            let here = rest.ok_or_else(|| text(&self.before, "at the start".into()))?;
            let end = variable.end(here);
            let end = end.ok_or_else(|| text(&variable.behind, format!("behind ${}", variable.name)))?;
            values.push(&here[..end]);
            rest = Some(&here[end + variable.behind.len()..]);
        }
        match rest {
            Some("") => Ok(()),
            Some(_) => Err(LineError::Rest),
            None => Err(text(&self.before, "at the start".into())),
        }
    }
}

/// A variable's name behind its `$`, in braces or not, and what follows.
fn name(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        return braced.split_once('}').filter(|(name, _)| !name.is_empty());
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

impl Variable {
    /// How long the value at the start of `text` is.
    fn end(&self, text: &str) -> Option<usize> {
        if self.behind.is_empty() {
            return Some(text.len());
        }
        let inner = if self.name == "time_local" { text.find(' ')? + 1 } else { 0 };
        let mut from = inner;
        loop {
            let end = from + text[from..].find(self.behind.as_str())?;
            match self.is_list().then(|| separator(text, end)).flatten() {
                Some(behind) => from = behind,
                None => return Some(end),
            }
        }
    }

    /// Values that nginx joins with `, ` and ` : `.
    fn is_list(&self) -> bool {
        self.name.starts_with("upstream_") || self.name == "ratelimitly_denied_by"
    }
}

/// If a list's separator stands at `at` or around it, where it ends. All of them are ASCII.
fn separator(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    if bytes[at..].starts_with(b" : ") {
        return Some(at + 3);
    }
    if bytes[at..].starts_with(b", ") {
        return Some(at + 2);
    }
    (at > 0 && bytes[at] == b' ' && bytes[at - 1] == b',').then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values<'a>(format: &str, line: &'a str) -> Result<Vec<&'a str>, LineError> {
        let mut values = Vec::new();
        Format::parse(format).expect("a format").values(line, &mut values)?;
        Ok(values)
    }

    #[test]
    fn a_line_is_taken_apart_at_the_text_between_variables() {
        let read = values(
            "[$time_local] \"$request\" $status",
            "[01/Dec/2026:05:46:04 +0000] \"GET / HTTP/1.1\" 200",
        );
        assert_eq!(read, Ok(vec!["01/Dec/2026:05:46:04 +0000", "GET / HTTP/1.1", "200"]));
        assert_eq!(values("$time_local $status", "a b 200"), Ok(vec!["a b", "200"]));
        assert_eq!(values("{\"s\":${status}}", "{\"s\":200}"), Ok(vec!["200"]));
    }

    #[test]
    fn lists_of_upstreams_keep_their_blanks() {
        let read =
            values("$upstream_addr $upstream_header_time $status", "a:1, b:2 : c:3 0.001, 0.002 : - 200");
        assert_eq!(read, Ok(vec!["a:1, b:2 : c:3", "0.001, 0.002 : -", "200"]));
        assert_eq!(values("$upstream_status", "502, 200"), Ok(vec!["502, 200"]));
        assert_eq!(values("$upstream_status,$status", "502, 200,200"), Ok(vec!["502, 200", "200"]));
    }

    #[test]
    fn what_does_not_fit_says_where() {
        let bad = |line| values("a $status b", line).expect_err("it does not fit").to_string();
        assert_eq!(bad("x"), "expected \"a \" at the start");
        assert_eq!(bad("a 200"), "expected \" b\" behind $status");
        assert_eq!(bad("a 200 bc"), "the line goes on behind the end of the format");
    }

    #[test]
    fn a_format_whose_values_cannot_be_told_apart_is_refused() {
        let error = Format::parse("$status$uri").expect_err("they touch");
        assert_eq!(
            error.to_string(),
            "there is no text between $status and $uri: where one ends cannot be told"
        );
        assert_eq!(Format::parse("a $ b"), Err(FormatError::Name));
    }
}

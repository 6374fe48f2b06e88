//! The level at which refused requests are logged: `ratelimitly_log_level off|info|notice|warn|error`.

/// A level of nginx's error log, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// No line.
    Off,
    /// `info`.
    Info,
    /// `notice`.
    Notice,
    /// `warn`.
    Warn,
    /// `error`.
    Error,
}

/// A text that names no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a log level, expected off, info, notice, warn or error")]
pub struct LogLevelError;

/// Reads a level, in lower case.
///
/// # Errors
/// [`LogLevelError`] for every other text.
pub fn parse(text: &[u8]) -> Result<LogLevel, LogLevelError> {
    match text {
        b"off" => Ok(LogLevel::Off),
        b"info" => Ok(LogLevel::Info),
        b"notice" => Ok(LogLevel::Notice),
        b"warn" => Ok(LogLevel::Warn),
        b"error" => Ok(LogLevel::Error),
        _ => Err(LogLevelError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_its_word() {
        let words = ["off", "info", "notice", "warn", "error"].map(|word| parse(word.as_bytes()).unwrap());
        let levels = [LogLevel::Off, LogLevel::Info, LogLevel::Notice, LogLevel::Warn, LogLevel::Error];
        assert_eq!(words, levels);
    }

    #[test]
    fn other_words_are_refused() {
        for text in ["", "on", "debug", "crit", "WARN", "warn ", "warning"] {
            assert_eq!(parse(text.as_bytes()), Err(LogLevelError), "{text}");
        }
    }
}

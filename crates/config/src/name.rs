//! Names of zones, trackers, guards and groups: exact bytes, not empty, without `=`.

use crate::text::Excerpt;

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("first argument must be a name, it is empty")]
    Empty,
    /// Looks like a named argument.
    #[error("first argument must be a name without \"=\", it is \"{0}\"")]
    Equals(Excerpt),
}

/// Accepts a name and gives it back.
///
/// # Errors
/// [`NameError`] where it is empty or holds `=`.
pub fn parse(text: &[u8]) -> Result<&[u8], NameError> {
    match text {
        [] => Err(NameError::Empty),
        _ if text.contains(&b'=') => Err(NameError::Equals(Excerpt::new(text))),
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_is_its_own_bytes() {
        assert_eq!(parse(b"per_ip"), Ok(&b"per_ip"[..]));
        assert_eq!(parse("caf\u{e9}".as_bytes()), Ok("caf\u{e9}".as_bytes()));
    }

    #[test]
    fn an_empty_name_is_refused() {
        assert_eq!(parse(b""), Err(NameError::Empty));
    }

    #[test]
    fn a_named_argument_is_no_name() {
        let error = parse(b"zone=a").unwrap_err();
        assert_eq!(error.to_string(), "first argument must be a name without \"=\", it is \"zone=a\"");
    }
}

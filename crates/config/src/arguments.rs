//! Arguments of the form `name=value`: which of a directive's own ones are there, each at most once, in any order.
//!
//! Called for every directive that has such arguments, before their values are looked at.

use crate::text::Excerpt;

/// Why arguments are not those that a directive has. The caller adds what it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// An argument that the directive does not have.
    #[error("unknown argument \"{0}\"")]
    Unknown(Excerpt),
    /// An argument given twice.
    #[error("duplicate argument \"{0}=\"")]
    Repeated(&'static str),
    /// A required argument is not there.
    #[error("argument \"{0}=\" is missing")]
    Missing(&'static str),
    /// Quotes in the middle of an argument.
    #[error(transparent)]
    Quote(#[from] QuoteError),
}

/// The values of the arguments with these names, in the order of the names.
///
/// # Errors
/// [`ArgumentError`] for another argument and for a second one of a name. One that is the rest of a value in quotes is
/// explained by these quotes.
pub fn named<'a, const N: usize>(
    arguments: &[&'a [u8]],
    names: [&'static str; N],
) -> Result<[Option<&'a [u8]>; N], ArgumentError> {
    let mut values = [None; N];
    for (index, argument) in arguments.iter().enumerate() {
        let known = split(argument).and_then(|(name, value)| Some((place(&names, name)?, value)));
        let Some((place, value)) = known else {
            refuse_quotes(&arguments[..index])?;
            return Err(ArgumentError::Unknown(Excerpt::new(argument)));
        };
        if values[place].replace(value).is_some() {
            refuse_quotes(&arguments[..index])?;
            return Err(ArgumentError::Repeated(names[place]));
        }
    }
    Ok(values)
}

fn place(names: &[&str], name: &[u8]) -> Option<usize> {
    names.iter().position(|known| known.as_bytes() == name)
}

/// The value of an argument that has to be there.
///
/// # Errors
/// [`ArgumentError::Missing`].
pub fn required<T>(value: Option<T>, name: &'static str) -> Result<T, ArgumentError> {
    value.ok_or(ArgumentError::Missing(name))
}

/// Splits `name=value` at its first `=`; `None` where there is none.
pub fn split(argument: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = argument.iter().position(|&b| b == b'=')?;
    Some((&argument[..at], &argument[at + 1..]))
}

/// A value that starts with a quote: nginx keeps such quotes as bytes of the value and ends it at a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the value of \"{name}=\" starts with a quote, which nginx would keep as a byte of it: quote the whole argument \
     (\"{name}=...\") or leave the quotes out"
)]
pub struct QuoteError {
    /// The argument's name.
    pub name: Excerpt,
}

/// Refuses arguments of which a value starts with `"` or `'`.
///
/// # Errors
/// [`QuoteError`], which shows the right place for the quotes.
pub fn refuse_quotes(arguments: &[&[u8]]) -> Result<(), QuoteError> {
    arguments
        .iter()
        .filter_map(|argument| split(argument))
        .try_for_each(|(name, value)| refuse_quoted(name, value))
}

/// The same for the value of the argument `name`.
///
/// # Errors
/// [`QuoteError`].
pub fn refuse_quoted(name: &[u8], value: &[u8]) -> Result<(), QuoteError> {
    match value.first() {
        Some(b'"' | b'\'') => Err(QuoteError { name: Excerpt::new(name) }),
        _ => Ok(()),
    }
}

/// Refuses a value that stands between two quotes. Text that only begins with one may be meant.
///
/// # Errors
/// [`QuoteError`].
pub fn refuse_enclosed(name: &[u8], value: &[u8]) -> Result<(), QuoteError> {
    match value {
        [first, .., last] if first == last => refuse_quoted(name, value),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["bucket", "rate"];

    #[test]
    fn arguments_come_in_any_order_and_may_be_left_out() {
        assert_eq!(named(&[b"rate=r", b"bucket=b"], NAMES), Ok([Some(&b"b"[..]), Some(&b"r"[..])]));
        assert_eq!(named(&[b"rate="], NAMES), Ok([None, Some(&b""[..])]));
        assert_eq!(required(None::<u8>, "rate"), Err(ArgumentError::Missing("rate")));
    }

    #[test]
    fn foreign_and_repeated_arguments_are_refused() {
        let unknown = |text: &[u8]| Err(ArgumentError::Unknown(Excerpt::new(text)));
        assert_eq!(named(&[b"rate=r", b"burst=5"], NAMES), unknown(b"burst=5"));
        assert_eq!(named(&[b"rate"], NAMES), unknown(b"rate"));
        assert_eq!(named(&[b"Rate=r"], NAMES), unknown(b"Rate=r"));
        assert_eq!(named(&[b"rate=r", b"rate=r"], NAMES), Err(ArgumentError::Repeated("rate")));
    }

    #[test]
    fn the_rest_of_a_quoted_value_is_explained_by_its_quotes() {
        let quoted = Err(ArgumentError::Quote(QuoteError { name: Excerpt::new(b"bucket") }));
        assert_eq!(named(&[b"bucket=\"a", b"b\""], NAMES), quoted);
        assert_eq!(named(&[b"rate=r", b"bucket=\"a", b"rate=b\""], NAMES), quoted);
    }

    #[test]
    fn arguments_split_at_the_first_equals_sign() {
        assert_eq!(split(b"bucket=a=b"), Some((&b"bucket"[..], &b"a=b"[..])));
        assert_eq!(split(b"=x"), Some((&b""[..], &b"x"[..])));
        assert_eq!(split(b"plain"), None);
    }

    #[test]
    fn quotes_inside_an_argument_are_refused_with_the_right_form() {
        let error = refuse_quotes(&[b"off", b"rate=1r/s", b"bucket=\"a b\""]).unwrap_err();
        assert!(
            error.to_string().contains("quote the whole argument (\"bucket=...\") or leave the quotes out")
        );
        assert!(refuse_quoted(b"bucket", b"'a").is_err());
        assert!(refuse_quoted(b"bucket", b"a\"b").is_ok());
        assert!(refuse_enclosed(b"bucket", b"'a'").is_err() && refuse_enclosed(b"bucket", b"''").is_err());
        for text in ["\"", "'a' b", "'a\"", "aba", ""] {
            assert_eq!(refuse_enclosed(b"bucket", text.as_bytes()), Ok(()), "{text}");
        }
    }
}

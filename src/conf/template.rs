//! A directive's value that may hold variables: plain bytes, or compiled and evaluated for each request.

use std::rc::Rc;

use ratelimitly_config::arguments::refuse_quoted;
use ratelimitly_config::condition;

use crate::conf::problem::Problem;
use crate::nginx::complex_value::{ComplexValue, EvaluateError};
use crate::nginx::conf::Conf;
use crate::nginx::request::Request;

/// A value of a directive.
pub enum Template {
    /// No variable in it: the value of every request.
    Fixed(Rc<[u8]>),
    /// Evaluated for each request.
    Rendered(ComplexValue),
}

impl Template {
    /// Compiles a value.
    ///
    /// # Errors
    /// [`Problem::Template`]: nginx refused it and said why.
    pub fn compile(cf: &Conf, text: &[u8]) -> Result<Template, Problem> {
        Ok(match ComplexValue::compile(cf, text)? {
            Some(value) => Template::Rendered(value),
            None => Template::Fixed(text.into()),
        })
    }

    /// The value where it needs no request.
    pub fn fixed(&self) -> Option<&[u8]> {
        match self {
            Template::Fixed(text) => Some(text),
            Template::Rendered(_) => None,
        }
    }

    /// The value for this request.
    ///
    /// # Errors
    /// [`EvaluateError`] where nginx fails.
    pub fn value<'a>(&'a self, request: &'a Request) -> Result<&'a [u8], EvaluateError> {
        match self {
            Template::Fixed(text) => Ok(text),
            Template::Rendered(value) => value.evaluate(request),
        }
    }
}

/// A value that is checked and parsed: while loading if it holds no variable, else for each request.
pub enum Parsed<T> {
    /// Parsed while loading.
    Fixed(T),
    /// Evaluated and parsed for each request.
    Rendered(ComplexValue),
}

impl<T: Copy> Parsed<T> {
    /// Compiles a value and parses it with `parse` if it holds no variable.
    ///
    /// # Errors
    /// What `parse` says, or [`Problem::Template`].
    pub fn compile(
        cf: &Conf,
        text: &[u8],
        parse: impl FnOnce(&[u8]) -> Result<T, Problem>,
    ) -> Result<Parsed<T>, Problem> {
        Ok(match ComplexValue::compile(cf, text)? {
            Some(value) => Parsed::Rendered(value),
            None => Parsed::Fixed(parse(text)?),
        })
    }

    /// The value where it needs no request.
    pub fn fixed(&self) -> Option<T> {
        match self {
            Parsed::Fixed(value) => Some(*value),
            Parsed::Rendered(_) => None,
        }
    }
}

/// When a rule or a report applies: `if=`.
pub enum Condition {
    /// There is no `if=`, or a constant one that is true.
    Always,
    /// A constant one that is empty or `0`.
    Never,
    /// Each request decides.
    Rendered(ComplexValue),
}

impl Condition {
    /// Compiles the value of an `if=`, if there is one.
    ///
    /// # Errors
    /// [`Problem::Quote`] or [`Problem::Template`].
    pub fn of(cf: &Conf, text: Option<&[u8]>) -> Result<Condition, Problem> {
        let Some(text) = text else { return Ok(Condition::Always) };
        Ok(match ComplexValue::compile(cf, given("if", text)?)? {
            Some(value) => Condition::Rendered(value),
            None if condition::applies(text) => Condition::Always,
            None => Condition::Never,
        })
    }

    /// Whether this request meets it.
    ///
    /// # Errors
    /// [`EvaluateError`] where nginx fails.
    pub fn applies(&self, request: &Request) -> Result<bool, EvaluateError> {
        match self {
            Condition::Always => Ok(true),
            Condition::Never => Ok(false),
            Condition::Rendered(value) => value.evaluate(request).map(condition::applies),
        }
    }
}

/// The value of an argument, whose quotes must stand around the whole argument.
///
/// # Errors
/// [`Problem::Quote`].
pub fn given<'a>(argument: &'static str, text: &'a [u8]) -> Result<&'a [u8], Problem> {
    refuse_quoted(argument.as_bytes(), text)?;
    Ok(text)
}

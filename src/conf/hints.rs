//! Slips that one directive cannot explain by itself: a `;` that is missing before the next directive, typographic
//! quotes, a line of an older version, a key in the place of other text.
//!
//! Called once for each directive, after its handler.

use std::fmt;

use ratelimitly_config::older::{self, Older};
use ratelimitly_config::text::{Excerpt, has_typographic_quotes, holds_key};

use crate::conf::problem::Problem;
use crate::nginx::conf::Conf;

/// A problem with a directive, and a slip that may be its cause.
pub struct Explained(pub Problem, pub Option<Slip>);

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.1 {
            Some(slip) => write!(f, "{}; {slip}", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

/// What an operator may have done instead of what was meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Slip {
    /// The next directive became an argument.
    #[error("\"{0}\" is a directive itself: is a \";\" missing before it?")]
    Semicolon(Excerpt),
    /// A line of the C module's older versions.
    #[error("{0}")]
    Older(Older),
    /// Quotes that are no quotes for nginx.
    #[error("an argument has typographic quotes, which nginx takes for plain bytes: use \" or ' instead")]
    Quotes,
}

impl Slip {
    /// The slip behind a directive that was refused.
    pub fn of(cf: &Conf) -> Option<Slip> {
        let arguments = cf.arguments();
        // The first argument may be a name, and anything can be one.
        let follows = |(at, argument): (usize, &&[u8])| {
            at > 0 && cf.is_directive(argument) || argument.starts_with(b"ratelimitly_")
        };
        let directive = arguments.iter().enumerate().find(|(at, argument)| follows((*at, argument)));
        let semicolon = directive.map(|(_, argument)| Slip::Semicolon(Excerpt::new(argument)));
        let older = || older::form(&cf.directive(), &arguments).map(Slip::Older);
        semicolon.or_else(older).or_else(|| Slip::quotes(&arguments))
    }

    fn quotes(arguments: &[&[u8]]) -> Option<Slip> {
        arguments.iter().any(|argument| has_typographic_quotes(argument)).then_some(Slip::Quotes)
    }
}

/// Warns of what a directive that was accepted takes for plain text. A key would reach the servers as a label, and messages
/// as a name.
pub fn warn_of_text(cf: &Conf) {
    if cf.directive() == "ratelimitly_auth_key" {
        return;
    }
    let arguments = cf.arguments();
    for argument in arguments.iter().filter(|argument| holds_key(argument)) {
        let argument = Excerpt::new(argument);
        cf.warn(format_args!(
            "\"{argument}\" holds an API key, which is taken for plain text here; expected other text, the key belongs \
             to \"ratelimitly_auth_key\""
        ));
    }
    if let Some(slip) = Slip::quotes(&arguments) {
        cf.warn(slip);
    }
}

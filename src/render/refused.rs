//! Why a request's values make no admission and no report, in the words of the log, and whose value it was.
//!
//! Made by `render`; the handlers log it and count it for each owner.

use std::fmt;
use std::rc::Rc;

use ratelimitly_config::duration::DurationError;
use ratelimitly_config::rate::RateError;
use ratelimitly_config::seconds::SecondsError;
use ratelimitly_config::text::Excerpt;
use ratelimitly_config::tokens::TokensError;
use ratelimitly_core::wire::MAX_LABEL;

use crate::conf::NAME_MAX;
use crate::nginx::complex_value::EvaluateError;
use crate::nginx::conf::Place;

/// What a refused value belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A zone's bucket or rate.
    Zone(Rc<[u8]>),
    /// A guard's service or threshold.
    Guard(Rc<[u8]>),
    /// A report's service.
    Tracker(Rc<[u8]>),
    /// A rule's number of tokens.
    Rule(Place),
    /// The label.
    Label,
    /// All values together.
    Request,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = match self {
            Owner::Zone(name) => ("zone", name),
            Owner::Guard(name) => ("guard", name),
            Owner::Tracker(name) => ("tracker", name),
            Owner::Rule(place) => return write!(f, "the rule in {place}"),
            Owner::Label => return f.write_str("the label"),
            Owner::Request => return f.write_str("the request"),
        };
        write!(f, "{kind} \"{}\"", Excerpt::new(name))
    }
}

/// Why a request's values make no admission and no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// An empty bucket or service.
    #[error("the text that names the {what} of {owner} came out empty, 1 to {NAME_MAX} bytes are allowed")]
    Empty {
        /// `bucket` or `service`.
        what: &'static str,
        /// Whose.
        owner: Owner,
    },
    /// A bucket or service that is too long.
    #[error("the {what} of {owner} has {len} bytes, at most {NAME_MAX} are allowed")]
    TooLong {
        /// `bucket` or `service`.
        what: &'static str,
        /// Whose.
        owner: Owner,
        /// Its length, bytes.
        len: usize,
    },
    /// A label that is too long.
    #[error("the label has {len} bytes, at most {MAX_LABEL} are allowed")]
    LabelTooLong {
        /// Its length, bytes.
        len: usize,
    },
    /// A rate that is none.
    #[error("the rate \"{text}\" of {owner} {error}")]
    Rate {
        /// The value's start.
        text: Excerpt,
        /// Whose.
        owner: Owner,
        /// What is wrong with it.
        error: RateError,
    },
    /// A threshold that is none.
    #[error("the threshold \"{text}\" of {owner} {error}")]
    Threshold {
        /// The value's start.
        text: Excerpt,
        /// Whose.
        owner: Owner,
        /// What is wrong with it.
        error: DurationError,
    },
    /// A number of tokens that is invalid.
    #[error("the number of tokens \"{text}\" of {owner} {error}")]
    Tokens {
        /// The value's start.
        text: Excerpt,
        /// Whose.
        owner: Owner,
        /// What is wrong with it.
        error: TokensError,
    },
    /// A time that is invalid.
    #[error("the time \"{text}\" that is to be reported to {owner} {error}")]
    Time {
        /// The value's start.
        text: Excerpt,
        /// Whose.
        owner: Owner,
        /// What is wrong with it.
        error: SecondsError,
    },
    /// nginx failed; nobody's value is wrong.
    #[error(transparent)]
    Internal(#[from] EvaluateError),
}

impl RenderError {
    /// Whose value it is.
    pub fn owner(&self) -> Owner {
        match self {
            RenderError::Empty { owner, .. }
            | RenderError::TooLong { owner, .. }
            | RenderError::Rate { owner, .. }
            | RenderError::Threshold { owner, .. }
            | RenderError::Tokens { owner, .. }
            | RenderError::Time { owner, .. } => owner.clone(),
            RenderError::LabelTooLong { .. } => Owner::Label,
            RenderError::Internal(_) => Owner::Request,
        }
    }

    /// Whether this is an internal failure (500) and not a refused value, which follows `ratelimitly_fail`.
    pub fn is_internal(&self) -> bool {
        matches!(self, RenderError::Internal(_))
    }
}

//! How an admission ends, and what nginx makes of that at the place that asked. Pure data.
//!
//! Made by the driver and the handler; kept in the context, which the variables read. It asks, waits and logs nothing.

use crate::settings::{Enforcement, Fail};
use crate::shared::{CAUSES, OUTCOMES};
use ngx::http::HTTPStatus;
use ratelimitly_core::client::{self, Failure};

/// How an admission ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A valid result that allows.
    Allow,
    /// A valid result that denies.
    Deny,
    /// No valid result.
    Failed(Cause),
    /// The worker remembers that the question is refused, and has not asked.
    Remembered,
    /// The module itself failed.
    Internal,
}

impl From<client::Outcome> for End {
    fn from(outcome: client::Outcome) -> End {
        match outcome {
            client::Outcome::Allow => End::Allow,
            client::Outcome::Deny => End::Deny,
            client::Outcome::Failed(failure) => End::Failed(failure.into()),
        }
    }
}

/// Why there is no valid result, in the order of [`CAUSES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No server answered in time.
    Timeout,
    /// No server is known.
    Discovery,
    /// The question could be sent to no server.
    Send,
    /// Only answers of the wrong counts came.
    Cardinality,
    /// A rendered value cannot be used.
    InvalidValue,
    /// A rate's window is longer than the key allows.
    WindowAboveQuota,
    /// The worker has no client.
    WorkerNotSetUp,
    /// The module itself failed.
    Internal,
    /// The worker has stopped waiting for silent servers.
    Breaker,
}

impl From<Failure> for Cause {
    fn from(failure: Failure) -> Cause {
        match failure {
            Failure::Timeout => Cause::Timeout,
            Failure::Send => Cause::Send,
            Failure::Discovery => Cause::Discovery,
            Failure::Cardinality => Cause::Cardinality,
        }
    }
}

impl Cause {
    /// The word in log lines and in `$ratelimitly_failure`.
    pub fn word(self) -> &'static str {
        CAUSES[self as usize]
    }
}

/// What an admission came to, in the order of [`OUTCOMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Allowed.
    Allow,
    /// Denied and refused.
    Deny,
    /// No valid result, and `ratelimitly_fail open`.
    FailOpen,
    /// No valid result, and `ratelimitly_fail close`.
    FailClose,
    /// Refused with 500: the module itself failed.
    Error,
    /// Denied, and let through by `ratelimitly_dry_run`.
    DenyDryRun,
    /// `FailClose`, and let through by `ratelimitly_dry_run`.
    FailCloseDryRun,
    /// Refused without a question: the worker remembers the denial. 7 is `skip`, which is no decision.
    DenyRemembered = 8,
}

impl Outcome {
    /// The text of `$ratelimitly_outcome`.
    pub fn word(self) -> &'static str {
        OUTCOMES[self as usize]
    }

    /// The text of `$ratelimitly_verdict`; only a valid result has one.
    pub fn verdict(self) -> Option<&'static str> {
        match self {
            Outcome::Allow => Some("allow"),
            Outcome::Deny | Outcome::DenyDryRun => Some("deny"),
            Outcome::FailOpen
            | Outcome::FailClose
            | Outcome::Error
            | Outcome::FailCloseDryRun
            | Outcome::DenyRemembered => None,
        }
    }

    /// Whether a denial or failure was not enforced.
    pub fn is_dry_run(self) -> bool {
        matches!(self, Outcome::DenyDryRun | Outcome::FailCloseDryRun)
    }
}

/// What was decided about a request. It never changes afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What the admission came to.
    pub outcome: Outcome,
    /// Why there is no valid result, where there is none.
    pub cause: Option<Cause>,
    /// How long the admission took, milliseconds.
    pub took_ms: u64,
    /// The status that refuses the request; 0: it proceeds.
    status: u16,
}

impl Decision {
    /// What `enforcement` makes of an end. `guards_alone`: of a denial, no zone has refused.
    pub fn new(
        end: End,
        guards_alone: bool,
        enforcement: &Enforcement,
        dry_run: bool,
        took_ms: u64,
    ) -> Decision {
        let (outcome, cause, status) = match (end, dry_run) {
            (End::Allow, _) => (Outcome::Allow, None, 0),
            (End::Deny, true) => (Outcome::DenyDryRun, None, 0),
            (End::Deny, false) => (Outcome::Deny, None, enforcement.denial(guards_alone)),
            (End::Remembered, _) => (Outcome::DenyRemembered, None, enforcement.denial(false)),
            (End::Internal, _) => (Outcome::Error, Some(Cause::Internal), 500),
            (End::Failed(cause), _) if enforcement.fail == Fail::Open => (Outcome::FailOpen, Some(cause), 0),
            (End::Failed(cause), true) => (Outcome::FailCloseDryRun, Some(cause), 0),
            (End::Failed(cause), false) => (Outcome::FailClose, Some(cause), enforcement.fail_status),
        };
        Decision { outcome, cause, took_ms, status }
    }

    /// The HTTP status that refuses the request; `None` where it proceeds. nginx takes 444 for closing the connection (for
    /// HTTP/2 and 3 the stream) without an answer.
    pub fn refusal(self) -> Option<HTTPStatus> {
        (self.status != 0).then_some(HTTPStatus(self.status.into()))
    }
}

//! What is wrong with a directive. The text completes `"<directive>" directive: `, says what is wrong and what would
//! be accepted, and never shows a key.

use std::fmt;

use ratelimitly_config::address::AddressError;
use ratelimitly_config::arguments::{ArgumentError, QuoteError};
use ratelimitly_config::dns_name::DnsNameError;
use ratelimitly_config::duration::DurationError;
use ratelimitly_config::key_file::KeyFileError;
use ratelimitly_config::key_text::Mistake;
use ratelimitly_config::log_level::LogLevelError;
use ratelimitly_config::name::NameError;
use ratelimitly_config::number::NumberError;
use ratelimitly_config::older::PAGE;
use ratelimitly_config::policy::PolicyTextError;
use ratelimitly_config::rate::RateError;
use ratelimitly_config::resolver::ResolverError;
use ratelimitly_config::status::StatusError;
use ratelimitly_config::text::Excerpt;
use ratelimitly_config::tokens::TokensError;
use ratelimitly_core::key::KeyError;

use crate::conf::key::ReadError;
use crate::nginx::complex_value::CompileError;
use crate::nginx::conf::{NoMemory, Place};

const KEY_FORM: &str = "expected an API key: rl-aes1... or rl-cookie1...";

/// The four kinds of named definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `ratelimitly_zone`.
    Zone,
    /// `ratelimitly_tracker`.
    Tracker,
    /// `ratelimitly_guard`.
    Guard,
    /// `ratelimitly_group`.
    Group,
}

impl Kind {
    /// The kind in messages, and the name of arguments that refer to one.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Zone => "zone",
            Kind::Tracker => "tracker",
            Kind::Guard => "guard",
            Kind::Group => "group",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Why a directive is refused. `usage` is the directive's accepted form.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Too few or too many arguments.
    #[error("invalid number of arguments, expected {usage}")]
    Count {
        /// The accepted form.
        usage: &'static str,
    },
    /// The directive was there already.
    #[error("is duplicate, it is accepted once: {usage}")]
    Duplicate {
        /// The accepted form.
        usage: &'static str,
    },
    /// The first argument is no name.
    #[error("{error}, expected {usage}")]
    Name {
        /// What is wrong with it.
        error: NameError,
        /// The accepted form.
        usage: &'static str,
    },
    /// A definition of that kind has the name already.
    #[error("duplicate {kind} \"{name}\", each {kind} needs a name of its own")]
    Redefined {
        /// Kind of definition.
        kind: Kind,
        /// The name as the operator wrote it, shortened for the message.
        name: Excerpt,
    },
    /// A tracker called `off`.
    #[error("the name \"off\" is reserved for \"ratelimitly_report off\", expected another name")]
    Reserved,
    /// Not the arguments that the directive has.
    #[error("{error}, expected {usage}")]
    Arguments {
        /// What is wrong with them.
        error: ArgumentError,
        /// The accepted form.
        usage: &'static str,
    },
    /// An argument that refers to something has no name in it.
    #[error("\"{kind}=\" is empty, expected {kind}=<{kind}> with the name of a {kind} defined above")]
    EmptyReference {
        /// Kind of definition.
        kind: Kind,
    },
    /// A nameserver's host name that the system cannot resolve.
    #[error(
        "host \"{host}\" cannot be resolved: {reason}; expected the address of a nameserver, or a host that this system knows"
    )]
    ResolverHost {
        /// The name as the operator wrote it, shortened for the message.
        host: Excerpt,
        /// What the system said.
        reason: String,
    },
    /// No address family is left to ask for.
    #[error(
        "both address families are off: ipv4=off or ipv6=off here, the other one in the http block's \"resolver\"; leave one of them on"
    )]
    NoFamily,
    /// A reference to nothing.
    #[error("unknown {kind} \"{name}\", expected a {kind} that \"ratelimitly_{kind}\" defines above")]
    Undefined {
        /// Kind of definition.
        kind: Kind,
        /// The name as the operator wrote it, shortened for the message.
        name: Excerpt,
    },
    /// A report to nothing.
    #[error(
        "unknown tracker \"{name}\", expected a tracker that \"ratelimitly_tracker\" defines above, or \"off\""
    )]
    NoTracker {
        /// The name as the operator wrote it, shortened for the message.
        name: Excerpt,
    },
    /// Several zones or groups in one line.
    #[error("at most one \"zone=\" or \"group=\" is accepted a line, expected {usage}; several lines add up")]
    OneTarget {
        /// The accepted form.
        usage: &'static str,
    },
    /// `buffer_size=`.
    #[error("\"buffer_size=\" is no longer supported, expected \"max_samples=<n>\" instead")]
    BufferSize,
    /// Quotes in the middle of an argument.
    #[error(transparent)]
    Quote(#[from] QuoteError),
    /// Static text that is empty.
    #[error("\"{argument}=\" is empty, expected 1..{max} bytes")]
    Empty {
        /// The argument.
        argument: &'static str,
        /// The limit, bytes.
        max: usize,
    },
    /// Static text that is too long.
    #[error("the {what} has {len} bytes, at most {max} are allowed")]
    TooLong {
        /// Bucket, service or label.
        what: &'static str,
        /// Its length, bytes.
        len: usize,
        /// The limit, bytes.
        max: usize,
    },
    /// `rate=`.
    #[error("\"rate={text}\" {error}")]
    Rate {
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: RateError,
    },
    /// A duration.
    #[error("\"{argument}={text}\" {error}")]
    Duration {
        /// The argument.
        argument: &'static str,
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: DurationError,
    },
    /// A number.
    #[error("\"{argument}={text}\" {error}")]
    Number {
        /// The argument.
        argument: &'static str,
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: NumberError,
    },
    /// `failures=0`.
    #[error("\"failures=0\" would never wait for a server, expected 1..4294967295, or \"off\"")]
    NoFailures,
    /// `max_samples=0`.
    #[error("\"max_samples=0\" keeps nothing, expected 1..4294967295")]
    NoSamples,
    /// Neither of two words.
    #[error("invalid value \"{text}\", expected {usage}")]
    Choice {
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// The accepted form.
        usage: &'static str,
    },
    /// A text that was never meant to be one of our keys.
    #[error("{0}; {KEY_FORM}")]
    NotAKey(Mistake),
    /// A text that does not even begin like a key.
    #[error("{foreign} ({error}); {KEY_FORM}", foreign = Mistake::Foreign)]
    ForeignKey {
        /// Why it cannot be decoded.
        error: KeyError,
    },
    /// A key of another format, such as the old one without a version.
    #[error("{error}: a key of the old format has to be replaced by a new one, {PAGE}; {KEY_FORM}")]
    OldKey {
        /// Tells its length.
        error: KeyError,
    },
    /// The key is invalid.
    #[error("{0}; {KEY_FORM}")]
    Key(#[from] KeyError),
    /// The key holds bytes that no key has.
    #[error("invalid bech32: not ASCII; {KEY_FORM}")]
    KeyBytes,
    /// No key at all.
    #[error("the API key is empty; {KEY_FORM}")]
    KeyEmpty,
    /// A variable where the key should be.
    #[error("the API key cannot come from a variable; {KEY_FORM}")]
    KeyVariable,
    /// The key is given in two ways.
    #[error(
        "the API key is given already, in {place}; expected one of \"ratelimitly_auth_key\" and \"ratelimitly_auth_key_file\""
    )]
    TwoKeys {
        /// Where the other one stands.
        place: Place,
    },
    /// A key in the place of its file's path.
    #[error(
        "the path holds an API key; expected the path of a file with the key, or \"ratelimitly_auth_key\" before the key"
    )]
    KeyForPath,
    /// The key file cannot be read.
    #[error("\"{path}\" {error}; expected a regular file with the API key alone on one line")]
    KeyFile {
        /// The file as the operator wrote it, shortened for the message.
        path: Excerpt,
        /// What is wrong with it.
        error: ReadError,
    },
    /// The key file holds no line that could be a key.
    #[error("\"{path}\" {error}")]
    KeyFileText {
        /// The file as the operator wrote it, shortened for the message.
        path: Excerpt,
        /// What is wrong with its content.
        error: KeyFileError,
    },
    /// The key file's line is no key.
    #[error("\"{path}\": {problem}")]
    KeyInFile {
        /// The file as the operator wrote it, shortened for the message.
        path: Excerpt,
        /// What is wrong with the line.
        problem: Box<Problem>,
    },
    /// A status.
    #[error("\"{argument}{text}\" {error}")]
    Status {
        /// The argument's name with its `=`, or nothing.
        argument: &'static str,
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: StatusError,
    },
    /// A log level.
    #[error("\"{text}\" {error}")]
    LogLevel {
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: LogLevelError,
    },
    /// `tokens=`.
    #[error("\"tokens={text}\" {error}")]
    Tokens {
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
        /// What is wrong with it.
        error: TokensError,
    },
    /// More tokens than a zone ever grants.
    #[error(
        "\"tokens={tokens}\" is more than zone \"{zone}\" ever grants, whose rate is {limit} in its window; expected at \
         most {limit}, or a higher rate"
    )]
    TokensAboveRate {
        /// The tokens.
        tokens: u16,
        /// The zone as the operator wrote it, shortened for the message.
        zone: Excerpt,
        /// Its rate's tokens.
        limit: u32,
    },
    /// `tokens=` beside guards alone.
    #[error("\"tokens=\" has no zone to ask for tokens, expected a zone or group beside it: {usage}")]
    TokensOfNothing {
        /// The accepted form.
        usage: &'static str,
    },
    /// `off` beside other rules.
    #[error(
        "\"off\" and other rules stand in one context; expected \"ratelimitly off;\" alone, or the other rules"
    )]
    NotAlone,
    /// `time=` without a variable.
    #[error(
        "\"time={text}\" is the same for every request, expected a variable such as $upstream_header_time"
    )]
    ConstantTime {
        /// The value as the operator wrote it, shortened for the message.
        text: Excerpt,
    },
    /// The name of the discovery domain.
    #[error(transparent)]
    DnsName(#[from] DnsNameError),
    /// An address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A nameserver or a parameter of one.
    #[error(transparent)]
    Resolver(#[from] ResolverError),
    /// The policy's arguments.
    #[error(transparent)]
    Policy(#[from] PolicyTextError),
    /// A rule or report without a key.
    #[error(
        "API key required while a rule or report is in effect, expected \"ratelimitly_auth_key rl-aes1...;\" or \
         \"ratelimitly_auth_key rl-cookie1...;\" in the http block"
    )]
    KeyRequired,
    /// The policy asks for more than the key grants.
    #[error(
        "the policy's horizon of {horizon_ms} ms is above the API key's deduplication quota of {quota_ms} ms, expected a \
         shorter unit, fewer replays or smaller gaps"
    )]
    Horizon {
        /// The policy's horizon, milliseconds.
        horizon_ms: u32,
        /// The key's quota, milliseconds.
        quota_ms: u32,
    },
    /// The longest unit of `unit=auto` asks for more than the key grants.
    #[error(
        "with units of up to {max_ms} ms the policy's horizon is {horizon_ms} ms, above the API key's deduplication quota of \
         {quota_ms} ms, expected \"max={most_ms}ms\" or less"
    )]
    LongestHorizon {
        /// The longest unit, milliseconds.
        max_ms: u32,
        /// The horizon that it makes, milliseconds.
        horizon_ms: u32,
        /// The key's quota, milliseconds.
        quota_ms: u32,
        /// The longest unit that the quota allows, milliseconds.
        most_ms: u32,
    },
    /// nginx had no memory.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    /// nginx could not compile a value with variables and has logged why.
    #[error("not a valid template, expected text with variables such as $remote_addr or ${{remote_addr}}")]
    Template(#[from] CompileError),
    /// nginx calls the directive where there is no http block.
    #[error("no http block")]
    NoHttp,
    /// Not one of the faults.
    #[cfg(feature = "fault-injection")]
    #[error("unknown fault \"{argument}\", expected {usage}")]
    Fault {
        /// The argument as the operator wrote it, shortened for the message.
        argument: Excerpt,
        /// The accepted form.
        usage: &'static str,
    },
}

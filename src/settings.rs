//! What the http block settles for a worker: the key, the policy, how discovery asks. And what an operator has chosen for
//! the requests of a location: what a failure means, the statuses, the log line, what is reported. Pure data.
//!
//! Made by `conf` while nginx loads; read by the worker's rooms and by the handlers. Nothing here is written once loading has
//! ended.

use crate::fault::Faults;
use crate::nginx::complex_value::ComplexValue;
use crate::nginx::conf::ResolverSettings;
use crate::nginx::log::Level;
use crate::nginx::phases::VariableRange;
use ratelimitly_core::breaker;
use ratelimitly_core::key::ApiKey;
use ratelimitly_core::policy::Policy;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

/// What happens to a request without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// It goes on.
    Open,
    /// It is refused.
    Close,
}

/// What becomes of the requests of a location that get no verdict or a denial. A request keeps a copy of where it asked,
/// because internal routing changes the location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enforcement {
    /// What happens without a verdict.
    pub fail: Fail,
    /// The status of a request that `fail` refuses, 400 to 599.
    pub fail_status: u16,
    /// The status of a request that a zone denies, 400 to 599.
    pub deny_status: u16,
    /// The status of a request that guards alone deny, 400 to 599; `None`: `deny_status`.
    pub guard_status: Option<u16>,
    /// The level of the line about a refused request; `None`: no line.
    pub log_level: Option<Level>,
}

impl Enforcement {
    /// The status of a denial; `guards_alone`: no zone has refused.
    pub fn denial(&self, guards_alone: bool) -> u16 {
        self.guard_status.filter(|_| guards_alone).unwrap_or(self.deny_status)
    }
}

impl Default for Enforcement {
    fn default() -> Enforcement {
        Enforcement {
            fail: Fail::Open,
            fail_status: 429,
            deny_status: 429,
            guard_status: None,
            log_level: None,
        }
    }
}

/// Which requests are reported to a tracker, and what of them. The log phase decides, so that it is known how they ended.
pub struct ReportTerms {
    /// The tracker's name, for messages.
    pub tracker: Rc<[u8]>,
    /// `if=`: no report where it is empty or `0`.
    pub condition: Option<ComplexValue>,
    /// `time=`: what is reported instead of the request's duration, as nginx writes seconds.
    pub time: Option<ComplexValue>,
}

/// The settings of the http block.
pub struct Settings {
    /// The key; there is one wherever a rule or a report is in effect.
    pub key: Option<ApiKey>,
    /// The request policy.
    pub policy: Policy,
    /// The UDP socket's source address.
    pub bind: Option<IpAddr>,
    /// Whether debug lines are raised to `info`.
    pub debug: bool,
    /// Whether a worker looks up its servers when it starts.
    pub warm_up: bool,
    /// When a worker stops waiting for silent servers; `None`: never.
    pub breaker: Option<breaker::Settings>,
    /// Whether a zone remembers its refusals.
    pub remembers: bool,
    /// Whether a rule or a report is in effect somewhere.
    pub in_effect: bool,
    /// The name that discovery asks for, `_ratelimitly._udp.<name>`; empty without a key and a name.
    pub srv_name: String,
    /// How discovery asks for it; without nameservers only where no rule and no report is in effect.
    pub dns: ResolverSettings,
    /// Where requests keep the values of this module's variables.
    pub variables: Cell<VariableRange>,
    /// Injected faults.
    pub faults: Rc<Faults>,
}

impl Settings {
    /// The defaults, with this policy.
    pub fn new(policy: Policy) -> Settings {
        Settings {
            key: None,
            policy,
            bind: None,
            debug: false,
            warm_up: false,
            breaker: None,
            remembers: false,
            in_effect: false,
            srv_name: String::new(),
            dns: ResolverSettings::default(),
            variables: Cell::default(),
            faults: Rc::default(),
        }
    }

    /// The level of lines about single requests.
    pub fn detail_level(&self) -> Level {
        if self.debug { Level::Info } else { Level::Debug }
    }
}

//! What only loading needs: the definitions by name, what has been given, what is in effect where, the warnings.
//!
//! `finish` takes it out of the configuration, so that a worker keeps none of it.

use crate::conf::definitions::{Definitions, Group, Guard, Tracker, Zone};
use crate::conf::key::Source;
use crate::conf::problem::Kind;
use crate::conf::rules::InEffect;
use crate::conf::settings::OwnResolver;
use crate::conf::warnings::Warnings;
use crate::nginx::conf::Place;

/// The state of loading one http block.
pub struct Loading {
    /// The zones.
    pub zones: Definitions<Zone>,
    /// The trackers.
    pub trackers: Definitions<Tracker>,
    /// The guards.
    pub guards: Definitions<Guard>,
    /// The groups.
    pub groups: Definitions<Group>,
    /// Directives that have been read.
    pub given: Given,
    /// What servers and locations have in effect.
    pub in_effect: InEffect,
    /// Warnings, noted and written.
    pub warnings: Warnings,
}

/// Directives of the http block that have been read, and where those stand that a later error may name.
#[derive(Default)]
pub struct Given {
    /// `ratelimitly_auth_key` or `ratelimitly_auth_key_file`.
    pub key: Option<(Source, Place)>,
    /// `ratelimitly_dns_srv`: the name that discovery asks for.
    pub srv_name: Option<String>,
    /// `ratelimitly_dns_resolver`.
    pub resolver: Option<OwnResolver>,
    /// Where it stands.
    pub resolver_place: Option<Place>,
    /// `ratelimitly_policy`.
    pub policy: Option<Place>,
    /// Whether it leaves the longest unit of `unit=auto` to the default.
    pub max_unit_is_default: bool,
    /// The first page of this module's own.
    pub page: Option<()>,
    /// Whether there is a `ratelimitly_ready`.
    pub ready: bool,
    /// `ratelimitly_breaker`.
    pub breaker: Option<()>,
    /// `ratelimitly_warm_up`.
    pub warm_up: Option<()>,
    /// `ratelimitly_debug`.
    pub debug: Option<()>,
}

impl Default for Loading {
    fn default() -> Loading {
        Loading {
            zones: Definitions::new(Kind::Zone),
            trackers: Definitions::new(Kind::Tracker),
            guards: Definitions::new(Kind::Guard),
            groups: Definitions::new(Kind::Group),
            given: Given::default(),
            in_effect: InEffect::default(),
            warnings: Warnings::default(),
        }
    }
}

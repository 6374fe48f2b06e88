//! What an operator chooses for the requests of a place, with inheritance: `ratelimitly_fail`, `_fail_status`,
//! `_deny_status`, `_dry_run`, `_log_level`.
//!
//! `commands` calls the directives, `rules` the merge. What comes of it is `crate::settings::Enforcement`, of plain values,
//! and [`DryRun`], which a request may have to decide.

use std::rc::Rc;

use ratelimitly_config::log_level::{self, LogLevel};
use ratelimitly_config::status;
use ratelimitly_config::text::Excerpt;

use crate::conf::define::named;
use crate::conf::problem::Problem;
use crate::conf::settings::{only, set_once, some};
use crate::conf::warnings::{About, When};
use crate::conf::{LocationConf, MainConf};
use crate::nginx::complex_value::ComplexValue;
use crate::nginx::conf::{Conf, Place};
use crate::nginx::log::Level;
use crate::settings::{Enforcement, Fail};

const FAIL: &str = "ratelimitly_fail open|close";
const FAIL_STATUS: &str = "ratelimitly_fail_status <code>";
const DENY_STATUS: &str = "ratelimitly_deny_status <code> [guard=<code>]";
const DRY_RUN: &str = "ratelimitly_dry_run on|off|<template with variables>";
const LOG_LEVEL: &str = "ratelimitly_log_level off|info|notice|warn|error";

/// Whether the rules of a place are only tried out.
#[derive(Clone, Default)]
pub enum DryRun {
    /// They are enforced.
    #[default]
    Off,
    /// They are asked, and not enforced.
    On,
    /// Each request decides.
    Template(Rc<ComplexValue>),
}

/// What the directives of one context say, and `None` where they say nothing.
#[derive(Clone, Default)]
pub struct Own {
    fail: Option<(Fail, Place)>,
    fail_status: Option<u16>,
    /// The status of a denial, and the one where only guards refused.
    deny_status: Option<(u16, Option<u16>)>,
    dry_run: Option<DryRun>,
    log_level: Option<Option<Level>>,
}

/// `ratelimitly_fail`; the last one in a context wins.
pub fn fail(cf: &Conf, main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    let fail = match only(cf, FAIL)? {
        word if word.eq_ignore_ascii_case(b"open") => Fail::Open,
        word if word.eq_ignore_ascii_case(b"close") => Fail::Close,
        other => return Err(Problem::Choice { text: Excerpt::new(other), usage: FAIL }),
    };
    if let Some((_, before)) = location.own.fail.replace((fail, cf.place())) {
        let message = format_args!("replaces the one in {before}; expected once: {FAIL}");
        main.loading.warnings.note(cf, About::Repeated, When::Always, "ratelimitly_fail", message);
    }
    Ok(())
}

/// `ratelimitly_fail_status`.
pub fn fail_status(cf: &Conf, _main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    set_once(&mut location.own.fail_status, FAIL_STATUS, code("", only(cf, FAIL_STATUS)?)?)
}

/// `ratelimitly_deny_status`.
pub fn deny_status(cf: &Conf, _main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    let arguments = some(cf, DENY_STATUS)?;
    let zone = code("", arguments[0])?;
    let [guard] = named(&arguments[1..], ["guard"], DENY_STATUS)?;
    let guard = guard.map(|text| code("guard=", text)).transpose()?;
    set_once(&mut location.own.deny_status, DENY_STATUS, (zone, guard))
}

fn code(argument: &'static str, text: &[u8]) -> Result<u16, Problem> {
    status::parse(text).map_err(|error| Problem::Status { argument, text: Excerpt::new(text), error })
}

/// `ratelimitly_dry_run`. Any other text without variables is a slip: it would mean the same for every request.
pub fn dry_run(cf: &Conf, _main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    let dry_run = match only(cf, DRY_RUN)? {
        word if word.eq_ignore_ascii_case(b"on") => DryRun::On,
        word if word.eq_ignore_ascii_case(b"off") => DryRun::Off,
        text => match ComplexValue::compile(cf, text)? {
            Some(value) => DryRun::Template(Rc::new(value)),
            None => return Err(Problem::Choice { text: Excerpt::new(text), usage: DRY_RUN }),
        },
    };
    set_once(&mut location.own.dry_run, DRY_RUN, dry_run)
}

/// `ratelimitly_log_level`.
pub fn log_level(cf: &Conf, _main: &mut MainConf, location: &mut LocationConf) -> Result<(), Problem> {
    let text = only(cf, LOG_LEVEL)?;
    let level = match log_level::parse(&text.to_ascii_lowercase()) {
        Ok(LogLevel::Off) => None,
        Ok(LogLevel::Info) => Some(Level::Info),
        Ok(LogLevel::Notice) => Some(Level::Notice),
        Ok(LogLevel::Warn) => Some(Level::Warn),
        Ok(LogLevel::Error) => Some(Level::Error),
        Err(error) => return Err(Problem::LogLevel { text: Excerpt::new(text), error }),
    };
    set_once(&mut location.own.log_level, LOG_LEVEL, level)
}

/// Completes `child` with what it inherits from `parent`. nginx merges no configuration into the http block's own, so a
/// server takes what that block says and the defaults for the rest.
pub fn merge(parent: &LocationConf, child: &mut LocationConf) {
    let (own, inherited) = (&mut child.own, &parent.own);
    own.fail = own.fail.take().or_else(|| inherited.fail.clone());
    own.fail_status = own.fail_status.or(inherited.fail_status);
    own.deny_status = own.deny_status.or(inherited.deny_status);
    own.dry_run = own.dry_run.take().or_else(|| inherited.dry_run.clone());
    own.log_level = own.log_level.or(inherited.log_level);
    child.dry_run = own.dry_run.clone().unwrap_or_default();
    child.enforcement = own.enforcement();
}

impl Own {
    fn enforcement(&self) -> Enforcement {
        let default = Enforcement::default();
        let (deny_status, guard_status) = self.deny_status.unwrap_or((default.deny_status, None));
        Enforcement {
            fail: self.fail.as_ref().map_or(default.fail, |(fail, _)| *fail),
            fail_status: self.fail_status.unwrap_or(default.fail_status),
            deny_status,
            guard_status,
            log_level: self.log_level.unwrap_or(default.log_level),
        }
    }
}

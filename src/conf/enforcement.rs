//! What an operator chooses for the requests of a place, with inheritance: `ratelimitly_fail`.
//!
//! `commands` calls the directives, `rules` the merge. What comes of it is `crate::settings::Enforcement`, of plain values, and
//! [`DryRun`], which a request may have to decide.

use std::rc::Rc;

use ratelimitly_config::text::Excerpt;

use crate::conf::problem::Problem;
use crate::conf::settings::only;
use crate::conf::template::Template;
use crate::conf::warnings::{About, When};
use crate::conf::{LocationConf, MainConf};
use crate::nginx::conf::{Conf, Place};
use crate::settings::{Enforcement, Fail};

const FAIL: &str = "ratelimitly_fail open|close";

/// Whether the rules of a place are only tried out.
#[derive(Clone, Default)]
pub enum DryRun {
    /// They are enforced.
    #[default]
    Off,
    /// They are asked, and not enforced.
    On,
    /// Each request decides.
    Template(Rc<Template>),
}

/// What the directives of one context say, and `None` where they say nothing.
#[derive(Clone, Default)]
pub struct Own {
    fail: Option<(Fail, Place)>,
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

/// Completes `child` with what it inherits from `parent`. nginx merges no configuration into the http block's own, so a
/// server takes what that block says and the defaults for the rest.
pub fn merge(parent: &LocationConf, child: &mut LocationConf) {
    let (own, inherited) = (&mut child.own, &parent.own);
    own.fail = own.fail.take().or_else(|| inherited.fail.clone());
    let default = Enforcement::default();
    child.enforcement =
        Enforcement { fail: own.fail.as_ref().map_or(default.fail, |(fail, _)| *fail), ..default };
}

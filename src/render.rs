//! From a location's rules to the blocks of one admission: evaluates the templates for a request, checks the values
//! and computes their ids.
//!
//! Called by the phase handler, once for each admission, and for the report's tracker. What holds no variable was
//! computed while loading and is borrowed; a warm buffer takes the rest, so nothing is allocated but what nginx puts
//! into the request's pool. It sends nothing and decides nothing.

use std::fmt;
use std::rc::Rc;

use ratelimitly_config::condition;
use ratelimitly_config::duration::{self, DurationError};
use ratelimitly_config::rate::{Rate, RateError};
use ratelimitly_config::text::Excerpt;
use ratelimitly_core::client::Ask;
use ratelimitly_core::id::{TrackerId, TrackerSettings};
use ratelimitly_core::wire::{Guard as GuardBlock, MAX_LABEL, Resource};

use crate::conf::{DryRun, Guard, Label, LocationConf, NAME_MAX, Parsed, Template, Tracker, Zone};
use crate::nginx::complex_value::EvaluateError;
use crate::nginx::request::Request;

/// Recycled space for rendered blocks. Take it out of its owner before rendering: variables run other modules' code.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Resource blocks.
    pub resources: Vec<Resource>,
    /// Guard blocks.
    pub guards: Vec<GuardBlock>,
}

/// What a refused value belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A zone's bucket or rate.
    Zone(Rc<[u8]>),
    /// A guard's service or threshold.
    Guard(Rc<[u8]>),
    /// A report's service.
    Tracker(Rc<[u8]>),
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
            | RenderError::Threshold { owner, .. } => owner.clone(),
            RenderError::LabelTooLong { .. } => Owner::Label,
            RenderError::Internal(_) => Owner::Request,
        }
    }

    /// Whether this is an internal failure (500) and not a refused value, which follows `ratelimitly_fail`.
    pub fn is_internal(&self) -> bool {
        matches!(self, RenderError::Internal(_))
    }
}

/// Renders what is in effect at `conf` for this request; nothing at all where it has no rules.
///
/// # Errors
/// [`RenderError`] for the first value that is refused, in the order zones, guards, label.
pub fn render<'a>(
    request: &'a Request,
    conf: &'a LocationConf,
    buffers: &'a mut Buffers,
) -> Result<Ask<'a>, RenderError> {
    let Buffers { resources, guards } = buffers;
    let label = match &conf.label {
        Some(label) => render_label(request, label)?,
        None => &[],
    };
    let Some(admission) = &conf.admission else {
        return Ok(Ask { resources: &[], guards: &[], label });
    };
    let resources = match &admission.fixed_resources {
        Some(fixed) => fixed,
        None => collect(resources, &admission.zones, |zone| render_zone(request, zone))?,
    };
    let guards = match &admission.fixed_guards {
        Some(fixed) => fixed,
        None => collect(guards, &admission.guards, |guard| render_guard(request, guard))?,
    };
    Ok(Ask { resources, guards, label })
}

/// Whether this request's rules are only tried out.
///
/// # Errors
/// [`RenderError::Internal`] where nginx fails.
pub fn render_dry_run(request: &Request, dry_run: &DryRun) -> Result<bool, RenderError> {
    Ok(match dry_run {
        DryRun::Off => false,
        DryRun::On => true,
        DryRun::Template(template) => condition::is_dry_run(template.value(request)?),
    })
}

/// The tracker that a report of this request goes to.
///
/// # Errors
/// [`RenderError`] for a service that is refused.
pub fn render_tracker(
    request: &Request,
    tracker: &Tracker,
) -> Result<(TrackerId, TrackerSettings), RenderError> {
    let id = tracker_id(request, tracker, || Owner::Tracker(Rc::clone(&tracker.name)))?;
    Ok((id, tracker.settings))
}

/// Fills a recycled buffer with one block for each definition.
fn collect<'a, T, D>(
    blocks: &'a mut Vec<T>,
    definitions: &[Rc<D>],
    render: impl Fn(&D) -> Result<T, RenderError>,
) -> Result<&'a [T], RenderError> {
    blocks.clear();
    for definition in definitions {
        blocks.push(render(definition)?);
    }
    Ok(blocks)
}

fn render_zone(request: &Request, zone: &Zone) -> Result<Resource, RenderError> {
    if let Some(fixed) = zone.fixed {
        return Ok(fixed);
    }
    let owner = || Owner::Zone(Rc::clone(&zone.name));
    let rate = match &zone.rate {
        Parsed::Fixed(rate) => *rate,
        Parsed::Rendered(value) => {
            let text = value.evaluate(request)?;
            let refused = |error| RenderError::Rate { text: Excerpt::new(text), owner: owner(), error };
            Rate::parse(text).map_err(refused)?
        }
    };
    let bucket = checked_name(request, &zone.bucket, "bucket", owner)?;
    Ok(Zone::resource(bucket, rate))
}

fn render_guard(request: &Request, guard: &Guard) -> Result<GuardBlock, RenderError> {
    if let Some(fixed) = guard.fixed {
        return Ok(fixed);
    }
    let owner = || Owner::Guard(Rc::clone(&guard.name));
    let threshold_ms = match &guard.threshold {
        Parsed::Fixed(threshold_ms) => *threshold_ms,
        Parsed::Rendered(value) => {
            let text = value.evaluate(request)?;
            let refused = |error| RenderError::Threshold { text: Excerpt::new(text), owner: owner(), error };
            duration::parse_ms(text).map_err(refused)?
        }
    };
    let tracker = tracker_id(request, &guard.tracker, owner)?;
    Ok(GuardBlock { tracker, settings: guard.tracker.settings, threshold_ms })
}

fn tracker_id(
    request: &Request,
    tracker: &Tracker,
    owner: impl Fn() -> Owner,
) -> Result<TrackerId, RenderError> {
    if let Some(fixed) = tracker.fixed {
        return Ok(fixed);
    }
    let service = checked_name(request, &tracker.service, "service", owner)?;
    Ok(TrackerId::new(service, tracker.settings))
}

/// A bucket's or a service's bytes, 1..=1024 of them.
fn checked_name<'a>(
    request: &'a Request,
    template: &'a Template,
    what: &'static str,
    owner: impl Fn() -> Owner,
) -> Result<&'a [u8], RenderError> {
    let name = template.value(request)?;
    match name.len() {
        0 => Err(RenderError::Empty { what, owner: owner() }),
        len if len > NAME_MAX => Err(RenderError::TooLong { what, owner: owner(), len }),
        _ => Ok(name),
    }
}

/// The label, empty where none is sent.
fn render_label<'a>(request: &'a Request, label: &'a Label) -> Result<&'a [u8], RenderError> {
    match label.value(request)? {
        text if text.len() > MAX_LABEL => Err(RenderError::LabelTooLong { len: text.len() }),
        text => Ok(text),
    }
}

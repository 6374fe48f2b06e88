//! From a location's rules to the blocks of one admission: evaluates the templates for a request, checks the values
//! and computes their ids.
//!
//! Called by the phase handler, once for each admission, for the report's tracker, and in the log phase for what is
//! reported. What holds no variable was
//! computed while loading and is borrowed; a warm buffer takes the rest, so nothing is allocated but what nginx puts
//! into the request's pool. It sends nothing and decides nothing.

mod refused;

use std::rc::Rc;

use ratelimitly_config::condition;
use ratelimitly_config::duration;
use ratelimitly_config::rate::Rate;
use ratelimitly_config::seconds;
use ratelimitly_config::text::Excerpt;
use ratelimitly_config::tokens;
use ratelimitly_core::client::Ask;
use ratelimitly_core::id::{TrackerId, TrackerSettings};
use ratelimitly_core::wire::{Guard as GuardBlock, MAX_LABEL, Resource};

use crate::conf::{
    Admission, DryRun, Guard, Label, Line, LocationConf, NAME_MAX, Parsed, Selection, TOKENS, Template,
    Tracker, Zone,
};
use crate::nginx::request::Request;
use crate::settings::ReportTerms;
pub use refused::{Owner, RenderError};

/// Recycled space for rendered blocks. Take it out of its owner before rendering: variables run other modules' code.
#[derive(Debug, Default)]
pub struct Buffers {
    /// Resource blocks.
    pub resources: Vec<Resource>,
    /// Guard blocks.
    pub guards: Vec<GuardBlock>,
    /// Of each resource block, the index of its zone in the admission; used where lines are asked one by one.
    pub zone_indices: Vec<usize>,
    /// Of each guard block, the index of its guard.
    pub guard_indices: Vec<usize>,
}

/// What one request asks.
pub struct Question<'a> {
    /// The blocks.
    pub ask: Ask<'a>,
    /// Which of the admission's zones and guards they are.
    pub selection: Selection<'a>,
}

/// Renders what is in effect at `conf` for this request. `None`: it has no rule, or none of its rules asks anything of this
/// request.
///
/// # Errors
/// [`RenderError`] for the first value that is refused: of the rules in their order, then of the label.
pub fn render<'a>(
    request: &'a Request,
    conf: &'a LocationConf,
    buffers: &'a mut Buffers,
) -> Result<Option<Question<'a>>, RenderError> {
    let Some(admission) = &conf.admission else { return Ok(None) };
    let (resources, guards, selection) = match &admission.lines {
        None => whole(request, admission, buffers)?,
        Some(lines) => of_lines(request, admission, lines, buffers)?,
    };
    if resources.is_empty() && guards.is_empty() {
        return Ok(None);
    }
    let label = match &conf.label {
        Some(label) => render_label(request, label)?,
        None => &[],
    };
    Ok(Some(Question { ask: Ask { resources, guards, label }, selection }))
}

type Blocks<'a> = (&'a [Resource], &'a [GuardBlock], Selection<'a>);

/// Every zone and guard.
fn whole<'a>(
    request: &Request,
    admission: &'a Admission,
    buffers: &'a mut Buffers,
) -> Result<Blocks<'a>, RenderError> {
    let Buffers { resources, guards, .. } = buffers;
    let resources = match &admission.fixed_resources {
        Some(fixed) => fixed,
        None => collect(resources, &admission.zones, |zone| render_zone(request, zone, TOKENS))?,
    };
    let guards = match &admission.fixed_guards {
        Some(fixed) => fixed,
        None => collect(guards, &admission.guards, |guard| render_guard(request, guard))?,
    };
    Ok((resources, guards, Selection::All))
}

/// The zones and guards of the lines that apply.
fn of_lines<'a>(
    request: &Request,
    admission: &Admission,
    lines: &[Line],
    buffers: &'a mut Buffers,
) -> Result<Blocks<'a>, RenderError> {
    let Buffers { resources, guards, zone_indices, guard_indices } = buffers;
    resources.clear();
    guards.clear();
    zone_indices.clear();
    guard_indices.clear();
    for line in lines {
        if !line.condition.applies(request)? {
            continue;
        }
        let tokens = render_tokens(request, line)?;
        for index in line.zones.clone().take_while(|_| tokens > 0) {
            resources.push(render_zone(request, &admission.zones[index], tokens)?);
            zone_indices.push(index);
        }
        for &index in &line.guards {
            if !guard_indices.contains(&index) {
                guards.push(render_guard(request, &admission.guards[index])?);
                guard_indices.push(index);
            }
        }
    }
    Ok((resources, guards, Selection::Some { zones: zone_indices, guards: guard_indices }))
}

/// What the log phase makes of a report's terms: the milliseconds that are reported, or `None` for no report. `duration_ms`
/// is that of the request.
///
/// # Errors
/// [`RenderError`] for a time that is refused.
pub fn render_latency(
    request: &Request,
    terms: &ReportTerms,
    duration_ms: u64,
) -> Result<Option<u64>, RenderError> {
    if let Some(value) = &terms.condition
        && !condition::applies(value.evaluate(request)?)
    {
        return Ok(None);
    }
    let Some(value) = &terms.time else { return Ok(Some(duration_ms)) };
    let text = value.evaluate(request)?;
    let owner = || Owner::Tracker(Rc::clone(&terms.tracker));
    seconds::last_ms(text).map_err(|error| RenderError::Time {
        text: Excerpt::new(text),
        owner: owner(),
        error,
    })
}

/// Whether this request's rules are only tried out.
///
/// # Errors
/// [`RenderError::Internal`] where nginx fails.
pub fn render_dry_run(request: &Request, dry_run: &DryRun) -> Result<bool, RenderError> {
    Ok(match dry_run {
        DryRun::Off => false,
        DryRun::On => true,
        DryRun::Template(value) => condition::is_dry_run(value.evaluate(request)?),
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

fn render_tokens(request: &Request, line: &Line) -> Result<u16, RenderError> {
    match &line.tokens {
        Parsed::Fixed(tokens) => Ok(*tokens),
        Parsed::Rendered(value) => {
            let text = value.evaluate(request)?;
            let owner = || Owner::Rule(line.place.clone());
            let refused = |error| RenderError::Tokens { text: Excerpt::new(text), owner: owner(), error };
            tokens::parse(text).map_err(refused)
        }
    }
}

fn render_zone(request: &Request, zone: &Zone, tokens: u16) -> Result<Resource, RenderError> {
    if let Some(fixed) = zone.fixed {
        return Ok(Resource { tokens, ..fixed });
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
    Ok(Zone::resource(bucket, rate, tokens))
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

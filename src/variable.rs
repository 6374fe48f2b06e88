//! The module's variables: what came of the main request's admission, in words, numbers and ready header fields.
//!
//! nginx reads them at any time, in subrequests and in the log phase too. Each is computed from the request's context for
//! each reader and nothing is kept here. Also the name of the slot in which the handler notes how a request came to it,
//! which no configuration can name.

use crate::context::{Context, Decision, Outcome};
use crate::nginx::border;
use crate::nginx::request::{NoMemory, Request};
use crate::nginx::value::Slot;
use ngx::core::Status;
use ngx::ffi::{ngx_http_request_t, ngx_int_t, ngx_variable_value_t};
use ratelimitly_config::fields::{self, FieldList, JsonNames};
use ratelimitly_core::limits::{self, ZoneResult};
use std::cell::RefCell;
use std::rc::Rc;

/// The handler's note (`context::refused_before`). The space keeps configurations from naming it.
pub const PASSAGE: &[u8] = b"ratelimitly passage";

/// A variable's value.
enum Value {
    /// `-` in a log, and no header at all.
    NotFound,
    Word(&'static str),
    /// What was written to the buffer.
    Written,
}

/// Gives the value, with an empty buffer for it.
type Evaluate = fn(&Context, &mut Vec<u8>) -> Value;

const VARIABLES: [(&[u8], Evaluate); 14] = [
    (b"ratelimitly_verdict", |context, _| decided(context, |decision| decision.outcome.verdict())),
    (b"ratelimitly_outcome", outcome),
    (b"ratelimitly_failure", |context, _| decided(context, |decision| Some(decision.cause?.word()))),
    (b"ratelimitly_time", time),
    (b"ratelimitly_server", |context, out| number(out, context.details().server().map(|id| id.0))),
    (b"ratelimitly_denied_by", |context, out| written(context.details().write_refusing(out))),
    (b"ratelimitly_guard_latency", guard_latency),
    (b"ratelimitly_limit", |context, out| of_tightest(context, out, |zone| zone.rate)),
    (b"ratelimitly_remaining", |context, out| of_tightest(context, out, |zone| zone.remaining())),
    (b"ratelimitly_reset", |context, out| of_tightest(context, out, |zone| zone.reset_s())),
    (b"ratelimitly_retry_after", retry_after),
    (b"ratelimitly_policy_header", |context, out| {
        header(context, out, |list, name, zone| list.policy(name, zone.rate, zone.window_ms))
    }),
    (b"ratelimitly_limit_header", |context, out| {
        header(context, out, |list, name, zone| list.limit(name, zone.remaining(), zone.reset_s()))
    }),
    (b"ratelimitly_violated_policies", violated_policies),
];

/// The variables' names.
pub fn names() -> impl Iterator<Item = &'static [u8]> + Clone {
    VARIABLES.iter().map(|(name, _)| *name)
}

/// nginx asks for the value of the variable at position `data`.
pub unsafe extern "C" fn evaluate(
    r: *mut ngx_http_request_t,
    value: *mut ngx_variable_value_t,
    data: usize,
) -> ngx_int_t {
    // SAFETY: nginx evaluates variables of a live request into a slot of its own, for the length of this call.
    let (request, value) = unsafe { (Request::from_ptr(r), &mut *value) };
    match border::guarded("a variable", Ok(None), || text(request, data)) {
        Ok(Some(text)) => Slot::of(value).set(text),
        Ok(None) => Slot::of(value).set_not_found(),
        Err(NoMemory) => return Status::NGX_ERROR.0,
    }
    Status::NGX_OK.0
}

fn text(request: &Request, position: usize) -> Result<Option<&[u8]>, NoMemory> {
    thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    let Some(context) = Context::of(request.main()) else { return Ok(None) };
    BUFFER.with_borrow_mut(|out| {
        out.clear();
        match VARIABLES[position].1(context, out) {
            Value::NotFound => Ok(None),
            Value::Word(word) => Ok(Some(word.as_bytes())),
            Value::Written => request.pool_copy(out).map(Some),
        }
    })
}

fn decided(context: &Context, word: impl FnOnce(Decision) -> Option<&'static str>) -> Value {
    context.decision().and_then(word).map_or(Value::NotFound, Value::Word)
}

fn written(any: bool) -> Value {
    if any { Value::Written } else { Value::NotFound }
}

fn number(out: &mut Vec<u8>, number: Option<u64>) -> Value {
    written(number.inspect(|number| fields::number(out, *number)).is_some())
}

fn outcome(context: &Context, _: &mut Vec<u8>) -> Value {
    if context.is_skipped() {
        return Value::Word("skip");
    }
    decided(context, |decision| Some(decision.outcome.word()))
}

/// Seconds with milliseconds, as `$upstream_response_time` has them.
fn time(context: &Context, out: &mut Vec<u8>) -> Value {
    let Some(Decision { took_ms, .. }) = context.decision() else { return Value::NotFound };
    fields::number(out, took_ms / 1000);
    let ms = (took_ms % 1000) as u16;
    out.extend([b'.', digit(ms / 100), digit(ms / 10), digit(ms)]);
    Value::Written
}

fn digit(number: u16) -> u8 {
    b'0' + (number % 10) as u8
}

/// Of the guard that refused, else of the first one.
fn guard_latency(context: &Context, out: &mut Vec<u8>) -> Value {
    let details = context.details();
    let mut guards = details.guards();
    let refusing = guards.clone().find(|(_, result)| result.refused);
    let latency = refusing.or_else(|| guards.next()).map(|(_, result)| result.latency_ms);
    number(out, latency.map(u64::from))
}

fn of_tightest(context: &Context, out: &mut Vec<u8>, field: impl FnOnce(ZoneResult) -> u32) -> Value {
    let tightest = limits::tightest(context.details().zones().map(|(_, result)| result));
    number(out, tightest.map(|(_, zone)| field(zone).into()))
}

/// Whether a denial is enforced: what a client may be told of it.
fn is_enforced_deny(context: &Context) -> bool {
    context.decision().is_some_and(|decision| decision.outcome == Outcome::Deny)
}

/// The longest wait of all that refused, seconds.
fn retry_after(context: &Context, out: &mut Vec<u8>) -> Value {
    if !is_enforced_deny(context) {
        return Value::NotFound;
    }
    let details = context.details();
    let zones = details.zones().filter(|(_, zone)| zone.refused()).map(|(_, zone)| zone.retry_after_s());
    let guards = details.guards().filter(|(_, result)| result.refused);
    let guards = guards.map(|(guard, _)| limits::guard_retry_after_s(guard.tracker.settings.ttl_ms));
    number(out, zones.chain(guards).max().map(u64::from))
}

/// A member for each zone that was asked, of repeats the one that `limits::of_repeats` names. Dry run is not for clients.
fn header(
    context: &Context,
    out: &mut Vec<u8>,
    member: impl Fn(&mut FieldList<'_>, &[u8], ZoneResult),
) -> Value {
    if context.is_dry_run() {
        return Value::NotFound;
    }
    let details = context.details();
    let zones = details.zones();
    let mut list = FieldList::new(out);
    for (position, (zone, _)) in zones.clone().enumerate() {
        let is_same = |other: &Rc<_>| Rc::ptr_eq(other, zone);
        if zones.clone().take(position).any(|(other, _)| is_same(other)) {
            continue;
        }
        let repeats = zones.clone().filter(|(other, _)| is_same(other)).map(|(_, result)| result);
        limits::of_repeats(repeats).inspect(|result| member(&mut list, &zone.name, *result));
    }
    written(!out.is_empty())
}

/// A JSON array of the names that refused, for problem details.
fn violated_policies(context: &Context, out: &mut Vec<u8>) -> Value {
    if !is_enforced_deny(context) {
        return Value::NotFound;
    }
    let details = context.details();
    let mut names = JsonNames::new(out);
    details.refusing_zones().chain(details.refusing_guards()).for_each(|name| names.name(name));
    names.end();
    Value::Written
}

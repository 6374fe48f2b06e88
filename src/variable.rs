//! The module's variables: what came of the main request's admission, in words, numbers and ready header fields.
//!
//! nginx reads them at any time, in subrequests and in the log phase too. Each is computed from the request's context for
//! each reader and nothing is kept here. Also the name of the slot in which the handler notes how a request came to it,
//! which no configuration can name.

use crate::context::{Context, Outcome};
use crate::cycle_conf::CycleConf;
use crate::nginx::border;
use crate::nginx::request::{NoMemory, Request};
use crate::nginx::value::Slot;
use ngx::core::Status;
use ngx::ffi::{ngx_http_request_t, ngx_int_t, ngx_variable_value_t};
use ratelimitly_config::fields::{Digits, FieldList, FieldName, JsonNames};
use ratelimitly_core::limits::{self, ZoneResult};
use std::cell::RefCell;
use std::rc::Rc;

/// The handler's note (`context::refused_before`). The space keeps configurations from naming it.
pub const PASSAGE: &[u8] = b"ratelimitly passage";

/// The note that a variable was read before its value was final.
pub const READ: &[u8] = b"ratelimitly read";

/// A variable's value. `None` in place of it is `-` in a log, and no header at all.
enum Value {
    Word(&'static str),
    Number(Digits),
}

/// How a value is computed.
#[derive(Clone, Copy)]
enum Evaluate {
    /// Without memory.
    Short(fn(&Context) -> Option<Value>),
    /// Into an empty buffer. `false`: the variable is not found.
    Long(fn(&Context, &mut Vec<u8>) -> bool),
}

use Evaluate::{Long, Short};

const VARIABLES: [(&[u8], Evaluate); 14] = [
    (b"ratelimitly_verdict", Short(|context| Some(Value::Word(context.decision()?.outcome.verdict()?)))),
    (b"ratelimitly_outcome", Short(outcome)),
    (b"ratelimitly_failure", Short(|context| Some(Value::Word(context.decision()?.cause?.word())))),
    (b"ratelimitly_time", Short(time)),
    (b"ratelimitly_server", Short(|context| number(context.details().server()?.0))),
    (b"ratelimitly_denied_by", Long(denied_by)),
    (b"ratelimitly_guard_latency", Short(guard_latency)),
    (b"ratelimitly_limit", Short(|context| of_tightest(context, |zone| zone.rate))),
    (b"ratelimitly_remaining", Short(|context| of_tightest(context, |zone| zone.remaining()))),
    (b"ratelimitly_reset", Short(|context| of_tightest(context, |zone| zone.reset_s()))),
    (b"ratelimitly_retry_after", Short(retry_after)),
    (
        b"ratelimitly_policy_header",
        Long(|context, out| {
            header(context, out, |list, name, zone| list.policy(name, zone.rate, zone.window_ms))
        }),
    ),
    (
        b"ratelimitly_limit_header",
        Long(|context, out| {
            header(context, out, |list, name, zone| list.limit(name, zone.remaining(), zone.reset_s()))
        }),
    ),
    (b"ratelimitly_violated_policies", Long(violated_policies)),
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

/// The text. It stays as long as the request.
fn text(request: &Request, position: usize) -> Result<Option<&[u8]>, NoMemory> {
    thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    let context = Context::of(request.main());
    if !context.is_some_and(Context::is_decided) {
        // nginx keeps what an early reader gets; the log must see the decision.
        let settings = CycleConf::of_request(request).settings();
        request.note_reader(settings.variables.get());
    }
    let Some(context) = context else { return Ok(None) };
    match VARIABLES[position].1 {
        Short(value) => match value(context) {
            None => Ok(None),
            Some(Value::Word(word)) => Ok(Some(word.as_bytes())),
            Some(Value::Number(digits)) => request.pool_copy(digits.as_bytes()).map(Some),
        },
        Long(write) => BUFFER.with_borrow_mut(|out| {
            out.clear();
            if write(context, out) { request.pool_copy(out).map(Some) } else { Ok(None) }
        }),
    }
}

fn number(number: u64) -> Option<Value> {
    Some(Value::Number(Digits::of(number)))
}

fn outcome(context: &Context) -> Option<Value> {
    Some(Value::Word(match context.decision() {
        Some(decision) => decision.outcome.word(),
        None if context.is_skipped() => "skip",
        None => return None,
    }))
}

/// Seconds with milliseconds, as `$upstream_response_time` has them.
fn time(context: &Context) -> Option<Value> {
    let decision = context.decision().filter(|decision| decision.outcome != Outcome::DenyRemembered)?;
    Some(Value::Number(Digits::of_seconds(decision.took_ms)))
}

/// Of the guard that refused, else of the first one.
fn guard_latency(context: &Context) -> Option<Value> {
    let details = context.details();
    let mut guards = details.guards();
    let refusing = guards.clone().find(|(_, result)| result.refused);
    let (_, result) = refusing.or_else(|| guards.next())?;
    number(result.latency_ms.into())
}

fn of_tightest(context: &Context, field: impl FnOnce(ZoneResult) -> u32) -> Option<Value> {
    let (_, zone) = limits::tightest(context.details().zones().map(|(_, result)| result))?;
    number(field(zone).into())
}

/// Whether a denial is enforced: what a client may be told of it.
fn is_enforced_deny(context: &Context) -> bool {
    let enforced = [Outcome::Deny, Outcome::DenyRemembered];
    context.decision().is_some_and(|decision| enforced.contains(&decision.outcome))
}

/// What refused. An answer that allows holds no refusal.
fn denied_by(context: &Context, out: &mut Vec<u8>) -> bool {
    let allowed = context.decision().is_some_and(|decision| decision.outcome == Outcome::Allow);
    !allowed && context.details().write_refusing(out)
}

/// The longest wait of all that refused, seconds.
fn retry_after(context: &Context) -> Option<Value> {
    if !is_enforced_deny(context) {
        return None;
    }
    let details = context.details();
    if let Some(left_ms) = details.remembered_ms() {
        return number(left_ms.div_ceil(1000));
    }
    let zones = details.zones().filter(|(_, zone)| zone.refused()).map(|(_, zone)| zone.retry_after_s());
    let guards = details.guards().filter(|(_, result)| result.refused);
    let guards = guards.map(|(guard, _)| limits::guard_retry_after_s(guard.tracker.settings.ttl_ms));
    number(zones.chain(guards).max()?.into())
}

/// A member for each zone that was asked, of repeats the one that `limits::of_repeats` names. Dry run is not for clients.
fn header(
    context: &Context,
    out: &mut Vec<u8>,
    member: impl Fn(&mut FieldList<'_>, &FieldName, ZoneResult),
) -> bool {
    if context.is_dry_run() {
        return false;
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
        limits::of_repeats(repeats).inspect(|result| member(&mut list, &zone.field_name, *result));
    }
    !out.is_empty()
}

/// A JSON array of the names that refused, for problem details.
fn violated_policies(context: &Context, out: &mut Vec<u8>) -> bool {
    if !is_enforced_deny(context) {
        return false;
    }
    let details = context.details();
    let mut names = JsonNames::new(out);
    details.refusing_zones().chain(details.refusing_guards()).for_each(|name| names.name(name));
    names.end();
    true
}

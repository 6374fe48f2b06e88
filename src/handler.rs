//! The two moments at which nginx calls the module for a request: the end of the pre-content phase, where it is
//! admitted, and the log phase, where its latency is reported.
//!
//! They decide what nginx does next and nothing else: rendering is `render`'s, waiting the driver's.

use crate::conf::{Admission, LocationConf, Selection};
use crate::context::{self, Cause, Context, Decision, End, ReportTo};
use crate::cycle_conf::CycleConf;
use crate::driver::{Refused, Unavailable};
use crate::fault::Fault;
use crate::nginx::border;
use crate::nginx::clock;
use crate::nginx::request::{NoMemory, Request, WatchError};
use crate::render::{self, Buffers, Owner, Question, RenderError};
use ngx::core::Status;
use ngx::ffi::{ngx_http_request_t, ngx_int_t};
use ngx::http::HTTPStatus;
use ratelimitly_core::client::StartError;
use ratelimitly_core::wire::Observation;
use std::fmt::Display;
use std::rc::Rc;

const INTERNAL: HTTPStatus = HTTPStatus::INTERNAL_SERVER_ERROR;

/// The last handler of the pre-content phase.
pub unsafe extern "C" fn precontent(r: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: nginx runs phases on a live request and does not free it before this returns.
    let request = unsafe { Request::from_ptr(r) };
    let kept = CycleConf::of_request(request);
    let status = border::catch("the pre-content handler", || admit(request, kept));
    let after_a_panic = || {
        border::guarded("the end after a panic", INTERNAL.into(), || {
            refuse_internally(request, kept, &"a panic")
        })
    };
    status.unwrap_or_else(after_a_panic).0
}

/// The log phase.
pub unsafe extern "C" fn log(r: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: nginx logs a request before it frees it.
    let request = unsafe { Request::from_ptr(r) };
    border::guarded("the log handler", (), || report(request));
    Status::NGX_OK.0
}

fn admit(request: &Request, kept: &CycleConf) -> Status {
    if !request.is_main() {
        return Status::NGX_DECLINED;
    }
    if request.is_post_action() {
        // The response is over, or the client has gone: nothing is left to be admitted.
        if let Some(context) = Context::of(request) {
            context.abandon();
        }
        return Status::NGX_DECLINED;
    }
    if context::refused_before(request, kept.conf.passage.get()) {
        return Status::NGX_DECLINED;
    }
    let location = LocationConf::of_request(request);
    if location.admission.is_none() && location.report.is_none() {
        return Status::NGX_DECLINED;
    }
    let Some(context) = Context::of_or_new(request) else { return INTERNAL.into() };
    if let Some(decision) = context.decision() {
        return status(context, decision);
    }
    if context.is_waiting() {
        return Status::NGX_AGAIN;
    }
    context.settle_report(|| report_to(request, kept, location));
    match &location.admission {
        Some(admission) => start(request, context, kept, location, admission),
        None => pass(kept, location),
    }
}

/// Nothing is asked here; a report may be sent at the end.
fn pass(kept: &CycleConf, location: &LocationConf) -> Status {
    if location.report.is_some() {
        kept.worker.prepare_report(kept.settings(), &kept.conf.shared);
    }
    Status::NGX_DECLINED
}

/// What a decided request's handler returns: a refusal's status once, "declined" otherwise. After a refusal only the
/// operator's `error_page` enters the handler again, and its page is part of the refusal.
///
/// `NGX_OK` would also lead to content, but past the checks of modules that have moved behind this one.
fn status(context: &Context, decision: Decision) -> Status {
    match decision.refusal() {
        Some(status) if context.first_return() => status.into(),
        Some(_) | None => Status::NGX_DECLINED,
    }
}

fn decide(request: &Request, context: &Context, kept: &CycleConf, end: End) -> Status {
    context.decide(request, kept.settings().variables.get(), &kept.conf.shared, end);
    context.decision().map_or(Status::NGX_DECLINED, |decision| status(context, decision))
}

fn refuse_internally(request: &Request, kept: &CycleConf, cause: &dyn Display) -> Status {
    if !request.is_main() {
        // The context in the pool that it shares is the client's request's.
        return INTERNAL.into();
    }
    let log = request.log();
    log.write(
        kept.settings().detail_level(),
        format_args!("ratelimitly: admission failure=internal: {cause}"),
    );
    kept.worker.notes().failed_internally(log, cause);
    let Some(context) = Context::of_or_new(request) else { return INTERNAL.into() };
    context.cancel();
    decide(request, context, kept, End::Internal)
}

/// The report in effect here, its tracker rendered; a value that cannot be rendered means that nothing is reported.
fn report_to(request: &Request, kept: &CycleConf, location: &LocationConf) -> Option<ReportTo> {
    let report = location.report.as_ref()?;
    match render::render_tracker(request, &report.tracker) {
        Ok((tracker, settings)) => Some(ReportTo { tracker, settings, terms: report.terms.clone() }),
        Err(error) => {
            kept.note_refused_value(request.log(), error.owner(), &error);
            None
        }
    }
}

/// Why an admission did not start; nothing was sent.
#[derive(Debug, thiserror::Error)]
enum NotStarted {
    #[error(transparent)]
    Render(#[from] RenderError),
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("this worker has stopped waiting for silent servers")]
    Breaker,
}

/// What became of rules that are in effect.
enum Started {
    /// A question is on its way.
    Asked,
    /// The worker remembers that the question is refused.
    Remembered,
    /// None of them applies to this request.
    Skipped,
}

fn start(
    request: &Request,
    context: &Context,
    kept: &CycleConf,
    location: &LocationConf,
    admission: &Rc<Admission>,
) -> Status {
    if kept.settings().faults.fires(Fault::HandlerPanic) {
        panic!("injected panic in the handler");
    }
    let mut buffers = kept.take_buffers();
    let started = try_start(request, context, location, admission, kept, &mut buffers);
    kept.return_buffers(buffers);
    match started {
        Ok(Started::Skipped) => {
            context.skip(request, kept.settings().variables.get());
            pass(kept, location)
        }
        Ok(Started::Remembered) => decide(request, context, kept, End::Remembered),
        Ok(Started::Asked) if kept.settings().faults.fires(Fault::Watch) => {
            refuse_internally(request, kept, &WatchError)
        }
        Ok(Started::Asked) => match request.suspend() {
            Ok(()) => Status::NGX_AGAIN,
            Err(error) => refuse_internally(request, kept, &error),
        },
        Err(cause) => match cause.cause() {
            Cause::Internal => refuse_internally(request, kept, &cause),
            word => {
                note_not_started(request, location, kept, &cause);
                decide(request, context, kept, End::Failed(word))
            }
        },
    }
}

/// Asks, unless no rule applies to this request: then the answer is `false`.
fn try_start(
    request: &Request,
    context: &Context,
    location: &LocationConf,
    admission: &Rc<Admission>,
    kept: &CycleConf,
    buffers: &mut Buffers,
) -> Result<Started, NotStarted> {
    kept.worker.notes().admission_begins();
    context.set_enforcement(location.enforcement, render::render_dry_run(request, &location.dry_run)?);
    let Some(question) = render::render(request, location, buffers)? else { return Ok(Started::Skipped) };
    if context.is_skipped() {
        // Since then a reader may have cached the outcome `skip`.
        request.forget_variables(kept.settings().variables.get());
    }
    let Question { ask, selection } = question;
    context.ask(request, admission, &ask, selection)?;
    let driver = kept.worker.driver(kept.settings(), &kept.conf.shared)?;
    if admission.remembers && driver.recalls(context) {
        return Ok(Started::Remembered);
    }
    if !driver.admits(&ask) {
        return Err(NotStarted::Breaker);
    }
    driver.start(context, &ask).map_err(|refused| in_admission(refused, selection))?;
    Ok(Started::Asked)
}

/// The core counts the question's resources; a message names the admission's zone.
fn in_admission(refused: Refused, selection: Selection<'_>) -> Refused {
    match refused {
        Refused::Start(StartError::WindowAboveQuota { resource, window_ms, max_ms }) => {
            let resource = selection.zone(resource);
            Refused::Start(StartError::WindowAboveQuota { resource, window_ms, max_ms })
        }
        other => other,
    }
}

impl NotStarted {
    /// The cause in the admission's log line and in `$ratelimitly_failure`.
    fn cause(&self) -> Cause {
        match self {
            NotStarted::Render(error) if error.is_internal() => Cause::Internal,
            NotStarted::NoMemory(_) | NotStarted::Refused(Refused::Broken) => Cause::Internal,
            NotStarted::Breaker => Cause::Breaker,
            NotStarted::Render(_) | NotStarted::Refused(Refused::Start(StartError::Encode(_))) => {
                Cause::InvalidValue
            }
            NotStarted::Refused(Refused::Start(StartError::WindowAboveQuota { .. })) => {
                Cause::WindowAboveQuota
            }
            NotStarted::Refused(Refused::Start(StartError::NoMembers)) => Cause::Discovery,
            NotStarted::Refused(Refused::Unavailable(_)) | NotStarted::Unavailable(_) => {
                Cause::WorkerNotSetUp
            }
        }
    }

    /// Whose value is to blame, if one is.
    fn owner(&self, location: &LocationConf) -> Option<Owner> {
        match self {
            NotStarted::Render(error) => Some(error.owner()),
            NotStarted::Refused(Refused::Start(StartError::WindowAboveQuota { resource, .. })) => {
                let zone = location.admission.as_ref().and_then(|rules| rules.zones.get(*resource));
                Some(zone.map_or(Owner::Request, |zone| Owner::Zone(Rc::clone(&zone.name))))
            }
            NotStarted::Refused(Refused::Start(StartError::Encode(_))) => Some(Owner::Request),
            NotStarted::Refused(
                Refused::Start(StartError::NoMembers) | Refused::Broken | Refused::Unavailable(_),
            )
            | NotStarted::Unavailable(_)
            | NotStarted::Breaker
            | NotStarted::NoMemory(_) => None,
        }
    }
}

fn note_not_started(request: &Request, location: &LocationConf, kept: &CycleConf, cause: &NotStarted) {
    let log = request.log();
    log.write(
        kept.settings().detail_level(),
        format_args!("ratelimitly: admission failure={}: {cause}", cause.cause().word()),
    );
    match (cause.owner(location), cause) {
        (Some(owner), NotStarted::Render(error)) => kept.note_refused_value(log, owner, error),
        (Some(owner), _) => {
            let named = format!("{owner}: {cause}");
            kept.note_refused_value(log, owner, &named);
        }
        (None, _) => {}
    }
}

fn report(request: &Request) {
    let Some(context) = Context::of(request).filter(|_| request.is_main()) else { return };
    if context.is_skipped() {
        CycleConf::of_request(request).conf.shared.skipped();
    }
    let Some(to) = context.report() else { return };
    let refused = context.decision().is_some_and(|decision| decision.refusal().is_some());
    if refused || context.is_waiting() || request.connection_lost() {
        return;
    }
    let kept = CycleConf::of_request(request);
    let Some(latency_ms) = latency_ms(request, kept, &to) else { return };
    let observation = Observation { tracker: to.tracker, settings: to.settings, latency_ms };
    let sent =
        kept.worker.existing().map_err(NotStarted::from).and_then(|driver| Ok(driver.report(&observation)?));
    let level = kept.settings().detail_level();
    let log = request.log();
    match sent {
        Ok(()) => log.write(level, format_args!("ratelimitly: report latency={latency_ms}ms")),
        Err(cause) => {
            log.write(level, format_args!("ratelimitly: report latency={latency_ms}ms failure={cause}"));
        }
    }
}

/// What is reported, milliseconds: what `$request_time` measures, or what the report's terms say. `None`: they exclude the
/// request, or their value is refused.
fn latency_ms(request: &Request, kept: &CycleConf, to: &ReportTo) -> Option<u32> {
    let duration_ms = clock::wall().0.saturating_sub(request.started().0);
    let latency_ms = match &to.terms {
        None => Some(duration_ms),
        Some(terms) => render::render_latency(request, terms, duration_ms).unwrap_or_else(|error| {
            kept.note_refused_value(request.log(), error.owner(), &error);
            None
        }),
    };
    latency_ms.map(Observation::latency_of)
}

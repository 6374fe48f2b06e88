//! The two moments at which nginx calls the module for a request: the end of the pre-content phase, where it is
//! admitted, and the log phase, where its latency is reported.
//!
//! They decide what nginx does next and nothing else: rendering is `render`'s, waiting the driver's.

use crate::conf::{Fault, LocationConf, MainConf};
use crate::context::{self, Context, Decision};
use crate::driver::Refused;
use crate::nginx::border;
use crate::nginx::clock;
use crate::nginx::request::{Request, WatchError};
use crate::render::{self, Buffers, Owner, RenderError};
use crate::worker::Unavailable;
use ngx::ffi::{self, ngx_http_request_t, ngx_int_t};
use ratelimitly_core::client::StartError;
use ratelimitly_core::id::{TrackerId, TrackerSettings};
use ratelimitly_core::wire::Observation;
use std::fmt::Display;
use std::rc::Rc;

const OK: ngx_int_t = ffi::NGX_OK as ngx_int_t;
const AGAIN: ngx_int_t = ffi::NGX_AGAIN as ngx_int_t;
const DECLINED: ngx_int_t = ffi::NGX_DECLINED as ngx_int_t;
const INTERNAL: ngx_int_t = ffi::NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t;

/// The last handler of the pre-content phase.
pub unsafe extern "C" fn precontent(r: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: nginx runs phases on a live request and does not free it before this returns.
    let request = unsafe { Request::from_ptr(r) };
    border::catch("the pre-content handler", || admit(request)).unwrap_or_else(|| {
        border::guarded("the end after a panic", INTERNAL, || refuse_internally(request, &"a panic"))
    })
}

/// The log phase.
pub unsafe extern "C" fn log(r: *mut ngx_http_request_t) -> ngx_int_t {
    // SAFETY: nginx logs a request before it frees it.
    let request = unsafe { Request::from_ptr(r) };
    border::guarded("the log handler", (), || report(request));
    OK
}

fn admit(request: &Request) -> ngx_int_t {
    if !request.is_main() {
        return DECLINED;
    }
    if request.is_post_action() {
        // The response is over, or the client has gone: nothing is left to be admitted.
        if let Some(context) = Context::of(request) {
            context.abandon();
        }
        return DECLINED;
    }
    let main = MainConf::of_request(request);
    if context::refused_before(request, main.passage.get()) {
        return DECLINED;
    }
    let location = LocationConf::of_request(request);
    if location.admission.is_none() && location.report.is_none() {
        return DECLINED;
    }
    let Some(context) = Context::of_or_new(request) else { return INTERNAL };
    if let Some(decision) = context.decision() {
        return status(context, decision);
    }
    if context.is_waiting() {
        return AGAIN;
    }
    context.settle_report(|| tracker(request, location));
    match location.admission {
        Some(_) => start(request, context, location),
        None => {
            main.worker.prepare_report(main);
            DECLINED
        }
    }
}

/// What a decided request's handler returns: a refusal's status once, "declined" otherwise. After a refusal only the
/// operator's `error_page` enters the handler again, and its page is part of the refusal.
///
/// `NGX_OK` would also lead to content, but past the checks of modules that have moved behind this one.
fn status(context: &Context, decision: Decision) -> ngx_int_t {
    match decision.refusal() {
        Some(status) if context.first_return() => status as ngx_int_t,
        Some(_) | None => DECLINED,
    }
}

fn decide(request: &Request, context: &Context, decision: Decision) -> ngx_int_t {
    context.decide(request, MainConf::of_request(request).verdict_index.get(), decision);
    status(context, decision)
}

fn refuse_internally(request: &Request, cause: &dyn Display) -> ngx_int_t {
    if !request.is_main() {
        // The context in the pool that it shares is the client's request's.
        return INTERNAL;
    }
    let main = MainConf::of_request(request);
    main.worker.note_internal_failure(request.log(), main.detail_level(), cause);
    let Some(context) = Context::of_or_new(request) else { return INTERNAL };
    context.cancel();
    decide(request, context, Decision::Internal)
}

/// The tracker in effect here, rendered; a value that cannot be rendered means that nothing is reported.
fn tracker(request: &Request, location: &LocationConf) -> Option<(TrackerId, TrackerSettings)> {
    let tracker = location.report.as_ref()?;
    match render::render_tracker(request, tracker) {
        Ok(tracker) => Some(tracker),
        Err(error) => {
            MainConf::of_request(request).worker.note_refused_value(request.log(), error.owner(), &error);
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
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Refused(#[from] Refused),
}

fn start(request: &Request, context: &Context, location: &LocationConf) -> ngx_int_t {
    let main = MainConf::of_request(request);
    if main.faults.fires(Fault::HandlerPanic) {
        panic!("injected panic in the handler");
    }
    let mut buffers = main.worker.take_buffers();
    let started = try_start(request, context, location, main, &mut buffers);
    main.worker.return_buffers(buffers);
    match started {
        Ok(()) if main.faults.fires(Fault::Watch) => refuse_internally(request, &WatchError),
        Ok(()) => match request.suspend() {
            Ok(()) => AGAIN,
            Err(error) => refuse_internally(request, &error),
        },
        Err(NotStarted::Refused(Refused::Broken)) => refuse_internally(request, &Refused::Broken),
        Err(NotStarted::Render(error)) if error.is_internal() => refuse_internally(request, &error),
        Err(cause) => {
            note_not_started(request, location, main, &cause);
            decide(request, context, Decision::of_failure(main.fail))
        }
    }
}

fn try_start(
    request: &Request,
    context: &Context,
    location: &LocationConf,
    main: &MainConf,
    buffers: &mut Buffers,
) -> Result<(), NotStarted> {
    let ask = render::render(request, location, buffers)?;
    let driver = main.worker.driver(main)?;
    Ok(driver.start(context, &ask)?)
}

impl NotStarted {
    /// The cause in the log line of the admission.
    fn word(&self) -> &'static str {
        match self {
            NotStarted::Render(_) | NotStarted::Refused(Refused::Start(StartError::Encode(_))) => {
                "invalid-value"
            }
            NotStarted::Refused(Refused::Start(StartError::WindowAboveQuota { .. })) => "window-above-quota",
            NotStarted::Refused(Refused::Start(_)) => "discovery",
            NotStarted::Refused(Refused::Broken | Refused::Unavailable(_)) | NotStarted::Unavailable(_) => {
                "worker-not-set-up"
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
            NotStarted::Refused(_) | NotStarted::Unavailable(_) => None,
        }
    }
}

fn note_not_started(request: &Request, location: &LocationConf, main: &MainConf, cause: &NotStarted) {
    let log = request.log();
    log.write(main.detail_level(), format_args!("ratelimitly: admission failure={}: {cause}", cause.word()));
    match (cause.owner(location), cause) {
        (Some(owner), NotStarted::Render(error)) => main.worker.note_refused_value(log, owner, error),
        (Some(owner), _) => {
            let named = format!("{owner}: {cause}");
            main.worker.note_refused_value(log, owner, &named);
        }
        (None, _) => {}
    }
}

fn report(request: &Request) {
    let Some(context) = Context::of(request).filter(|_| request.is_main()) else { return };
    let Some((tracker, settings)) = context.report() else { return };
    let refused = context.decision().is_some_and(|decision| decision.refusal().is_some());
    if refused || context.is_waiting() || request.connection_lost() {
        return;
    }
    let main = MainConf::of_request(request);
    let observation = Observation { tracker, settings, latency_ms: latency_ms(request) };
    let sent =
        main.worker.existing().map_err(NotStarted::from).and_then(|driver| Ok(driver.report(&observation)?));
    let level = main.detail_level();
    let log = request.log();
    match sent {
        Ok(()) => log.write(level, format_args!("ratelimitly: report latency={}ms", observation.latency_ms)),
        Err(cause) => log.write(
            level,
            format_args!("ratelimitly: report latency={}ms failure={cause}", observation.latency_ms),
        ),
    }
}

/// What `$request_time` measures, as it is reported.
fn latency_ms(request: &Request) -> u32 {
    Observation::latency_of(clock::wall().0.saturating_sub(request.started().0))
}

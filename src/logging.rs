//! Where `tracing` events and panics go: nginx's error log, one line each, prefixed `ratelimitly:`.
//!
//! Installed once a process and told the level after each configuration; an event whose level is off costs one load.
//! Our own crates log at their level. Other crates' events (hickory's: one for every lookup that fails) are debug
//! lines whatever their level, so that no outage elsewhere fills the error log.

use crate::nginx::clock;
use crate::nginx::log::{Level, Log};
use ratelimitly_core::pace::{Due, PacedBy};
use std::cell::RefCell;
use std::fmt::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// Most urgent first, so that a greater number is a more verbose log; 0: nothing is on yet.
static ADMITTED: AtomicU8 = AtomicU8::new(0);

/// Whether debug events of our own crates are raised to info.
static RAISED: AtomicBool = AtomicBool::new(false);

/// Takes over `tracing` and the panic hook of this library. Further calls change nothing.
pub fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // It fails only if there is a subscriber already, which nothing else in this library installs.
        let _ = tracing::subscriber::set_global_default(ErrorLog);
        std::panic::set_hook(Box::new(log_panic));
    });
}

/// Adopts the level of `log` and the directive `ratelimitly_debug`. To be called when a configuration takes effect.
pub fn refresh(log: Log, debug_on: bool) {
    let levels = [Level::Debug, Level::Info, Level::Warn, Level::Error];
    let admitted = levels.into_iter().find(|&level| log.enabled(level)).map_or(0, |level| level as u8);
    let level_changed = ADMITTED.swap(admitted, Ordering::Relaxed) != admitted;
    let raise_changed = RAISED.swap(debug_on, Ordering::Relaxed) != debug_on;
    if level_changed || raise_changed {
        tracing::callsite::rebuild_interest_cache();
    }
}

fn admits(level: Level) -> bool {
    level as u8 <= ADMITTED.load(Ordering::Relaxed)
}

/// The level in nginx's log for an event, on or off.
fn level_of(metadata: &Metadata<'_>) -> Level {
    if !is_ours(metadata.target()) {
        return Level::Debug;
    }
    match *metadata.level() {
        tracing::Level::ERROR => Level::Error,
        tracing::Level::WARN => Level::Warn,
        tracing::Level::INFO => Level::Info,
        tracing::Level::DEBUG if RAISED.load(Ordering::Relaxed) => Level::Info,
        _ => Level::Debug,
    }
}

fn is_ours(target: &str) -> bool {
    target
        .split("::")
        .next()
        .is_some_and(|name| name == env!("CARGO_CRATE_NAME") || name.starts_with("ratelimitly"))
}

/// The subscriber: events only; spans are neither kept nor logged.
struct ErrorLog;

impl Subscriber for ErrorLog {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && admits(level_of(metadata))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if admits(Level::Debug) {
            LevelFilter::TRACE
        } else if admits(Level::Info) && RAISED.load(Ordering::Relaxed) {
            LevelFilter::DEBUG
        } else if admits(Level::Info) {
            LevelFilter::INFO
        } else if admits(Level::Warn) {
            LevelFilter::WARN
        } else if admits(Level::Error) {
            LevelFilter::ERROR
        } else {
            LevelFilter::OFF
        })
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        // One id for all: nothing is ever looked up by it.
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if let Some(log) = Log::of_running_cycle() {
            log.write(level_of(event.metadata()), format_args!("ratelimitly: {}", Text(event)));
        }
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// An event as text: its message, then its fields as ` name=value`.
struct Text<'a>(&'a Event<'a>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = Fields { f, message: true, result: Ok(()) };
        self.0.record(&mut fields);
        fields.message = false;
        self.0.record(&mut fields);
        fields.result
    }
}

/// Writes either the message or everything else.
struct Fields<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    message: bool,
    result: fmt::Result,
}

impl Visit for Fields<'_, '_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.result.is_err() || self.message != (field.name() == "message") {
            return;
        }
        self.result = if self.message {
            write!(self.f, "{value:?}")
        } else {
            self.f.write_char(' ').and_then(|()| write!(self.f, "{}={value:?}", field.name()))
        };
    }
}

/// The panic hook: text and place at `alert`, paced for each place, no backtrace. It must not panic itself, which would end
/// the worker.
fn log_panic(panic: &PanicHookInfo<'_>) {
    // A location is a static, so its address stands for the place.
    thread_local!(static PACES: RefCell<PacedBy<usize>> = const { RefCell::new(PacedBy::new()) });
    let Some(log) = Log::of_running_cycle() else { return };
    let place = panic.location().map_or(0, |place| std::ptr::from_ref(place).addr());
    let due = PACES.with(|paces| match paces.try_borrow_mut() {
        Ok(mut paces) => paces.occurred(place, clock::monotonic()),
        Err(_) => Some(Due { unlogged: 0 }),
    });
    let Some(due) = due else { return };
    let text = panic.payload_as_str().unwrap_or("(no text)");
    match panic.location() {
        Some(place) => log.write(Level::Alert, format_args!("ratelimitly: panic at {place}: {text}{due}")),
        None => log.write(Level::Alert, format_args!("ratelimitly: panic: {text}{due}")),
    }
}

//! SRV discovery: finds the servers of this tenant with hickory-resolver on nginx's event loop. What DNS's answers mean
//! is decided in the core (`membership::gathering`); here they are asked for.
//!
//! The driver makes one [`Discovery`] per worker (never before the fork: DNS ids are random) and starts it when the
//! core says that one is due. It never blocks, starts no thread, opens sockets only while a discovery runs, caches
//! nothing, and never decides when to look again.

mod error;
mod executor;
mod lookup;
mod nameservers;
mod refusal;
mod runtime;
mod skipped;
mod sleep;
mod socket;
mod tcp;
mod udp;

pub use self::error::{DiscoveryError, SetupError};
pub use self::skipped::{Over, Skipped};

use self::executor::Executor;
use self::lookup::Plan;
use self::nameservers::{Habits, Nameservers};
use self::runtime::{Connector, Runtime};
use self::sleep::Sleep;
use crate::fault::{Fault, Faults};
use crate::nginx::conf::ResolverSettings;
use crate::nginx::posted::PostedEvent;
use hickory_resolver::proto::rr::Name;
use ratelimitly_core::membership::Membership;
use ratelimitly_core::membership::answer::Family;
use ratelimitly_core::membership::gathering::Gathered;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

/// How much later than the whole discovery a single query gives up, so that the discovery's own deadline decides.
const QUERY_GRACE: Duration = Duration::from_secs(1);

/// A discovery without any address after this long says so.
const SAYS_SO: Duration = Duration::from_secs(2);

/// What to look for and where.
#[derive(Clone)]
pub struct Settings {
    /// Full name of the SRV records, `_ratelimitly._udp.<name>`; always taken as absolute.
    pub srv_name: String,
    /// Whom to ask: at least one nameserver and one family.
    pub dns: ResolverSettings,
    /// How long more addresses are waited for once there is one, where no member is known; milliseconds.
    pub delay_ms: u32,
    /// Faults for tests.
    pub faults: Rc<Faults>,
}

/// What a discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The members, and what was left out.
    pub gathered: Gathered,
    /// How long they count, seconds: the shortest time to live in the SRV answer (may be 0), or the configured value.
    pub ttl_s: u32,
}

/// What a discovery tells.
#[derive(Debug)]
pub enum Event {
    /// It has had no address for two seconds, and waits for these nameservers.
    Waits(Vec<SocketAddr>),
    /// It goes on, and no member was known before: these can be used.
    Usable(Membership),
    /// It has ended.
    Ended(Result<Found, DiscoveryError>),
}

/// What is called with a discovery's events.
pub type Handler = Rc<dyn Fn(Event)>;

/// Whether a discovery has an address.
#[derive(Clone, Debug, Default)]
struct Patience(Rc<Cell<bool>>);

impl Patience {
    fn satisfied(&self) {
        self.0.set(true);
    }

    fn is_satisfied(&self) -> bool {
        self.0.get()
    }
}

/// Discovers, one discovery at a time. Dropping it cancels the one under way: its sockets and timers are gone at
/// once, and its handler is never called.
pub struct Discovery {
    shared: Rc<Shared>,
}

struct Shared {
    settings: Settings,
    name: Name,
    habits: Rc<Habits>,
    run: RefCell<Option<Run>>,
    finish: PostedEvent,
}

/// A discovery under way.
struct Run {
    executor: Executor,
    news: Rc<News>,
    handler: Handler,
}

/// What has happened and has not been told yet.
#[derive(Default)]
struct News {
    early: RefCell<VecDeque<Event>>,
    outcome: Cell<Option<Result<Found, DiscoveryError>>>,
}

impl News {
    fn next(&self) -> Option<Event> {
        let early = self.early.borrow_mut().pop_front();
        early.or_else(|| self.outcome.take().map(Event::Ended))
    }
}

impl Discovery {
    /// Checks the settings. Opens and sends nothing.
    pub fn new(settings: Settings) -> Result<Discovery, SetupError> {
        if settings.dns.servers.is_empty() {
            return Err(SetupError::NoNameserver);
        }
        if !settings.dns.ipv4 && !settings.dns.ipv6 {
            return Err(SetupError::NoFamily);
        }
        let name = absolute(&settings.srv_name)?;
        let shared = Rc::new_cyclic(|shared: &Weak<Shared>| {
            let shared = shared.clone();
            let finish = move || {
                if let Some(shared) = shared.upgrade() {
                    shared.tell();
                }
            };
            let finish = PostedEvent::new("the news of a discovery", finish);
            let habits = Rc::new(Habits::new(settings.dns.servers.len()));
            Shared { settings, name, habits, run: RefCell::new(None), finish }
        });
        Ok(Discovery { shared })
    }

    /// Starts a discovery; one that is still under way is cancelled, and its handler not called any more. `known` are the
    /// members in use. The handler is called from the event loop and never from here; at the end, once, when all of the
    /// discovery's sockets are closed. It may start the next discovery or drop this value.
    pub fn start(&self, known: Option<Arc<Membership>>, handler: Handler) {
        let news = Rc::new(News::default());
        let executor = Executor::new();
        let report = Report { news: news.clone(), shared: Rc::downgrade(&self.shared) };
        let run = Run { executor, news, handler };
        self.shared.begin(&run, report, known);
        let cancelled = self.shared.run.borrow_mut().replace(run);
        drop(cancelled);
    }
}

impl Shared {
    /// Starts the tasks of `run`, or reports why not.
    fn begin(&self, run: &Run, report: Report, known: Option<Arc<Membership>>) {
        let faults = self.settings.faults.clone();
        let spawner = run.executor.spawner(faults.clone());
        let runtime = Runtime::new(spawner.clone(), faults.clone());
        let messenger = Messenger { news: run.news.clone(), shared: report.shared.clone() };
        let plan = match self.plan(runtime, known, messenger.clone()) {
            Ok(plan) => plan,
            Err(error) => return report.give(Err(error)),
        };
        let (patience, pending) = (plan.patience.clone(), plan.nameservers.pending());
        let started = spawner.spawn(async move {
            assert!(!faults.fires(Fault::TaskPanic), "injected fault task_panic");
            report.give(lookup::discover(plan).await);
        });
        if !started {
            // The report went with the task, taking the task's end for a panic.
            run.news.outcome.set(Some(Err(DiscoveryError::NotStarted)));
            return;
        }
        // Without this task nothing is said; that is all.
        spawner.spawn(async move {
            Sleep::new(SAYS_SO).await;
            if !patience.is_satisfied() {
                messenger.tell(Event::Waits(pending.waited_for()));
            }
        });
    }

    fn plan(
        &self,
        runtime: Runtime,
        known: Option<Arc<Membership>>,
        messenger: Messenger,
    ) -> Result<Plan, DiscoveryError> {
        let settings = &self.settings;
        let timeout = Duration::from_millis(settings.dns.timeout_ms);
        let habits = Rc::clone(&self.habits);
        let nameservers =
            Nameservers::new(&settings.dns.servers, habits, timeout + QUERY_GRACE, &Connector(runtime))
                .map_err(|error| DiscoveryError::Resolver { cause: error.to_string() })?;
        settings
            .faults
            .fail(Fault::DnsTimer)
            .map_err(|error| DiscoveryError::Timer { cause: error.to_string() })?;
        let families = [(settings.dns.ipv4, Family::V4), (settings.dns.ipv6, Family::V6)];
        Ok(Plan {
            name: self.name.clone(),
            nameservers,
            families: families.into_iter().filter_map(|(on, family)| on.then_some(family)).collect(),
            deadline: Sleep::new(timeout),
            timeout_ms: settings.dns.timeout_ms,
            valid_s: settings.dns.valid_s,
            known,
            delay: Duration::from_millis(settings.delay_ms.into()),
            patience: Patience::default(),
            usable: Box::new(move |members| messenger.tell(Event::Usable(members))),
        })
    }

    /// Hands out what is new. No borrow is held while a handler runs, or while the tasks of a discovery that has ended are
    /// dropped.
    fn tell(&self) {
        loop {
            let next =
                self.run.borrow().as_ref().and_then(|run| Some((run.news.next()?, run.handler.clone())));
            let Some((event, handler)) = next else { return };
            if matches!(event, Event::Ended(_)) {
                let ended = self.run.borrow_mut().take();
                drop(ended);
            }
            handler(event);
        }
    }
}

/// Passes events of a discovery under way on.
#[derive(Clone)]
struct Messenger {
    news: Rc<News>,
    shared: Weak<Shared>,
}

impl Messenger {
    fn tell(&self, event: Event) {
        self.news.early.borrow_mut().push_back(event);
        if let Some(shared) = self.shared.upgrade() {
            shared.finish.post_now();
        }
    }
}

/// Gives a discovery's result, exactly once: a task that ends without one has panicked (or was cancelled, and then its
/// handler is gone too).
struct Report {
    news: Rc<News>,
    shared: Weak<Shared>,
}

impl Report {
    fn give(self, result: Result<Found, DiscoveryError>) {
        self.news.outcome.set(Some(result));
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let given = self.news.outcome.take().unwrap_or(Err(DiscoveryError::Panicked));
        self.news.outcome.set(Some(given));
        if let Some(shared) = self.shared.upgrade() {
            shared.finish.post_now();
        }
    }
}

fn absolute(name: &str) -> Result<Name, SetupError> {
    let mut absolute = Name::from_ascii(name)
        .map_err(|error| SetupError::Name { name: name.to_owned(), reason: error.to_string() })?;
    absolute.set_fqdn(true);
    Ok(absolute)
}

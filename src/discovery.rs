//! SRV discovery: finds the servers of this tenant with hickory-resolver on nginx's event loop.
//!
//! The driver makes one [`Discovery`] per worker (never before the fork: DNS ids are random) and starts it when the
//! core says that one is due. It never blocks, starts no thread, opens sockets only while a discovery runs, caches
//! nothing, and never decides when to look again.

mod error;
mod executor;
mod lookup;
mod nameservers;
mod runtime;
mod skipped;
mod sleep;
mod socket;
mod tcp;
mod udp;

pub use self::error::{DiscoveryError, SetupError};
pub use self::skipped::Skipped;

use self::executor::Executor;
use self::lookup::Plan;
use self::nameservers::Nameservers;
use self::runtime::{Connector, Runtime};
use self::sleep::Sleep;
use crate::conf::{Fault, Faults};
use crate::nginx::posted::PostedEvent;
use hickory_resolver::proto::rr::{Name, RecordType};
use ratelimitly_core::membership::Member;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// How much later than the whole discovery a single query gives up, so that the discovery's own deadline decides.
const QUERY_GRACE: Duration = Duration::from_secs(1);

/// What to look for and where.
#[derive(Clone)]
pub struct Settings {
    /// Full name of the SRV records, `_ratelimitly._udp.<name>`; always taken as absolute.
    pub srv_name: String,
    /// Nameservers in order of preference, at least one.
    pub servers: Vec<SocketAddr>,
    /// Limit of one whole discovery, milliseconds.
    pub timeout_ms: u64,
    /// Replaces the records' time to live, seconds.
    pub valid_s: Option<u32>,
    /// Whether IPv4 addresses of servers are asked for.
    pub ipv4: bool,
    /// Whether IPv6 addresses of servers are asked for.
    pub ipv6: bool,
    /// Faults for tests.
    pub faults: Rc<Faults>,
}

/// What a discovery found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The servers with their addresses; at least one, oldest first. Two entries may have the same id.
    pub members: Vec<Member>,
    /// How long they count, seconds: the shortest time to live in the SRV answer (may be 0), or the configured value.
    pub ttl_s: u32,
    /// What was left out.
    pub skipped: Skipped,
}

/// What is called with a discovery's result.
pub type Done = Box<dyn FnOnce(Result<Found, DiscoveryError>)>;

/// Discovers, one discovery at a time. Dropping it cancels the one under way: its sockets and timers are gone at
/// once, and its `done` is never called.
pub struct Discovery {
    shared: Rc<Shared>,
}

struct Shared {
    settings: Settings,
    name: Name,
    /// The nameserver that answered last.
    preferred: Rc<Cell<usize>>,
    run: RefCell<Option<Run>>,
    finish: PostedEvent,
}

/// A discovery under way.
struct Run {
    executor: Executor,
    outcome: Rc<Outcome>,
    done: Done,
}

type Outcome = Cell<Option<Result<Found, DiscoveryError>>>;

impl Discovery {
    /// Checks the settings. Opens and sends nothing.
    pub fn new(settings: Settings) -> Result<Discovery, SetupError> {
        if settings.servers.is_empty() {
            return Err(SetupError::NoNameserver);
        }
        if !settings.ipv4 && !settings.ipv6 {
            return Err(SetupError::NoFamily);
        }
        let name = absolute(&settings.srv_name)?;
        let shared = Rc::new_cyclic(|shared: &Weak<Shared>| {
            let shared = shared.clone();
            let finish = move || {
                if let Some(shared) = shared.upgrade() {
                    shared.finish();
                }
            };
            let finish = PostedEvent::new("the end of a discovery", finish);
            Shared { settings, name, preferred: Rc::default(), run: RefCell::new(None), finish }
        });
        Ok(Discovery { shared })
    }

    /// Starts a discovery; one that is still under way is cancelled, and its `done` never called. `done` is called
    /// once, from the event loop and never from here, when all of the discovery's sockets are closed. It may start
    /// the next discovery or drop this value.
    pub fn start(&self, done: Done) {
        let outcome = Rc::new(Outcome::new(None));
        let executor = Executor::new();
        let report = Report { outcome: outcome.clone(), shared: Rc::downgrade(&self.shared) };
        let run = Run { executor, outcome, done };
        self.shared.begin(&run, report);
        let cancelled = self.shared.run.borrow_mut().replace(run);
        drop(cancelled);
    }
}

impl Shared {
    /// Starts the task of `run`, or reports why not.
    fn begin(&self, run: &Run, report: Report) {
        let faults = self.settings.faults.clone();
        let spawner = run.executor.spawner(faults.clone());
        let plan = match self.plan(Runtime::new(spawner.clone(), faults.clone())) {
            Ok(plan) => plan,
            Err(error) => return report.give(Err(error)),
        };
        let started = spawner.spawn(async move {
            assert!(!faults.fires(Fault::TaskPanic), "injected fault task_panic");
            report.give(lookup::discover(plan).await);
        });
        if !started {
            // The report went with the task, taking the task's end for a panic.
            run.outcome.set(Some(Err(DiscoveryError::NotStarted)));
        }
    }

    fn plan(&self, runtime: Runtime) -> Result<Plan, DiscoveryError> {
        let settings = &self.settings;
        let timeout = Duration::from_millis(settings.timeout_ms);
        let preferred = Rc::clone(&self.preferred);
        let nameservers =
            Nameservers::new(&settings.servers, preferred, timeout + QUERY_GRACE, &Connector(runtime))
                .map_err(|error| DiscoveryError::Resolver { cause: error.to_string() })?;
        settings
            .faults
            .fail(Fault::DnsTimer)
            .map_err(|error| DiscoveryError::Timer { cause: error.to_string() })?;
        let families = [(settings.ipv4, RecordType::A), (settings.ipv6, RecordType::AAAA)];
        Ok(Plan {
            name: self.name.clone(),
            nameservers,
            families: families.into_iter().filter_map(|(on, family)| on.then_some(family)).collect(),
            deadline: Sleep::new(timeout),
            timeout_ms: settings.timeout_ms,
            valid_s: settings.valid_s,
        })
    }

    /// Hands out the result of the run that has one. No borrow is held while its tasks are dropped and `done` runs.
    fn finish(&self) {
        let Some(result) = self.run.borrow().as_ref().and_then(|run| run.outcome.take()) else { return };
        let Some(Run { executor, done, .. }) = self.run.borrow_mut().take() else { return };
        drop(executor);
        done(result);
    }
}

/// Gives a discovery's result, exactly once: a task that ends without one has panicked (or was cancelled, and then
/// nobody is left to be told).
struct Report {
    outcome: Rc<Outcome>,
    shared: Weak<Shared>,
}

impl Report {
    fn give(self, result: Result<Found, DiscoveryError>) {
        self.outcome.set(Some(result));
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let given = self.outcome.take().unwrap_or(Err(DiscoveryError::Panicked));
        self.outcome.set(Some(given));
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

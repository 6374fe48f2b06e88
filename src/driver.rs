//! A worker's driver: it connects the sans-IO client with the worker's UDP sockets (`transport`), with the requests that wait
//! (`waiting`), with discovery (`discovering`) and with nginx's timers.
//!
//! Called by the handlers (start, report, cancel) and by the event loop (datagrams, deadlines, discovery). It knows no
//! wire byte and no directive. Every entry changes the core first, gives up all borrows, and leaves what follows to
//! `settle`, which alone sends and resumes: a request that goes on may start, end or free others.

mod breaking;
mod discovering;
mod notes;
mod rebind;
mod receiving;
mod settle;
mod transport;
mod waiting;

use crate::context::Context;
use crate::discovery;
use crate::fault::{Fault, Faults};
use crate::logging;
use crate::nginx::border;
use crate::nginx::clock;
use crate::nginx::connection::OpenError;
use crate::nginx::log::{Level, Log};
use crate::nginx::phases::VariableRange;
use crate::nginx::posted::PostedEvent;
use crate::settings::Settings;
use crate::shared::Shared;
use breaking::Breaking;
use discovering::Discovering;
pub use notes::Notes;
use ratelimitly_core::breaker::Breaker;
use ratelimitly_core::client::{AdmissionKey, Ask, Client, StartError};
use ratelimitly_core::remembered::Remembered;
use ratelimitly_core::time::Millis;
use ratelimitly_core::wire::Observation;
use receiving::Reading;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use transport::Transport;
use waiting::Table;

/// Longest time that the core's generator is used without fresh bytes, milliseconds.
const STIR_MS: u64 = 1000;

/// Why a worker could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// No key; the configuration has seen to it that this cannot be.
    #[error("no API key is configured")]
    NoKey,
    /// The kernel gave no random bytes.
    #[error("the kernel gave no random bytes: {0}")]
    Random(getrandom::Error),
    /// No UDP socket.
    #[error("the UDP socket cannot be opened: {0}")]
    Socket(#[from] OpenError),
    /// No discovery.
    #[error("discovery cannot be set up: {0}")]
    Discovery(#[from] discovery::SetupError),
}

/// There is no driver and it is too early to try again.
#[derive(Debug, thiserror::Error)]
#[error("the worker is not set up")]
pub struct Unavailable;

/// What keeps a driver, told of its ends.
pub trait Home {
    /// The log lines of the worker, which outlive a driver.
    fn notes(&self) -> Rc<Notes>;
    /// The worker's breaker, which outlives a driver too; made the first time.
    fn breaker(&self, make: &dyn Fn() -> Breaker) -> Rc<RefCell<Breaker>>;
    /// No admission is in flight.
    fn idle(&self);
    /// The core has panicked: the driver is to be dropped.
    fn broke(&self);
}

/// Why an admission or a report did not start.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The core refused it.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The core panicked while it started this one; its client is on its way out.
    #[error("the client failed inside")]
    Broken,
    /// The core panicked before, and is on its way out.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Whether a driver runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// The core has panicked, and its state is not to be trusted any more. `settle` clears up in this event-loop iteration.
    Broken,
    /// The worker exits.
    Left,
}

/// One worker's client and everything it drives.
///
/// Where it is dropped without having been shut down, the fields that hold tasks and sockets go in this order: discovery,
/// the core, the UDP sockets.
pub struct Driver {
    discovering: Discovering,
    core: RefCell<Client>,
    transport: Transport,
    waiting: Table,
    state: Cell<State>,
    reading: Reading,
    settling: Cell<bool>,
    settle_event: PostedEvent,
    /// When fresh bytes of the kernel were last mixed into the core's generator.
    stirred: Cell<Millis>,
    notes: Rc<Notes>,
    detail: Level,
    variables: VariableRange,
    shared: Rc<Shared>,
    /// Denials of zones that want them remembered.
    remembered: Option<RefCell<Remembered>>,
    /// With `ratelimitly_breaker` alone.
    breaking: Option<Breaking>,
    faults: Rc<Faults>,
    home: Weak<dyn Home>,
}

impl Driver {
    /// Sets everything up; nothing is left behind where a part fails.
    pub fn set_up(
        conf: &Settings,
        shared: &Rc<Shared>,
        home: &Rc<dyn Home>,
    ) -> Result<Rc<Driver>, SetUpError> {
        // A reload that keeps the process (`master_process off`) starts no worker that would do it.
        logging::refresh(Log::of_cycle(), conf.debug);
        let key = conf.key.as_ref().ok_or(SetUpError::NoKey)?;
        let mut core = Client::new(key, conf.policy.clone(), seed(&conf.faults)?);
        shared.new_client();
        shared.hand_members_to(&mut core);
        let discovering = Discovering::new(conf, core.members().cloned())?;
        let remembered = match conf.remembers {
            true => Some(RefCell::new(Remembered::new(secret(&conf.faults)?))),
            false => None,
        };
        let breaker = match conf.breaker {
            Some(settings) => {
                let chance = u64::from_le_bytes(secret(&conf.faults)?[..8].try_into().unwrap_or_default());
                Some(home.breaker(&|| Breaker::new(settings, chance)))
            }
            None => None,
        };
        let driver = Rc::new_cyclic(|myself: &Weak<Driver>| Driver {
            discovering,
            core: RefCell::new(core),
            transport: Transport::new(myself, conf, home.notes()),
            waiting: Table::default(),
            state: Cell::new(State::Live),
            reading: Reading::new(),
            settling: Cell::new(false),
            settle_event: settle::event(myself.clone()),
            stirred: Cell::new(clock::monotonic()),
            notes: home.notes(),
            detail: conf.detail_level(),
            variables: conf.variables.get(),
            shared: Rc::clone(shared),
            remembered,
            breaking: breaker.map(|breaker| Breaking::new(breaker, myself)),
            faults: Rc::clone(&conf.faults),
            home: Rc::downgrade(home),
        });
        driver.transport.begin()?;
        Ok(driver)
    }

    /// Starts an admission; `context`'s request must be suspended by the caller then.
    pub fn start(self: &Rc<Self>, context: &Context, ask: &Ask<'_>) -> Result<(), Refused> {
        self.check_sound()?;
        let (now, wall) = (clock::monotonic(), clock::wall());
        self.stir_if_due(now);
        let key = self.with_core("starting an admission", |core| core.start(now, wall, ask));
        self.settle_soon();
        let key = key.ok_or(Refused::Broken)??;
        self.leave_silent_port();
        self.waiting.insert(key, context.wait(self, key, now));
        Ok(())
    }

    /// Whether the worker remembers that the question of this context is refused: then nothing is asked.
    pub fn recalls(&self, context: &Context) -> bool {
        let Some(table) = &self.remembered else { return false };
        let now = clock::monotonic();
        let is_refused = context.recall(&table.borrow(), now);
        if is_refused {
            self.with_core("a remembered denial", |core| core.want_members(now));
            self.settle_soon();
        }
        is_refused
    }

    /// Looks for members as a request would. Says whether there are some.
    pub fn want_members(&self) -> bool {
        let now = clock::monotonic();
        let has_some = self.with_core("warming up", |core| {
            core.want_members(now);
            core.members().is_some()
        });
        // Not in a turn of the event loop, when the worker starts.
        self.settle_next();
        has_some == Some(true)
    }

    /// Sends a latency report, best effort.
    pub fn report(&self, observation: &Observation) -> Result<(), Refused> {
        self.check_sound()?;
        let (now, wall) = (clock::monotonic(), clock::wall());
        self.stir_if_due(now);
        let queued = self.with_core("reporting a latency", |core| core.report(now, wall, observation));
        self.settle_soon();
        Ok(queued.ok_or(Refused::Broken)??)
    }

    /// Forgets an admission and the request that waited for it.
    pub fn cancel(&self, key: AdmissionKey) {
        self.waiting.take(key);
        self.with_core("cancelling an admission", |core| core.cancel(key));
        // Nothing is to be sent, but a rebind may have waited for this one.
        self.settle_soon();
    }

    /// The socket takes datagrams again: sends what had to wait for that.
    fn send_waiting(self: &Rc<Self>) {
        if self.transport.has_room_again() {
            self.settle();
        }
    }

    /// The worker leaves: what is queued goes out, and then nothing of this driver runs any more.
    pub fn shut_down(&self) {
        self.flush();
        self.breaking.iter().for_each(Breaking::lost);
        self.discovering.leave();
        self.state.set(State::Left);
        self.transport.close();
    }

    /// Mixes fresh bytes of the kernel into the core's generator, once in a second of activity: two machines that are
    /// restored from one snapshot must not make the same nonces. Where the kernel gives none the old state goes on, and the
    /// next second tries again.
    fn stir_if_due(&self, now: Millis) {
        if now.since(self.stirred.get()) < STIR_MS {
            return;
        }
        self.stirred.set(now);
        self.share_distance();
        let Ok(fresh) = seed(&self.faults) else { return };
        if self.with_core("stirring the generator", |core| core.stir(&fresh)).is_some() {
            Log::of_cycle().write(Level::Debug, format_args!("ratelimitly: fresh random bytes mixed in"));
        }
    }

    /// Tells the other workers and the metrics how far the servers are.
    fn share_distance(&self) {
        self.with_core("the distance of servers", |core| self.shared.distance(core));
    }

    fn is_live(&self) -> bool {
        self.state.get() == State::Live
    }

    /// A core that has panicked starts nothing; its driver is discarded in this event-loop iteration.
    fn check_sound(&self) -> Result<(), Unavailable> {
        if self.is_live() { Ok(()) } else { Err(Unavailable) }
    }

    /// Admissions in flight, including requests that are about to go on.
    fn in_flight(&self) -> usize {
        self.core.try_borrow().map_or(1, |core| core.in_flight())
    }

    /// Runs `body` on the core. A panic in it breaks the driver, and `settle` clears up.
    fn with_core<R>(&self, entry: &'static str, body: impl FnOnce(&mut Client) -> R) -> Option<R> {
        if !self.is_live() {
            return None;
        }
        let result = border::catch(entry, || {
            if self.faults.fires(Fault::CorePanic) {
                panic!("injected panic inside the core");
            }
            body(&mut self.core.borrow_mut())
        });
        if result.is_none() {
            self.state.set(State::Broken);
            // The requests that wait learn of it in this event-loop iteration, wherever the panic was.
            self.settle_soon();
        }
        result
    }
}

/// What places entries in the table of remembered denials, and spreads the probes of workers.
fn secret(faults: &Faults) -> Result<[u8; 16], SetUpError> {
    let mut secret = [0; 16];
    secret.copy_from_slice(&seed(faults)?[..16]);
    Ok(secret)
}

/// A 256-bit seed from the kernel, drawn in the worker: two workers never share one.
fn seed(faults: &Faults) -> Result<[u8; 32], SetUpError> {
    let mut seed = [0; 32];
    if faults.fires(Fault::Random) {
        return Err(SetUpError::Random(getrandom::Error::UNSUPPORTED));
    }
    getrandom::fill(&mut seed).map_err(SetUpError::Random)?;
    Ok(seed)
}

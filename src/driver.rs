//! A worker's driver: it connects the sans-IO client with the worker's UDP socket, with nginx's timers and with the
//! requests that wait.
//!
//! Called by the handlers (start, report, cancel) and by the event loop (datagrams, deadlines, discovery). It knows no
//! wire byte and no directive. Every entry changes the core first, gives up all borrows, and leaves what follows to
//! `settle`, which alone sends and resumes: a request that goes on may start, end or free others.

mod discovering;
mod notes;
mod rebind;
mod receiving;
mod settle;

use crate::context::{Context, Waiter};
use crate::discovery::{self, Discovery};
use crate::fault::{Fault, Faults};
use crate::logging;
use crate::nginx::border;
use crate::nginx::clock;
use crate::nginx::connection::{OpenError, Ready};
use crate::nginx::log::{Level, Log};
use crate::nginx::phases::VariableIndex;
use crate::nginx::posted::PostedEvent;
use crate::nginx::timer::Timer;
use crate::nginx::udp::{BATCH, Bound, Receiver, Sender, UdpSocket};
use crate::settings::Settings;
use discovering::Lines;
pub use notes::Notes;
use ratelimitly_core::backlog::PutOff;
use ratelimitly_core::client::{AdmissionKey, Ask, Client, StartError};
use ratelimitly_core::membership::Membership;
use ratelimitly_core::time::Millis;
use ratelimitly_core::wire::Observation;
use receiving::Reading;
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

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

/// One worker's client and everything it drives.
///
/// Where it is dropped without having been shut down, the fields that hold tasks and sockets go in this order: discovery,
/// the core, the UDP socket.
pub struct Driver {
    discovery: RefCell<Option<Discovery>>,
    core: RefCell<Client>,
    socket: RefCell<Option<UdpSocket>>,
    /// The socket before, from which no answers came; it receives for one horizon more.
    old_socket: RefCell<Option<UdpSocket>>,
    old_socket_timer: Timer,
    sender: RefCell<Sender>,
    receiver: RefCell<Receiver>,
    reading: Reading,
    /// The suspended requests, by their admission's slot. A slot stays taken until its request is about to be resumed.
    waiting: RefCell<Vec<Option<Waiting>>>,
    settling: Cell<bool>,
    /// When fresh bytes of the kernel were last mixed into the core's generator.
    stirred: Cell<Millis>,
    /// Set by a panic inside the core, whose state is not to be trusted any more.
    broken: Cell<bool>,
    settle_event: PostedEvent,
    rebind_event: PostedEvent,
    rebind_timer: Timer,
    /// Whether the pending rebind has been logged.
    rebind_noted: Cell<bool>,
    notes: Rc<Notes>,
    srv_name: String,
    /// The members found last.
    membership: RefCell<Option<Arc<Membership>>>,
    lines: Lines,
    bind: Option<IpAddr>,
    detail: Level,
    verdict_index: VariableIndex,
    faults: Rc<Faults>,
    home: Weak<dyn Home>,
    myself: Weak<Driver>,
}

/// A suspended request.
struct Waiting {
    key: AdmissionKey,
    waiter: Waiter,
    /// Whether its deadline waits for the rest of what the socket holds.
    put_off: PutOff,
}

impl Driver {
    /// Sets everything up; nothing is left behind where a part fails.
    pub fn set_up(conf: &Settings, home: &Rc<dyn Home>) -> Result<Rc<Driver>, SetUpError> {
        // A reload that keeps the process (`master_process off`) starts no worker that would do it.
        logging::refresh(Log::of_cycle(), conf.debug);
        let key = conf.key.as_ref().ok_or(SetUpError::NoKey)?;
        let core = Client::new(key, conf.policy.clone(), seed(&conf.faults)?);
        if conf.faults.fires(Fault::Resolver) {
            return Err(discovery::SetupError::NoNameserver.into());
        }
        let discovery = Discovery::new(discovering::settings(conf))?;
        let driver = Rc::new_cyclic(|myself: &Weak<Driver>| Driver {
            discovery: RefCell::new(Some(discovery)),
            core: RefCell::new(core),
            socket: RefCell::new(None),
            old_socket: RefCell::new(None),
            old_socket_timer: rebind::old_socket_timer(myself.clone()),
            sender: RefCell::new(Sender::new()),
            receiver: RefCell::new(Receiver::new()),
            reading: Reading::new(),
            waiting: RefCell::default(),
            settling: Cell::new(false),
            stirred: Cell::new(clock::monotonic()),
            broken: Cell::new(false),
            settle_event: settle::event(myself.clone()),
            rebind_event: rebind::event(myself.clone()),
            rebind_timer: rebind::timer(myself.clone()),
            rebind_noted: Cell::new(false),
            notes: home.notes(),
            bind: conf.bind,
            detail: conf.detail_level(),
            srv_name: conf.srv_name.clone(),
            membership: RefCell::default(),
            lines: Lines::default(),
            verdict_index: conf.verdict_index.get(),
            faults: Rc::clone(&conf.faults),
            home: Rc::downgrade(home),
            myself: myself.clone(),
        });
        let socket = driver.open_socket()?;
        driver.socket.replace(Some(socket));
        Ok(driver)
    }

    fn open_socket(&self) -> Result<UdpSocket, OpenError> {
        if self.faults.fires(Fault::Socket) {
            return Err(OpenError::TooManyFiles);
        }
        let bound = Bound::open(self.bind)?;
        if self.faults.fires(Fault::Connection) {
            return Err(OpenError::NoFreeSlot);
        }
        let socket = UdpSocket::register(bound, Rc::new(SocketHandler { driver: self.myself.clone() }))?;
        if self.faults.fires(Fault::Event) {
            return Err(OpenError::Refused);
        }
        Ok(socket)
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
        let asked = (ask.guards.len() as u16, ask.resources.len() as u16);
        let waiter = context.wait(self, key, asked);
        let mut waiting = self.waiting.borrow_mut();
        let index = key.slot as usize;
        if waiting.len() <= index {
            waiting.resize_with(index + 1, || None);
        }
        waiting[index] = Some(Waiting { key, waiter, put_off: PutOff::default() });
        Ok(())
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
        self.take_waiter(key);
        self.with_core("cancelling an admission", |core| core.cancel(key));
        // Nothing is to be sent, but a rebind may have waited for this one.
        self.settle_soon();
    }

    /// The socket takes datagrams again: sends what had to wait for that.
    fn send_waiting(self: &Rc<Self>) {
        if self.socket.borrow().as_ref().is_some_and(UdpSocket::has_room_again) {
            self.settle();
        }
    }

    /// The worker leaves: what is queued goes out, and then nothing of this driver runs any more.
    pub fn shut_down(&self) {
        self.flush();
        self.discovery.take();
        self.lines.leave();
        self.broken.set(true);
        self.socket.take();
        self.old_socket.take();
    }

    /// Mixes fresh bytes of the kernel into the core's generator, once in a second of activity: two machines that are
    /// restored from one snapshot must not make the same nonces. Where the kernel gives none the old state goes on, and the
    /// next second tries again.
    fn stir_if_due(&self, now: Millis) {
        if now.since(self.stirred.get()) < STIR_MS {
            return;
        }
        self.stirred.set(now);
        let Ok(fresh) = seed(&self.faults) else { return };
        if self.with_core("stirring the generator", |core| core.stir(&fresh)).is_some() {
            Log::of_cycle().write(Level::Debug, format_args!("ratelimitly: fresh random bytes mixed in"));
        }
    }

    /// A core that has panicked starts nothing; its driver is discarded in this turn.
    fn check_sound(&self) -> Result<(), Unavailable> {
        if self.broken.get() { Err(Unavailable) } else { Ok(()) }
    }

    /// Admissions in flight, including requests that are about to go on.
    fn in_flight(&self) -> usize {
        self.core.try_borrow().map_or(1, |core| core.in_flight())
    }

    /// Runs `body` on the core. A panic in it breaks the driver, and `settle` clears up.
    fn with_core<R>(&self, entry: &'static str, body: impl FnOnce(&mut Client) -> R) -> Option<R> {
        if self.broken.get() {
            return None;
        }
        let result = border::catch(entry, || {
            if self.faults.fires(Fault::CorePanic) {
                panic!("injected panic inside the core");
            }
            body(&mut self.core.borrow_mut())
        });
        if result.is_none() {
            self.broken.set(true);
            // Whoever waits learns of it in this turn, wherever the panic was.
            self.settle_soon();
        }
        result
    }

    fn take_waiter(&self, key: AdmissionKey) -> Option<Waiter> {
        let mut waiting = self.waiting.borrow_mut();
        let entry = waiting.get_mut(key.slot as usize)?;
        entry.take_if(|entry| entry.key == key).map(|entry| entry.waiter)
    }
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

/// What the socket's connection keeps: a driver that is gone is no longer called.
struct SocketHandler {
    driver: Weak<Driver>,
}

impl Ready for SocketHandler {
    fn readable(&self) {
        if let Some(driver) = self.driver.upgrade() {
            driver.receive();
        }
    }

    fn writable(&self) {
        if let Some(driver) = self.driver.upgrade() {
            driver.send_waiting();
        }
    }
}

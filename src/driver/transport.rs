//! The worker's UDP transport: the socket in use, the one before it while answers may still come there, and when the next
//! replacement is tried.
//!
//! Called by the driver's other rooms. It moves datagrams between the sockets and the core; it knows no request, and decides
//! neither when a port is left nor what a failed send means.

use super::{Driver, Notes};
use crate::fault::{Fault, Faults};
use crate::nginx::clock;
use crate::nginx::connection::{OpenError, Ready};
use crate::nginx::posted::PostedEvent;
use crate::nginx::timer::{Leaving, Timer};
use crate::nginx::udp::{BATCH, Bound, Outgoing, Received, Receiver, Sender, UdpSocket};
use crate::settings::Settings;
use ratelimitly_core::backlog::budget;
use ratelimitly_core::client::{Client, SendResult, Transmit};
use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::rc::{Rc, Weak};

/// The sockets of one worker, and the timers that replace them.
pub(super) struct Transport {
    socket: RefCell<Option<UdpSocket>>,
    /// The socket before, from which no answers came; it receives for one horizon more.
    old_socket: RefCell<Option<UdpSocket>>,
    old_socket_timer: Timer,
    sender: RefCell<Sender>,
    receiver: RefCell<Receiver>,
    rebind_event: PostedEvent,
    rebind_timer: Timer,
    /// Whether the pending rebind has been logged.
    rebind_noted: Cell<bool>,
    bind: Option<IpAddr>,
    notes: Rc<Notes>,
    faults: Rc<Faults>,
    driver: Weak<Driver>,
}

impl Transport {
    /// Without a socket before the first `replace`. The event and the timers call the driver; a leaving worker waits for none
    /// of them.
    pub fn new(driver: &Weak<Driver>, conf: &Settings, notes: Rc<Notes>) -> Transport {
        let of_driver = |body: fn(&Driver)| {
            let driver = driver.clone();
            move || {
                if let Some(driver) = driver.upgrade() {
                    body(&driver);
                }
            }
        };
        let close = of_driver(|driver| drop(driver.transport.old_socket.take()));
        let retry = of_driver(Driver::rebind_if_due);
        Transport {
            socket: RefCell::new(None),
            old_socket: RefCell::new(None),
            old_socket_timer: Timer::new("closing the old UDP socket", Leaving::GoesOn, close),
            sender: RefCell::new(Sender::new()),
            receiver: RefCell::new(Receiver::new()),
            rebind_event: PostedEvent::new("replacing the UDP socket", of_driver(Driver::rebind)),
            rebind_timer: Timer::new("replacing the UDP socket again", Leaving::GoesOn, retry),
            rebind_noted: Cell::new(false),
            bind: conf.bind,
            notes,
            faults: Rc::clone(&conf.faults),
            driver: driver.clone(),
        }
    }

    /// A registered socket.
    fn open(&self) -> Result<UdpSocket, OpenError> {
        if self.faults.fires(Fault::Socket) {
            return Err(OpenError::TooManyFiles);
        }
        let bound = Bound::open(self.bind)?;
        if self.faults.fires(Fault::Connection) {
            return Err(OpenError::NoFreeSlot);
        }
        let socket = UdpSocket::register(bound, Rc::new(self.driver.clone()))?;
        if self.faults.fires(Fault::Event) {
            return Err(OpenError::Refused);
        }
        Ok(socket)
    }

    /// Opens the first socket.
    pub fn begin(&self) -> Result<(), OpenError> {
        self.socket.replace(Some(self.open()?));
        Ok(())
    }

    /// Opens the new socket, then closes the old one, at once or after `keep_ms`. Returns both ports. Where it fails the old
    /// socket stays in use.
    pub fn replace(&self, keep_ms: Option<u64>) -> Result<(u16, u16), OpenError> {
        let new = self.open()?;
        // The fault comes last, so a caller that has already closed the old socket has none.
        if self.faults.fires(Fault::Rebind) {
            return Err(OpenError::TooManyFiles);
        }
        let new_port = new.port();
        let old = self.socket.replace(Some(new));
        let old_port = old.as_ref().map_or(0, UdpSocket::port);
        if let Some(keep_ms) = keep_ms {
            self.old_socket.replace(old);
            self.old_socket_timer.arm(keep_ms);
        }
        self.rebind_noted.set(false);
        Ok((old_port, new_port))
    }

    /// Lets the driver rebind in the next event-loop iteration, unless that or another try is arranged already.
    pub fn rebind_soon(&self) {
        if !self.rebind_timer.is_armed() && !self.rebind_event.is_posted() {
            self.rebind_event.post();
        }
    }

    /// Lets the driver rebind after `delay_ms`.
    pub fn rebind_in(&self, delay_ms: u64) {
        self.rebind_timer.arm(delay_ms);
    }

    /// Notes that the pending rebind has been logged; `false` if it was before.
    pub fn first_rebind_note(&self) -> bool {
        !self.rebind_noted.replace(true)
    }

    /// The socket is writable. Says whether a send had to wait for that.
    pub fn has_room_again(&self) -> bool {
        self.socket.borrow().as_ref().is_some_and(UdpSocket::has_room_again)
    }

    /// Sends at most one batch and tells the core what became of each datagram. Says whether there may be more to send.
    pub fn send(&self, core: &mut Client) -> bool {
        let now = clock::monotonic();
        let socket = self.socket.borrow();
        let Some(socket) = socket.as_ref().filter(|socket| !socket.is_full()) else { return false };
        let mut results = [SendResult::Failed; BATCH];
        let mut sender = self.sender.borrow_mut();
        let datagrams = core.transmits(now, BATCH);
        let datagrams = datagrams.map(|Transmit { to, bytes, replay }| Outgoing { to, bytes, alone: replay });
        let sent = socket.send(&mut sender, datagrams, &mut results);
        if let Some((place, error)) = sender.refused.take() {
            core.transmits(now, BATCH).nth(place).inspect(|one| self.notes.send_refused(one.to, error));
        }
        if let Some(error) = sender.without_batches.take() {
            self.notes.call_refused("sendmmsg", "sendto", &error);
        }
        if let Some((place, error)) = sender.unsegmented.take() {
            core.transmits(now, BATCH).nth(place).inspect(|one| self.notes.unsegmented(one.to, error));
        }
        core.handle_sent(now, &results[..sent]);
        // Less than a whole batch is the rest of the queue.
        sent == BATCH && !socket.is_full()
    }

    /// Hands the core what the sockets have, up to the budget of each, and lets it judge. The sockets are empty unless there is
    /// more.
    pub fn read(&self, core: &mut Client) -> Received {
        let mut read = Received::default();
        for socket in [&self.socket, &self.old_socket] {
            let socket = socket.borrow();
            let Some(socket) = socket.as_ref() else { continue };
            let more = self.read_batches(socket, core, &mut read);
            if more {
                socket.resume_later();
            } else if let Err(error) = socket.arm() {
                self.notes.socket_trouble(&error);
            }
            read.more |= more;
        }
        self.notes.dropped(read.dropped);
        if let Some(number) = self.receiver.borrow_mut().refused.take() {
            self.notes.call_refused("recvmmsg", "recvfrom", &io::Error::from_raw_os_error(number));
        }
        read
    }

    /// Says whether the socket may hold more.
    fn read_batches(&self, socket: &UdpSocket, core: &mut Client, read: &mut Received) -> bool {
        if self.faults.fires(Fault::ReceivePanic) {
            panic!("injected panic while the core takes datagrams in");
        }
        let mut receiver = self.receiver.borrow_mut();
        let most = read.datagrams + budget(core.in_flight());
        let more = loop {
            let batch = socket.receive(&mut receiver, |datagram| core.handle_datagram(datagram));
            read.datagrams += batch.datagrams;
            read.dropped += batch.dropped;
            if !batch.more || read.datagrams + BATCH > most {
                break batch.more;
            }
        };
        core.finish_batch(clock::monotonic());
        more
    }

    /// Closes the sockets.
    pub fn close(&self) {
        self.socket.take();
        self.old_socket.take();
    }
}

/// What a socket's connection calls: a driver that is gone is no longer called.
impl Ready for Weak<Driver> {
    fn readable(&self) {
        if let Some(driver) = self.upgrade() {
            driver.receive();
        }
    }

    fn writable(&self) {
        if let Some(driver) = self.upgrade() {
            driver.send_waiting();
        }
    }
}

//! The worker's UDP socket: opening it for IPv4 and IPv6 at once, sending a batch, receiving a batch.
//!
//! Called by the driver. It never blocks, knows no protocol, and decides nothing about what a failed send means.

mod receive;
mod send;

pub use receive::Receiver;
pub use send::{SendError, Sender};

use crate::nginx::address::RawAddress;
use crate::nginx::connection::{Connection, OpenError, Ready};
use ratelimitly_core::client::SendResult;
use std::cell::Cell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;

/// Most datagrams taken in or handed out by one system call.
pub use ratelimitly_core::backlog::BATCH;
/// Asked of the kernel for the receive queue and for the send buffer, bytes: room for a burst of some thousand requests
/// to three servers each in one event-loop iteration, and for their answers (the kernel counts 768 bytes and more for a
/// short datagram, and doubles what is asked). `net.core.rmem_max` and `net.core.wmem_max` may cut it.
const QUEUE: libc::c_int = 4 << 20;
/// The kernel counts more than this for the shortest datagram, bytes.
const SHORTEST: u64 = 512;
/// Most datagrams that the kernel's receive queue holds.
pub const QUEUE_LENGTH: u64 = 2 * QUEUE as u64 / SHORTEST;

/// Which addresses a socket reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// IPv4 only.
    V4,
    /// IPv6, and IPv4 as mapped addresses.
    Dual,
}

/// An unregistered socket: a descriptor, bound to an ephemeral port.
pub struct Bound {
    fd: OwnedFd,
    family: Family,
    /// Whether the kernel knows `UDP_SEGMENT` (Linux 4.18).
    gso: bool,
}

impl Bound {
    /// Opens and binds a socket; `address` is the source address, the kernel's choice without one. Falls back to IPv4
    /// alone where there is no IPv6.
    pub fn open(address: Option<IpAddr>) -> Result<Bound, OpenError> {
        match address {
            Some(IpAddr::V4(address)) => Bound::bind(Family::V4, SocketAddr::from((address, 0))),
            Some(IpAddr::V6(address)) => Bound::bind(Family::Dual, SocketAddr::from((address, 0))),
            None => Bound::bind(Family::Dual, SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)))
                .or_else(|_| Bound::bind(Family::V4, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))),
        }
    }

    fn bind(family: Family, address: SocketAddr) -> Result<Bound, OpenError> {
        let domain = if family == Family::V4 { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: socket() touches no memory of ours; a result other than -1 is a descriptor that is ours alone.
        let fd = unsafe {
            match libc::socket(domain, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) {
                -1 => return Err(io::Error::last_os_error().into()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        if family == Family::Dual {
            set_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
        }
        // Neither a smaller queue nor silence about what overflows it is a reason to go without a socket.
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, QUEUE);
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, QUEUE);
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        // An older kernel would take the option of a message for nothing and send all its datagrams as one.
        let gso = set_option(&fd, libc::IPPROTO_UDP, send::UDP_SEGMENT, 0).is_ok();
        let name = RawAddress::new(address);
        // SAFETY: the address is read during the call only.
        if unsafe { libc::bind(fd.as_raw_fd(), name.as_ptr(), name.len()) } == -1 {
            return Err(io::Error::last_os_error().into());
        }
        Ok(Bound { fd, family, gso })
    }
}

fn set_option(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let size = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel reads one int during the call.
    let status = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    if status == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The socket on nginx's event loop.
pub struct UdpSocket {
    connection: Connection,
    family: Family,
    /// Whether datagrams may share a message: the kernel can, and has not failed to.
    gso: Cell<bool>,
    /// Datagrams that the kernel had dropped when it last told.
    dropped: Cell<u32>,
    /// Datagrams taken since the socket was last found empty.
    taken: Cell<usize>,
    /// Whether the send buffer was full at the last send, and has had no room since.
    full: Cell<bool>,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// All of it.
    pub bytes: &'a [u8],
    /// Whether it must share a message to the kernel with no other.
    pub alone: bool,
}

/// What a receive has to say beside the datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// How many datagrams there were.
    pub datagrams: usize,
    /// The batch is full and there may be more.
    pub more: bool,
    /// Datagrams for this socket that the kernel has dropped since it last told, mostly because the queue was full.
    pub dropped: u32,
}

impl UdpSocket {
    /// Puts a bound socket on the event loop; `handler` learns when there is something to receive.
    pub fn register(bound: Bound, handler: Rc<dyn Ready>) -> Result<UdpSocket, OpenError> {
        let connection = Connection::open(bound.fd, handler)?;
        connection.arm_read()?;
        Ok(UdpSocket {
            connection,
            family: bound.family,
            gso: Cell::new(bound.gso),
            dropped: Cell::new(0),
            taken: Cell::new(0),
            full: Cell::new(false),
        })
    }

    /// The local port.
    pub fn port(&self) -> u16 {
        // SAFETY: sockaddr_in6 is plain C data, for which zeroes are a value.
        let mut name: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        let mut len = size_of_val(&name) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into `name` during the call.
        unsafe { libc::getsockname(self.connection.fd().as_raw_fd(), (&raw mut name).cast(), &mut len) };
        // Both families keep the port at the same place.
        u16::from_be(name.sin6_port)
    }

    /// Asks to be told of the next datagram; call it when the last receive ended short.
    pub fn arm(&self) -> Result<(), OpenError> {
        self.connection.arm_read()
    }

    /// Lets the handler be called in the next event-loop iteration; call it when a receive used up its budget.
    pub fn resume_later(&self) {
        self.connection.post_read();
    }

    /// Whether the send buffer is full: nothing can be sent before the handler is told that the socket is writable.
    pub fn is_full(&self) -> bool {
        self.full.get()
    }

    /// The socket is writable. Says whether a send had to wait for that.
    pub fn has_room_again(&self) -> bool {
        self.full.take()
    }

    /// Sends the first ones of `datagrams`, at most [`BATCH`], each once, and notes what became of each. Returns how many
    /// results there are; 0 says that there was nothing to send. Where the send buffer is full the handler is told once
    /// there is room.
    pub fn send<'a>(
        &self,
        sender: &mut Sender,
        datagrams: impl Iterator<Item = Outgoing<'a>>,
        results: &mut [SendResult; BATCH],
    ) -> usize {
        let fd = self.connection.fd();
        let mut datagrams = datagrams.take(BATCH);
        let Some(first) = datagrams.next() else { return 0 };
        let Some(second) = datagrams.next() else {
            results[0] = sender.send_one(fd, first.bytes, self.reachable(first.to).as_ref());
            self.watch_if_full(results[0]);
            return 1;
        };
        sender.clear();
        let mut count = 0;
        for Outgoing { to, bytes, alone } in [first, second].into_iter().chain(datagrams) {
            results[count] = SendResult::Failed;
            sender.add(count, self.reachable(to), bytes, self.gso.get() && !alone);
            count += 1;
        }
        // SAFETY: the slices that were added are borrowed for 'a, which outlasts this call.
        unsafe { sender.hand_over(fd, results) };
        if sender.unsegmented.is_some() {
            self.gso.set(false);
        }
        let blocked = results[..count].iter().find(|result| **result == SendResult::WouldBlock);
        blocked.inspect(|result| self.watch_if_full(**result));
        count
    }

    fn watch_if_full(&self, result: SendResult) {
        if result == SendResult::WouldBlock {
            // An event method that refuses to watch leaves the next attempt to the next send.
            self.full.set(self.connection.arm_write().is_ok());
        }
    }

    /// The address as this socket's family writes it; `None` where it cannot.
    fn reachable(&self, to: SocketAddr) -> Option<RawAddress> {
        match (self.family, to) {
            (Family::V4, SocketAddr::V4(_)) | (Family::Dual, SocketAddr::V6(_)) => Some(RawAddress::new(to)),
            (Family::V4, SocketAddr::V6(_)) => None,
            (Family::Dual, SocketAddr::V4(v4)) => {
                let mapped = SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0);
                Some(RawAddress::new(mapped.into()))
            }
        }
    }

    /// Takes in at most [`BATCH`] datagrams and hands each to `each`.
    pub fn receive(&self, receiver: &mut Receiver, each: impl FnMut(&mut [u8])) -> Received {
        let fd = self.connection.fd();
        let datagrams = receiver.receive(fd.as_raw_fd(), each);
        let more = datagrams == BATCH;
        let mut count = receiver.dropped();
        self.taken.set(self.taken.get() + datagrams);
        // A datagram carries the count of the moment at which it was queued. What was dropped behind the last one is told
        // by nothing that comes, so the kernel is asked, but only after a queue that was long.
        if !more && self.taken.take() >= BATCH {
            count = receive::dropped_so_far(fd).or(count);
        }
        let dropped = count.map_or(0, |count| count.wrapping_sub(self.dropped.replace(count)));
        Received { datagrams, more, dropped }
    }
}

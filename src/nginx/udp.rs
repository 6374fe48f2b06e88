//! The worker's UDP socket: opening it for IPv4 and IPv6 at once, sending a batch, receiving a batch.
//!
//! Called by the driver. It never blocks, knows no protocol, and decides nothing about what a failed send means.

use crate::nginx::address::RawAddress;
use crate::nginx::connection::{Connection, OpenError, Ready};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::rc::Rc;

/// Most datagrams taken in or handed out by one system call, and most taken in by one read event.
pub const BATCH: usize = 64;
/// Most errors in a row that one receive passes over.
const MOST_ERRORS: usize = 8;
/// Longest datagram that is taken in, bytes; a longer one is dropped.
const DATAGRAM_MAX: usize = 1200;
/// Asked of the kernel for the receive queue, bytes: room for a burst of some thousand answers of three servers each
/// between two turns of the event loop (the kernel counts 768 bytes and more for a short datagram, and doubles what is
/// asked). `net.core.rmem_max` may cut it.
const RECEIVE_QUEUE: libc::c_int = 4 << 20;

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
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_QUEUE);
        let _ = set_option(&fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        let name = RawAddress::new(address);
        // SAFETY: the address is read during the call only.
        if unsafe { libc::bind(fd.as_raw_fd(), name.as_ptr(), name.len()) } == -1 {
            return Err(io::Error::last_os_error().into());
        }
        Ok(Bound { fd, family })
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
    /// Datagrams that the kernel had dropped when a receive last told.
    dropped: Cell<u32>,
}

/// What a receive has to say beside the datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// The budget is used up and there may be more.
    pub more: bool,
    /// Datagrams for this socket that the kernel has dropped since it last told, mostly because the queue was full.
    pub dropped: u32,
}

impl UdpSocket {
    /// Puts a bound socket on the event loop; `handler` learns when there is something to receive.
    pub fn register(bound: Bound, handler: Rc<dyn Ready>) -> Result<UdpSocket, OpenError> {
        let connection = Connection::open(bound.fd, handler)?;
        connection.arm_read()?;
        Ok(UdpSocket { connection, family: bound.family, dropped: Cell::new(0) })
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

    /// Lets the handler be called in the next turn of the event loop; call it when a receive used up its budget.
    pub fn resume_later(&self) {
        self.connection.post_read();
    }

    /// Sends the first datagrams of `transmits`, at most [`BATCH`], each once, and notes for each whether the kernel took
    /// it. Returns how many results there are; 0 says that there was nothing to send.
    pub fn send<'a>(
        &self,
        sender: &mut Sender,
        transmits: impl Iterator<Item = (SocketAddr, &'a [u8])>,
        results: &mut [bool; BATCH],
    ) -> usize {
        let fd = self.connection.fd().as_raw_fd();
        sender.batch.clear();
        let mut count = 0;
        for (to, bytes) in transmits.take(BATCH) {
            results[count] = false;
            match self.reachable(to) {
                Some(address) => sender.batch.push((count, address, bytes.as_ptr(), bytes.len())),
                None => sender.refused = Some((count, SendError::Ipv4Only)),
            }
            count += 1;
        }
        // SAFETY: the slices noted in the batch are borrowed for 'a, which outlasts this call.
        unsafe { sender.hand_over(fd, results) };
        sender.batch.clear();
        count
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
        let more = receiver.receive(self.connection.fd().as_raw_fd(), each);
        let dropped = receiver.dropped().map_or(0, |count| count.wrapping_sub(self.dropped.replace(count)));
        Received { more, dropped }
    }
}

/// Why a datagram was not sent.
#[derive(Clone, Copy, Debug)]
pub enum SendError {
    /// The kernel's error number.
    Kernel(i32),
    /// An IPv6 address, and a socket that has IPv4 alone.
    Ipv4Only,
}

impl SendError {
    fn last() -> SendError {
        SendError::Kernel(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Kernel(number) => io::Error::from_raw_os_error(*number).fmt(f),
            SendError::Ipv4Only => f.write_str("the socket has no IPv6"),
        }
    }
}

/// Recycled memory for sending.
pub struct Sender {
    /// Index of the result, destination, bytes. The pointers are used only within one `send`.
    batch: Vec<(usize, RawAddress, *const u8, usize)>,
    parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    /// The last datagram that a send could not get rid of, by its place among those sent, and why.
    pub refused: Option<(usize, SendError)>,
}

impl Sender {
    /// Memory for [`BATCH`] datagrams.
    pub fn new() -> Sender {
        Sender {
            batch: Vec::with_capacity(BATCH),
            parts: Vec::with_capacity(BATCH),
            messages: Vec::with_capacity(BATCH),
            refused: None,
        }
    }

    /// Hands the batch to the kernel: one system call for one datagram or for all, one more for each that is refused.
    ///
    /// # Safety
    /// The bytes that the batch points to must be live.
    unsafe fn hand_over(&mut self, fd: libc::c_int, results: &mut [bool; BATCH]) {
        if let [(index, to, bytes, len)] = self.batch[..] {
            // SAFETY: the caller's promise; the address is read during the call only.
            let sent = unsafe { libc::sendto(fd, bytes.cast(), len, 0, to.as_ptr(), to.len()) };
            results[index] = sent >= 0;
            if sent < 0 {
                self.refused = Some((index, SendError::last()));
            }
            return;
        }
        self.fill_messages();
        let mut done = 0;
        while done < self.messages.len() {
            let rest = &mut self.messages[done..];
            // SAFETY: every header points to an address in `batch` and a part in `parts`, neither of which changes
            // before `fill_messages` runs again, and to bytes that the caller promises to be live.
            let sent = unsafe { libc::sendmmsg(fd, rest.as_mut_ptr(), rest.len() as libc::c_uint, 0) };
            let taken = usize::try_from(sent).unwrap_or(0);
            for (index, ..) in &self.batch[done..done + taken] {
                results[*index] = true;
            }
            if taken == 0 {
                // The first one is the one refused; the rest are tried again.
                self.refused = Some((self.batch[done].0, SendError::last()));
            }
            done += taken.max(1);
        }
        self.messages.clear();
    }

    fn fill_messages(&mut self) {
        self.parts.clear();
        self.messages.clear();
        self.parts.extend(
            self.batch
                .iter()
                .map(|(_, _, bytes, len)| libc::iovec { iov_base: bytes.cast_mut().cast(), iov_len: *len }),
        );
        for ((_, to, ..), part) in self.batch.iter().zip(&mut self.parts) {
            // SAFETY: mmsghdr is plain C data for which zeroes are a value.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_name = to.as_ptr().cast_mut().cast();
            message.msg_hdr.msg_namelen = to.len();
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            self.messages.push(message);
        }
    }
}

/// Recycled memory for receiving. The kernel reads and writes all of it through pointers, so it lies in vectors and an `Rc`,
/// which may be moved while pointers to their contents exist, and not in boxes, which may not.
pub struct Receiver {
    buffers: Vec<UnsafeCell<[u8; DATAGRAM_MAX]>>,
    /// Each points into `buffers`, and each of `messages` to one of these.
    _parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
    /// What the kernel adds to a batch's first datagram; the first header points to it.
    control: Rc<UnsafeCell<DropControl>>,
}

/// The control message of SO_RXQ_OVFL: a count since the socket was opened. It comes with the first drop, not before.
#[repr(C)]
struct DropControl {
    header: libc::cmsghdr,
    dropped: u32,
    _padding: u32,
}

impl Receiver {
    /// Memory for [`BATCH`] datagrams.
    pub fn new() -> Receiver {
        let buffers: Vec<UnsafeCell<_>> = (0..BATCH).map(|_| UnsafeCell::new([0; DATAGRAM_MAX])).collect();
        let mut parts: Vec<libc::iovec> = buffers
            .iter()
            .map(|buffer| libc::iovec { iov_base: buffer.get().cast(), iov_len: DATAGRAM_MAX })
            .collect();
        // SAFETY: a control message is plain C data for which zeroes are a value.
        let control = Rc::new(UnsafeCell::new(unsafe { std::mem::zeroed::<DropControl>() }));
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: mmsghdr is plain C data for which zeroes are a value.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        messages[0].msg_hdr.msg_control = control.get().cast();
        Receiver { buffers, _parts: parts, messages, control }
    }

    /// The kernel's count of dropped datagrams, if it came with the last batch.
    fn dropped(&self) -> Option<u32> {
        if self.messages[0].msg_hdr.msg_controllen < size_of::<libc::cmsghdr>() + size_of::<u32>() {
            return None;
        }
        // SAFETY: the kernel has written a whole control message there, and writes again only in the next receive.
        let control = unsafe { &*self.control.get() };
        let is_count =
            control.header.cmsg_level == libc::SOL_SOCKET && control.header.cmsg_type == libc::SO_RXQ_OVFL;
        is_count.then_some(control.dropped)
    }

    fn receive(&mut self, fd: libc::c_int, mut each: impl FnMut(&mut [u8])) -> bool {
        let received = self.receive_batch(fd);
        for (message, buffer) in self.messages[..received].iter().zip(&self.buffers) {
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0 {
                // SAFETY: the kernel is done with the buffer until the next call, and `&mut self` is held here.
                let buffer = unsafe { &mut *buffer.get() };
                each(&mut buffer[..message.msg_len as usize]);
            }
        }
        received == BATCH
    }

    /// How many datagrams the kernel had. An error is an interruption or a pending error of the socket, which the call
    /// has taken off; one that stays counts as an empty queue, for the loop must not spin on it.
    fn receive_batch(&mut self, fd: libc::c_int) -> usize {
        for _ in 0..MOST_ERRORS {
            let received = self.receive_once(fd);
            if let Ok(received) = usize::try_from(received) {
                return received;
            }
            self.messages[0].msg_hdr.msg_controllen = 0;
            if io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock {
                break;
            }
        }
        0
    }

    fn receive_once(&mut self, fd: libc::c_int) -> libc::c_int {
        // The kernel has put what it used in its place.
        self.messages[0].msg_hdr.msg_controllen = size_of::<DropControl>();
        // SAFETY: every header points to a part and through it to a buffer, the first one to the control message too, all
        // on the heap and owned by `self`; the kernel writes into these and the headers' own fields during the call only.
        unsafe {
            libc::recvmmsg(
                fd,
                self.messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        }
    }
}

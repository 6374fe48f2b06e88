//! Sending a batch of datagrams with as little of the kernel's work as it allows.
//!
//! Called by the socket. A system call is shared by the whole batch (`sendmmsg`), and the kernel's way through routing,
//! filters and the device by the datagrams of one length to one server: they are one message, which the kernel cuts into
//! datagrams again (generic segmentation offload, `UDP_SEGMENT`), on the wire like any others. It never waits and decides
//! nothing about what a failure means.

use super::BATCH;
use crate::nginx::address::RawAddress;
use ratelimitly_core::client::SendResult;
use ratelimitly_core::refusals::{GivenUp, Refusals, Refused};
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `UDP_SEGMENT` of linux/udp.h, which the crate libc has not for Linux.
pub(super) const UDP_SEGMENT: libc::c_int = 103;
/// Most bytes in one message: below what an IP packet can say of its own length.
const MESSAGE_MAX: usize = 65_000;
/// What the kernel answers where it cannot segment: the datagrams do not fit the path's MTU as they are, the device
/// computes no checksums, IPsec is in the way, or a filter forbids packets of that length.
const CANNOT_SEGMENT: [i32; 6] =
    [libc::EINVAL, libc::EMSGSIZE, libc::EIO, libc::EOPNOTSUPP, libc::ENOPROTOOPT, libc::EPERM];

/// Why a datagram was not sent.
#[derive(Clone, Copy, Debug)]
pub enum SendError {
    /// The kernel's error number.
    Kernel(i32),
    /// An IPv6 address, and a socket that has IPv4 alone.
    Ipv4Only,
}

impl SendError {
    /// What a system says that refuses the call itself: a seccomp filter or an old kernel.
    fn refuses_call(self) -> bool {
        matches!(self, SendError::Kernel(libc::EPERM | libc::ENOSYS | libc::EINVAL))
    }

    fn is_forbidden(self) -> bool {
        matches!(self, SendError::Kernel(libc::EPERM))
    }

    fn last() -> SendError {
        SendError::Kernel(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }

    /// What this means for the datagram.
    fn result(self) -> SendResult {
        match self {
            SendError::Kernel(libc::EAGAIN) => SendResult::WouldBlock,
            SendError::Kernel(_) | SendError::Ipv4Only => SendResult::Failed,
        }
    }

    fn cannot_segment(self) -> bool {
        matches!(self, SendError::Kernel(number) if CANNOT_SEGMENT.contains(&number))
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

/// A datagram of the batch. The pointer is used only within one `send`.
struct Datagram {
    /// Its place among those that were to be sent.
    place: usize,
    bytes: *const u8,
    group: usize,
}

/// Datagrams of one length to one address.
#[derive(Clone, Copy)]
struct Group {
    to: RawAddress,
    /// Length of each, bytes.
    size: usize,
    /// Whether there may be more than one.
    open: bool,
    count: usize,
    /// Where its parts begin.
    first: usize,
}

/// The control message of UDP_SEGMENT.
#[repr(C)]
struct SegmentSize {
    header: libc::cmsghdr,
    size: u16,
    _padding: [u8; 6],
}

/// Recycled memory for sending.
pub struct Sender {
    datagrams: Vec<Datagram>,
    groups: Vec<Group>,
    /// The datagrams' bytes, group after group.
    parts: Vec<libc::iovec>,
    /// The datagrams' places in the same order.
    places: Vec<usize>,
    /// One for each group that there can be.
    controls: Vec<SegmentSize>,
    messages: Vec<libc::mmsghdr>,
    /// The last datagram that a send could not get rid of, by its place among those sent, and why.
    pub refused: Option<(usize, SendError)>,
    /// The last datagram that had to be sent by itself because the kernel cannot segment on its way, by its place.
    pub unsegmented: Option<(usize, SendError)>,
    refusals: Refusals,
    /// Why `sendmmsg` is not used any more, until the log has it.
    pub without_batches: Option<SendError>,
}

impl Sender {
    /// Memory for [`BATCH`] datagrams.
    pub fn new() -> Sender {
        Sender {
            datagrams: Vec::with_capacity(BATCH),
            groups: Vec::with_capacity(BATCH),
            parts: Vec::with_capacity(BATCH),
            places: Vec::with_capacity(BATCH),
            controls: (0..BATCH).map(|_| SegmentSize::new()).collect(),
            messages: Vec::with_capacity(BATCH),
            refused: None,
            unsegmented: None,
            refusals: Refusals::default(),
            without_batches: None,
        }
    }

    /// Sends a single datagram, which needs no batch; `to` is `None` where the socket cannot reach it.
    pub(super) fn send_one(
        &mut self,
        fd: BorrowedFd<'_>,
        bytes: &[u8],
        to: Option<&RawAddress>,
    ) -> SendResult {
        let sent = to.ok_or(SendError::Ipv4Only).and_then(|to| send_to(fd, bytes, to));
        self.note(0, sent)
    }

    /// Keeps an error for the log.
    fn note(&mut self, place: usize, sent: Result<(), SendError>) -> SendResult {
        match sent {
            Ok(()) => SendResult::Sent,
            Err(error) => {
                self.refused = Some((place, error));
                error.result()
            }
        }
    }

    /// Begins a batch.
    pub(super) fn clear(&mut self) {
        self.datagrams.clear();
        self.groups.clear();
        self.messages.clear();
    }

    /// Adds a datagram; `to` is `None` where the socket cannot reach it. With `gso` it may share a message with
    /// others.
    pub(super) fn add(&mut self, place: usize, to: Option<RawAddress>, bytes: &[u8], gso: bool) {
        let Some(to) = to else {
            self.refused = Some((place, SendError::Ipv4Only));
            return;
        };
        let size = bytes.len();
        let takes = |group: &Group| {
            group.open && group.size == size && group.to == to && (group.count + 1) * size <= MESSAGE_MAX
        };
        let found = if gso { self.groups.iter().rposition(takes) } else { None };
        let group = found.unwrap_or(self.groups.len());
        if found.is_none() {
            self.groups.push(Group { to, size, open: gso, count: 0, first: 0 });
        }
        self.groups[group].count += 1;
        self.datagrams.push(Datagram { place, bytes: bytes.as_ptr(), group });
    }

    /// Hands what was added to the kernel: one system call, and more only where something is refused.
    ///
    /// # Safety
    /// The bytes that were added must be live.
    pub(super) unsafe fn hand_over(&mut self, fd: BorrowedFd<'_>, results: &mut [SendResult; BATCH]) {
        self.order();
        self.fill_messages();
        let mut done = 0;
        while done < self.messages.len() {
            if self.refusals.without_batches() {
                // SAFETY: the caller's promise.
                unsafe { self.send_singly(fd, done, results) };
                done += 1;
                continue;
            }
            let rest = &mut self.messages[done..];
            // SAFETY: every header points to an address in `groups`, to parts and to a control message in `controls`, none of
            // which changes before the next batch, and through the parts to bytes that the caller promises to be live.
            let sent =
                unsafe { libc::sendmmsg(fd.as_raw_fd(), rest.as_mut_ptr(), rest.len() as libc::c_uint, 0) };
            let taken = usize::try_from(sent).unwrap_or(0);
            for group in &self.groups[done..done + taken] {
                self.refusals.taken(group.count);
                for place in &self.places[group.first..][..group.count] {
                    results[*place] = SendResult::Sent;
                }
            }
            if taken == 0 {
                let error = SendError::last();
                if error.result() == SendResult::WouldBlock {
                    return self.keep(done, error, results);
                }
                // The first one is the one refused; the rest are tried again.
                // SAFETY: the caller's promise.
                unsafe { self.refuse(fd, done, error, results) };
            }
            done += taken.max(1);
        }
    }

    /// The send buffer is full: nothing more of the batch, from this group on, can be sent now.
    fn keep(&mut self, group: usize, error: SendError, results: &mut [SendResult; BATCH]) {
        for place in &self.places[self.groups[group].first..] {
            results[*place] = SendResult::WouldBlock;
            self.refused = Some((*place, error));
        }
    }

    /// A message was refused. Each of its datagrams gets its own chance where less may fit, or where the call itself may be
    /// what the system refuses.
    ///
    /// # Safety
    /// The bytes that were added must be live.
    unsafe fn refuse(
        &mut self,
        fd: BorrowedFd<'_>,
        group: usize,
        error: SendError,
        results: &mut [SendResult; BATCH],
    ) {
        let Group { count, first, .. } = self.groups[group];
        if count == 1 && !error.refuses_call() {
            self.refused = Some((self.places[first], error));
            return;
        }
        let refused = self.refused.take();
        // SAFETY: the caller's promise.
        let any_sent = unsafe { self.send_singly(fd, group, results) };
        let singly_forbidden = self.refused.is_some_and(|(_, error)| error.is_forbidden());
        self.refused = self.refused.take().or(refused);
        match self.refusals.refused(Refused {
            datagrams: count,
            forbidden: error.is_forbidden(),
            cannot_segment: error.cannot_segment(),
            any_sent,
            singly_forbidden,
        }) {
            Some(GivenUp::Batching) => self.without_batches = Some(error),
            Some(GivenUp::Segmenting) => self.unsegmented = Some((self.places[first], error)),
            None => {}
        }
    }

    /// Sends a group's datagrams one by one; tells whether the kernel took any.
    ///
    /// # Safety
    /// The bytes that were added must be live.
    unsafe fn send_singly(
        &mut self,
        fd: BorrowedFd<'_>,
        group: usize,
        results: &mut [SendResult; BATCH],
    ) -> bool {
        let Group { to, count, first, .. } = self.groups[group];
        let mut any_sent = false;
        for at in first..first + count {
            let libc::iovec { iov_base, iov_len } = self.parts[at];
            // SAFETY: the part describes a slice that was added, and the caller promises that it lives.
            let bytes = unsafe { std::slice::from_raw_parts(iov_base.cast::<u8>(), iov_len) };
            let place = self.places[at];
            results[place] = self.note(place, send_to(fd, bytes, &to));
            any_sent |= results[place] == SendResult::Sent;
        }
        any_sent
    }

    /// Lays the datagrams out group after group.
    fn order(&mut self) {
        let mut first = 0;
        for group in &mut self.groups {
            group.first = first;
            first += std::mem::take(&mut group.count);
        }
        self.parts.resize(first, libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        self.places.resize(first, 0);
        for datagram in &self.datagrams {
            let group = &mut self.groups[datagram.group];
            let at = group.first + group.count;
            group.count += 1;
            self.parts[at] = libc::iovec { iov_base: datagram.bytes.cast_mut().cast(), iov_len: group.size };
            self.places[at] = datagram.place;
        }
    }

    fn fill_messages(&mut self) {
        let parts = self.parts.as_mut_ptr();
        for (group, control) in self.groups.iter().zip(&mut self.controls) {
            // SAFETY: mmsghdr is plain C data for which zeroes are a value.
            let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
            message.msg_hdr.msg_name = group.to.as_ptr().cast_mut().cast();
            message.msg_hdr.msg_namelen = group.to.len();
            message.msg_hdr.msg_iov = parts.wrapping_add(group.first);
            message.msg_hdr.msg_iovlen = group.count;
            if group.count > 1 {
                control.size = group.size as u16;
                message.msg_hdr.msg_control = (&raw mut *control).cast();
                message.msg_hdr.msg_controllen = size_of::<SegmentSize>();
            }
            self.messages.push(message);
        }
    }
}

fn send_to(fd: BorrowedFd<'_>, bytes: &[u8], to: &RawAddress) -> Result<(), SendError> {
    // SAFETY: bytes and address are read during the call only.
    let sent =
        unsafe { libc::sendto(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0, to.as_ptr(), to.len()) };
    if sent < 0 { Err(SendError::last()) } else { Ok(()) }
}

impl SegmentSize {
    fn new() -> SegmentSize {
        // SAFETY: a control message is plain C data for which zeroes are a value.
        let mut control: SegmentSize = unsafe { std::mem::zeroed() };
        control.header.cmsg_level = libc::IPPROTO_UDP;
        control.header.cmsg_type = UDP_SEGMENT;
        control.header.cmsg_len = size_of::<libc::cmsghdr>() + size_of::<u16>();
        control
    }
}

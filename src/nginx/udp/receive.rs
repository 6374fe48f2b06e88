//! Receiving a batch of datagrams by one system call, and what the kernel says of those that it had to drop.
//!
//! Called by the socket. It never waits and knows no protocol.

use super::BATCH;
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::rc::Rc;

/// Most consecutive errors that one receive passes over.
const MOST_ERRORS: usize = 8;
/// Longest datagram that is taken in, bytes; a longer one is dropped.
const DATAGRAM_MAX: usize = 1200;

/// Length of what `SO_MEMINFO` (Linux 4.12) gives, in numbers of 32 bits.
const MEMINFO_LENGTH: usize = 9;
/// `SK_MEMINFO_DROPS` of linux/sock_diag.h: the index of the number of dropped datagrams.
const MEMINFO_DROPS: usize = 8;

/// How many datagrams for this socket the kernel has dropped since it was opened; `None` where the kernel cannot say.
pub(super) fn dropped_so_far(fd: BorrowedFd<'_>) -> Option<u32> {
    let mut numbers = [0_u32; MEMINFO_LENGTH];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `numbers`, during the call only.
    let status = unsafe {
        let to = numbers.as_mut_ptr().cast();
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, to, &mut length)
    };
    let is_whole = status == 0 && length as usize == size_of_val(&numbers);
    is_whole.then_some(numbers[MEMINFO_DROPS])
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
    /// Whether the system refuses `recvmmsg`, so that each datagram is taken by `recvfrom`.
    single: bool,
    /// The refusal of a call, by its error number, until the log has it.
    pub refused: Option<i32>,
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
        Receiver { buffers, _parts: parts, messages, control, single: false, refused: None }
    }

    /// The kernel's count of dropped datagrams, if it came with the last batch.
    pub(super) fn dropped(&self) -> Option<u32> {
        if self.messages[0].msg_hdr.msg_controllen < size_of::<libc::cmsghdr>() + size_of::<u32>() {
            return None;
        }
        // SAFETY: the kernel has written a whole control message there, and writes again only in the next receive.
        let control = unsafe { &*self.control.get() };
        let is_count =
            control.header.cmsg_level == libc::SOL_SOCKET && control.header.cmsg_type == libc::SO_RXQ_OVFL;
        is_count.then_some(control.dropped)
    }

    /// Hands each datagram to `each`; says how many there were.
    pub(super) fn receive(&mut self, fd: libc::c_int, mut each: impl FnMut(&mut [u8])) -> usize {
        let received = self.receive_batch(fd);
        for (message, buffer) in self.messages[..received].iter().zip(&self.buffers) {
            if message.msg_hdr.msg_flags & libc::MSG_TRUNC == 0 {
                // SAFETY: the kernel is done with the buffer until the next call, and `&mut self` is held here.
                let buffer = unsafe { &mut *buffer.get() };
                each(&mut buffer[..message.msg_len as usize]);
            }
        }
        received
    }

    /// How many datagrams the kernel had. An error is an interruption or a pending error of the socket, which the call
    /// has taken off; one that stays counts as an empty queue, for the loop must not spin on it.
    fn receive_batch(&mut self, fd: libc::c_int) -> usize {
        for _ in 0..MOST_ERRORS {
            if self.single {
                return self.receive_singly(fd);
            }
            let received = self.receive_once(fd);
            if let Ok(received) = usize::try_from(received) {
                return received;
            }
            self.messages[0].msg_hdr.msg_controllen = 0;
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::WouldBlock {
                break;
            }
            if let Some(number @ (libc::EPERM | libc::ENOSYS | libc::EINVAL)) = error.raw_os_error() {
                self.refused = Some(number);
                self.single = true;
            }
        }
        0
    }

    /// The same, one datagram a call; what the kernel dropped does not come with it.
    fn receive_singly(&mut self, fd: libc::c_int) -> usize {
        let mut errors = 0;
        let mut received = 0;
        while received < BATCH && errors < MOST_ERRORS {
            let buffer = self.buffers[received].get();
            // SAFETY: the kernel writes at most DATAGRAM_MAX bytes into the buffer, during the call only.
            let length = unsafe {
                let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
                libc::recvfrom(
                    fd,
                    buffer.cast(),
                    DATAGRAM_MAX,
                    flags,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                )
            };
            let Ok(length) = usize::try_from(length) else {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::WouldBlock {
                    break;
                }
                self.refused = error.raw_os_error();
                errors += 1;
                continue;
            };
            let message = &mut self.messages[received];
            message.msg_len = length.min(DATAGRAM_MAX) as u32;
            message.msg_hdr.msg_flags = if length > DATAGRAM_MAX { libc::MSG_TRUNC } else { 0 };
            received += 1;
        }
        self.messages[0].msg_hdr.msg_controllen = 0;
        received
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

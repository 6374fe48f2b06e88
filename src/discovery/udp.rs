//! One DNS query over UDP: a socket of its own, connected to its nameserver, so that the kernel drops what others
//! send and tells when nothing listens there.
//!
//! The query is sent again every half second until the socket is dropped. The same datagram on the same socket: an
//! answer to any of them counts, and a silent nameserver costs one socket a query and not one a repetition.

use super::refusal;
use super::runtime::Trouble;
use super::sleep::{Clock, Sleep};
use super::socket::Socket;
use hickory_resolver::net::runtime::DnsUdpSocket;
use send_wrapper::SendWrapper;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Time between two sends of one query.
pub const REPEAT: Duration = Duration::from_millis(500);

/// hickory's UDP socket over nginx's events.
pub struct DnsUdp(SendWrapper<Inner>);

struct Inner {
    socket: Socket,
    server: SocketAddr,
    trouble: Rc<Trouble>,
    asked: RefCell<Option<Asked>>,
}

/// The query that waits for its answer, and when to send it again.
struct Asked {
    datagram: Vec<u8>,
    again: Sleep,
}

impl DnsUdp {
    /// A socket bound to `local` that talks to `server` only and notes its errors in `trouble`.
    pub fn bind(local: SocketAddr, server: SocketAddr, trouble: Rc<Trouble>) -> io::Result<DnsUdp> {
        let socket = UdpSocket::bind(local)?;
        socket.connect(server)?;
        let socket = Socket::new(socket.into())?;
        Ok(DnsUdp(SendWrapper::new(Inner { socket, server, trouble, asked: RefCell::default() })))
    }
}

impl DnsUdpSocket for DnsUdp {
    type Time = Clock;

    fn poll_recv_from(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        let received = self.0.socket.poll_read(cx, buf);
        if received.is_pending() {
            self.0.repeat(cx);
        }
        received.map(|received| {
            let received = self.0.trouble.note(self.0.server, received)?;
            Ok((self.0.complete(buf, received), self.0.server))
        })
    }

    fn poll_send_to(&self, cx: &mut Context<'_>, buf: &[u8], _target: SocketAddr) -> Poll<io::Result<usize>> {
        let sent = self.0.socket.poll_write(cx, |socket| socket.send(buf));
        if matches!(sent, Poll::Ready(Ok(_))) {
            let asked = Asked { datagram: buf.to_vec(), again: Sleep::new(REPEAT) };
            *self.0.asked.borrow_mut() = Some(asked);
        }
        sent.map(|sent| self.0.trouble.note(self.0.server, sent))
    }
}

impl Inner {
    /// A refusal without the question that it is about gets that question, without which hickory would drop it.
    fn complete(&self, buf: &mut [u8], received: usize) -> usize {
        match &*self.asked.borrow() {
            Some(asked) => refusal::complete(&asked.datagram, buf, received),
            None => received,
        }
    }

    /// Sends the query again if it is time, and lets the task wake up for the next time.
    fn repeat(&self, cx: &mut Context<'_>) {
        let mut asked = self.asked.borrow_mut();
        let Some(Asked { datagram, again }) = &mut *asked else { return };
        while Pin::new(&mut *again).poll(cx).is_ready() {
            // An error here is one lost repetition; if it lasts, the next read reports it.
            let _ = self.socket.send_now(datagram);
            *again = Sleep::new(REPEAT);
        }
    }
}

//! What discovery's UDP and TCP sockets share: a connection on the event loop, the tasks that wait for it, and a
//! limit on what is read in one event-loop iteration, so that no flood keeps the worker to itself.

use crate::nginx::connection::{Connection, Ready};
use socket2::SockRef;
use std::cell::Cell;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Consecutive reads before other events get their turn.
const READS_A_TURN: u32 = 16;

/// A non-blocking socket.
pub struct Socket {
    connection: Connection,
    waiting: Rc<Waiting>,
    reads: Cell<u32>,
}

#[derive(Default)]
struct Waiting {
    reader: Cell<Option<Waker>>,
    writer: Cell<Option<Waker>>,
}

impl Ready for Waiting {
    fn readable(&self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn writable(&self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }
}

impl Socket {
    /// Puts `fd` on the event loop.
    pub fn new(fd: OwnedFd) -> io::Result<Socket> {
        let waiting = Rc::new(Waiting::default());
        let connection = Connection::open(fd, waiting.clone())?;
        Ok(Socket { connection, waiting, reads: Cell::new(0) })
    }

    /// Reads once, or lets the task wait until there is something to read or its turn comes again.
    pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.reads.get() == READS_A_TURN {
            self.reads.set(0);
            self.waiting.reader.set(Some(cx.waker().clone()));
            self.connection.post_read();
            return Poll::Pending;
        }
        match self.attempt(|mut socket| socket.read(buffer)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.reads.set(0);
                self.waiting.reader.set(Some(cx.waker().clone()));
                self.connection.arm_read()?;
                Poll::Pending
            }
            done => {
                self.reads.set(self.reads.get() + 1);
                Poll::Ready(done)
            }
        }
    }

    /// Runs `write` (a send, or a look at the state of connecting) once; where it would block, the task waits until
    /// the socket is writable.
    pub fn poll_write<T>(
        &self,
        cx: &mut Context<'_>,
        write: impl FnMut(&socket2::Socket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        match self.attempt(write) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.waiting.writer.set(Some(cx.waker().clone()));
                self.connection.arm_write()?;
                Poll::Pending
            }
            done => Poll::Ready(done),
        }
    }

    /// Runs `call` on the socket, again if a signal interrupted it.
    fn attempt<T>(&self, mut call: impl FnMut(&socket2::Socket) -> io::Result<T>) -> io::Result<T> {
        let fd = self.connection.fd();
        let socket = SockRef::from(&fd);
        loop {
            match call(&socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                done => return done,
            }
        }
    }

    /// Sends once, for what is not worth waiting for.
    pub fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|socket| socket.send(bytes))
    }
}

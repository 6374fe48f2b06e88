//! A TCP stream to a nameserver, for answers that do not fit into a datagram. Connecting, reading and writing never
//! block; how long they may take in all is the discovery's to limit.

use super::sleep::Clock;
use super::socket::Socket;
use futures_io::{AsyncRead, AsyncWrite};
use hickory_resolver::net::runtime::DnsTcpStream;
use send_wrapper::SendWrapper;
use socket2::{Domain, Protocol, Type};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

/// hickory's TCP stream over nginx's events.
pub struct DnsTcp(SendWrapper<Socket>);

impl DnsTcp {
    /// Connects to `server`.
    pub async fn connect(server: SocketAddr) -> io::Result<DnsTcp> {
        let stream = DnsTcp::begin(server)?;
        poll_fn(|cx| stream.0.poll_write(cx, connected)).await?;
        Ok(stream)
    }

    fn begin(server: SocketAddr) -> io::Result<DnsTcp> {
        let socket = socket2::Socket::new(Domain::for_address(server), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        // A query is written in two pieces; the second must not wait for the first one's acknowledgement.
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&server.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        Ok(DnsTcp(SendWrapper::new(Socket::new(socket.into())?)))
    }
}

/// The outcome of connecting; "would block" while it is under way.
fn connected(socket: &socket2::Socket) -> io::Result<()> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peer_addr() {
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
        peer => peer.map(drop),
    }
}

impl DnsTcpStream for DnsTcp {
    type Time = Clock;
}

impl AsyncRead for DnsTcp {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buf)
    }
}

impl AsyncWrite for DnsTcp {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, |socket| socket.send(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, |socket| socket.send_vectored(bufs))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_write(cx, |socket| socket.shutdown(Shutdown::Write))
    }
}

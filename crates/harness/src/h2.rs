//! HTTP/2 for tests, in clear text with prior knowledge or over TLS: many streams on one connection, each of which can be
//! reset while it waits. The configuration's `listen` must have `{http2}`. Never retries.

use crate::http::{Error, PATIENCE, Response, meanwhile};
use crate::tls::Certificate;
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest, handshake};
use h2::{Reason, SendStream};
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A connection; its streams end with it.
pub struct Connection {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<()>,
    scheme: &'static str,
}

/// A request under way.
pub struct Stream {
    response: ResponseFuture,
    body: SendStream<Bytes>,
}

impl Connection {
    /// Connects to 127.0.0.1:`port`.
    ///
    /// # Errors
    /// The connection is refused.
    pub async fn connect(port: u16) -> Result<Connection, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Connection::over(stream, "http").await
    }

    /// Connects to 127.0.0.1:`port` with TLS, where the certificate must be this one.
    ///
    /// # Errors
    /// The connection is refused, or the other side is somebody else or does not speak HTTP/2.
    pub async fn connect_tls(port: u16, certificate: &Certificate) -> Result<Connection, Error> {
        Connection::over(certificate.connect(port, b"h2").await?, "https").await
    }

    async fn over<T>(stream: T, scheme: &'static str) -> Result<Connection, Error>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = handshake(stream).await?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, driver, scheme })
    }

    /// `GET path` on a stream of its own.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn get(&mut self, path: &str) -> Result<Stream, Error> {
        let uri = format!("{}://localhost{path}", self.scheme);
        self.start(Request::get(uri).body(())?, true).await
    }

    /// Starts a request; with `ends` it has no body.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn start(&mut self, request: Request<()>, ends: bool) -> Result<Stream, Error> {
        self.sender = self.sender.clone().ready().await?;
        let (response, body) = self.sender.send_request(request, ends)?;
        Ok(Stream { response, body })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Stream {
    /// Sends bytes of the body as the flow control allows, the last ones with `ends`.
    ///
    /// # Errors
    /// The stream or the connection has ended.
    pub async fn send(&mut self, bytes: Bytes, ends: bool) -> Result<(), Error> {
        transmit(&mut self.body, bytes, ends).await
    }

    /// Resets the stream with CANCEL.
    pub fn reset(mut self) {
        self.body.send_reset(Reason::CANCEL);
    }

    /// Waits for the whole response.
    ///
    /// # Errors
    /// The stream or the connection has ended, or it took too long.
    pub async fn response(self) -> Result<Response, Error> {
        timeout(PATIENCE, receive(self.response)).await?
    }

    /// Sends this as the rest of the body and waits for the whole response, which may come before the body is taken. A
    /// stream that was started without a body takes none.
    ///
    /// # Errors
    /// The stream or the connection has ended without a response, or it took too long.
    pub async fn exchange(mut self, body: Bytes) -> Result<Response, Error> {
        let exchange = meanwhile(receive(self.response), transmit(&mut self.body, body, true));
        timeout(PATIENCE, exchange).await?
    }
}

async fn transmit(stream: &mut SendStream<Bytes>, mut bytes: Bytes, ends: bool) -> Result<(), Error> {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let granted = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
        let granted = granted.ok_or("the stream has ended")??;
        let part = bytes.split_to(granted.min(bytes.len()));
        let last = ends && bytes.is_empty();
        stream.send_data(part, last)?;
    }
    Ok(())
}

async fn receive(response: ResponseFuture) -> Result<Response, Error> {
    let (head, mut body) = response.await?.into_parts();
    let mut whole = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        whole.extend_from_slice(&part);
    }
    Ok(Response::new(head.status, head.headers, whole.into()))
}

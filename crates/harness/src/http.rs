//! HTTP/1.1 for tests: one request on a connection of its own, or several on a kept one. The other clients of the
//! harness give the same `Response`. Never retries, never follows redirects.

use crate::tls::Certificate;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub use http::Request;

/// Longest wait for a whole response.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Why there was no response: the connection failed or ended, or it took too long.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A whole response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Header fields.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// How many interim responses came before it, as far as the client tells: `raw` does for whole requests.
    pub interim: usize,
}

impl Response {
    pub(crate) fn new(status: StatusCode, headers: HeaderMap, body: Bytes) -> Response {
        Response { status: status.as_u16(), headers, body, interim: 0 }
    }

    /// A header field's text, if there is such a field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The response to a request whose body is sent meanwhile. Once the response is there, the rest of the body is of no
/// interest: a server may answer without having read it.
pub(crate) async fn meanwhile<T>(response: impl Future<Output = T>, sending: impl Future) -> T {
    tokio::pin!(response);
    tokio::select! {
        response = &mut response => return response,
        _ = sending => {}
    }
    response.await
}

/// `GET path` from 127.0.0.1:`port`, on a connection of its own.
///
/// # Panics
/// There is no response.
pub async fn get(port: u16, path: &str) -> Response {
    try_get(port, path).await.unwrap_or_else(|error| panic!("GET {path}: {error}"))
}

/// The same for tests that expect that there may be none.
///
/// # Errors
/// There is no response.
pub async fn try_get(port: u16, path: &str) -> Result<Response, Error> {
    let request = Request::get(path).header("connection", "close");
    send(port, request.body(Bytes::new())?).await
}

/// A request of the test's own, on a connection of its own. Method, path, headers and body are sent as given; `Host` is
/// added where it lacks.
///
/// # Errors
/// There is no response.
pub async fn send(port: u16, request: Request<Bytes>) -> Result<Response, Error> {
    Client::connect(port).await?.send(request).await
}

/// A kept connection.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Connects to 127.0.0.1:`port`.
    ///
    /// # Errors
    /// The connection is refused.
    pub async fn connect(port: u16) -> Result<Client, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Client::over(stream).await
    }

    /// Connects to 127.0.0.1:`port` with TLS, where the certificate must be this one.
    ///
    /// # Errors
    /// The connection is refused, or the other side is somebody else or does not speak HTTP/1.1.
    pub async fn connect_tls(port: u16, certificate: &Certificate) -> Result<Client, Error> {
        Client::over(certificate.connect(port, b"http/1.1").await?).await
    }

    async fn over<T>(stream: T) -> Result<Client, Error>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Client { sender })
    }

    /// Whether the connection was not seen to end yet.
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// `GET path`.
    ///
    /// # Errors
    /// There is no response.
    pub async fn get(&mut self, path: &str) -> Result<Response, Error> {
        self.send(Request::get(path).body(Bytes::new())?).await
    }

    /// Sends a request and waits for the whole response.
    ///
    /// # Errors
    /// There is no response.
    pub async fn send(&mut self, request: Request<Bytes>) -> Result<Response, Error> {
        let mut request = request.map(Full::new);
        request.headers_mut().entry("host").or_insert(http::HeaderValue::from_static("localhost"));
        timeout(PATIENCE, self.exchange(request)).await?
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Response, Error> {
        self.sender.ready().await?;
        let (head, body) = self.sender.send_request(request).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Response::new(head.status, head.headers, body))
    }
}

//! HTTP/3 for tests: streams of one QUIC connection, each of which can be cancelled while it waits. The configuration's
//! `listen` must have `quic`, which Debian's nginx does not know (`Kind`). Never retries.

use crate::http::{Error, PATIENCE, Response, meanwhile};
use crate::tls::{Certificate, NAME};
use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::Code;
use h3::quic::{RecvStream, SendStream};
use h3_quinn::{BidiStream, OpenStreams};
use http::Request;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The congestion window of a connection: more than nginx takes from all its streams at once. quinn sends the end of a
/// connection only once it may send what waits beside it, such as the rest of a body that was refused; an nginx that does
/// not learn of the end keeps the connection, and its worker, for half a minute.
const WINDOW: u64 = 1 << 20;

/// A connection; its streams end with it.
pub struct Connection {
    sender: SendRequest<OpenStreams, Bytes>,
    driver: JoinHandle<()>,
    endpoint: quinn::Endpoint,
}

/// A request under way.
pub struct Stream(RequestStream<BidiStream<Bytes>, Bytes>);

impl Connection {
    /// Connects to 127.0.0.1:`port`, whose certificate must be this one.
    ///
    /// # Errors
    /// There is no such server.
    pub async fn connect(port: u16, certificate: &Certificate) -> Result<Connection, Error> {
        let mut endpoint = quinn::Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        endpoint.set_default_client_config(configuration(certificate)?);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let connection = timeout(PATIENCE, endpoint.connect(address, NAME)?).await??;
        let mut builder = h3::client::builder();
        // nginx 1.28.3 takes a reserved frame behind a body for a body that is cut short, with and without this module.
        builder.send_grease(false);
        let (mut driver, sender) = builder.build(h3_quinn::Connection::new(connection)).await?;
        let driver = tokio::spawn(async move { drop(poll_fn(|context| driver.poll_close(context)).await) });
        Ok(Connection { sender, driver, endpoint })
    }

    /// `GET path` on a stream of its own.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn get(&mut self, path: &str) -> Result<Stream, Error> {
        let request = Request::get(format!("https://{NAME}{path}")).body(())?;
        let mut stream = self.start(request).await?;
        stream.finish().await?;
        Ok(stream)
    }

    /// Starts a request whose body is open.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn start(&mut self, request: Request<()>) -> Result<Stream, Error> {
        Ok(Stream(self.sender.send_request(request).await?))
    }

    /// Closes the connection and lets the server know.
    pub async fn close(self) {
        self.endpoint.close(0u32.into(), b"done");
        self.endpoint.wait_idle().await;
        self.driver.abort();
    }
}

impl Stream {
    /// Sends bytes of the body as the flow control allows.
    ///
    /// # Errors
    /// The stream or the connection has ended.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), Error> {
        Ok(timeout(PATIENCE, self.0.send_data(bytes)).await??)
    }

    /// Ends the body.
    ///
    /// # Errors
    /// The stream or the connection has ended.
    pub async fn finish(&mut self) -> Result<(), Error> {
        Ok(self.0.finish().await?)
    }

    /// Cancels the request with STOP_SENDING, as a browser does when its user goes on.
    pub fn cancel(mut self) {
        self.0.stop_sending(Code::H3_REQUEST_CANCELLED);
    }

    /// Cancels a request whose body is open: RESET_STREAM and STOP_SENDING.
    pub fn reset(mut self) {
        self.0.stop_stream(Code::H3_REQUEST_CANCELLED);
        self.0.stop_sending(Code::H3_REQUEST_CANCELLED);
    }

    /// Waits for the whole response.
    ///
    /// # Errors
    /// The stream or the connection has ended, or it took too long.
    pub async fn response(mut self) -> Result<Response, Error> {
        timeout(PATIENCE, receive(&mut self.0)).await?
    }

    /// Sends this as the rest of the body and waits for the whole response, which may come before the body is taken.
    ///
    /// # Errors
    /// The stream or the connection has ended without a response, or it took too long.
    pub async fn exchange(self, body: Bytes) -> Result<Response, Error> {
        let (mut upwards, mut downwards) = self.0.split();
        let exchange = meanwhile(receive(&mut downwards), transmit(&mut upwards, body));
        timeout(PATIENCE, exchange).await?
    }
}

fn configuration(certificate: &Certificate) -> Result<quinn::ClientConfig, Error> {
    let trusting = quinn::crypto::rustls::QuicClientConfig::try_from(certificate.client(b"h3")?)?;
    let mut transport = quinn::TransportConfig::default();
    let mut congestion = quinn::congestion::CubicConfig::default();
    congestion.initial_window(WINDOW);
    transport.congestion_controller_factory(Arc::new(congestion));
    let mut config = quinn::ClientConfig::new(Arc::new(trusting));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

async fn transmit<S: SendStream<Bytes>>(
    stream: &mut RequestStream<S, Bytes>,
    body: Bytes,
) -> Result<(), Error> {
    if !body.is_empty() {
        stream.send_data(body).await?;
    }
    Ok(stream.finish().await?)
}

async fn receive<S: RecvStream>(stream: &mut RequestStream<S, Bytes>) -> Result<Response, Error> {
    let head = stream.recv_response().await?;
    let mut body = Vec::new();
    while let Some(mut part) = stream.recv_data().await? {
        body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
    }
    Ok(Response::new(head.status(), head.headers().clone(), body.into()))
}

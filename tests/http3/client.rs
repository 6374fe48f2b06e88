//! HTTP/3 for tests: streams of one QUIC connection, each of which can be cancelled while it waits; and the certificate
//! that nginx shows and this client trusts. Called by http3.rs. Never retries.

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::Code;
use h3_quinn::{BidiStream, OpenStreams};
use http::{Request, Response};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longest wait for a whole response.
const PATIENCE: Duration = Duration::from_secs(30);

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A certificate for `localhost` and its key, in files for nginx.
pub struct Certificate {
    folder: TempDir,
    der: CertificateDer<'static>,
}

impl Certificate {
    /// A fresh one.
    ///
    /// # Panics
    /// Its files cannot be written.
    pub fn new() -> Certificate {
        let names = vec!["localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate for localhost");
        let folder = tempfile::tempdir().expect("a folder for the certificate");
        let write = |name, text: String| std::fs::write(folder.path().join(name), text);
        write("certificate.pem", made.cert.pem()).expect("the certificate is written");
        write("key.pem", made.signing_key.serialize_pem()).expect("the key is written");
        Certificate { der: made.cert.der().clone(), folder }
    }

    /// The folder that holds `certificate.pem` and `key.pem`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

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
        endpoint.set_default_client_config(trusting(certificate)?);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let connection = timeout(PATIENCE, endpoint.connect(address, "localhost")?).await??;
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
        let request = Request::get(format!("https://localhost{path}")).body(())?;
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
    pub async fn response(mut self) -> Result<Response<Bytes>, Error> {
        timeout(PATIENCE, self.receive()).await?
    }

    async fn receive(&mut self) -> Result<Response<Bytes>, Error> {
        let head = self.0.recv_response().await?;
        let mut body = Vec::new();
        while let Some(mut part) = self.0.recv_data().await? {
            body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
        }
        Ok(head.map(|()| body.into()))
    }
}

fn trusting(certificate: &Certificate) -> Result<quinn::ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der.clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let mut config = builder
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h3".to_vec()];
    let quic = quinn::crypto::rustls::QuicClientConfig::try_from(config)?;
    Ok(quinn::ClientConfig::new(Arc::new(quic)))
}

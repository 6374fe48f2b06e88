//! TLS for tests: the certificate that nginx shows, and what a client needs to trust it and nothing else. Called by the
//! clients of each protocol, and by tests for nginx's side. A certificate and its key live as long as their folder;
//! nothing here is ever reused between tests.

use crate::http::Error;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The name that certificates are for and that clients ask for.
pub(crate) const NAME: &str = "localhost";

/// A certificate for `localhost` and its key, in files for nginx. It has to outlive its nginx, whose reload at the end
/// of the test reads the files again.
pub struct Certificate {
    folder: TempDir,
    der: CertificateDer<'static>,
}

impl Certificate {
    /// A fresh one.
    ///
    /// # Panics
    /// Its files cannot be written.
    #[expect(clippy::new_without_default, reason = "it makes files, which a default should not")]
    pub fn new() -> Certificate {
        let made =
            rcgen::generate_simple_self_signed([NAME.to_owned()]).expect("a certificate for localhost");
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

    /// A client that trusts this certificate alone and speaks this protocol over TLS 1.3, which QUIC wants.
    ///
    /// # Errors
    /// The certificate cannot be trusted.
    pub(crate) fn client(&self, protocol: &[u8]) -> Result<ClientConfig, Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13])?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }

    /// Connects to 127.0.0.1:`port`, whose certificate must be this one, and agrees on the protocol.
    ///
    /// # Errors
    /// The connection is refused, or the other side shows another certificate or chooses no or another protocol.
    pub(crate) async fn connect(&self, port: u16, protocol: &[u8]) -> Result<TlsStream<TcpStream>, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let connector = TlsConnector::from(Arc::new(self.client(protocol)?));
        let stream = connector.connect(ServerName::try_from(NAME)?, stream).await?;
        match stream.get_ref().1.alpn_protocol() {
            Some(chosen) if chosen == protocol => Ok(stream),
            chosen => Err(format!("the server chose {chosen:?}").into()),
        }
    }
}

//! The ways in which a client can ask: each gets a connection of its own, on a port of its own, and sends all of its
//! requests on it. Called by `site.rs`; knows nothing of admissions.

use bytes::Bytes;
use http::uri::PathAndQuery;
use ratelimitly_harness::http::{Error, Request, Response};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::tls::Certificate;
use ratelimitly_harness::{Nginx, environment, h2, h3};
use std::fmt;
use tokio::task::JoinHandle;

/// A way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.1, one request after the other.
    Kept,
    /// HTTP/1.1, all requests written at once.
    Pipelined,
    /// HTTP/2 in clear text, all streams at once.
    H2,
    /// HTTP/2 over TLS, all streams at once.
    H2Tls,
    /// HTTP/3, all streams at once.
    H3,
}

use Protocol::{H2, H2Tls, H3, Kept, Pipelined};

/// What this nginx speaks.
pub(crate) fn protocols() -> &'static [Protocol] {
    const ALL: [Protocol; 5] = [Kept, Pipelined, H2, H2Tls, H3];
    if environment::has_http3() { &ALL } else { &ALL[..4] }
}

/// The lines of a server that listens for all of it, `{listeners}` in the configurations.
pub(crate) fn listeners() -> String {
    let quic = if environment::has_http3() { "listen 127.0.0.1:{port_h3} quic;" } else { "" };
    let (parameter, directive) =
        if environment::has_http2_directive() { ("", "http2 on;") } else { (" http2", "") };
    format!(
        "listen 127.0.0.1:{{port}};
        listen 127.0.0.1:{{port_pipelined}};
        listen 127.0.0.1:{{port_h2}}{parameter};
        listen 127.0.0.1:{{port_tls}} ssl{parameter};
        {quic}
        {directive}
        ssl_certificate {{certificate}}/certificate.pem;
        ssl_certificate_key {{certificate}}/key.pem;
        ssl_protocols TLSv1.3;"
    )
}

impl Protocol {
    /// A short name, in URIs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kept => "kept",
            Pipelined => "pipelined",
            H2 => "h2",
            H2Tls => "h2-tls",
            H3 => "h3",
        }
    }

    /// What nginx calls it in `$request`.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Kept | Pipelined => "HTTP/1.1",
            H2 | H2Tls => "HTTP/2.0",
            H3 => "HTTP/3.0",
        }
    }

    fn port(self, nginx: &Nginx) -> u16 {
        nginx.named_port(match self {
            Kept => "port",
            Pipelined => "port_pipelined",
            H2 => "port_h2",
            H2Tls => "port_tls",
            H3 => "port_h3",
        })
    }

    /// Sends all of it and gives the responses in the same order.
    pub(crate) async fn ask(
        self,
        nginx: &Nginx,
        certificate: &Certificate,
        requests: &[Request<Bytes>],
    ) -> Result<Vec<Response>, Error> {
        let port = self.port(nginx);
        match self {
            Kept => kept(Raw::connect(port).await?, requests).await,
            Pipelined => Raw::connect(port).await?.pipeline(requests).await,
            H2 => over_h2(h2::Connection::connect(port).await?, requests).await,
            H2Tls => over_h2(h2::Connection::connect_tls(port, certificate).await?, requests).await,
            H3 => over_h3(h3::Connection::connect(port, certificate).await?, requests).await,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kept => "HTTP/1.1, kept",
            Pipelined => "HTTP/1.1, pipelined",
            H2 => "HTTP/2 in clear text",
            H2Tls => "HTTP/2 over TLS",
            H3 => "HTTP/3",
        })
    }
}

async fn kept(mut connection: Raw, requests: &[Request<Bytes>]) -> Result<Vec<Response>, Error> {
    let mut responses = Vec::new();
    for request in requests {
        responses.push(connection.exchange(request).await?);
    }
    Ok(responses)
}

async fn over_h2(
    mut connection: h2::Connection,
    requests: &[Request<Bytes>],
) -> Result<Vec<Response>, Error> {
    let mut streams = Vec::new();
    for request in requests {
        let (head, body) = (stream_head(request)?, request.body().clone());
        let stream = connection.start(head, body.is_empty()).await?;
        streams.push(tokio::spawn(stream.exchange(body)));
    }
    all(streams).await
}

async fn over_h3(
    mut connection: h3::Connection,
    requests: &[Request<Bytes>],
) -> Result<Vec<Response>, Error> {
    let mut streams = Vec::new();
    for request in requests {
        let stream = connection.start(stream_head(request)?).await?;
        streams.push(tokio::spawn(stream.exchange(request.body().clone())));
    }
    let responses = all(streams).await;
    connection.close().await;
    responses
}

type Running = JoinHandle<Result<Response, Error>>;

async fn all(streams: Vec<Running>) -> Result<Vec<Response>, Error> {
    let mut responses = Vec::new();
    for stream in streams {
        responses.push(stream.await??);
    }
    Ok(responses)
}

/// The head as HTTP/2 and HTTP/3 send it: with an authority, and told how long the body is.
fn stream_head(request: &Request<Bytes>) -> Result<Request<()>, Error> {
    let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    let mut head = Request::builder().method(request.method()).uri(format!("https://localhost{target}"));
    for (name, value) in request.headers() {
        head = head.header(name, value);
    }
    if !request.body().is_empty() {
        head = head.header("content-length", request.body().len());
    }
    Ok(head.body(())?)
}

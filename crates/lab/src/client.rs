//! Asking an nginx until its module gives verdicts. Called by the experiments before their load begins: a worker's first
//! requests wait for discovery.

use crate::error::Error;
use crate::nginx::Nginx;
use bytes::Bytes;
use http_body_util::Empty;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Longest wait for the first verdict, seconds.
const WARM: u64 = 10;

/// Asks for `path`, whose answers tell the verdict in the header `X-Verdict`, until one is allowed.
///
/// # Errors
/// None is in time.
pub async fn warm(port: u16, path: &str, nginx: &Nginx) -> Result<(), Error> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(WARM) {
        if verdict(port, path).await.as_deref() == Some("allow") {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await; // then asked again
    }
    Err(Error::NoVerdict { seconds: WARM, log: nginx.read("error.log").unwrap_or_default() })
}

/// The verdict that one request got, from the header `X-Verdict`; `None` for a request without one.
pub async fn verdict(port: u16, path: &str) -> Option<String> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let (mut connection, driver) = handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(driver);
    let request = http::Request::get(path).header("host", "lab").header("x-key", "warm");
    let response = connection.send_request(request.body(Empty::<Bytes>::new()).ok()?).await.ok()?;
    Some(response.headers().get("x-verdict")?.to_str().ok()?.to_owned())
}

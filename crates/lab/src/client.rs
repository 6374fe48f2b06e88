//! Asking an nginx until its module gives verdicts. Called by the experiments before their load begins: a worker's first
//! requests wait for discovery.

use crate::error::{Error, io};
use bytes::Bytes;
use ratelimitly_harness::http::{self, Request};
use ratelimitly_harness::{Builder, Nginx};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Longest wait for the first verdict, seconds.
const WARM: u64 = 10;

/// Starts nginx with what it needs and nothing else.
///
/// # Errors
/// nginx refuses the configuration or does not serve in time.
pub async fn start(builder: Builder, level: &'static str) -> Result<Nginx, Error> {
    builder.bare().log_level(level).try_start().await.map_err(Error::Nginx)
}

/// The text of a file in nginx's folder.
///
/// # Errors
/// It cannot be read.
pub fn read(nginx: &Nginx, name: &str) -> Result<String, Error> {
    std::fs::read_to_string(nginx.prefix().join(name)).map_err(io(name))
}

/// Asks for `path`, whose answers tell the verdict in the header `X-Verdict`, until one is allowed.
///
/// # Errors
/// None is in time.
pub async fn warm(nginx: &Nginx, path: &str) -> Result<(), Error> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(WARM) {
        if verdict(nginx.port(), path).await.as_deref() == Some("allow") {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await; // then asked again
    }
    Err(Error::NoVerdict { seconds: WARM, log: read(nginx, "error.log").unwrap_or_default() })
}

/// The verdict that one request got, from the header `X-Verdict`; `None` for a request without one.
pub async fn verdict(port: u16, path: &str) -> Option<String> {
    let request = Request::get(path).header("connection", "close").header("x-key", "warm");
    let response = http::send(port, request.body(Bytes::new()).ok()?).await.ok()?;
    response.header("x-verdict").map(str::to_owned)
}

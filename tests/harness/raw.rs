//! A bare TCP client for what a well-behaved one cannot do: half requests, pipelined requests, resets. Speaks just
//! enough HTTP/1.1 to read whole responses.

use crate::http::{Error, PATIENCE, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A connection on which a test writes what it likes.
pub struct Raw {
    stream: BufReader<TcpStream>,
}

impl Raw {
    /// Connects to 127.0.0.1:`port`.
    ///
    /// # Errors
    /// The connection is refused.
    pub async fn connect(port: u16) -> Result<Raw, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Raw { stream: BufReader::new(stream) })
    }

    /// Writes these bytes and nothing else.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(self.stream.get_mut().write_all(bytes.as_ref()).await?)
    }

    /// Reads one whole response and leaves what follows it to the next call.
    ///
    /// # Errors
    /// The connection ended within it, it is no HTTP/1.1, or it took too long.
    pub async fn response(&mut self) -> Result<Response, Error> {
        timeout(PATIENCE, self.read_response()).await?
    }

    /// Reads until the other side closes.
    ///
    /// # Errors
    /// It reset the connection, or it took too long.
    pub async fn rest(&mut self) -> Result<Vec<u8>, Error> {
        let mut rest = Vec::new();
        timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await??;
        Ok(rest)
    }

    /// Ends the connection with a reset (RST) instead of an orderly close.
    ///
    /// # Errors
    /// The socket option cannot be set.
    pub fn reset(self) -> Result<(), Error> {
        Ok(self.stream.get_ref().set_zero_linger()?)
    }

    async fn read_response(&mut self) -> Result<Response, Error> {
        let status = self.line().await?;
        let status = status.split(' ').nth(1).ok_or_else(|| format!("no status line: {status}"))?.parse()?;
        let mut headers = HeaderMap::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.append(name.parse::<HeaderName>()?, value.trim().parse::<HeaderValue>()?);
        }
        let body = self.read_body(status, &headers).await?;
        Ok(Response::new(StatusCode::from_u16(status)?, headers, body.into()))
    }

    async fn read_body(&mut self, status: u16, headers: &HeaderMap) -> Result<Vec<u8>, Error> {
        if matches!(status, 100..=199 | 204 | 304) {
            return Ok(Vec::new());
        }
        if let Some(length) = headers.get("content-length") {
            return self.exactly(length.to_str()?.parse()?).await;
        }
        if !headers.contains_key("transfer-encoding") {
            let mut body = Vec::new();
            self.stream.read_to_end(&mut body).await?;
            return Ok(body);
        }
        let mut body = Vec::new();
        loop {
            let size = self.line().await?;
            let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16)?;
            body.extend(self.exactly(size).await?);
            self.line().await?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn exactly(&mut self, count: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    async fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err("the connection ended within a response".into());
        }
        Ok(line.trim_end().to_owned())
    }
}

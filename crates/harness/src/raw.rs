//! A bare TCP client for what a well-behaved one cannot do: half requests, pipelined requests, resets. Speaks just
//! enough HTTP/1.1 to read whole responses.

use crate::http::{Error, PATIENCE, Response, meanwhile};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

/// Most header fields of a response.
const FIELDS: usize = 64;

/// A connection on which a test writes what it likes.
pub struct Raw {
    reader: Reader,
    writer: OwnedWriteHalf,
}

struct Reader(BufReader<OwnedReadHalf>);

impl Raw {
    /// Connects to 127.0.0.1:`port`.
    ///
    /// # Errors
    /// The connection is refused.
    pub async fn connect(port: u16) -> Result<Raw, Error> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        Ok(Raw { reader: Reader(BufReader::new(reader)), writer })
    }

    /// Writes these bytes and nothing else.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), Error> {
        Ok(self.writer.write_all(bytes.as_ref()).await?)
    }

    /// Reads one whole response and leaves what follows it to the next call.
    ///
    /// # Errors
    /// The connection ended within it, it is no HTTP/1.1, or it took too long.
    pub async fn response(&mut self) -> Result<Response, Error> {
        timeout(PATIENCE, self.reader.response(&Method::GET)).await?
    }

    /// Writes a whole request and reads its response. A body after `Expect: 100-continue` waits for an interim response
    /// and is kept back where a final one comes instead. `Host` and `Content-Length` are added.
    ///
    /// # Errors
    /// The connection ended within it, it is no HTTP/1.1, or it took too long.
    pub async fn exchange(&mut self, request: &Request<Bytes>) -> Result<Response, Error> {
        if !request.headers().contains_key("expect") {
            return Ok(self.pipeline(std::slice::from_ref(request)).await?.swap_remove(0));
        }
        self.send(head(request)?).await?;
        let first = timeout(PATIENCE, self.reader.response(request.method())).await??;
        if first.status >= 200 {
            return Ok(first);
        }
        self.send(request.body()).await?;
        let response = timeout(PATIENCE, self.reader.last_response(request.method())).await??;
        Ok(Response { interim: response.interim + 1, ..response })
    }

    /// Writes whole requests at once, without waiting for an answer to any, and reads a response for each. `Host` and
    /// `Content-Length` are added.
    ///
    /// # Errors
    /// The connection ended within it, it is no HTTP/1.1, or it took too long.
    pub async fn pipeline(&mut self, requests: &[Request<Bytes>]) -> Result<Vec<Response>, Error> {
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend(head(request)?.as_bytes());
            bytes.extend(request.body());
        }
        let responses = self.reader.responses(requests);
        timeout(PATIENCE, meanwhile(responses, self.writer.write_all(&bytes))).await?
    }

    /// Reads until the other side closes.
    ///
    /// # Errors
    /// It reset the connection, or it took too long.
    pub async fn rest(&mut self) -> Result<Vec<u8>, Error> {
        let mut rest = Vec::new();
        timeout(PATIENCE, self.reader.0.read_to_end(&mut rest)).await??;
        Ok(rest)
    }

    /// Ends the connection with a reset (RST) instead of an orderly close.
    ///
    /// # Errors
    /// The socket option cannot be set.
    pub fn reset(self) -> Result<(), Error> {
        Ok(self.reader.0.into_inner().reunite(self.writer)?.set_zero_linger()?)
    }
}

/// A request's head, as it is sent.
fn head(request: &Request<Bytes>) -> Result<String, Error> {
    let mut head = format!("{} {} HTTP/1.1\r\nHost: localhost\r\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        head += &format!("{name}: {}\r\n", value.to_str()?);
    }
    if !request.body().is_empty() {
        head += &format!("Content-Length: {}\r\n", request.body().len());
    }
    Ok(head + "\r\n")
}

impl Reader {
    async fn responses(&mut self, requests: &[Request<Bytes>]) -> Result<Vec<Response>, Error> {
        let mut responses = Vec::new();
        for request in requests {
            responses.push(self.last_response(request.method()).await?);
        }
        Ok(responses)
    }

    /// The final response, interim ones counted.
    async fn last_response(&mut self, method: &Method) -> Result<Response, Error> {
        let mut interim = 0;
        loop {
            let response = self.response(method).await?;
            if response.status >= 200 {
                return Ok(Response { interim, ..response });
            }
            interim += 1;
        }
    }

    async fn response(&mut self, method: &Method) -> Result<Response, Error> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if self.0.read_until(b'\n', &mut head).await? == 0 {
                return Err("the connection ended within a response".into());
            }
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut parsed = httparse::Response::new(&mut fields);
        parsed.parse(&head)?;
        let status = parsed.code.ok_or("no status line")?;
        let mut headers = HeaderMap::new();
        for field in parsed.headers {
            headers.append(field.name.parse::<HeaderName>()?, HeaderValue::from_bytes(field.value)?);
        }
        let body = if method == Method::HEAD { Vec::new() } else { self.body(status, &headers).await? };
        Ok(Response::new(StatusCode::from_u16(status)?, headers, body.into()))
    }

    async fn body(&mut self, status: u16, headers: &HeaderMap) -> Result<Vec<u8>, Error> {
        if matches!(status, 100..=199 | 204 | 304) {
            return Ok(Vec::new());
        }
        if let Some(length) = headers.get("content-length") {
            return self.exactly(length.to_str()?.parse()?).await;
        }
        if !headers.contains_key("transfer-encoding") {
            let mut body = Vec::new();
            self.0.read_to_end(&mut body).await?;
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
        self.0.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    async fn line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        if self.0.read_line(&mut line).await? == 0 {
            return Err("the connection ended within a response".into());
        }
        Ok(line.trim_end().to_owned())
    }
}

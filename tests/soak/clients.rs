//! The clients of the soak: sends a request as its plan says, over connections that are shared, or over one of its own, and
//! tells what became of it. Called by `traffic.rs`. Never retries a request that nginx may have seen.

use crate::reloads::Reloads;
use crate::site::Ports;
use crate::traffic::{Job, Leaving, PLACES, Protocol};
use bytes::Bytes;
use ratelimitly_harness::http::{Client, Error, Response};
use ratelimitly_harness::raw::Raw;
use ratelimitly_harness::tls::Certificate;
use ratelimitly_harness::{h2, h3};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

/// A QUIC connection that was idle for so long is not used again: nginx forgets it soon (site.rs).
const STALE: Duration = Duration::from_secs(1);

/// How long a client of HTTP/3 waits for an answer after a reload.
const GIVE_UP: Duration = Duration::from_secs(3);

/// What became of a request.
pub(crate) enum Outcome {
    Answered(u16),
    Left,
    /// A reload ended the connection that it was on.
    Ended,
    /// It had to be answered and was not.
    Lost(Error),
}

/// The clients, with their shared connections.
pub(crate) struct Clients {
    ports: Ports,
    certificate: Arc<Certificate>,
    reloads: Arc<Reloads>,
    plain: [Mutex<Option<One>>; PLACES],
    secure: [Mutex<Option<One>>; PLACES],
    /// Of HTTP/2, HTTP/2 over TLS, HTTP/3.
    many: [[Mutex<Option<Many>>; PLACES]; 3],
}

/// A connection of HTTP/1.1 between two requests.
struct One {
    client: Client,
    opened: u64,
}

/// A connection with streams. Streams under way keep it, for it ends with its last owner.
#[derive(Clone)]
struct Many {
    link: Arc<Mutex<Link>>,
    opened: u64,
    used: Instant,
}

enum Link {
    H2(h2::Connection),
    H3(h3::Connection),
}

enum Stream {
    H2(h2::Stream),
    H3(Box<h3::Stream>),
}

/// Why there is no answer, and what the count of reloads was when the connection was opened.
struct Broken {
    opened: u64,
    error: Error,
}

impl Clients {
    pub fn new(ports: Ports, certificate: Arc<Certificate>, reloads: Arc<Reloads>) -> Clients {
        let (plain, secure, many) = Default::default();
        Clients { ports, certificate, reloads, plain, secure, many }
    }

    /// What this nginx speaks.
    pub fn protocols(&self) -> Vec<Protocol> {
        let mut protocols = vec![Protocol::Http1, Protocol::Https1, Protocol::Http2, Protocol::Https2];
        protocols.extend(self.ports.quic.map(|_| Protocol::Http3));
        protocols
    }

    pub async fn perform(&self, job: &Job) -> Outcome {
        let answered = match (job.protocol, job.leaving) {
            (Protocol::Http1, Leaving::Reset(after)) => return self.reset(job, after).await,
            (Protocol::Http1 | Protocol::Https1, _) => self.over_one(job).await,
            (_, Leaving::Reset(after)) => self.cancel(job, after).await.map(|()| None),
            _ => self.over_stream(job).await,
        };
        match answered {
            Ok(Some(response)) => Outcome::Answered(response.status),
            Ok(None) => Outcome::Left,
            Err(broken) => self.judge(job, broken),
        }
    }

    /// nginx ends connections gracefully in a reload, idle ones at once. A request that it has not read then is not
    /// answered; nor is one whose datagrams the other worker gets. That a request hangs is another matter, and so is
    /// the failure of a TCP connection that was made for this request alone.
    fn judge(&self, job: &Job, broken: Broken) -> Outcome {
        let hangs = broken.error.is::<tokio::time::error::Elapsed>();
        let own = job.place.is_none() && !job.protocol.has_streams();
        if hangs || own || !self.reloads.since(broken.opened) {
            return Outcome::Lost(broken.error);
        }
        Outcome::Ended
    }

    /// Sends the request, and resets the connection after a while, answered or not.
    async fn reset(&self, job: &Job, after: Duration) -> Outcome {
        let mut client = match Raw::connect(self.ports.plain).await {
            Ok(client) => client,
            Err(error) => return Outcome::Lost(error),
        };
        // A denied upload may be closed by nginx first: then this client has left a little later than it was left.
        let _ = client.send(job.head()).await;
        let _ = client.send(job.bytes().slice(..job.body.min(100_000))).await;
        sleep(after).await;
        let _ = client.reset();
        Outcome::Left
    }

    /// `None`: the client has left, and taken its connection along.
    async fn over_one(&self, job: &Job) -> Result<Option<Response>, Broken> {
        let pool = if job.protocol == Protocol::Http1 { &self.plain } else { &self.secure };
        let mut place = match job.place {
            Some(place) => Some(pool[place].lock().await),
            None => None,
        };
        let kept = place.as_mut().and_then(|place| place.take()).filter(|one| one.client.is_open());
        let mut one = match kept {
            Some(one) => one,
            None => self.open_one(job).await?,
        };
        let broken = |error| Broken { opened: one.opened, error };
        let request = job.request().map_err(broken)?.map(|()| job.bytes());
        let Some(answered) = unless_left(job.leaving, one.client.send(request)).await else {
            return Ok(None);
        };
        let response = answered.map_err(broken)?;
        if let Some(place) = &mut place
            && response.header("connection") != Some("close")
            && !job.may_be_cut()
        {
            **place = Some(one);
        }
        Ok(Some(response))
    }

    async fn open_one(&self, job: &Job) -> Result<One, Broken> {
        let opened = self.reloads.count();
        let client = match job.protocol {
            Protocol::Http1 => Client::connect(self.ports.plain).await,
            _ => Client::connect_tls(self.ports.secure, &self.certificate).await,
        };
        Ok(One { client: client.map_err(|error| Broken { opened, error })?, opened })
    }

    async fn over_stream(&self, job: &Job) -> Result<Option<Response>, Broken> {
        let (stream, many) = self.start(job).await?;
        let exchange = async {
            match stream {
                Stream::H2(stream) => stream.exchange(job.bytes()).await,
                Stream::H3(stream) => self.unless_starved(many.opened, stream.exchange(job.bytes())).await,
            }
        };
        let Some(answered) = unless_left(job.leaving, exchange).await else { return Ok(None) };
        answered.map(Some).map_err(|error| Broken { opened: many.opened, error })
    }

    /// What comes of it, unless the connection of QUIC lives on so long after a reload that its client gives it up: while
    /// the old worker lives, each of the two takes some of the other's datagrams.
    async fn unless_starved<T>(
        &self,
        opened: u64,
        exchange: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let starved = async {
            self.reloads.next(opened).await;
            sleep(GIVE_UP).await;
        };
        tokio::select! {
            done = exchange => done,
            () = starved => Err("a reload took its datagrams away".into()),
        }
    }

    /// Begins to send the request's body, and cancels its stream after a while, answered or not.
    async fn cancel(&self, job: &Job, after: Duration) -> Result<(), Broken> {
        let (mut stream, _many) = self.start(job).await?;
        let left = Instant::now() + after;
        // The answer may come, and the stream end, before the body has been sent; then nothing is left to cancel.
        let _ = timeout(after, stream.send(job.bytes())).await;
        sleep(left.saturating_duration_since(Instant::now())).await;
        match stream {
            Stream::H2(stream) => stream.reset(),
            Stream::H3(stream) if job.body > 0 => stream.reset(),
            Stream::H3(stream) => stream.cancel(),
        }
        Ok(())
    }

    /// On the shared connection, or on a new one where nginx has ended that.
    async fn start(&self, job: &Job) -> Result<(Stream, Many), Broken> {
        let Some(place) = job.place else {
            let many = self.open_many(job).await?;
            return Ok((many.start(job).await?, many));
        };
        let mut place = self.many_of(job.protocol)[place].lock().await;
        if let Some(many) = place.as_mut().filter(|many| many.usable()) {
            many.used = Instant::now();
            if let Ok(stream) = many.start(job).await {
                return Ok((stream, many.clone()));
            }
        }
        let many = self.open_many(job).await?;
        let stream = many.start(job).await?;
        *place = Some(many.clone());
        Ok((stream, many))
    }

    fn many_of(&self, protocol: Protocol) -> &[Mutex<Option<Many>>; PLACES] {
        match protocol {
            Protocol::Http3 => &self.many[2],
            Protocol::Https2 => &self.many[1],
            _ => &self.many[0],
        }
    }

    async fn open_many(&self, job: &Job) -> Result<Many, Broken> {
        let opened = self.reloads.count();
        let connected = match job.protocol {
            Protocol::Http3 => self.unless_starved(opened, self.connect(Protocol::Http3)).await,
            protocol => self.connect(protocol).await,
        };
        let link = connected.map_err(|error| Broken { opened, error })?;
        Ok(Many { link: Arc::new(Mutex::new(link)), opened, used: Instant::now() })
    }

    async fn connect(&self, protocol: Protocol) -> Result<Link, Error> {
        let Ports { clear, secure, quic, .. } = self.ports;
        Ok(match protocol {
            Protocol::Http3 => {
                let port = quic.ok_or("this nginx does not speak HTTP/3")?;
                Link::H3(h3::Connection::connect(port, &self.certificate).await?)
            }
            Protocol::Https2 => Link::H2(h2::Connection::connect_tls(secure, &self.certificate).await?),
            _ => Link::H2(h2::Connection::connect(clear).await?),
        })
    }
}

impl Many {
    fn usable(&self) -> bool {
        self.used.elapsed() < STALE
    }

    async fn start(&self, job: &Job) -> Result<Stream, Broken> {
        let broken = |error| Broken { opened: self.opened, error };
        let request = job.request().map_err(broken)?;
        let started = match &mut *self.link.lock().await {
            Link::H2(connection) => connection.start(request, job.body == 0).await.map(Stream::H2),
            Link::H3(connection) => {
                connection.start(request).await.map(|stream| Stream::H3(Box::new(stream)))
            }
        };
        started.map_err(broken)
    }
}

impl Stream {
    /// Sends this and ends the body.
    async fn send(&mut self, bytes: Bytes) -> Result<(), Error> {
        match self {
            Stream::H2(stream) => stream.send(bytes, true).await,
            Stream::H3(stream) => {
                if !bytes.is_empty() {
                    stream.send(bytes).await?;
                }
                stream.finish().await
            }
        }
    }
}

/// What the client gets; `None` where it leaves before.
async fn unless_left<T>(leaving: Leaving, exchange: impl Future<Output = T>) -> Option<T> {
    match leaving {
        Leaving::No => Some(exchange.await),
        Leaving::Reset(after) | Leaving::Drop(after) => timeout(after, exchange).await.ok(),
    }
}

//! The requests: one each tick, over one of five protocols, on a connection that others use too or on one of its own; some
//! clients leave before they have an answer. Started by `main.rs`, which gets the tally; sent by `clients.rs`. What is
//! random about a request is decided before it starts, so that the order of answers does not change the plan.

use crate::clients::{Clients, Outcome};
use crate::places::PATHS;
use bytes::Bytes;
use fastrand::Rng;
use ratelimitly_harness::http::{Error, Request};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// What a request is sent over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Http1,
    Https1,
    Http2,
    Https2,
    Http3,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Https1 => "HTTP/1.1 over TLS",
            Protocol::Http2 => "HTTP/2",
            Protocol::Https2 => "HTTP/2 over TLS",
            Protocol::Http3 => "HTTP/3",
        })
    }
}

/// How a client leaves: with an answer or, after a while, without.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leaving {
    No,
    /// Its stream is reset, or the TCP connection of HTTP/1.1 in clear text.
    Reset(Duration),
    /// Its connection is closed, in the middle of what it sends or receives.
    Drop(Duration),
}

/// One request, decided.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub protocol: Protocol,
    /// Which of the shared connections; `None`: one of its own.
    pub place: Option<usize>,
    method: &'static str,
    pub target: String,
    pub body: usize,
    /// Whether a body on a stream is announced with its length.
    announced: bool,
    pub leaving: Leaving,
}

/// Shared connections of each protocol.
pub(crate) const PLACES: usize = 3;

impl Job {
    fn random(random: &mut Rng, protocols: &[Protocol]) -> Job {
        let protocol = *random.choice(protocols).expect("there is a protocol");
        let path = weighted(random);
        let takes_body = matches!(path, "/upload" | "/unbuffered" | "/mirrored" | "/guarded");
        let method = match random.u8(0..10) {
            0..3 if takes_body => "POST",
            3..5 if takes_body => "PUT",
            5 => "HEAD",
            6 => "DELETE",
            _ => "GET",
        };
        let body = if !matches!(method, "POST" | "PUT") { 0 } else { sizes(random) };
        let target = format!("{path}?client={}", random.u8(0..40));
        let leaving = leaving(random);
        // Streams are mostly on connections with many, where the end of one must not disturb the others.
        let shared = random.u8(0..10) < if protocol.has_streams() { 9 } else { 5 };
        let place = Some(random.usize(0..PLACES)).filter(|_| match leaving {
            Leaving::No => shared,
            // A client that leaves takes its whole connection along.
            Leaving::Drop(_) => false,
            Leaving::Reset(_) => protocol.has_streams(),
        });
        Job { protocol, place, method, target, body, announced: random.bool(), leaving }
    }

    /// The head of the request; HTTP/1.1 names its host in a field, the others in the URI.
    pub fn request(&self) -> Result<Request<()>, Error> {
        let authority = match self.protocol {
            Protocol::Http1 | Protocol::Https1 => "",
            Protocol::Http2 => "http://localhost",
            Protocol::Https2 | Protocol::Http3 => "https://localhost",
        };
        let mut request = Request::builder().method(self.method).uri(format!("{authority}{}", self.target));
        if self.announced && self.body > 0 && self.protocol.has_streams() {
            request = request.header("content-length", self.body);
        }
        if self.place.is_none() && !self.protocol.has_streams() {
            request = request.header("connection", "close");
        }
        Ok(request.body(())?)
    }

    /// Whether nginx may answer before it has taken the whole body, and then closes a connection of HTTP/1.1 without a word.
    pub fn may_be_cut(&self) -> bool {
        self.body > 0 && self.target.starts_with("/unbuffered")
    }

    pub fn bytes(&self) -> Bytes {
        Bytes::from(vec![b'x'; self.body])
    }

    /// As a bare client sends it over HTTP/1.1.
    pub fn head(&self) -> String {
        format!(
            "{} {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            self.method, self.target, self.body
        )
    }
}

impl Protocol {
    pub fn has_streams(self) -> bool {
        matches!(self, Protocol::Http2 | Protocol::Https2 | Protocol::Http3)
    }

    /// `$scheme:$server_protocol` of the access log.
    pub fn logged(self) -> &'static str {
        match self {
            Protocol::Http1 => "http:HTTP/1.1",
            Protocol::Https1 => "https:HTTP/1.1",
            Protocol::Http2 => "http:HTTP/2.0",
            Protocol::Https2 => "https:HTTP/2.0",
            Protocol::Http3 => "https:HTTP/3.0",
        }
    }
}

fn leaving(random: &mut Rng) -> Leaving {
    let after = Duration::from_millis(random.u64(0..150));
    match random.u8(0..100) {
        0..8 => Leaving::Reset(after),
        8..13 => Leaving::Drop(after),
        _ => Leaving::No,
    }
}

fn weighted(random: &mut Rng) -> &'static str {
    let mut place = random.u32(0..PATHS.iter().map(|(_, weight)| weight).sum());
    for (path, weight) in PATHS {
        if place < weight {
            return path;
        }
        place -= weight;
    }
    PATHS[0].0
}

fn sizes(random: &mut Rng) -> usize {
    match random.u8(0..20) {
        0..6 => 0,
        6..13 => random.usize(1..1000),
        13..19 => 16 << 10,
        _ => 2 << 20,
    }
}

/// What became of the requests over one protocol.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub answered: u64,
    /// Clients that left on purpose.
    pub left: u64,
    /// Requests whose connection was ended by a reload before the answer.
    pub ended: u64,
}

/// What the clients saw.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How many responses had each status.
    pub statuses: BTreeMap<u16, u64>,
    pub protocols: BTreeMap<Protocol, Counts>,
    /// Requests that had to be answered and were not.
    pub lost: Vec<String>,
}

impl Tally {
    fn count(&mut self, (job, outcome): (Job, Outcome)) {
        let counts = self.protocols.entry(job.protocol).or_default();
        match outcome {
            Outcome::Answered(status) => {
                counts.answered += 1;
                *self.statuses.entry(status).or_default() += 1;
            }
            Outcome::Left => counts.left += 1,
            Outcome::Ended => counts.ended += 1,
            Outcome::Lost(error) => self.lost.push(format!("{job:?}: {error}")),
        }
    }
}

/// Sends requests at a steady rate until the time is over, and waits for those under way.
pub(crate) async fn run(clients: Clients, rate: u32, until: Instant, mut random: Rng) -> Tally {
    let protocols = clients.protocols();
    let clients = Arc::new(clients);
    let mut tally = Tally::default();
    tally.protocols.extend(protocols.iter().map(|protocol| (*protocol, Counts::default())));
    let mut under_way = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1) / rate);
    while Instant::now() < until {
        tick.tick().await;
        let (clients, job) = (clients.clone(), Job::random(&mut random, &protocols));
        under_way.spawn(async move {
            let outcome = clients.perform(&job).await;
            (job, outcome)
        });
        while let Some(done) = under_way.try_join_next() {
            tally.count(done.expect("a client does not panic"));
        }
    }
    while let Some(done) = under_way.join_next().await {
        tally.count(done.expect("a client does not panic"));
    }
    tally
}

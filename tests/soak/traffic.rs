//! The clients: one request each tick, over HTTP/1.1 on a connection of its own, on a kept connection, or as a stream of
//! HTTP/2; some leave before they have an answer. Started by `main.rs`, which gets the tally. What is random about a
//! request is decided before it starts, so that the order of answers does not change the plan.

use crate::site::{PATHS, Ports};
use bytes::Bytes;
use fastrand::Rng;
use ratelimitly_tests::http::{Client, Error, Request, send};
use ratelimitly_tests::{h2, raw::Raw};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

/// What the clients saw.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How many responses had each status.
    pub statuses: BTreeMap<u16, u64>,
    /// Clients that left on purpose.
    pub left: u64,
    /// Kept connections and streams that a reload ended before the answer.
    pub ended: u64,
    /// Requests that had to be answered and were not.
    pub lost: Vec<String>,
    /// Of these requests, how many were asked over HTTP/2.
    pub over_h2: u64,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Fresh,
    Kept(usize),
    Stream(usize),
}

/// One request, decided.
#[derive(Clone, Debug)]
struct Job {
    way: Way,
    method: &'static str,
    target: String,
    body: usize,
    leaves_after: Option<Duration>,
}

enum Outcome {
    Answered(u16),
    Left,
    Ended,
    Lost(String),
}

/// Connections that several requests use, one after the other or at once.
struct Pool {
    ports: Ports,
    kept: [Mutex<Option<Client>>; 4],
    streams: [Mutex<Option<h2::Connection>>; 3],
}

/// Sends requests at a steady rate until the time is over, and waits for those under way.
pub(crate) async fn run(ports: Ports, rate: u32, until: Instant, mut random: Rng) -> Tally {
    let pool = Arc::new(Pool { ports, kept: Default::default(), streams: Default::default() });
    let mut tally = Tally::default();
    let mut under_way = JoinSet::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1) / rate);
    while Instant::now() < until {
        tick.tick().await;
        let job = Job::random(&mut random);
        tally.over_h2 += u64::from(matches!(job.way, Way::Stream(_)));
        under_way.spawn(perform(pool.clone(), job));
        while let Some(done) = under_way.try_join_next() {
            tally.count(done.expect("a client does not panic"));
        }
    }
    while let Some(done) = under_way.join_next().await {
        tally.count(done.expect("a client does not panic"));
    }
    tally
}

impl Tally {
    fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answered(status) => *self.statuses.entry(status).or_default() += 1,
            Outcome::Left => self.left += 1,
            Outcome::Ended => self.ended += 1,
            Outcome::Lost(what) => self.lost.push(what),
        }
    }
}

impl Job {
    fn random(random: &mut Rng) -> Job {
        let way = match random.u8(0..10) {
            0..3 => Way::Fresh,
            3..6 => Way::Kept(random.usize(0..4)),
            _ => Way::Stream(random.usize(0..3)),
        };
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
        let leaves_after = (random.u8(0..100) < 12).then(|| Duration::from_millis(random.u64(0..150)));
        Job { way, method, target, body, leaves_after }
    }

    fn request(&self, authority: &str) -> Result<Request<Bytes>, Error> {
        let uri = format!("{authority}{}", self.target);
        let body = Bytes::from(vec![b'x'; self.body]);
        Ok(Request::builder().method(self.method).uri(uri).body(body)?)
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

async fn perform(pool: Arc<Pool>, job: Job) -> Outcome {
    match (job.way, job.leaves_after) {
        (Way::Stream(place), _) => stream(&pool, place, &job).await,
        // A client that leaves takes its whole connection along.
        (_, Some(after)) => leave(pool.ports.h1, &job, after).await,
        (Way::Fresh, None) => match fresh(pool.ports.h1, &job).await {
            Ok(status) => Outcome::Answered(status),
            Err(error) => Outcome::Lost(format!("{job:?}: {error}")),
        },
        (Way::Kept(place), None) => kept(&pool, place, &job).await,
    }
}

async fn fresh(port: u16, job: &Job) -> Result<u16, Error> {
    let mut request = job.request("")?;
    request.headers_mut().insert("connection", http::HeaderValue::from_static("close"));
    Ok(send(port, request).await?.status)
}

/// Sends the request, and resets or closes the connection after a while, answered or not.
async fn leave(port: u16, job: &Job, after: Duration) -> Outcome {
    let Ok(mut client) = Raw::connect(port).await else {
        return Outcome::Lost(format!("{job:?}: cannot connect"));
    };
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        job.method, job.target, job.body
    );
    // A denied upload may be closed by nginx first: then this client has left a little later than it was left.
    let _ = client.send(head).await;
    let _ = client.send(vec![b'x'; job.body.min(100_000)]).await;
    tokio::time::sleep(after).await;
    if after.as_millis().is_multiple_of(2) {
        let _ = client.reset();
    }
    Outcome::Left
}

async fn kept(pool: &Pool, place: usize, job: &Job) -> Outcome {
    let mut place = pool.kept[place].lock().await;
    let mut client = match place.take() {
        Some(client) => client,
        None => match Client::connect(pool.ports.h1).await {
            Ok(client) => client,
            Err(error) => return Outcome::Lost(format!("{job:?}: {error}")),
        },
    };
    let answered = match job.request("") {
        Ok(request) => client.send(request).await,
        Err(error) => return Outcome::Lost(format!("{job:?}: {error}")),
    };
    match answered {
        Ok(response) => {
            if response.header("connection") != Some("close") {
                *place = Some(client);
            }
            Outcome::Answered(response.status)
        }
        Err(error) => ended(job, &error),
    }
}

async fn stream(pool: &Pool, place: usize, job: &Job) -> Outcome {
    let started = start_stream(pool, place, job).await;
    let mut stream = match started {
        Ok(stream) => stream,
        Err(error) => return ended(job, &error),
    };
    if let Some(after) = job.leaves_after {
        tokio::time::sleep(after).await;
        stream.reset();
        return Outcome::Left;
    }
    if job.body > 0 {
        // The answer may come, and the stream end, before the body has been sent.
        let _ = stream.send(Bytes::from(vec![b'x'; job.body]), true).await;
    }
    match stream.response().await {
        Ok(response) => Outcome::Answered(response.status),
        Err(error) => ended(job, &error),
    }
}

/// On the pool's connection, or on a new one where nginx has ended that.
async fn start_stream(pool: &Pool, place: usize, job: &Job) -> Result<h2::Stream, Error> {
    let mut place = pool.streams[place].lock().await;
    let ends = job.body == 0;
    let request = || job.request("http://localhost").map(|request| request.map(drop));
    if let Some(connection) = place.as_mut()
        && let Ok(stream) = connection.start(request()?, ends).await
    {
        return Ok(stream);
    }
    let mut connection = h2::Connection::connect(pool.ports.h2).await?;
    let stream = connection.start(request()?, ends).await?;
    *place = Some(connection);
    Ok(stream)
}

/// A reload may end a kept connection under a request that nginx has not read; one that hangs is another matter.
fn ended(job: &Job, error: &Error) -> Outcome {
    if error.is::<tokio::time::error::Elapsed>() {
        return Outcome::Lost(format!("{job:?}: {error}"));
    }
    Outcome::Ended
}

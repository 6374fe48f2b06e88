//! One run of the experiment: an application, an nginx, a development server where the module takes part, and the load,
//! all of its own, so that several runs can share the machine. Gives everything that was seen; judges nothing.

use super::condition::{Condition, Traffic};
use super::diagnosis::{self, Said};
use super::logs::{self, Answered, Finished};
use super::queue;
use super::remedy::{Guard, Remedy};
use super::upstream::Upstream;
use crate::client;
use crate::error::{Error, io};
use fastrand::Rng;
use ratelimitly_devserver::Config;
use ratelimitly_harness::Dev;
use ratelimitly_harness::load::{Client, Due, Seen, Shot};
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep, sleep_until};

/// Between two looks at the accept queue.
const SAMPLING: Duration = Duration::from_millis(100);

/// Moments of a run, seconds since the load began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The load ends.
    pub end: f64,
    /// Something changes.
    pub change: f64,
    /// Figures are counted from here to the end.
    pub judge: f64,
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// What changes.
    pub condition: Condition,
    /// What protects the application.
    pub remedy: Remedy,
    /// The guard's settings, where there is one.
    pub guard: Guard,
    /// When.
    pub timing: Timing,
    /// Which requests are heavy.
    pub seed: u64,
}

/// Everything that was seen.
pub struct Trace {
    /// What was run.
    pub job: Job,
    /// The requests, as users saw them.
    pub shots: Vec<Shot>,
    /// How far the load fell behind, seconds.
    pub lag: f64,
    /// Moments and lengths of the accept queue.
    pub queue: Vec<(f64, u32)>,
    /// nginx's access log.
    pub answered: Vec<Answered>,
    /// The application's access log.
    pub finished: Vec<Finished>,
    /// What an operator would be told about the two.
    pub said: Said,
}

impl Job {
    /// Runs it.
    ///
    /// # Errors
    /// Something does not start, or a log cannot be read.
    pub async fn run(self) -> Result<Trace, Error> {
        let before = self.condition.scene(false);
        let folder = tempfile::tempdir().map_err(io("a folder for the upstream's log"))?;
        let log = folder.path().join("upstream.log");
        let upstream = Upstream::start(before.capacity, &log)?;
        let dev = Dev::with(|config| Config { record: false, ..config }).await;
        let builder = self.remedy.nginx(upstream.address(), &self.guard).dev(&dev);
        let nginx = client::start(builder, "error").await?;
        if self.remedy.guarded() {
            client::warm(&nginx, "/light").await?;
        }
        let (start, unix) = soon();
        let (fired, queue, ()) = tokio::join!(
            self.fire(nginx.port(), start),
            sample(upstream.address(), start, self.timing.end),
            self.change(&upstream, start),
        );
        let fired = fired?;
        upstream.flush()?;
        let finished = std::fs::read_to_string(&log).map_err(io("upstream.log"))?;
        let answered = client::read(&nginx, "access.log")?;
        Ok(Trace {
            job: self,
            shots: fired.shots,
            lag: fired.lag,
            queue,
            said: diagnosis::said(&answered, &finished)?,
            answered: logs::nginx(&answered, unix)?,
            finished: logs::upstream(&finished, unix)?,
        })
    }

    fn traffic(&self, at: f64) -> Traffic {
        self.condition.scene(at >= self.timing.change).traffic
    }

    /// Requests leave at even intervals whether or not earlier ones were answered, as users send them.
    async fn fire(self, port: u16, start: Instant) -> Result<Seen, Error> {
        let load = move || {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            Client::connect(address, 0, b"")?.growing().fire(start.into_std(), self.requests())
        };
        let fired = tokio::task::spawn_blocking(load).await;
        fired.map_err(|error| io("the load")(error.into()))?.map_err(|error| Error::Load(error.to_string()))
    }

    /// All requests of the run. Keys are dealt in turn, in the header `X-Key`; the seed says which requests are heavy.
    fn requests(self) -> impl Iterator<Item = Due> {
        let mut random = Rng::with_seed(self.seed);
        let mut due = 0.0;
        (0_usize..).map_while(move |number| {
            let (at, now) = (due, self.traffic(due));
            due += 1.0 / now.per_second;
            let path = if random.f64() < now.heavy { "/heavy" } else { "/light" };
            let head =
                format!("GET {path} HTTP/1.1\r\nHost: lab\r\nX-Key: key-{}\r\n\r\n", number % now.keys);
            let due = Due { at: Duration::from_secs_f64(at), request: head.into_bytes().into() };
            (at < self.timing.end).then_some(due)
        })
    }

    async fn change(&self, upstream: &Upstream, start: Instant) {
        sleep_until(start + Duration::from_secs_f64(self.timing.change)).await;
        upstream.change(self.condition.scene(true).capacity);
    }
}

/// A moment shortly ahead, on both clocks.
fn soon() -> (Instant, f64) {
    let ahead = Duration::from_millis(200);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + ahead;
    (Instant::now() + ahead, unix.as_secs_f64())
}

async fn sample(upstream: SocketAddr, start: Instant, end: f64) -> Vec<(f64, u32)> {
    let mut lengths = Vec::new();
    sleep_until(start).await;
    while start.elapsed().as_secs_f64() < end {
        if let Some(length) = queue::length(upstream) {
            lengths.push((start.elapsed().as_secs_f64(), length));
        }
        sleep(SAMPLING).await; // between two samples
    }
    lengths
}

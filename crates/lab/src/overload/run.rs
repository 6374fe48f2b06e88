//! One run of the experiment: an application, an nginx, a development server where the module takes part, and the load,
//! all of its own, so that several runs can share the machine. Gives everything that was seen; judges nothing.

use super::condition::Condition;
use super::load::{self, Shot, Traffic};
use super::logs::{self, Answered, Finished};
use super::queue;
use super::remedy::{Guard, Remedy};
use super::upstream::Upstream;
use crate::client;
use crate::dev::Dev;
use crate::error::{Error, io};
use crate::nginx::Nginx;
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
        let dev = if self.remedy.guarded() { Some(Dev::start(false).await?) } else { None };
        let text = self.remedy.configuration(upstream.address(), &self.guard, dev.as_ref());
        let nginx = Nginx::start(&text).await?;
        if dev.is_some() {
            client::warm(nginx.port(), "/light", &nginx).await?;
        }
        let (start, unix) = soon();
        let (fired, queue, ()) = tokio::join!(
            load::fire(nginx.port(), start, self.timing.end, self.seed, |at| self.traffic(at)),
            sample(upstream.address(), start, self.timing.end),
            self.change(&upstream, start),
        );
        upstream.flush()?;
        let finished = std::fs::read_to_string(&log).map_err(io("upstream.log"))?;
        Ok(Trace {
            job: self,
            shots: fired.shots,
            lag: fired.lag,
            queue,
            answered: logs::nginx(&nginx.read("access.log")?, unix)?,
            finished: logs::upstream(&finished, unix)?,
        })
    }

    fn traffic(&self, at: f64) -> Traffic {
        self.condition.scene(at >= self.timing.change).traffic
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

//! Open-loop load: requests leave at even intervals whether or not earlier ones were answered, as users do. Keys are
//! dealt in turn in the header `X-Key`. Run by `run.rs`; it never retries and never slows down.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// Longest wait for an answer; nginx gives up much earlier.
const PATIENCE: Duration = Duration::from_secs(10);

/// What users send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Requests a second, all keys together.
    pub per_second: f64,
    /// Distinct keys.
    pub keys: usize,
    /// Share of requests to `/heavy`, 0 to 1.
    pub heavy: f64,
}

/// One request and what came of it.
#[derive(Clone, Copy, Debug)]
pub struct Shot {
    /// When it was due, seconds since the load began.
    pub at: f64,
    /// Status; 0 where no answer came.
    pub status: u16,
    /// From the moment when it was due until its answer was complete, seconds.
    pub took: f64,
}

/// The whole load.
pub struct Fired {
    /// Every request, in no particular order.
    pub shots: Vec<Shot>,
    /// How far a request left behind its time at worst, seconds.
    pub lag: f64,
}

type Connection = SendRequest<Empty<Bytes>>;
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Kept connections to nginx that wait for their next request.
struct Pool {
    port: u16,
    idle: Mutex<Vec<Connection>>,
}

/// Fires for `seconds` from `start`. `traffic` tells what users send at a moment, `seed` which requests are heavy.
pub async fn fire(
    port: u16,
    start: Instant,
    seconds: f64,
    seed: u64,
    traffic: impl Fn(f64) -> Traffic,
) -> Fired {
    let pool = Arc::new(Pool { port, idle: Mutex::default() });
    let mut random = fastrand::Rng::with_seed(seed);
    let mut flying = JoinSet::new();
    let (mut due, mut lag) = (0.0, 0.0_f64);
    for number in 0_usize.. {
        let now = traffic(due);
        let moment = start + Duration::from_secs_f64(due);
        sleep_until(moment).await;
        lag = lag.max(moment.elapsed().as_secs_f64());
        let path = if random.f64() < now.heavy { "/heavy" } else { "/light" };
        flying.spawn(shoot(Arc::clone(&pool), path, number % now.keys, due, moment));
        due += 1.0 / now.per_second;
        if due >= seconds {
            break;
        }
    }
    Fired { shots: flying.join_all().await, lag }
}

async fn shoot(pool: Arc<Pool>, path: &'static str, key: usize, at: f64, due: Instant) -> Shot {
    let answer = timeout(PATIENCE, pool.ask(path, key)).await;
    let status = answer.ok().and_then(Result::ok).unwrap_or(0);
    Shot { at, status, took: due.elapsed().as_secs_f64() }
}

impl Pool {
    async fn ask(&self, path: &str, key: usize) -> Result<u16, Failure> {
        let mut connection = match self.take() {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        connection.ready().await?;
        let request = http::Request::get(path).header("host", "lab").header("x-key", format!("key-{key}"));
        let response = connection.send_request(request.body(Empty::new())?).await?;
        let status = response.status().as_u16();
        response.into_body().collect().await?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(status)
    }

    fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(|connection| !connection.is_closed())
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        stream.set_nodelay(true)?;
        let (connection, driver) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        Ok(connection)
    }
}

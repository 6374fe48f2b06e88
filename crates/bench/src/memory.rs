//! Resident memory of a worker per 1,000 requests that wait for whoever is asked; for the bare location, which waits for
//! nobody, per 1,000 clients whose request is not complete. Connections and requests themselves are included.

use crate::Error;
use crate::conditions::{BARE, Condition};
use crate::nginx::{Mode, Nginx, REQUEST};
use crate::surroundings::Servers;
use ratelimitly_harness::process::resident_kib;
use std::thread;
use std::time::{Duration, Instant};

/// Requests that wait at a time.
pub const WAITING: usize = 2000;
/// Memory that has not changed for this long is at rest.
const REST: Duration = Duration::from_millis(200);
/// Within the longest horizon, so that all of them still wait.
const LOOK: Duration = Duration::from_millis(1500);

/// KiB for 1,000 waiting requests; `None` where none ever waits.
pub fn per_1000(servers: &Servers, condition: &Condition) -> Result<Option<f64>, Error> {
    let (parts, asks_servers) = match &condition.waiting {
        Some(parts) => (parts, parts.http.contains("ratelimitly_")),
        None if condition.name == BARE => (&condition.parts, false),
        None => return Ok(None),
    };
    let nginx = Nginx::start(parts, Mode::Worker)?;
    if asks_servers {
        nginx.warm_up()?;
    }
    servers.answerers.silence();
    let before = settled(nginx.worker)?;
    let most = wait(&nginx, if condition.name == BARE { &REQUEST[..20] } else { REQUEST });
    servers.answerers.delay(Duration::ZERO);
    Ok(Some((most? - before) as f64 / WAITING as f64 * 1000.0))
}

/// Memory of a worker that has come to rest after its start.
fn settled(worker: u32) -> Result<u64, Error> {
    let mut seen = resident_kib(worker)?;
    loop {
        thread::sleep(REST); // then compared
        let now = resident_kib(worker)?;
        if now == seen {
            return Ok(now);
        }
        seen = now;
    }
}

/// The most memory seen while requests wait.
fn wait(nginx: &Nginx, request: &[u8]) -> Result<u64, Error> {
    let mut client = nginx.client(WAITING)?;
    client.write_all(request)?;
    let until = Instant::now() + LOOK;
    let mut most = 0;
    while Instant::now() < until {
        most = most.max(resident_kib(nginx.worker)?);
        thread::sleep(Duration::from_millis(20)); // then looked at again
    }
    Ok(most)
}

//! What only a clock can tell: the peak rate, the worker's processor time and the latency at a given rate. Each call is
//! one run with a fresh worker; how often and in which order is the caller's.

use crate::Error;
use crate::nginx::{Mode, Nginx, Parts};
use crate::process::run_where_the_worker_runs;
use crate::surroundings::Servers;
use ratelimitly_core::id::{BucketId, RequestId};
use ratelimitly_core::wire::{Auth, RateRequest, Resource, Tenant};
use ratelimitly_harness::figures::median;
use ratelimitly_harness::load::Client;
use ratelimitly_harness::process::Cpu;
use rustix::time::{ClockId, clock_gettime};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Connections of a closed loop at its peak.
const BUSY: usize = 64;
/// Connections of an open loop: more than are ever in use, unless the rate is out of reach.
const OPEN: usize = 256;
/// How long one condition has its turn at its peak.
const SLICE: Duration = Duration::from_millis(100);
/// Requests before anything counts.
const WARM: u64 = 2000;
/// Sends of which the mean is taken.
const SENDS: usize = 10_000;
/// As long as a request for one resource; nobody answers it.
const NO_REQUEST: [u8; 112] = [0; 112];
/// Most questions of a bare round trip without pauses.
const ROUND_TRIPS: usize = 4000;

/// One closed loop at its peak.
#[derive(Clone, Copy, Debug)]
pub struct Peak {
    /// Requests a second.
    pub rate: f64,
    /// Worker's processor seconds in user mode per 10,000 requests.
    pub user: f64,
    /// The same in the kernel.
    pub system: f64,
}

/// Latencies of one open loop, milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// One in a hundred is slower.
    pub p99: f64,
    /// One in a thousand is slower.
    pub p999: f64,
}

/// A warm worker.
fn warm(parts: &Parts) -> Result<Nginx, Error> {
    let nginx = Nginx::start(parts, Mode::Worker)?;
    nginx.warm_up()?;
    nginx.client(BUSY)?.ask(WARM)?.sound("warming up")?;
    Ok(nginx)
}

/// A worker under the load of its peak, slice by slice.
struct Racer {
    nginx: Nginx,
    client: Client,
    before: Cpu,
    good: u64,
    seconds: f64,
}

impl Racer {
    fn ready(parts: &Parts) -> Result<Racer, Error> {
        let nginx = warm(parts)?;
        let client = nginx.client(BUSY)?;
        Ok(Racer { before: Cpu::of(nginx.worker)?, nginx, client, good: 0, seconds: 0.0 })
    }

    fn run_slice(&mut self) -> Result<(), Error> {
        let seen = self.client.ask_for(SLICE)?.sound("the peak")?;
        self.good += seen.good();
        self.seconds += seen.seconds;
        Ok(())
    }

    fn peak(&self) -> Result<Peak, Error> {
        let used = Cpu::of(self.nginx.worker)? - self.before;
        let per_10_000 = 10_000.0 / self.good as f64;
        Ok(Peak {
            rate: self.good as f64 / self.seconds,
            user: used.user * per_10_000,
            system: used.system * per_10_000,
        })
    }
}

/// Finds the peak rate of each and what it costs. They take turns in short slices, because a processor's speed may change
/// within seconds; a worker whose turn it is not sleeps.
pub fn peaks<'a>(
    conditions: impl Iterator<Item = &'a Parts>,
    duration: Duration,
) -> Result<Vec<Peak>, Error> {
    let mut racers = conditions.map(Racer::ready).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..duration.div_duration_f64(SLICE).ceil() as usize {
        racers.iter_mut().try_for_each(Racer::run_slice)?;
    }
    racers.iter().map(Racer::peak).collect()
}

/// Measures latency at a rate.
pub fn latency(parts: &Parts, rate: f64, duration: Duration) -> Result<Latency, Error> {
    let nginx = warm(parts)?;
    let count = (rate * duration.as_secs_f64()) as u64;
    let seen = nginx.client(OPEN)?.offer(rate, count)?.sound("the open loop")?;
    let ms = |share| seen.latency(share) * 1000.0;
    Ok(Latency { p50: ms(0.5), p99: ms(0.99), p999: ms(0.999) })
}

/// The median round trip of one datagram between the worker's processor and the first answerer, milliseconds, without
/// nginx: what no module can save. `rate` says how many a second there are, with pauses between them in which the
/// processors fall asleep, as between requests; without one they follow each other.
pub fn round_trip(servers: &Servers, rate: Option<f64>, duration: Duration) -> Result<f64, Error> {
    let address = servers.answerers.each[0].address;
    let key = servers.aes.clone();
    let count = rate.map_or(ROUND_TRIPS, |rate| (rate * duration.as_secs_f64()) as usize);
    let measured = thread::spawn(move || -> Result<f64, Error> {
        run_where_the_worker_runs()?;
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        let auth = Auth::new(&key);
        let mut took = Vec::with_capacity(count);
        let (mut request, mut answer) = (Vec::new(), [0; 1200]);
        let started = Instant::now();
        for place in 0..count {
            seal(&auth, key.key_id(), place as u128, &mut request)?;
            if let Some(rate) = rate {
                let due = started + Duration::from_secs_f64(place as f64 / rate);
                thread::sleep(due.saturating_duration_since(Instant::now())); // the rate is what is measured
            }
            let began = Instant::now();
            socket.send(&request)?;
            socket.recv(&mut answer)?;
            took.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(median(took).ok_or("no round trip was measured")?)
    });
    measured.join().map_err(|_| "the round trip failed")?
}

/// What sending a datagram of an admission's size to each of the first `servers` costs the sender, microseconds of its
/// processor's time: the floor below what another server adds. The sender sleeps in between, as a worker does.
pub fn send_cost(servers: &Servers, count: usize) -> Result<f64, Error> {
    let to: Vec<_> = servers.answerers.each[..count].iter().map(|answerer| answerer.address).collect();
    let measured = thread::spawn(move || -> Result<f64, Error> {
        run_where_the_worker_runs()?;
        let socket = UdpSocket::bind("[::]:0")?;
        let mapped: Vec<SocketAddr> = to.into_iter().map(mapped).collect();
        let mut spent = 0.0;
        for _ in 0..SENDS {
            thread::sleep(Duration::from_micros(100)); // a processor that never rests is no worker's
            let before = thread_seconds();
            for to in &mapped {
                socket.send_to(&NO_REQUEST, to)?;
            }
            spent += thread_seconds() - before;
        }
        Ok(spent / SENDS as f64 * 1e6)
    });
    measured.join().map_err(|_| "the sender failed")?
}

fn mapped(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(to) => SocketAddr::from((to.ip().to_ipv6_mapped(), to.port())),
        SocketAddr::V6(_) => to,
    }
}

/// Processor time of this thread so far.
fn thread_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn seal(auth: &Auth, key_id: u64, count: u128, request: &mut Vec<u8>) -> Result<(), Error> {
    let tenant = Tenant {
        key_or_server_id: key_id,
        request_id: RequestId::from_random(count.to_le_bytes()),
        timestamp_ms: 0,
        steering_feedback: 0,
    };
    let mut nonce = [0xee; 12];
    nonce[..8].copy_from_slice(&(count as u64).to_le_bytes());
    let bucket = BucketId::new(b"round trip", 1000, 1_000_000);
    let resource = Resource { bucket, window_size_ms: 1000, rate_limit: 1_000_000, tokens: 1 };
    let asked = RateRequest { dedup_ttl_ms: 1900, guards: &[], resources: &[resource], label: None };
    Ok(auth.seal_rate_request(request, &tenant, &nonce, &asked)?)
}

//! What the conditions ask: answerers and their DNS zones, a Redis, an upstream that says yes, and a listener that never
//! answers. Started once a program, all on free loopback ports and away from the worker's processor; ends with it.

use crate::Error;
use crate::answerer::{Answerer, Answerers};
use crate::memory;
use crate::nginx::{Mode, Nginx, Parts};
use crate::process::{self, require};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_devserver::{Command as DevCommand, Config, DevServer, Member};
use ratelimitly_harness::{eventually, free_port};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const SERVERS: u64 = 3;
/// Long enough that no run looks the members up twice.
const TTL: Duration = Duration::from_secs(3600);

/// Longest start of Redis.
const START: Duration = Duration::from_secs(20);

/// A DNS server with one zone.
pub struct Zone {
    /// Its name.
    pub name: &'static str,
    /// Where it answers.
    pub dns: SocketAddr,
    _server: DevServer,
}

/// What the module asks.
pub struct Servers {
    /// All answerers, the oldest first.
    pub answerers: Answerers,
    /// Names the first answerer.
    pub one: Zone,
    /// Names all of them.
    pub three: Zone,
    /// The key of most conditions.
    pub aes: ApiKey,
    /// The other kind.
    pub cookie: ApiKey,
    _runtime: Runtime,
}

impl Servers {
    /// Starts everything, away from the worker's processor.
    pub fn start() -> Result<Servers, Error> {
        process::leave_to_worker()?;
        let (aes, cookie) = (key(KeyKind::Aes, 1)?, key(KeyKind::Cookie, 2)?);
        let keys = [aes.clone(), cookie.clone()];
        let answerers = Answerers::start(1..=SERVERS, &keys)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let one = runtime.block_on(zone("one.test", &aes, &answerers.each[..1]))?;
        let three = runtime.block_on(zone("three.test", &aes, &answerers.each))?;
        Ok(Servers { answerers, one, three, aes, cookie, _runtime: runtime })
    }
}

/// What the other ways of asking need.
pub struct Peers {
    /// Port of Redis.
    pub redis: u16,
    /// Port of the upstream of `auth_request`, which says yes to everything.
    pub yes: u16,
    /// Port that accepts and never answers.
    pub silent: u16,
    redis_process: Child,
    _yes_process: Nginx,
    _folder: TempDir,
}

impl Peers {
    /// Starts everything, away from the worker's processor.
    pub fn start() -> Result<Peers, Error> {
        process::leave_to_worker()?;
        let folder = tempfile::tempdir()?;
        let silent = start_silent()?;
        let says_yes = Parts { location: "return 204;".into(), ..Parts::default() };
        let yes_process = Nginx::start(&says_yes, Mode::Upstream)?;
        let (redis_process, redis) = start_redis(folder.path())?;
        Ok(Peers {
            redis,
            yes: yes_process.address.port(),
            silent,
            redis_process,
            _yes_process: yes_process,
            _folder: folder,
        })
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = self.redis_process.kill();
        let _ = self.redis_process.wait();
    }
}

/// A key that allows the longest horizon.
fn key(kind: KeyKind, id: u64) -> Result<ApiKey, Error> {
    let quotas = Quotas {
        rate_buckets_max: 1 << 20,
        latency_services_max: 1 << 10,
        metrics_labels_max: 1 << 10,
        latency_buffer_size_max: 1 << 5,
        dedup_ttl_ms_max: 2000,
        rate_window_size_ms_max: u32::MAX,
    };
    Ok(ApiKey::new(kind, id, [0x42; 32], quotas)?)
}

/// The development server, for its DNS alone: the zone names the answerers.
async fn zone(name: &'static str, key: &ApiKey, answerers: &[Answerer]) -> Result<Zone, Error> {
    // A server of its own is needed to start; it is not listed.
    let own = u64::from(u32::MAX);
    let add = answerers.iter().map(|answerer| Member { id: answerer.id, address: Some(answerer.address) });
    let members = DevCommand::Members { remove: vec![own], add: add.collect() };
    let mut config = Config::default().server_ids([own]).key(key.clone()).command(members);
    config.zone = name.into();
    config.ttl = TTL;
    config.record = false;
    let server = DevServer::start(config).await?;
    Ok(Zone { name, dns: server.dns_addr(), _server: server })
}

/// Accepts every connection and says nothing. Keeps as many as one measurement opens; those of earlier ones are closed.
fn start_silent() -> Result<u16, Error> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        let mut kept = VecDeque::new();
        for connection in listener.incoming() {
            kept.push_back(connection);
            kept.drain(..kept.len().saturating_sub(memory::WAITING));
        }
    });
    Ok(port)
}

fn start_redis(folder: &Path) -> Result<(Child, u16), Error> {
    let binary = Path::new("/usr/bin/redis-server");
    require(binary, "redis-server")?;
    let port = free_port();
    let child = Command::new(binary)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(folder)
        .args(["--maxclients", "4000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let accepts = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(eventually(START, "Redis accepts", accepts));
    Ok((child, port))
}

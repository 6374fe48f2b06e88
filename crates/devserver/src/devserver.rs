//! The running development server: starts servers and DNS, applies commands, hands out events. Used by the binary
//! and by the end-to-end tests; it runs on the caller's tokio runtime and ends when it is dropped.

use crate::command::{Command, CommandError, DnsCounts, Member, Order, Reply, Servers, Status};
use crate::command::{Fault, FaultKind};
use crate::config::Config;
use crate::control::ControlSocket;
use crate::dns::{self, Zone};
use crate::event::Event;
use crate::fleet::Fleet;
use crate::keyring::Keyring;
use crate::names::Names;
use crate::recorder::Recorder;
use crate::server::{Service, lock};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

/// A server's id and UDP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Server id.
    pub id: u64,
    /// UDP address, port included.
    pub addr: SocketAddr,
}

/// A development server: some servers that share one state, and their DNS zone. Dropping it ends every task and
/// closes every socket; they are closed for certain once the runtime has run its tasks once more.
#[derive(Debug)]
pub struct DevServer {
    core: Arc<Core>,
    dns_addr: SocketAddr,
    dns_task: JoinHandle<()>,
    control: Mutex<Option<ControlSocket>>,
}

/// What commands act on; the control socket shares it.
#[derive(Debug)]
pub(crate) struct Core {
    service: Arc<Service>,
    fleet: Fleet,
    zone: Arc<Mutex<Zone>>,
    zone_name: String,
    /// Where servers that are added listen.
    listen: SocketAddr,
    advertise: Option<IpAddr>,
    /// The zone's first members and TTL, which a reset brings back.
    first_members: Vec<(u64, SocketAddr)>,
    first_ttl: u32,
    /// Commands are applied one after the other, whoever sends them.
    applying: tokio::sync::Mutex<()>,
}

impl DevServer {
    /// Opens every socket and starts serving on the current tokio runtime. A test that blocks its thread needs a
    /// multi-threaded runtime, or the servers stand still meanwhile.
    ///
    /// # Errors
    /// A zone, key, id, TTL or command that makes no sense (`InvalidInput`), and every socket or file that cannot be
    /// opened.
    pub async fn start(config: Config) -> io::Result<DevServer> {
        let sockets = dns::Sockets::bind(config.dns).await?;
        let dns_addr = sockets.local_addr()?;
        let core = Arc::new(Core::start(&config).await?);
        for command in config.commands {
            core.apply(command).await.map_err(|error| invalid(error.to_string()))?;
        }
        let dns_task = tokio::spawn(dns::serve(sockets, Arc::clone(&core.zone)));
        Ok(DevServer { core, dns_addr, dns_task, control: Mutex::default() })
    }

    /// Opens the control socket: a Unix socket that takes commands as JSON lines.
    ///
    /// # Errors
    /// The socket cannot be made, or another process listens on it.
    pub fn open_control(&self, path: &Path) -> io::Result<()> {
        let opened = ControlSocket::open(path, Arc::clone(&self.core))?;
        *lock(&self.control) = Some(opened);
        Ok(())
    }

    /// Where DNS answers, over UDP and TCP.
    pub fn dns_addr(&self) -> SocketAddr {
        self.dns_addr
    }

    /// The DNS zone, as it was given.
    pub fn zone(&self) -> &str {
        &self.core.zone_name
    }

    /// The servers, in the order of their start.
    pub fn servers(&self) -> Vec<ServerInfo> {
        self.core.fleet.addresses().into_iter().map(|(id, addr)| ServerInfo { id, addr }).collect()
    }

    /// The servers' ids and the addresses that DNS lists, in the order of their start.
    pub fn advertised(&self) -> Vec<ServerInfo> {
        self.core.advertised().into_iter().map(|(id, addr)| ServerInfo { id, addr }).collect()
    }

    /// Applies a command; when this returns, it is in effect.
    ///
    /// # Errors
    /// See `CommandError`.
    pub async fn apply(&self, command: Command) -> Result<Reply, CommandError> {
        self.core.apply(command).await
    }

    /// Clears faults, buckets, trackers and remembered requests: `Command::Reset`.
    ///
    /// # Errors
    /// A socket that was down cannot be opened again.
    pub async fn reset(&self) -> Result<(), CommandError> {
        self.apply(Command::Reset).await.map(drop)
    }

    /// State and counters: `Command::Status`.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// DNS queries received so far.
    pub fn dns_counts(&self) -> DnsCounts {
        lock(&self.core.zone).counts()
    }

    /// Every event recorded so far.
    pub fn events(&self) -> Vec<Event> {
        self.core.service.recorder.events()
    }

    /// Forgets the recorded events; the sequence goes on.
    pub fn clear_events(&self) {
        self.core.service.recorder.clear();
    }

    /// Waits until the recorded events fulfil `predicate`. `Ok`: the events at that moment; `Err`: the events when the
    /// time was over.
    ///
    /// # Errors
    /// The predicate did not become true in time.
    pub async fn wait_events(
        &self,
        timeout: Duration,
        predicate: impl FnMut(&[Event]) -> bool,
    ) -> Result<Vec<Event>, Vec<Event>> {
        self.core.service.recorder.wait(timeout, predicate).await
    }

    /// Ends every task and returns once every server's socket and DNS are closed.
    pub async fn shutdown(mut self) {
        drop(lock(&self.control).take());
        self.dns_task.abort();
        let _ = (&mut self.dns_task).await;
        // Every server can be selected, so this cannot fail.
        let _ = self.core.fleet.down(&Servers::All).await;
    }
}

impl Drop for DevServer {
    fn drop(&mut self) {
        self.dns_task.abort();
        self.core.fleet.abort();
    }
}

impl Core {
    async fn start(config: &Config) -> io::Result<Core> {
        check_ids(&config.server_ids)?;
        check_advertised(config)?;
        let ttl = whole_seconds(config.ttl)?;
        let keys = Keyring::new(&config.keys)?;
        // The zone's name is checked before any server starts.
        let mut zone = Zone::new(&config.zone, ttl, Vec::new())?;
        let recorder = Recorder::new(config.record, config.events.as_deref())?;
        let service =
            Arc::new(Service::new(keys, recorder, Names::new(config.names.clone()), config.max_clock_skew));
        let fleet = Fleet::new(Arc::clone(&service), config.seed);
        for (place, &id) in config.server_ids.iter().enumerate() {
            fleet.start(id, nth_address(config.listen, place)?).await?;
        }
        let listed = |(id, address): (u64, SocketAddr)| (id, reached(config.advertise, address));
        let first_members: Vec<_> = fleet.addresses().into_iter().map(listed).collect();
        zone.set_members(first_members.clone());
        Ok(Core {
            service,
            first_members,
            fleet,
            zone: Arc::new(Mutex::new(zone)),
            zone_name: config.zone.clone(),
            listen: config.listen,
            advertise: config.advertise,
            first_ttl: ttl,
            applying: tokio::sync::Mutex::new(()),
        })
    }

    fn advertise(&self, address: SocketAddr) -> SocketAddr {
        reached(self.advertise, address)
    }

    fn advertised(&self) -> Vec<(u64, SocketAddr)> {
        self.fleet.addresses().into_iter().map(|(id, address)| (id, self.advertise(address))).collect()
    }

    pub async fn apply(&self, command: Command) -> Result<Reply, CommandError> {
        let _one_at_a_time = self.applying.lock().await;
        match command {
            Command::Fault { servers, fault } => self.set_fault(&servers, &fault)?,
            Command::Clear { servers, faults } => self.clear(&servers, &faults).await?,
            Command::Release { servers, order } => {
                let answers = self.fleet.release(&servers, &order).await?;
                return Ok(Reply::Released { answers });
            }
            Command::Down { servers } => self.fleet.down(&servers).await?,
            Command::Up { servers } => self.fleet.up(&servers).await?,
            Command::Dns { fault } => lock(&self.zone).set_fault(fault),
            Command::ClearDns { faults } => lock(&self.zone).clear_faults(&faults),
            Command::Members { remove, add } => self.change_members(&remove, &add).await?,
            Command::Ttl { seconds } => lock(&self.zone).set_ttl(seconds),
            Command::Status => return Ok(Reply::Status(self.status())),
            Command::Reset => self.reset().await?,
        }
        Ok(Reply::Done)
    }

    fn set_fault(&self, servers: &Servers, fault: &Fault) -> Result<(), CommandError> {
        fault.check()?;
        for server in self.fleet.select(servers)? {
            server.faults().set(fault.clone());
        }
        Ok(())
    }

    async fn clear(&self, servers: &Servers, kinds: &[FaultKind]) -> Result<(), CommandError> {
        for server in self.fleet.select(servers)? {
            server.faults().clear(kinds);
        }
        if kinds.is_empty() || kinds.contains(&FaultKind::Hold) {
            self.fleet.release(servers, &Order::Fifo).await?;
        }
        Ok(())
    }

    async fn change_members(&self, remove: &[u64], add: &[Member]) -> Result<(), CommandError> {
        let mut added = Vec::with_capacity(add.len());
        for member in add {
            added.push((member.id, self.member_address(member).await?));
        }
        let mut zone = lock(&self.zone);
        remove.iter().for_each(|&id| zone.remove(id));
        added.into_iter().for_each(|(id, address)| zone.add(id, address));
        Ok(())
    }

    /// The address given, else that of the server of this id, which is started if there is none.
    async fn member_address(&self, member: &Member) -> Result<SocketAddr, CommandError> {
        if let Some(address) = member.address {
            return Ok(address);
        }
        if let Some(address) = self.fleet.address(member.id) {
            return Ok(self.advertise(address));
        }
        let anywhere = SocketAddr::new(self.listen.ip(), 0);
        let started = self.fleet.start(member.id, anywhere).await;
        let address = started.map_err(|source| CommandError::Io { what: "members".into(), source })?;
        Ok(self.advertise(address))
    }

    async fn reset(&self) -> Result<(), CommandError> {
        for server in self.fleet.select(&Servers::All)? {
            server.faults().clear(&[]);
            server.outbox.clear();
        }
        self.service.reset();
        {
            let mut zone = lock(&self.zone);
            zone.clear_faults(&[]);
            zone.set_members(self.first_members.clone());
            zone.set_ttl(self.first_ttl);
        }
        self.fleet.up(&Servers::All).await
    }

    fn status(&self) -> Status {
        let zone = lock(&self.zone);
        Status {
            servers: self.fleet.status(),
            admissions: self.service.admissions(),
            dns: zone.counts(),
            dns_faults: zone.faults().to_vec(),
            held: self.service.held().len(),
        }
    }
}

fn check_ids(ids: &[u64]) -> io::Result<()> {
    if ids.is_empty() {
        return Err(invalid("no server: at least one is needed".into()));
    }
    match ids.iter().enumerate().find(|(place, id)| ids[..*place].contains(id)) {
        Some((_, id)) => Err(invalid(format!("server id {id} is given twice, every server needs its own"))),
        None => Ok(()),
    }
}

/// A server's address as clients see it.
fn reached(advertise: Option<IpAddr>, listens: SocketAddr) -> SocketAddr {
    SocketAddr::new(advertise.unwrap_or(listens.ip()), listens.port())
}

/// Clients cannot send to 0.0.0.0, so DNS needs another address to list.
fn check_advertised(config: &Config) -> io::Result<()> {
    let listed = config.advertise.unwrap_or(config.listen.ip());
    if listed.is_unspecified() {
        let text = format!("DNS cannot list {listed}: name the address that clients reach with --advertise");
        return Err(invalid(text));
    }
    Ok(())
}

/// DNS tells TTLs in seconds, and no larger than 31 bits.
fn whole_seconds(ttl: Duration) -> io::Result<u32> {
    let seconds = u32::try_from(ttl.as_secs()).ok().filter(|&seconds| seconds <= i32::MAX as u32);
    match seconds {
        Some(seconds) if ttl.subsec_nanos() == 0 => Ok(seconds),
        _ => Err(invalid(format!("TTL {ttl:?} is not between 0 and 2147483647 whole seconds"))),
    }
}

fn nth_address(first: SocketAddr, place: usize) -> io::Result<SocketAddr> {
    if first.port() == 0 {
        return Ok(first);
    }
    let port = u16::try_from(usize::from(first.port()) + place);
    port.map(|port| SocketAddr::new(first.ip(), port))
        .map_err(|_| invalid(format!("there is no port for server {place} after {first}")))
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

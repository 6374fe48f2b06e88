//! hickory's view of the worker: where its background tasks run, its clock and its sockets, all on nginx's event
//! loop; no thread and no other runtime.
//!
//! hickory's types ask for `Send`; everything here stays on the worker's one thread, and the wrappers panic (they do
//! not race) should that ever change.

use super::executor::Spawner;
use super::sleep::Clock;
use super::tcp::DnsTcp;
use super::udp::DnsUdp;
use crate::fault::{Fault, Faults};
use hickory_resolver::config::{ConnectionConfig, ProtocolConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::{RuntimeProvider, Spawn, Time};
use hickory_resolver::net::tcp::TcpClientStream;
use hickory_resolver::net::udp::UdpClientStream;
use hickory_resolver::net::xfer::DnsExchange;
use hickory_resolver::{ConnectionProvider, PoolContext};
use send_wrapper::SendWrapper;
use std::cell::RefCell;
use std::future::{Future, ready};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

type SendFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Sockets, clock and tasks for hickory.
#[derive(Clone)]
pub struct Runtime {
    spawner: SendWrapper<Spawner>,
    faults: SendWrapper<Rc<Faults>>,
    trouble: SendWrapper<Rc<Trouble>>,
}

impl Runtime {
    /// A runtime whose background tasks end with `spawner`'s executor.
    pub fn new(spawner: Spawner, faults: Rc<Faults>) -> Runtime {
        let trouble = SendWrapper::new(Rc::default());
        Runtime { spawner: SendWrapper::new(spawner), faults: SendWrapper::new(faults), trouble }
    }

    /// Where its sockets note their errors.
    pub fn trouble(&self) -> Rc<Trouble> {
        Rc::clone(&self.trouble)
    }
}

/// The last error of each nameserver's DNS sockets. hickory reports most of them as "no connections".
#[derive(Default)]
pub struct Trouble(RefCell<Vec<(SocketAddr, String)>>);

impl Trouble {
    /// Notes the error of `result`, if it is one, and passes it on.
    pub fn note<T>(&self, server: SocketAddr, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| self.keep(server, format!("nameserver {server}: {error}")))
    }

    /// The same for TCP, which hickory turns to after a truncated answer only.
    fn note_tcp<T>(&self, server: SocketAddr, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            self.keep(server, format!("the answer is truncated, and nameserver {server} over TCP: {error}"));
        })
    }

    fn keep(&self, server: SocketAddr, text: String) {
        let mut all = self.0.borrow_mut();
        all.retain(|(of, _)| *of != server);
        all.push((server, text));
    }

    /// This nameserver's error.
    pub fn of(&self, server: SocketAddr) -> Option<String> {
        let all = self.0.borrow();
        all.iter().find(|(of, _)| *of == server).map(|(_, text)| text.clone())
    }
}

/// Starts hickory's background tasks.
#[derive(Clone)]
pub struct Handle(SendWrapper<Spawner>);

impl Spawn for Handle {
    fn spawn_bg(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        // A task that was not started has dropped its end of a channel; the query at the other end fails.
        self.0.spawn(future);
    }
}

impl RuntimeProvider for Runtime {
    type Handle = Handle;
    type Timer = Clock;
    type Udp = DnsUdp;
    type Tcp = DnsTcp;

    fn create_handle(&self) -> Handle {
        Handle(self.spawner.clone())
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        _local: Option<SocketAddr>,
        wait_for: Option<Duration>,
    ) -> SendFuture<io::Result<DnsTcp>> {
        let trouble = self.trouble.clone();
        let fault = self.faults.fail(Fault::DnsConnect);
        let limit = wait_for.unwrap_or(Duration::MAX);
        Box::pin(async move {
            let connected = match fault {
                Ok(()) => Clock::timeout(limit, DnsTcp::connect(server)).await.flatten(),
                Err(error) => Err(error),
            };
            trouble.note_tcp(server, connected)
        })
    }

    fn bind_udp(&self, local: SocketAddr, server: SocketAddr) -> SendFuture<io::Result<DnsUdp>> {
        let bind = |()| DnsUdp::bind(local, server, self.trouble());
        let bound = self.faults.fail(Fault::DnsBind).and_then(bind);
        Box::pin(ready(self.trouble.note(server, bound)))
    }
}

/// Opens hickory's connections. hickory's own way would open one more socket for each repetition of a query.
#[derive(Clone)]
pub struct Connector(pub Runtime);

impl ConnectionProvider for Connector {
    type Conn = DnsExchange<Runtime>;
    type FutureConn = SendFuture<Result<Self::Conn, NetError>>;
    type RuntimeProvider = Runtime;

    fn new_connection(
        &self,
        ip: IpAddr,
        config: &ConnectionConfig,
        cx: &PoolContext,
    ) -> Result<Self::FutureConn, NetError> {
        let server = SocketAddr::new(ip, config.port);
        let timeout = cx.options.timeout;
        match config.protocol {
            ProtocolConfig::Udp => Ok(Box::pin(ready(Ok(udp(server, timeout, self.0.clone()))))),
            ProtocolConfig::Tcp => {
                let most_queries = Some(cx.options.max_active_requests);
                let runtime = self.0.clone();
                Ok(Box::pin(TcpClientStream::exchange(server, None, timeout, most_queries, runtime)))
            }
        }
    }

    fn runtime_provider(&self) -> &Runtime {
        &self.0
    }
}

fn udp(server: SocketAddr, timeout: Duration, runtime: Runtime) -> DnsExchange<Runtime> {
    let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    UdpClientStream::builder(server, runtime)
        .with_timeout(Some(timeout))
        // `DnsUdp` repeats its query itself.
        .with_max_retries(1)
        .with_retry_interval_floor(timeout_ms)
        // The kernel's choice keeps off the ports that the administrator reserved.
        .with_os_port_selection(true)
        .exchange()
}

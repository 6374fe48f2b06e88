//! Carries DNS queries and answers over UDP and TCP (RFC 1035, section 4.2). Runs as one task; what it starts ends with
//! it. Malformed queries are dropped.

use super::zone::{Plan, Transport, Zone};
use crate::server::lock;
use hickory_proto::op::{Message, MessageType};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// A TCP connection without a query for this long is closed.
const IDLE: Duration = Duration::from_secs(10);
/// How often an ephemeral port is looked for that both UDP and TCP have free.
const PORT_ATTEMPTS: usize = 32;

/// A UDP and a TCP socket on one port.
#[derive(Debug)]
pub(crate) struct Sockets {
    udp: Arc<UdpSocket>,
    /// `None` while the fault `refuse_tcp` is on.
    tcp: Option<TcpListener>,
}

impl Sockets {
    pub async fn bind(address: SocketAddr) -> io::Result<Sockets> {
        let attempts = if address.port() == 0 { PORT_ATTEMPTS } else { 1 };
        let mut result = Sockets::try_bind(address).await;
        for _ in 1..attempts {
            if result.is_ok() {
                break;
            }
            result = Sockets::try_bind(address).await;
        }
        result
            .map_err(|error| io::Error::new(error.kind(), format!("DNS cannot listen on {address}: {error}")))
    }

    async fn try_bind(address: SocketAddr) -> io::Result<Sockets> {
        let tcp = TcpListener::bind(address).await?;
        let udp = UdpSocket::bind(tcp.local_addr()?).await?;
        Ok(Sockets { udp: Arc::new(udp), tcp: Some(tcp) })
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }
}

/// Serves the zone until the task is aborted.
pub(crate) async fn serve(mut sockets: Sockets, zone: Arc<Mutex<Zone>>) {
    let mut tasks = JoinSet::new();
    let mut buffer = vec![0; 4096];
    loop {
        tokio::select! {
            received = sockets.udp.recv_from(&mut buffer) => match received {
                Ok((length, source)) => {
                    // TCP follows an answer over UDP, so this is early enough.
                    let listens = lock(&zone).listens_on_tcp();
                    sockets.follow(listens).await;
                    if let Some(plan) = plan(&buffer[..length], Transport::Udp, &zone) {
                        tasks.spawn(answer_udp(Arc::clone(&sockets.udp), plan, source));
                    }
                }
                Err(error) => tracing::debug!(%error, "DNS receive failed"),
            },
            accepted = accept(sockets.tcp.as_ref()) => match accepted {
                Ok((stream, _)) => drop(tasks.spawn(converse(stream, Arc::clone(&zone)))),
                Err(error) => tracing::debug!(%error, "DNS accept failed"),
            },
            // Ended tasks are thrown away as they end.
            Some(_) = tasks.join_next() => {}
        }
    }
}

impl Sockets {
    /// Listens on TCP, or stops listening there.
    async fn follow(&mut self, listens: bool) {
        if !listens {
            self.tcp = None;
        } else if self.tcp.is_none()
            && let Ok(address) = self.udp.local_addr()
        {
            self.tcp = TcpListener::bind(address).await.ok();
        }
    }
}

/// The next connection; never one where nothing listens.
async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

async fn answer_udp(socket: Arc<UdpSocket>, plan: Plan, destination: SocketAddr) {
    let Some(bytes) = encode(&plan.message) else { return };
    wait(plan.delay).await;
    if let Err(error) = socket.send_to(&bytes, destination).await {
        tracing::debug!(%error, "DNS send failed");
    }
}

/// Answers one connection's queries, one after the other.
async fn converse(mut stream: TcpStream, zone: Arc<Mutex<Zone>>) {
    while let Ok(Ok(query)) = timeout(IDLE, read_framed(&mut stream)).await {
        let Some(plan) = plan(&query, Transport::Tcp, &zone) else { continue };
        let Some(bytes) = encode(&plan.message) else { return };
        wait(plan.delay).await;
        if write_framed(&mut stream, &bytes).await.is_err() {
            return;
        }
    }
}

/// A sleep of no time would still last until the timer's next millisecond.
async fn wait(delay: Duration) {
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

async fn read_framed(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn write_framed(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let length = u16::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(bytes);
    stream.write_all(&framed).await
}

fn plan(bytes: &[u8], transport: Transport, zone: &Mutex<Zone>) -> Option<Plan> {
    let query = Message::from_vec(bytes)
        .ok()
        .filter(|message| message.metadata.message_type == MessageType::Query)?;
    lock(zone).plan(&query, transport)
}

fn encode(message: &Message) -> Option<Vec<u8>> {
    message.to_vec().inspect_err(|error| tracing::error!(%error, "DNS answer cannot be encoded")).ok()
}

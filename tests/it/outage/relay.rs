//! A load balancer for UDP between the worker and the servers: it keeps each source port at the backend that was current
//! when it first saw that port, whether that backend still lives or not.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;

/// Longest datagram that it passes on, bytes.
const DATAGRAM_MAX: usize = 1500;

pub struct Relay {
    /// Where the worker sends to.
    pub address: SocketAddr,
    current: Arc<Mutex<SocketAddr>>,
}

impl Relay {
    pub async fn start(backend: SocketAddr) -> Relay {
        let front = Arc::new(socket().await);
        let address = front.local_addr().expect("a bound socket has an address");
        let current = Arc::new(Mutex::new(backend));
        tokio::spawn(pass_on(front, Arc::clone(&current)));
        Relay { address, current }
    }

    /// Source ports that are new from now on go to this backend.
    pub fn switch_to(&self, backend: SocketAddr) {
        *self.current.lock().expect("no holder panics") = backend;
    }
}

async fn socket() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a UDP socket")
}

async fn pass_on(front: Arc<UdpSocket>, current: Arc<Mutex<SocketAddr>>) {
    let mut paths: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut datagram = [0; DATAGRAM_MAX];
    loop {
        let Ok((length, client)) = front.recv_from(&mut datagram).await else { continue };
        let path = match paths.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let path = Arc::new(socket().await);
                let backend = *current.lock().expect("no holder panics");
                path.connect(backend).await.expect("UDP connects without the peer");
                tokio::spawn(answer(Arc::clone(&front), Arc::clone(&path), client));
                new.insert(path)
            }
        };
        // A dead backend refuses it; the path stays.
        let _ = path.send(&datagram[..length]).await;
    }
}

async fn answer(front: Arc<UdpSocket>, path: Arc<UdpSocket>, client: SocketAddr) {
    let mut datagram = [0; DATAGRAM_MAX];
    loop {
        if let Ok(length) = path.recv(&mut datagram).await {
            let _ = front.send_to(&datagram[..length], client).await;
        }
    }
}

//! What an nginx's workers hold: files and UDP sockets, as /proc tells it. Called by tests and by the lifecycle checks;
//! reads only.

use crate::nginx::{LOG_PATIENCE, Nginx, open_files};
use crate::process::{self, UdpSocket};
use crate::wait::eventually_some;

impl Nginx {
    /// How many files the worker holds open.
    pub fn open_files(&self) -> usize {
        open_files(self.worker_pid())
    }

    /// The UDP sockets that the worker holds, those that nginx listens on for HTTP/3 left out.
    pub fn udp_sockets(&self) -> Vec<UdpSocket> {
        self.udp_sockets_of(self.worker_pid())
    }

    /// Waits until the worker holds one UDP socket, its client's, and gives it: a discovery, which any request may begin,
    /// has sockets of its own for a while.
    ///
    /// # Panics
    /// It has none or more for too long.
    pub async fn only_udp_socket(&self) -> UdpSocket {
        self.only_udp_socket_of(self.worker_pid()).await
    }

    /// The same for one of several workers.
    ///
    /// # Panics
    /// It has none or more for too long.
    pub async fn only_udp_socket_of(&self, worker: u32) -> UdpSocket {
        let what = format!("worker {worker} holds one UDP socket");
        eventually_some(LOG_PATIENCE, what, async || match self.udp_sockets_of(worker)[..] {
            [socket] => Some(socket),
            _ => None,
        })
        .await
    }

    /// The UDP sockets of one of several workers.
    pub fn udp_sockets_of(&self, worker: u32) -> Vec<UdpSocket> {
        let written = std::fs::read_to_string(self.setup.file("nginx.conf")).unwrap_or_default();
        let is_listener = |port: u16| written.contains(&format!(":{port} quic"));
        let mut sockets = process::udp_sockets(worker).unwrap_or_default();
        sockets.retain(|socket| !is_listener(socket.port));
        sockets
    }
}

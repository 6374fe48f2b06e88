//! Free loopback ports for configurations, which must name a port before nginx binds it. Each process claims blocks of
//! ports, so that no two processes that use this crate choose the same one. Called by the builder and by `Dev`. The blocks
//! lie below the kernel's ephemeral range, so that no outgoing connection takes a port in between.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;

const FIRST: u16 = 10_240;
/// Ports of a block.
const BLOCK: u16 = 250;
const BLOCKS: u16 = 80;

/// What this process has claimed. Ports are given out once.
struct Claims {
    /// One socket a block. Its abstract name is the claim; like the ports it belongs to the network namespace, and it ends
    /// with the process.
    sockets: Vec<UnixDatagram>,
    /// Ports of the newest block that were not given out yet.
    rest: Range<u16>,
}

static CLAIMS: Mutex<Claims> = Mutex::new(Claims { sockets: Vec::new(), rest: 0..0 });

/// A port of 127.0.0.1 that is free for TCP and UDP.
///
/// # Panics
/// No free port is found.
pub fn free_port() -> u16 {
    free_ports(1)
}

/// The first of `count` consecutive ports, at most a block, each of them free for TCP and UDP.
///
/// # Panics
/// There are no such ports.
pub fn free_ports(count: u16) -> u16 {
    assert!(count <= BLOCK, "{count} ports are more than a block of {BLOCK}");
    let mut claims = CLAIMS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    loop {
        let Range { start, end } = claims.rest;
        if end - start < count {
            claims.claim_block();
        } else if let Some(taken) = (start..start + count).find(|port| !is_free(*port)) {
            claims.rest.start = taken + 1;
        } else {
            claims.rest.start = start + count;
            return start;
        }
    }
}

impl Claims {
    fn claim_block(&mut self) {
        let offset = fastrand::u16(..BLOCKS);
        for block in (0..BLOCKS).map(|place| (place + offset) % BLOCKS) {
            if let Ok(socket) = claim(block) {
                self.sockets.push(socket);
                let first = FIRST + block * BLOCK;
                self.rest = first..first + BLOCK;
                return;
            }
        }
        panic!("every block of ports from {FIRST} on belongs to a running process");
    }
}

/// Fails while another process has this block.
fn claim(block: u16) -> io::Result<UnixDatagram> {
    let name = format!("ratelimitly-ports-{block}");
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

fn is_free(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_process_can_claim_the_block_of_a_port_that_was_given_out() {
        let block = (free_port() - FIRST) / BLOCK;
        let error = claim(block).expect_err("this process has it");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn ports_are_given_out_once() {
        let first = free_ports(200);
        let second = free_ports(100);
        assert!(second + 100 <= first || first + 200 <= second, "{first} and {second} overlap");
    }
}

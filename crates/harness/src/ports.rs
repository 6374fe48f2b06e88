//! Free loopback ports for configurations, which must name a port before nginx binds it. Chosen below the kernel's
//! ephemeral range, so that no outgoing connection takes one in between, and never twice by one process. Two test
//! processes can still meet: the builder then tries again with other ports.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::Mutex;

const FIRST: u16 = 10_240;
const COUNT: u16 = 20_000;
const TRIES: usize = 1000;

static TAKEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A port of 127.0.0.1 that is free for TCP and UDP.
///
/// # Panics
/// No free port is found.
pub(crate) fn free_port() -> u16 {
    free_ports(1)
}

/// The first of so many ports in a row, each of them free for TCP and UDP.
///
/// # Panics
/// No such row is found.
pub(crate) fn free_ports(count: u16) -> u16 {
    let mut taken = TAKEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let taken = taken.get_or_insert_default();
    for _ in 0..TRIES {
        let first = FIRST + (random() % u64::from(COUNT)) as u16;
        let mut row = first..first + count;
        if row.all(|port| !taken.contains(&port) && is_free(port)) {
            taken.extend(first..first + count);
            return first;
        }
    }
    panic!("no {count} free ports of 127.0.0.1 found in {TRIES} tries");
}

fn is_free(port: u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, port);
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}

/// The standard library seeds each `RandomState` differently; good enough to keep processes apart.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

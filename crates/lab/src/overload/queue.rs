//! How many connections wait in the upstream's accept queue, as the kernel tells. Sampled by `run.rs`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;

/// The accept queue's length of a listener on 127.0.0.1, or `None` where there is no such listener.
///
/// In /proc/net/tcp the receive queue of a listening socket is its accept queue. Listeners come first in that file, so
/// that the thousands of connections after them need not be read.
pub fn length(listener: SocketAddr) -> Option<u32> {
    let wanted = format!("0100007F:{:04X}", listener.port());
    let file = BufReader::with_capacity(4096, File::open("/proc/net/tcp").ok()?);
    for line in file.lines().skip(1) {
        let line = line.ok()?;
        let mut fields = line.split_whitespace().skip(1);
        let (local, state) = (fields.next()?, fields.nth(1)?);
        if state != "0A" {
            return None;
        }
        if local == wanted {
            let received = fields.next()?.split_once(':')?.1;
            return u32::from_str_radix(received, 16).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn connections_that_nobody_accepted_are_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("it has an address");
        assert_eq!(length(address), Some(0));

        let _waiting: Vec<_> =
            (0..3).map(|_| TcpStream::connect(address).expect("the kernel takes it")).collect();
        assert_eq!(length(address), Some(3));

        listener.accept().expect("one of them");
        assert_eq!(length(address), Some(2));
    }

    #[test]
    fn no_listener_has_no_queue() {
        assert_eq!(length((Ipv4Addr::LOCALHOST, 0).into()), None);
    }
}

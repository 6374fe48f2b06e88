//! The servers of one development server and their sockets: starts them, closes and reopens sockets, sends held answers.
//! Called by `devserver.rs`, one command at a time.

use crate::command::{CommandError, Order, ServerStatus, Servers};
use crate::outbox::{Held, Outgoing};
use crate::server::{Server, Service, lock};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

#[derive(Debug)]
pub(crate) struct Fleet {
    service: Arc<Service>,
    seed: u64,
    slots: Mutex<Vec<Slot>>,
}

#[derive(Debug)]
struct Slot {
    server: Arc<Server>,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    socket: Arc<UdpSocket>,
    task: JoinHandle<()>,
}

impl Running {
    fn new(server: &Arc<Server>, socket: UdpSocket) -> Running {
        let socket = Arc::new(socket);
        let task = tokio::spawn(Arc::clone(server).run(Arc::clone(&socket)));
        Running { socket, task }
    }

    /// Returns once the socket is closed.
    async fn stop(self) {
        self.task.abort();
        // It was aborted, so there is no result worth a look.
        let _ = self.task.await;
    }
}

impl Fleet {
    pub fn new(service: Arc<Service>, seed: u64) -> Fleet {
        Fleet { service, seed, slots: Mutex::default() }
    }

    /// Starts one more server; its id must be new.
    pub async fn start(&self, id: u64, address: SocketAddr) -> io::Result<SocketAddr> {
        let socket = bind(id, address).await?;
        let address = socket.local_addr()?;
        let server = Arc::new(Server::new(id, address, self.seed, Arc::clone(&self.service)));
        let running = Some(Running::new(&server, socket));
        lock(&self.slots).push(Slot { server, running });
        Ok(address)
    }

    /// Ids and addresses, in the order of their start.
    pub fn addresses(&self) -> Vec<(u64, SocketAddr)> {
        lock(&self.slots).iter().map(|slot| (slot.server.id, slot.server.addr)).collect()
    }

    pub fn address(&self, id: u64) -> Option<SocketAddr> {
        self.addresses().into_iter().find_map(|(server, address)| (server == id).then_some(address))
    }

    /// The servers meant, or which id is not one of them.
    pub fn select(&self, servers: &Servers) -> Result<Vec<Arc<Server>>, CommandError> {
        let slots = lock(&self.slots);
        if let Servers::Only(ids) = servers
            && let Some(&id) = ids.iter().find(|id| slots.iter().all(|slot| slot.server.id != **id))
        {
            let known = slots.iter().map(|slot| slot.server.id).collect();
            return Err(CommandError::UnknownServer { id, known });
        }
        let meant = slots.iter().filter(|slot| servers.contains(slot.server.id));
        Ok(meant.map(|slot| Arc::clone(&slot.server)).collect())
    }

    /// Closes sockets; answers under way are lost.
    pub async fn down(&self, servers: &Servers) -> Result<(), CommandError> {
        for server in self.select(servers)? {
            let running = self.with_slot(server.id, |slot| slot.running.take());
            if let Some(running) = running {
                running.stop().await;
            }
            server.outbox.clear();
            self.service.held().retain(|held| held.server != server.id);
        }
        Ok(())
    }

    /// Opens the sockets that are closed, each on its old port.
    pub async fn up(&self, servers: &Servers) -> Result<(), CommandError> {
        for server in self.select(servers)? {
            if self.with_slot(server.id, |slot| slot.running.is_some()) {
                continue;
            }
            let reopened = bind(server.id, server.addr).await;
            let socket = reopened.map_err(|source| CommandError::Io { what: "up".into(), source })?;
            self.with_slot(server.id, |slot| slot.running = Some(Running::new(&server, socket)));
        }
        Ok(())
    }

    /// Sends held answers; returns how many.
    pub async fn release(&self, servers: &Servers, order: &Order) -> Result<usize, CommandError> {
        self.select(servers)?;
        let leaving = take(&mut self.service.held(), servers, order)?;
        let count = leaving.len();
        for held in leaving {
            self.send(&held).await.map_err(|source| CommandError::Io { what: "release".into(), source })?;
        }
        Ok(count)
    }

    async fn send(&self, held: &Held) -> io::Result<()> {
        let socket =
            self.with_slot(held.server, |slot| slot.running.as_ref().map(|up| Arc::clone(&up.socket)));
        let Some(socket) = socket else { return Ok(()) };
        let Outgoing { datagram, destination, copies } = &held.outgoing;
        for _ in 0..*copies {
            socket.send_to(datagram, destination).await?;
        }
        Ok(())
    }

    pub fn status(&self) -> Vec<ServerStatus> {
        let slots = lock(&self.slots);
        let status = |slot: &Slot| ServerStatus {
            id: slot.server.id,
            address: slot.server.addr,
            up: slot.running.is_some(),
            faults: slot.server.faults().active().to_vec(),
            answers: slot.server.answers(),
            ignored: slot.server.ignored(),
        };
        slots.iter().map(status).collect()
    }

    /// Ends every server without waiting.
    pub fn abort(&self) {
        let slots = lock(&self.slots);
        slots.iter().filter_map(|slot| slot.running.as_ref()).for_each(|running| running.task.abort());
    }

    /// Slots are never removed, so a selected server has one.
    fn with_slot<T>(&self, id: u64, act: impl FnOnce(&mut Slot) -> T) -> T {
        let mut slots = lock(&self.slots);
        act(slots.iter_mut().find(|slot| slot.server.id == id).expect("a server that was selected"))
    }
}

async fn bind(id: u64, address: SocketAddr) -> io::Result<UdpSocket> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("server {id} cannot listen on {address}: {error}"))
    };
    UdpSocket::bind(address).await.map_err(named)
}

/// Takes the answers of these servers out of the held ones, in the order asked for.
fn take(held: &mut Vec<Held>, servers: &Servers, order: &Order) -> Result<Vec<Held>, CommandError> {
    let meant: Vec<usize> = (0..held.len()).filter(|&at| servers.contains(held[at].server)).collect();
    let leaving: Vec<usize> = match order {
        Order::Fifo => meant,
        Order::Reverse => meant.into_iter().rev().collect(),
        Order::List(places) => {
            let mut chosen = Vec::with_capacity(places.len());
            for &place in places {
                match meant.get(place) {
                    Some(&at) if !chosen.contains(&at) => chosen.push(at),
                    _ => return Err(CommandError::Place { place, held: meant.len() }),
                }
            }
            chosen
        }
    };
    let taken = leaving.iter().map(|&at| held[at].clone()).collect();
    let mut at = 0;
    held.retain(|_| {
        at += 1;
        !leaving.contains(&(at - 1))
    });
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(marks: &[(u64, u8)]) -> Vec<Held> {
        let destination = SocketAddr::from(([127, 0, 0, 1], 1));
        let outgoing = |mark| Outgoing { datagram: vec![mark], destination, copies: 1 };
        marks.iter().map(|&(server, mark)| Held { server, outgoing: outgoing(mark) }).collect()
    }

    fn marks(held: &[Held]) -> Vec<u8> {
        held.iter().map(|held| held.outgoing.datagram[0]).collect()
    }

    #[test]
    fn answers_leave_in_every_order() {
        for (order, leaving, staying) in [
            (Order::Fifo, vec![1, 2, 3], vec![]),
            (Order::Reverse, vec![3, 2, 1], vec![]),
            (Order::List(vec![2, 0]), vec![3, 1], vec![2]),
        ] {
            let mut all = held(&[(7, 1), (8, 2), (7, 3)]);
            let taken = take(&mut all, &Servers::All, &order).unwrap();
            assert_eq!((marks(&taken), marks(&all)), (leaving, staying), "{order:?}");
        }
    }

    #[test]
    fn only_the_servers_meant_let_go() {
        let mut all = held(&[(7, 1), (8, 2), (7, 3)]);
        let taken = take(&mut all, &7.into(), &Order::Reverse).unwrap();
        assert_eq!((marks(&taken), marks(&all)), (vec![3, 1], vec![2]));
    }

    #[test]
    fn a_place_that_is_not_held_is_refused_and_nothing_leaves() {
        for places in [vec![2], vec![0, 0]] {
            let mut all = held(&[(7, 1), (7, 2)]);
            assert!(take(&mut all, &Servers::All, &Order::List(places)).is_err());
            assert_eq!(marks(&all), [1, 2]);
        }
    }
}

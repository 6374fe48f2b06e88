//! The SRV records of a discovery: which of them name a server, and the few of them that are followed.
//!
//! Filled while the SRV answer is read, never with more than what is followed. `gathering` takes the result.

use super::bounds::{Cut, MOST_ADDRESSES, MOST_ENDPOINTS, MOST_SERVERS, Smallest};
use crate::id::ServerId;
use std::collections::BTreeMap;
use std::hash::Hash;

/// The usable SRV records by server. `N` is the caller's type for a DNS name: equal names must be equal values.
#[derive(Clone, Debug)]
pub struct Targets<N> {
    servers: BTreeMap<ServerId, Smallest<(N, u16), MOST_ADDRESSES>>,
    unusable: usize,
    over: Cut,
}

impl<N: Ord + Hash> Default for Targets<N> {
    fn default() -> Self {
        Targets { servers: BTreeMap::new(), unusable: 0, over: Cut::default() }
    }
}

impl<N: Ord + Hash + Clone> Targets<N> {
    /// No record yet.
    pub fn new() -> Targets<N> {
        Targets::default()
    }

    /// Takes an SRV record in. `target` is its target as text, `name` the same as what address records are asked by.
    pub fn add(&mut self, target: &str, name: N, port: u16) {
        let Some(id) = ServerId::from_srv_target(target).filter(|_| port != 0) else {
            self.unusable += 1;
            return;
        };
        self.servers.entry(id).or_default().add((name, port));
        if self.servers.len() > MOST_SERVERS
            && let Some((_, records)) = self.servers.pop_last()
        {
            self.over.join(records.cut());
            records.items().iter().for_each(|record| self.over.note(record));
        }
    }

    /// Whether no record is usable.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// SRV records without a target of the form `s-<id>`, or without a port.
    pub fn unusable(&self) -> usize {
        self.unusable
    }

    /// The records that are followed, as server, name and port, and what was left out. Dealt in rounds, as addresses
    /// are: no more records are followed than addresses can be kept.
    pub(super) fn dealt(&self) -> (Vec<(ServerId, N, u16)>, Cut) {
        let mut over = self.over;
        let mut followed = Vec::new();
        self.servers.values().for_each(|records| over.join(records.cut()));
        for round in 0..MOST_ADDRESSES {
            for (id, records) in &self.servers {
                match records.items().get(round) {
                    Some((name, port)) if followed.len() < MOST_ENDPOINTS => {
                        followed.push((*id, name.clone(), *port));
                    }
                    Some(record) => over.note(record),
                    None => {}
                }
            }
        }
        (followed, over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(records: impl IntoIterator<Item = (u64, u16)>) -> Targets<String> {
        let mut targets = Targets::new();
        for (id, port) in records {
            let name = format!("s-{id}.example.");
            targets.add(&name, name.clone(), port);
        }
        targets
    }

    #[test]
    fn records_without_a_server_or_a_port_are_counted() {
        let mut targets = targets([(1, 53), (2, 0)]);
        targets.add("www.example.", "www.example.".to_owned(), 53);
        assert_eq!((targets.servers(), targets.unusable()), (1, 2));
        assert_eq!(targets.dealt().0, [(ServerId(1), "s-1.example.".to_owned(), 53)]);
    }

    #[test]
    fn the_64_smallest_ids_are_followed_in_any_order_of_the_records() {
        let up = targets((0..100).map(|id| (id, 53)));
        let ids: Vec<u64> = up.dealt().0.iter().map(|(id, ..)| id.0).collect();
        assert_eq!(ids, (0..64).collect::<Vec<_>>());
        assert_eq!(up.dealt().1.count, 36);
        assert_eq!(targets((0..100).rev().map(|id| (id, 53))).dealt(), up.dealt());
    }

    #[test]
    fn one_server_with_many_records_takes_nothing_from_the_others() {
        let many = (1..=1000).map(|port| (7, port));
        let (followed, over) = targets(many.chain([(8, 53)])).dealt();
        assert_eq!((followed.len(), over.count), (17, 984));
        assert!(followed.contains(&(ServerId(8), "s-8.example.".to_owned(), 53)));
    }

    #[test]
    fn no_more_records_are_followed_than_addresses_can_be_kept() {
        let all = (0..64).flat_map(|id| (1..=16).map(move |port| (id, port)));
        let (followed, over) = targets(all).dealt();
        assert_eq!((followed.len(), over.count), (256, 64 * 16 - 256));
        let first: Vec<u64> = followed[..64].iter().map(|(id, ..)| id.0).collect();
        assert_eq!(first, (0..64).collect::<Vec<_>>(), "every server's first record before any second");
    }
}

//! The bounds of a membership, and which of too many things are kept: always the smallest, so that the order in which
//! DNS lists them changes nothing.
//!
//! However much DNS lists, a request is sent to at most 256 addresses. Used by the other rooms of `membership`.

use crate::id::ServerId;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// Most servers; those of the smallest ids are kept.
pub const MOST_SERVERS: usize = 64;
/// Most addresses of one server.
pub const MOST_ADDRESSES: usize = 16;
/// Most addresses of all servers together.
pub const MOST_ENDPOINTS: usize = 256;

/// How many things were left out, and a fingerprint that tells two sets of them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// How many.
    pub count: usize,
    fingerprint: u64,
}

impl Cut {
    /// Counts one more. The order of the calls does not matter.
    pub(super) fn note(&mut self, thing: &impl Hash) {
        let mut hasher = DefaultHasher::new();
        thing.hash(&mut hasher);
        self.count += 1;
        self.fingerprint = self.fingerprint.wrapping_add(hasher.finish());
    }

    pub(super) fn join(&mut self, other: Cut) {
        self.count += other.count;
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
    }
}

/// The `MOST` smallest different items of all that were added, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Smallest<T, const MOST: usize> {
    items: Vec<T>,
    cut: Cut,
}

impl<T, const MOST: usize> Default for Smallest<T, MOST> {
    fn default() -> Self {
        Smallest { items: Vec::new(), cut: Cut::default() }
    }
}

impl<T: Ord + Hash, const MOST: usize> Smallest<T, MOST> {
    pub(super) fn add(&mut self, item: T) {
        match self.items.binary_search(&item) {
            Ok(_) => {}
            Err(position) if position == MOST => self.cut.note(&item),
            Err(position) => {
                self.items.insert(position, item);
                if self.items.len() > MOST {
                    self.items.pop().inspect(|largest| self.cut.note(largest));
                }
            }
        }
    }

    pub(super) fn items(&self) -> &[T] {
        &self.items
    }

    pub(super) fn cut(&self) -> Cut {
        self.cut
    }
}

/// What a discovery left out of DNS's answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// SRV records whose target is not of the form `s-<id>` or whose port is 0.
    pub records_unusable: usize,
    /// SRV records of servers beyond [`MOST_SERVERS`], or beyond a server's share of records.
    pub records_over: Cut,
    /// Addresses beyond [`MOST_ADDRESSES`] of a server or [`MOST_ENDPOINTS`] in all.
    pub addresses_over: Cut,
    /// Addresses that no datagram can be meant for (unspecified, broadcast, multicast); some of them if they are many.
    pub addresses_unusable: Vec<IpAddr>,
    /// Servers without a usable address.
    pub without_address: Vec<ServerId>,
}

impl LeftOut {
    /// What was left out because there is too much of it.
    pub fn over_bounds(&self) -> OverBounds {
        OverBounds([self.records_over, self.addresses_over])
    }
}

/// Identifies the set of things that were left out because there is too much: equal values mean equal sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverBounds([Cut; 2]);

impl OverBounds {
    /// Whether nothing was left out.
    pub fn is_nothing(self) -> bool {
        self == OverBounds::default()
    }
}

/// Cuts each server's addresses, which come sorted, to its share of all: dealt in rounds, every server's first address
/// before any second.
pub(super) fn deal<'a>(servers: impl Iterator<Item = &'a mut Vec<SocketAddr>>) -> Cut {
    let servers: Vec<_> = servers.collect();
    let mut shares = vec![0; servers.len()];
    let mut left = MOST_ENDPOINTS;
    for round in 0..MOST_ADDRESSES {
        for (share, server) in shares.iter_mut().zip(&servers) {
            if left > 0 && server.len() > round {
                *share += 1;
                left -= 1;
            }
        }
    }
    let mut cut = Cut::default();
    for (share, server) in shares.into_iter().zip(servers) {
        server.drain(share..).for_each(|address| cut.note(&address));
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smallest(items: impl IntoIterator<Item = u32>) -> Smallest<u32, 4> {
        let mut smallest = Smallest::default();
        items.into_iter().for_each(|item| smallest.add(item));
        smallest
    }

    #[test]
    fn the_smallest_are_kept_in_any_order_of_arrival() {
        let up = smallest(0..10);
        assert_eq!((up.items(), up.cut().count), (&[0, 1, 2, 3][..], 6));
        assert_eq!(smallest((0..10).rev()), up, "the set that is left out is the same too");
        assert_ne!(smallest((0..9).chain([77])).cut(), up.cut(), "another set of the same size");
    }

    #[test]
    fn an_item_that_comes_twice_is_one() {
        let twice = smallest([3, 1, 3, 1]);
        assert_eq!((twice.items(), twice.cut().count), (&[1, 3][..], 0));
    }

    fn endpoints(count: u8) -> Vec<SocketAddr> {
        (0..count).map(|last| SocketAddr::from(([192, 0, 2, last], 53))).collect()
    }

    #[test]
    fn every_servers_first_address_comes_before_any_second() {
        let mut servers: Vec<_> = (0..64).map(|server| endpoints(if server < 32 { 16 } else { 1 })).collect();
        let cut = deal(servers.iter_mut());
        let sizes: Vec<usize> = servers.iter().map(Vec::len).collect();
        assert_eq!(sizes.iter().sum::<usize>(), MOST_ENDPOINTS);
        assert_eq!(sizes[..32], [7; 32], "32 x 1 for the small ones leaves 224 for 32 large ones");
        assert_eq!(sizes[32..], [1; 32]);
        assert_eq!(cut.count, 32 * 16 + 32 - MOST_ENDPOINTS);
    }

    #[test]
    fn a_rest_goes_to_the_smallest_ids() {
        let mut servers = vec![endpoints(16); 17];
        deal(servers.iter_mut());
        let sizes: Vec<usize> = servers.iter().map(Vec::len).collect();
        assert_eq!(sizes[0], 16, "16 x 17 is 16 too many: the last round stops short of the 17th");
        assert_eq!(sizes.iter().sum::<usize>(), MOST_ENDPOINTS);
        assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
    }
}

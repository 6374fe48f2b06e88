//! The servers that discovery found (docs/protocol.md, "Discovery"). Pure data.
//!
//! Made by discovery out of SRV and address records, held by the client and snapshotted for each admission. It
//! never looks anything up and does not know when to look again.
//!
//! Rooms: `targets` keeps the usable SRV records, `gathering` turns the answers about their addresses into members,
//! `bounds` decides which servers and addresses are kept when there are too many, `answer` holds what a lookup gave.

pub mod answer;
mod bounds;
pub mod gathering;
pub mod targets;

pub use bounds::{Cut, LeftOut, MOST_ADDRESSES, MOST_ENDPOINTS, MOST_SERVERS, OverBounds};

use crate::id::ServerId;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// One server and every address it can be reached at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The server's id.
    pub id: ServerId,
    /// At least one address; IPv4 and IPv6 may be mixed. In a [`Membership`] each once, in address order.
    pub endpoints: Vec<SocketAddr>,
}

/// A set of members, ordered by id (the oldest first), each id once, none without an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    members: Vec<Member>,
}

impl Membership {
    /// Merges members of one id, drops those without endpoints, sorts by id. `None`: nothing left.
    pub fn new(members: Vec<Member>) -> Option<Membership> {
        let mut by_id = BTreeMap::<ServerId, Vec<SocketAddr>>::new();
        for Member { id, endpoints } in members {
            by_id.entry(id).or_default().extend(endpoints);
        }
        let members: Vec<Member> =
            by_id.into_iter().filter_map(|(id, endpoints)| member(id, endpoints)).collect();
        if members.is_empty() { None } else { Some(Membership { members }) }
    }

    /// The members, oldest first; never empty.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member of this id.
    pub fn member(&self, id: ServerId) -> Option<&Member> {
        let position = self.members.binary_search_by_key(&id, |member| member.id).ok()?;
        Some(&self.members[position])
    }
}

/// Sorting makes two memberships equal whenever they mean the same, however DNS rotated its answers.
fn member(id: ServerId, mut endpoints: Vec<SocketAddr>) -> Option<Member> {
    endpoints.sort_unstable();
    endpoints.dedup();
    if endpoints.is_empty() { None } else { Some(Member { id, endpoints }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(id: u64, endpoints: &[&str]) -> Member {
        Member { id: ServerId(id), endpoints: endpoints.iter().map(|text| text.parse().unwrap()).collect() }
    }

    #[test]
    fn records_of_one_id_are_one_member_with_each_endpoint_once() {
        let records = vec![
            found(7, &["192.0.2.2:53", "[2001:db8::1]:53"]),
            found(7, &["192.0.2.1:53", "192.0.2.2:53", "192.0.2.2:54"]),
        ];
        let merged = found(7, &["192.0.2.1:53", "192.0.2.2:53", "192.0.2.2:54", "[2001:db8::1]:53"]);
        assert_eq!(Membership::new(records).unwrap().members(), [merged]);
    }

    #[test]
    fn the_oldest_member_is_first() {
        let endpoint = ["192.0.2.1:53"];
        let members = [9, 1, u64::MAX, 5].map(|id| found(id, &endpoint)).to_vec();
        let membership = Membership::new(members).unwrap();
        assert_eq!(membership.members().iter().map(|m| m.id.0).collect::<Vec<_>>(), [1, 5, 9, u64::MAX]);
    }

    #[test]
    fn members_without_endpoints_are_left_out() {
        let membership = Membership::new(vec![found(1, &[]), found(2, &["192.0.2.1:53"])]).unwrap();
        assert_eq!(membership.members(), [found(2, &["192.0.2.1:53"])]);
    }

    #[test]
    fn without_any_endpoint_there_is_no_membership() {
        assert_eq!(Membership::new(vec![]), None);
        assert_eq!(Membership::new(vec![found(1, &[])]), None);
    }
}

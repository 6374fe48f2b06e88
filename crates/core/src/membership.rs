//! The servers that discovery found (wire.md, "Discovery"). Pure data.
//!
//! Made by discovery out of SRV and address records, held by the client and snapshotted for each admission. It
//! never looks anything up and does not know when to look again.

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
}

/// Sorting makes two memberships equal whenever they mean the same, however DNS rotated its answers.
fn member(id: ServerId, mut endpoints: Vec<SocketAddr>) -> Option<Member> {
    endpoints.sort_unstable();
    endpoints.dedup();
    if endpoints.is_empty() { None } else { Some(Member { id, endpoints }) }
}

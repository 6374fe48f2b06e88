//! The servers that discovery found, and when to look again (wire.md, "Discovery"). Pure data and arithmetic; the
//! lookups themselves are the caller's.

use crate::id::ServerId;
use std::net::SocketAddr;

/// One server and every address it can be reached at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The server's id.
    pub id: ServerId,
    /// At least one address; IPv4 and IPv6 may be mixed.
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
        let _ = members;
        todo!()
    }

    /// The members, oldest first; never empty.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

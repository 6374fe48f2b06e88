//! The servers that a worker has found, in shared memory: a worker that starts begins with them instead of cold.
//!
//! Read when a worker is set up, written when a look-up has ended and, under `unit=auto`, at most once a second with what is
//! known of round trips. nginx's mutex guards the entry, its checksum finds a writer that was killed.

use crate::nginx::clock;
use crate::nginx::conf::{Conf, NoMemory, ResolverSettings};
use crate::nginx::shared::{Area, Takes};
use ratelimitly_core::client::Client;
use ratelimitly_core::id::ServerId;
use ratelimitly_core::membership::{self, Member, Membership};
use ratelimitly_core::round_trip::Estimate;
use ratelimitly_core::time::Millis;
use ratelimitly_shared::{Digest, ENTRY_WORDS, Entry, Server};
use std::rc::Rc;
use std::sync::Arc;

/// Of the entry's layout; it is part of the area's name.
const VERSION: u64 = 1;

const _: () = assert!(
    membership::MOST_SERVERS <= ratelimitly_shared::MOST_SERVERS
        && membership::MOST_ENDPOINTS <= ratelimitly_shared::MOST_ENDPOINTS,
    "each membership fits an entry"
);

/// The servers of one name, as some nameservers gave them.
pub struct SharedMembers(Rc<Area>);

impl SharedMembers {
    /// Nothing is handed on.
    pub fn none() -> SharedMembers {
        SharedMembers(Area::new(0))
    }

    /// Asks nginx for the area of what is looked up like this, or for the one that the cycle before had.
    ///
    /// # Errors
    /// [`NoMemory`]; nginx has logged why.
    pub fn of_conf(cf: &Conf, srv_name: &str, dns: &ResolverSettings) -> Result<SharedMembers, NoMemory> {
        let families = u64::from(dns.ipv4) | u64::from(dns.ipv6) << 1;
        let head = Digest::default().number(VERSION).number(families).text(srv_name.as_bytes());
        let digest =
            dns.servers.iter().fold(head, |digest, server| digest.text(server.to_string().as_bytes()));
        let area = Area::new(ENTRY_WORDS);
        let name = format!("ratelimitly_members_{:016x}", digest.get());
        cf.share(&name, &area, Rc::new(Anything))?;
        Ok(SharedMembers(area))
    }

    /// This process will load the next configuration itself.
    pub fn keep(&self) {
        self.0.keep();
    }

    /// Gives a client what another worker has found, if that is of use. Says how many members it has then.
    pub fn hand_to(&self, core: &mut Client) -> Option<usize> {
        let now = clock::monotonic();
        let entry = self.0.locked(|words| Entry::read(words, now.0))?;
        let members = entry
            .servers
            .iter()
            .map(|server| Member { id: ServerId(server.id), endpoints: server.endpoints.clone() });
        let membership = Arc::new(Membership::new(members.collect())?);
        let count = membership.members().len();
        core.handle_handed_on(now, Millis(entry.found_ms), entry.life_ms, membership);
        for server in &entry.servers {
            if let Some(bits) = server.round_trip {
                core.know_round_trip(ServerId(server.id), Estimate::from_bits(bits));
            }
        }
        Some(count)
    }

    /// Keeps what a client knows for the workers to come.
    pub fn keep_of(&self, core: &Client) {
        let Some((membership, found, life_ms)) = core.known() else { return };
        let round_trip = |id| {
            let known = core.round_trips().find(|member| member.server == id);
            known.and_then(|member| member.estimate).map(Estimate::to_bits)
        };
        let servers = membership.members().iter().map(|member| Server {
            id: member.id.0,
            round_trip: round_trip(member.id),
            endpoints: member.endpoints.clone(),
        });
        let entry = Entry { found_ms: found.0, life_ms, servers: servers.collect() };
        self.0.locked(|words| entry.write(words));
    }
}

/// An entry says itself whether it is one.
struct Anything;

impl Takes for Anything {
    fn take(&self, _is_fresh: bool) -> bool {
        true
    }
}

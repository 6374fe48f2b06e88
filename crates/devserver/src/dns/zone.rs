//! The zone's records and faults, and the answer to a query. Pure: called by `serve.rs` with decoded messages and by
//! commands that change members, TTL and faults.

use crate::command::{AddressAnswer, DnsCounts, DnsFault, DnsFaultKind, Family, NoEdnsCode, Servers};
use hickory_proto::op::{Edns, Message, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, SOA, SRV};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Largest answer over UDP that is offered, bytes.
const EDNS_PAYLOAD: u16 = 1232;

/// How a query arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

/// What to do about a query.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub message: Message,
    pub delay: Duration,
}

/// A zone with one SRV name and the targets it lists.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    apex: Name,
    service: Name,
    ttl: u32,
    members: Vec<(u64, SocketAddr)>,
    faults: Vec<DnsFault>,
    counts: DnsCounts,
}

impl Zone {
    pub fn new(apex: &str, ttl: u32, members: Vec<(u64, SocketAddr)>) -> io::Result<Zone> {
        let bad = |error| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("zone {apex:?} is no DNS name: {error}"))
        };
        let mut name = Name::from_ascii(apex).map_err(|error| bad(error.to_string()))?;
        name.set_fqdn(true);
        if name.is_root() {
            return Err(bad("it is the root".into()));
        }
        let udp = name.prepend_label("_udp").map_err(|error| bad(error.to_string()))?;
        let service = udp.prepend_label("_ratelimitly").map_err(|error| bad(error.to_string()))?;
        // The longest target of the zone must be a name too.
        name.prepend_label(format!("server-{}", u64::MAX)).map_err(|error| bad(error.to_string()))?;
        let (faults, counts) = (Vec::new(), DnsCounts::default());
        Ok(Zone { apex: name, service, ttl, members, faults, counts })
    }

    pub fn set_ttl(&mut self, ttl: u32) {
        self.ttl = ttl;
    }

    pub fn set_members(&mut self, members: Vec<(u64, SocketAddr)>) {
        self.members = members;
    }

    pub fn remove(&mut self, id: u64) {
        self.members.retain(|&(member, _)| member != id);
    }

    /// Lists a member; the same id may be listed at several addresses.
    pub fn add(&mut self, id: u64, address: SocketAddr) {
        if !self.members.contains(&(id, address)) {
            self.members.push((id, address));
        }
    }

    pub fn set_fault(&mut self, fault: DnsFault) {
        let same_server = |other: &DnsFault| match (&fault, other) {
            (DnsFault::ExtraAddresses { server: a, .. }, DnsFault::ExtraAddresses { server: b, .. }) => {
                a == b
            }
            (
                DnsFault::Addresses { servers: a, family: of_a, .. },
                DnsFault::Addresses { servers: b, family: of_b, .. },
            ) => a == b && of_a == of_b,
            _ => true,
        };
        self.faults.retain(|other| other.kind() != fault.kind() || !same_server(other));
        self.faults.push(fault);
    }

    /// Clears the named faults, or all where none is named.
    pub fn clear_faults(&mut self, kinds: &[DnsFaultKind]) {
        self.faults.retain(|fault| !kinds.is_empty() && !kinds.contains(&fault.kind()));
    }

    pub fn faults(&self) -> &[DnsFault] {
        &self.faults
    }

    pub fn counts(&self) -> DnsCounts {
        self.counts
    }

    /// Whether TCP is to be listened on.
    pub fn listens_on_tcp(&self) -> bool {
        !self.has(DnsFaultKind::RefuseTcp)
    }

    /// Counts a query and says what to answer; `None`: nothing.
    pub fn plan(&mut self, request: &Message, transport: Transport) -> Option<Plan> {
        self.count(request.queries.first(), transport);
        let of_addresses = request.queries.first().and_then(|query| self.address_fault(query));
        if self.has(DnsFaultKind::Silent) || of_addresses == Some(AddressAnswer::Silent) {
            return None;
        }
        let mut message = self.no_edns(request).unwrap_or_else(|| self.answer(request));
        if of_addresses == Some(AddressAnswer::ServFail) {
            message.answers.clear();
            message.metadata.response_code = ResponseCode::ServFail;
        }
        let truncated = self.has(DnsFaultKind::Truncate) || of_addresses == Some(AddressAnswer::Truncate);
        if transport == Transport::Udp && (truncated || !fits_udp(request, &message)) {
            message = message.truncate();
        }
        let delay = |fault: &DnsFault| if let DnsFault::Delay { ms } = *fault { Some(ms) } else { None };
        let delay = self.faults.iter().find_map(delay).unwrap_or(0);
        Some(Plan { message, delay: Duration::from_millis(delay) })
    }

    /// What the faults of addresses do to this query.
    fn address_fault(&self, query: &Query) -> Option<AddressAnswer> {
        let asked = match query.query_type {
            RecordType::A => Family::A,
            RecordType::AAAA => Family::Aaaa,
            _ => return None,
        };
        let (id, _) = self.members.iter().find(|(id, _)| self.target(*id) == query.name)?;
        self.faults.iter().find_map(|fault| match fault {
            DnsFault::Addresses { servers, family, answer }
                if servers.contains(*id) && family.is_none_or(|family| family == asked) =>
            {
                Some(*answer)
            }
            _ => None,
        })
    }

    /// The answer of a server that does not know EDNS to a query that has it.
    fn no_edns(&self, request: &Message) -> Option<Message> {
        request.edns.as_ref()?;
        let (code, bare) = self.faults.iter().find_map(|fault| match fault {
            DnsFault::NoEdns { code, bare } => Some((*code, *bare)),
            _ => None,
        })?;
        let mut message = Message::response(request.metadata.id, request.metadata.op_code);
        if !bare {
            message.add_queries(request.queries.iter().cloned());
        }
        message.metadata.response_code = match code {
            NoEdnsCode::FormErr => ResponseCode::FormErr,
            NoEdnsCode::NotImp => ResponseCode::NotImp,
        };
        Some(message)
    }

    fn count(&mut self, query: Option<&Query>, transport: Transport) {
        match transport {
            Transport::Udp => self.counts.udp += 1,
            Transport::Tcp => self.counts.tcp += 1,
        }
        match query.map(|query| query.query_type) {
            Some(RecordType::SRV) => self.counts.srv += 1,
            Some(RecordType::A) => self.counts.a += 1,
            Some(RecordType::AAAA) => self.counts.aaaa += 1,
            _ => {}
        }
    }

    fn has(&self, kind: DnsFaultKind) -> bool {
        self.faults.iter().any(|fault| fault.kind() == kind)
    }

    fn answer(&self, request: &Message) -> Message {
        let mut message = Message::response(request.metadata.id, request.metadata.op_code);
        message.metadata.recursion_desired = request.metadata.recursion_desired;
        message.add_queries(request.queries.iter().cloned());
        if request.edns.is_some() {
            let mut edns = Edns::new();
            edns.set_max_payload(EDNS_PAYLOAD);
            message.set_edns(edns);
        }
        message.metadata.response_code = match request.queries.as_slice() {
            _ if request.metadata.op_code != OpCode::Query => ResponseCode::NotImp,
            _ if self.has(DnsFaultKind::ServFail) => ResponseCode::ServFail,
            [query] => self.fill(query, &mut message),
            _ => ResponseCode::FormErr,
        };
        message
    }

    fn fill(&self, query: &Query, message: &mut Message) -> ResponseCode {
        if query.query_class != DNSClass::IN || !self.apex.zone_of(&query.name) {
            return ResponseCode::Refused;
        }
        message.metadata.authoritative = true;
        let (exists, records) = self.records(query);
        if records.is_empty() {
            message.add_authority(self.soa());
        }
        message.add_answers(records);
        if exists { ResponseCode::NoError } else { ResponseCode::NXDomain }
    }

    /// Whether the name exists, and its records of the type asked for.
    fn records(&self, query: &Query) -> (bool, Vec<Record>) {
        if query.name == self.service {
            let records =
                if query.query_type == RecordType::SRV { self.srv_records(query) } else { Vec::new() };
            return (true, records);
        }
        if query.name == self.apex {
            return (true, if query.query_type == RecordType::SOA { vec![self.soa()] } else { Vec::new() });
        }
        let members = || self.members.iter().filter(|(id, _)| self.target(*id) == query.name);
        let Some(&(id, _)) = members().next() else {
            // What is left without records of its own is `_udp.<zone>`, above the SRV name.
            return (query.name.zone_of(&self.service), Vec::new());
        };
        if self.hits(id, DnsFaultKind::NoTarget) {
            return (false, Vec::new());
        }
        if self.hits(id, DnsFaultKind::NoAddress) {
            return (true, Vec::new());
        }
        let own = members().map(|(_, address)| address.ip());
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in own.chain(self.extra_addresses(id)) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        (true, self.address_records(query, &addresses))
    }

    fn srv_records(&self, query: &Query) -> Vec<Record> {
        if self.has(DnsFaultKind::NoSrv) {
            return Vec::new();
        }
        // Each has a priority of its own: a client must not care.
        let record = |(priority, &(id, address)): (u16, &(u64, SocketAddr))| {
            let data = RData::SRV(SRV::new(priority, 0, address.port(), self.target(id)));
            Record::from_rdata(query.name.clone(), self.ttl, data)
        };
        (0..=u16::MAX).zip(&self.members).map(record).collect()
    }

    fn address_records(&self, query: &Query, addresses: &[IpAddr]) -> Vec<Record> {
        let data = |address: &IpAddr| match (address, query.query_type) {
            (&IpAddr::V4(v4), RecordType::A) => Some(RData::A(A(v4))),
            (&IpAddr::V6(v6), RecordType::AAAA) => Some(RData::AAAA(AAAA(v6))),
            _ => None,
        };
        let record = |data| Record::from_rdata(query.name.clone(), self.ttl, data);
        addresses.iter().filter_map(data).map(record).collect()
    }

    fn extra_addresses(&self, id: u64) -> impl Iterator<Item = IpAddr> + '_ {
        let of_server = move |fault: &DnsFault| match fault {
            DnsFault::ExtraAddresses { server, addresses } if *server == id => Some(addresses.clone()),
            _ => None,
        };
        self.faults.iter().filter_map(of_server).flatten()
    }

    /// A member's target, `s-<id>.<zone>` unless a fault gives it another form.
    fn target(&self, id: u64) -> Name {
        let prefix = if self.hits(id, DnsFaultKind::BadTarget) { "server" } else { "s" };
        self.apex
            .prepend_label(format!("{prefix}-{id}"))
            .expect("a longer label fitted when the zone was made")
    }

    /// Whether a fault of this kind is about this server's target.
    fn hits(&self, id: u64, kind: DnsFaultKind) -> bool {
        let of_kind = self.faults.iter().filter(|fault| fault.kind() == kind);
        of_kind.filter_map(DnsFault::servers).any(|servers| servers.contains(id))
    }

    /// Its minimum is 0, so that no resolver caches that a name or record is missing.
    fn soa(&self) -> Record {
        let data = SOA::new(self.apex.clone(), self.apex.clone(), 1, 3600, 600, 86400, 0);
        Record::from_rdata(self.apex.clone(), self.ttl, RData::SOA(data))
    }
}

impl DnsFault {
    /// The fault's name.
    pub fn kind(&self) -> DnsFaultKind {
        match self {
            DnsFault::NoSrv => DnsFaultKind::NoSrv,
            DnsFault::NoAddress { .. } => DnsFaultKind::NoAddress,
            DnsFault::NoTarget { .. } => DnsFaultKind::NoTarget,
            DnsFault::BadTarget { .. } => DnsFaultKind::BadTarget,
            DnsFault::ServFail => DnsFaultKind::ServFail,
            DnsFault::Delay { .. } => DnsFaultKind::Delay,
            DnsFault::Silent => DnsFaultKind::Silent,
            DnsFault::Truncate => DnsFaultKind::Truncate,
            DnsFault::Addresses { .. } => DnsFaultKind::Addresses,
            DnsFault::NoEdns { .. } => DnsFaultKind::NoEdns,
            DnsFault::RefuseTcp => DnsFaultKind::RefuseTcp,
            DnsFault::ExtraAddresses { .. } => DnsFaultKind::ExtraAddresses,
        }
    }

    /// Whose targets the fault is about, where it is about those of some servers.
    fn servers(&self) -> Option<&Servers> {
        match self {
            DnsFault::NoAddress { servers }
            | DnsFault::NoTarget { servers }
            | DnsFault::BadTarget { servers } => Some(servers),
            _ => None,
        }
    }
}

fn fits_udp(request: &Message, answer: &Message) -> bool {
    // `max_payload` is 512 without EDNS.
    answer.to_vec().is_ok_and(|bytes| bytes.len() <= usize::from(request.max_payload()))
}

#[cfg(test)]
mod tests;

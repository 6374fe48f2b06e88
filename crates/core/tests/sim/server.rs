//! A scripted server: what it answers to each datagram, and the ways in which an answer can be wrong.

use super::material::{endpoint, resource};
use ratelimitly_core::id::RequestId;
use ratelimitly_core::time::Millis;
use ratelimitly_core::wire::{Auth, Guard, GuardAnswer, RateRequestView, Resource, ResourceAnswer, Tenant};
use std::net::SocketAddr;

/// A request as a server received it.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub at: Millis,
    pub tenant: Tenant,
    pub guards: Vec<Guard>,
    pub resources: Vec<Resource>,
    pub dedup_ttl_ms: u32,
}

/// One answer.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    /// Milliseconds after the receipt.
    pub after_ms: u64,
    pub grant: bool,
    /// 0 asks for a new source port.
    pub steering: u8,
    pub fault: Fault,
}

/// What is wrong with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// No results at all.
    Empty,
    /// One result too few.
    Short,
    /// One result too many.
    Extra,
    /// Authentication does not match.
    Auth,
    /// The last byte is missing.
    Truncated,
    RequestId,
    /// Another server's id.
    Server(u64),
}

impl Reply {
    pub fn allow(after_ms: u64) -> Reply {
        Reply { after_ms, grant: true, steering: 1, fault: Fault::None }
    }

    pub fn deny(after_ms: u64) -> Reply {
        Reply { grant: false, ..Reply::allow(after_ms) }
    }

    pub fn with(self, fault: Fault) -> Reply {
        Reply { fault, ..self }
    }

    pub fn rebind(self) -> Reply {
        Reply { steering: 0, ..self }
    }
}

impl Receipt {
    pub fn new(at: Millis, tenant: Tenant, request: &RateRequestView<'_>) -> Receipt {
        Receipt {
            at,
            tenant,
            guards: request.guards().collect(),
            resources: request.resources().collect(),
            dedup_ttl_ms: request.dedup_ttl_ms,
        }
    }

    /// The sealed answer of server `id`.
    pub fn answer(&self, auth: &Auth, id: u64, reply: &Reply) -> Vec<u8> {
        let (guards, resources) = self.results(reply);
        let mut tenant = Tenant { key_or_server_id: id, steering_feedback: reply.steering, ..self.tenant };
        match reply.fault {
            Fault::RequestId => tenant.request_id = RequestId([0x5a; 16]),
            Fault::Server(other) => tenant.key_or_server_id = other,
            _ => {}
        }
        let mut bytes = Vec::new();
        auth.seal_rate_response(&mut bytes, &tenant, &[3; 12], &guards, &resources).expect("it fits");
        match reply.fault {
            Fault::Auth => bytes[60] ^= 1,
            Fault::Truncated => bytes.truncate(bytes.len() - 1),
            _ => {}
        }
        bytes
    }

    fn results(&self, reply: &Reply) -> (Vec<GuardAnswer>, Vec<ResourceAnswer>) {
        let mut guards: Vec<GuardAnswer> =
            self.guards.iter().map(|guard| guard_answer(guard, reply)).collect();
        let mut resources: Vec<ResourceAnswer> =
            self.resources.iter().map(|resource| resource_answer(resource, reply)).collect();
        match reply.fault {
            Fault::Empty => (guards, resources) = (Vec::new(), Vec::new()),
            Fault::Short if resources.is_empty() => drop(guards.pop()),
            Fault::Short => drop(resources.pop()),
            Fault::Extra => resources.push(resource_answer(&resource(0), reply)),
            _ => {}
        }
        (guards, resources)
    }
}

fn guard_answer(guard: &Guard, reply: &Reply) -> GuardAnswer {
    GuardAnswer { guard: *guard, current_latency_ms: if reply.grant { 0 } else { guard.threshold_ms } }
}

fn resource_answer(resource: &Resource, reply: &Reply) -> ResourceAnswer {
    ResourceAnswer {
        bucket: resource.bucket,
        window_size_ms: resource.window_size_ms,
        actual_rate: 1,
        deficit: if reply.grant { 0 } else { resource.tokens },
    }
}

/// What a server does with its n-th receipt (from 0).
pub type Script = Box<dyn FnMut(usize, &Receipt) -> Vec<Reply>>;

/// One server. Each answer goes out once.
pub struct Server {
    pub id: u64,
    pub endpoints: Vec<SocketAddr>,
    pub receipts: Vec<Receipt>,
    script: Script,
}

impl Server {
    pub fn new(id: u64, script: impl FnMut(usize, &Receipt) -> Vec<Reply> + 'static) -> Server {
        Server { id, endpoints: vec![endpoint(id, 0)], receipts: Vec::new(), script: Box::new(script) }
    }

    /// Never answers.
    pub fn silent(id: u64) -> Server {
        Server::new(id, |_, _| Vec::new())
    }

    /// Answers every receipt alike.
    pub fn always(id: u64, reply: Reply) -> Server {
        Server::new(id, move |_, _| vec![reply])
    }

    /// Answers its first receipt only.
    pub fn once(id: u64, reply: Reply) -> Server {
        Server::new(id, move |nth, _| if nth == 0 { vec![reply] } else { Vec::new() })
    }

    /// Silent for its first receipt, answers the later ones.
    pub fn late(id: u64, reply: Reply) -> Server {
        Server::new(id, move |nth, _| if nth == 0 { Vec::new() } else { vec![reply] })
    }

    /// The same server with so many endpoints.
    pub fn with_endpoints(mut self, count: u16) -> Server {
        self.endpoints = (0..count).map(|n| endpoint(self.id, n)).collect();
        self
    }

    pub(super) fn take(&mut self, receipt: &Receipt) -> Vec<Reply> {
        self.receipts.push(receipt.clone());
        (self.script)(self.receipts.len() - 1, receipt)
    }
}

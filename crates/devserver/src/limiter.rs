//! The one logical service behind all servers: buckets, trackers and remembered requests. Called by `server.rs` for
//! every authenticated datagram. Pure: time comes in as an argument (milliseconds of the process), and it knows no
//! sockets and no faults beyond the overrides it is handed.

mod answer;
mod bucket;
mod memory;
mod tracker;

pub(crate) use answer::{Answer, Overrides};

use answer::{Assessment, Claim};
use bucket::Buckets;
use memory::{Memory, RequestKey};
use ratelimitly_core::id::RequestId;
use ratelimitly_core::wire::{Guard, GuardAnswer, Observation, Resource};
use tracker::Trackers;

/// How often what has expired is thrown away, milliseconds.
const SWEEP_INTERVAL_MS: u64 = 1000;

/// A rate request, as far as it matters for a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub key_id: u64,
    pub request_id: RequestId,
    /// How long the first answer is remembered.
    pub ttl_ms: u32,
    pub guards: &'a [Guard],
    pub resources: &'a [Resource],
}

/// What is known about a request id when a datagram of it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Datagrams of this id at this server, this one included.
    pub copy: u32,
    /// Whether another datagram of this id came before, at whatever server.
    pub repeat: bool,
}

/// State of the service. `Default` is a service that has seen nothing.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    buckets: Buckets,
    trackers: Trackers,
    memory: Memory,
    next_sweep_ms: u64,
}

impl Limiter {
    /// Notes that a datagram of this request id reached a server; every datagram is noted before it is decided.
    pub fn arrive(&mut self, now_ms: u64, server: u64, key_id: u64, id: RequestId, ttl_ms: u32) -> Arrival {
        self.sweep(now_ms);
        self.memory.arrive(now_ms, server, RequestKey { key_id, id }, ttl_ms)
    }

    /// Whether this request id has been decided before and that is still remembered.
    pub fn is_decided(&self, now_ms: u64, request: &Request<'_>) -> bool {
        self.memory.is_decided(now_ms, RequestKey { key_id: request.key_id, id: request.request_id })
    }

    /// Answers a request. The first call for a request id looks at buckets and trackers, later ones within its TTL
    /// repeat what was found then. Tokens are consumed once: by the first answer that is an allow.
    pub fn decide(&mut self, now_ms: u64, request: &Request<'_>, overrides: &Overrides) -> Answer {
        let key = RequestKey { key_id: request.key_id, id: request.request_id };
        let fresh = (!self.memory.is_decided(now_ms, key)).then(|| self.assess(now_ms, request));
        let (assessment, consumed) = self.memory.first(now_ms, key, request.ttl_ms, fresh);
        let answer = assessment.answer(overrides);
        if answer.is_allow() && assessment.fits() && !std::mem::replace(consumed, true) {
            for claim in assessment.claims() {
                self.buckets.consume(now_ms, claim.bucket, claim.tokens);
            }
        }
        answer
    }

    /// Adds a sample to a tracker that keeps no more than `buffer_max` of them.
    pub fn observe(&mut self, now_ms: u64, key_id: u64, buffer_max: u32, observation: &Observation) {
        self.trackers.observe(now_ms, key_id, buffer_max, observation);
    }

    fn assess(&mut self, now_ms: u64, request: &Request<'_>) -> Assessment {
        let current = |guard: &Guard| GuardAnswer {
            guard: *guard,
            current_latency_ms: self.trackers.current(now_ms, request.key_id, guard),
        };
        let guards = request.guards.iter().map(current).collect();
        let mut claims: Vec<Claim> = Vec::with_capacity(request.resources.len());
        for resource in request.resources {
            let bucket = bucket::Key::new(request.key_id, resource);
            let consumed = self.buckets.consumed(now_ms, bucket);
            let claim = Claim::new(bucket, resource, consumed, &claims);
            claims.push(claim);
        }
        Assessment::new(guards, claims)
    }

    fn sweep(&mut self, now_ms: u64) {
        if now_ms >= self.next_sweep_ms {
            self.next_sweep_ms = now_ms + SWEEP_INTERVAL_MS;
            self.memory.sweep(now_ms);
            self.buckets.sweep(now_ms);
            self.trackers.sweep(now_ms);
        }
    }
}

#[cfg(test)]
mod tests;

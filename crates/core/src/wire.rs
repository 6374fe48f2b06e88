//! The wire codec, both directions (wire.md, "Datagram"): the module seals requests and opens responses, the
//! development server opens requests and seals responses. Exact layouts, no policy, no state.

use crate::id::{BucketId, RequestId, TrackerId, TrackerSettings};
use crate::key::ApiKey;

/// Longest datagram, bytes.
pub const MAX_DATAGRAM: usize = 1200;
/// Longest label, bytes.
pub const MAX_LABEL: usize = 256;

/// The tenant TLV's fields. In a request `key_or_server_id` is the key id, in a response the server id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Key id (request) or server id (response).
    pub key_or_server_id: u64,
    /// The request's id, echoed by a response.
    pub request_id: RequestId,
    /// Sender's wall clock, Unix milliseconds.
    pub timestamp_ms: u64,
    /// Response: 0 asks for a new source port, any other value keeps it. This project's requests send 0.
    pub steering_feedback: u8,
}

/// Reads the tenant TLV alone, unauthenticated: enough to find the key or the request that a datagram names.
///
/// # Errors
/// Too short, wrong type, or a size outside the datagram.
pub fn peek(datagram: &[u8]) -> Result<Tenant, DecodeError> {
    let _ = datagram;
    todo!()
}

/// Why a datagram is no valid message. Callers drop such datagrams silently; the name serves tests and debug logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Shorter than its own sizes say.
    #[error("truncated")]
    Truncated,
    /// Tag or cookie does not match.
    #[error("authentication failed")]
    Authentication,
    // + Type(u16), Size, AuthKind, …
}

/// Why a message cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The datagram would be longer than 1200 bytes.
    #[error("request needs {0} bytes, a datagram holds {MAX_DATAGRAM}")]
    TooLarge(usize),
    /// The label is longer than 256 bytes.
    #[error("label has {0} bytes, at most {MAX_LABEL} are allowed")]
    LabelTooLong(usize),
}

/// A resource block of a rate request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Bucket.
    pub bucket: BucketId,
    /// Window, milliseconds.
    pub window_size_ms: u32,
    /// Tokens a window holds.
    pub rate_limit: u32,
    /// Tokens asked for.
    pub tokens: u16,
}

/// A guard block of a rate request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Tracker.
    pub tracker: TrackerId,
    /// The tracker's settings.
    pub settings: TrackerSettings,
    /// Threshold, milliseconds; the guard passes when the current latency is strictly below.
    pub threshold_ms: u32,
}

/// A rate request's content, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct RateRequest<'a> {
    /// Deduplication TTL, milliseconds.
    pub dedup_ttl_ms: u32,
    /// Guards, in order.
    pub guards: &'a [Guard],
    /// Resources, in order.
    pub resources: &'a [Resource],
    /// Metrics label; empty or `None`: no label TLV is sent.
    pub label: Option<&'a [u8]>,
}

/// One entry of a latency report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Tracker.
    pub tracker: TrackerId,
    /// The tracker's settings.
    pub settings: TrackerSettings,
    /// Observed latency, milliseconds.
    pub latency_ms: u32,
}

/// A response's guard block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardAnswer {
    /// The guard as asked.
    pub guard: Guard,
    /// The tracker's current latency, milliseconds.
    pub current_latency_ms: u32,
}

/// A response's resource block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceAnswer {
    /// Bucket.
    pub bucket: BucketId,
    /// Window, milliseconds.
    pub window_size_ms: u32,
    /// Tokens consumed in the current window.
    pub actual_rate: u32,
    /// Tokens that could not be supplied.
    pub deficit: u16,
}

/// Seals and opens datagrams of one key: the expanded AES key or the cookie. `Debug` shows the kind only.
pub struct Auth {
    _private: (),
}

impl Auth {
    /// Prepares the key's cipher.
    pub fn new(key: &ApiKey) -> Auth {
        let _ = key;
        todo!()
    }

    /// Writes a whole sealed rate request into `out` (cleared first, keeps its capacity).
    ///
    /// # Errors
    /// `EncodeError`; `out` is then empty.
    pub fn seal_rate_request(
        &self,
        out: &mut Vec<u8>,
        tenant: &Tenant,
        nonce: &[u8; 12],
        request: &RateRequest<'_>,
    ) -> Result<(), EncodeError> {
        let _ = (out, tenant, nonce, request);
        todo!()
    }

    /// Writes a whole sealed latency report into `out` (cleared first).
    ///
    /// # Errors
    /// `EncodeError`; `out` is then empty.
    pub fn seal_report(
        &self,
        out: &mut Vec<u8>,
        tenant: &Tenant,
        nonce: &[u8; 12],
        observations: &[Observation],
    ) -> Result<(), EncodeError> {
        let _ = (out, tenant, nonce, observations);
        todo!()
    }

    /// Writes a whole sealed rate response into `out` (cleared first). For servers.
    ///
    /// # Errors
    /// `EncodeError`; `out` is then empty.
    pub fn seal_rate_response(
        &self,
        out: &mut Vec<u8>,
        tenant: &Tenant,
        nonce: &[u8; 12],
        guards: &[GuardAnswer],
        resources: &[ResourceAnswer],
    ) -> Result<(), EncodeError> {
        let _ = (out, tenant, nonce, guards, resources);
        todo!()
    }

    /// Authenticates a datagram and decrypts it in place; the PDU starts at the returned message's slice.
    ///
    /// # Errors
    /// Every departure from the layout, the wrong auth kind, and a tag or cookie that does not match.
    pub fn open<'a>(&self, datagram: &'a mut [u8]) -> Result<(Tenant, Pdu<'a>), DecodeError> {
        let _ = datagram;
        todo!()
    }
}

/// An authenticated message. The views iterate over the datagram's bytes and allocate nothing.
#[derive(Debug)]
pub enum Pdu<'a> {
    /// A rate request (what servers receive).
    RateRequest(RateRequestView<'a>),
    /// A rate response (what clients receive).
    RateResponse(RateResponseView<'a>),
    /// A latency report.
    Report(ReportView<'a>),
}

/// A decoded rate request. `guards()` and `resources()` are exact-size iterators.
#[derive(Clone, Copy, Debug)]
pub struct RateRequestView<'a> {
    /// Deduplication TTL, milliseconds.
    pub dedup_ttl_ms: u32,
    /// The label, if one was sent.
    pub label: Option<&'a [u8]>,
    guards: &'a [u8],
    resources: &'a [u8],
}

impl RateRequestView<'_> {
    /// The guards, in order.
    pub fn guards(&self) -> impl ExactSizeIterator<Item = Guard> + '_ {
        let _ = (self.guards, self.resources);
        std::iter::empty()
    }

    /// The resources, in order.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = Resource> + '_ {
        std::iter::empty()
    }
}

/// A decoded rate response.
#[derive(Clone, Copy, Debug)]
pub struct RateResponseView<'a> {
    guards: &'a [u8],
    resources: &'a [u8],
}

impl RateResponseView<'_> {
    /// The guard answers, in order.
    pub fn guards(&self) -> impl ExactSizeIterator<Item = GuardAnswer> + '_ {
        let _ = (self.guards, self.resources);
        std::iter::empty()
    }

    /// The resource answers, in order.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = ResourceAnswer> + '_ {
        std::iter::empty()
    }

    /// Whether every guard passes and every deficit is 0 (counts are the caller's to compare).
    pub fn grants(&self) -> bool {
        todo!()
    }
}

/// A decoded latency report.
#[derive(Clone, Copy, Debug)]
pub struct ReportView<'a> {
    observations: &'a [u8],
}

impl ReportView<'_> {
    /// The observations, in order.
    pub fn observations(&self) -> impl ExactSizeIterator<Item = Observation> + '_ {
        let _ = self.observations;
        std::iter::empty()
    }
}

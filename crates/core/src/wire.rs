//! The wire codec, both directions (docs/protocol.md, "Datagram"): the module seals requests and opens responses, the
//! development server opens requests and seals responses. Exact layouts, no policy, no state.
//!
//! This file holds the messages' plain types and sizes; `auth` seals and opens whole datagrams, `encode` writes
//! PDUs, `view` reads them. Nothing here allocates once the caller's buffer has its capacity, and no input, however
//! malformed, makes it panic.

mod auth;
mod encode;
#[cfg(test)]
mod tests;
mod view;

pub use auth::Auth;
pub use view::{Pdu, RateRequestView, RateResponseView, ReportView};

use crate::id::{BucketId, RequestId, TrackerId, TrackerSettings};
use crate::key::KeyKind;

/// Longest datagram, bytes.
pub const MAX_DATAGRAM: usize = 1200;
/// Longest label, bytes.
pub const MAX_LABEL: usize = 256;

const TENANT_TYPE: u16 = 0x4C52;
const TENANT_LEN: usize = 40;
const COOKIE_TYPE: u16 = 0x4143;
const COOKIE_LEN: usize = 36;
const AES_TYPE: u16 = 0x4541;
const AES_LEN: usize = 32;
const TLV_HEADER_LEN: usize = 4;
const NONCE_LEN: usize = 12;

const RATE_REQUEST_TYPE: u16 = 0x5452;
const RATE_RESPONSE_TYPE: u16 = 0x5252;
const REPORT_TYPE: u16 = 0x524C;
const PDU_HEADER_LEN: usize = 8;
const COUNTS_LEN: usize = 4;

const GUARD_LEN: usize = 36;
const RESOURCE_LEN: usize = 28;
const OBSERVATION_LEN: usize = 32;
const LABEL_TYPE: u16 = 0x4C4D;

/// Bytes of a whole rate request's datagram, for a configuration that warns before the first request does.
/// `label_len` 0 is no label. The datagram can be sent if this is at most [`MAX_DATAGRAM`].
pub fn rate_request_size(kind: KeyKind, guards: usize, resources: usize, label_len: usize) -> usize {
    rate_pdu_len(guards, resources, label_len).saturating_add(head_len(kind))
}

/// Bytes of a whole latency report's datagram.
pub fn report_size(kind: KeyKind, observations: usize) -> usize {
    report_pdu_len(observations).saturating_add(head_len(kind))
}

/// Bytes before the PDU.
const fn head_len(kind: KeyKind) -> usize {
    TENANT_LEN
        + match kind {
            KeyKind::Aes => AES_LEN,
            KeyKind::Cookie => COOKIE_LEN,
        }
}

/// Saturating: absurd counts, which cannot be sent anyway, must not wrap around into a size that can.
const fn rate_pdu_len(guards: usize, resources: usize, label_len: usize) -> usize {
    let blocks = guards.saturating_mul(GUARD_LEN).saturating_add(resources.saturating_mul(RESOURCE_LEN));
    (PDU_HEADER_LEN + COUNTS_LEN).saturating_add(blocks).saturating_add(label_tlv_len(label_len))
}

const fn report_pdu_len(observations: usize) -> usize {
    (PDU_HEADER_LEN + COUNTS_LEN).saturating_add(observations.saturating_mul(OBSERVATION_LEN))
}

/// Header, length field, label and the padding that makes the last two a multiple of 4; nothing without a label.
const fn label_tlv_len(label_len: usize) -> usize {
    if label_len == 0 { 0 } else { label_len.saturating_add(2 + 3) / 4 * 4 + TLV_HEADER_LEN }
}

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
    view::tenant(datagram).map(|(tenant, _)| tenant)
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
    /// A TLV or PDU type that does not belong where it stands.
    #[error("unexpected type {0:#06x}")]
    Type(u16),
    /// A size field that its type does not allow.
    #[error("invalid size field {0}")]
    Size(u16),
    /// Authenticated in the other kind's way than the key's.
    #[error("auth kind is not the key's")]
    AuthKind,
    /// A rate request's label does not fill its TLV, or is longer than [`MAX_LABEL`].
    #[error("malformed label")]
    Label,
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
    /// The cipher refused, which no datagram of a legal size makes it do.
    #[error("cipher refused to seal")]
    Cipher,
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

impl Observation {
    /// What is reported of a duration: at least one millisecond, at most what the field holds.
    pub fn latency_of(elapsed_ms: u64) -> u32 {
        u32::try_from(elapsed_ms).unwrap_or(u32::MAX).max(1)
    }
}

/// A response's guard block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardAnswer {
    /// The guard as asked.
    pub guard: Guard,
    /// The tracker's current latency, milliseconds.
    pub current_latency_ms: u32,
}

impl GuardAnswer {
    /// Whether the current latency is strictly below the threshold.
    pub fn passes(&self) -> bool {
        self.current_latency_ms < self.guard.threshold_ms
    }
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

//! Writes PDUs: header, counts, blocks, label.
//!
//! Called by `auth`, which has reserved the room and checked that all of it fits a datagram (so every count fits
//! its 16 bits). It never checks and never fails.

use super::{
    COUNTS_LEN, GUARD_LEN, Guard, GuardAnswer, LABEL_TYPE, OBSERVATION_LEN, Observation, PDU_HEADER_LEN,
    RATE_REQUEST_TYPE, RATE_RESPONSE_TYPE, REPORT_TYPE, RESOURCE_LEN, RateRequest, Resource, ResourceAnswer,
    TENANT_LEN, TENANT_TYPE, Tenant, label_tlv_len, rate_pdu_len, report_pdu_len,
};
use crate::id::{TrackerId, TrackerSettings};

/// A block under construction. Assembled on the stack, so that the buffer grows by one bounds check a block.
struct Block<const LEN: usize> {
    bytes: [u8; LEN],
    at: usize,
}

impl<const LEN: usize> Block<LEN> {
    /// All zeros: reserved fields and padding are simply never put.
    #[inline]
    fn new() -> Block<LEN> {
        Block { bytes: [0; LEN], at: 0 }
    }

    #[inline]
    fn put<const N: usize>(mut self, field: [u8; N]) -> Block<LEN> {
        self.bytes[self.at..self.at + N].copy_from_slice(&field);
        self.at += N;
        self
    }

    #[inline]
    fn u16(self, value: u16) -> Block<LEN> {
        self.put(value.to_le_bytes())
    }

    #[inline]
    fn u32(self, value: u32) -> Block<LEN> {
        self.put(value.to_le_bytes())
    }

    #[inline]
    fn tracker(self, tracker: &TrackerId, settings: &TrackerSettings) -> Block<LEN> {
        self.put(tracker.0).u32(settings.ttl_ms).u32(settings.max_samples).u32(settings.min_sample_threshold)
    }

    #[inline]
    fn append_to(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
}

#[inline]
pub(super) fn tenant(out: &mut Vec<u8>, tenant: &Tenant) {
    Block::<TENANT_LEN>::new()
        .u16(TENANT_TYPE)
        .u16(TENANT_LEN as u16)
        .put(tenant.key_or_server_id.to_le_bytes())
        .put(tenant.request_id.0)
        .put(tenant.timestamp_ms.to_le_bytes())
        .put([tenant.steering_feedback])
        .append_to(out);
}

#[inline]
pub(super) fn tlv_header(out: &mut Vec<u8>, tlv_type: u16, size: usize) {
    Block::<4>::new().u16(tlv_type).u16(size as u16).append_to(out);
}

pub(super) fn rate_request(out: &mut Vec<u8>, request: &RateRequest<'_>) {
    let RateRequest { dedup_ttl_ms, guards, resources, label } = *request;
    let label = label.unwrap_or_default();
    let size = rate_pdu_len(guards.len(), resources.len(), label.len());
    pdu_head(out, RATE_REQUEST_TYPE, size, dedup_ttl_ms, [guards.len(), resources.len()]);
    for guard in guards {
        guard_block(out, guard, 0);
    }
    for Resource { bucket, window_size_ms, rate_limit, tokens } in resources {
        resource_block(out, bucket.0, *window_size_ms, *rate_limit, *tokens);
    }
    if !label.is_empty() {
        label_tlv(out, label);
    }
}

pub(super) fn rate_response(out: &mut Vec<u8>, guards: &[GuardAnswer], resources: &[ResourceAnswer]) {
    let size = rate_pdu_len(guards.len(), resources.len(), 0);
    pdu_head(out, RATE_RESPONSE_TYPE, size, 0, [guards.len(), resources.len()]);
    for GuardAnswer { guard, current_latency_ms } in guards {
        guard_block(out, guard, *current_latency_ms);
    }
    for ResourceAnswer { bucket, window_size_ms, actual_rate, deficit } in resources {
        resource_block(out, bucket.0, *window_size_ms, *actual_rate, *deficit);
    }
}

pub(super) fn report(out: &mut Vec<u8>, observations: &[Observation]) {
    pdu_head(out, REPORT_TYPE, report_pdu_len(observations.len()), 0, [observations.len(), 0]);
    for Observation { tracker, settings, latency_ms } in observations {
        Block::<OBSERVATION_LEN>::new().tracker(tracker, settings).u32(*latency_ms).append_to(out);
    }
}

/// PDU header and counts. A report has one count and two bytes of padding, which is a second count of 0.
#[inline]
fn pdu_head(out: &mut Vec<u8>, pdu_type: u16, size: usize, dedup_ttl_ms: u32, counts: [usize; 2]) {
    Block::<{ PDU_HEADER_LEN + COUNTS_LEN }>::new()
        .u16(pdu_type)
        .u16(size as u16)
        .u32(dedup_ttl_ms)
        .u16(counts[0] as u16)
        .u16(counts[1] as u16)
        .append_to(out);
}

#[inline]
fn guard_block(out: &mut Vec<u8>, guard: &Guard, current_latency_ms: u32) {
    Block::<GUARD_LEN>::new()
        .tracker(&guard.tracker, &guard.settings)
        .u32(guard.threshold_ms)
        .u32(current_latency_ms)
        .append_to(out);
}

/// `rate` and `tokens` are limit and request on the way out, actual rate and deficit on the way back.
#[inline]
fn resource_block(out: &mut Vec<u8>, bucket: [u8; 16], window_size_ms: u32, rate: u32, tokens: u16) {
    Block::<RESOURCE_LEN>::new().put(bucket).u32(window_size_ms).u32(rate).u16(tokens).append_to(out);
}

fn label_tlv(out: &mut Vec<u8>, label: &[u8]) {
    let size = label_tlv_len(label.len());
    let end = out.len() + size;
    tlv_header(out, LABEL_TYPE, size);
    out.extend_from_slice(&(label.len() as u16).to_le_bytes());
    out.extend_from_slice(label);
    out.resize(end, 0);
}

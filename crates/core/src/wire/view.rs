//! Reads tenant TLVs and PDUs: views over the datagram's bytes that check lengths once and then iterate freely.
//!
//! Called by `auth` with an authenticated PDU, and by `peek`. Splitting off fixed-size arrays is the only way
//! bytes are taken here, so that no arithmetic on a stranger's sizes can go wrong. It never allocates.

use super::{
    COUNTS_LEN, DecodeError, GUARD_LEN, Guard, GuardAnswer, LABEL_TYPE, MAX_LABEL, OBSERVATION_LEN,
    Observation, PDU_HEADER_LEN, RATE_REQUEST_TYPE, RATE_RESPONSE_TYPE, REPORT_TYPE, RESOURCE_LEN, Resource,
    ResourceAnswer, TENANT_LEN, TENANT_TYPE, TLV_HEADER_LEN, Tenant, label_tlv_len,
};
use crate::id::{BucketId, RequestId, TrackerId, TrackerSettings};

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
    blocks: Blocks<'a>,
}

impl<'a> RateRequestView<'a> {
    /// The guards, in order.
    pub fn guards(&self) -> impl ExactSizeIterator<Item = Guard> + use<'a> {
        self.blocks.guards.iter().map(|block| guard_answer(block).guard)
    }

    /// The resources, in order.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = Resource> + use<'a> {
        self.blocks.resources.iter().map(|block| {
            let (bucket, window_size_ms, rate_limit, tokens) = resource_fields(block);
            Resource { bucket, window_size_ms, rate_limit, tokens }
        })
    }
}

/// A decoded rate response.
#[derive(Clone, Copy, Debug)]
pub struct RateResponseView<'a> {
    blocks: Blocks<'a>,
}

impl<'a> RateResponseView<'a> {
    /// The guard answers, in order.
    pub fn guards(&self) -> impl ExactSizeIterator<Item = GuardAnswer> + use<'a> {
        self.blocks.guards.iter().map(guard_answer)
    }

    /// The resource answers, in order.
    pub fn resources(&self) -> impl ExactSizeIterator<Item = ResourceAnswer> + use<'a> {
        self.blocks.resources.iter().map(|block| {
            let (bucket, window_size_ms, actual_rate, deficit) = resource_fields(block);
            ResourceAnswer { bucket, window_size_ms, actual_rate, deficit }
        })
    }

    /// Whether every guard passes and every deficit is 0 (counts are the caller's to compare).
    pub fn grants(&self) -> bool {
        self.guards().all(|answer| answer.passes()) && self.resources().all(|answer| answer.deficit == 0)
    }
}

/// A decoded latency report.
#[derive(Clone, Copy, Debug)]
pub struct ReportView<'a> {
    observations: &'a [[u8; OBSERVATION_LEN]],
}

impl<'a> ReportView<'a> {
    /// The observations, in order.
    pub fn observations(&self) -> impl ExactSizeIterator<Item = Observation> + use<'a> {
        self.observations.iter().map(|block| {
            let mut fields = Fields(block);
            let (tracker, settings) = fields.tracker();
            Observation { tracker, settings, latency_ms: fields.u32() }
        })
    }
}

/// The blocks of a rate request or response.
#[derive(Clone, Copy, Debug)]
struct Blocks<'a> {
    guards: &'a [[u8; GUARD_LEN]],
    resources: &'a [[u8; RESOURCE_LEN]],
}

/// The tenant TLV and its size, which is 40 at least and lies within the datagram.
#[inline]
pub(super) fn tenant(datagram: &[u8]) -> Result<(Tenant, usize), DecodeError> {
    let (head, _) = take::<TENANT_LEN>(datagram)?;
    let mut fields = Fields(head);
    let (tlv_type, size) = (fields.u16(), fields.u16());
    if tlv_type != TENANT_TYPE {
        return Err(DecodeError::Type(tlv_type));
    }
    if usize::from(size) < TENANT_LEN {
        return Err(DecodeError::Size(size));
    }
    if usize::from(size) > datagram.len() {
        return Err(DecodeError::Truncated);
    }
    let tenant = Tenant {
        key_or_server_id: fields.u64(),
        request_id: RequestId(fields.take()),
        timestamp_ms: fields.u64(),
        steering_feedback: fields.take::<1>()[0],
    };
    Ok((tenant, usize::from(size)))
}

/// Type and size of the TLV or PDU that `bytes` starts with.
#[inline]
pub(super) fn type_and_size(bytes: &[u8]) -> Result<(u16, u16), DecodeError> {
    let (head, _) = take::<TLV_HEADER_LEN>(bytes)?;
    let mut fields = Fields(head);
    Ok((fields.u16(), fields.u16()))
}

/// An authenticated PDU; bytes behind its size are ignored.
#[inline]
pub(super) fn pdu(bytes: &[u8]) -> Result<Pdu<'_>, DecodeError> {
    let (pdu_type, size) = type_and_size(bytes)?;
    if usize::from(size) < PDU_HEADER_LEN {
        return Err(DecodeError::Size(size));
    }
    let pdu = bytes.get(..usize::from(size)).ok_or(DecodeError::Truncated)?;
    let (head, body) = take::<PDU_HEADER_LEN>(pdu)?;
    match pdu_type {
        RATE_REQUEST_TYPE => rate_request(Fields(&head[4..]).u32(), body).map(Pdu::RateRequest),
        RATE_RESPONSE_TYPE => blocks(body).map(|(blocks, _)| Pdu::RateResponse(RateResponseView { blocks })),
        REPORT_TYPE => report(body).map(Pdu::Report),
        other => Err(DecodeError::Type(other)),
    }
}

fn rate_request(dedup_ttl_ms: u32, body: &[u8]) -> Result<RateRequestView<'_>, DecodeError> {
    let (blocks, rest) = blocks(body)?;
    Ok(RateRequestView { dedup_ttl_ms, label: label(rest)?, blocks })
}

fn report(body: &[u8]) -> Result<ReportView<'_>, DecodeError> {
    let (head, rest) = take::<COUNTS_LEN>(body)?;
    let (observations, _) = take_blocks(rest, Fields(head).u16())?;
    Ok(ReportView { observations })
}

#[inline]
fn blocks(body: &[u8]) -> Result<(Blocks<'_>, &[u8]), DecodeError> {
    let (head, rest) = take::<COUNTS_LEN>(body)?;
    let mut counts = Fields(head);
    let (guards, rest) = take_blocks(rest, counts.u16())?;
    let (resources, rest) = take_blocks(rest, counts.u16())?;
    Ok((Blocks { guards, resources }, rest))
}

/// The label behind a rate request's blocks. Anything else there is not ours to read.
fn label(rest: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
    let Ok((LABEL_TYPE, size)) = type_and_size(rest) else { return Ok(None) };
    let (_, body) = take::<TLV_HEADER_LEN>(rest)?;
    let (len, text) = take::<2>(body)?;
    let len = usize::from(u16::from_le_bytes(*len));
    let text = text.get(..len).ok_or(DecodeError::Truncated)?;
    if len == 0 || len > MAX_LABEL || label_tlv_len(len) != usize::from(size) {
        return Err(DecodeError::Label);
    }
    if usize::from(size) > rest.len() {
        return Err(DecodeError::Truncated);
    }
    Ok(Some(text))
}

fn guard_answer(block: &[u8; GUARD_LEN]) -> GuardAnswer {
    let mut fields = Fields(block);
    let (tracker, settings) = fields.tracker();
    let guard = Guard { tracker, settings, threshold_ms: fields.u32() };
    GuardAnswer { guard, current_latency_ms: fields.u32() }
}

/// Bucket, window, rate (limit or actual), tokens (asked or missing).
fn resource_fields(block: &[u8; RESOURCE_LEN]) -> (BucketId, u32, u32, u16) {
    let mut fields = Fields(block);
    (BucketId(fields.take()), fields.u32(), fields.u32(), fields.u16())
}

#[inline]
fn take<const LEN: usize>(bytes: &[u8]) -> Result<(&[u8; LEN], &[u8]), DecodeError> {
    bytes.split_first_chunk().ok_or(DecodeError::Truncated)
}

#[inline]
fn take_blocks<const LEN: usize>(bytes: &[u8], count: u16) -> Result<(&[[u8; LEN]], &[u8]), DecodeError> {
    let (blocks, rest) = bytes.split_at_checked(usize::from(count) * LEN).ok_or(DecodeError::Truncated)?;
    Ok((blocks.as_chunks().0, rest))
}

/// The fields of a block whose length is fixed and known. Reading past it gives zeros, which no caller here does.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    #[inline]
    fn take<const LEN: usize>(&mut self) -> [u8; LEN] {
        let Some((field, rest)) = self.0.split_first_chunk() else { return [0; LEN] };
        self.0 = rest;
        *field
    }

    #[inline]
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    #[inline]
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    #[inline]
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    #[inline]
    fn tracker(&mut self) -> (TrackerId, TrackerSettings) {
        let tracker = TrackerId(self.take());
        let (ttl_ms, max_samples, min_sample_threshold) = (self.u32(), self.u32(), self.u32());
        (tracker, TrackerSettings { ttl_ms, max_samples, min_sample_threshold })
    }
}

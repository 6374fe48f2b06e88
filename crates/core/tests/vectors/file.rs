//! The vector file's shape, and its entries as the crate's own types.

use ratelimitly_core::id::{BucketId, RequestId, TrackerId, TrackerSettings};
use ratelimitly_core::key::{ApiKey, Quotas};
use ratelimitly_core::wire::{Auth, Guard, GuardAnswer, Observation, Resource, ResourceAnswer, Tenant};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
pub struct Vectors {
    pub api_keys_valid: Vec<ValidKey>,
    pub api_keys_invalid: Vec<InvalidKey>,
    pub bucket_ids: Vec<BucketEntry>,
    pub tracker_ids: Vec<TrackerEntry>,
    pub rate_requests: Vec<RequestEntry>,
    pub latency_reports: Vec<ReportEntry>,
    pub responses_valid: Vec<ValidResponse>,
    pub responses_invalid: Vec<InvalidResponse>,
}

impl Vectors {
    pub fn load() -> Vectors {
        let vectors: Vectors =
            serde_json::from_str(include_str!("../../vectors/ratelimitly-wire.json")).unwrap();
        let lists = [
            vectors.api_keys_valid.len(),
            vectors.api_keys_invalid.len(),
            vectors.bucket_ids.len(),
            vectors.tracker_ids.len(),
            vectors.rate_requests.len(),
            vectors.latency_reports.len(),
            vectors.responses_valid.len(),
            vectors.responses_invalid.len(),
        ];
        assert!(!lists.contains(&0), "an empty list proves nothing: {lists:?}");
        vectors
    }
}

#[derive(Deserialize)]
pub struct ValidKey {
    pub auth_type: String,
    pub key_id: u64,
    pub secret: String,
    rate_buckets_max: u32,
    latency_services_max: u32,
    metrics_labels_max: u32,
    latency_buffer_size_max: u32,
    dedup_ttl_ms_max: u32,
    rate_window_size_ms_max: u32,
    pub encoded: String,
}

impl ValidKey {
    pub fn quotas(&self) -> Quotas {
        Quotas {
            rate_buckets_max: self.rate_buckets_max,
            latency_services_max: self.latency_services_max,
            metrics_labels_max: self.metrics_labels_max,
            latency_buffer_size_max: self.latency_buffer_size_max,
            dedup_ttl_ms_max: self.dedup_ttl_ms_max,
            rate_window_size_ms_max: self.rate_window_size_ms_max,
        }
    }
}

#[derive(Deserialize)]
pub struct InvalidKey {
    pub why: String,
    pub encoded: String,
}

#[derive(Deserialize)]
pub struct BucketEntry {
    pub name: String,
    pub window_size_ms: u32,
    pub rate_limit: u32,
    pub id: String,
}

#[derive(Deserialize)]
pub struct TrackerEntry {
    pub name: String,
    #[serde(flatten, with = "Settings")]
    pub settings: TrackerSettings,
    pub id: String,
}

#[derive(Deserialize)]
#[serde(remote = "TrackerSettings")]
struct Settings {
    ttl_ms: u32,
    max_samples: u32,
    min_sample_threshold: u32,
}

/// What requests and reports have in common.
#[derive(Deserialize)]
pub struct Message {
    request_id: String,
    timestamp_ms: u64,
    nonce: String,
    /// Datagram, or the other implementation's error, by key.
    pub packets: BTreeMap<String, String>,
}

impl Message {
    pub fn tenant(&self, key: &str) -> Tenant {
        Tenant {
            key_or_server_id: key_of(key).key_id(),
            request_id: RequestId(bytes(&self.request_id)),
            timestamp_ms: self.timestamp_ms,
            steering_feedback: 0,
        }
    }

    pub fn nonce(&self) -> [u8; 12] {
        bytes(&self.nonce)
    }
}

#[derive(Deserialize)]
pub struct RequestEntry {
    pub name: String,
    pub dedup_ttl_ms: u32,
    resources: Vec<AskedResource>,
    guards: Vec<AskedGuard>,
    pub label: Option<String>,
    /// In clear.
    pub pdu: String,
    #[serde(flatten)]
    pub message: Message,
}

impl RequestEntry {
    pub fn guards(&self) -> Vec<Guard> {
        let guard = |entry: &AskedGuard| Guard {
            tracker: TrackerId(bytes(&entry.latency_tracker_id)),
            settings: entry.settings,
            threshold_ms: entry.threshold_ms,
        };
        self.guards.iter().map(guard).collect()
    }

    pub fn resources(&self) -> Vec<Resource> {
        let resource = |entry: &AskedResource| Resource {
            bucket: BucketId(bytes(&entry.bucket_id)),
            window_size_ms: entry.window_size_ms,
            rate_limit: entry.rate_limit,
            tokens: entry.tokens_requested,
        };
        self.resources.iter().map(resource).collect()
    }
}

#[derive(Deserialize)]
struct AskedResource {
    bucket_id: String,
    window_size_ms: u32,
    rate_limit: u32,
    tokens_requested: u16,
}

#[derive(Deserialize)]
struct AskedGuard {
    latency_tracker_id: String,
    threshold_ms: u32,
    #[serde(flatten, with = "Settings")]
    settings: TrackerSettings,
}

#[derive(Deserialize)]
pub struct ReportEntry {
    pub report: Reported,
    #[serde(flatten)]
    pub message: Message,
}

#[derive(Deserialize)]
pub struct Reported {
    latency_tracker_id: String,
    observed_latency_ms: u32,
    #[serde(flatten, with = "Settings")]
    settings: TrackerSettings,
}

impl Reported {
    pub fn observation(&self) -> Observation {
        Observation {
            tracker: TrackerId(bytes(&self.latency_tracker_id)),
            settings: self.settings,
            latency_ms: self.observed_latency_ms,
        }
    }
}

#[derive(Deserialize)]
pub struct ValidResponse {
    pub name: String,
    pub key: String,
    pub packet: String,
    pub request_id: String,
    pub server_id: u64,
    pub keep_port: bool,
    pub success: bool,
    pub guards: Vec<GuardEntry>,
    pub resources: Vec<ResourceEntry>,
}

/// A guard's answer as the file writes it.
#[derive(Debug, PartialEq, Deserialize)]
pub struct GuardEntry {
    latency_tracker_id: String,
    threshold_ms: u32,
    current_latency_ms: u32,
    passed: bool,
}

impl GuardEntry {
    pub fn of(answer: &GuardAnswer) -> GuardEntry {
        GuardEntry {
            latency_tracker_id: answer.guard.tracker.to_string(),
            threshold_ms: answer.guard.threshold_ms,
            current_latency_ms: answer.current_latency_ms,
            passed: answer.passes(),
        }
    }
}

/// A resource's answer as the file writes it.
#[derive(Debug, PartialEq, Deserialize)]
pub struct ResourceEntry {
    bucket_id: String,
    tokens_deficit: u16,
    actual_rate: u32,
}

impl ResourceEntry {
    pub fn of(answer: &ResourceAnswer) -> ResourceEntry {
        ResourceEntry {
            bucket_id: answer.bucket.to_string(),
            tokens_deficit: answer.deficit,
            actual_rate: answer.actual_rate,
        }
    }
}

#[derive(Deserialize)]
pub struct InvalidResponse {
    pub why: String,
    pub key: String,
    pub packet: String,
}

pub fn key_of(text: &str) -> ApiKey {
    ApiKey::parse(text).unwrap()
}

pub fn auth_of(text: &str) -> Auth {
    Auth::new(&key_of(text))
}

/// The nonce of a datagram with an ordinary tenant TLV; under a cookie these bytes mean nothing and are unused.
pub fn response_nonce(datagram: &[u8]) -> [u8; 12] {
    datagram[44..56].try_into().unwrap()
}

pub fn hex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "odd hexadecimal");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

pub fn bytes<const LEN: usize>(text: &str) -> [u8; LEN] {
    hex(text).try_into().unwrap()
}

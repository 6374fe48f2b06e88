//! What the development server saw: one event a request or report, as data, as JSON line and in memory. Written by
//! `server.rs`, read by tests and by people. An event never carries key material.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One datagram that was authenticated and understood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Place in the sequence of all servers' events, from 1.
    pub seq: u64,
    /// Arrival, Unix milliseconds.
    pub time_ms: u64,
    /// Request or report.
    pub kind: Kind,
    /// The server that received it.
    pub server: u64,
    /// The key's id.
    pub key_id: u64,
    /// The request id, hex.
    pub request_id: String,
    /// The AES nonce, hex; absent under a cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The sender's time stamp, Unix milliseconds.
    pub timestamp_ms: u64,
    /// The sender's steering flag.
    pub steering_feedback: u8,
    /// Source address.
    pub source_ip: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Datagram length, bytes.
    pub bytes: usize,
    /// How many datagrams of this request id this server has received within the TTL, this one included.
    pub copy: u32,
    /// Whether any of the servers had received this request id before, within the TTL.
    pub repeat: bool,
    /// What became of the answer; a report has none, unless it was lost on arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fate: Option<Fate>,
    /// The verdict in the answer, also of one that is held, delayed or lost; absent where nothing was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The numbers in that answer, before a fault spoils it; absent where nothing was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerSeen>,
    /// Deduplication TTL of a request, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_ttl_ms: Option<u32>,
    /// Number of guards of a request.
    pub guard_count: usize,
    /// Number of resources of a request.
    pub resource_count: usize,
    /// Guards of a request, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<GuardSeen>,
    /// Resources of a request, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceSeen>,
    /// Observations of a report, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<ObservationSeen>,
    /// The metrics label; absent where none was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<LabelSeen>,
}

impl Event {
    /// The metrics label's text; empty where none was sent.
    pub fn label_text(&self) -> &str {
        self.label.as_ref().map_or("", |label| &label.text)
    }
}

/// What kind of datagram an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A rate request.
    Request,
    /// A latency report.
    Report,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Sent, or will be after its delay.
    Answered,
    /// Kept back by `hold`.
    Held,
    /// The request or the answer was lost by `drop`.
    Dropped,
    /// Ignored by `silent`.
    Silent,
    /// It could not be built, because a fault made it too long for a datagram.
    Unsendable,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every guard passes and every deficit is 0.
    Allow,
    /// Anything else.
    Deny,
}

/// An answer's numbers, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerSeen {
    /// Latency of each guard, milliseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies_ms: Vec<u32>,
    /// What each resource's bucket said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<CountSeen>,
}

/// A resource in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountSeen {
    /// Tokens given within the window, those of this request included where it is allowed.
    pub count: u32,
    /// Tokens that are missing.
    pub deficit: u16,
}

/// A guard in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardSeen {
    /// Tracker id, hex.
    pub tracker: String,
    /// The name that `serve --name` gave for this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Life of a sample, milliseconds.
    pub ttl_ms: u32,
    /// Most samples kept.
    pub max_samples: u32,
    /// Fewest samples that count.
    pub min_sample_threshold: u32,
    /// Threshold, milliseconds.
    pub threshold_ms: u32,
}

/// A resource in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSeen {
    /// Bucket id, hex.
    pub bucket: String,
    /// The name that `serve --name` gave for this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Window, milliseconds.
    pub window_size_ms: u32,
    /// Tokens a window holds.
    pub rate_limit: u32,
    /// Tokens asked for.
    pub tokens: u16,
}

/// An observation in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationSeen {
    /// Tracker id, hex.
    pub tracker: String,
    /// The name that `serve --name` gave for this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Life of a sample, milliseconds.
    pub ttl_ms: u32,
    /// Most samples kept.
    pub max_samples: u32,
    /// Fewest samples that count.
    pub min_sample_threshold: u32,
    /// Observed latency, milliseconds.
    pub latency_ms: u32,
}

/// A metrics label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelSeen {
    /// The label; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// The exact bytes, hex, where `text` is not the whole truth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
}

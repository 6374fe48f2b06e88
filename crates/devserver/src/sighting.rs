//! From a datagram seen to the event that tells of it. Called by `server.rs`. Knows the wire's types and the event's,
//! and never sees a secret.

use crate::event::{
    AnswerSeen, CountSeen, Event, Fate, GuardSeen, Kind, LabelSeen, ObservationSeen, ResourceSeen, Verdict,
};
use crate::limiter::{Answer, Arrival};
use crate::names::Names;
use ratelimitly_core::wire::{Guard, Observation, Resource, Tenant};
use std::fmt::Write;
use std::net::SocketAddr;

/// What requests and reports have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    pub time_ms: u64,
    pub kind: Kind,
    pub server: u64,
    pub tenant: Tenant,
    pub source: SocketAddr,
    pub bytes: usize,
    pub nonce: Option<[u8; 12]>,
    pub arrival: Arrival,
    pub fate: Option<Fate>,
    pub verdict: Option<Verdict>,
}

impl Sighting {
    /// The event without a request's or report's content.
    pub fn event(&self, seq: u64) -> Event {
        Event {
            seq,
            time_ms: self.time_ms,
            kind: self.kind,
            server: self.server,
            key_id: self.tenant.key_or_server_id,
            request_id: self.tenant.request_id.to_string(),
            nonce: self.nonce.as_ref().map(|nonce| hex(nonce)),
            timestamp_ms: self.tenant.timestamp_ms,
            steering_feedback: self.tenant.steering_feedback,
            source_ip: self.source.ip(),
            source_port: self.source.port(),
            bytes: self.bytes,
            copy: self.arrival.copy,
            repeat: self.arrival.repeat,
            fate: self.fate,
            verdict: self.verdict,
            answer: None,
            dedup_ttl_ms: None,
            guard_count: 0,
            resource_count: 0,
            guards: Vec::new(),
            resources: Vec::new(),
            observations: Vec::new(),
            label: None,
        }
    }
}

impl GuardSeen {
    pub(crate) fn new(guard: &Guard, names: &Names) -> GuardSeen {
        GuardSeen {
            tracker: guard.tracker.to_string(),
            name: names.of(&guard.tracker.0),
            ttl_ms: guard.settings.ttl_ms,
            max_samples: guard.settings.max_samples,
            min_sample_threshold: guard.settings.min_sample_threshold,
            threshold_ms: guard.threshold_ms,
        }
    }
}

impl ResourceSeen {
    pub(crate) fn new(resource: &Resource, names: &Names) -> ResourceSeen {
        ResourceSeen {
            bucket: resource.bucket.to_string(),
            name: names.of(&resource.bucket.0),
            window_size_ms: resource.window_size_ms,
            rate_limit: resource.rate_limit,
            tokens: resource.tokens,
        }
    }
}

impl AnswerSeen {
    pub(crate) fn new(answer: &Answer) -> AnswerSeen {
        let resources = answer.resources.iter();
        AnswerSeen {
            latencies_ms: answer.guards.iter().map(|guard| guard.current_latency_ms).collect(),
            resources: resources
                .map(|seen| CountSeen { count: seen.actual_rate, deficit: seen.deficit })
                .collect(),
        }
    }
}

impl ObservationSeen {
    pub(crate) fn new(observation: &Observation, names: &Names) -> ObservationSeen {
        ObservationSeen {
            tracker: observation.tracker.to_string(),
            name: names.of(&observation.tracker.0),
            ttl_ms: observation.settings.ttl_ms,
            max_samples: observation.settings.max_samples,
            min_sample_threshold: observation.settings.min_sample_threshold,
            latency_ms: observation.latency_ms,
        }
    }
}

impl From<&[u8]> for LabelSeen {
    fn from(label: &[u8]) -> LabelSeen {
        let exact = std::str::from_utf8(label).is_ok();
        LabelSeen { text: String::from_utf8_lossy(label).into_owned(), hex: (!exact).then(|| hex(label)) }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_is_no_utf8_keeps_its_bytes() {
        let label = LabelSeen::from(&b"a\xffb"[..]);
        assert_eq!((label.text.as_str(), label.hex.as_deref()), ("a\u{fffd}b", Some("61ff62")));
    }

    #[test]
    fn a_label_of_text_is_told_once() {
        assert_eq!(LabelSeen::from("/é".as_bytes()), LabelSeen { text: "/é".into(), hex: None });
    }
}

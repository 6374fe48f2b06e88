//! Arbitrary messages, owned so that proptest can shrink them, and the two keys they are sealed with.

use proptest::collection::vec;
use proptest::prelude::*;
use ratelimitly_core::id::{BucketId, RequestId, TrackerId, TrackerSettings};
use ratelimitly_core::key::{ApiKey, KeyKind, Quotas};
use ratelimitly_core::wire::{
    Auth, EncodeError, Guard, GuardAnswer, Observation, Pdu, RateRequest, Resource, ResourceAnswer, Tenant,
};

/// A PDU's whole content.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    Request { dedup_ttl_ms: u32, guards: Vec<Guard>, resources: Vec<Resource>, label: Option<Vec<u8>> },
    Response { guards: Vec<GuardAnswer>, resources: Vec<ResourceAnswer> },
    Report { observations: Vec<Observation> },
}

impl Message {
    /// `None`: does not fit a datagram of this kind.
    pub fn seal(&self, auth: &Auth) -> Option<Vec<u8>> {
        let mut out = vec![];
        let sealed = match self {
            Message::Request { dedup_ttl_ms, guards, resources, label } => {
                let (dedup_ttl_ms, label) = (*dedup_ttl_ms, label.as_deref());
                let request = RateRequest { dedup_ttl_ms, guards, resources, label };
                auth.seal_rate_request(&mut out, &tenant(), &NONCE, &request)
            }
            Message::Response { guards, resources } => {
                auth.seal_rate_response(&mut out, &tenant(), &NONCE, guards, resources)
            }
            Message::Report { observations } => auth.seal_report(&mut out, &tenant(), &NONCE, observations),
        };
        match sealed {
            Ok(()) => Some(out),
            Err(EncodeError::TooLarge(size)) if size > 1200 && out.is_empty() => None,
            Err(other) => panic!("{other}"),
        }
    }

    pub fn of(pdu: &Pdu<'_>) -> Message {
        match pdu {
            Pdu::RateRequest(view) => Message::Request {
                dedup_ttl_ms: view.dedup_ttl_ms,
                guards: view.guards().collect(),
                resources: view.resources().collect(),
                label: view.label.map(<[u8]>::to_vec),
            },
            Pdu::RateResponse(view) => {
                Message::Response { guards: view.guards().collect(), resources: view.resources().collect() }
            }
            Pdu::Report(view) => Message::Report { observations: view.observations().collect() },
        }
    }
}

impl Arbitrary for Message {
    type Parameters = ();
    type Strategy = BoxedStrategy<Message>;

    fn arbitrary_with((): ()) -> BoxedStrategy<Message> {
        let label = prop::option::of(vec(any::<u8>(), 1..=256));
        let request = (any::<u32>(), vec(guard(), 0..20), vec(resource(), 0..25), label).prop_map(
            |(dedup_ttl_ms, guards, resources, label)| Message::Request {
                dedup_ttl_ms,
                guards,
                resources,
                label,
            },
        );
        let response = (vec(guard_answer(), 0..20), vec(resource_answer(), 0..25))
            .prop_map(|(guards, resources)| Message::Response { guards, resources });
        let report = vec(observation(), 0..40).prop_map(|observations| Message::Report { observations });
        prop_oneof![request, response, report].boxed()
    }
}

const NONCE: [u8; 12] = *b"twelve bytes";

pub fn tenant() -> Tenant {
    Tenant {
        key_or_server_id: 0x0123_4567_89ab_cdef,
        request_id: RequestId::from_random(*b"sixteen of bytes"),
        timestamp_ms: 1_790_000_000_123,
        steering_feedback: 3,
    }
}

/// An AES and a cookie key's, in this order.
pub fn auths() -> [Auth; 2] {
    [KeyKind::Aes, KeyKind::Cookie].map(|kind| Auth::new(&key(kind, 77, [0xA5; 32])))
}

pub fn key_text(key_id: u64, secret: [u8; 32]) -> String {
    key(KeyKind::Aes, key_id, secret).encode()
}

fn key(kind: KeyKind, key_id: u64, secret: [u8; 32]) -> ApiKey {
    let quotas = Quotas {
        rate_buckets_max: 65536,
        latency_services_max: 1024,
        metrics_labels_max: 4096,
        latency_buffer_size_max: 32,
        dedup_ttl_ms_max: 300,
        rate_window_size_ms_max: u32::MAX,
    };
    ApiKey::new(kind, key_id, secret, quotas).unwrap()
}

prop_compose! {
    fn settings()(ttl_ms: u32, max_samples: u32, min_sample_threshold: u32) -> TrackerSettings {
        TrackerSettings { ttl_ms, max_samples, min_sample_threshold }
    }
}

prop_compose! {
    fn guard()(tracker: [u8; 16], settings in settings(), threshold_ms: u32) -> Guard {
        Guard { tracker: TrackerId(tracker), settings, threshold_ms }
    }
}

prop_compose! {
    fn guard_answer()(guard in guard(), current_latency_ms: u32) -> GuardAnswer {
        GuardAnswer { guard, current_latency_ms }
    }
}

prop_compose! {
    fn resource()(bucket: [u8; 16], window_size_ms: u32, rate_limit: u32, tokens: u16) -> Resource {
        Resource { bucket: BucketId(bucket), window_size_ms, rate_limit, tokens }
    }
}

prop_compose! {
    fn resource_answer()(bucket: [u8; 16], window_size_ms: u32, actual_rate: u32, deficit: u16) -> ResourceAnswer {
        ResourceAnswer { bucket: BucketId(bucket), window_size_ms, actual_rate, deficit }
    }
}

prop_compose! {
    fn observation()(tracker: [u8; 16], settings in settings(), latency_ms: u32) -> Observation {
        Observation { tracker: TrackerId(tracker), settings, latency_ms }
    }
}

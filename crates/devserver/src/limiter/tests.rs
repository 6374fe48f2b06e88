//! The limiter on a hand-driven clock.

use super::{Answer, Arrival, Limiter, Overrides, Request};
use crate::event::Verdict;
use ratelimitly_core::id::{BucketId, RequestId, TrackerId, TrackerSettings};
use ratelimitly_core::wire::{Guard, Observation, Resource};

const KEY: u64 = 7;
const TTL_MS: u32 = 60;
const NO_FAULT: &Overrides = &Overrides {
    verdict: None,
    latencies: std::collections::BTreeMap::new(),
    deficits: std::collections::BTreeMap::new(),
};

fn resource(name: &str, window_size_ms: u32, rate_limit: u32, tokens: u16) -> Resource {
    let bucket = BucketId::new(name.as_bytes(), window_size_ms, rate_limit);
    Resource { bucket, window_size_ms, rate_limit, tokens }
}

fn guard(settings: TrackerSettings, threshold_ms: u32) -> Guard {
    Guard { tracker: TrackerId::new(b"service", settings), settings, threshold_ms }
}

fn settings(ttl_ms: u32, max_samples: u32, min_sample_threshold: u32) -> TrackerSettings {
    TrackerSettings { ttl_ms, max_samples, min_sample_threshold }
}

/// A limiter whose requests each get an id of their own unless one is given.
#[derive(Default)]
struct Service {
    limiter: Limiter,
    last_id: u8,
}

impl Service {
    fn ask(&mut self, now_ms: u64, guards: &[Guard], resources: &[Resource]) -> Answer {
        self.last_id += 1;
        self.ask_as(now_ms, self.last_id, 1, guards, resources, NO_FAULT)
    }

    fn ask_as(
        &mut self,
        now_ms: u64,
        id: u8,
        server: u64,
        guards: &[Guard],
        resources: &[Resource],
        overrides: &Overrides,
    ) -> Answer {
        let request_id = RequestId([id; 16]);
        self.limiter.arrive(now_ms, server, KEY, request_id, TTL_MS);
        let request = Request { key_id: KEY, request_id, ttl_ms: TTL_MS, guards, resources };
        self.limiter.decide(now_ms, &request, overrides)
    }

    fn take(&mut self, now_ms: u64, resource: Resource) -> bool {
        self.ask(now_ms, &[], &[resource]).is_allow()
    }

    fn report(&mut self, now_ms: u64, settings: TrackerSettings, latency_ms: u32) {
        let tracker = TrackerId::new(b"service", settings);
        self.limiter.observe(now_ms, KEY, 4, &Observation { tracker, settings, latency_ms });
    }

    fn latency(&mut self, now_ms: u64, settings: TrackerSettings) -> u32 {
        self.ask(now_ms, &[guard(settings, 100)], &[]).guards[0].current_latency_ms
    }
}

#[test]
fn a_bucket_gives_its_limit_and_no_more() {
    let mut service = Service::default();
    let verdicts: Vec<bool> = (0..5).map(|_| service.take(0, resource("b", 1000, 3, 1))).collect();
    assert_eq!(verdicts, [true, true, true, false, false]);
}

#[test]
fn a_token_comes_back_exactly_one_window_after_it_was_taken() {
    let mut service = Service::default();
    assert!(service.take(100, resource("b", 1000, 2, 1)));
    assert!(service.take(600, resource("b", 1000, 2, 1)));
    assert!(!service.take(1099, resource("b", 1000, 2, 1)));
    assert!(service.take(1100, resource("b", 1000, 2, 1)));
    assert!(!service.take(1101, resource("b", 1000, 2, 1)), "the token of 600 still counts");
}

#[test]
fn a_long_window_never_forgets_a_token_too_early() {
    let mut service = Service::default();
    let window_ms = 1024 * 1000;
    assert!(service.take(500, resource("b", window_ms, 1, 1)));
    assert!(!service.take(500 + u64::from(window_ms), resource("b", window_ms, 1, 1)));
    assert!(service.take(999 + u64::from(window_ms), resource("b", window_ms, 1, 1)), "slots are 1000 ms");
}

#[test]
fn deficit_and_actual_rate_tell_what_is_missing() {
    let mut service = Service::default();
    let granted = service.ask(0, &[], &[resource("b", 1000, 5, 3)]);
    assert_eq!((granted.resources[0].deficit, granted.resources[0].actual_rate), (0, 3));
    let refused = service.ask(1, &[], &[resource("b", 1000, 5, 4)]);
    assert_eq!((refused.resources[0].deficit, refused.resources[0].actual_rate), (2, 3));
}

#[test]
fn one_short_resource_denies_all_and_nothing_is_consumed() {
    let mut service = Service::default();
    assert!(service.take(0, resource("full", 1000, 1, 1)));
    let answer = service.ask(1, &[], &[resource("free", 1000, 1, 1), resource("full", 1000, 1, 1)]);
    assert_eq!(answer.verdict(), Verdict::Deny);
    assert_eq!(answer.resources.iter().map(|r| r.deficit).collect::<Vec<_>>(), [0, 1]);
    assert!(service.take(2, resource("free", 1000, 1, 1)));
}

#[test]
fn a_failing_guard_consumes_nothing() {
    let mut service = Service::default();
    let tracked = settings(1000, 4, 1);
    service.report(0, tracked, 100);
    let answer = service.ask(1, &[guard(tracked, 100)], &[resource("b", 1000, 1, 1)]);
    assert_eq!((answer.verdict(), answer.resources[0].deficit), (Verdict::Deny, 0));
    assert_eq!(answer.resources[0].actual_rate, 0);
    assert!(service.take(2, resource("b", 1000, 1, 1)));
}

#[test]
fn a_bucket_named_twice_in_a_request_serves_both_or_neither() {
    let mut service = Service::default();
    let one = resource("b", 1000, 3, 2);
    let answer = service.ask(0, &[], &[one, one]);
    assert_eq!(answer.resources.iter().map(|r| r.deficit).collect::<Vec<_>>(), [0, 1]);
    let answer = service.ask(1, &[], &[resource("b", 1000, 3, 1), one]);
    assert_eq!(
        answer.resources.iter().map(|r| (r.deficit, r.actual_rate)).collect::<Vec<_>>(),
        [(0, 3), (0, 3)]
    );
}

#[test]
fn a_repeated_request_gets_the_first_answer_and_consumes_once() {
    let mut service = Service::default();
    let wanted = [resource("b", 1000, 2, 1)];
    let first = service.ask_as(0, 200, 1, &[], &wanted, NO_FAULT);
    assert!(service.take(1, wanted[0]));
    for (now_ms, server) in [(2, 1), (3, 2), (59, 3)] {
        assert_eq!(service.ask_as(now_ms, 200, server, &[], &wanted, NO_FAULT), first);
    }
    assert!(!service.take(59, wanted[0]));
}

#[test]
fn a_repeated_deny_stays_a_deny_when_tokens_have_come_back() {
    let mut service = Service::default();
    let wanted = [resource("b", 10, 1, 1)];
    assert!(service.take(0, wanted[0]));
    assert!(!service.ask_as(5, 200, 1, &[], &wanted, NO_FAULT).is_allow());
    assert!(!service.ask_as(20, 200, 1, &[], &wanted, NO_FAULT).is_allow());
    assert!(service.take(20, wanted[0]));
}

#[test]
fn after_its_ttl_a_request_id_is_a_new_request() {
    let mut service = Service::default();
    let wanted = [resource("b", 1000, 1, 1)];
    assert!(service.ask_as(0, 200, 1, &[], &wanted, NO_FAULT).is_allow());
    assert!(service.ask_as(59, 200, 1, &[], &wanted, NO_FAULT).is_allow());
    assert!(!service.ask_as(60, 200, 1, &[], &wanted, NO_FAULT).is_allow());
}

#[test]
fn arrivals_are_counted_by_server_and_told_as_repeats() {
    let mut limiter = Limiter::default();
    let mut arrive = |now_ms, server| limiter.arrive(now_ms, server, KEY, RequestId([1; 16]), TTL_MS);
    assert_eq!(arrive(0, 1), Arrival { copy: 1, repeat: false });
    assert_eq!(arrive(1, 2), Arrival { copy: 1, repeat: true });
    assert_eq!(arrive(2, 1), Arrival { copy: 2, repeat: true });
    assert_eq!(arrive(60, 1), Arrival { copy: 1, repeat: false });
}

#[test]
fn keys_share_neither_buckets_nor_request_ids() {
    let mut limiter = Limiter::default();
    let wanted = [resource("b", 1000, 1, 1)];
    let mut ask = |key_id| {
        let request_id = RequestId([1; 16]);
        limiter.arrive(0, 1, key_id, request_id, TTL_MS);
        let request = Request { key_id, request_id, ttl_ms: TTL_MS, guards: &[], resources: &wanted };
        limiter.decide(0, &request, NO_FAULT).resources[0].actual_rate
    };
    assert_eq!((ask(1), ask(2)), (1, 1));
}

#[test]
fn a_forced_verdict_contradicts_without_consuming_twice() {
    let mut service = Service::default();
    let wanted = [resource("b", 1000, 2, 1)];
    let force = |verdict| Overrides { verdict: Some(verdict), ..Overrides::default() };
    let denied = service.ask_as(0, 200, 1, &[], &wanted, &force(Verdict::Deny));
    assert_eq!((denied.verdict(), denied.resources[0].deficit), (Verdict::Deny, 1));
    assert_eq!(service.ask_as(0, 200, 2, &[], &wanted, &force(Verdict::Allow)).verdict(), Verdict::Allow);
    assert_eq!(service.ask_as(0, 200, 3, &[], &wanted, NO_FAULT).verdict(), Verdict::Allow);
    assert!(service.take(1, wanted[0]));
    assert!(!service.take(1, wanted[0]));
}

#[test]
fn a_forced_deny_alone_consumes_nothing() {
    let mut service = Service::default();
    let deny = Overrides { verdict: Some(Verdict::Deny), ..Overrides::default() };
    service.ask_as(0, 200, 1, &[], &[resource("b", 1000, 1, 1)], &deny);
    assert!(service.take(1, resource("b", 1000, 1, 1)));
}

#[test]
fn a_forced_deny_of_guards_alone_fails_the_first_guard() {
    let mut service = Service::default();
    let deny = Overrides { verdict: Some(Verdict::Deny), ..Overrides::default() };
    let answer = service.ask_as(0, 200, 1, &[guard(settings(1000, 4, 1), 50)], &[], &deny);
    assert_eq!((answer.verdict(), answer.guards[0].current_latency_ms), (Verdict::Deny, 50));
}

#[test]
fn a_forced_allow_over_an_empty_bucket_consumes_nothing_more() {
    let mut service = Service::default();
    let allow = Overrides { verdict: Some(Verdict::Allow), ..Overrides::default() };
    assert!(service.take(0, resource("b", 1000, 1, 1)));
    assert!(service.ask_as(1, 200, 1, &[], &[resource("b", 1000, 1, 1)], &allow).is_allow());
    let next = service.ask(2, &[], &[resource("b", 1000, 1, 1)]);
    assert_eq!(next.resources[0].actual_rate, 1);
}

#[test]
fn forced_latency_and_deficit_reach_their_entry_only() {
    let mut service = Service::default();
    let two = [guard(settings(1000, 4, 1), 50), guard(settings(1000, 4, 1), 500)];
    let overrides =
        Overrides { latencies: [(1, 70)].into(), deficits: [(0, 9)].into(), ..Overrides::default() };
    let answer = service.ask_as(0, 200, 1, &two, &[resource("b", 1000, 1, 1)], &overrides);
    assert_eq!(answer.guards.iter().map(|g| g.current_latency_ms).collect::<Vec<_>>(), [0, 70]);
    assert_eq!((answer.resources[0].deficit, answer.verdict()), (9, Verdict::Deny));
}

#[test]
fn a_tracker_tells_the_smallest_sample_until_it_expires() {
    let mut service = Service::default();
    let tracked = settings(100, 4, 1);
    service.report(0, tracked, 20);
    service.report(50, tracked, 30);
    assert_eq!(service.latency(99, tracked), 20);
    assert_eq!(service.latency(100, tracked), 30);
    assert_eq!(service.latency(150, tracked), 0);
}

#[test]
fn too_few_samples_are_no_latency() {
    let mut service = Service::default();
    let tracked = settings(1000, 4, 2);
    service.report(0, tracked, 20);
    assert_eq!(service.latency(1, tracked), 0);
    service.report(2, tracked, 40);
    assert_eq!(service.latency(3, tracked), 20);
}

#[test]
fn a_tracker_keeps_the_newest_samples_only() {
    let mut service = Service::default();
    let tracked = settings(1000, 2, 1);
    [10, 20, 30].into_iter().for_each(|latency_ms| service.report(0, tracked, latency_ms));
    assert_eq!(service.latency(1, tracked), 20);
}

#[test]
fn the_keys_buffer_bounds_a_tracker() {
    let mut service = Service::default();
    let tracked = settings(1000, 100, 1);
    [1, 2, 3, 4, 5, 6].into_iter().for_each(|latency_ms| service.report(0, tracked, latency_ms));
    assert_eq!(service.latency(1, tracked), 3, "the service keeps 4 samples");
}

#[test]
fn a_guard_passes_strictly_below_its_threshold() {
    let mut service = Service::default();
    let tracked = settings(1000, 4, 1);
    service.report(0, tracked, 50);
    assert!(!service.ask(1, &[guard(tracked, 50)], &[]).is_allow());
    assert!(service.ask(1, &[guard(tracked, 51)], &[]).is_allow());
}

#[test]
fn sweeping_forgets_what_has_expired() {
    let mut service = Service::default();
    service.take(0, resource("b", 100, 1, 1));
    service.report(0, settings(100, 4, 1), 5);
    service.limiter.arrive(5000, 1, KEY, RequestId([250; 16]), TTL_MS);
    let debug = format!("{:?}", service.limiter);
    assert!(debug.contains("buckets: Buckets({})") && debug.contains("trackers: Trackers({})"), "{debug}");
}

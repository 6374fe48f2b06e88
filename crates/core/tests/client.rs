//! What the module relies on: keys, single completions, refusals at the start, cancelling, reports, the ids and
//! bytes on the wire. Rounds, answers and discovery have files of their own.

mod sim;

use ratelimitly_core::client::{Ask, Completion, Failure, Outcome, SendResult, StartError};
use ratelimitly_core::id::{BucketId, ServerId};
use ratelimitly_core::key::KeyKind;
use ratelimitly_core::policy::Policy;
use ratelimitly_core::time::Millis;
use ratelimitly_core::wire::{EncodeError, Pdu};
use sim::material::{endpoint, key_of, observation, resource};
use sim::server::{Reply, Server};
use sim::{Sim, WALL};
use std::collections::HashSet;

fn standard() -> Policy {
    Policy::standard(20).unwrap()
}

#[test]
fn k03_valid_reply_completes_once_with_the_same_key_and_counts() {
    let mut sim = Sim::new(standard(), vec![Server::once(7, Reply::allow(3))]);
    let key = sim.try_start(2, 3).unwrap();
    sim.run(500);
    let receipt = &sim.servers[0].receipts[0];
    assert_eq!((receipt.guards.len(), receipt.resources.len()), (2, 3));
    let expected = Completion {
        key,
        outcome: Outcome::Allow,
        server: Some(ServerId(7)),
        waited_ms: 3,
        members: 1,
        answered: 1,
        round: 0,
    };
    assert_eq!(sim.only(), expected);
}

#[test]
fn k04_duplicate_late_reply_is_ignored() {
    let mut sim = Sim::new(standard(), vec![Server::once(7, Reply::allow(3))]);
    sim.start();
    sim.run(3);
    let late = sim.answer(7, &Reply::deny(0));
    let dropped = sim.client.counters().received.dropped();
    sim.receive(late);
    sim.run(500);
    assert_eq!(sim.outcome(), Outcome::Allow);
    assert_eq!(sim.client.counters().received.dropped(), dropped + 1);
}

#[test]
fn k05_guard_only_request_completes() {
    let mut sim = Sim::new(standard(), vec![Server::once(7, Reply::deny(1))]);
    sim.try_start(1, 0).unwrap();
    sim.run(1);
    assert_eq!(sim.outcome(), Outcome::Deny);
    let receipt = &sim.servers[0].receipts[0];
    assert_eq!((receipt.guards.len(), receipt.resources.len()), (1, 0));
}

#[test]
fn k06_send_error_on_start_ends_the_admission_at_once() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    sim.unreachable.insert(endpoint(7, 0));
    sim.start();
    assert_eq!(sim.outcome(), Outcome::Failed(Failure::Send));
    assert_eq!(sim.only().waited_ms, 0);
    assert_eq!(sim.client.in_flight(), 0);
    sim.run(500);
    assert_eq!(sim.done.len(), 1);
}

#[test]
fn k08_cancel_then_late_reply_completes_nothing() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let key = sim.start();
    let late = sim.answer(7, &Reply::allow(0).rebind());
    sim.cancel(key);
    assert_eq!(sim.client.in_flight(), 0);
    sim.receive(late);
    sim.client.handle_timeout(sim.now + 1_000, key);
    sim.run(500);
    assert!(sim.done.is_empty());
    assert!(!sim.client.rebind_pending());
}

#[test]
fn cancelled_between_receipt_and_judging_is_not_judged() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let key = sim.start();
    let mut answer = sim.answer(7, &Reply::allow(0));
    sim.client.handle_datagram(&mut answer);
    sim.cancel(key);
    sim.client.finish_batch(sim.now);
    sim.drain();
    assert!(sim.done.is_empty());
    assert_eq!(sim.client.in_flight(), 0);
}

#[test]
fn cancel_between_receipt_and_judging_leaves_the_reused_slot_alone() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let key = sim.start();
    let mut answer = sim.answer(7, &Reply::allow(0));
    sim.client.handle_datagram(&mut answer);
    sim.cancel(key);
    let second = sim.start();
    assert_eq!(second.slot, key.slot);
    sim.client.finish_batch(sim.now);
    sim.drain();
    assert!(sim.done.is_empty());
    assert_eq!(sim.client.in_flight(), 1);
}

#[test]
fn cancel_takes_unsent_transmits_and_an_unread_completion_with_it() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let first = start_undrained(&mut sim);
    let second = start_undrained(&mut sim);
    assert_eq!(sim.client.transmits(sim.now, usize::MAX).count(), 2);
    sim.client.cancel(first);
    assert_eq!(sim.client.transmits(sim.now, usize::MAX).count(), 1);
    sim.client.handle_sent(sim.now, &[SendResult::Failed]);
    sim.client.cancel(second);
    assert_eq!(sim.client.poll_completion(), None);
}

fn start_undrained(sim: &mut Sim) -> ratelimitly_core::client::AdmissionKey {
    let (now, wall) = (sim.now, sim.wall());
    sim.client.start(now, wall, &Ask { guards: &[], resources: &[resource(1)], label: b"" }).unwrap()
}

#[test]
fn k09_client_with_a_request_in_flight_can_be_dropped() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    sim.start();
    let Sim { client, done, .. } = sim;
    drop(client);
    assert!(done.is_empty());
}

#[test]
fn cancelled_or_foreign_keys_are_ignored() {
    let mut sim = Sim::new(standard(), vec![Server::once(7, Reply::allow(5))]);
    let ended = sim.start();
    sim.run(5);
    let live = sim.start();
    assert_eq!(ended.slot, live.slot);
    sim.client.cancel(ended);
    sim.client.handle_timeout(sim.now + 10_000, ended);
    assert_eq!(sim.client.in_flight(), 1);
    let foreign = ratelimitly_core::client::AdmissionKey { slot: 99, generation: 1 };
    sim.client.cancel(foreign);
    sim.client.handle_timeout(sim.now, foreign);
    assert_eq!(sim.client.in_flight(), 1);
}

#[test]
fn slots_stay_below_the_most_admissions_in_flight() {
    let mut sim = Sim::new(standard(), vec![Server::always(7, Reply::allow(1))]);
    let mut slots = HashSet::new();
    for _ in 0..50 {
        slots.extend((0..4).map(|_| sim.start().slot));
        sim.run(1);
    }
    assert_eq!(sim.done.len(), 200);
    assert_eq!(slots, HashSet::from([0, 1, 2, 3]));
}

#[test]
fn window_above_the_keys_quota_is_refused_before_anything_happens() {
    let mut sim = Sim::cold(standard(), vec![Server::silent(7)]);
    let mut wide = resource(1);
    wide.window_size_ms = 65_537;
    let refused = sim.start_ask(1, &Ask { guards: &[], resources: &[resource(1), wide], label: b"" });
    assert_eq!(refused, Err(StartError::WindowAboveQuota { resource: 1, window_ms: 65_537, max_ms: 65_536 }));
    assert!(sim.discoveries.is_empty());
    assert_eq!(sim.client.in_flight(), 0);
    wide.window_size_ms = 65_536;
    assert!(sim.start_ask(1, &Ask { guards: &[], resources: &[wide], label: b"" }).is_ok());
}

#[test]
fn request_that_does_not_fit_is_refused_and_leaves_nothing_behind() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    assert!(matches!(sim.try_start(0, 40), Err(StartError::Encode(EncodeError::TooLarge(_)))));
    let label = [b'x'; 257];
    let long = Ask { guards: &[], resources: &[resource(1)], label: &label };
    assert_eq!(sim.start_ask(1, &long), Err(StartError::Encode(EncodeError::LabelTooLong(257))));
    assert!(sim.sent.is_empty());
    assert_eq!(sim.client.in_flight(), 0);
    assert!(sim.try_start(0, 39).is_ok());
}

#[test]
fn label_ttl_timestamp_and_steering_go_on_the_wire() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    sim.start_ask(1, &Ask { guards: &[], resources: &[resource(1)], label: b"checkout" }).unwrap();
    let sent = sim.sent[0].clone();
    assert_eq!((sent.timestamp_ms, sent.steering_feedback), (WALL + 1_000, 0));
    let mut bytes = sent.bytes;
    let (tenant, Pdu::RateRequest(request)) = sim.auth.open(&mut bytes).unwrap() else { panic!("a request") };
    assert_eq!(tenant.key_or_server_id, 4242);
    assert_eq!(request.label, Some(&b"checkout"[..]));
    assert_eq!(request.dedup_ttl_ms, 60);
}

#[test]
fn request_ids_are_version_4_uuids_and_never_repeat_nor_do_nonces() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    for _ in 0..1_000 {
        sim.start();
    }
    let ids: HashSet<_> = sim.sent.iter().map(|sent| sent.request_id).collect();
    let nonces: HashSet<_> = sim.sent.iter().map(|sent| sent.bytes[44..56].to_vec()).collect();
    assert_eq!((ids.len(), nonces.len()), (1_000, 1_000));
    assert!(ids.iter().all(|id| id.0[6] >> 4 == 4 && id.0[8] >> 6 == 0b10));
}

#[test]
fn x10_latency_report_goes_once_to_every_endpoint() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7).with_endpoints(2), Server::silent(8)]);
    sim.client.report(sim.now, sim.wall(), &observation()).unwrap();
    sim.drain();
    sim.client.report(sim.now, sim.wall(), &observation()).unwrap();
    sim.drain();
    sim.run(5_000);
    let to: Vec<_> = sim.sent.iter().map(|sent| sent.to).collect();
    let each = [endpoint(7, 0), endpoint(7, 1), endpoint(8, 0)];
    assert_eq!(to, [each, each].concat());
    assert_eq!(sim.sent[0].request_id, sim.sent[2].request_id);
    assert_ne!(sim.sent[0].request_id, sim.sent[3].request_id);
    let mut bytes = sim.sent[0].bytes.clone();
    let (_, Pdu::Report(report)) = sim.auth.open(&mut bytes).unwrap() else { panic!("a report") };
    assert_eq!(report.observations().collect::<Vec<_>>(), [observation()]);
    assert!(sim.done.is_empty());
    assert_eq!(sim.client.in_flight(), 0);
}

#[test]
fn report_send_errors_are_counted_and_change_nothing() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    sim.unreachable.insert(endpoint(7, 0));
    sim.client.report(sim.now, sim.wall(), &observation()).unwrap();
    sim.drain();
    assert_eq!(sim.client.counters().send_errors, 1);
    assert!(sim.done.is_empty());
}

#[test]
fn cookie_keys_carry_whole_admissions_too() {
    let key = key_of(KeyKind::Cookie);
    let mut sim = Sim::with_key(&key, standard(), vec![Server::once(7, Reply::allow(1))], 3);
    sim.discover(300);
    sim.start();
    sim.run(1);
    assert_eq!(sim.outcome(), Outcome::Allow);
}

#[test]
fn x20_known_bucket_id() {
    let id = BucketId::new(b"checkout", 1000, 100);
    assert_eq!(id.to_string(), "f5cf3ad8b8406854b596ba3614f16eff");
}

#[test]
fn debug_output_shows_no_secret() {
    let sim = Sim::new(standard(), vec![Server::silent(7)]);
    let shown = format!("{:?}", sim.client);
    assert!(shown.contains("4242"), "{shown}");
    // The secret is 32 bytes of 7.
    assert!(!shown.contains("7, 7") && !shown.contains("0707"), "{shown}");
}

#[test]
fn time_before_the_start_is_no_trouble() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let key = sim.start();
    sim.client.handle_timeout(Millis(0), key);
    assert_eq!(sim.client.in_flight(), 1);
}

#[test]
fn plain_allow_allocates_nothing_once_warm() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    for _ in 0..50 {
        start_undrained(&mut sim);
        sim.drain();
    }
    for _ in 0..100 {
        allocations_of_one_allow(&mut sim);
    }
    for _ in 0..2_000 {
        assert_eq!(allocations_of_one_allow(&mut sim), 0);
    }
}

fn allocations_of_one_allow(sim: &mut Sim) -> u64 {
    sim.sent.clear();
    let started = allocation_counter::measure(|| {
        start_undrained(sim);
    });
    sim.drain();
    let mut answer = sim.answer(7, &Reply::allow(0));
    let judged = allocation_counter::measure(|| {
        sim.client.handle_datagram(&mut answer);
        sim.client.finish_batch(sim.now);
        assert_eq!(sim.client.poll_completion().unwrap().outcome, Outcome::Allow);
    });
    started.count_total + judged.count_total
}

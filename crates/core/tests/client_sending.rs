//! A socket that has no room: what it refuses stays queued within its round, and counts as failed after it.

mod sim;

use ratelimitly_core::client::{AdmissionKey, Completion, Failure, Outcome, SendResult};
use ratelimitly_core::policy::{Policy, Schedule};
use sim::material::{endpoint, observation};
use sim::server::{Reply, Server};
use sim::{BATCH, Sim};

/// Rounds of 20 ms, one replay, a horizon of 60 ms, completion delivery.
fn standard() -> Policy {
    Policy::standard(20).unwrap()
}

/// A world whose socket has no room, in which one admission was started.
fn blocked(policy: Policy, servers: Vec<Server>) -> (Sim, AdmissionKey) {
    let mut sim = Sim::new(policy, servers);
    sim.room = 0;
    let key = sim.start();
    assert!(sim.sent.is_empty());
    (sim, key)
}

fn give_room(sim: &mut Sim) {
    sim.room = usize::MAX;
    sim.drain();
}

#[test]
fn what_finds_no_room_goes_out_once_there_is_room() {
    let (mut sim, _) = blocked(standard(), vec![Server::once(7, Reply::allow(3)), Server::silent(8)]);
    sim.run(10);
    give_room(&mut sim);
    sim.run(500);
    let Completion { outcome, waited_ms, round, .. } = sim.only();
    assert_eq!((outcome, waited_ms, round), (Outcome::Allow, 13, 0));
    assert_eq!(sim.client.counters().send_errors, 0);
}

#[test]
fn what_finds_no_room_keeps_its_place_in_the_queue() {
    let (mut sim, _) = blocked(standard(), vec![Server::silent(7), Server::silent(8), Server::silent(9)]);
    let now = sim.now;
    let results = [SendResult::WouldBlock, SendResult::Sent, SendResult::WouldBlock];
    sim.client.handle_sent(now, &results);
    let left: Vec<_> = sim.client.transmits(now, BATCH).map(|one| one.to).collect();
    assert_eq!(left, [endpoint(7, 0), endpoint(9, 0)]);
    sim.client.handle_sent(now, &[SendResult::WouldBlock, SendResult::Sent]);
    let left: Vec<_> = sim.client.transmits(now, BATCH).map(|one| one.to).collect();
    assert_eq!(left, [endpoint(7, 0)]);
}

#[test]
fn round_0_without_room_until_its_deadline_is_a_failure_to_send() {
    let (mut sim, _) = blocked(standard(), vec![Server::silent(7), Server::silent(8)]);
    sim.run(19);
    assert!(sim.done.is_empty());
    sim.run(1);
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Failed(Failure::Send), 20));
    assert_eq!(sim.client.counters().send_errors, 2);
    give_room(&mut sim);
    assert!(sim.sent.is_empty(), "nothing is sent for an admission that has ended");
}

/// The caller's timer fires before it has tried to send once more.
#[test]
fn a_deadline_itself_ends_an_admission_of_which_nothing_was_sent() {
    let (mut sim, key) = blocked(standard(), vec![Server::silent(7)]);
    let now = sim.now + 20;
    sim.client.handle_timeout(now, key);
    let done = sim.client.poll_completion().expect("an end");
    assert_eq!((done.outcome, done.waited_ms), (Outcome::Failed(Failure::Send), 20));
    assert!(!sim.client.has_transmits());
}

#[test]
fn one_endpoint_without_room_is_one_error_and_gets_the_replay() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::once(8, Reply::deny(1))]);
    sim.room = 1;
    sim.start();
    sim.run(19);
    assert_eq!(sim.sent_to(8), 0);
    sim.room = usize::MAX;
    sim.run(500);
    assert_eq!(sim.client.counters().send_errors, 1);
    assert_eq!((sim.times_to(7), sim.times_to(8)), (vec![1_000, 1_020, 1_021], vec![1_020]));
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Deny, 21));
}

#[test]
fn a_replay_without_room_still_waits_for_answers() {
    let mut sim = Sim::new(standard(), vec![Server::once(7, Reply::allow(45))]);
    sim.start();
    sim.room = 0;
    sim.run(500);
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Allow, 45));
    assert_eq!((sim.sent.len(), sim.client.counters().send_errors), (1, 1));
}

/// The room comes in time for the next round only, and before the late caller has looked at its timers.
#[test]
fn what_is_too_old_is_not_sent_even_if_the_deadline_was_not_judged_yet() {
    let (mut sim, _) = blocked(standard(), vec![Server::silent(7)]);
    sim.now = sim.now + 25;
    give_room(&mut sim);
    assert!(sim.sent.is_empty());
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Failed(Failure::Send), 25));
}

#[test]
fn a_cancelled_admission_leaves_nothing_in_the_queue_of_a_full_socket() {
    let (mut sim, key) = blocked(standard(), vec![Server::silent(7)]);
    sim.cancel(key);
    assert!(!sim.client.has_transmits());
    give_room(&mut sim);
    assert!(sim.sent.is_empty() && sim.done.is_empty());
}

#[test]
fn x19_completion_delivery_that_finds_no_room_is_not_sent_after_the_horizon() {
    for (pause, copies) in [(30, 2), (70, 1)] {
        let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
        sim.start();
        sim.room = 0;
        let answer = sim.answer(7, &Reply::allow(0));
        sim.receive(answer);
        assert_eq!(sim.outcome(), Outcome::Allow);
        sim.run(pause);
        give_room(&mut sim);
        assert_eq!(sim.sent_to(8), copies, "after {pause} ms");
    }
}

#[test]
fn a_decision_takes_back_what_still_waits_for_room() {
    let policy = Policy::custom(20, 1, Schedule::Fixed(1), 1, false).unwrap();
    let mut sim = Sim::new(policy, vec![Server::silent(7), Server::silent(8)]);
    sim.room = 1;
    sim.start();
    let answer = sim.answer(7, &Reply::allow(0));
    sim.receive(answer);
    give_room(&mut sim);
    assert_eq!((sim.outcome(), sim.sent_to(8)), (Outcome::Allow, 0), "without completion delivery");
}

#[test]
fn a_report_waits_one_horizon_for_room() {
    for (pause, sent) in [(59, 1), (60, 0)] {
        let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
        sim.room = 0;
        let (now, wall) = (sim.now, sim.wall());
        sim.client.report(now, wall, &observation()).unwrap();
        sim.drain();
        sim.run(pause);
        give_room(&mut sim);
        assert_eq!((sim.sent.len(), sim.client.has_transmits()), (sent, false), "after {pause} ms");
    }
}

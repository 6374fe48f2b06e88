//! Rounds against a virtual clock: oldest first, replays, final receive, completion delivery, lateness, send errors.

mod sim;

use ratelimitly_core::client::{Failure, Outcome, SendResult};
use ratelimitly_core::id::ServerId;
use ratelimitly_core::policy::{Policy, Schedule};
use ratelimitly_core::time::Millis;
use sim::Sim;
use sim::material::endpoint;
use sim::server::{Fault, Reply, Server};

/// U = 20 ms, H = 60 ms.
fn standard() -> Policy {
    Policy::standard(20).unwrap()
}

fn custom(unit_ms: u32, replays: u16, final_units: u32, completion_delivery: bool) -> Policy {
    Policy::custom(unit_ms, replays, Schedule::Fixed(1), final_units, completion_delivery).unwrap()
}

#[test]
fn x02_one_unreachable_endpoint_does_not_hurt() {
    for which in [0, 1] {
        let mut sim = Sim::new(standard(), vec![Server::always(7, Reply::allow(1)).with_endpoints(2)]);
        sim.unreachable.insert(endpoint(7, which));
        sim.start();
        sim.run(1);
        assert_eq!(sim.outcome(), Outcome::Allow);
        assert_eq!(sim.client.counters().send_errors, 1);
    }
}

#[test]
fn send_failure_is_noticed_after_better_times_too() {
    let mut sim = Sim::new(standard(), vec![Server::always(7, Reply::allow(1))]);
    sim.start();
    sim.run(1);
    sim.unreachable.insert(endpoint(7, 0));
    sim.start();
    assert_eq!(sim.done[1].completion.outcome, Outcome::Failed(Failure::Send));
}

#[test]
fn x03_all_endpoints_unreachable_is_a_send_failure() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7).with_endpoints(2), Server::silent(8)]);
    sim.unreachable.extend([endpoint(7, 0), endpoint(7, 1), endpoint(8, 0)]);
    sim.start();
    assert_eq!(sim.outcome(), Outcome::Failed(Failure::Send));
    assert_eq!((sim.only().server, sim.only().members, sim.only().round), (None, 2, 0));
    assert_eq!(sim.client.counters().send_errors, 3);
}

#[test]
fn send_failure_waits_for_the_last_result_of_the_round() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7).with_endpoints(3)]);
    let (now, wall) = (sim.now, sim.wall());
    let ask =
        ratelimitly_core::client::Ask { guards: &[], resources: &[sim::material::resource(1)], label: b"" };
    sim.client.start(now, wall, &ask).unwrap();
    sim.client.handle_sent(now, &[SendResult::Failed; 2]);
    assert_eq!(sim.client.poll_completion(), None);
    sim.client.handle_sent(now, &[SendResult::Sent]);
    assert_eq!(sim.client.poll_completion(), None);
    assert_eq!(sim.client.in_flight(), 1);
}

#[test]
fn later_round_that_cannot_be_sent_still_waits_for_answers() {
    let mut sim = Sim::new(standard(), vec![Server::once(7, Reply::allow(30))]);
    sim.start();
    sim.unreachable.insert(endpoint(7, 0));
    sim.run(29);
    assert_eq!(sim.client.counters().send_errors, 1);
    assert!(sim.done.is_empty());
    sim.run(1);
    assert_eq!(sim.outcome(), Outcome::Allow);
}

#[test]
fn x04_oldest_server_wins() {
    let servers = vec![Server::always(7, Reply::deny(20)), Server::always(8, Reply::allow(1))];
    let mut sim = Sim::new(Policy::standard(80).unwrap(), servers);
    sim.start();
    sim.run(19);
    assert!(sim.done.is_empty());
    sim.run(1);
    let done = sim.only();
    assert_eq!((done.outcome, done.server, done.waited_ms), (Outcome::Deny, Some(ServerId(7)), 20));
    assert_eq!(done.answered, 2);
    assert_eq!((sim.sent_to(7), sim.sent_to(8)), (1, 1));
}

#[test]
fn x05_fallback_at_the_end_of_round_0_with_completion_delivery() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::always(8, Reply::allow(1))]);
    sim.start();
    sim.run(19);
    assert!(sim.done.is_empty());
    sim.run(1);
    let done = sim.only();
    assert_eq!((done.outcome, done.server, done.round), (Outcome::Allow, Some(ServerId(8)), 0));
    assert_eq!((sim.sent_to(7), sim.sent_to(8)), (2, 1));
    assert!(sim.sent.iter().all(|sent| sent.bytes == sim.sent[0].bytes), "the identical datagram everywhere");
    sim.run(500);
    assert_eq!(sim.sent.len(), 3);
}

#[test]
fn oldest_of_several_young_responders_is_the_candidate() {
    let servers =
        vec![Server::silent(7), Server::always(8, Reply::deny(5)), Server::always(9, Reply::allow(1))];
    let mut sim = Sim::new(standard(), servers);
    sim.start();
    sim.run(20);
    assert_eq!((sim.outcome(), sim.only().server), (Outcome::Deny, Some(ServerId(8))));
}

#[test]
fn whole_batch_is_judged_before_a_verdict_in_round_0() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
    sim.start();
    let (mut young, mut old) = (sim.answer(8, &Reply::allow(0)), sim.answer(7, &Reply::deny(0)));
    sim.client.handle_datagram(&mut young);
    sim.client.handle_datagram(&mut old);
    sim.client.finish_batch(sim.now);
    sim.drain();
    assert_eq!((sim.outcome(), sim.only().answered), (Outcome::Deny, 2));
    assert_eq!(sim.sent.len(), 2, "nobody is silent, so nothing is delivered on completion");
}

#[test]
fn x06_silent_round_0_is_replayed_and_the_first_valid_answer_wins() {
    let servers = vec![Server::late(7, Reply::deny(5)), Server::late(8, Reply::allow(2))];
    let mut sim = Sim::new(standard(), servers);
    sim.start();
    sim.run(500);
    let done = sim.only();
    assert_eq!((done.outcome, done.server), (Outcome::Allow, Some(ServerId(8))));
    assert_eq!((done.waited_ms, done.round, done.answered), (22, 1, 1));
    // Round 0, the replay, and completion delivery to the one that has not answered by then.
    assert_eq!(sim.times_to(7), [1_000, 1_020, 1_022]);
    assert_eq!(sim.times_to(8), [1_000, 1_020]);
    let replays: Vec<bool> = sim.sent.iter().map(|sent| sent.replay).collect();
    assert_eq!(replays, [false, false, true, true, false], "completion delivery is none");
}

#[test]
fn first_answer_of_a_batch_wins_after_round_0() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
    sim.start();
    sim.run(25);
    let (mut young, mut old) = (sim.answer(8, &Reply::allow(0)), sim.answer(7, &Reply::deny(0)));
    sim.client.handle_datagram(&mut young);
    sim.client.handle_datagram(&mut old);
    sim.client.finish_batch(sim.now);
    sim.drain();
    assert_eq!((sim.outcome(), sim.only().server), (Outcome::Allow, Some(ServerId(8))));
    assert_eq!(sim.sent.len(), 4, "both count as answered");
}

#[test]
fn x07_answer_in_the_final_receive_interval() {
    let mut sim = Sim::new(custom(50, 0, 1, true), vec![Server::always(7, Reply::allow(70))]);
    sim.start();
    sim.run(500);
    let done = sim.only();
    assert_eq!((done.outcome, done.waited_ms, done.round), (Outcome::Allow, 70, 1));
    assert_eq!(sim.sent.len(), 1);
}

#[test]
fn x08_malformed_answer_then_a_good_one_after_the_replay() {
    let server = Server::new(7, |nth, _| match nth {
        0 => vec![Reply::allow(1).with(Fault::Truncated)],
        _ => vec![Reply::allow(1)],
    });
    let mut sim = Sim::new(standard(), vec![server]);
    sim.start();
    sim.run(500);
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Allow, 21));
    assert_eq!(sim.sent.len(), 2);
    assert_eq!(sim.client.counters().received.dropped(), 1);
}

#[test]
fn x09_silent_horizon_is_a_timeout() {
    let mut sim = Sim::new(Policy::single_round(20).unwrap(), vec![Server::silent(7)]);
    sim.start();
    sim.run(19);
    assert!(sim.done.is_empty());
    sim.run(1);
    let done = sim.only();
    assert_eq!((done.outcome, done.server, done.round), (Outcome::Failed(Failure::Timeout), None, 0));
    assert_eq!(sim.sent.len(), 1);
}

#[test]
fn k07_replay_at_u_receive_only_at_2u_timeout_at_3u() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let key = sim.start();
    let mut deadlines = vec![sim.timers[&key].0.0];
    for _ in 0..2 {
        sim.run_until(sim.timers[&key].0);
        deadlines.push(sim.timers[&key].0.0);
    }
    assert_eq!(deadlines, [1_020, 1_040, 1_060]);
    assert_eq!(sim.times_to(7), [1_000, 1_020]);
    sim.run_until(Millis(1_059));
    assert!(sim.done.is_empty());
    sim.run(1_000);
    let done = sim.only();
    assert_eq!((done.outcome, done.server), (Outcome::Failed(Failure::Timeout), None));
    assert_eq!((done.waited_ms, done.round, sim.sent.len()), (60, 2, 2));
}

#[test]
fn l11_timeout_handled_early_changes_nothing() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let key = sim.start();
    sim.client.handle_timeout(sim.now + 19, key);
    assert_eq!(sim.client.transmits(sim.now, usize::MAX).count(), 0);
    // A caller whose timer fired too soon is told the same deadline again.
    assert_eq!(sim.client.poll_deadline(), Some((key, Millis(1_020))));
    assert_eq!(sim.client.poll_deadline(), None);
    sim.run(60);
    assert_eq!(sim.times_to(7), [1_000, 1_020]);
}

#[test]
fn late_timeout_goes_on_with_the_round_that_the_time_is_in() {
    let mut sim = Sim::new(custom(10, 4, 1, true), vec![Server::silent(7)]);
    let key = sim.start();
    sim.now = Millis(1_025);
    sim.client.handle_timeout(sim.now, key);
    sim.drain();
    assert_eq!(sim.times_to(7), [1_000, 1_025], "rounds 1 and 2 are not sent in a burst");
    assert_eq!(sim.timers[&key].0, Millis(1_030), "later rounds keep their places");
    sim.run(500);
    assert_eq!(sim.times_to(7), [1_000, 1_025, 1_030, 1_040]);
    assert_eq!(sim.only().waited_ms, 60);
}

#[test]
fn timeout_later_than_the_horizon_ends_the_admission_and_sends_nothing() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let key = sim.start();
    sim.now = Millis(1_400);
    sim.client.handle_timeout(sim.now, key);
    sim.drain();
    assert_eq!(sim.outcome(), Outcome::Failed(Failure::Timeout));
    assert_eq!(sim.sent.len(), 1);
}

#[test]
fn growing_gaps_move_the_deadlines() {
    let schedule = Schedule::Exponential { initial: 1, factor: 2, maximum: 3 };
    let policy = Policy::custom(10, 3, schedule, 2, false).unwrap();
    let mut sim = Sim::new(policy, vec![Server::silent(7)]);
    sim.start();
    sim.run(1_000);
    assert_eq!(sim.times_to(7), [1_000, 1_010, 1_030, 1_060]);
    assert_eq!((sim.only().waited_ms, sim.only().round), (110, 4));
}

#[test]
fn x19_no_completion_delivery_at_or_after_the_horizon() {
    // No replay, no final interval: the candidate decides exactly at H.
    let servers = || vec![Server::silent(7), Server::always(8, Reply::allow(1))];
    let mut sim = Sim::new(custom(20, 0, 0, true), servers());
    sim.start();
    sim.run(500);
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Allow, 20));
    assert_eq!(sim.sent.len(), 2);
    // A late caller: round 0 ends at 20 ms, but its timeout is handled after H.
    let mut sim = Sim::new(standard(), servers());
    let key = sim.start();
    let mut answer = sim.answer(8, &Reply::allow(0));
    sim.client.handle_datagram(&mut answer);
    sim.now = Millis(1_060);
    sim.client.handle_timeout(sim.now, key);
    sim.drain();
    assert_eq!((sim.outcome(), sim.sent.len()), (Outcome::Allow, 2));
}

#[test]
fn completion_delivery_that_is_off_sends_nothing() {
    let mut sim =
        Sim::new(custom(20, 1, 1, false), vec![Server::silent(7), Server::always(8, Reply::allow(1))]);
    sim.start();
    sim.run(500);
    assert_eq!((sim.outcome(), sim.sent.len()), (Outcome::Allow, 2));
}

#[test]
fn completion_delivery_is_queued_before_the_completion_and_its_errors_change_nothing() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
    sim.start();
    let datagram = sim.sent[0].bytes.clone();
    let mut answer = sim.answer(7, &Reply::allow(0));
    sim.client.handle_datagram(&mut answer);
    sim.client.finish_batch(sim.now);
    let queued: Vec<_> =
        sim.client.transmits(sim.now, usize::MAX).map(|one| (one.to, one.bytes.to_vec())).collect();
    assert_eq!(queued, [(endpoint(8, 0), datagram.clone())]);
    let done = sim.client.poll_completion().unwrap();
    assert_eq!(done.outcome, Outcome::Allow);
    // Another admission takes the slot, and the old one's bytes still are what goes out.
    let (now, wall) = (sim.now, sim.wall());
    let ask =
        ratelimitly_core::client::Ask { guards: &[], resources: &[sim::material::resource(9)], label: b"" };
    let key = sim.client.start(now, wall, &ask).unwrap();
    assert_eq!(key.slot, done.key.slot);
    assert_eq!(sim.client.transmits(sim.now, usize::MAX).next().unwrap().bytes, datagram);
    sim.client.handle_sent(sim.now, &[SendResult::Failed]);
    assert_eq!(sim.client.poll_completion(), None);
    assert_eq!(sim.client.counters().send_errors, 1);
}

#[test]
fn member_with_several_addresses_is_one_member() {
    let mut sim =
        Sim::new(standard(), vec![Server::silent(7), Server::late(8, Reply::allow(1)).with_endpoints(2)]);
    sim.start();
    sim.run(500);
    // Its second address is its second receipt, which it answers already in round 0.
    let done = sim.only();
    assert_eq!((done.members, done.answered, done.waited_ms), (2, 1, 20));
    let to: Vec<_> = sim.sent.iter().map(|sent| sent.to).collect();
    assert_eq!(to, [endpoint(7, 0), endpoint(8, 0), endpoint(8, 1), endpoint(7, 0)]);
}

#[test]
fn more_than_64_members_are_all_asked_and_told_apart() {
    let mut servers: Vec<Server> = (1..=150).map(Server::silent).collect();
    servers[99] = Server::once(100, Reply::deny(3));
    servers[148] = Server::once(149, Reply::allow(1));
    let mut sim = Sim::new(standard(), servers);
    sim.start();
    sim.run(20);
    let done = sim.only();
    assert_eq!((done.outcome, done.server), (Outcome::Deny, Some(ServerId(100))));
    assert_eq!((done.members, done.answered), (150, 2));
    assert_eq!(sim.sent.len(), 150 + 148);
    // The slot is reused: the old answers are forgotten.
    let before = sim.sent.len();
    sim.start();
    sim.run(500);
    assert_eq!(sim.sent.len(), before + 300);
    assert_eq!(sim.done[1].completion.answered, 0);
}

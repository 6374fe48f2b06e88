//! Discovery from the client's side: when a lookup is due, waiting for the first one, snapshots, refresh.

mod sim;

use ratelimitly_core::client::{Ask, Failure, Outcome, StartError};
use ratelimitly_core::id::ServerId;
use ratelimitly_core::policy::{Policy, Schedule};
use ratelimitly_core::time::Millis;
use sim::material::{observation, resource};
use sim::server::{Fault, Reply, Server};
use sim::{Sim, WALL};

/// U = 20 ms, H = 60 ms.
fn standard() -> Policy {
    Policy::standard(20).unwrap()
}

fn cold() -> Sim {
    Sim::cold(standard(), vec![Server::always(7, Reply::allow(1)), Server::silent(8)])
}

#[test]
fn x01_discovered_servers_are_asked_and_the_answering_one_is_named() {
    let mut sim = cold();
    sim.discover(300);
    sim.start();
    sim.run(1);
    assert_eq!((sim.sent_to(7), sim.sent_to(8)), (1, 2), "the second copy is completion delivery");
    assert_eq!((sim.only().server, sim.only().members), (Some(ServerId(7)), 2));
}

#[test]
fn idle_client_asks_for_nothing() {
    let mut sim = cold();
    sim.run(1_000_000);
    assert!(!sim.client.poll_discovery(sim.now));
}

#[test]
fn c27_first_request_waits_for_the_first_discovery() {
    let mut sim = cold();
    let key = sim.start();
    assert_eq!(sim.discoveries, [Millis(1_000)]);
    assert_eq!(sim.timers[&key].0, Millis(1_060));
    assert_eq!((sim.client.in_flight(), sim.sent.len()), (1, 0));
    sim.run(5);
    sim.discover(300);
    assert_eq!(sim.times_to(7), [1_005]);
    assert_eq!(sim.timers[&key].0, Millis(1_025), "round 0 has its normal length");
    assert_eq!(sim.servers[0].receipts.len(), 0);
    sim.run(1);
    let done = sim.only();
    assert_eq!((done.outcome, done.waited_ms, done.members), (Outcome::Allow, 6, 2));
    assert_eq!(sim.servers[0].receipts[0].dedup_ttl_ms, 60);
    assert_eq!(sim.discoveries.len(), 1);
}

#[test]
fn datagram_of_a_request_that_waited_is_stamped_with_its_start() {
    let mut sim = cold();
    sim.start();
    sim.run(30);
    sim.discover(300);
    assert_eq!(sim.sent[0].timestamp_ms, WALL + 1_000);
}

#[test]
fn c28_no_members_within_the_horizon_is_a_discovery_failure() {
    let mut sim = cold();
    sim.start();
    sim.run(59);
    assert!(sim.done.is_empty());
    sim.run(1);
    let done = sim.only();
    assert_eq!((done.outcome, done.waited_ms), (Outcome::Failed(Failure::Discovery), 60));
    assert_eq!((done.members, done.round), (0, 0));
    // The lookup is still the first one and still under way: the next request waits again.
    sim.start();
    assert_eq!((sim.client.in_flight(), sim.discoveries.len()), (1, 1));
}

#[test]
fn cold_deadlines_are_cut_at_the_horizon() {
    let mut sim = Sim::cold(standard(), vec![Server::silent(7)]);
    let key = sim.start();
    sim.run(25);
    sim.discover(300);
    assert_eq!(sim.timers[&key].0, Millis(1_045));
    sim.run(20);
    assert_eq!(sim.timers[&key].0, Millis(1_060), "not 1065");
    sim.run(500);
    assert_eq!(sim.times_to(7), [1_025, 1_045]);
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Failed(Failure::Timeout), 60));
}

#[test]
fn cold_round_that_would_start_at_the_horizon_does_not() {
    let policy = Policy::custom(20, 5, Schedule::Fixed(1), 1, true).unwrap();
    let mut sim = Sim::cold(policy, vec![Server::silent(7)]);
    sim.start();
    sim.run(100);
    sim.discover(300);
    sim.run(500);
    // H = 140: rounds at 100 and 120, none at 140.
    assert_eq!(sim.times_to(7), [1_100, 1_120]);
    assert_eq!(sim.only().waited_ms, 140);
}

#[test]
fn cold_candidate_held_at_the_horizon_wins_without_completion_delivery() {
    let mut sim = Sim::cold(standard(), vec![Server::silent(7), Server::always(8, Reply::deny(1))]);
    sim.start();
    sim.run(50);
    sim.discover(300);
    sim.run(500);
    let done = sim.only();
    assert_eq!((done.outcome, done.server, done.waited_ms), (Outcome::Deny, Some(ServerId(8)), 60));
    assert_eq!(sim.sent.len(), 2);
}

#[test]
fn cold_wrong_counts_end_as_cardinality() {
    let server = Server::always(7, Reply::allow(1).with(Fault::Short));
    let mut sim = Sim::cold(standard(), vec![server]);
    sim.start();
    sim.run(50);
    sim.discover(300);
    sim.run(500);
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Failed(Failure::Cardinality), 51));
}

#[test]
fn members_that_come_after_the_horizon_are_too_late_for_those_that_waited() {
    let mut sim = cold();
    let key = sim.start();
    // The caller is late: its timeout has not been handled yet.
    sim.now = Millis(1_060);
    sim.discover(300);
    assert_eq!((sim.only().key, sim.outcome()), (key, Outcome::Failed(Failure::Discovery)));
    assert!(sim.sent.is_empty());
}

#[test]
fn failed_first_discovery_fails_all_that_waited_and_nobody_waits_again() {
    let mut sim = cold();
    let keys = [sim.start(), sim.start(), sim.start()];
    assert_eq!((sim.client.in_flight(), sim.discoveries.len()), (3, 1));
    sim.run(7);
    sim.fail_discovery();
    assert_eq!(sim.done.iter().map(|done| done.completion.key).collect::<Vec<_>>(), keys);
    assert!(sim.done.iter().all(|done| done.completion.outcome == Outcome::Failed(Failure::Discovery)));
    assert_eq!(sim.client.in_flight(), 0);
    assert_eq!(sim.try_start(0, 1), Err(StartError::NoMembers));
}

#[test]
fn without_members_at_most_one_attempt_a_second() {
    let mut sim = cold();
    sim.start();
    sim.fail_discovery();
    for _ in 0..400 {
        sim.run(10);
        if sim.try_start(0, 1).is_err() && sim.discoveries.last() == Some(&sim.now) {
            sim.fail_discovery();
        }
    }
    assert_eq!(sim.discoveries, [1_000, 2_000, 3_000, 4_000, 5_000].map(Millis));
}

#[test]
fn discovery_is_asked_for_once_until_its_result() {
    let mut sim = cold();
    for _ in 0..10 {
        sim.start();
        sim.run(5_000);
    }
    assert_eq!(sim.discoveries.len(), 1);
}

#[test]
fn cancelled_while_waiting_is_never_started() {
    let mut sim = cold();
    let cancelled = sim.start();
    let kept = sim.start();
    sim.cancel(cancelled);
    assert_eq!(sim.client.in_flight(), 1);
    sim.discover(300);
    assert_eq!(sim.sent_to(7), 1);
    sim.run(500);
    assert_eq!(sim.only().key, kept);
}

#[test]
fn slot_reused_while_waiting_is_started_once() {
    let mut sim = cold();
    let cancelled = sim.start();
    sim.cancel(cancelled);
    let kept = sim.start();
    assert_eq!(kept.slot, cancelled.slot);
    sim.discover(300);
    assert_eq!(sim.sent_to(7), 1);
}

#[test]
fn k10_client_can_be_dropped_with_discovery_pending_and_requests_waiting() {
    let mut sim = cold();
    sim.start();
    sim.start();
    let Sim { client, done, .. } = sim;
    drop(client);
    assert!(done.is_empty());
}

#[test]
fn cold_send_failure_of_round_0_ends_the_admission() {
    let mut sim = Sim::cold(standard(), vec![Server::silent(7)]);
    sim.unreachable.insert(sim::material::endpoint(7, 0));
    sim.start();
    sim.run(10);
    sim.discover(300);
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Failed(Failure::Send), 10));
}

#[test]
fn g14_report_never_waits_but_makes_a_discovery_due() {
    let mut sim = cold();
    let result = sim.client.report(sim.now, sim.wall(), &observation());
    assert_eq!(result, Err(StartError::NoMembers));
    sim.drain();
    assert_eq!((sim.discoveries.len(), sim.sent.len()), (1, 0));
    // That lookup is the first one: a request waits for it.
    sim.start();
    assert_eq!(sim.client.in_flight(), 1);
}

#[test]
fn x18_running_request_keeps_its_members() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
    let key = sim.start();
    let first = sim.sent[0].clone();
    sim.servers = vec![Server::silent(9)];
    sim.discover(300);
    sim.run(20);
    assert_eq!((sim.sent_to(7), sim.sent_to(8), sim.sent_to(9)), (2, 2, 0));
    let foreign = sim.answer_to(&first, 9, &Reply::allow(0));
    sim.receive(foreign);
    assert!(sim.done.is_empty());
    let known = sim.answer_to(&first, 8, &Reply::deny(0));
    sim.receive(known);
    assert_eq!((sim.only().key, sim.only().server), (key, Some(ServerId(8))));
    sim.start();
    assert_eq!(sim.sent_to(9), 1);
}

/// Times of the lookups that requests every 100 ms cause within `ms`, each ended at once by `end`.
fn lookups(ms: u64, mut end: impl FnMut(&mut Sim)) -> Vec<u64> {
    let mut sim = Sim::cold(Policy::single_round(20).unwrap(), vec![Server::silent(7)]);
    end(&mut sim);
    let last = sim.now + ms;
    while sim.now < last {
        sim.run(100);
        sim.start();
        if sim.discoveries.last() == Some(&sim.now) {
            end(&mut sim);
        }
    }
    sim.discoveries.iter().map(|at| at.0).collect()
}

fn refreshes(ttl_s: u32, ms: u64) -> Vec<u64> {
    lookups(ms, |sim| sim.discover(ttl_s))
}

#[test]
fn partial_discovery_is_repeated_after_5_s_and_then_after_twice_as_long_each_time() {
    let times = lookups(700_000, |sim| sim.discover_partly(3_600));
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(times[0], 6_100);
    assert_eq!(gaps, [10_100, 20_100, 40_100, 80_100, 160_100, 300_100]);
}

#[test]
fn partial_discovery_is_not_repeated_later_than_the_ttl_says() {
    assert_eq!(lookups(26_000, |sim| sim.discover_partly(8)), [6_100, 14_200, 22_300]);
    assert_eq!(lookups(3_000, |sim| sim.discover_partly(1)), refreshes(1, 3_000));
}

#[test]
fn whole_discovery_ends_the_streak_of_partial_ones() {
    let mut ended = 0;
    let times = lookups(40_000, |sim| {
        ended += 1;
        if ended == 3 { sim.discover(10) } else { sim.discover_partly(300) }
    });
    assert_eq!(times, [6_100, 16_200, 26_300, 31_400]);
}

#[test]
fn members_of_a_discovery_that_goes_on_are_used_at_once() {
    let mut sim = cold();
    let waiting = sim.start();
    sim.run(5);
    sim.usable_only(&[7]);
    assert_eq!((sim.sent_to(7), sim.sent_to(8)), (1, 0));
    sim.run(1);
    assert_eq!((sim.only().key, sim.outcome(), sim.only().members), (waiting, Outcome::Allow, 1));

    sim.usable_only(&[7, 8]);
    sim.start();
    assert_eq!((sim.sent_to(7), sim.sent_to(8)), (2, 1));
    assert_eq!(sim.discoveries.len(), 1, "the discovery is still under way");
}

#[test]
fn discovery_that_fails_after_it_gave_members_leaves_them_and_is_repeated_after_a_second() {
    let mut sim = cold();
    sim.start();
    sim.usable_only(&[7]);
    sim.run(10);
    sim.fail_discovery();
    sim.run(900);
    sim.start();
    assert_eq!((sim.sent_to(7) > 0, sim.discoveries.len()), (true, 1));
    sim.run(100);
    sim.start();
    assert_eq!(sim.discoveries.len(), 2);
}

#[test]
fn refresh_follows_the_ttl() {
    assert_eq!(refreshes(5, 11_000), [6_100, 11_200]);
}

#[test]
fn ttl_of_0_counts_as_1_second() {
    assert_eq!(refreshes(0, 3_000), [2_100, 3_200]);
    assert_eq!(refreshes(0, 3_000), refreshes(1, 3_000));
}

#[test]
fn refresh_comes_after_300_seconds_at_the_latest() {
    assert_eq!(refreshes(4_000_000_000, 301_000), [301_100]);
    assert_eq!(refreshes(300, 301_000), [301_100]);
}

#[test]
fn refresh_runs_behind_the_request_with_the_old_members() {
    let mut sim = Sim::cold(standard(), vec![Server::always(7, Reply::allow(1))]);
    sim.discover(1);
    sim.run(1_001);
    sim.start();
    assert_eq!((sim.discoveries.len(), sim.sent.len()), (1, 1));
    sim.run(1);
    assert_eq!(sim.outcome(), Outcome::Allow);
    // Still under way: nothing more is asked for, and requests go on.
    sim.run(5_000);
    sim.start();
    assert_eq!((sim.discoveries.len(), sim.sent.len()), (1, 2));
}

#[test]
fn report_starts_a_refresh_too() {
    let mut sim = Sim::cold(standard(), vec![Server::silent(7)]);
    sim.discover(1);
    sim.run(1_001);
    sim.client.report(sim.now, sim.wall(), &observation()).unwrap();
    sim.drain();
    assert_eq!((sim.discoveries.len(), sim.sent.len()), (1, 1));
}

#[test]
fn failed_refresh_keeps_the_members_and_is_tried_again_after_a_second() {
    let mut sim = Sim::cold(standard(), vec![Server::always(7, Reply::allow(0))]);
    sim.discover(1);
    for _ in 0..40 {
        sim.run(100);
        sim.start();
        if sim.discoveries.last() == Some(&sim.now) {
            sim.fail_discovery();
        }
    }
    assert_eq!(sim.discoveries, [2_100, 3_100, 4_100].map(Millis));
    assert_eq!(sim.sent_to(7), 40);
}

#[test]
fn later_discovery_ends_the_outage() {
    let mut sim = cold();
    sim.start();
    sim.fail_discovery();
    sim.run(1_000);
    assert_eq!(sim.try_start(0, 1), Err(StartError::NoMembers));
    assert_eq!(sim.discoveries.len(), 2);
    sim.run(30);
    sim.discover(300);
    sim.start();
    sim.run(1);
    assert_eq!(sim.done.last().unwrap().completion.outcome, Outcome::Allow);
}

#[test]
fn waiting_request_that_does_not_fit_is_refused_at_its_start() {
    let mut sim = cold();
    let label = [b'x'; 257];
    let refused = sim.start_ask(1, &Ask { guards: &[], resources: &[resource(1)], label: &label });
    assert!(matches!(refused, Err(StartError::Encode(_))));
    assert_eq!(sim.client.in_flight(), 0);
}

/// Another worker found the members at 1,000 ms, for 30 s.
fn handed_on() -> Sim {
    let mut sim = cold();
    let membership = sim.membership();
    sim.client.handle_handed_on(sim.now, Millis(1_000), 30_000, membership);
    sim
}

#[test]
fn members_of_another_worker_are_asked_at_once() {
    let mut sim = handed_on();
    sim.start();
    sim.run(1);
    assert_eq!((sim.only().server, sim.discoveries.len()), (Some(ServerId(7)), 0));
}

#[test]
fn members_of_another_worker_that_are_over_are_asked_and_looked_up_again() {
    let mut sim = handed_on();
    sim.run_until(Millis(31_001));
    sim.start();
    sim.run(1);
    assert_eq!((sim.only().server, sim.discoveries.len()), (Some(ServerId(7)), 1));
}

#[test]
fn a_client_keeps_the_members_that_it_found_itself() {
    let mut sim = cold();
    sim.discover_only(&[8], 300);
    let membership = sim.membership();
    sim.client.handle_handed_on(sim.now, Millis(1_000), 30_000, membership);
    let (known, ..) = sim.client.known().expect("members");
    assert_eq!(known.members().iter().map(|member| member.id).collect::<Vec<_>>(), [ServerId(8)]);
}

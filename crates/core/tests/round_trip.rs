//! `unit=auto` in simulated worlds: how many questions and failures admissions cost at a distance, and how soon the unit
//! follows a change. All chance is seeded.

mod sim;

use fastrand::Rng;
use ratelimitly_core::client::Outcome;
use ratelimitly_core::id::ServerId;
use ratelimitly_core::policy::{AutoUnit, Policy};
use ratelimitly_core::round_trip::Estimate;
use sim::material::key;
use sim::network::Network;
use sim::server::{Reply, Server};
use sim::{Done, Sim};
use std::cell::Cell;
use std::rc::Rc;

const BOUNDS: AutoUnit = AutoUnit { min_ms: 5, max_ms: 100 };
/// Round trips of the worlds, milliseconds; 0 stands for 0.2, which a clock of milliseconds does not see.
const ROUND_TRIPS: [u64; 6] = [0, 5, 21, 35, 59, 80];

fn standard() -> Policy {
    Policy::standard(20).unwrap().with_auto_unit(BOUNDS).unwrap()
}

fn single_round() -> Policy {
    Policy::single_round(20).unwrap().with_auto_unit(BOUNDS).unwrap()
}

/// A round trip that the test may change.
type Distance = Rc<Cell<u64>>;

/// A server at a distance, whose answers take up to a tenth more or less.
fn server(id: u64, distance: &Distance, jitter: bool) -> Server {
    let (distance, mut chance) = (Rc::clone(distance), Rng::with_seed(id));
    Server::new(id, move |_, _| {
        let round_trip = distance.get();
        let tenth = if jitter { round_trip / 10 } else { 0 };
        vec![Reply::allow(round_trip - tenth + chance.u64(..2 * tenth + 1))]
    })
}

fn world(policy: Policy, distance: &Distance, jitter: bool, seed: u64) -> Sim {
    let mut sim = Sim::with_key(&key(), policy, vec![server(1, distance, jitter)], seed);
    sim.discover(300);
    sim
}

fn at(round_trip: u64) -> Distance {
    Rc::new(Cell::new(round_trip))
}

/// Starts so many admissions, one every `gap` milliseconds, and lets them end.
fn ask(sim: &mut Sim, admissions: usize, gap: u64) {
    for _ in 0..admissions {
        sim.start();
        sim.run(gap);
    }
    sim.run(1_000);
}

fn failures(done: &[Done]) -> usize {
    done.iter().filter(|done| matches!(done.completion.outcome, Outcome::Failed(_))).count()
}

fn questions(sim: &Sim) -> f64 {
    sim.sent.len() as f64 / sim.done.len() as f64
}

#[test]
fn x21_one_question_for_each_admission_at_any_distance_and_no_failure() {
    for round_trip in ROUND_TRIPS {
        for (jitter, seed) in [(false, 1), (true, 2), (true, 3)] {
            let mut sim = world(standard(), &at(round_trip), jitter, seed);
            ask(&mut sim, 2_000, 5);
            let asked = questions(&sim);
            assert!((1.0..=1.03).contains(&asked), "{asked} questions at {round_trip} ms, seed {seed}");
            assert_eq!(failures(&sim.done), 0, "at {round_trip} ms, seed {seed}");
        }
    }
}

#[test]
fn x21_a_single_round_has_no_failure_below_the_longest_unit() {
    for round_trip in ROUND_TRIPS {
        let mut sim = world(single_round(), &at(round_trip), true, 4);
        ask(&mut sim, 1_000, 5);
        assert_eq!((failures(&sim.done), sim.sent.len()), (0, 1_000), "at {round_trip} ms");
    }
}

#[test]
fn x22_loss_costs_no_more_than_twice_its_share_in_questions() {
    for round_trip in ROUND_TRIPS {
        for seed in [5, 6] {
            let mut sim = world(standard(), &at(round_trip), true, seed);
            sim.network = Network { loss_percent: 1, double_percent: 1, delay_ms: 0 };
            ask(&mut sim, 2_000, 5);
            let asked = questions(&sim);
            assert!((1.0..=1.05).contains(&asked), "{asked} questions at {round_trip} ms, seed {seed}");
            // An admission fails where the question or its answer was lost in both rounds.
            assert!(failures(&sim.done) <= 4, "{} at {round_trip} ms", failures(&sim.done));
        }
    }
}

#[test]
fn x26_reordered_answers_are_waited_for() {
    let mut sim = world(standard(), &at(20), false, 7);
    sim.network = Network { loss_percent: 0, double_percent: 20, delay_ms: 10 };
    ask(&mut sim, 2_000, 1);
    let asked = questions(&sim);
    assert!((1.0..=1.03).contains(&asked), "{asked}");
    assert_eq!(failures(&sim.done), 0);
}

#[test]
fn x23_a_step_from_5_to_50_ms_is_followed_within_100_admissions() {
    for policy in [standard(), single_round()] {
        let distance = at(5);
        let mut sim = world(policy, &distance, false, 8);
        ask(&mut sim, 200, 1);
        assert_eq!((sim.client.unit_ms(), failures(&sim.done)), (7, 0));
        distance.set(50);
        for _ in 0..100 {
            sim.start();
            sim.run(1);
        }
        assert!(sim.client.unit_ms() >= 52, "{}", sim.client.unit_ms());
        let before = sim.last_serial();
        ask(&mut sim, 500, 1);
        let later: Vec<Done> = sim.done.iter().filter(|done| done.serial > before).copied().collect();
        assert_eq!((later.len(), failures(&later)), (500, 0));
        let again = sim.sent.iter().filter(|sent| sent.serial > before && sent.replay).count();
        assert_eq!(again, 0, "asked once again each");
    }
}

#[test]
fn a_shorter_way_makes_the_unit_shorter() {
    let distance = at(50);
    let mut sim = world(standard(), &distance, false, 9);
    ask(&mut sim, 200, 5);
    assert_eq!(sim.client.unit_ms(), 52);
    distance.set(2);
    ask(&mut sim, 100, 5);
    assert_eq!(sim.client.unit_ms(), 5, "the lower bound");
}

#[test]
fn x24_an_outage_is_noticed_within_three_units_and_does_not_get_dearer() {
    let up = Rc::new(Cell::new(true));
    let answers = Rc::clone(&up);
    let server = Server::new(1, move |_, _| if answers.get() { vec![Reply::allow(30)] } else { Vec::new() });
    let mut sim = Sim::new(standard(), vec![server]);
    ask(&mut sim, 200, 5);
    let unit = u64::from(sim.client.unit_ms());
    assert_eq!(unit, 32);
    up.set(false);
    let before = sim.done.len();
    ask(&mut sim, 300, 5);
    let outage = &sim.done[before..];
    assert_eq!(failures(outage), 300);
    assert!(outage.iter().all(|done| done.completion.waited_ms == 3 * unit), "{:?}", outage.last());
    assert_eq!(u64::from(sim.client.unit_ms()), unit);
}

#[test]
fn before_the_first_answer_a_question_may_be_answered_as_late_as_the_longest_unit() {
    let mut sim = Sim::new(standard(), vec![Server::silent(1)]);
    ask(&mut sim, 20, 5);
    assert_eq!((failures(&sim.done), sim.client.unit_ms()), (20, 20));
    let longest = sim.done.iter().map(|done| done.completion.waited_ms).max();
    assert_eq!(longest, Some(120), "one replay after 20 ms, and 100 ms for its answer");
}

#[test]
fn an_admission_keeps_its_unit_and_tells_the_server_its_horizon() {
    let distance = at(5);
    let mut sim = world(standard(), &distance, false, 10);
    ask(&mut sim, 200, 5);
    sim.servers[0].receipts.clear();
    distance.set(60);
    let key = sim.start();
    sim.run(1);
    assert_eq!(sim.servers[0].receipts[0].dedup_ttl_ms, 21);
    let deadline = |sim: &Sim| sim.timers.get(&key).map(|(deadline, _)| deadline.since(sim.now));
    assert_eq!(deadline(&sim), Some(6));
    // Another admission's answer changes the unit meanwhile.
    let far = sim.answer(1, &Reply::allow(0));
    sim.run(12);
    sim.start();
    sim.receive(far);
    assert!(sim.client.unit_ms() > 7, "{}", sim.client.unit_ms());
}

#[test]
fn x25_an_answer_after_the_end_teaches_once_and_only_if_it_is_authentic() {
    let mut sim = Sim::new(single_round(), vec![Server::silent(1)]);
    sim.start();
    let answer = sim.answer(1, &Reply::allow(0));
    sim.run(110);
    assert_eq!(failures(&sim.done), 1, "the first horizon is 100 ms");
    let mut forged = answer.clone();
    *forged.last_mut().unwrap() ^= 1;
    sim.receive(forged);
    assert_eq!(sim.client.unit_ms(), 20, "a forgery teaches nothing");
    assert_eq!(sim.client.counters().received.unauthentic, 1);
    sim.receive(answer.clone());
    assert_eq!(sim.client.unit_ms(), 100);
    let learnt: Vec<_> = sim.client.round_trips().collect();
    for _ in 0..20 {
        sim.receive(answer.clone());
    }
    assert_eq!(sim.client.round_trips().collect::<Vec<_>>(), learnt, "a copy teaches nothing");
    assert_eq!(sim.client.counters().received.late, 21);
}

#[test]
fn x25_an_answer_that_comes_later_than_the_longest_unit_after_the_end_is_forgotten() {
    let mut sim = Sim::new(single_round(), vec![Server::silent(1)]);
    sim.start();
    let answer = sim.answer(1, &Reply::allow(0));
    sim.run(100 + 101);
    sim.receive(answer);
    assert_eq!(sim.client.round_trips().next().map(|known| known.estimate), Some(None));
}

#[test]
fn x26_a_stall_of_the_worker_is_no_distance() {
    let mut sim = world(standard(), &at(5), false, 11);
    ask(&mut sim, 200, 5);
    for _ in 0..5 {
        (0..10).for_each(|_| _ = sim.start());
        sim.run(1);
        // Nothing is read and no timer fires for half a second. The answers lie in the socket.
        sim.now = sim.now + 500;
        sim.run(0);
        assert!(sim.client.unit_ms() <= 14, "{}", sim.client.unit_ms());
        ask(&mut sim, 50, 5);
    }
    assert_eq!(failures(&sim.done), 0);
    assert!(sim.client.unit_ms() <= 8, "{}", sim.client.unit_ms());
}

#[test]
fn x26_a_step_of_the_wall_clock_changes_nothing() {
    let mut sim = world(standard(), &at(35), false, 12);
    ask(&mut sim, 100, 5);
    let unit = sim.client.unit_ms();
    sim.clock_step = 3_600_000;
    ask(&mut sim, 100, 5);
    assert_eq!((sim.client.unit_ms(), failures(&sim.done)), (unit.min(37), 0));
}

#[test]
fn the_unit_follows_the_oldest_server_that_answers() {
    let up = Rc::new(Cell::new(true));
    let answers = Rc::clone(&up);
    let oldest = Server::new(1, move |_, _| if answers.get() { vec![Reply::allow(40)] } else { Vec::new() });
    let mut sim = Sim::new(standard(), vec![oldest, Server::always(2, Reply::allow(10))]);
    ask(&mut sim, 200, 5);
    assert_eq!(sim.client.unit_ms(), 42);
    assert!(sim.done.iter().skip(20).all(|done| done.completion.server == Some(ServerId(1))));
    up.set(false);
    ask(&mut sim, 200, 5);
    assert_eq!(sim.client.unit_ms(), 12, "the second server's");
    up.set(true);
    ask(&mut sim, 200, 5);
    assert_eq!(sim.client.unit_ms(), 42, "the oldest one's again");
}

#[test]
fn what_was_measured_of_a_server_outlives_a_change_of_members() {
    let mut sim = Sim::new(standard(), vec![Server::always(1, Reply::allow(30)), Server::silent(2)]);
    ask(&mut sim, 100, 5);
    assert_eq!(sim.client.unit_ms(), 32);
    sim.discover_only(&[1], 300);
    assert_eq!(sim.client.unit_ms(), 32);
    sim.discover_only(&[2], 300);
    assert_eq!(sim.client.unit_ms(), 20, "an unknown server");
}

#[test]
fn a_cold_start_is_no_distance() {
    let mut sim = Sim::cold(standard(), vec![Server::always(1, Reply::allow(10))]);
    sim.start();
    sim.run(80);
    sim.discover(300);
    sim.run(50);
    assert_eq!(failures(&sim.done), 0);
    assert_eq!(sim.client.unit_ms(), 30, "three times the first sample of 10 ms");
}

#[test]
fn what_another_worker_has_measured_is_taken_over_and_own_samples_stay() {
    let mut first = world(standard(), &at(30), false, 13);
    ask(&mut first, 100, 5);
    let measured = first.client.round_trips().next().and_then(|known| known.estimate).expect("measured");

    let mut second = world(standard(), &at(30), false, 14);
    second.client.know_round_trip(ServerId(1), measured);
    assert_eq!(second.client.unit_ms(), 32);
    second.client.know_round_trip(ServerId(9), measured);
    ask(&mut second, 1, 5);
    assert_eq!(second.sent.len(), 1, "asked once from the first admission on");
    second.client.know_round_trip(ServerId(1), Estimate::first(90));
    assert_eq!(second.client.unit_ms(), 32, "its own samples stay");
}

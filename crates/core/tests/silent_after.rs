//! `silent_after=`: a server that leaves admissions unanswered, which others answer, is still asked and no longer waited for.

mod sim;

use ratelimitly_core::client::{Outcome, Silencing};
use ratelimitly_core::id::ServerId;
use ratelimitly_core::policy::{AutoUnit, Policy};
use sim::server::{Reply, Server};
use sim::{Done, Sim};
use std::cell::Cell;
use std::rc::Rc;

const UNIT: u64 = 20;
const AFTER: u64 = 5;

fn policy() -> Policy {
    Policy::standard(UNIT as u32).unwrap().with_silent_after(AFTER as u32)
}

/// A server that answers after 1 ms while it is up.
fn server(id: u64, up: &Rc<Cell<bool>>, reply: Reply) -> Server {
    let up = Rc::clone(up);
    Server::new(id, move |_, _| if up.get() { vec![reply] } else { Vec::new() })
}

fn switch() -> Rc<Cell<bool>> {
    Rc::new(Cell::new(true))
}

/// Admissions one after the other, each started at the end of the last one.
fn ask(sim: &mut Sim, admissions: usize) -> Vec<Done> {
    let before = sim.done.len();
    for _ in 0..admissions {
        let started = sim.start();
        while sim.timers.contains_key(&started) {
            sim.run(1);
        }
    }
    sim.done[before..].to_vec()
}

fn waits(done: &[Done]) -> Vec<u64> {
    done.iter().map(|done| done.completion.waited_ms).collect()
}

fn silencings(sim: &mut Sim) -> Vec<Silencing> {
    std::iter::from_fn(|| sim.client.poll_silencing()).collect()
}

fn silent(server: u64, unanswered: u64) -> Silencing {
    Silencing { server: ServerId(server), silent: true, unanswered }
}

fn answers(server: u64, unanswered: u64) -> Silencing {
    Silencing { server: ServerId(server), silent: false, unanswered }
}

#[test]
fn x27_a_dead_oldest_server_costs_a_unit_for_n_requests_and_then_nothing() {
    let servers =
        vec![Server::silent(1), Server::always(2, Reply::deny(1)), Server::always(3, Reply::allow(1))];
    let mut sim = Sim::new(policy(), servers);
    let done = ask(&mut sim, 12);

    let mut expected = vec![UNIT; AFTER as usize];
    expected.resize(12, 1);
    assert_eq!(waits(&done), expected);
    let verdicts = done.iter().map(|done| (done.completion.outcome, done.completion.server));
    assert!(verdicts.eq([(Outcome::Deny, Some(ServerId(2))); 12]), "the same verdicts of the same server");
    assert_eq!(silencings(&mut sim), [silent(1, AFTER)]);
    assert_eq!(
        sim.servers[0].receipts.len(),
        12 * 2,
        "still asked: the question and the completion delivery"
    );
}

#[test]
fn without_it_each_request_waits() {
    let servers = vec![Server::silent(1), Server::always(2, Reply::allow(1))];
    let mut sim = Sim::new(Policy::standard(UNIT as u32).unwrap(), servers);
    assert_eq!(waits(&ask(&mut sim, 12)), [UNIT; 12]);
    assert_eq!(silencings(&mut sim), []);
}

#[test]
fn x27_two_dead_servers_are_found_out_together() {
    let servers = vec![Server::silent(1), Server::silent(2), Server::always(3, Reply::allow(1))];
    let mut sim = Sim::new(policy(), servers);
    let waited = waits(&ask(&mut sim, 8));
    assert_eq!(waited, [20, 20, 20, 20, 20, 1, 1, 1]);
    assert_eq!(silencings(&mut sim), [silent(1, AFTER), silent(2, AFTER)]);
}

#[test]
fn x28_the_next_valid_answer_restores_the_oldest_server() {
    let up = switch();
    let servers = vec![server(1, &up, Reply::deny(2)), Server::always(2, Reply::allow(1))];
    let mut sim = Sim::new(policy(), servers);
    up.set(false);
    ask(&mut sim, 10);
    assert_eq!(silencings(&mut sim), [silent(1, AFTER)]);
    up.set(true);
    // It is not waited for, so that its answer comes late. It counts all the same.
    assert_eq!(ask(&mut sim, 1)[0].completion.server, Some(ServerId(2)));
    sim.run(10);
    assert_eq!(silencings(&mut sim), [answers(1, 11)]);
    let done = ask(&mut sim, 3);
    assert!(done.iter().all(|done| done.completion.server == Some(ServerId(1))), "{done:?}");
}

#[test]
fn a_forged_answer_restores_nobody() {
    let servers = vec![Server::silent(1), Server::always(2, Reply::allow(1))];
    let mut sim = Sim::new(policy(), servers);
    ask(&mut sim, 10);
    silencings(&mut sim);
    let mut forged = sim.answer(1, &Reply::allow(0));
    *forged.last_mut().unwrap() ^= 1;
    sim.receive(forged);
    assert_eq!((silencings(&mut sim), waits(&ask(&mut sim, 1))), (vec![], vec![1]));
}

#[test]
fn a_slow_oldest_server_is_no_silent_one() {
    // Its answers come after the unit and before the horizon.
    let servers = vec![Server::always(1, Reply::allow(30)), Server::always(2, Reply::allow(1))];
    let mut sim = Sim::new(policy(), servers);
    for _ in 0..500 {
        sim.start();
        sim.run(1);
    }
    sim.run(100);
    assert_eq!(silencings(&mut sim), []);
}

#[test]
fn a_burst_is_one_silence_and_not_many() {
    let up = switch();
    let mut sim =
        Sim::new(policy(), vec![server(1, &up, Reply::allow(1)), Server::always(2, Reply::allow(1))]);
    up.set(false);
    (0..300).for_each(|_| _ = sim.start());
    sim.run(1);
    up.set(true);
    sim.run(UNIT);
    assert!(sim.done.iter().all(|done| done.completion.server == Some(ServerId(2))));
    // Hundreds of admissions were decided without it, but none longer ago than a horizon.
    ask(&mut sim, 3);
    assert_eq!(silencings(&mut sim), []);
}

#[test]
fn x28_an_outage_of_all_silences_nobody() {
    let up = switch();
    let mut sim = Sim::new(policy(), vec![server(1, &up, Reply::allow(1)), server(2, &up, Reply::allow(1))]);
    up.set(false);
    let done = ask(&mut sim, 20);
    assert!(done.iter().all(|done| matches!(done.completion.outcome, Outcome::Failed(_))));
    assert_eq!(silencings(&mut sim), []);
    up.set(true);
    assert_eq!(waits(&ask(&mut sim, 2)), [1, 1]);
}

#[test]
fn x28_there_is_always_a_server_to_wait_for() {
    let ups = [switch(), switch(), switch()];
    let servers = (1..).zip(&ups).map(|(id, up)| server(id, up, Reply::allow(1))).collect();
    let mut sim = Sim::new(policy(), servers);
    ups[0].set(false);
    ask(&mut sim, 10);
    ups[1].set(false);
    let done = ask(&mut sim, 10);
    assert!(done[7..].iter().all(|done| done.completion.server == Some(ServerId(3))), "{done:?}");
    ups[2].set(false);
    ask(&mut sim, 10);
    assert_eq!(silencings(&mut sim), [silent(1, AFTER), silent(2, AFTER)], "the last one is waited for");
    // The server that answers first again decides.
    ups[1].set(true);
    let done = ask(&mut sim, 5);
    assert!(done.iter().all(|done| done.completion.server == Some(ServerId(2))), "{done:?}");
}

#[test]
fn x28_a_change_of_members_forgets_silence() {
    let servers =
        vec![Server::silent(1), Server::always(2, Reply::allow(1)), Server::always(3, Reply::allow(1))];
    let mut sim = Sim::new(policy(), servers);
    ask(&mut sim, 10);
    silencings(&mut sim);
    sim.discover_only(&[1, 2], 300);
    assert_eq!(waits(&ask(&mut sim, 7)), [20, 20, 20, 20, 20, 1, 1]);
    assert_eq!(silencings(&mut sim), [silent(1, AFTER)]);
    // The same members found again are no change.
    sim.discover_only(&[1, 2], 300);
    assert_eq!(waits(&ask(&mut sim, 2)), [1, 1]);
}

#[test]
fn with_a_unit_that_follows_the_round_trip_both_hold() {
    let up = switch();
    let auto = policy().with_auto_unit(AutoUnit { min_ms: 5, max_ms: 100 }).unwrap();
    let mut sim = Sim::new(auto, vec![server(1, &up, Reply::allow(40)), Server::always(2, Reply::allow(10))]);
    ask(&mut sim, 100);
    assert_eq!(sim.client.unit_ms(), 42);
    up.set(false);
    let waited = waits(&ask(&mut sim, 20));
    assert_eq!((&waited[..5], waited[19]), (&[42; 5][..], 10));
    assert_eq!((silencings(&mut sim), sim.client.unit_ms()), (vec![silent(1, AFTER)], 12));
}

//! What an input costs does not depend on what else is queued, waiting or cancelled. Work is counted in steps: entries of
//! queues and lists that the client passes over.

mod sim;

use ratelimitly_core::client::{AdmissionKey, Ask, SendResult};
use ratelimitly_core::policy::Policy;
use sim::material::resource;
use sim::server::{Reply, Server};
use sim::{BATCH, Sim};

/// Admissions of a crowd.
const CROWD: usize = 10_000;
/// Most steps for each of them, with one endpoint: from its start to its end.
const EACH: u64 = 12;

fn world() -> Sim {
    Sim::new(Policy::standard(20).unwrap(), vec![Server::silent(7)])
}

/// Starts so many admissions, and leaves what they want in the queues.
fn start(sim: &mut Sim, count: usize) -> Vec<AdmissionKey> {
    let (now, wall) = (sim.now, sim.wall());
    let ask = Ask { guards: &[], resources: &[resource(1)], label: b"" };
    (0..count).map(|_| sim.client.start(now, wall, &ask).expect("it starts")).collect()
}

/// The steps that something takes.
fn steps(sim: &mut Sim, work: impl FnOnce(&mut Sim)) -> u64 {
    let before = sim.client.steps();
    work(sim);
    sim.client.steps() - before
}

/// Takes everything out that the client has to say, sending in batches.
fn drain(sim: &mut Sim) -> usize {
    let now = sim.now;
    let mut sent = 0;
    while sim.client.has_transmits() {
        let batch = sim.client.transmits(now, BATCH).count();
        sim.client.handle_sent(now, &[SendResult::Sent; BATCH][..batch]);
        sent += batch;
    }
    while sim.client.poll_deadline().is_some() {}
    while sim.client.poll_completion().is_some() {}
    sent
}

/// The orders in which a crowd may be cancelled.
fn orders(keys: &[AdmissionKey]) -> [Vec<AdmissionKey>; 3] {
    let forwards = keys.to_vec();
    let backwards = keys.iter().rev().copied().collect();
    let (even, odd): (Vec<_>, Vec<_>) = keys.chunks(2).map(|pair| (pair[0], pair[1])).unzip();
    [forwards, backwards, [even, odd].concat()]
}

#[test]
fn cancelling_a_crowd_whose_datagrams_are_queued_searches_for_none_of_them() {
    for order in 0..3 {
        let mut sim = world();
        let keys = start(&mut sim, CROWD);
        let took = steps(&mut sim, |sim| {
            for key in &orders(&keys)[order] {
                sim.client.cancel(*key);
            }
            assert_eq!(drain(sim), 0);
        });
        assert!(took < EACH * CROWD as u64, "{took} steps in order {order}");
        sim.client.audit();
    }
}

/// What one client's streams that are opened and reset at once may do beside those of others that wait.
#[test]
fn a_flood_of_starts_and_cancels_beside_a_crowd_costs_as_much_as_alone() {
    let flood = |waiting: usize| {
        let mut sim = world();
        start(&mut sim, waiting);
        let took = steps(&mut sim, |sim| {
            for _ in 0..CROWD {
                let key = start(sim, 1)[0];
                sim.client.cancel(key);
            }
        });
        sim.client.audit();
        (took, steps(&mut sim, |sim| assert_eq!(drain(sim), waiting)))
    };
    let (alone, _) = flood(0);
    let (beside, drained) = flood(CROWD);
    assert!(alone < EACH * CROWD as u64, "{alone} steps alone");
    assert!(beside < EACH * CROWD as u64, "{beside} steps beside {CROWD} that wait");
    assert!(drained < 2 * EACH * CROWD as u64, "{drained} steps to send what the {CROWD} want");
}

#[test]
fn a_flood_of_cancelled_datagrams_keeps_no_room_in_the_queue() {
    let mut sim = world();
    start(&mut sim, 1);
    for _ in 0..CROWD {
        let key = start(&mut sim, 1)[0];
        sim.client.cancel(key);
        while sim.client.poll_deadline().is_some() {}
        assert!(sim.client.queued_entries() < 200, "{} entries", sim.client.queued_entries());
    }
}

#[test]
fn cancelling_a_crowd_whose_completions_are_not_taken_searches_for_none_of_them() {
    for order in 0..3 {
        let mut sim = world();
        let keys = start(&mut sim, CROWD);
        drain(&mut sim);
        sim.now = sim.now + 60;
        let now = sim.now;
        keys.iter().for_each(|key| sim.client.handle_timeout(now, *key));
        let took = steps(&mut sim, |sim| {
            for key in &orders(&keys)[order] {
                sim.client.cancel(*key);
            }
            assert_eq!(sim.client.poll_completion(), None);
        });
        assert!(took <= 2 * CROWD as u64, "{took} steps in order {order}");
        assert_eq!(sim.client.in_flight(), 0);
        sim.client.audit();
    }
}

#[test]
fn a_cold_crowd_that_is_cancelled_costs_each_start_and_the_discovery_the_same() {
    for order in 0..3 {
        let mut sim = Sim::cold(Policy::standard(20).unwrap(), vec![Server::silent(7)]);
        let took = steps(&mut sim, |sim| {
            let keys = start(sim, CROWD);
            for key in &orders(&keys)[order] {
                sim.client.cancel(*key);
            }
            start(sim, CROWD);
            sim.discover(300);
            drain(sim);
        });
        assert!(took < 2 * EACH * CROWD as u64, "{took} steps in order {order}");
        sim.client.audit();
    }
}

#[test]
fn a_full_socket_costs_one_batch_for_each_attempt() {
    let mut sim = world();
    start(&mut sim, CROWD);
    let now = sim.now;
    let mut results = [SendResult::WouldBlock; BATCH];
    results[0] = SendResult::Sent;
    for _ in 0..100 {
        let took = steps(&mut sim, |sim| {
            assert_eq!(sim.client.transmits(now, BATCH).count(), BATCH);
            sim.client.handle_sent(now, &results);
        });
        assert!(took <= 6 * BATCH as u64, "{took} steps for a batch");
    }
    sim.client.audit();
}

#[test]
fn one_answer_among_a_crowd_costs_as_much_as_alone() {
    let answer = |in_flight: usize| {
        let mut sim = world();
        sim.start();
        let answer = sim.answer(7, &Reply::allow(0));
        start(&mut sim, in_flight);
        drain(&mut sim);
        steps(&mut sim, |sim| sim.receive(answer))
    };
    assert_eq!(answer(CROWD), answer(0));
}

#[test]
fn one_deadline_among_a_crowd_costs_as_much_as_alone() {
    let deadline = |in_flight: usize| {
        let mut sim = world();
        let key = start(&mut sim, 1)[0];
        start(&mut sim, in_flight);
        drain(&mut sim);
        steps(&mut sim, |sim| {
            let now = sim.now + 20;
            sim.client.handle_timeout(now, key);
            assert_eq!(drain(sim), 1);
        })
    };
    assert_eq!(deadline(CROWD), deadline(0));
}

//! What the caller can read of the answer that decided, and for how long.

mod sim;

use ratelimitly_core::client::{AdmissionKey, GuardResult, Outcome, ResourceResult};
use ratelimitly_core::policy::Policy;
use sim::Sim;
use sim::server::{Fault, Reply, Server};

fn standard() -> Policy {
    Policy::standard(20).unwrap()
}

/// One admission of so many guards and resources, run to its end.
fn asked(servers: Vec<Server>, guards: usize, resources: usize) -> (Sim, AdmissionKey) {
    let mut sim = Sim::new(standard(), servers);
    sim.try_start(guards, resources).unwrap();
    sim.run(500);
    let key = sim.only().key;
    (sim, key)
}

fn results(sim: &Sim, key: AdmissionKey) -> (Vec<GuardResult>, Vec<ResourceResult>) {
    let answer = sim.client.answer(key).expect("an answer decided");
    (answer.guards().collect(), answer.resources().collect())
}

#[test]
fn an_allow_tells_count_and_latency() {
    let (sim, key) = asked(vec![Server::always(7, Reply::allow(1))], 2, 1);
    let guard = GuardResult { latency_ms: 0, refused: false };
    let resource = ResourceResult { count: 1, deficit: 0 };
    assert_eq!(results(&sim, key), (vec![guard; 2], vec![resource]));
}

#[test]
fn a_deny_tells_what_refused() {
    let (sim, key) = asked(vec![Server::always(7, Reply::deny(1))], 1, 2);
    let guard = GuardResult { latency_ms: 100, refused: true };
    let resource = ResourceResult { count: 1, deficit: 1 };
    assert_eq!(results(&sim, key), (vec![guard], vec![resource; 2]));
    assert!(resource.refused());
}

#[test]
fn the_answer_is_that_of_the_server_that_decided() {
    for (old, young) in [(Reply::allow(9), Reply::deny(1)), (Reply::deny(9), Reply::allow(1))] {
        let (sim, key) = asked(vec![Server::always(7, old), Server::always(8, young)], 0, 1);
        let refused = sim.outcome() == Outcome::Deny;
        assert_eq!(refused, !old.grant, "the oldest server decides");
        assert_eq!(results(&sim, key).1[0].refused(), refused);
    }
}

#[test]
fn a_second_answer_of_the_server_changes_nothing() {
    let server = Server::new(8, |_, _| vec![Reply::deny(1), Reply::allow(2)]);
    let (sim, key) = asked(vec![Server::silent(7), server], 0, 1);
    assert!(results(&sim, key).1[0].refused());
}

#[test]
fn a_failure_has_no_answer() {
    for server in [Server::silent(7), Server::always(7, Reply::allow(1).with(Fault::Short))] {
        let (sim, key) = asked(vec![server], 0, 2);
        assert!(matches!(sim.outcome(), Outcome::Failed(_)));
        assert!(sim.client.answer(key).is_none());
    }
}

#[test]
fn a_cancelled_admission_has_no_answer() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::always(8, Reply::deny(1))]);
    let key = sim.start();
    sim.run(5);
    sim.client.cancel(key);
    assert!(sim.client.answer(key).is_none());
}

#[test]
fn an_answer_is_there_until_the_slot_is_used_again() {
    let (mut sim, key) = asked(vec![Server::always(7, Reply::allow(1))], 0, 1);
    assert!(sim.client.answer(key).is_some());
    let next = sim.start();
    assert_eq!(next.slot, key.slot);
    assert!(sim.client.answer(key).is_none() && sim.client.answer(next).is_none());
    sim.run(500);
    assert!(sim.client.answer(key).is_none() && sim.client.answer(next).is_some());
}

#[test]
fn an_answer_that_is_not_yet_a_verdict_cannot_be_read() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::always(8, Reply::deny(1))]);
    let key = sim.start();
    sim.run(5);
    assert!(sim.done.is_empty() && sim.client.answer(key).is_none());
}

#[test]
fn answers_of_many_admissions_stay_apart() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    for nth in 0..20 {
        sim.try_start(nth % 3, 1 + nth % 5).unwrap();
    }
    let sent = sim.sent.clone();
    for request in sent.iter().rev() {
        let reply = if request.serial % 2 == 0 { Reply::allow(0) } else { Reply::deny(0) };
        let mut answer = sim.answer_to(request, 7, &reply);
        sim.client.handle_datagram(&mut answer);
    }
    sim.client.finish_batch(sim.now);
    sim.drain();
    for done in &sim.done {
        let (guards, resources) = results(&sim, done.completion.key);
        let nth = (done.serial - 1) as usize;
        assert_eq!((guards.len(), resources.len()), (nth % 3, 1 + nth % 5));
        let is_refused = done.completion.outcome == Outcome::Deny;
        assert!(guards.iter().all(|guard| guard.refused == is_refused));
        assert!(resources.iter().all(|resource| resource.refused() == is_refused));
    }
}

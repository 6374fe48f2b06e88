//! What the counters tell: datagrams sent by kind, datagrams received by what they were, reports, probes.

mod sim;

use ratelimitly_core::client::{Failure, Outcome, Received, Reports, Sent, StartError};
use ratelimitly_core::policy::Policy;
use sim::Sim;
use sim::material::{endpoint, observation};
use sim::server::{Fault, Reply, Server};

fn standard() -> Policy {
    Policy::standard(20).unwrap()
}

fn sent(sim: &Sim) -> Sent {
    sim.client.counters().sent
}

fn received(sim: &Sim) -> Received {
    sim.client.counters().received
}

fn report(sim: &mut Sim) {
    let (now, wall) = (sim.now, sim.wall());
    let _ = sim.client.report(now, wall, &observation());
    sim.drain();
}

#[test]
fn requests_replays_and_completion_deliveries_are_told_apart() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::late(8, Reply::allow(1))]);
    sim.start();
    sim.run(500);
    assert_eq!(sim.outcome(), Outcome::Allow);
    assert_eq!(sent(&sim), Sent { requests: 2, replays: 2, completions: 1, ..Sent::default() });
    assert_eq!(sim.sent.len(), 5);
}

#[test]
fn a_report_counts_once_and_its_datagrams_each() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7).with_endpoints(2), Server::silent(8)]);
    report(&mut sim);
    assert_eq!(sent(&sim), Sent { reports: 3, ..Sent::default() });
    assert_eq!(sim.client.counters().reports, Reports { sent: 1, failed: 0 });
}

#[test]
fn a_report_of_which_one_datagram_was_sent_is_sent() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
    sim.unreachable.insert(endpoint(8, 0));
    report(&mut sim);
    assert_eq!(sim.client.counters().reports, Reports { sent: 1, failed: 0 });
    assert_eq!(sim.client.counters().send_errors, 1);
    sim.unreachable.insert(endpoint(7, 0));
    report(&mut sim);
    assert_eq!(sim.client.counters().reports, Reports { sent: 1, failed: 1 });
}

#[test]
fn an_admission_after_a_report_in_the_same_buffer_is_no_report() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    report(&mut sim);
    sim.unreachable.insert(endpoint(7, 0));
    sim.start();
    sim.run(500);
    assert_eq!(
        sim.outcome(),
        Outcome::Failed(Failure::Send),
        "a report that was sent says nothing of round 0"
    );
    assert_eq!(sim.client.counters().reports, Reports { sent: 1, failed: 0 });
}

#[test]
fn a_report_without_members_has_failed() {
    let mut sim = Sim::cold(standard(), vec![Server::silent(7)]);
    report(&mut sim);
    assert_eq!(sim.client.counters().reports, Reports { sent: 0, failed: 1 });
}

#[test]
fn each_datagram_is_counted_by_what_it_was() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
    sim.start();
    let mut answers = Vec::new();
    for reply in [
        Reply::allow(0).with(Fault::RequestId),
        Reply::allow(0).with(Fault::Server(9)),
        Reply::allow(0).with(Fault::Auth),
        Reply::allow(0).with(Fault::Empty),
        Reply::allow(0),
    ] {
        answers.push(sim.answer(8, &reply));
    }
    answers.push(sim.sent[0].bytes[..20].to_vec());
    answers.into_iter().for_each(|answer| sim.receive(answer));
    let expected = Received { valid: 1, late: 0, unknown: 2, unauthentic: 1, malformed: 1, cardinality: 1 };
    assert_eq!(received(&sim), expected);
    assert_eq!(received(&sim).dropped(), 4);
}

#[test]
fn an_answer_to_an_admission_that_has_ended_is_late() {
    let servers = vec![Server::always(7, Reply::allow(1)), Server::once(8, Reply::allow(5))];
    let mut sim = Sim::new(standard(), servers);
    sim.start();
    sim.run(4);
    // The slot has another admission by then.
    sim.servers[0] = Server::silent(7);
    sim.start();
    sim.run(500);
    assert_eq!(received(&sim), Received { valid: 1, late: 1, ..Received::default() });
}

#[test]
fn an_answer_to_a_cancelled_admission_is_late() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let key = sim.start();
    let answer = sim.answer(7, &Reply::allow(0));
    sim.client.cancel(key);
    sim.receive(answer.clone());
    assert_eq!(received(&sim), Received { late: 1, ..Received::default() });
    // Any number of other admissions may come between, as long as their ids fall elsewhere.
    sim.receive(answer);
    assert_eq!(received(&sim).late, 2);
}

#[test]
fn everything_of_a_probe_counts_as_probe() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::late(8, Reply::deny(1))]);
    let key = sim.start_probe().unwrap();
    assert_eq!(sim.client.in_flight(), 1);
    sim.run(500);
    assert_eq!((sim.only().key, sim.outcome()), (key, Outcome::Deny));
    assert_eq!(sent(&sim), Sent { probes: 5, ..Sent::default() });
    assert!(sim.client.answer(key).is_some());
    sim.start();
    assert_eq!(sent(&sim).requests, 2, "the next admission in its buffer is no probe");
}

#[test]
fn a_probe_does_not_wait_for_a_discovery() {
    let mut sim = Sim::cold(standard(), vec![Server::silent(7)]);
    assert_eq!(sim.start_probe(), Err(StartError::NoMembers));
    assert_eq!(sim.client.in_flight(), 0);
}

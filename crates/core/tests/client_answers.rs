//! Which responses count: everything else is dropped silently, wrong counts are no decision, steering.

mod sim;

use ratelimitly_core::client::{Failure, Outcome};
use ratelimitly_core::id::ServerId;
use ratelimitly_core::key::KeyKind;
use ratelimitly_core::policy::Policy;
use ratelimitly_core::wire::Auth;
use sim::Sim;
use sim::material::key_of;
use sim::server::{Fault, Reply, Server};

fn standard() -> Policy {
    Policy::standard(20).unwrap()
}

/// One silent server, one request in flight.
fn waiting() -> Sim {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    sim.start();
    sim
}

/// The answer is dropped silently and the request stays in flight for a good one.
fn assert_dropped(mut sim: Sim, answer: Vec<u8>) {
    sim.receive(answer);
    assert_eq!(sim.client.counters().received.dropped(), 1);
    assert_eq!(sim.client.in_flight(), 1);
    assert!(!sim.client.rebind_pending());
    let good = sim.answer(7, &Reply::allow(0));
    sim.receive(good);
    assert_eq!(sim.outcome(), Outcome::Allow);
}

#[test]
fn o05_wrong_authentication_is_dropped() {
    let sim = waiting();
    let answer = sim.answer(7, &Reply::allow(0).rebind().with(Fault::Auth));
    assert_dropped(sim, answer);
}

#[test]
fn o06_truncated_is_dropped() {
    let sim = waiting();
    let answer = sim.answer(7, &Reply::allow(0).rebind().with(Fault::Truncated));
    assert_dropped(sim, answer);
}

#[test]
fn o07_other_request_id_is_dropped() {
    let sim = waiting();
    let answer = sim.answer(7, &Reply::allow(0).rebind().with(Fault::RequestId));
    assert_dropped(sim, answer);
}

#[test]
fn server_that_is_no_member_is_dropped() {
    let sim = waiting();
    let answer = sim.answer(7, &Reply::allow(0).rebind().with(Fault::Server(8)));
    assert_dropped(sim, answer);
}

#[test]
fn server_id_swapped_after_sealing_is_dropped() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
    sim.start();
    let mut answer = sim.answer(8, &Reply::allow(0).rebind());
    answer[4] = 7;
    assert_dropped(sim, answer);
}

#[test]
fn other_auth_kind_is_dropped() {
    let mut sim = waiting();
    let aes = std::mem::replace(&mut sim.auth, Auth::new(&key_of(KeyKind::Cookie)));
    let sent = sim.sent[0].clone();
    let mut opened = sent.bytes.clone();
    let (tenant, _) = aes.open(&mut opened).unwrap();
    let mut answer = Vec::new();
    let tenant = ratelimitly_core::wire::Tenant { key_or_server_id: 7, ..tenant };
    sim.auth.seal_rate_response(&mut answer, &tenant, &[0; 12], &[], &[]).unwrap();
    sim.auth = aes;
    assert_dropped(sim, answer);
}

#[test]
fn own_request_sent_back_is_dropped() {
    let sim = waiting();
    let echo = sim.sent[0].bytes.clone();
    assert_dropped(sim, echo);
}

#[test]
fn rate_request_in_an_answers_place_is_dropped() {
    let sim = waiting();
    let mut opened = sim.sent[0].bytes.clone();
    let (tenant, _) = sim.auth.open(&mut opened).unwrap();
    let tenant = ratelimitly_core::wire::Tenant { key_or_server_id: 7, ..tenant };
    let mut answer = Vec::new();
    let resources = [sim::material::resource(1)];
    let request = ratelimitly_core::wire::RateRequest {
        dedup_ttl_ms: 60,
        guards: &[],
        resources: &resources,
        label: None,
    };
    sim.auth.seal_rate_request(&mut answer, &tenant, &[0; 12], &request).unwrap();
    assert_dropped(sim, answer);
}

#[test]
fn junk_of_every_length_is_dropped() {
    let mut sim = waiting();
    let mut junk = Vec::new();
    for length in 0..300 {
        junk.clear();
        junk.extend((0..length).map(|_| sim.random.u8(..)));
        sim.receive(junk.clone());
    }
    let prefix = sim.answer(7, &Reply::allow(0));
    for length in 0..prefix.len() {
        sim.receive(prefix[..length].to_vec());
    }
    assert_eq!(sim.client.counters().received.dropped(), 300 + prefix.len() as u64);
    assert_eq!(sim.client.in_flight(), 1);
}

#[test]
fn c21_every_guard_and_every_deficit_counts() {
    for (guards, resources, grant) in
        [(1, 1, true), (1, 0, false), (0, 1, false), (3, 3, true), (2, 2, false)]
    {
        let reply = Reply { grant, ..Reply::allow(1) };
        let mut sim = Sim::new(standard(), vec![Server::always(7, reply)]);
        sim.try_start(guards, resources).unwrap();
        sim.run(1);
        let expected = if grant { Outcome::Allow } else { Outcome::Deny };
        assert_eq!(sim.outcome(), expected, "{guards} guards, {resources} resources");
    }
}

/// Wrong counts of the only server end the admission at once.
fn assert_cardinality(fault: Fault, guards: usize, resources: usize) {
    let reply = Reply::allow(5).rebind().with(fault);
    let mut sim = Sim::new(standard(), vec![Server::always(7, reply)]);
    sim.try_start(guards, resources).unwrap();
    sim.run(500);
    let done = sim.only();
    assert_eq!(done.outcome, Outcome::Failed(Failure::Cardinality), "{fault:?}");
    assert_eq!((done.server, done.waited_ms, done.answered), (None, 5, 0));
    assert_eq!(sim.client.counters().received.cardinality, 1);
    assert!(!sim.client.rebind_pending(), "what does not count does not steer");
    assert_eq!(sim.sent.len(), 1, "no completion delivery for a failure");
}

#[test]
fn o08_no_results_is_no_decision() {
    assert_cardinality(Fault::Empty, 1, 2);
}

#[test]
fn o09_one_result_short_is_no_decision() {
    assert_cardinality(Fault::Short, 0, 2);
    assert_cardinality(Fault::Short, 2, 0);
}

#[test]
fn o10_one_extra_result_is_no_decision() {
    assert_cardinality(Fault::Extra, 1, 2);
    assert_cardinality(Fault::Extra, 1, 0);
}

#[test]
fn wrong_counts_of_one_server_leave_the_decision_to_the_other() {
    let wrong = Reply::allow(1).with(Fault::Short);
    let mut sim = Sim::new(standard(), vec![Server::always(7, wrong), Server::late(8, Reply::deny(2))]);
    sim.start();
    sim.run(500);
    let done = sim.only();
    assert_eq!((done.outcome, done.server, done.waited_ms), (Outcome::Deny, Some(ServerId(8)), 22));
    assert_eq!(sim.times_to(7)[..2], [1_000, 1_020], "its server still gets the replay");
}

#[test]
fn wrong_counts_and_silence_end_as_cardinality_at_the_last_deadline() {
    let wrong = Reply::allow(1).with(Fault::Empty);
    let mut sim = Sim::new(standard(), vec![Server::always(7, wrong), Server::silent(8)]);
    sim.start();
    sim.run(500);
    let done = sim.only();
    assert_eq!((done.outcome, done.waited_ms), (Outcome::Failed(Failure::Cardinality), 60));
    // The next admission in that slot knows nothing of it.
    sim.servers[0] = Server::silent(7);
    sim.start();
    sim.run(500);
    assert_eq!(sim.done[1].completion.outcome, Outcome::Failed(Failure::Timeout));
}

#[test]
fn wrong_counts_of_an_earlier_admission_in_the_slot_do_not_add_up() {
    let wrong = Reply::allow(1).with(Fault::Empty);
    let mut sim = Sim::new(standard(), vec![Server::always(7, wrong), Server::silent(8)]);
    let first = sim.start();
    sim.run(500);
    sim.servers = vec![Server::silent(7), Server::always(8, wrong)];
    let second = sim.start();
    assert_eq!(first.slot, second.slot);
    sim.run(500);
    assert_eq!(sim.done[1].completion.waited_ms, 60, "only one of two members has answered");
}

#[test]
fn good_answer_after_wrong_counts_of_the_same_server_decides() {
    let server = Server::new(7, |_, _| vec![Reply::allow(1).with(Fault::Extra), Reply::allow(2)]);
    let mut sim = Sim::new(standard(), vec![server, Server::silent(8)]);
    sim.start();
    sim.run(500);
    assert_eq!((sim.outcome(), sim.only().waited_ms), (Outcome::Allow, 2));
}

#[test]
fn wrong_counts_and_the_good_answer_in_one_batch_decide() {
    let mut sim = waiting();
    let mut wrong = sim.answer(7, &Reply::allow(0).with(Fault::Empty));
    let mut good = sim.answer(7, &Reply::deny(0));
    sim.client.handle_datagram(&mut wrong);
    sim.client.handle_datagram(&mut good);
    sim.client.finish_batch(sim.now);
    sim.drain();
    assert_eq!(sim.outcome(), Outcome::Deny);
}

#[test]
fn second_answer_of_a_server_does_not_change_its_first() {
    let server = Server::new(8, |_, _| vec![Reply::deny(1), Reply::allow(2)]);
    let mut sim = Sim::new(standard(), vec![Server::silent(7), server]);
    sim.start();
    sim.run(500);
    assert_eq!((sim.outcome(), sim.only().answered), (Outcome::Deny, 1));
}

#[test]
fn c33_answers_in_reverse_order_reach_their_own_requests() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    for _ in 0..20 {
        sim.start();
    }
    let sent = sim.sent.clone();
    for request in sent.iter().rev() {
        let reply = if request.serial % 2 == 0 { Reply::allow(0) } else { Reply::deny(0) };
        let mut answer = sim.answer_to(request, 7, &reply);
        sim.client.handle_datagram(&mut answer);
    }
    sim.client.finish_batch(sim.now);
    sim.drain();
    assert_eq!(sim.done.len(), 20);
    for done in &sim.done {
        let expected = if done.serial % 2 == 0 { Outcome::Allow } else { Outcome::Deny };
        assert_eq!(done.completion.outcome, expected);
    }
}

#[test]
fn x11_steering_marks_the_rebind_until_it_is_done() {
    let mut sim = Sim::new(standard(), vec![Server::always(7, Reply::allow(1).rebind())]);
    sim.start();
    assert!(!sim.client.rebind_pending());
    sim.run(1);
    assert!(sim.client.rebind_pending());
    sim.client.handle_rebound();
    assert!(!sim.client.rebind_pending());
    sim.start();
    assert_ne!(sim.sent[0].request_id, sim.sent[1].request_id);
}

#[test]
fn any_other_steering_value_keeps_the_port() {
    let reply = Reply { steering: 2, ..Reply::allow(1) };
    let mut sim = Sim::new(standard(), vec![Server::always(7, reply)]);
    sim.start();
    sim.run(1);
    assert!(!sim.client.rebind_pending());
}

#[test]
fn steering_of_an_answer_that_is_not_selected_counts() {
    let servers = vec![Server::always(7, Reply::allow(5)), Server::always(8, Reply::allow(1).rebind())];
    let mut sim = Sim::new(standard(), servers);
    sim.start();
    sim.run(1);
    assert!(sim.client.rebind_pending());
    assert!(sim.done.is_empty());
}

#[test]
fn steering_of_a_late_answer_does_not_count() {
    let servers = vec![Server::always(7, Reply::allow(1)), Server::always(8, Reply::allow(5).rebind())];
    let mut sim = Sim::new(standard(), servers);
    sim.start();
    sim.run(500);
    assert!(!sim.client.rebind_pending());
}

#[test]
fn x12_in_flight_reaches_0_only_after_the_last_of_16_steered_admissions() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    for _ in 0..16 {
        sim.start();
    }
    let sent = sim.sent.clone();
    for (nth, request) in sent.iter().enumerate() {
        assert_eq!(sim.client.in_flight(), 16 - nth);
        let answer = sim.answer_to(request, 7, &Reply::allow(0).rebind());
        sim.receive(answer);
        assert!(sim.client.rebind_pending());
    }
    assert_eq!(sim.client.in_flight(), 0);
}

/// What the client makes of one batch: the oldest server's answer and then this one of the other server.
fn after_the_deciding_answer(reply: &Reply) -> Sim {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
    sim.start();
    for mut answer in [sim.answer(7, &Reply::deny(0)), sim.answer(8, reply)] {
        sim.client.handle_datagram(&mut answer);
    }
    sim.client.finish_batch(sim.now);
    sim.drain();
    assert_eq!(sim.outcome(), Outcome::Deny, "the oldest server has decided");
    sim
}

#[test]
fn an_answer_behind_the_deciding_one_of_its_batch_is_late_and_owed_no_completion() {
    let sim = after_the_deciding_answer(&Reply::allow(0));
    let counters = sim.client.counters();
    assert_eq!((counters.received.valid, counters.received.late), (1, 1));
    assert_eq!((sim.only().answered, counters.sent.completions), (2, 0));
}

#[test]
fn an_answer_behind_the_deciding_one_that_steers_must_be_authentic() {
    let steers = after_the_deciding_answer(&Reply::allow(0).rebind());
    assert!(steers.client.rebind_pending());
    assert_eq!(steers.client.counters().received.valid, 2);
    let forged = after_the_deciding_answer(&Reply::allow(0).rebind().with(Fault::Auth));
    assert!(!forged.client.rebind_pending());
    assert_eq!(forged.client.counters().received.unauthentic, 1);
    assert_eq!(forged.client.counters().sent.completions, 1, "its server has not answered");
}

#[test]
fn an_answer_before_the_deciding_one_of_its_batch_is_authenticated() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7), Server::silent(8)]);
    sim.start();
    for mut answer in [sim.answer(8, &Reply::allow(0).with(Fault::Auth)), sim.answer(7, &Reply::deny(0))] {
        sim.client.handle_datagram(&mut answer);
    }
    sim.client.finish_batch(sim.now);
    sim.drain();
    assert_eq!(sim.client.counters().received.unauthentic, 1);
    assert_eq!(sim.client.counters().sent.completions, 1);
}

//! Leaving a source port from which no answers come, on a virtual clock (behavior.md, "Silence").

mod sim;

use ratelimitly_core::policy::Policy;
use sim::Sim;
use sim::material::observation;
use sim::server::{Reply, Server};

/// A horizon of 60 ms.
fn standard() -> Policy {
    Policy::standard(20).unwrap()
}

/// Asks every 100 ms for so long; gives the moments, from the beginning, at which a new port was due.
fn moves(sim: &mut Sim, for_ms: u64) -> Vec<u64> {
    let mut moves = Vec::new();
    for tenth in 0..for_ms / 100 {
        sim.start();
        if sim.client.poll_new_port() {
            moves.push(tenth * 100);
        }
        sim.run(100);
    }
    moves
}

#[test]
fn a_silent_port_is_left_after_5_10_20_40_and_then_every_60_seconds() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);

    let moves = moves(&mut sim, 300_000);

    assert_eq!(moves[0], 5_000);
    let gaps: Vec<u64> = moves.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (gap, expected) in gaps.iter().zip([10_000, 20_000, 40_000, 60_000, 60_000]) {
        // 20% to either side, and the next question after it.
        assert!((expected * 8 / 10..=expected * 12 / 10 + 100).contains(gap), "{gaps:?}");
    }
    assert!(gaps.len() >= 5, "{gaps:?}");
    assert!(gaps.iter().any(|gap| gap % 10_000 != 0), "spread by chance: {gaps:?}");
}

#[test]
fn a_long_horizon_waits_for_20_of_them() {
    let mut sim = Sim::new(Policy::single_round(1_000).unwrap(), vec![Server::silent(7)]);

    assert_eq!(moves(&mut sim, 25_000), [20_000]);
}

#[test]
fn fewer_than_three_unanswered_admissions_keep_the_port() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    let mut moved = Vec::new();
    for _ in 0..4 {
        sim.start();
        moved.push(sim.client.poll_new_port());
        sim.run(6_000);
    }

    assert_eq!(moved, [false, false, false, true], "the fourth is sent after three unanswered ones");
}

#[test]
fn a_valid_answer_begins_the_count_anew() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    assert_eq!(moves(&mut sim, 4_900), []);

    sim.servers[0] = Server::once(7, Reply::allow(3));
    sim.start();
    sim.run(100);
    sim.servers[0] = Server::silent(7);

    assert_eq!(moves(&mut sim, 5_100), [5_000]);
}

#[test]
fn reports_do_not_count() {
    let mut sim = Sim::new(standard(), vec![Server::silent(7)]);
    for _ in 0..100 {
        sim.client.report(sim.now, sim.wall(), &observation()).unwrap();
        sim.run(100);
    }
    sim.start();

    assert!(!sim.client.poll_new_port());
}

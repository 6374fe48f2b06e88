//! The breaker: what opens it, what closes it, when it probes, and that a probe's slot is freed by every ending.

use ratelimitly_core::breaker::{Breaker, Pass, Settings, Transition};
use ratelimitly_core::client::{AdmissionKey, Completion, Failure, Outcome};
use ratelimitly_core::time::Millis;
use std::num::NonZeroU32;

const HORIZON_MS: u64 = 60;
const TIMEOUT: Outcome = Outcome::Failed(Failure::Timeout);

/// A breaker, its clock, and the keys of the admissions that it lets start.
struct World {
    breaker: Breaker,
    now: Millis,
    last_key: u32,
}

impl World {
    fn new(failures: u32) -> World {
        World::with_seed(failures, 1)
    }

    fn with_seed(failures: u32, seed: u64) -> World {
        let settings = Settings { failures: NonZeroU32::new(failures).unwrap(), probe_ms: 1_000 };
        World { breaker: Breaker::new(settings, seed), now: Millis(100_000), last_key: 0 }
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now + ms;
    }

    fn key(&mut self) -> AdmissionKey {
        self.last_key += 1;
        AdmissionKey { slot: 0, generation: self.last_key }
    }

    fn end(&mut self, key: AdmissionKey, outcome: Outcome, waited_ms: u64) -> Option<Transition> {
        let completion =
            Completion { key, outcome, server: None, waited_ms, members: 1, answered: 0, round: 0 };
        self.breaker.ended(self.now, &completion)
    }

    /// An admission that starts and ends.
    fn ask(&mut self, outcome: Outcome) -> Option<Transition> {
        assert_eq!(self.breaker.admit(self.now), Pass::Ask);
        let key = self.key();
        self.wait(HORIZON_MS);
        self.end(key, outcome, HORIZON_MS)
    }

    fn open(failures: u32) -> World {
        let mut world = World::new(failures);
        (1..failures).for_each(|_| assert_eq!(world.ask(TIMEOUT), None));
        assert_eq!(world.ask(TIMEOUT), Some(Transition::Opened { failures }));
        world
    }

    /// Requests arrive each millisecond until one is asked for a probe; says how long that took.
    fn await_probe(&mut self) -> u64 {
        let began = self.now;
        while self.breaker.admit(self.now) != Pass::Probe {
            self.wait(1);
            assert!(self.now.since(began) < 40_000, "no probe within 40 s");
        }
        self.now.since(began)
    }

    fn start_probe(&mut self) -> AdmissionKey {
        self.await_probe();
        let key = self.key();
        self.breaker.probe_started(self.now, key, HORIZON_MS);
        key
    }

    fn silent_probe(&mut self) {
        let key = self.start_probe();
        self.wait(HORIZON_MS);
        assert_eq!(self.end(key, TIMEOUT, HORIZON_MS), None);
    }
}

#[test]
fn consecutive_silence_opens_it() {
    for failures in [1, 2, 7] {
        let mut world = World::open(failures);
        assert!(world.breaker.is_open());
        assert_eq!(world.breaker.admit(world.now), Pass::Refuse);
    }
    let mut world = World::new(2);
    world.ask(Outcome::Failed(Failure::Send));
    assert!(world.ask(TIMEOUT).is_some(), "a failed send is silence too");
}

#[test]
fn an_answer_in_between_starts_the_count_anew() {
    for answer in [Outcome::Allow, Outcome::Deny] {
        let mut world = World::new(2);
        for outcome in [TIMEOUT, answer, TIMEOUT, answer] {
            assert_eq!(world.ask(outcome), None);
        }
    }
}

#[test]
fn what_is_not_silence_neither_counts_nor_resets() {
    for failure in [Failure::Cardinality, Failure::Discovery] {
        let mut world = World::new(2);
        for _ in 0..100 {
            assert_eq!(world.ask(Outcome::Failed(failure)), None);
        }
        assert_eq!(world.ask(TIMEOUT), None);
        assert_eq!(world.ask(Outcome::Failed(failure)), None);
        assert!(world.ask(TIMEOUT).is_some(), "{failure:?} does not reset the count");
    }
}

#[test]
fn a_probe_comes_after_the_interval_and_there_is_one_at_a_time() {
    let mut world = World::open(1);
    let waited = world.await_probe();
    assert!((1_000..=1_100).contains(&waited), "{waited} ms");
    let key = world.key();
    world.breaker.probe_started(world.now, key, 5_000);
    world.wait(4_999);
    assert!(world.breaker.is_probe(key));
    assert_eq!(world.breaker.admit(world.now), Pass::Refuse);
}

#[test]
fn a_probe_that_could_not_be_started_is_asked_of_the_next_request() {
    let mut world = World::open(1);
    world.await_probe();
    for _ in 0..3 {
        assert_eq!(world.breaker.admit(world.now), Pass::Probe);
    }
}

#[test]
fn intervals_double_up_to_half_a_minute() {
    let mut world = World::open(1);
    world.silent_probe();
    let mut last = Millis(world.now.0 - HORIZON_MS);
    for interval in [2_000, 4_000, 8_000, 16_000, 30_000, 30_000] {
        world.silent_probe();
        let started = Millis(world.now.0 - HORIZON_MS);
        let between = started.since(last);
        assert!((interval..=interval + interval / 10).contains(&between), "{between} ms of {interval}");
        last = started;
    }
}

/// Every way in which a probe can end, and whether the breaker is closed then.
#[test]
fn every_ending_frees_the_slot_of_the_probe() {
    type Ending = (&'static str, fn(&mut World, AdmissionKey), bool);
    let endings: [Ending; 10] = [
        ("allow", |world, key| _ = world.end(key, Outcome::Allow, 5), true),
        ("deny", |world, key| _ = world.end(key, Outcome::Deny, 5), true),
        ("timeout", |world, key| _ = world.end(key, TIMEOUT, 60), false),
        ("send", |world, key| _ = world.end(key, Outcome::Failed(Failure::Send), 0), false),
        ("cardinality", |world, key| _ = world.end(key, Outcome::Failed(Failure::Cardinality), 5), false),
        ("discovery", |world, key| _ = world.end(key, Outcome::Failed(Failure::Discovery), 5), false),
        ("cancelled", |world, key| world.breaker.cancelled(key), false),
        ("panic or shutdown", |world, _| world.breaker.client_lost(), false),
        ("no completion within the horizon", |world, _| world.wait(HORIZON_MS), false),
        (
            "other members, then a timeout",
            |world, key| {
                world.breaker.members_changed(world.now);
                world.end(key, TIMEOUT, 60);
            },
            false,
        ),
    ];
    for (name, end, closes) in endings {
        let mut world = World::open(1);
        let key = world.start_probe();
        end(&mut world, key);
        assert_eq!(world.breaker.is_open(), !closes, "{name}");
        if closes {
            assert_eq!(world.breaker.admit(world.now), Pass::Ask, "{name}");
        } else {
            let waited = world.await_probe();
            assert!(waited <= 2_200, "{name}: the next probe came after {waited} ms");
        }
        assert!(!world.breaker.is_probe(key), "{name}");
    }
}

#[test]
fn a_completion_after_the_horizon_still_closes_it() {
    let mut world = World::open(1);
    let key = world.start_probe();
    world.wait(HORIZON_MS + 1);
    world.breaker.admit(world.now);
    assert!(world.end(key, Outcome::Allow, 61).is_some());
}

#[test]
fn an_answer_to_an_older_admission_closes_it() {
    let mut world = World::open(1);
    let key = world.key();
    assert!(matches!(world.end(key, Outcome::Deny, 50), Some(Transition::Closed { .. })));
}

#[test]
fn the_end_tells_the_counts() {
    let mut world = World::open(1);
    let opened = world.now;
    (0..9).for_each(|_| assert_eq!(world.breaker.admit(world.now), Pass::Refuse));
    world.wait(1_200);
    let key = world.start_probe();
    world.wait(3);
    let lasted_ms = world.now.since(opened);
    let closed = Transition::Closed { lasted_ms, refused: 10, probes: 1 };
    assert_eq!(world.end(key, Outcome::Allow, 3), Some(closed));
}

#[test]
fn two_failures_soon_after_it_closed_open_it_again() {
    let close = || {
        let mut world = World::open(5);
        let key = world.start_probe();
        world.end(key, Outcome::Allow, 0);
        world
    };
    let mut world = close();
    world.wait(9_000);
    assert_eq!(world.ask(TIMEOUT), None);
    assert_eq!(world.ask(TIMEOUT), Some(Transition::Opened { failures: 2 }));
    let mut world = close();
    world.wait(10_001);
    for _ in 0..4 {
        assert_eq!(world.ask(TIMEOUT), None);
    }
    assert!(world.ask(TIMEOUT).is_some());
}

#[test]
fn what_started_before_it_closed_does_not_open_it_again() {
    let mut world = World::open(1);
    let key = world.start_probe();
    world.end(key, Outcome::Allow, 0);
    world.wait(10);
    for _ in 0..100 {
        let key = world.key();
        assert_eq!(world.end(key, TIMEOUT, HORIZON_MS), None);
    }
}

#[test]
fn ten_short_recoveries_do_not_make_it_worse() {
    let mut world = World::open(3);
    for round in 0..10 {
        world.silent_probe();
        let key = world.start_probe();
        assert!(world.end(key, Outcome::Allow, 0).is_some());
        assert_eq!(world.ask(TIMEOUT), None);
        assert!(world.ask(TIMEOUT).is_some());
        let waited = world.await_probe();
        assert!((1_000..=1_100).contains(&waited), "after recovery {round} a probe came after {waited} ms");
    }
}

#[test]
fn other_members_cause_a_probe_at_once() {
    let mut world = World::open(1);
    (0..4).for_each(|_| world.silent_probe());
    world.breaker.members_changed(world.now);
    assert_eq!(world.breaker.admit(world.now), Pass::Probe);
    let key = world.key();
    world.breaker.probe_started(world.now, key, HORIZON_MS);
    world.wait(HORIZON_MS);
    world.end(key, TIMEOUT, HORIZON_MS);
    assert!(world.await_probe() <= 2_200, "the interval begins anew");
}

#[test]
fn other_members_do_not_start_a_second_probe_beside_one_in_flight() {
    let mut world = World::open(1);
    let key = world.start_probe();
    world.breaker.members_changed(world.now);
    assert_eq!(world.breaker.admit(world.now), Pass::Refuse);
    world.end(key, TIMEOUT, HORIZON_MS);
    assert_eq!(world.breaker.admit(world.now), Pass::Probe);
}

#[test]
fn a_closed_breaker_takes_no_notice_of_members_and_of_a_lost_client() {
    let mut world = World::new(1);
    world.breaker.members_changed(world.now);
    world.breaker.client_lost();
    assert_eq!(world.breaker.admit(world.now), Pass::Ask);
}

#[test]
fn workers_do_not_probe_in_step() {
    let mut times: Vec<u64> = (0..32)
        .map(|seed| {
            let mut world = World::with_seed(1, seed);
            world.ask(TIMEOUT);
            world.await_probe()
        })
        .collect();
    times.sort_unstable();
    times.dedup();
    assert!(times.len() > 16, "32 workers probe at {} different times", times.len());
}

#[test]
fn at_most_one_probe_goes_out_in_an_interval() {
    let mut world = World::open(1);
    let mut started = Vec::new();
    for _ in 0..200_000 {
        if world.breaker.admit(world.now) == Pass::Probe {
            let key = world.key();
            world.breaker.probe_started(world.now, key, HORIZON_MS);
            started.push(world.now);
        }
        world.wait(1);
    }
    assert!(started.windows(2).all(|pair| pair[1].since(pair[0]) >= 1_000));
    assert!(started.len() > 8);
}

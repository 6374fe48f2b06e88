//! Whole admissions through a bad network: loss, delay, duplication, reordering, servers that contradict each other,
//! lie or fall silent, endpoints that cannot be sent to, members that change, late and cancelling callers.
//!
//! Each seed is one world. What must hold in all of them is checked while they run; a failure names its seed, and
//! `SIMULATION_SEED=<seed> cargo test -p ratelimitly-core --test simulation` runs that world alone.

mod sim;

use fastrand::Rng;
use ratelimitly_core::client::{AdmissionKey, Failure, Outcome, StartError};
use ratelimitly_core::id::ServerId;
use ratelimitly_core::policy::{AutoUnit, Policy, Schedule};
use ratelimitly_core::time::Millis;
use sim::material::key;
use sim::network::Network;
use sim::server::{Fault, Reply, Server};
use sim::{Done, Sim};
use std::collections::{HashMap, HashSet};

const SEEDS: u64 = 600;
const STARTS: usize = 40;

/// What the world's keeper knows of one admission.
struct Started {
    at: Millis,
    cancelled: bool,
}

/// One world, its history and what its servers have said.
struct World {
    sim: Sim,
    policy: Policy,
    started: HashMap<u64, Started>,
    /// Verdict of each server for each admission: the network may lose it, but no other may be reported.
    verdicts: HashMap<u64, bool>,
}

#[test]
fn whole_admissions_through_a_bad_network() {
    let seeds = match std::env::var("SIMULATION_SEED") {
        Ok(seed) => vec![seed.parse().expect("SIMULATION_SEED is a number")],
        Err(_) => (0..SEEDS).collect::<Vec<u64>>(),
    };
    let mut tally = HashMap::<&str, usize>::new();
    for seed in seeds {
        let world = std::panic::catch_unwind(|| run(seed));
        let done = world.unwrap_or_else(|_| panic!("simulation failed for seed {seed}"));
        for one in &done {
            *tally.entry(name(one.completion.outcome)).or_default() += 1;
        }
    }
    println!("{tally:?}");
    if std::env::var("SIMULATION_SEED").is_err() {
        let seen: HashSet<&str> = tally.keys().copied().collect();
        assert_eq!(seen, HashSet::from(["allow", "deny", "timeout", "send", "discovery", "cardinality"]));
    }
}

fn name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Allow => "allow",
        Outcome::Deny => "deny",
        Outcome::Failed(Failure::Timeout) => "timeout",
        Outcome::Failed(Failure::Send) => "send",
        Outcome::Failed(Failure::Discovery) => "discovery",
        Outcome::Failed(Failure::Cardinality) => "cardinality",
    }
}

/// Runs one world to its end.
fn run(seed: u64) -> Vec<Done> {
    let mut world = World::new(seed);
    for _ in 0..STARTS {
        world.step();
        world.check();
    }
    world.sim.run(200_000);
    world.check();
    world.check_end();
    world.sim.done
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Rng::with_seed(seed ^ 0x5151);
        let policy = policy(&mut random);
        let verdicts: HashMap<u64, bool> =
            (0..1 + random.u64(..4)).map(|n| (n * 3 + 1, random.u64(..100) < 50)).collect();
        let mut ids: Vec<u64> = verdicts.keys().copied().collect();
        ids.sort_unstable();
        let servers = ids.iter().map(|id| server(*id, verdicts[id], &mut random)).collect();
        let mut sim = Sim::with_key(&key(), policy.clone(), servers, seed);
        sim.network = Network {
            loss_percent: [0, 10, 40, 95][random.u64(..4) as usize],
            double_percent: random.u64(..30),
            delay_ms: [0, 5, 30, 200][random.u64(..4) as usize],
        };
        sim.lateness = [0, 0, 3, 50][random.u64(..4) as usize];
        if random.u64(..100) < 70 {
            sim.discover(1);
        }
        World { sim, policy, started: HashMap::new(), verdicts }
    }

    /// One thing happens: mostly a start, then some time passes.
    fn step(&mut self) {
        let sim = &mut self.sim;
        match sim.random.u64(..12) {
            0 => self.change_members(),
            1 => sim.fail_discovery(),
            2 => self.cancel_one(),
            3 => self.toggle_endpoint(),
            _ => self.start(),
        }
        let pause = self.sim.random.u64(..2 * u64::from(self.policy.unit_ms()) + 1);
        self.sim.run(pause);
    }

    fn start(&mut self) {
        let (guards, resources) = (self.sim.random.u64(..3) as usize, 1 + self.sim.random.u64(..3) as usize);
        let at = self.sim.now;
        match self.sim.try_start(guards, resources) {
            // Its serial number may be gone already: round 0 could not be sent.
            Ok(_) => drop(self.started.insert(self.sim.last_serial(), Started { at, cancelled: false })),
            Err(error) => assert_eq!(error, StartError::NoMembers),
        }
    }

    /// A discovery finds some of the servers.
    fn change_members(&mut self) {
        let sim = &mut self.sim;
        let all: Vec<u64> = sim.servers.iter().map(|server| server.id).collect();
        let found: Vec<u64> = all.iter().copied().filter(|_| sim.random.u64(..100) < 70).collect();
        sim.discover_only(if found.is_empty() { &all } else { &found }, 1);
    }

    fn cancel_one(&mut self) {
        let mut keys: Vec<AdmissionKey> = self.sim.serials.keys().copied().collect();
        keys.sort_by_key(|key| key.slot);
        let Some(key) = keys.first().copied() else { return };
        let serial = self.sim.serials.remove(&key).expect("a key in flight");
        self.started.get_mut(&serial).expect("it was started").cancelled = true;
        self.sim.cancel(key);
    }

    fn toggle_endpoint(&mut self) {
        let endpoints: Vec<_> = self.sim.servers.iter().flat_map(|server| server.endpoints.clone()).collect();
        let endpoint = endpoints[self.sim.random.u64(..endpoints.len() as u64) as usize];
        if !self.sim.unreachable.remove(&endpoint) {
            self.sim.unreachable.insert(endpoint);
        }
    }

    /// What holds at any time.
    fn check(&self) {
        let sim = &self.sim;
        assert_eq!(sim.client.in_flight(), sim.timers.len(), "each admission in flight has a deadline");
        let serials: HashSet<&AdmissionKey> = sim.serials.keys().collect();
        assert_eq!(
            serials,
            sim.timers.keys().collect(),
            "the deadlines are those of the admissions in flight"
        );
        let horizon = u64::from(self.policy.longest_horizon_ms());
        for (key, (deadline, _)) in &sim.timers {
            assert!(
                *deadline <= self.started[&sim.serials[key]].at + horizon,
                "no deadline after the horizon"
            );
        }
    }

    /// What holds of the whole history.
    fn check_end(&self) {
        assert_eq!(self.sim.client.in_flight(), 0);
        let ended: Vec<u64> = self.sim.done.iter().map(|done| done.serial).collect();
        let unique: HashSet<u64> = ended.iter().copied().collect();
        assert_eq!(unique.len(), ended.len(), "no admission completes twice");
        let due = self.started.iter().filter(|(_, started)| !started.cancelled).map(|(serial, _)| *serial);
        assert_eq!(unique, due.collect(), "exactly those that were not cancelled complete");
        self.sim.done.iter().for_each(|done| self.check_completion(done));
        self.check_transmits();
        self.check_rounds();
    }

    fn check_completion(&self, done: &Done) {
        let Done { at, serial, completion } = done;
        let start = self.started[serial].at;
        let horizon = u64::from(self.policy.longest_horizon_ms());
        assert!(at.since(start) <= horizon + self.sim.lateness, "{completion:?} later than the horizon");
        assert_eq!(completion.waited_ms, at.since(start));
        assert!(completion.answered <= completion.members);
        let granted = match (completion.outcome, completion.server) {
            (Outcome::Allow, Some(ServerId(id))) => Some((id, true)),
            (Outcome::Deny, Some(ServerId(id))) => Some((id, false)),
            (Outcome::Failed(_), None) => None,
            _ => panic!("a verdict names its server, a failure none: {completion:?}"),
        };
        let Some((id, grant)) = granted else { return };
        assert_eq!(self.verdicts[&id], grant, "the verdict is that server's own");
        assert!(completion.answered >= 1);
        let server = self.sim.servers.iter().find(|server| server.id == id).expect("a member");
        let bucket = sim::material::resource(*serial).bucket;
        self.check_oldest_first(done, id);
        let asked = server.receipts.iter().any(|receipt| receipt.resources[0].bucket == bucket);
        assert!(asked, "a server that was never reached decides nothing");
    }

    /// Before round 0 is over (or cut short, after a cold start), only the oldest of the members asked may decide.
    fn check_oldest_first(&self, done: &Done, server: u64) {
        // Another unit or a silent oldest server make another end of round 0: those have tests of their own.
        if self.policy.auto_unit().is_some() || self.policy.silent_after() > 0 {
            return;
        }
        let asked = self.sim.sent.iter().filter(|sent| sent.serial == done.serial);
        let began = asked.clone().map(|sent| sent.at).min().expect("round 0 was sent");
        let cut = self.started[&done.serial].at + u64::from(self.policy.horizon_ms());
        if done.completion.round == 0 && done.at < cut.min(began + self.policy.round_ms(0)) {
            let owner =
                |sent: &sim::Sent| self.sim.servers.iter().find(|one| one.endpoints.contains(&sent.to));
            let oldest = asked.filter_map(owner).map(|server| server.id).min();
            assert_eq!(oldest, Some(server), "{:?}", done.completion);
        }
    }

    /// One id and one datagram an admission, nothing at or after its horizon, nothing for one that has ended.
    fn check_transmits(&self) {
        let ends: HashMap<u64, Millis> = self.sim.done.iter().map(|done| (done.serial, done.at)).collect();
        let mut datagrams = HashMap::new();
        for sent in &self.sim.sent {
            let start = self.started[&sent.serial].at;
            assert!(
                sent.at.since(start) < u64::from(self.policy.longest_horizon_ms()),
                "nothing is sent after H"
            );
            assert!(
                ends.get(&sent.serial).is_none_or(|end| sent.at <= *end),
                "nothing is sent after the end"
            );
            let first = datagrams.entry(sent.serial).or_insert(&sent.bytes);
            assert_eq!(*first, &sent.bytes, "the identical datagram every time");
        }
        let unique: HashSet<&Vec<u8>> = datagrams.values().copied().collect();
        assert_eq!(unique.len(), datagrams.len());
    }

    /// Each endpoint gets at most one datagram a round and one on completion.
    fn check_rounds(&self) {
        let most = usize::from(self.policy.replays()) + 1 + usize::from(self.policy.completion_delivery());
        let mut copies = HashMap::<_, usize>::new();
        for sent in &self.sim.sent {
            *copies.entry((sent.serial, sent.to)).or_default() += 1;
        }
        assert!(copies.values().all(|copies| *copies <= most));
    }
}

fn policy(random: &mut Rng) -> Policy {
    let unit = 1 + random.u64(..40) as u32;
    let schedule = match random.u64(..3) {
        0 => Schedule::Fixed(1 + random.u64(..3) as u32),
        1 => Schedule::Linear { initial: 1, step: 1 + random.u64(..2) as u32, maximum: 3 },
        _ => Schedule::Exponential { initial: 1, factor: 2, maximum: 1 + random.u64(..4) as u32 },
    };
    let replays = random.u64(..5) as u16;
    let (final_wait, completion) = (random.u64(..3) as u32, random.u64(..100) < 60);
    let policy = Policy::custom(unit, replays, schedule, final_wait, completion).expect("a sound policy");
    let silent_after = [0, 0, 1, 3][random.u64(..4) as usize];
    let policy = policy.with_silent_after(silent_after);
    let bounds = AutoUnit { min_ms: 1 + random.u64(..20) as u32, max_ms: 20 + random.u64(..40) as u32 };
    if random.u64(..100) < 40 { policy.with_auto_unit(bounds).expect("sound bounds") } else { policy }
}

/// A server with one opinion and its own bad habits.
fn server(id: u64, grant: bool, random: &mut Rng) -> Server {
    let mut habits = Rng::with_seed(random.u64(..));
    let honest = [0, 50, 90, 100][random.u64(..4) as usize];
    let delay = [0, 3, 25, 90][random.u64(..4) as usize];
    let endpoints = 1 + random.u64(..2) as u16;
    let script = move |_: usize, _: &sim::server::Receipt| {
        let fault = fault(&mut habits, honest);
        // What must not count claims the opposite, so that a verdict made of it shows.
        let grant = grant == (fault == Fault::None);
        let steering = habits.u64(..3) as u8;
        vec![Reply { after_ms: habits.u64(..delay + 1), grant, steering, fault }]
    };
    Server::new(id, script).with_endpoints(endpoints)
}

fn fault(habits: &mut Rng, honest_percent: u64) -> Fault {
    if habits.u64(..100) < honest_percent {
        return Fault::None;
    }
    match habits.u64(..7) {
        0 => Fault::Auth,
        1 => Fault::Truncated,
        2 => Fault::RequestId,
        3 => Fault::Server(99),
        4 => Fault::Empty,
        5 => Fault::Short,
        _ => Fault::Extra,
    }
}

//! The grid: which worlds are run, and the figures of each. Called by `distances.rs`; it prints nothing.

use super::world::{self, Outcomes, Setting};
use ratelimitly_config::policy::DEFAULT_MIN_MS;
use ratelimitly_core::policy::{AutoUnit, Policy};
use ratelimitly_harness::figures::quantile;

/// Round trips, microseconds.
pub const ROUND_TRIPS_US: [u64; 7] = [100, 1_000, 5_000, 10_000, 25_000, 50_000, 100_000];
/// Shares of datagrams that are lost, in each direction.
pub const LOSSES: [f64; 3] = [0.0, 0.001, 0.01];
/// Servers, and whether the oldest one is dead.
pub const FLEETS: [(u64, bool); 5] = [(1, false), (3, false), (3, true), (5, false), (5, true)];

/// The arguments of `ratelimitly_policy`, and what they mean.
type Named = (&'static str, fn() -> Policy);

/// The policies.
pub const POLICIES: [Named; 4] = [
    ("standard", standard),
    ("single_round", single_round),
    ("standard unit=auto max=200ms silent_after=5", standard_auto),
    ("single_round unit=auto max=200ms silent_after=5", single_round_auto),
];

fn standard() -> Policy {
    Policy::standard(20).expect("the default policy")
}

fn single_round() -> Policy {
    Policy::single_round(20).expect("the default policy")
}

fn standard_auto() -> Policy {
    auto(standard())
}

fn single_round_auto() -> Policy {
    auto(single_round())
}

fn auto(policy: Policy) -> Policy {
    let bounds = AutoUnit { min_ms: DEFAULT_MIN_MS, max_ms: 200 };
    policy.with_auto_unit(bounds).expect("sound bounds").with_silent_after(5)
}

/// One world's figures.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Which of [`POLICIES`].
    pub policy: &'static str,
    /// Of the world.
    pub setting: Setting,
    /// Milliseconds that an admission took, failures included.
    pub p50_ms: f64,
    /// As above.
    pub p99_ms: f64,
    /// Datagrams to each server for each admission: questions, replays and completion deliveries.
    pub questions: f64,
    /// Datagrams that the worker sends and receives for each admission: what its processor time follows.
    pub datagrams: f64,
    /// Share of admissions without a verdict.
    pub failures: f64,
}

/// All cells, policy by policy.
pub struct Grid {
    /// In the order of [`POLICIES`], [`FLEETS`], [`LOSSES`], [`ROUND_TRIPS_US`].
    pub cells: Vec<Cell>,
    /// Admissions in each.
    pub admissions: u64,
    /// Where all chance came from.
    pub seed: u64,
}

impl Grid {
    /// Runs every world.
    pub fn run(admissions: u64, seed: u64) -> Grid {
        let mut cells = Vec::new();
        for (policy, make) in POLICIES {
            for (servers, oldest_dead) in FLEETS {
                for loss in LOSSES {
                    for round_trip_us in ROUND_TRIPS_US {
                        let setting = Setting { round_trip_us, loss, policy: make(), servers, oldest_dead };
                        let outcomes = world::run(&setting, admissions, seed);
                        cells.push(Cell::new(policy, setting, &outcomes));
                    }
                }
            }
        }
        Grid { cells, admissions, seed }
    }

    /// The cells of a policy, fleet and loss, by round trip.
    pub fn line(&self, policy: &str, fleet: (u64, bool), loss: f64) -> Vec<&Cell> {
        let is_of = |cell: &&Cell| {
            let Setting { servers, oldest_dead, .. } = cell.setting;
            cell.policy == policy && (servers, oldest_dead) == fleet && cell.setting.loss == loss
        };
        self.cells.iter().filter(is_of).collect()
    }
}

impl Cell {
    fn new(policy: &'static str, setting: Setting, outcomes: &Outcomes) -> Cell {
        let admissions = outcomes.waited_ms.len() as f64;
        let of = |share| quantile(outcomes.waited_ms.iter().copied(), share).unwrap_or(f64::NAN);
        let (sent, received) = (outcomes.counters.sent, outcomes.counters.received);
        let out = (sent.requests + sent.replays + sent.completions) as f64;
        Cell {
            policy,
            p50_ms: of(0.5),
            p99_ms: of(0.99),
            questions: out / admissions / setting.servers as f64,
            datagrams: (out + (received.valid + received.late + received.unknown) as f64) / admissions,
            failures: outcomes.failures as f64 / admissions,
            setting,
        }
    }
}

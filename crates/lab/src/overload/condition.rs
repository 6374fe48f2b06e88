//! The five conditions of the experiment: what users send and what the application can do, before and after the change.

use super::upstream::Capacity;
use clap::ValueEnum;
use serde::Serialize;
use std::time::Duration;

/// What changes while the load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Nothing.
    Baseline,
    /// Share of heavy requests 0 to 40%.
    MoreHeavy,
    /// Light requests take 120 ms instead of 50.
    LongerProcessing,
    /// 8 slots instead of 20.
    FewerSlots,
    /// 30 keys and 600 requests a second instead of 10 and 200.
    MoreKeys,
}

/// What users send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Requests per second, all keys together.
    pub per_second: f64,
    /// Distinct keys.
    pub keys: usize,
    /// Share of requests to `/heavy`, 0 to 1.
    pub heavy: f64,
}

/// Users and application at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scene {
    /// What users send.
    pub traffic: Traffic,
    /// What the application can do.
    pub capacity: Capacity,
}

impl Condition {
    /// All of them, in the order of the tables.
    pub const ALL: [Condition; 5] = [
        Condition::Baseline,
        Condition::MoreHeavy,
        Condition::LongerProcessing,
        Condition::FewerSlots,
        Condition::MoreKeys,
    ];

    /// For tables.
    pub fn title(self) -> &'static str {
        match self {
            Condition::Baseline => "Baseline",
            Condition::MoreHeavy => "More heavy requests",
            Condition::LongerProcessing => "Longer processing",
            Condition::FewerSlots => "Fewer slots",
            Condition::MoreKeys => "More keys",
        }
    }

    /// For file names.
    pub fn slug(self) -> &'static str {
        match self {
            Condition::Baseline => "baseline",
            Condition::MoreHeavy => "more-heavy",
            Condition::LongerProcessing => "longer-processing",
            Condition::FewerSlots => "fewer-slots",
            Condition::MoreKeys => "more-keys",
        }
    }

    /// What changes, for tables.
    pub fn change(self) -> &'static str {
        match self {
            Condition::Baseline => "nothing",
            Condition::MoreHeavy => "share of heavy requests 0 → 40%",
            Condition::LongerProcessing => "light requests 50 → 120 ms",
            Condition::FewerSlots => "slots 20 → 8",
            Condition::MoreKeys => "keys 10 → 30, requests 200 → 600 a second",
        }
    }

    /// Success with `max_conns=20` in the article that the experiment repeats, percent.
    pub fn article(self) -> f64 {
        match self {
            Condition::Baseline => 100.0,
            Condition::MoreHeavy => 66.0,
            Condition::LongerProcessing => 80.0,
            Condition::FewerSlots => 79.0,
            Condition::MoreKeys => 64.0,
        }
    }

    /// The scene before or after the change.
    pub fn scene(self, changed: bool) -> Scene {
        let mut scene = Scene {
            traffic: Traffic { per_second: 200.0, keys: 10, heavy: 0.0 },
            capacity: Capacity {
                slots: 20,
                light: Duration::from_millis(50),
                heavy: Duration::from_millis(300),
            },
        };
        match self {
            _ if !changed => {}
            Condition::Baseline => {}
            Condition::MoreHeavy => scene.traffic.heavy = 0.4,
            Condition::LongerProcessing => scene.capacity.light = Duration::from_millis(120),
            Condition::FewerSlots => scene.capacity.slots = 8,
            Condition::MoreKeys => {
                scene.traffic.keys = 30;
                scene.traffic.per_second = 600.0;
            }
        }
        scene
    }
}

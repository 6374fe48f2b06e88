//! Warming a worker up (`ratelimitly_warm_up`): it sets itself up and looks up its servers when it starts, and tries again until
//! it has found some.
//!
//! Called when a process begins to serve a cycle. It keeps no worker from leaving.

use crate::cycle_conf::CycleConf;
use crate::nginx::cycle::Cycle;
use crate::nginx::timer::{Leaving, Timer};

/// From one try to the next, milliseconds: no discovery begins sooner after one that failed.
const AGAIN_MS: u64 = 1000;

/// Warms the worker up, if it is to be.
pub fn begin(kept: &CycleConf) {
    let settings = kept.settings();
    if settings.warm_up && settings.in_effect && !kept.worker.warm_up(settings, &kept.conf.shared) {
        kept.warm_up.get_or_init(timer).arm(AGAIN_MS);
    }
}

/// Without a master a later cycle may have taken over, which is then the one to be warmed up.
fn timer() -> Timer {
    Timer::new("warming a worker up", Leaving::GoesOn, || {
        Cycle::with_current(|cycle| CycleConf::of_cycle(cycle).map_or((), begin));
    })
}

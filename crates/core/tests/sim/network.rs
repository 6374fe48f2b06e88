//! The simulated network's chances. All of them come from one seed: a simulation repeats exactly.

use fastrand::Rng;

/// What happens to a datagram on its way, in either direction. Different delays reorder.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub loss_percent: u64,
    pub double_percent: u64,
    /// Most milliseconds on the way.
    pub delay_ms: u64,
}

impl Network {
    /// Delivers each datagram once and at once.
    pub fn perfect() -> Network {
        Network { loss_percent: 0, double_percent: 0, delay_ms: 0 }
    }

    /// The delays of the copies that arrive.
    pub fn deliveries(&self, random: &mut Rng) -> Vec<u64> {
        if random.u64(..100) < self.loss_percent {
            return Vec::new();
        }
        let copies = 1 + usize::from(random.u64(..100) < self.double_percent);
        (0..copies).map(|_| random.u64(..self.delay_ms + 1)).collect()
    }
}

//! The simulated network's chances, and the generator that all chance comes from.

/// A small seeded generator (SplitMix64): the simulation must repeat exactly for a printed seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True with a probability of so many percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

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
    pub fn deliveries(&self, random: &mut Random) -> Vec<u64> {
        if random.chance(self.loss_percent) {
            return Vec::new();
        }
        let copies = 1 + usize::from(random.chance(self.double_percent));
        (0..copies).map(|_| random.below(self.delay_ms + 1)).collect()
    }
}

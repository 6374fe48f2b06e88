//! How many different clients there were, in 256 bytes: HyperLogLog (Flajolet and others, 2007), with its linear counting
//! where there are few. Off by 7% or so; two counts can be joined. Used by `timeline.rs`.

use std::hash::{DefaultHasher, Hash, Hasher};

const REGISTERS: usize = 256;

/// A count of different texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distinct {
    registers: Box<[u8; REGISTERS]>,
}

impl Default for Distinct {
    fn default() -> Distinct {
        Distinct { registers: Box::new([0; REGISTERS]) }
    }
}

impl Distinct {
    /// Counts a text unless it was counted before.
    pub fn add(&mut self, text: &str) {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = hasher.finish();
        let register = &mut self.registers[hash as usize % REGISTERS];
        // The register's number took 8 bits: 57 at most are left.
        *register = (*register).max((hash >> 8).trailing_zeros().min(56) as u8 + 1);
    }

    /// Counts what another one has counted.
    pub fn merge(&mut self, other: &Distinct) {
        let pairs = self.registers.iter_mut().zip(other.registers.iter());
        pairs.for_each(|(mine, other)| *mine = (*mine).max(*other));
    }

    /// About how many.
    pub fn estimate(&self) -> f64 {
        let m = REGISTERS as f64;
        let empty = self.registers.iter().filter(|register| **register == 0).count();
        let sum: f64 = self.registers.iter().map(|register| (-f64::from(*register)).exp2()).sum();
        let raw = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        if raw <= 2.5 * m && empty > 0 { m * (m / empty as f64).ln() } else { raw }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_told_apart() {
        for count in [10, 100, 1000, 30_000] {
            let (mut all, mut half) = (Distinct::default(), Distinct::default());
            for nth in 0..count {
                let text = format!("10.0.{}.{}", nth / 250, nth % 250);
                if nth % 2 == 0 {
                    all.add(&text)
                } else {
                    half.add(&text)
                }
                all.add("10.0.0.0");
            }
            all.merge(&half);
            let off = all.estimate() / f64::from(count) - 1.0;
            assert!(off.abs() < 0.15, "{count}: {off}");
        }
    }
}

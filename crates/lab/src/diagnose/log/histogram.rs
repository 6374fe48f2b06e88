//! Times in steps of about 4%, with the mean of each step: a median in bounded memory, exact where times are alike. Two of
//! them can be added. Used by `timeline.rs` and `tally.rs`.

/// Steps for each doubling, and the shortest time that has a step of its own, seconds.
const PER_DOUBLING: f64 = 16.0;
const SHORTEST: f64 = 0.000_5;

/// A histogram of times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Steps that have any, in order.
    steps: Vec<Step>,
    count: u64,
    sum: f64,
}

/// Times that are nearly the same.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    number: u16,
    count: u64,
    /// All of them together, seconds.
    sum: f64,
}

impl Histogram {
    /// Adds a time, seconds.
    pub fn add(&mut self, seconds: f64) {
        let number = (seconds.max(SHORTEST) / SHORTEST).log2() * PER_DOUBLING;
        self.put(Step { number: number.round() as u16, count: 1, sum: seconds });
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Histogram) {
        other.steps.iter().for_each(|step| self.put(*step));
    }

    fn put(&mut self, step: Step) {
        self.count += step.count;
        self.sum += step.sum;
        match self.steps.binary_search_by_key(&step.number, |step| step.number) {
            Ok(at) => {
                self.steps[at].count += step.count;
                self.steps[at].sum += step.sum;
            }
            Err(at) => self.steps.insert(at, step),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them together, seconds.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The median within 4%, seconds.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// The time that this share of them does not exceed.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let step = self.steps.iter().find(|step| {
            seen += step.count;
            seen >= wanted
        })?;
        Some(step.sum / step.count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_close_and_survive_merging() {
        let (mut all, mut other) = (Histogram::default(), Histogram::default());
        (1..=50).for_each(|ms| all.add(f64::from(ms) / 1000.0));
        (51..=99).for_each(|ms| other.add(f64::from(ms) / 1000.0));
        all.merge(&other);
        let median = all.median().expect("there are some");
        assert!((0.0485..0.0515).contains(&median), "{median}");
        assert_eq!((all.count(), (all.sum() * 1000.0).round()), (99, 4950.0));
        assert_eq!(Histogram::default().median(), None);
    }
}

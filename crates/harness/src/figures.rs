//! Quantiles of what was measured. Used by every program that prints figures. They are values that occurred, of at most some
//! hundred thousand, so that sorting them is cheap and nothing is rounded.

/// The value at this share (0 to 1) of the sorted values, the nearest one; `None` where there are no values.
pub fn quantile(values: impl IntoIterator<Item = f64>, share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share).round() as usize])
}

/// The middle value; `None` where there are no values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    quantile(values, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values = [4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(median(values), Some(3.0));
        assert_eq!(quantile(values, 0.99), Some(5.0));
        assert_eq!(quantile(values, 0.0), Some(1.0));
        assert_eq!(median([]), None);
    }
}

//! One value for all that are equal but for noise, so that a network keeps its symmetry.

/// Neighbours in order that differ by more belong to different groups.
const GAP: f64 = 0.06;
/// A group that is wider than noise makes it is none: its members differ.
const NOISE: f64 = 0.035;

/// Rounds each value to the median of its group: values between which there are no gaps, and which vary about their
/// median no more than by `spread` or by a few per cent.
pub(super) fn round(values: &mut [f64], spread: f64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut start = 0;
    for end in 1..=order.len() {
        let is_gap = end == order.len() || values[order[end]] > (1.0 + GAP) * values[order[end - 1]];
        if !is_gap {
            continue;
        }
        let group = &order[start..end];
        let middle = values[group[group.len() / 2]];
        let deviation = group.iter().map(|at| (values[*at] / middle - 1.0).powi(2)).sum::<f64>();
        if (deviation / group.len() as f64).sqrt() <= NOISE.max(1.5 * spread.min(0.1)) {
            group.iter().for_each(|at| values[*at] = middle);
        }
        start = end;
    }
}

/// The one in the middle; `None` of none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], expected: &[f64]) {
        let mut rounded = values.to_vec();
        round(&mut rounded, 0.0);
        assert_eq!(rounded, expected, "{values:?}");
    }

    #[test]
    fn noise_is_rounded_and_differences_are_kept() {
        check(&[], &[]);
        check(&[7.0], &[7.0]);
        check(&[99.0, 101.0, 100.0], &[100.0, 100.0, 100.0]);
        check(&[99.0, 20.0, 100.0, 20.5, 101.0], &[100.0, 20.5, 100.0, 20.5, 100.0]);
        // Cables of every speed are no group, though each is near the next.
        let many: Vec<f64> = (0..20).map(|step| 100.0 + 5.0 * f64::from(step)).collect();
        check(&many, &many);
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([]), None);
    }
}

//! Latencies of links, from times between hosts.

use super::rounding::median;
use crate::units::Seconds;

/// Latencies that differ by less are equal: they are noisy.
const ALIKE: f64 = 3.0;
/// Of latencies that are not alike, neighbours in order that differ by more are not equal.
const APART: f64 = 2.0;
/// How often the latencies of links are corrected.
const CORRECTIONS: usize = 50;

/// The latency of every link, given the links on the way and the time of each sample: one for all, unless they differ
/// much. `None` without samples.
pub(super) fn latencies(links: usize, samples: &[(Vec<usize>, Seconds)]) -> Option<Vec<Seconds>> {
    let common =
        median(samples.iter().filter(|(way, _)| !way.is_empty()).map(|(way, time)| time / way.len() as f64))?;
    let mut values = vec![common; links];
    for _ in 0..CORRECTIONS {
        let mut corrections = vec![(0.0, 0usize); links];
        for (way, time) in samples {
            let ratio = time / way.iter().map(|link| values[*link]).sum::<f64>();
            for link in way {
                corrections[*link] = (corrections[*link].0 + ratio, corrections[*link].1 + 1);
            }
        }
        for (value, (sum, count)) in values.iter_mut().zip(corrections) {
            *value *= if count > 0 { (sum / count as f64).clamp(0.1, 10.0) } else { 1.0 };
        }
    }
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    // The comparison is false, too, where a number is none.
    if !(most > ALIKE * least && least > 0.0 && most.is_finite()) {
        return Some(vec![common; links]);
    }
    let mut order: Vec<usize> = (0..links).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let before = values.clone();
    let groups = order.chunk_by(|one, other| before[*other] <= APART * before[*one]);
    for group in groups {
        let middle = before[group[group.len() / 2]];
        group.iter().for_each(|link| values[*link] = middle);
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_one_latency_and_a_slow_link_is_found() {
        let noisy = [(vec![0], 1.0), (vec![1], 1.7), (vec![0, 1], 2.2), (vec![2], 1.1)];
        assert_eq!(latencies(3, &noisy), Some(vec![1.1; 3]));
        let slow = [(vec![0], 1.0), (vec![1, 2], 11.0), (vec![0, 1], 2.1), (vec![2], 10.0)];
        let found = latencies(3, &slow).unwrap();
        assert!(found[0] == found[1] && (0.8..1.3).contains(&found[0]), "{found:?}");
        assert!((8.0..12.0).contains(&found[2]), "{found:?}");
        assert_eq!(latencies(3, &[]), None);
    }
}

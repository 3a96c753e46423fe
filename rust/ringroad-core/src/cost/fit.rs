//! Fits the coefficients of the cost model to measured times: least squares with coefficients that are not negative.
//!
//! A time is the sum of its schedule's terms (steps, further messages, hops, bytes on links, bytes reduced), each times
//! a coefficient. How often each coefficient counts is computed with the model itself, one coefficient at a time.
//! Deviations are relative, so that microseconds count as much as seconds. Large deviations count less (Huber, Robust
//! estimation of a location parameter, Annals of Mathematical Statistics 35(1), 1964), so that a disturbed measurement
//! does not distort the result. There are so few coefficients that every choice of those that are 0 is tried, which
//! makes the result exact.
//!
//! Incast is not fitted: the senders of a port are also further messages of the receiver, and only measurements on
//! another network could separate the two. So the coefficient of further messages includes incast.

use serde::{Deserialize, Serialize};

use super::model::CostModel;
use super::step::ScheduleCost;
use crate::units::{Bytes, Seconds};

/// A measured time of a schedule.
#[derive(Debug, Clone, Copy)]
pub struct TimedSchedule<'a> {
    /// The cost of the schedule.
    pub cost: &'a ScheduleCost,
    /// The size of the vector.
    pub bytes: Bytes,
    /// The measured time.
    pub seconds: Seconds,
}

/// A fitted model, and how well it predicts the measurements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The model.
    pub model: CostModel,
    /// How many observations it was fitted to.
    pub observations: usize,
    /// The median error of its predictions, as a fraction of the measured time.
    pub median_error: f64,
    /// The error that nine tenths of its predictions do not exceed, as a fraction of the measured time.
    pub p90_error: f64,
    /// The largest error of its predictions, as a fraction of the measured time.
    pub worst_error: f64,
}

/// Why no model can be fitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    /// There are no observations.
    #[error("there are no measurements to fit a model to")]
    Empty,
    /// A time that is not finite or not above 0.
    #[error("a measurement of {0} seconds is impossible; times must be finite and above 0")]
    Time(Seconds),
    /// All schedules send nothing, so that no coefficient counts.
    #[error("the measured schedules have no steps; measure with two ranks or more")]
    Nothing,
}

/// The coefficients that are fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Coefficient {
    Step,
    Message,
    Hop,
    /// Seconds per byte of a link.
    Link,
    Reduction,
}

const COEFFICIENTS: [Coefficient; 5] =
    [Coefficient::Step, Coefficient::Message, Coefficient::Hop, Coefficient::Link, Coefficient::Reduction];
const COUNT: usize = COEFFICIENTS.len();

/// The largest bandwidth, for links whose time is too short to measure. It is finite, so that files can store it.
const FASTEST: f64 = 1e15;
/// Deviations of up to this many standard deviations count in full.
const HUBER: f64 = 1.345;
/// The most rounds of reweighting; later rounds would gain nothing.
const ROUNDS: usize = 30;
/// A column counts as a combination of the others where less than this share of its squared length is independent of
/// them.
const INDEPENDENT: f64 = 1e-9;

type Equation = [f64; COUNT];

impl Coefficient {
    /// `model` with this value of the coefficient.
    fn put(self, model: CostModel, value: f64) -> CostModel {
        match self {
            Coefficient::Step => CostModel { step_latency: value, ..model },
            Coefficient::Message => CostModel { message_latency: value, ..model },
            Coefficient::Hop => CostModel { hop_latency: Some(value), ..model },
            Coefficient::Link => {
                let bandwidth = if value > 1.0 / FASTEST { 1.0 / value } else { FASTEST };
                CostModel { bandwidth: Some(bandwidth), ..model }
            }
            Coefficient::Reduction => CostModel { reduce_cost: value, ..model },
        }
    }
}

/// `model` with all coefficients 0. What remains are the links' own extra latencies.
fn free(model: &CostModel) -> CostModel {
    let mut free = *model;
    (free.step_latency, free.message_latency, free.incast_latency) = (0.0, 0.0, 0.0);
    free.reduce_cost = 0.0;
    (free.hop_latency, free.bandwidth) = (Some(0.0), Some(f64::INFINITY));
    free
}

/// The model that predicts these observations best. Coefficients on which no observation depends keep their value in
/// `prior`.
pub fn fit(prior: &CostModel, observations: &[TimedSchedule<'_>]) -> Result<Fit, FitError> {
    if observations.is_empty() {
        return Err(FitError::Empty);
    }
    if let Some(wrong) = observations.iter().find(|o| !o.seconds.is_finite() || o.seconds <= 0.0) {
        return Err(FitError::Time(wrong.seconds));
    }
    let free = free(prior);
    let rows: Vec<Equation> = observations.iter().map(|o| row(&free, o)).collect();
    // The links' own extra latencies are subtracted: no coefficient is to explain them.
    let wanted: Vec<f64> =
        observations.iter().map(|o| 1.0 - free.seconds(o.cost, o.bytes) / o.seconds).collect();
    if rows.iter().flatten().all(|entry| *entry == 0.0) {
        return Err(FitError::Nothing);
    }
    let values = robust(&rows, &wanted);
    let model = (0..COUNT).fold(free, |model, i| {
        if rows.iter().all(|row| row[i] == 0.0) {
            untouched(COEFFICIENTS[i], model, prior)
        } else {
            COEFFICIENTS[i].put(model, values[i])
        }
    });
    let error = |o: &TimedSchedule<'_>| (model.seconds(o.cost, o.bytes) / o.seconds - 1.0).abs();
    let mut errors: Vec<f64> = observations.iter().map(error).collect();
    errors.sort_by(f64::total_cmp);
    let quantile = |share: f64| errors[((errors.len() - 1) as f64 * share).round() as usize];
    Ok(Fit {
        model,
        observations: errors.len(),
        median_error: quantile(0.5),
        p90_error: quantile(0.9),
        worst_error: quantile(1.0),
    })
}

/// `model` with the coefficient's value in `prior`.
fn untouched(coefficient: Coefficient, model: CostModel, prior: &CostModel) -> CostModel {
    match coefficient {
        Coefficient::Step => CostModel { step_latency: prior.step_latency, ..model },
        Coefficient::Message => CostModel {
            message_latency: prior.message_latency,
            incast_latency: prior.incast_latency,
            ..model
        },
        Coefficient::Hop => CostModel { hop_latency: prior.hop_latency, ..model },
        Coefficient::Link => CostModel { bandwidth: prior.bandwidth, ..model },
        Coefficient::Reduction => CostModel { reduce_cost: prior.reduce_cost, ..model },
    }
}

/// How often each coefficient counts in the observed time, divided by that time.
fn row(free: &CostModel, observation: &TimedSchedule<'_>) -> Equation {
    let TimedSchedule { cost, bytes, seconds } = *observation;
    let without = free.seconds(cost, bytes);
    COEFFICIENTS.map(|coefficient| (coefficient.put(*free, 1.0).seconds(cost, bytes) - without) / seconds)
}

/// Least squares in which large deviations count less.
fn robust(rows: &[Equation], wanted: &[f64]) -> Equation {
    let mut weights = vec![1.0; rows.len()];
    let mut values = least_squares(rows, wanted, &weights);
    for _ in 0..ROUNDS {
        let deviations: Vec<f64> =
            rows.iter().zip(wanted).map(|(row, wanted)| (product(row, &values) - wanted).abs()).collect();
        let mut sorted = deviations.clone();
        sorted.sort_by(f64::total_cmp);
        // The median deviation of a normal distribution is 0.6745 standard deviations.
        let limit = HUBER * sorted[sorted.len() / 2] / 0.6745;
        if limit < f64::EPSILON {
            break;
        }
        let weight = |deviation: &f64| if *deviation > limit { limit / deviation } else { 1.0 };
        weights = deviations.iter().map(weight).collect();
        let next = least_squares(rows, wanted, &weights);
        if next == values {
            break;
        }
        values = next;
    }
    values
}

/// The values, none negative, with the least weighted sum of squared deviations; among equals those with the most
/// zeros.
fn least_squares(rows: &[Equation], wanted: &[f64], weights: &[f64]) -> Equation {
    let mut squares = [[0.0; COUNT]; COUNT];
    let mut sides = [0.0; COUNT];
    for ((row, wanted), weight) in rows.iter().zip(wanted).zip(weights) {
        for i in 0..COUNT {
            sides[i] += weight * row[i] * wanted;
            (0..COUNT).for_each(|j| squares[i][j] += weight * row[i] * row[j]);
        }
    }
    let misfit = |values: &Equation| -> f64 {
        let each = rows.iter().zip(wanted).zip(weights);
        each.map(|((row, wanted), weight)| weight * (product(row, values) - wanted).powi(2)).sum()
    };
    let mut subsets: Vec<u32> = (0..1 << COUNT).collect();
    subsets.sort_by_key(|subset| subset.count_ones());
    let mut best = [0.0; COUNT];
    let mut least = misfit(&best);
    for subset in subsets {
        let Some(values) = solve(&squares, &sides, subset) else { continue };
        let misfit = misfit(&values);
        if values.iter().all(|value| *value >= 0.0) && misfit < least * (1.0 - 1e-9) {
            (best, least) = (values, misfit);
        }
    }
    best
}

/// The solution in which only the coefficients of `subset` may differ from 0, by Cholesky's factorisation; `None` where
/// the coefficients depend on each other.
fn solve(squares: &[[f64; COUNT]; COUNT], sides: &Equation, subset: u32) -> Option<Equation> {
    let used: Vec<usize> = (0..COUNT).filter(|i| subset >> i & 1 == 1).collect();
    // Columns are scaled: seconds per byte and seconds per step differ by many orders of magnitude.
    let scale: Vec<f64> = used.iter().map(|i| squares[*i][*i].sqrt()).collect();
    if scale.contains(&0.0) {
        return None;
    }
    let n = used.len();
    let mut lower = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| lower[i][k] * lower[j][k]).sum();
            let entry = squares[used[i]][used[j]] / (scale[i] * scale[j]) - known;
            if i == j && entry < INDEPENDENT {
                return None;
            }
            lower[i][j] = if i == j { entry.sqrt() } else { entry / lower[j][j] };
        }
    }
    let mut solution = vec![0.0; n];
    for i in 0..n {
        let known: f64 = (0..i).map(|k| lower[i][k] * solution[k]).sum();
        solution[i] = (sides[used[i]] / scale[i] - known) / lower[i][i];
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|k| lower[k][i] * solution[k]).sum();
        solution[i] = (solution[i] - known) / lower[i][i];
    }
    let mut values = [0.0; COUNT];
    (0..n).for_each(|i| values[used[i]] = solution[i] / scale[i]);
    Some(values)
}

fn product(row: &Equation, values: &Equation) -> f64 {
    row.iter().zip(values).map(|(entry, value)| entry * value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms;
    use crate::collective::Collective;
    use crate::topology::Topology;

    const TRUE: CostModel = CostModel {
        step_latency: 3e-6,
        message_latency: 4e-7,
        incast_latency: 0.0,
        hop_latency: Some(2e-7),
        bandwidth: Some(5e9),
        reduce_cost: 8e-11,
        overlapped: false,
        cores: None,
        over_links: false,
        codec_cost: 0.0,
    };

    /// The costs of all algorithms for these collectives on a topology, each with several sizes.
    fn costs(topology: &str, collectives: &[Collective]) -> Vec<(ScheduleCost, Bytes)> {
        let topology = Topology::parse(topology).unwrap();
        let mut found = Vec::new();
        for collective in collectives {
            for member in algorithms::available(&topology, *collective) {
                let cost =
                    ScheduleCost::from_schedule(&member.build(&topology, *collective).unwrap(), &topology)
                        .unwrap();
                found.extend((3..26).step_by(3).map(|power| (cost.clone(), 1 << power)));
            }
        }
        found
    }

    const ALL: &[Collective] =
        &[Collective::Allreduce, Collective::Allgather, Collective::Broadcast { root: 0 }];

    /// A pseudorandom number between -1 and 1, the same on every machine.
    fn noise(seed: usize) -> f64 {
        let hash = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ hash >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (hash >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn fitted(topology: &str, collectives: &[Collective], disturb: impl Fn(usize) -> f64) -> Fit {
        let costs = costs(topology, collectives);
        let mut observations = Vec::new();
        for (i, (cost, bytes)) in costs.iter().enumerate() {
            let seconds = TRUE.seconds(cost, *bytes) * disturb(i);
            observations.push(TimedSchedule { cost, bytes: *bytes, seconds });
        }
        fit(&CostModel::default(), &observations).unwrap()
    }

    fn check(found: &CostModel, tolerance: f64) {
        let numbers = |m: &CostModel| {
            [m.step_latency, m.message_latency, m.hop_latency.unwrap(), m.bandwidth.unwrap(), m.reduce_cost]
        };
        for (found, wanted) in numbers(found).iter().zip(numbers(&TRUE)) {
            assert!((found / wanted - 1.0).abs() < tolerance, "{found:e} instead of {wanted:e}");
        }
    }

    #[test]
    fn exact_times_give_the_exact_model() {
        for topology in ["ring:9", "torus:4x4"] {
            let found = fitted(topology, ALL, |_| 1.0);
            check(&found.model, 1e-6);
            assert!(found.worst_error < 1e-6 && found.observations > 100, "{found:?}");
        }
    }

    #[test]
    fn noise_averages_out_and_what_is_disturbed_counts_little() {
        let noisy = fitted("torus:4x4", ALL, |i| 1.0 + 0.05 * noise(i));
        check(&noisy.model, 0.1);
        assert!(noisy.median_error < 0.04 && noisy.worst_error < 0.1, "{noisy:?}");
        // Every ninth measurement takes ten times as long.
        let spoilt = |i: usize| (1.0 + 0.02 * noise(i)) * if i % 9 == 4 { 10.0 } else { 1.0 };
        let found = fitted("torus:4x4", ALL, spoilt);
        check(&found.model, 0.15);
        assert!(found.median_error < 0.05 && (0.85..0.95).contains(&found.worst_error), "{found:?}");
    }

    /// Behind a switch every message takes two hops, so step latency and hop latency cannot be separated, but their sum
    /// is determined.
    #[test]
    fn what_cannot_be_told_apart_is_still_right_together() {
        let found = fitted("switch:8", ALL, |_| 1.0);
        assert!(found.worst_error < 1e-6, "{found:?}");
        let fixed = |m: &CostModel| m.step_latency + 2.0 * m.hop_latency.unwrap();
        assert!((fixed(&found.model) / fixed(&TRUE) - 1.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn nothing_is_negative_and_what_is_not_measured_stays() {
        // Times that fall with the bytes.
        let costs = costs("ring:5", &[Collective::Allgather]);
        let observe =
            |(cost, bytes): &(ScheduleCost, Bytes)| 1e-3 / (*bytes as f64 + cost.steps.len() as f64);
        let observations: Vec<_> =
            costs.iter().map(|c| TimedSchedule { cost: &c.0, bytes: c.1, seconds: observe(c) }).collect();
        let prior = CostModel { reduce_cost: 7.0, ..CostModel::default() };
        let found = fit(&prior, &observations).unwrap().model;
        assert!(found.step_latency >= 0.0 && found.message_latency >= 0.0 && found.hop_latency >= Some(0.0));
        assert!(found.bandwidth.is_some_and(|b| b > 0.0 && b.is_finite()), "{found:?}");
        assert_eq!(found.reduce_cost, 7.0, "an allgather tells nothing of reductions");
    }

    #[test]
    fn what_cannot_be_fitted_is_refused() {
        let prior = CostModel::default();
        assert_eq!(fit(&prior, &[]), Err(FitError::Empty));
        let nothing = ScheduleCost::default();
        let observe = |seconds| TimedSchedule { cost: &nothing, bytes: 8, seconds };
        assert_eq!(fit(&prior, &[observe(1.0)]), Err(FitError::Nothing));
        assert_eq!(fit(&prior, &[observe(0.0)]), Err(FitError::Time(0.0)));
        assert!(fit(&prior, &[observe(f64::NAN)]).is_err());
    }
}

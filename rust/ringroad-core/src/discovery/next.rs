//! What to measure once more after the first rounds.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::{Evidence, Round};
use super::experiments::{direct, experiments, Effort};
use super::matchings::{alone, Flows};
use super::racks::{are_separate, Racks};
use super::rates::{are_like, flows, Load, Loads, SURE};
use super::rounding::median;
use super::wiring::Wiring;

/// How much more than together with others a link carries alone where a NIC is shared.
const SHARED: f64 = 1.15;

/// The rounds to run after those in the evidence, in this order; none if it suffices.
pub fn next_experiments(evidence: &Evidence, effort: Effort) -> Vec<Flows> {
    let wiring = Wiring::from_traces(&evidence.hosts, &evidence.traces);
    let room = (2 * effort.rounds).saturating_sub(evidence.rounds.len());
    let mut rounds = match wiring.is_opaque() && !are_separate(evidence) {
        true => racks(&wiring, evidence, effort),
        false => rest_alone(&wiring, evidence),
    };
    rounds.truncate(room);
    rounds
}

/// The rounds of the evidence, each once, with flows whose highest rates were starved and have not been shown again; where
/// they are unlike the others, not twice.
pub fn starved_experiments(evidence: &Evidence) -> Vec<Flows> {
    let mut loads: BTreeMap<(usize, usize), Loads> = BTreeMap::new();
    for (pair, load) in evidence.rounds.iter().flat_map(|round| flows(round, evidence.hosts.len())) {
        loads.entry(pair).or_default().push(load);
    }
    let pairs = |round: &Round| -> Flows { round.flows.iter().map(|flow| (flow.from, flow.to)).collect() };
    let usual = median(loads.values().map(Loads::highest)).unwrap_or(0.0);
    let enough = |loads: &Loads| if are_like(loads.highest(), usual) { 2 } else { SURE };
    let is_starved = |pair: &_| loads.get(pair).is_some_and(|loads| loads.is_starved(enough(loads)));
    let rounds = evidence.rounds.iter().map(pairs).filter(|flows| flows.iter().any(is_starved));
    rounds.collect::<BTreeSet<Flows>>().into_iter().collect()
}

/// Two rounds that test what racks there seem to be, until four have changed nothing; then again what one round alone
/// showed.
fn racks(wiring: &Wiring, evidence: &Evidence, effort: Effort) -> Vec<Flows> {
    let racks = Racks::from_evidence(evidence);
    let count = evidence.rounds.len();
    if !racks.is_shared {
        return Vec::new();
    }
    let first = experiments(wiring, effort).len();
    let is_steady = |tests: usize| {
        let mut before = evidence.clone();
        before.rounds.truncate(count - tests);
        Racks::from_evidence(&before).racks == racks.racks
    };
    let telling = (count > first).then(|| racks.telling(count)).flatten();
    if count >= first + 4 && !racks.has_open() && telling.is_none() && is_steady(2) && is_steady(4) {
        return racks.unrepeated(evidence).into_iter().collect();
    }
    match telling {
        Some(flows) => vec![flows],
        None => racks.tests(count),
    }
}

/// Where links carry more alone than all together, those that have not been measured alone.
fn rest_alone(wiring: &Wiring, evidence: &Evidence) -> Vec<Flows> {
    let rounds: Vec<_> = evidence.rounds.iter().map(|round| flows(round, wiring.hosts)).collect();
    let most_together = |flows: &BTreeMap<(usize, usize), Load>| {
        let mut sends = vec![0; wiring.hosts];
        flows.keys().for_each(|(from, _)| sends[*from] += 1);
        sends.into_iter().max().unwrap_or(0)
    };
    let (mut best_alone, mut best_together) = (BTreeMap::new(), BTreeMap::new());
    for flows in &rounds {
        let best = if most_together(flows) > 1 { &mut best_together } else { &mut best_alone };
        for (pair, load) in flows {
            let kept = best.entry(*pair).or_insert(load.rate);
            *kept = load.rate.max(*kept);
        }
    }
    let more = |(pair, alone): (&(usize, usize), &f64)| {
        best_together.get(pair).is_some_and(|rate| *alone > SHARED * rate)
    };
    if !best_alone.iter().any(more) {
        return Vec::new();
    }
    alone(wiring.hosts, &direct(wiring), &best_alone.into_keys().collect())
}

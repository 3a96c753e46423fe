//! What rank 0 wants to be measured, round by round.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ringroad_core::discovery::{
    experiments, next_experiments, starved_experiments, Effort, Evidence, Flow, Latency, Round, TracedRoute,
    Wiring,
};
use serde::{Deserialize, Serialize};

use super::history::{self, HistoryFile};
use super::DiscoveryLimits;

/// How long flows of one round run.
const SHORTEST: Duration = Duration::from_millis(60);
pub(super) const LONGEST_FLOW: Duration = Duration::from_millis(250);
/// Time is kept for this many rounds, which only the first ones show to be needed.
const RESERVE: usize = 4;
/// A round begins so long after rank 0 has announced it: flows that began earlier would delay the news to others.
const LEAD: Duration = Duration::from_millis(30);
/// What a round takes besides.
const OVERHEAD: Duration = Duration::from_millis(50);
/// How often the rounds run while there is time, and how often those whose flows were starved.
const TRIES: usize = 2;
const STARVED_TRIES: usize = 4;

/// What rank 0 wants to be measured, round by round.
pub(super) struct MeasurementPlan {
    /// What is remembered of this network, and the flows by which it is checked.
    recalled: Option<(Evidence, Vec<Flow>)>,
    /// What is known besides rates.
    evidence: Evidence,
    /// The first rounds, which are repeated while there is time.
    rounds: Vec<Vec<(usize, usize)>>,
    /// Whether what they show decides what else is measured.
    goes_on: bool,
    /// The rounds that come next.
    ahead: VecDeque<Vec<(usize, usize)>>,
    tries: usize,
    /// The most rounds that may still be asked for.
    most: usize,
    /// Whether the result of the last round is still to come: with the next exchange.
    is_waiting: bool,
    /// How many more rounds run even if the time is over.
    owed: usize,
    checked: bool,
    deadline: Instant,
    /// When the clock of this host began.
    epoch: Instant,
}

/// What all ranks do next.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Next {
    /// These flows run for so many seconds, and begin when it is `start` on the clock of rank 0's host.
    Measure { flows: Vec<(usize, usize)>, seconds: f64, start: f64 },
    /// Nothing more. What was remembered still holds, if it is there.
    End(Option<Recalled>),
}

/// What was measured by an earlier job, as other ranks need it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Recalled {
    pub traces: Vec<TracedRoute>,
    pub rounds: Vec<Round>,
    pub latencies: Vec<Latency>,
}

impl MeasurementPlan {
    pub fn new(
        evidence: &Evidence,
        wiring: &Wiring,
        memory: Option<&HistoryFile>,
        limits: &DiscoveryLimits,
        start: Instant,
        epoch: Instant,
    ) -> MeasurementPlan {
        let recalled = memory.and_then(|memory| memory.recall(evidence));
        let recalled = recalled.map(|then| {
            let sample = history::sample(&then);
            (then, sample)
        });
        // What single flows say of a link is worth something only if they say it again.
        let again = |probes: &Vec<Vec<(usize, usize)>>| -> Vec<Vec<(usize, usize)>> {
            probes.iter().cycle().take(TRIES * probes.len()).cloned().collect()
        };
        let best = || experiments(wiring, Effort::default());
        let rounds = limits.probes.as_ref().map_or_else(best, again);
        MeasurementPlan {
            recalled,
            evidence: evidence.clone(),
            ahead: rounds.iter().cloned().collect(),
            rounds,
            goes_on: limits.probes.is_none() && limits.rounds == usize::MAX,
            tries: 1,
            most: limits.rounds,
            is_waiting: false,
            // However late it is, links are looked at once, and three times where a name may be called wrong.
            owed: match limits.rounds {
                _ if limits.budget.is_zero() => 0,
                usize::MAX => 1,
                rounds => rounds,
            },
            checked: false,
            deadline: start + limits.budget,
            epoch,
        }
    }

    /// The next step, given what was measured so far.
    pub fn next(&mut self, measured: &[Round]) -> Next {
        if let Some((then, sample)) = self.recalled.take() {
            if !self.checked {
                self.checked = true;
                let flows = sample.iter().map(|flow| (flow.from, flow.to)).collect();
                self.recalled = Some((then, sample));
                return self.measure(flows, SHORTEST);
            }
            if measured.is_empty() {
                self.recalled = Some((then, sample));
                return Next::WAIT;
            }
            if history::still_holds(&sample, &measured[0].flows) {
                return Next::End(Some(Recalled {
                    traces: then.traces,
                    rounds: then.rounds,
                    latencies: then.latencies,
                }));
            }
        }
        let left = self.deadline.saturating_duration_since(Instant::now());
        let over = left.is_zero() && self.owed == 0;
        if self.most == 0 || over || self.rounds.is_empty() {
            return Next::End(None);
        }
        // The second round is told how fast the first one was: too much on the way takes long to drain.
        if measured.is_empty() && std::mem::take(&mut self.is_waiting) {
            return Next::WAIT;
        }
        if self.ahead.is_empty() {
            let starved = || measured.iter().flat_map(|round| &round.flows).any(|flow| flow.starved);
            let decides = self.goes_on || self.tries >= TRIES && starved();
            if decides && std::mem::take(&mut self.is_waiting) {
                return Next::WAIT;
            }
            self.look_ahead(measured);
        }
        let share = (left / (self.ahead.len() + RESERVE) as u32).saturating_sub(OVERHEAD);
        match self.ahead.pop_front() {
            Some(flows) if self.tries == 1 || share >= SHORTEST || self.owed > 0 => {
                self.is_waiting = true;
                self.owed = self.owed.saturating_sub(1);
                self.most -= 1;
                self.measure(flows, share.clamp(SHORTEST, LONGEST_FLOW))
            }
            _ => Next::End(None),
        }
    }

    fn measure(&self, flows: Vec<(usize, usize)>, duration: Duration) -> Next {
        let start = (self.epoch.elapsed() + LEAD).as_secs_f64();
        Next::Measure { flows, seconds: duration.as_secs_f64(), start }
    }

    /// Plans what was not needed to be known before, or else the first rounds again.
    fn look_ahead(&mut self, measured: &[Round]) {
        if self.goes_on {
            let rounds = measured.iter().filter(|round| !round.flows.is_empty()).cloned().collect();
            let so_far = Evidence { rounds, ..self.evidence.clone() };
            self.ahead = next_experiments(&so_far, Effort::default()).into();
        }
        if self.ahead.is_empty() && self.tries < TRIES {
            self.tries += 1;
            self.goes_on = false;
            self.ahead = self.rounds.iter().cloned().collect();
        } else if self.ahead.is_empty() && self.tries < STARVED_TRIES {
            self.tries += 1;
            let so_far = Evidence { rounds: measured.to_vec(), ..Evidence::default() };
            self.ahead = starved_experiments(&so_far).into();
        }
    }
}

impl Next {
    /// Nothing is measured, as what was comes with the next exchange.
    const WAIT: Next = Next::Measure { flows: Vec::new(), seconds: 0.0, start: 0.0 };
}

//! Runs the rounds of flows that rank 0 plans.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use ringroad_core::discovery::{Flow, Round, Wiring};
use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use super::plan::{MeasurementPlan, Next, Recalled, LONGEST_FLOW};
use super::probe_agent::{nearest, HostView, ProbeAgent, ProbeFacts};
use super::rates::{self, Measured};
use super::Exchange;
use crate::bootstrap::{refused, unreadable};
use crate::error::Result;

/// The kind under which ranks publish rates, and more bytes than an entry takes.
const RATES: &str = "rates";
const ROUND_BYTES: usize = 1 << 20;
/// How much longer than flows run a receiver waits for their end.
const GRACE: Duration = Duration::from_millis(30);
/// No round begins later than this after a host has heard of it.
const LATEST: Duration = Duration::from_millis(500);

/// What a rank publishes between two rounds of flows.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Between {
    /// Of rank 0: what comes next.
    next: Option<Next>,
    /// The flows that this rank's host received in the round before, by their senders.
    received: Vec<(usize, Measured)>,
    /// The hosts to which it sent while the thread that did waited for its core.
    late: Vec<usize>,
}

impl Between {
    /// Whether it can be what a rank of so many hosts says.
    fn is_sensible(&self, hosts: usize) -> bool {
        let number = |value: f64| value.is_finite() && value >= 0.0;
        let flow = |from: usize, to: usize| from < hosts && to < hosts && from != to;
        let next = match &self.next {
            Some(Next::Measure { flows, seconds, start }) => {
                flows.iter().all(|(from, to)| flow(*from, *to))
                    && number(*seconds)
                    && number(*start)
                    && *seconds <= LONGEST_FLOW.as_secs_f64()
            }
            Some(Next::End(Some(recalled))) => {
                let flows = recalled.rounds.iter().flat_map(|round| &round.flows);
                let rates = flows.map(|one| (one.from, one.to, one.bytes_per_second, one.spread));
                rates
                    .into_iter()
                    .all(|(from, to, rate, spread)| flow(from, to) && number(rate) && number(spread))
                    && recalled.latencies.iter().all(|one| flow(one.from, one.to) && number(one.seconds))
                    && recalled.traces.iter().all(|one| flow(one.from, one.to))
            }
            Some(Next::End(None)) | None => true,
        };
        let received =
            |(from, flow): &(usize, Measured)| *from < hosts && number(flow.average) && number(flow.fastest);
        next && self.received.iter().all(received)
    }
}

/// Runs rounds of flows.
pub(super) struct FlowRunner<'a> {
    pub agent: Option<&'a ProbeAgent>,
    pub facts: &'a [ProbeFacts],
    pub views: &'a [Vec<HostView>],
    pub leaders: &'a [Rank],
    /// By how many seconds the clock of this host is ahead of that of rank 0's, if that is known.
    pub ahead: Option<f64>,
}

impl FlowRunner<'_> {
    /// Runs the rounds that rank 0 plans. Returns what was measured, and what rank 0 remembers instead.
    pub fn run(
        &self,
        exchange: &mut dyn Exchange,
        mut plan: Option<&mut MeasurementPlan>,
        wiring: &Wiring,
    ) -> Result<(Vec<Round>, Option<Recalled>)> {
        let (mut measured, mut between, mut is_measured) = (Vec::new(), Between::default(), false);
        for number in 0.. {
            between.next = plan.as_mut().map(|plan| plan.next(&measured));
            let mut all = self.tell(exchange, number, &between)?;
            if is_measured {
                measured.push(self.round(&all, wiring));
            }
            let (flows, seconds, start) = match all[0].next.take() {
                Some(Next::Measure { flows, seconds, start }) => (flows, seconds, start),
                Some(Next::End(recalled)) => return Ok((measured, recalled)),
                None => return Err(refused(RATES, 0, "it does not say what comes next".to_owned()).into()),
            };
            is_measured = !flows.is_empty();
            let rates = measured.iter().flat_map(|round: &Round| &round.flows);
            let fastest = rates.map(|flow| flow.bytes_per_second).reduce(f64::max);
            between = self.measure(number, &flows, fastest, start, Duration::from_secs_f64(seconds));
        }
        unreachable!("rank 0 ends the rounds")
    }

    /// Sends this host's flows, and returns what came of those to it.
    fn measure(
        &self,
        number: u32,
        flows: &[(usize, usize)],
        fastest: Option<f64>,
        start: f64,
        duration: Duration,
    ) -> Between {
        let mut between = Between::default();
        let Some(agent) = self.agent else { return between };
        let streams = self.connect(agent, number, flows, fastest);
        // Without a common clock a host begins at once.
        let wait = self.ahead.map_or(0.0, |ahead| start + ahead - agent.epoch.elapsed().as_secs_f64());
        if !flows.is_empty() {
            std::thread::sleep(Duration::from_secs_f64(wait.clamp(0.0, LATEST.as_secs_f64())));
        }
        let start = Instant::now();
        between.late = rates::send(streams, duration);
        let until = Instant::now() + GRACE;
        let Some(receiving) = &agent.receiving else { return between };
        let take = |from: usize| {
            Some((from, receiving.take_measurement((number, from as u32), start, duration, until)?))
        };
        let own = flows.iter().filter(|(_, to)| *to == agent.own);
        between.received = own.filter_map(|(from, _)| take(*from)).collect();
        between
    }

    fn connect(
        &self,
        agent: &ProbeAgent,
        number: u32,
        flows: &[(usize, usize)],
        fastest: Option<f64>,
    ) -> Vec<(usize, TcpStream)> {
        let own = || flows.iter().filter(|(from, _)| *from == agent.own);
        let count = own().count();
        let connect = |&(_, to): &(usize, usize)| {
            let view = self.views[agent.own].iter().find(|view| view.to == to)?;
            let facts = &self.facts[to];
            let seen = nearest(&view.seen)?;
            let address = facts.addresses[seen.address];
            let address = SocketAddr::new(address, facts.flows[usize::from(address.is_ipv6())]?);
            // A flow that cannot run is one that is not measured.
            let window = rates::window(seen.seconds, fastest, count);
            Some((to, rates::connect(address, window, &facts.token, number, agent.own as u32).ok()?))
        };
        own().filter_map(connect).collect()
    }

    fn tell(&self, exchange: &mut dyn Exchange, number: u32, value: &Between) -> Result<Vec<Between>> {
        let kind = format!("{RATES}.{number}");
        let text = serde_json::to_vec(value).expect("numbers can be written");
        let most = ROUND_BYTES + self.facts.len() * self.facts.len() * 64;
        let all = exchange.collect(&kind, &text, most)?;
        let read = |(rank, text): (Rank, &Vec<u8>)| -> Result<Between> {
            let one: Between =
                serde_json::from_slice(text).map_err(|e| refused(&kind, rank, unreadable(&e)))?;
            match one.is_sensible(self.facts.len()) {
                true => Ok(one),
                false => Err(refused(&kind, rank, "its rates are invalid".to_owned()).into()),
            }
        };
        all.iter().enumerate().map(read).collect()
    }

    fn round(&self, all: &[Between], wiring: &Wiring) -> Round {
        let received = |(to, rank): (usize, &Rank)| {
            all[*rank].received.iter().map(move |(from, flow)| (*from, to, *flow))
        };
        let flows: Vec<_> = self.leaders.iter().enumerate().flat_map(received).collect();
        let pairs: Vec<(usize, usize)> = flows.iter().map(|&(from, to, _)| (from, to)).collect();
        let flow = |(&(from, to, one), shares): (&(usize, usize, Measured), bool)| Flow {
            from,
            to,
            bytes_per_second: if shares { one.average } else { one.fastest },
            spread: if one.fastest > 0.0 { (1.0 - one.average / one.fastest).max(0.0) } else { 0.0 },
            starved: one.was_late || all[self.leaders[from]].late.contains(&to),
        };
        Round { flows: flows.iter().zip(shared(&pairs, wiring)).map(flow).collect() }
    }
}

/// For each of these flows whether it may share a link with another one. Where the links are not known, all may.
fn shared(flows: &[(usize, usize)], wiring: &Wiring) -> Vec<bool> {
    let known: HashMap<(usize, usize), &[usize]> =
        wiring.paths.iter().map(|path| ((path.from, path.to), &path.edges[..])).collect();
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for (from, to) in flows {
        let edges = known.get(&(*from, *to)).copied().unwrap_or_default();
        edges.iter().for_each(|edge| *counts.entry(*edge).or_default() += 1);
    }
    let shares = |(from, to): &(usize, usize)| match known.get(&(*from, *to)) {
        Some(edges) if !wiring.is_opaque() => edges.iter().any(|edge| counts[edge] > 1),
        _ => flows.len() > 1,
    };
    flows.iter().map(shares).collect()
}

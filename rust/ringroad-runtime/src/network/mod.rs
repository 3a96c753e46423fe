//! What this network is: by which addresses hosts reach each other, over which routes, how fast and how soon.
//!
//! The lowest rank of every host asks and is asked; the others only hear the results. Ranks exchange what they find as they
//! exchange endpoints, so all of them have the same evidence in the end, and [`ringroad_core::discovery`] makes a topology of
//! it. Datagrams and flows go to addresses of this job's ranks and nowhere else, and need no privileges. Nobody decides
//! anything because of silence: what could not be found out is missing, and the result says so.

mod adaptation;
mod connect_probe;
#[allow(unsafe_code)] // reads what the kernel keeps of a datagram besides its content
mod datagram;
mod discovery;
mod exploration;
mod history;
mod plan;
mod probe_agent;
mod rates;
mod reach;
mod report;
mod rounds;
mod servers;
mod trace;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::discovery::{starved_experiments, Evidence, HostFacts, Latency, TracedRoute, Wiring};
use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(crate) use self::adaptation::Follower;
pub use self::discovery::{discover, Discovered};
use self::history::HistoryFile;
use self::plan::MeasurementPlan;
use self::probe_agent::{nearest, stated_speed, trace, HostView, ProbeAgent, ProbeFacts};
use self::report::{found, Gathered};
use self::rounds::FlowRunner;
use self::trace::HOP_TIMEOUTS;
use crate::bootstrap::{hosts, leaders, refused, unreadable, EndpointInfo, Exchange};
use crate::communicator::Discovery;
use crate::error::Result;
use crate::os::ports::PortRange;

/// Gives communicators all of this.
pub const DISCOVERY: Discovery = Discovery {
    explore: exploration::explore,
    adapt: |group| Some(Arc::new(adaptation::Follower::for_group(group)?)),
};

/// The kinds under which ranks publish what they find.
const FACTS: &str = "hosts";
const VIEW: &str = "views";
const VIEW_AGAIN: &str = "views.again";
/// More bytes than the entry of one host takes.
const FACTS_BYTES: usize = 8 << 10;
const PAIR_BYTES: usize = 4 << 10;

/// How much may be done to find out, and where it is remembered.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiscoveryLimits {
    pub budget: Duration,
    pub ports: PortRange,
    /// The directory of what was measured earlier; `None` to measure anew. Only rank 0's is used.
    pub memory: Option<PathBuf>,
    /// The most rounds of flows. Only rank 0's is used.
    pub rounds: usize,
    /// The rounds of flows between hosts; `None` for those that tell the most of an unknown network. The same on all ranks.
    pub probes: Option<Vec<Vec<(usize, usize)>>>,
}

/// Finds out what there is to know. Collective.
pub(crate) fn gather(
    exchange: &mut dyn Exchange,
    endpoints: &[EndpointInfo],
    rank: Rank,
    limits: &DiscoveryLimits,
) -> Result<Gathered> {
    let start = Instant::now();
    let host_of = hosts(endpoints);
    let leaders = leaders(&host_of);
    let own = host_of[rank];
    let agent = (leaders[own] == rank).then(|| ProbeAgent::open(own, limits.ports));

    // First where each host can be asked, then what it hears of the others: who is reached by which address, over which hops.
    let mine = agent.as_ref().map(|agent| &agent.facts);
    let facts = of_hosts(exchange, &leaders, FACTS, mine, FACTS_BYTES, ProbeFacts::check)?;
    let mine =
        agent.as_ref().map(|agent| agent.collect_views(&facts, limits.probes.as_deref().unwrap_or_default()));
    let most = 64 + facts.len() * PAIR_BYTES;
    let check = |views: &Vec<HostView>| views.iter().try_for_each(|view| view.check(&facts));
    let views = of_hosts(exchange, &leaders, VIEW, mine.as_ref(), most, check)?;

    let main = main_addresses(&facts, &views);
    let host = |(facts, rank): (&ProbeFacts, &Rank)| HostFacts {
        name: endpoints[*rank].host.clone(),
        addresses: facts.addresses.clone(),
    };
    let mut evidence = Evidence {
        hosts: facts.iter().zip(&leaders).map(host).collect(),
        host_of,
        traces: traces(&views),
        rounds: Vec::new(),
        latencies: latencies(&views),
    };
    // Rank 0 plans the flows by the routes that were found. If an earlier job has measured the same network, its evidence is
    // taken, once some flows have confirmed it.
    let stated = main.iter().zip(&facts).map(|(main, facts)| facts.stated_by((*main)?)).collect();
    let ahead = clocks(&views)[own];
    let flows = FlowRunner { agent: agent.as_ref(), facts: &facts, views: &views, leaders: &leaders, ahead };
    let wiring = Wiring::from_traces(&evidence.hosts, &evidence.traces);
    let spaces = || leaders.iter().map(|rank| endpoints[*rank].net_space.clone()).collect::<Vec<_>>();
    let memory = limits.memory.as_ref().filter(|_| rank == 0);
    let memory = memory.map(|directory| HistoryFile::in_directory(directory, &spaces(), &evidence));
    let epoch = agent.as_ref().map_or(start, |agent| agent.epoch);
    let mut plan =
        (rank == 0).then(|| MeasurementPlan::new(&evidence, &wiring, memory.as_ref(), limits, start, epoch));
    let (rounds, recalled) = flows.run(exchange, plan.as_mut(), &wiring)?;
    if let Some(then) = recalled {
        (evidence.traces, evidence.rounds, evidence.latencies) = (then.traces, then.rounds, then.latencies);
        return Ok(Gathered { evidence, main, stated });
    }
    evidence.rounds = rounds;
    if limits.probes.is_none() && !evidence.rounds.is_empty() && are_worth_another_look(&evidence.traces) {
        // A second later, kernels are willing to complain again.
        let again = agent.as_ref().map(|_| trace(views[own].clone(), &facts, &HOP_TIMEOUTS[..1]));
        evidence.traces = traces(&of_hosts(exchange, &leaders, VIEW_AGAIN, again.as_ref(), most, check)?);
    }
    // What starved flows say is not worth remembering.
    let is_sure = !evidence.rounds.is_empty() && starved_experiments(&evidence).is_empty();
    if let Some(memory) = memory.filter(|_| is_sure) {
        memory.store(&evidence);
    }
    Ok(Gathered { evidence, main, stated })
}

/// Publishes this host's value, if this rank leads it, and returns those of all hosts, which pass the check.
fn of_hosts<T: Serialize + for<'a> Deserialize<'a>>(
    exchange: &mut dyn Exchange,
    leaders: &[Rank],
    kind: &str,
    value: Option<&T>,
    most: usize,
    check: impl Fn(&T) -> std::result::Result<(), String>,
) -> Result<Vec<T>> {
    let text = value.map(|value| serde_json::to_vec(value).expect("numbers and text can be written"));
    let all = exchange.collect(kind, &text.unwrap_or_default(), most)?;
    let read =
        |rank: &Rank| serde_json::from_slice(&all[*rank]).map_err(|e| refused(kind, *rank, unreadable(&e)));
    let values = leaders.iter().map(read).collect::<std::result::Result<Vec<T>, _>>()?;
    for (value, rank) in values.iter().zip(leaders) {
        check(value).map_err(|reason| refused(kind, *rank, reason))?;
    }
    Ok(values)
}

/// All views, each with the host that has it.
fn each(views: &[Vec<HostView>]) -> impl Iterator<Item = (usize, &HostView)> {
    views.iter().enumerate().flat_map(|(from, views)| views.iter().map(move |view| (from, view)))
}

fn traces(views: &[Vec<HostView>]) -> Vec<TracedRoute> {
    let trace = |(from, view): (usize, &HostView)| TracedRoute {
        from,
        to: view.to,
        hops: view.route.clone(),
        reached: !view.seen.is_empty(),
    };
    each(views).map(trace).collect()
}

/// Whether hops are missing in a network some of whose nodes do answer.
fn are_worth_another_look(traces: &[TracedRoute]) -> bool {
    let between = || traces.iter().flat_map(|trace| trace.hops.iter().rev().skip(1));
    between().any(Option::is_none) && between().any(Option::is_some)
}

/// Half of the time from a question to its answer.
fn latencies(views: &[Vec<HostView>]) -> Vec<Latency> {
    let latency = |(from, view): (usize, &HostView)| {
        Some(Latency { from, to: view.to, seconds: nearest(&view.seen)?.seconds / 2.0 })
    };
    each(views).filter_map(latency).collect()
}

/// By how many seconds the clock of each host is ahead of that of the first one, where they are known to be.
fn clocks(views: &[Vec<HostView>]) -> Vec<Option<f64>> {
    let mut ahead = vec![None; views.len()];
    let mut differences = vec![Vec::new(); views.len()];
    for (from, view) in each(views) {
        if let Some(difference) = nearest(&view.seen).and_then(|seen| seen.ahead) {
            differences[from].push((view.to, difference));
            differences[view.to].push((from, -difference));
        }
    }
    let mut next = VecDeque::from([(0, 0.0)]);
    while let Some((host, known)) = next.pop_front() {
        if ahead[host].is_none() {
            ahead[host] = Some(known);
            next.extend(differences[host].iter().map(|(to, more)| (*to, known + more)));
        }
    }
    ahead
}

/// For each host the address by which most others reach it; of several the first one that it names.
fn main_addresses(facts: &[ProbeFacts], views: &[Vec<HostView>]) -> Vec<Option<IpAddr>> {
    let mut reached: Vec<Vec<usize>> = facts.iter().map(|facts| vec![0; facts.addresses.len()]).collect();
    for view in views.iter().flatten() {
        view.seen.iter().for_each(|seen| reached[view.to][seen.address] += 1);
    }
    let best = |(facts, reached): (&ProbeFacts, &Vec<usize>)| {
        let place = (0..reached.len()).rev().max_by_key(|place| reached[*place])?;
        (reached[place] > 0).then(|| facts.addresses[place])
    };
    facts.iter().zip(&reached).map(best).collect()
}

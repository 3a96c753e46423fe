//! What this network is: by which addresses hosts reach each other, over which routes, how fast and how soon.
//!
//! The lowest rank of every host asks and is asked; the others only hear the results. Ranks exchange what they find as they
//! exchange endpoints, so all of them have the same evidence in the end, and [`ringroad_core::discovery`] makes a topology of
//! it. Datagrams and flows go to addresses of this job's ranks and nowhere else, and need no privileges. Nobody decides
//! anything because of silence: what could not be found out is missing, and the result says so.

#[allow(unsafe_code)] // asks the kernel
mod account;
#[allow(unsafe_code)] // reads what the kernel keeps of a datagram besides its content
mod datagram;
mod history;
mod knock;
pub(crate) mod pace;
mod rates;
mod reach;
mod trace;
pub(crate) mod watch;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringroad_core::discovery::{
    assemble, experiments, next_experiments, trace_targets, Effort, Evidence, Flow, Found, HostFacts, How,
    Latency, Round, Trace, Wiring,
};
use ringroad_core::topology::Link;
use ringroad_core::{Rank, Topology};
use serde::{Deserialize, Serialize};

use self::history::Memory;
use self::rates::Receiving;
use self::reach::{Answering, Questions, Seen, Target, Token};
use self::trace::{Hops, Routes, PATIENCE};
use crate::bootstrap::{refused, unreadable, EndpointInfo, Rendezvous};
use crate::error::Result;
use crate::os::random::token;
use crate::os::routes::interfaces;

/// The most addresses that a host publishes.
const MOST_ADDRESSES: usize = 16;
/// How long flows of one round run, and how much longer a receiver waits for their end.
const SHORTEST: Duration = Duration::from_millis(60);
const LONGEST: Duration = Duration::from_millis(250);
/// Time is kept for so many rounds that only the first ones show to be needed.
const RESERVE: usize = 2;
const GRACE: Duration = Duration::from_millis(400);
/// What a round takes besides.
const OVERHEAD: Duration = Duration::from_millis(40);
/// How often the rounds are repeated while there is time.
const TRIES: usize = 2;

/// The kinds under which ranks publish what they find.
const FACTS: &str = "hosts";
const VIEW: &str = "views";
const VIEW_AGAIN: &str = "views.again";
const RATES: &str = "rates";
/// More bytes than the entry of one host takes.
const FACTS_BYTES: usize = 8 << 10;
const PAIR_BYTES: usize = 4 << 10;
const ROUND_BYTES: usize = 1 << 20;

/// How ranks tell each other what they have found.
pub(crate) trait Exchange {
    /// Publishes a value, of at most so many bytes, and returns the values of all ranks.
    fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>>;
}

/// While ranks meet.
impl Exchange for Rendezvous {
    fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>> {
        Ok(Rendezvous::collect(self, &format!("network.{kind}"), value, most)?)
    }
}

/// What ranks of a host publish before they ask each other.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Facts {
    addresses: Vec<IpAddr>,
    /// The bandwidth that the interface of each address states, in bytes per second; 0 if it states none.
    stated: Vec<f64>,
    questions: [Option<u16>; 2],
    flows: [Option<u16>; 2],
    token: Token,
}

/// What a host has found out about another one.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct View {
    to: usize,
    seen: Vec<Seen>,
    /// The hops to the address that was traced, which is the last one if all is known.
    route: Hops,
}

/// What rank 0 knows of the network, besides what the user says.
#[derive(Debug, Default)]
pub(crate) struct Insight {
    pub found: Option<Found>,
    /// The bandwidth that the slowest NIC states, in bytes per second, where nothing was measured.
    pub stated: Option<f64>,
    /// Why nothing was found out, if that was tried.
    pub failure: Option<String>,
    /// How many hosts there are, each with a network of its own; 0 if that does not matter.
    pub hosts: usize,
}

impl Insight {
    /// One line for the user: what is known or assumed of a network that nobody has named.
    pub fn sentence(&self, topology: &Topology) -> String {
        let hosts = self.hosts;
        let known = match (&self.found, &self.failure) {
            (Some(found), _) => {
                let measured = found.links.iter().filter(|link| link.how == How::Measured);
                let rates = measured.map(|link| link.bytes_per_second);
                format!("the ranks have found that their {hosts} hosts form {topology}{}", rates_text(rates))
            }
            (None, failure) => {
                let rates = topology.links().iter().map(Link::bytes_per_second);
                let why = failure.as_deref().unwrap_or("RINGROAD_TOPOLOGY=off");
                format!(
                    "how the {hosts} hosts are connected is not known ({why}); assumed is {topology}{}",
                    rates_text(rates)
                )
            }
        };
        let notes = self.found.iter().flat_map(|found| &found.notes).map(|note| format!("; {note}"));
        format!(
            "{known}{}; `ringroad discover` shows more, and RINGROAD_TOPOLOGY names another",
            notes.collect::<String>()
        )
    }

    /// What is to be said of it.
    pub fn notes(&self) -> Vec<String> {
        let found = self.found.iter().flat_map(|found| found.notes.iter().cloned());
        found.chain(self.failure.clone()).collect()
    }
}

/// What was found out.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    pub evidence: Evidence,
    /// For each host, the address by which most others reach it; `None` if none does.
    pub main: Vec<Option<IpAddr>>,
    /// For each host, the bandwidth that the NIC of this address states in bytes per second.
    pub stated: Vec<Option<f64>>,
}

/// The hosts of ranks that share a network of their own: the number of each rank's host, in the order of their first ranks.
pub(crate) fn hosts(endpoints: &[EndpointInfo]) -> Vec<usize> {
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    endpoints
        .iter()
        .map(|endpoint| {
            let name = if endpoint.net_space.is_empty() {
                (&*endpoint.host, "")
            } else {
                ("", &*endpoint.net_space)
            };
            let next = known.len();
            *known.entry(name).or_insert(next)
        })
        .collect()
}

/// How much may be done to find out, and where it is remembered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub budget: Duration,
    pub ports: Option<(u16, u16)>,
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
    limits: &Limits,
) -> Result<Gathered> {
    let start = Instant::now();
    let host_of = hosts(endpoints);
    let leaders = leaders(&host_of);
    let own = host_of[rank];
    let station = (leaders[own] == rank).then(|| Station::open(own, limits.ports));

    let mine = station.as_ref().map(|station| &station.facts);
    let facts: Vec<Facts> = of_hosts(exchange, &leaders, FACTS, mine, FACTS_BYTES)?;
    check_each(FACTS, &leaders, &facts, Facts::check)?;
    let mine =
        station.as_ref().map(|station| station.look(&facts, limits.probes.as_deref().unwrap_or_default()));
    let most = 64 + facts.len() * PAIR_BYTES;
    let views: Vec<Vec<View>> = of_hosts(exchange, &leaders, VIEW, mine.as_ref(), most)?;
    check_each(VIEW, &leaders, &views, |views| views.iter().try_for_each(|view| view.check(&facts)))?;

    let main = main_addresses(&facts, &views);
    let host = |(facts, rank): (&Facts, &Rank)| HostFacts {
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
    let stated = main.iter().zip(&facts).map(|(main, facts)| facts.stated_by((*main)?)).collect();
    let flows = Flows { station: station.as_ref(), facts: &facts, views: &views, leaders: &leaders };
    let wiring = Wiring::of(&evidence.hosts, &evidence.traces);
    let spaces = || leaders.iter().map(|rank| endpoints[*rank].net_space.clone()).collect::<Vec<_>>();
    let memory = limits.memory.as_ref().filter(|_| rank == 0);
    let memory = memory.map(|directory| Memory::of(directory, &spaces(), &evidence));
    let mut plan = (rank == 0).then(|| Plan::new(&evidence, &wiring, memory.as_ref(), limits, start));
    let (rounds, recalled) = flows.run(exchange, plan.as_mut(), &wiring)?;
    if let Some(then) = recalled {
        (evidence.traces, evidence.rounds, evidence.latencies) = (then.traces, then.rounds, then.latencies);
        return Ok(Gathered { evidence, main, stated });
    }
    evidence.rounds = rounds;
    if limits.probes.is_none() && !evidence.rounds.is_empty() && are_worth_another_look(&evidence.traces) {
        // A second later, kernels are willing to complain again.
        let again = station.as_ref().map(|_| trace(views[own].clone(), &facts, &PATIENCE[..1]));
        let views: Vec<Vec<View>> = of_hosts(exchange, &leaders, VIEW_AGAIN, again.as_ref(), most)?;
        check_each(VIEW_AGAIN, &leaders, &views, |views| {
            views.iter().try_for_each(|view| view.check(&facts))
        })?;
        evidence.traces = traces(&views);
    }
    if let Some(memory) = memory.filter(|_| !evidence.rounds.is_empty()) {
        // The next job measures anew if it cannot be stored.
        let _ = memory.store(&evidence);
    }
    Ok(Gathered { evidence, main, stated })
}

/// What rank 0 wants to be measured, round by round.
struct Plan {
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
    /// Whether no round has been asked for, though there is a budget for some.
    is_owed: bool,
    checked: bool,
    deadline: Instant,
}

/// What all ranks do next.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Next {
    /// These flows run for so many seconds.
    Measure { flows: Vec<(usize, usize)>, seconds: f64 },
    /// Nothing more. What was remembered still holds, if it is there.
    End(Option<Recalled>),
}

/// What was measured by an earlier job, as other ranks need it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Recalled {
    traces: Vec<Trace>,
    rounds: Vec<Round>,
    latencies: Vec<Latency>,
}

impl Plan {
    fn new(
        evidence: &Evidence,
        wiring: &Wiring,
        memory: Option<&Memory>,
        limits: &Limits,
        start: Instant,
    ) -> Plan {
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
        Plan {
            recalled,
            evidence: evidence.clone(),
            ahead: rounds.iter().cloned().collect(),
            rounds,
            goes_on: limits.probes.is_none() && limits.rounds == usize::MAX,
            tries: 1,
            most: limits.rounds,
            is_waiting: false,
            is_owed: !limits.budget.is_zero(),
            checked: false,
            deadline: start + limits.budget,
        }
    }

    /// The next step, given what was measured so far.
    fn next(&mut self, measured: &[Round]) -> Next {
        if let Some((then, sample)) = self.recalled.take() {
            if !self.checked {
                self.checked = true;
                let flows = sample.iter().map(|flow| (flow.from, flow.to)).collect();
                self.recalled = Some((then, sample));
                return Next::Measure { flows, seconds: SHORTEST.as_secs_f64() };
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
        // However late it is, links are looked at once.
        let over = left.is_zero() && !std::mem::take(&mut self.is_owed);
        if self.most == 0 || over || self.rounds.is_empty() {
            return Next::End(None);
        }
        if self.ahead.is_empty() {
            if self.goes_on && std::mem::take(&mut self.is_waiting) {
                return Next::WAIT;
            }
            self.look_ahead(measured);
        }
        let share = (left / (self.ahead.len() + RESERVE) as u32).saturating_sub(OVERHEAD);
        match self.ahead.pop_front() {
            Some(flows) if self.tries == 1 || share >= SHORTEST => {
                (self.is_waiting, self.is_owed) = (true, false);
                self.most -= 1;
                Next::Measure { flows, seconds: share.clamp(SHORTEST, LONGEST).as_secs_f64() }
            }
            _ => Next::End(None),
        }
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
        }
    }
}

impl Next {
    /// Nothing is measured, as what was comes with the next exchange.
    const WAIT: Next = Next::Measure { flows: Vec::new(), seconds: 0.0 };
}

impl Gathered {
    /// The bytes per second of the slowest flow.
    pub fn slowest(&self) -> Option<f64> {
        let flows = self.evidence.rounds.iter().flat_map(|round| &round.flows);
        flows.map(|flow| flow.bytes_per_second).reduce(f64::min)
    }

    /// Whether any trace has come to its end. If none has, what rates alone suggest is not to be relied on.
    fn shows_ways(&self) -> bool {
        self.evidence.traces.iter().any(|trace| trace.reached && !trace.hops.is_empty())
    }

    /// What rank 0 makes of it.
    pub fn insight(&self) -> Insight {
        let stated = self.stated.iter().flatten().copied().reduce(f64::min);
        let hosts = self.evidence.hosts.len();
        if hosts > 1 && !self.shows_ways() {
            let slowest = self.slowest().filter(|rate| *rate > 0.0);
            let failure = Some("no trace has reached another host; a firewall may drop datagrams".to_owned());
            return Insight { found: None, stated: slowest.or(stated), failure, hosts };
        }
        match found(&self.evidence) {
            Ok(found) => Insight { found: Some(found), stated, failure: None, hosts },
            Err(error) => Insight { found: None, stated, failure: Some(error), hosts },
        }
    }
}

/// What follows from the evidence; otherwise why nothing does.
pub(crate) fn found(evidence: &Evidence) -> std::result::Result<Found, String> {
    assemble(evidence).map_err(|error| error.to_string())
}

/// The range of these rates, which are in bytes per second.
fn rates_text(rates: impl Iterator<Item = f64> + Clone) -> String {
    let text = |rate: f64| match 8.0 * rate {
        bits if bits >= 1e9 => format!("{:.3} Gbit/s", bits / 1e9),
        bits => format!("{:.3} Mbit/s", bits / 1e6),
    };
    let (least, most) = (rates.clone().reduce(f64::min), rates.reduce(f64::max));
    match least.zip(most).map(|(least, most)| (text(least), text(most))) {
        None => String::new(),
        Some((least, most)) if least == most => format!(" with links of {least}"),
        Some((least, most)) => format!(" with links of {least} to {most}"),
    }
}

/// The first rank of each host.
pub(crate) fn leaders(host_of: &[usize]) -> Vec<Rank> {
    let mut leaders = Vec::new();
    for (rank, host) in host_of.iter().enumerate() {
        if *host == leaders.len() {
            leaders.push(rank);
        }
    }
    leaders
}

/// Publishes this host's value, if this rank leads it, and returns those of all hosts.
fn of_hosts<T: Serialize + for<'a> Deserialize<'a>>(
    exchange: &mut dyn Exchange,
    leaders: &[Rank],
    kind: &str,
    value: Option<&T>,
    most: usize,
) -> Result<Vec<T>> {
    let text = value.map(|value| serde_json::to_vec(value).expect("numbers and text can be written"));
    let all = exchange.collect(kind, &text.unwrap_or_default(), most)?;
    let read = |rank: &Rank| {
        serde_json::from_slice(&all[*rank]).map_err(|e| refused(kind, *rank, unreadable(&e)).into())
    };
    leaders.iter().map(read).collect()
}

fn check_each<T>(
    kind: &str,
    leaders: &[Rank],
    values: &[T],
    check: impl Fn(&T) -> std::result::Result<(), String>,
) -> Result<()> {
    let check =
        |(value, rank): (&T, &Rank)| check(value).map_err(|reason| refused(kind, *rank, reason).into());
    values.iter().zip(leaders).try_for_each(check)
}

impl Facts {
    fn check(&self) -> std::result::Result<(), String> {
        let fits = self.addresses.len() == self.stated.len() && self.addresses.len() <= MOST_ADDRESSES;
        let rates = self.stated.iter().all(|rate| rate.is_finite() && *rate >= 0.0);
        (fits && rates).then_some(()).ok_or_else(|| "its addresses make no sense".to_owned())
    }

    fn stated_by(&self, address: IpAddr) -> Option<f64> {
        let place = self.addresses.iter().position(|one| *one == address)?;
        Some(self.stated[place]).filter(|rate| *rate > 0.0)
    }

    fn target(&self) -> Target {
        Target { addresses: self.addresses.clone(), ports: self.questions, token: self.token }
    }
}

impl View {
    fn check(&self, facts: &[Facts]) -> std::result::Result<(), String> {
        let Some(facts) = facts.get(self.to) else { return Err(format!("there is no host {}", self.to)) };
        let known = |seen: &Seen| {
            seen.address < facts.addresses.len() && seen.seconds.is_finite() && seen.seconds >= 0.0
        };
        let sensible = self.seen.iter().all(known) && self.route.len() <= usize::from(u8::MAX);
        sensible.then_some(()).ok_or_else(|| format!("what it says of host {} makes no sense", self.to))
    }
}

/// What a host needs to ask others and to be asked.
struct Station {
    own: usize,
    facts: Facts,
    /// Kept for its threads, which answer and receive.
    receiving: Option<Receiving>,
    questions: Questions,
    _answering: Option<Answering>,
}

impl Station {
    /// A host that may open no sockets takes part without them: the others find that it does not answer.
    fn open(own: usize, ports: Option<(u16, u16)>) -> Station {
        let token = fresh_token();
        let (answering, receiving) =
            (Answering::begin(token, ports).ok(), Receiving::begin(token, ports).ok());
        let interfaces = interfaces();
        let known = || interfaces.iter().take(MOST_ADDRESSES);
        let facts = Facts {
            addresses: known().map(|one| one.address).collect(),
            stated: known().map(|one| stated_speed(&one.name).unwrap_or_default()).collect(),
            questions: answering.as_ref().map_or([None; 2], |answering| answering.ports),
            flows: receiving.as_ref().map_or([None; 2], |receiving| receiving.ports),
            token,
        };
        Station { own, facts, receiving, questions: Questions::open(), _answering: answering }
    }

    /// Asks the other hosts, and traces the routes to them; also to those to which there will be flows.
    fn look(&self, facts: &[Facts], rounds: &[Vec<(usize, usize)>]) -> Vec<View> {
        let mut wanted = trace_targets(self.own, facts.len());
        let flows = rounds.iter().flatten().filter(|(from, _)| *from == self.own);
        wanted.extend(flows.map(|(_, to)| *to).filter(|to| *to < facts.len()));
        wanted.sort_unstable();
        wanted.dedup();
        let mut targets: Vec<Option<Target>> = vec![None; facts.len()];
        wanted.iter().for_each(|host| targets[*host] = Some(facts[*host].target()));
        let mut seen = reach::ask(&self.questions, &targets, self.own + 1);
        for (host, target) in targets.iter_mut().enumerate() {
            *target = target.take().filter(|_| seen[host].is_empty());
            target.iter_mut().for_each(|target| target.ports = facts[host].flows);
        }
        seen.iter_mut().zip(knock::knock(&targets)).for_each(|(seen, more)| seen.extend(more));
        let view = |to: usize| View { to, seen: seen[to].clone(), route: Hops::new() };
        trace(wanted.into_iter().map(view).collect(), facts, &PATIENCE)
    }
}

/// Asks for the hops that are missing in the routes of these views.
fn trace(mut views: Vec<View>, facts: &[Facts], patience: &[Duration]) -> Vec<View> {
    let reached = |(index, view): (usize, &View)| {
        let first = nearest(&view.seen)?;
        Some((index, (facts[view.to].addresses[first.address], first.hops?)))
    };
    let (places, targets): (Vec<usize>, Vec<(IpAddr, u8)>) =
        views.iter().enumerate().filter_map(reached).unzip();
    let addresses = |(index, place): (usize, &usize)| {
        facts[views[*place].to].addresses.iter().map(move |address| (*address, index))
    };
    let owners = places.iter().enumerate().flat_map(addresses).collect();
    let found = places.iter().map(|place| std::mem::take(&mut views[*place].route)).collect();
    let mut routes = Routes { targets, owners, found };
    routes.trace(patience);
    places.into_iter().zip(routes.found).for_each(|(place, route)| views[place].route = route);
    views
}

/// Of the addresses that have answered, the first one that the host names: hosts name lasting addresses first.
fn nearest(seen: &[Seen]) -> Option<&Seen> {
    seen.iter().min_by_key(|seen| seen.address)
}

fn traces(views: &[Vec<View>]) -> Vec<Trace> {
    let trace = |from: usize, view: &View| Trace {
        from,
        to: view.to,
        hops: view.route.clone(),
        reached: !view.seen.is_empty(),
    };
    views
        .iter()
        .enumerate()
        .flat_map(|(from, views)| views.iter().map(move |view| trace(from, view)))
        .collect()
}

/// Whether hops are missing in a network some of whose nodes do answer.
fn are_worth_another_look(traces: &[Trace]) -> bool {
    let between = || traces.iter().flat_map(|trace| trace.hops.iter().rev().skip(1));
    between().any(Option::is_none) && between().any(Option::is_some)
}

/// Half of the time from a question to its answer.
fn latencies(views: &[Vec<View>]) -> Vec<Latency> {
    let latency = |from: usize, view: &View| {
        Some(Latency { from, to: view.to, seconds: nearest(&view.seen)?.seconds / 2.0 })
    };
    views
        .iter()
        .enumerate()
        .flat_map(|(from, views)| views.iter().filter_map(move |view| latency(from, view)))
        .collect()
}

/// For each host the address by which most others reach it; of several the first one that it names.
fn main_addresses(facts: &[Facts], views: &[Vec<View>]) -> Vec<Option<IpAddr>> {
    let mut reached: Vec<Vec<usize>> = facts.iter().map(|facts| vec![0; facts.addresses.len()]).collect();
    for view in views.iter().flatten() {
        view.seen.iter().for_each(|seen| reached[view.to][seen.address] += 1);
    }
    let best = |(facts, reached): (&Facts, &Vec<usize>)| {
        let place = (0..reached.len()).rev().max_by_key(|place| reached[*place])?;
        (reached[place] > 0).then(|| facts.addresses[place])
    };
    facts.iter().zip(&reached).map(best).collect()
}

/// What a rank publishes between two rounds of flows.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Between {
    /// Of rank 0: what comes next.
    next: Option<Next>,
    /// The flows that this rank's host received in the round before: sender, and bytes per second on average and in the
    /// fastest part.
    received: Vec<(usize, f64, f64)>,
}

impl Between {
    /// Whether it can be what a rank of so many hosts says.
    fn is_sensible(&self, hosts: usize) -> bool {
        let number = |value: f64| value.is_finite() && value >= 0.0;
        let flow = |from: usize, to: usize| from < hosts && to < hosts && from != to;
        let next = match &self.next {
            Some(Next::Measure { flows, seconds }) => {
                flows.iter().all(|(from, to)| flow(*from, *to))
                    && number(*seconds)
                    && *seconds <= LONGEST.as_secs_f64()
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
        let received = |&(from, average, fastest): &(usize, f64, f64)| {
            from < hosts && number(average) && number(fastest)
        };
        next && self.received.iter().all(received)
    }
}

/// Runs rounds of flows.
struct Flows<'a> {
    station: Option<&'a Station>,
    facts: &'a [Facts],
    views: &'a [Vec<View>],
    leaders: &'a [Rank],
}

impl Flows<'_> {
    /// Runs the rounds that rank 0 plans. Returns what was measured, and what rank 0 remembers instead.
    fn run(
        &self,
        exchange: &mut dyn Exchange,
        mut plan: Option<&mut Plan>,
        wiring: &Wiring,
    ) -> Result<(Vec<Round>, Option<Recalled>)> {
        let (mut measured, mut between) = (Vec::new(), Between::default());
        for number in 0.. {
            between.next = plan.as_mut().map(|plan| plan.next(&measured));
            let mut all = self.tell(exchange, number, &between)?;
            if number > 0 {
                measured.push(self.round(&all, wiring));
            }
            let (flows, seconds) = match all[0].next.take() {
                Some(Next::Measure { flows, seconds }) => (flows, seconds),
                Some(Next::End(recalled)) => return Ok((measured, recalled)),
                None => return Err(refused(RATES, 0, "it does not say what comes next".to_owned()).into()),
            };
            let rates = measured.iter().flat_map(|round: &Round| &round.flows);
            let fastest = rates.map(|flow| flow.bytes_per_second).reduce(f64::max);
            between.received = self.measure(number, &flows, fastest, Duration::from_secs_f64(seconds));
        }
        unreachable!("rank 0 ends the rounds")
    }

    /// Sends this host's flows, and returns what came of those to it.
    fn measure(
        &self,
        number: u32,
        flows: &[(usize, usize)],
        fastest: Option<f64>,
        duration: Duration,
    ) -> Vec<(usize, f64, f64)> {
        let Some(station) = self.station else { return Vec::new() };
        let start = Instant::now();
        rates::send(self.connect(station, number, flows, fastest), duration);
        let until = Instant::now() + GRACE;
        let Some(receiving) = &station.receiving else { return Vec::new() };
        let take = |from: usize| {
            let one = receiving.take((number, from as u32), start, duration, until)?;
            Some((from, one.average, one.fastest))
        };
        flows.iter().filter(|(_, to)| *to == station.own).filter_map(|(from, _)| take(*from)).collect()
    }

    fn connect(
        &self,
        station: &Station,
        number: u32,
        flows: &[(usize, usize)],
        fastest: Option<f64>,
    ) -> Vec<TcpStream> {
        let connect = |&(_, to): &(usize, usize)| {
            let view = self.views[station.own].iter().find(|view| view.to == to)?;
            let facts = &self.facts[to];
            let seen = nearest(&view.seen)?;
            let address = facts.addresses[seen.address];
            let to = SocketAddr::new(address, facts.flows[usize::from(address.is_ipv6())]?);
            // A flow that cannot run is one that is not measured.
            let window = rates::window(seen.seconds, fastest);
            rates::connect(to, window, &facts.token, number, station.own as u32).ok()
        };
        flows.iter().filter(|(from, _)| *from == station.own).filter_map(connect).collect()
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
                false => Err(refused(&kind, rank, "its rates make no sense".to_owned()).into()),
            }
        };
        all.iter().enumerate().map(read).collect()
    }

    fn round(&self, all: &[Between], wiring: &Wiring) -> Round {
        let received = |(to, rank): (usize, &Rank)| {
            all[*rank].received.iter().map(move |&(from, average, fastest)| (from, to, average, fastest))
        };
        let flows: Vec<_> = self.leaders.iter().enumerate().flat_map(received).collect();
        let pairs: Vec<(usize, usize)> = flows.iter().map(|&(from, to, ..)| (from, to)).collect();
        let flow = |(&(from, to, average, fastest), shares): (&(usize, usize, f64, f64), bool)| Flow {
            from,
            to,
            bytes_per_second: if shares { average } else { fastest },
            spread: if fastest > 0.0 { (1.0 - average / fastest).max(0.0) } else { 0.0 },
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

/// Binds a socket at any free port, or at the first free one of `ports`.
fn bind<T>(
    address: IpAddr,
    ports: Option<(u16, u16)>,
    open: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let (first, last) = ports.unwrap_or((0, 0));
    let mut result = open(SocketAddr::new(address, first));
    for port in first.saturating_add(1)..=last {
        if result.is_ok() {
            break;
        }
        result = open(SocketAddr::new(address, port));
    }
    result
}

fn fresh_token() -> Token {
    let mut drawn = Token::default();
    drawn.chunks_mut(8).for_each(|part| part.copy_from_slice(&token().to_ne_bytes()));
    drawn
}

/// The bandwidth that the kernel states for an interface, in bytes per second.
pub(crate) fn stated_speed(interface: &str) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    // In Mbit/s; -1 if it is unknown.
    let speed = text.trim().parse::<f64>().ok().filter(|speed| *speed > 0.0)?;
    Some(speed * 1e6 / 8.0)
}

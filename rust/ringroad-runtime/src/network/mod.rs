//! What this network is: by which addresses hosts reach each other, over which routes, how fast and how soon.
//!
//! The lowest rank of every host asks and is asked; the others only hear the results. Ranks exchange what they find as they
//! exchange cards, so all of them have the same evidence in the end, and [`ringroad_core::discovery`] makes a topology of
//! it. Datagrams and flows go to addresses of this job's ranks and nowhere else, and need no privileges. Nobody decides
//! anything because of silence: what could not be found out is missing, and the result says so.

#[allow(unsafe_code)] // asks the kernel
mod account;
#[allow(unsafe_code)] // reads what the kernel keeps of a datagram besides its content
mod datagram;
mod rates;
mod reach;
mod trace;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ringroad_core::discovery::{
    assemble, experiments, trace_targets, Evidence, Flow, Found, HostFacts, Latency, Round, Trace, Wiring,
};
use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use self::rates::Receiving;
use self::reach::{Answering, Seen, Target, Token};
use crate::bootstrap::{refused, unreadable, Card, Meeting};
use crate::error::Result;
use crate::random::token;
use crate::routes::interfaces;

/// The most addresses that a host publishes.
const MOST_ADDRESSES: usize = 16;
/// How long flows of one round run, and how much longer a receiver waits for their end.
const SHORTEST: Duration = Duration::from_millis(60);
const LONGEST: Duration = Duration::from_millis(300);
const GRACE: Duration = Duration::from_millis(400);
/// What a round takes besides.
const OVERHEAD: Duration = Duration::from_millis(40);
/// How often the rounds are repeated while there is time.
const TRIES: usize = 2;

/// The kinds under which ranks publish what they find.
const FACTS: &str = "hosts";
const VIEW: &str = "views";
const RATES: &str = "rates";
/// More bytes than the entry of one host takes.
const FACTS_BYTES: usize = 8 << 10;
const PAIR_BYTES: usize = 4 << 10;

/// How ranks tell each other what they have found.
pub(crate) trait Exchange {
    /// Publishes a value, of at most so many bytes, and returns the values of all ranks.
    fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>>;
}

/// While ranks meet.
impl Exchange for Meeting {
    fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>> {
        Ok(Meeting::collect(self, &format!("network.{kind}"), value, most)?)
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
    route: Vec<Option<IpAddr>>,
}

/// What rank 0 knows of the network, besides what the user says.
#[derive(Debug, Default)]
pub(crate) struct Insight {
    pub found: Option<Found>,
    /// The bandwidth that the slowest card states, in bytes per second, where nothing was measured.
    pub stated: Option<f64>,
    /// Why nothing was found out, if that was tried.
    pub failure: Option<String>,
}

impl Insight {
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
    /// For each host, the bandwidth that the card of this address states in bytes per second.
    pub stated: Vec<Option<f64>>,
}

/// The hosts of ranks that share a network of their own: the number of each rank's host, in the order of their first ranks.
pub(crate) fn hosts(cards: &[Card]) -> Vec<usize> {
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    cards
        .iter()
        .map(|card| {
            let name = if card.net_space.is_empty() { (&*card.host, "") } else { ("", &*card.net_space) };
            let next = known.len();
            *known.entry(name).or_insert(next)
        })
        .collect()
}

/// Finds out what there is to know, in about `budget`. Collective.
pub(crate) fn gather(
    exchange: &mut dyn Exchange,
    cards: &[Card],
    rank: Rank,
    budget: Duration,
    ports: Option<(u16, u16)>,
) -> Result<Gathered> {
    let start = Instant::now();
    let host_of = hosts(cards);
    let leaders = leaders(&host_of);
    let own = host_of[rank];
    let station = (leaders[own] == rank).then(|| Station::open(own, ports));

    let mine = station.as_ref().map(|station| &station.facts);
    let facts: Vec<Facts> = of_hosts(exchange, &leaders, FACTS, mine, FACTS_BYTES)?;
    check_each(FACTS, &leaders, &facts, Facts::check)?;
    let mine = station.as_ref().map(|station| station.look(&facts));
    let most = 64 + facts.len() * PAIR_BYTES;
    let views: Vec<Vec<View>> = of_hosts(exchange, &leaders, VIEW, mine.as_ref(), most)?;
    check_each(VIEW, &leaders, &views, |views| views.iter().try_for_each(|view| view.check(&facts)))?;

    let main = main_addresses(&facts, &views);
    let name = |rank: &Rank| cards[*rank].host.clone();
    let host =
        |(facts, rank): (&Facts, &Rank)| HostFacts { name: name(rank), addresses: facts.addresses.clone() };
    let hosts: Vec<HostFacts> = facts.iter().zip(&leaders).map(host).collect();
    let traces: Vec<Trace> = traces(&views);
    let wiring = Wiring::of(&hosts, &traces);
    let rounds = experiments(&wiring);
    let mut flows =
        Flows { station: station.as_ref(), facts: &facts, views: &views, leaders: &leaders, start, budget };
    let rounds = flows.run(exchange, rank, &rounds)?;
    let stated = main.iter().zip(&facts).map(|(main, facts)| facts.stated_by((*main)?)).collect();
    let latencies = latencies(&views);
    Ok(Gathered { evidence: Evidence { hosts, host_of, traces, rounds, latencies }, main, stated })
}

impl Gathered {
    /// The bytes per second of the slowest flow.
    pub fn slowest(&self) -> Option<f64> {
        let flows = self.evidence.rounds.iter().flat_map(|round| &round.flows);
        flows.map(|flow| flow.bytes_per_second).reduce(f64::min)
    }

    /// What rank 0 makes of it.
    pub fn insight(&self) -> Insight {
        let stated = self.stated.iter().flatten().copied().reduce(f64::min);
        match found(&self.evidence) {
            Ok(found) => Insight { found: Some(found), stated, failure: None },
            Err(error) => Insight { found: None, stated, failure: Some(error) },
        }
    }
}

/// What follows from the evidence; otherwise why nothing does.
pub(crate) fn found(evidence: &Evidence) -> std::result::Result<Found, String> {
    assemble(evidence).map_err(|error| error.to_string())
}

/// The first rank of each host.
fn leaders(host_of: &[usize]) -> Vec<Rank> {
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
        Station { own, facts, receiving, _answering: answering }
    }

    /// Asks the other hosts, and traces the routes to them.
    fn look(&self, facts: &[Facts]) -> Vec<View> {
        let wanted = trace_targets(self.own, facts.len());
        let mut targets: Vec<Option<Target>> = vec![None; facts.len()];
        wanted.iter().for_each(|host| targets[*host] = Some(facts[*host].target()));
        let seen = reach::ask(&targets, self.own + 1);
        let far = |host: &usize| {
            let first = nearest(&seen[*host])?;
            Some((*host, (facts[*host].addresses[first.address], first.hops?)))
        };
        let (traced, ways): (Vec<usize>, Vec<(IpAddr, u8)>) = wanted.iter().filter_map(far).unzip();
        let owners = traced.iter().enumerate();
        let owners: HashMap<IpAddr, usize> = owners
            .flat_map(|(index, host)| facts[*host].addresses.iter().map(move |address| (*address, index)))
            .collect();
        let mut routes: HashMap<usize, Vec<Option<IpAddr>>> =
            traced.iter().copied().zip(trace::trace(&ways, &owners)).collect();
        let view =
            |to: usize| View { to, seen: seen[to].clone(), route: routes.remove(&to).unwrap_or_default() };
        wanted.into_iter().map(view).collect()
    }
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
    /// Of rank 0: for how many seconds the next flows run; `None` if there are no more.
    seconds: Option<f64>,
    /// The flows that this rank's host received in the round before: sender, bytes per second, and spread.
    received: Vec<(usize, f64, f64)>,
}

/// Runs rounds of flows.
struct Flows<'a> {
    station: Option<&'a Station>,
    facts: &'a [Facts],
    views: &'a [Vec<View>],
    leaders: &'a [Rank],
    start: Instant,
    budget: Duration,
}

impl Flows<'_> {
    /// Runs each of these rounds, and again while there is time. All ranks run the same ones: rank 0's clock decides.
    fn run(
        &mut self,
        exchange: &mut dyn Exchange,
        rank: Rank,
        rounds: &[Vec<(usize, usize)>],
    ) -> Result<Vec<Round>> {
        let (mut measured, mut between) = (Vec::new(), Between::default());
        for number in 0.. {
            let flows = rounds.get(number % rounds.len().max(1)).filter(|_| number < TRIES * rounds.len());
            let streams = match (self.station, flows) {
                (Some(station), Some(flows)) => self.connect(station, number, flows),
                _ => Vec::new(),
            };
            between.seconds = flows.filter(|_| rank == 0).and_then(|_| self.seconds(number, rounds.len()));
            let all = self.tell(exchange, number, &between)?;
            if number > 0 {
                measured.push(self.round(&all));
            }
            let Some((seconds, flows)) = all[0].seconds.zip(flows) else { break };
            let duration = Duration::from_secs_f64(seconds.clamp(0.0, LONGEST.as_secs_f64()));
            let until = Instant::now() + duration + GRACE;
            rates::send(streams, duration);
            let receiving = self.station.and_then(|station| Some((station.own, station.receiving.as_ref()?)));
            let take = |from: usize| {
                let one = receiving?.1.take(number as u32, from as u32, until)?;
                Some((from, one.bytes_per_second, one.spread))
            };
            let to_here = flows.iter().filter(|(_, to)| receiving.is_some_and(|(own, _)| own == *to));
            between =
                Between { seconds: None, received: to_here.filter_map(|(from, _)| take(*from)).collect() };
        }
        Ok(measured)
    }

    /// For how long the flows of this round may run; `None` if nothing is left for a repeated one.
    fn seconds(&self, number: usize, rounds: usize) -> Option<f64> {
        let left = self.budget.saturating_sub(self.start.elapsed());
        let share = (left / rounds.saturating_sub(number).max(1) as u32).saturating_sub(OVERHEAD);
        (number < rounds || share >= SHORTEST).then(|| share.clamp(SHORTEST, LONGEST).as_secs_f64())
    }

    fn connect(
        &self,
        station: &Station,
        number: usize,
        flows: &[(usize, usize)],
    ) -> Vec<std::net::TcpStream> {
        let connect = |&(_, to): &(usize, usize)| {
            let view = self.views[station.own].iter().find(|view| view.to == to)?;
            let facts = &self.facts[to];
            let seen = nearest(&view.seen)?;
            let address = facts.addresses[seen.address];
            let to = SocketAddr::new(address, facts.flows[usize::from(address.is_ipv6())]?);
            // A flow that cannot run is one that is not measured.
            rates::connect(to, seen.seconds, &facts.token, number as u32, station.own as u32).ok()
        };
        flows.iter().filter(|(from, _)| *from == station.own).filter_map(connect).collect()
    }

    fn tell(&self, exchange: &mut dyn Exchange, number: usize, value: &Between) -> Result<Vec<Between>> {
        let kind = format!("{RATES}.{number}");
        let text = serde_json::to_vec(value).expect("numbers can be written");
        let all = exchange.collect(&kind, &text, 64 + self.facts.len() * 80)?;
        let read = |(rank, text): (Rank, &Vec<u8>)| -> Result<Between> {
            let one: Between =
                serde_json::from_slice(text).map_err(|e| refused(&kind, rank, unreadable(&e)))?;
            let sensible = |&(from, rate, spread): &(usize, f64, f64)| {
                from < self.facts.len()
                    && rate.is_finite()
                    && rate >= 0.0
                    && spread.is_finite()
                    && spread >= 0.0
            };
            if !one.received.iter().all(sensible) || one.seconds.is_some_and(|seconds| !seconds.is_finite()) {
                return Err(refused(&kind, rank, "its rates make no sense".to_owned()).into());
            }
            Ok(one)
        };
        all.iter().enumerate().map(read).collect()
    }

    fn round(&self, all: &[Between]) -> Round {
        let received = |(to, rank): (usize, &Rank)| {
            let flow = move |&(from, bytes_per_second, spread): &(usize, f64, f64)| Flow {
                from,
                to,
                bytes_per_second,
                spread,
            };
            all[*rank].received.iter().map(flow)
        };
        Round { flows: self.leaders.iter().enumerate().flat_map(received).collect() }
    }
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

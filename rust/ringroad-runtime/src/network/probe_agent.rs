//! What a host says of itself, and how it asks the others and answers them.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use ringroad_core::discovery::trace_targets;
use serde::{Deserialize, Serialize};

use super::connect_probe;
use super::rates::Receiving;
use super::reach::{self, answering, Questions, ReachTarget, Seen, Token};
use super::servers::Servers;
use super::trace::{RouteHops, TracedRoutes, HOP_TIMEOUTS};
use crate::os::ports::PortRange;
use crate::os::random::token;
use crate::os::routes::interfaces;

/// The most addresses that a host publishes.
const MOST_ADDRESSES: usize = 16;

/// What ranks of a host publish before they ask each other.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ProbeFacts {
    pub addresses: Vec<IpAddr>,
    /// The bandwidth that the interface of each address states, in bytes per second; 0 if it states none.
    pub stated: Vec<f64>,
    pub questions: [Option<u16>; 2],
    pub flows: [Option<u16>; 2],
    pub token: Token,
}

impl ProbeFacts {
    pub fn check(&self) -> std::result::Result<(), String> {
        let fits = self.addresses.len() == self.stated.len() && self.addresses.len() <= MOST_ADDRESSES;
        let rates = self.stated.iter().all(|rate| rate.is_finite() && *rate >= 0.0);
        (fits && rates).then_some(()).ok_or_else(|| "its addresses are invalid".to_owned())
    }

    pub fn stated_by(&self, address: IpAddr) -> Option<f64> {
        let place = self.addresses.iter().position(|one| *one == address)?;
        Some(self.stated[place]).filter(|rate| *rate > 0.0)
    }

    fn target(&self) -> ReachTarget {
        ReachTarget { addresses: self.addresses.clone(), ports: self.questions, token: self.token }
    }
}

/// What a host has found out about another one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HostView {
    pub to: usize,
    pub seen: Vec<Seen>,
    /// The hops to the address that was traced, which is the last one if all is known.
    pub route: RouteHops,
}

impl HostView {
    pub fn check(&self, facts: &[ProbeFacts]) -> std::result::Result<(), String> {
        let Some(facts) = facts.get(self.to) else { return Err(format!("there is no host {}", self.to)) };
        let known = |seen: &Seen| {
            let times =
                seen.seconds.is_finite() && seen.seconds >= 0.0 && seen.ahead.is_none_or(f64::is_finite);
            seen.address < facts.addresses.len() && times
        };
        let sensible = self.seen.iter().all(known) && self.route.len() <= usize::from(u8::MAX);
        sensible.then_some(()).ok_or_else(|| format!("what it says of host {} is invalid", self.to))
    }
}

/// What a host needs to ask others and to be asked.
pub(super) struct ProbeAgent {
    pub own: usize,
    pub facts: ProbeFacts,
    /// When this host's clock began.
    pub epoch: Instant,
    /// Kept for its threads, which answer and receive.
    pub receiving: Option<Receiving>,
    questions: Questions,
    _answering: Option<Servers>,
}

impl ProbeAgent {
    /// A host that may open no sockets takes part without them: the others find that it does not answer.
    pub fn open(own: usize, ports: PortRange) -> ProbeAgent {
        let (token, epoch) = (fresh_token(), Instant::now());
        let (answering, receiving) =
            (answering(token, ports, epoch).ok(), Receiving::begin(token, ports).ok());
        let interfaces = interfaces();
        let known = || interfaces.iter().take(MOST_ADDRESSES);
        let facts = ProbeFacts {
            addresses: known().map(|one| one.address).collect(),
            stated: known().map(|one| stated_speed(&one.name).unwrap_or_default()).collect(),
            questions: answering.as_ref().map_or([None; 2], |answering| answering.ports),
            flows: receiving.as_ref().map_or([None; 2], |receiving| receiving.servers.ports),
            token,
        };
        ProbeAgent { own, facts, epoch, receiving, questions: Questions::open(), _answering: answering }
    }

    /// Asks the other hosts, and traces the routes to them; also to those to which there will be flows.
    pub fn collect_views(&self, facts: &[ProbeFacts], rounds: &[Vec<(usize, usize)>]) -> Vec<HostView> {
        let mut wanted = trace_targets(self.own, facts.len());
        let flows = rounds.iter().flatten().filter(|(from, _)| *from == self.own);
        wanted.extend(flows.map(|(_, to)| *to).filter(|to| *to < facts.len()));
        wanted.sort_unstable();
        wanted.dedup();
        let mut targets: Vec<Option<ReachTarget>> = vec![None; facts.len()];
        wanted.iter().for_each(|host| targets[*host] = Some(facts[*host].target()));
        let mut seen = reach::ask(&self.questions, &targets, self.own + 1, self.epoch);
        for (host, target) in targets.iter_mut().enumerate() {
            *target = target.take().filter(|_| seen[host].is_empty());
            target.iter_mut().for_each(|target| target.ports = facts[host].flows);
        }
        seen.iter_mut().zip(connect_probe::probe(&targets)).for_each(|(seen, more)| seen.extend(more));
        let view = |to: usize| HostView { to, seen: seen[to].clone(), route: RouteHops::new() };
        trace(wanted.into_iter().map(view).collect(), facts, &HOP_TIMEOUTS)
    }
}

/// Asks for the hops that are missing in the routes of these views.
pub(super) fn trace(mut views: Vec<HostView>, facts: &[ProbeFacts], patience: &[Duration]) -> Vec<HostView> {
    let reached = |(index, view): (usize, &HostView)| {
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
    let mut routes = TracedRoutes { targets, owners, found };
    routes.trace(patience);
    places.into_iter().zip(routes.found).for_each(|(place, route)| views[place].route = route);
    views
}

/// Of the addresses that have answered, the first one that the host names: hosts name lasting addresses first.
pub(super) fn nearest(seen: &[Seen]) -> Option<&Seen> {
    seen.iter().min_by_key(|seen| seen.address)
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

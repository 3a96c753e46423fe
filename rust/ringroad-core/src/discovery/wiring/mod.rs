//! Hosts, routers and the links between them, as traces show them.

mod aliases;
mod gaps;
mod numbering;
mod walk;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::evidence::{HostFacts, TracedRoute};
use aliases::Aliases;
use numbering::NodeNumbering;
use walk::{walks, Walk, Walks};

/// What is known of who is wired to whom. Nodes are the hosts, then the routers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Wiring {
    /// How many hosts there are.
    pub hosts: usize,
    /// The addresses by which each router has answered; none where it never does.
    pub routers: Vec<Vec<IpAddr>>,
    /// The directed edges, by their ends.
    pub edges: Vec<Edge>,
    /// The paths between hosts that are known, by their ends.
    pub paths: Vec<HostPath>,
    /// Whether every host lies one hop from every other one, or nothing is known at all.
    opaque: bool,
    /// What is odd or missing, in plain sentences.
    pub notes: Vec<String>,
    /// What is to be said of hosts that were not reached, whatever the network is.
    pub(super) unreached: Option<String>,
}

/// A direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    /// The node at which it starts.
    pub from: usize,
    /// The node at which it ends.
    pub to: usize,
    /// Whether a trace went this way; otherwise one went the other way.
    pub seen: bool,
}

/// The way from one host to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPath {
    /// The first host.
    pub from: usize,
    /// The last host.
    pub to: usize,
    /// The edges on the way, as indices into [`Wiring::edges`].
    pub edges: Vec<usize>,
}

impl Wiring {
    /// The wiring that these traces show.
    pub fn from_traces(hosts: &[HostFacts], traces: &[TracedRoute]) -> Wiring {
        let Walks { mut walks, shared, loops } = walks(hosts, traces);
        let unclear = gaps::fill(&mut walks);
        let aliases = Aliases::from_walks(hosts, &walks);
        let numbering = NodeNumbering::from_walks(hosts.len(), &walks, &aliases);
        let mut wiring =
            Wiring { hosts: hosts.len(), routers: numbering.routers.clone(), ..Wiring::default() };
        let (crossed, contradicted) = wiring.draw(&walks, &numbering);
        let single = |path: &HostPath| path.edges.len() == 1;
        wiring.opaque = wiring.paths.is_empty() || (hosts.len() > 1 && wiring.paths.iter().all(single));
        let mut note = |count: usize, what: &str| {
            if count > 0 {
                wiring.notes.push(format!("{count} {what}"));
            }
        };
        note(shared.len(), "addresses are those of several hosts and say nothing of the way");
        note(loops + crossed, "traces came to a node twice and count only up to there");
        note(
            contradicted,
            "traces show links that the hosts at their ends do not take; hosts may answer for others",
        );
        note(unclear, "paths have gaps that several nodes could fill, and are not known");
        note(
            aliases.unsure.len(),
            "routers may be other routers by another address, and count as routers of their own",
        );
        let silent = wiring.routers.iter().filter(|addresses| addresses.is_empty()).count();
        note(silent, "routers do not answer, and are where something must be");
        let dark: BTreeSet<usize> = walks.iter().filter(|walk| !walk.reached).map(|walk| walk.to).collect();
        let assumed = wiring.edges.iter().filter(|edge| !edge.seen).count();
        note(assumed, "directions of links are assumed, since nobody's trace shows whether they exist");
        let what = "hosts were not reached by all traces; a firewall may drop the probes or the answers";
        wiring.unreached = (!dark.is_empty()).then(|| format!("{} {what}", dark.len()));
        wiring
    }

    /// Draws edges and paths, and returns how many walks visit a node twice, and how many contradict others.
    fn draw(&mut self, walks: &[Walk], numbering: &NodeNumbering) -> (usize, usize) {
        let mut paths: BTreeMap<(usize, usize), Vec<usize>> =
            walks.iter().map(|walk| ((walk.from, walk.to), numbering.way(walk))).collect();
        let mut cut = |is_cut: &dyn Fn(&[usize], usize) -> bool| {
            let mut count = 0;
            for way in paths.values_mut() {
                let end = (1..way.len()).find(|at| is_cut(way, *at));
                count += usize::from(end.is_some());
                way.truncate(end.unwrap_or(way.len()));
            }
            let known = paths.iter().filter(|((_, to), way)| way.last() == Some(to));
            (count, known.map(|(pair, way)| (*pair, way.len() - 1)).collect::<BTreeMap<_, _>>())
        };
        let (crossed, hops) = cut(&|way, at| way[..at].contains(&way[at]));
        // A host that has a link to another one takes it there.
        let (contradicted, known) =
            cut(&|way, at| hops.get(&(way[at - 1], way[at])).is_some_and(|hops| *hops > 1));
        let seen: BTreeSet<(usize, usize)> =
            paths.values().flat_map(|way| way.windows(2).map(|pair| (pair[0], pair[1]))).collect();
        let complete = known.len() == self.hosts * self.hosts.saturating_sub(1);
        // What nobody's trace contradicts is a link in both directions.
        let assumed = |&(from, to): &(usize, usize)| {
            let open = if from.max(to) < self.hosts { !known.contains_key(&(from, to)) } else { !complete };
            open && !seen.contains(&(from, to))
        };
        let back = seen.iter().map(|(from, to)| (*to, *from)).filter(assumed);
        let all = seen.iter().map(|pair| (*pair, true)).chain(back.map(|pair| (pair, false)));
        self.edges = all.map(|((from, to), seen)| Edge { from, to, seen }).collect();
        self.edges.sort_unstable();
        for &(from, to) in paths.keys() {
            // A way that is not known is that back, if there is one, or a link that others have taken.
            let way = match (known.contains_key(&(from, to)), known.contains_key(&(to, from))) {
                (true, _) => paths[&(from, to)].clone(),
                (false, true) => paths[&(to, from)].iter().rev().copied().collect(),
                (false, false) if self.edge(from, to).is_some() => vec![from, to],
                (false, false) => continue,
            };
            let edges: Option<_> = way.windows(2).map(|pair| self.edge(pair[0], pair[1])).collect();
            self.paths.extend(edges.map(|edges| HostPath { from, to, edges }));
        }
        (crossed, contradicted)
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.hosts + self.routers.len()
    }

    /// Whether the traces tell nothing of the network: every host is one hop from every other one, or no way is known.
    pub fn is_opaque(&self) -> bool {
        self.opaque
    }

    /// The number of the edge between two nodes.
    pub fn edge(&self, from: usize, to: usize) -> Option<usize> {
        self.edges.binary_search_by_key(&(from, to), |edge| (edge.from, edge.to)).ok()
    }

    /// The edges on the way from one host to another, where it is known.
    pub fn path(&self, from: usize, to: usize) -> Option<&[usize]> {
        let place = self.paths.binary_search_by_key(&(from, to), |path| (path.from, path.to)).ok()?;
        Some(&self.paths[place].edges)
    }
}

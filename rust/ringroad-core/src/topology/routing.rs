//! The routes that bytes take through a topology.
//!
//! By default bytes take shortest paths only and spread over all of them: every shortest path carries the same share (of parallel links each by its bandwidth),
//! and parallel links count as different paths. This is the limit of minimal adaptive routing, which the papers' cost
//! models assume. On a ring the two ways to the opposite rank carry half each. Another [`Routing`] of the topology
//! changes this. Where the topology has a table of routes, the paths between ranks come from the table.
//!
//! In a large network, ranks with one link have the routes of their switches.

use std::collections::HashMap;
use std::sync::Arc;

use super::measure::Adjacency;
use super::{Lattice, Link, Routing, Topology};
use crate::units::{LinkId, NodeId, Seconds};

/// How bytes get from one node to another.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Route {
    /// How many links each path has.
    pub hops: usize,
    /// The sum of the latencies of a path's links, in seconds; where paths differ, that of the slowest.
    pub latency: Seconds,
    /// The sum of the extra latencies of a path's links, in seconds, which `latency` includes; where paths differ, the
    /// largest.
    pub extra_latency: Seconds,
    /// The fraction of the bytes that each link carries, nearest to the source first. Links without a share are absent.
    pub shares: Vec<(LinkId, f64)>,
}

impl Route {
    /// Appends a link that carries all bytes.
    fn go_on(&mut self, id: LinkId, topology: &Topology) {
        let link = &topology.links()[id];
        self.hops += 1;
        self.latency += link.seconds();
        self.extra_latency += link.extra_latency;
        self.shares.push((id, 1.0));
    }

    /// Appends a route that has no link in common with this one.
    fn append(&mut self, next: &Route) {
        self.hops += next.hops;
        self.latency += next.latency;
        self.extra_latency += next.extra_latency;
        self.shares.extend_from_slice(&next.shares);
    }
}

/// No path leads from one node to the other, or one of them does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "node {destination} cannot be reached from node {source_node} on {topology}, which has {nodes} nodes"
)]
pub struct Unreachable {
    /// Where the route starts.
    pub source_node: NodeId,
    /// Where the route should end.
    pub destination: NodeId,
    /// The topology's spec.
    pub topology: String,
    /// How many nodes the topology has.
    pub nodes: usize,
}

/// The routes of a topology, found on demand and cached.
///
/// A search runs backwards from the destination and stops at the source. The next request for the same destination
/// resumes it, so it is fastest to request all routes to one destination in a row.
#[derive(Debug, Clone)]
pub struct Routes<'a> {
    topology: &'a Topology,
    lattice: Option<Lattice>,
    outgoing: Adjacency,
    incoming: Adjacency,
    search: RouteSearch,
    /// The share of the bytes that reaches each node; all 0 between requests.
    flow: Vec<f64>,
    known: KnownRoutes,
}

/// The routes that have been found.
#[derive(Debug, Clone)]
enum KnownRoutes {
    /// By source and destination, for up to [`MOST_IN_TABLE`] nodes. Empty until the first route is found.
    Table(Vec<Option<Arc<Route>>>),
    /// For more nodes. Never iterated over, because the order of a map differs between machines.
    Map(HashMap<(NodeId, NodeId), Arc<Route>>),
}

/// The most nodes for which found routes are kept in a table.
const MOST_IN_TABLE: usize = 1 << 11;

impl KnownRoutes {
    fn get(&self, nodes: usize, source: NodeId, destination: NodeId) -> Option<&Arc<Route>> {
        match self {
            KnownRoutes::Table(_) if source.max(destination) >= nodes => None,
            KnownRoutes::Table(table) => table.get(source * nodes + destination)?.as_ref(),
            KnownRoutes::Map(map) => map.get(&(source, destination)),
        }
    }

    fn insert(&mut self, nodes: usize, source: NodeId, destination: NodeId, route: Arc<Route>) {
        match self {
            KnownRoutes::Table(table) => {
                table.resize(nodes * nodes, None);
                table[source * nodes + destination] = Some(route);
            }
            KnownRoutes::Map(map) => drop(map.insert((source, destination), route)),
        }
    }
}

/// What a search has found about the paths from a node to the destination.
#[derive(Debug, Clone, Copy)]
struct FoundPaths {
    hops: usize,
    latency: Seconds,
    extra_latency: Seconds,
    /// How many shortest paths lead from the node to the destination.
    paths: f64,
}

/// A breadth-first search from the destination, against the direction of the links. The entries of nodes before `done`
/// in the queue are final, and so are those of nodes that are no farther away than the node at `done`.
#[derive(Debug, Clone)]
struct RouteSearch {
    destination: Option<NodeId>,
    found: Vec<Option<FoundPaths>>,
    queue: Vec<NodeId>,
    done: usize,
}

impl RouteSearch {
    fn restart(&mut self, destination: NodeId) {
        for node in self.queue.drain(..) {
            self.found[node] = None;
        }
        self.destination = Some(destination);
        self.found[destination] = Some(FoundPaths { hops: 0, latency: 0.0, extra_latency: 0.0, paths: 1.0 });
        self.queue.push(destination);
        self.done = 0;
    }

    /// Resumes the search until the entry of `node` is final, and returns it; `None` where no path leads from `node`.
    fn reach(&mut self, node: NodeId, topology: &Topology, incoming: &Adjacency) -> Option<FoundPaths> {
        while let Some(&head) = self.queue.get(self.done) {
            let here = self.found[head]?;
            if self.found[node].is_some_and(|found| found.hops <= here.hops) {
                break;
            }
            for &id in incoming.links_of(head) {
                let link = topology.links()[id];
                let (hops, latency) = (here.hops + 1, here.latency + link.seconds());
                let extra_latency = here.extra_latency + link.extra_latency;
                match &mut self.found[link.source] {
                    Some(found) if found.hops == hops => {
                        found.latency = found.latency.max(latency);
                        found.extra_latency = found.extra_latency.max(extra_latency);
                        found.paths += here.paths;
                    }
                    Some(_) => {}
                    empty => {
                        *empty = Some(FoundPaths { hops, latency, extra_latency, paths: here.paths });
                        self.queue.push(link.source);
                    }
                }
            }
            self.done += 1;
        }
        self.found[node]
    }
}

impl<'a> Routes<'a> {
    /// The routes of `topology`, with an empty cache.
    pub fn new(topology: &'a Topology) -> Routes<'a> {
        let (nodes, links) = (topology.nodes(), topology.links());
        Routes {
            topology,
            lattice: Lattice::from_topology(topology),
            outgoing: Adjacency::new(nodes, links.iter().map(|l| l.source)),
            incoming: Adjacency::new(nodes, links.iter().map(|l| l.target)),
            search: RouteSearch { destination: None, found: vec![None; nodes], queue: Vec::new(), done: 0 },
            flow: vec![0.0; nodes],
            known: if nodes <= MOST_IN_TABLE {
                KnownRoutes::Table(Vec::new())
            } else {
                KnownRoutes::Map(HashMap::new())
            },
        }
    }

    /// The same routes by search instead of by formula, to compare the two.
    #[cfg(test)]
    pub(crate) fn by_search(mut self) -> Routes<'a> {
        self.lattice = None;
        self
    }

    /// The formulas for the routes, where [`Routes::have_formulas`].
    pub(crate) fn lattice(&mut self) -> Option<&mut Lattice> {
        self.lattice.as_mut()
    }

    /// Whether the routes follow from formulas and need no search: those of a ring or torus with minimal routing whose
    /// links are all alike.
    pub fn have_formulas(&self) -> bool {
        self.lattice.is_some()
    }

    /// The topology.
    pub fn topology(&self) -> &'a Topology {
        self.topology
    }

    /// Whether this route is cached or in the topology's table, so that it needs no search.
    pub(crate) fn is_known(&self, source: NodeId, destination: NodeId) -> bool {
        let listed = self.topology.routes().is_some_and(|table| source.max(destination) < table.ranks());
        listed
            || match self.switches(source, destination) {
                Some([(_, first), (last, _)]) => first == last || self.is_known(first, last),
                None => self.known.get(self.topology.nodes(), source, destination).is_some(),
            }
    }

    /// The only link of the source with the switch to which it leads, and the switch from which the only link to the
    /// destination comes, with that link. For large networks: these have many ranks at few switches, and their routes are
    /// put together from those between switches.
    fn switches(&self, source: NodeId, destination: NodeId) -> Option<[(usize, usize); 2]> {
        let (nodes, ranks, links) = (self.topology.nodes(), self.topology.ranks(), self.topology.links());
        if nodes <= MOST_IN_TABLE || source == destination || source.max(destination) >= ranks {
            return None;
        }
        let ([up], [down]) = (self.outgoing.links_of(source), self.incoming.links_of(destination)) else {
            return None;
        };
        let (first, last) = (links[*up].target, links[*down].source);
        (first.min(last) >= ranks).then_some([(*up, first), (last, *down)])
    }

    /// The route from `source` to `destination`; from a node to itself it is empty. An error where there is no path.
    pub fn route(&mut self, source: NodeId, destination: NodeId) -> Result<Arc<Route>, Unreachable> {
        if let Some(route) = self.listed(source, destination) {
            return Ok(Arc::new(route));
        }
        if let Some([(up, first), (last, down)]) = self.switches(source, destination) {
            let mut route = Route::default();
            route.go_on(up, self.topology);
            if first != last {
                route.append(&*self.route(first, last)?);
            }
            route.go_on(down, self.topology);
            return Ok(Arc::new(route));
        }
        let nodes = self.topology.nodes();
        if let Some(route) = self.known.get(nodes, source, destination) {
            return Ok(route.clone());
        }
        let route = self.find(source, destination).map(Arc::new).ok_or_else(|| Unreachable {
            source_node: source,
            destination,
            topology: self.topology.spec(),
            nodes,
        })?;
        self.known.insert(nodes, source, destination, route.clone());
        Ok(route)
    }

    /// The route in the topology's table, where it has one and both nodes are ranks.
    fn listed(&self, source: NodeId, destination: NodeId) -> Option<Route> {
        let table = self.topology.routes().filter(|table| source.max(destination) < table.ranks())?;
        let path = table.path(source, destination);
        let mut route = Route { shares: Vec::with_capacity(path.len()), ..Route::default() };
        path.iter().for_each(|link| route.go_on(*link as LinkId, self.topology));
        Some(route)
    }

    fn find(&mut self, source: NodeId, destination: NodeId) -> Option<Route> {
        if source >= self.topology.nodes() || destination >= self.topology.nodes() {
            return None;
        }
        let between_ranks = source.max(destination) < self.topology.ranks();
        if self.topology.routing() == Routing::DimensionOrdered && between_ranks {
            return self.dimension_ordered(source, destination);
        }
        self.shortest(source, destination)
    }

    /// The route that follows one dimension after the other. No link belongs to two dimensions, so the shares of the
    /// parts are the shares of the whole route.
    fn dimension_ordered(&mut self, source: NodeId, destination: NodeId) -> Option<Route> {
        let (mut corner, end) = (self.topology.coordinates(source), self.topology.coordinates(destination));
        let (mut route, mut at) = (Route::default(), source);
        for dimension in 0..corner.len() {
            if corner[dimension] == end[dimension] {
                continue;
            }
            corner[dimension] = end[dimension];
            let next = self.topology.rank_at(&corner)?;
            route.append(&self.shortest(at, next)?);
            at = next;
        }
        Some(route)
    }

    fn shortest(&mut self, source: NodeId, destination: NodeId) -> Option<Route> {
        if self.search.destination != Some(destination) {
            self.search.restart(destination);
        }
        let FoundPaths { hops, latency, extra_latency, .. } =
            self.search.reach(source, self.topology, &self.incoming)?;
        if self.topology.routing() == Routing::SinglePath {
            return self.single(source);
        }
        Some(Route { hops, latency, extra_latency, shares: self.shares(source) })
    }

    /// The path from `source` to the destination of the search that takes, at every node, the first link that leads
    /// closer.
    fn single(&self, source: NodeId) -> Option<Route> {
        let hops = |node: NodeId| self.search.found[node].map(|found| found.hops);
        let (mut route, mut at) = (Route::default(), source);
        while hops(at)? > 0 {
            let closer = |id: &&LinkId| {
                hops(self.topology.links()[**id].target).is_some_and(|h| Some(h + 1) == hops(at))
            };
            let id = *self.outgoing.links_of(at).iter().find(closer)?;
            route.go_on(id, self.topology);
            at = self.topology.links()[id].target;
        }
        Some(route)
    }

    /// What a link carries of the bytes on its parallel links, in units of the mean: as much as its bandwidth is of theirs.
    fn part(&self, id: LinkId) -> f64 {
        let links = self.topology.links();
        let parallel = self.outgoing.links_of(links[id].source).iter().map(|other| &links[*other]);
        let speeds = parallel.filter(|other| other.target == links[id].target).map(Link::bytes_per_second);
        let (count, all) = speeds.fold((0.0, 0.0), |(count, all), speed| (count + 1.0, all + speed));
        if count > 1.0 {
            links[id].bytes_per_second() * count / all
        } else {
            1.0
        }
    }

    /// The fraction that each link carries when the bytes spread evenly over all shortest paths from `source` to the
    /// destination of the search.
    fn shares(&mut self, source: NodeId) -> Vec<(LinkId, f64)> {
        let mut shares = Vec::new();
        let mut reached = vec![source];
        self.flow[source] = 1.0;
        let mut next = 0;
        while let Some(&node) = reached.get(next) {
            next += 1;
            let Some(here) = self.search.found[node] else { continue };
            for &id in self.outgoing.links_of(node) {
                let target = self.topology.links()[id].target;
                match self.search.found[target] {
                    Some(there) if there.hops + 1 == here.hops => {
                        let share = self.flow[node] * (there.paths / here.paths) * self.part(id);
                        shares.push((id, share));
                        if self.flow[target] == 0.0 {
                            reached.push(target);
                        }
                        self.flow[target] += share;
                    }
                    _ => {}
                }
            }
        }
        reached.into_iter().for_each(|node| self.flow[node] = 0.0);
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_through_switches_are_those_of_the_search() {
        let specs = ["hosts:300x8", "hosts:2,2045,9", "fattree:8x300", "switch:2100", "ring:2100"];
        for topology in specs.map(|spec| Topology::parse(spec).unwrap()) {
            let (mut composed, mut searched) = (Routes::new(&topology), Routes::new(&topology));
            for (source, destination) in [(0, 1), (1, 0), (0, 2047), (2046, 3), (9, 1049), (1049, 9), (7, 7)]
            {
                let route = composed.route(source, destination).unwrap();
                let expected = searched.find(source, destination).unwrap();
                assert!((route.latency - expected.latency).abs() <= 1e-12 * expected.latency);
                let exact = |route: &Route| (route.hops, route.shares.clone());
                assert_eq!(exact(&route), exact(&expected), "{topology}: {source} to {destination}");
                assert!(composed.is_known(source, destination));
            }
        }
    }
}

//! Tables that are made one source after the other. Of all shortest paths the one whose links carry the least so far is
//! taken.
//!
//! Hoefler, Schneider, Lumsdaine: Optimized routing for large-scale InfiniBand networks, Hot Interconnects 2009 (single
//! shortest paths, as in OpenSM); Schroeder et al.: Autonet, IEEE Journal on Selected Areas in Communications 9, 1991
//! (up*/down*).

use ringroad_core::topology::{Adjacency, RouteFault, RoutingTable, Topology, TopologyError};
use ringroad_core::units::{LinkId, NodeId, Rank};

use super::channels::{Labels, ROOTS};

/// Single shortest paths. Each source has a tree of paths with the fewest links; of these the paths whose links
/// carry the fewest paths so far are taken.
pub fn shortest(topology: &Topology) -> Result<RoutingTable, TopologyError> {
    RoutingTable::check_size(topology.ranks())?;
    let links = topology.links().iter().enumerate().map(|(id, link)| StateStep {
        from: link.source,
        to: link.target,
        link: id,
    });
    Trees::new(topology, topology.nodes(), links.collect()).table(RouteFault::Missing)
}

/// Shortest paths among those that lead towards a root first and then away from it, by the order in which a search
/// from the root finds nodes. They need one channel. Several roots are tried, and the one whose busiest link
/// carries the least is taken. An error where no root has such paths for all pairs of ranks.
pub fn up_down(topology: &Topology) -> Result<RoutingTable, TopologyError> {
    RoutingTable::check_size(topology.ranks())?;
    let load = |table: &RoutingTable| table.load(topology);
    let mut best: Option<Result<RoutingTable, TopologyError>> = None;
    for labels in Labels::from_some_roots(topology, ROOTS) {
        let made = up_down_from(topology, &labels);
        // Whether such paths exist may depend on the root.
        let better = match (&best, &made) {
            (None, _) | (Some(Err(_)), Ok(_)) => true,
            (Some(Ok(best)), Ok(made)) => load(made) < load(best),
            (Some(_), Err(_)) => false,
        };
        best = if better { Some(made) } else { best };
    }
    best.unwrap_or_else(|| Err(TopologyError::Zero(topology.spec())))
}

/// The up-down table for one root. State `v` means that the path is at node `v` and has not gone down yet, `v + nodes`
/// that it has gone down.
fn up_down_from(topology: &Topology, labels: &Labels) -> Result<RoutingTable, TopologyError> {
    let nodes = topology.nodes();
    let mut steps = Vec::with_capacity(2 * topology.links().len());
    for (id, link) in topology.links().iter().enumerate() {
        if labels.is_up(link) {
            steps.push(StateStep { from: link.source, to: link.target, link: id });
        } else {
            let to = nodes + link.target;
            steps.extend([link.source, nodes + link.source].map(|from| StateStep { from, to, link: id }));
        }
    }
    Trees::new(topology, 2 * nodes, steps).table(RouteFault::UpDown)
}

/// A step from one state to another over a link.
#[derive(Debug, Clone, Copy)]
struct StateStep {
    from: usize,
    to: usize,
    link: LinkId,
}

/// How the current tree reaches a state.
#[derive(Debug, Clone, Copy)]
struct Reached {
    hops: usize,
    /// What the links of the path to the state carry so far.
    carried: f64,
    step: usize,
}

/// Shortest paths in a graph of states. State `v` and, where there are more states than nodes, state `v + nodes` are at
/// node `v`.
struct Trees<'a> {
    topology: &'a Topology,
    steps: Vec<StateStep>,
    outgoing: Adjacency,
    /// How many paths each link carries, times its weight.
    load: Vec<f64>,
    /// The bandwidth of the fastest link divided by that of each link.
    weight: Vec<f64>,
    reached: Vec<Option<Reached>>,
    queue: Vec<usize>,
}

impl<'a> Trees<'a> {
    fn new(topology: &'a Topology, states: usize, steps: Vec<StateStep>) -> Trees<'a> {
        let links = topology.links();
        let fastest = links.iter().map(|link| link.bytes_per_second()).fold(0.0, f64::max);
        Trees {
            topology,
            outgoing: Adjacency::new(states, steps.iter().map(|step| step.from)),
            steps,
            load: vec![0.0; links.len()],
            weight: links.iter().map(|link| fastest / link.bytes_per_second()).collect(),
            reached: vec![None; states],
            queue: Vec::new(),
        }
    }

    fn table(mut self, missing: RouteFault) -> Result<RoutingTable, TopologyError> {
        let mut grown = None;
        RoutingTable::new(self.topology.ranks(), |source, target, path| {
            if grown.replace(source) != Some(source) {
                self.grow(source);
            }
            let first = path.len();
            let missing = || self.topology.bad_route(source, target, missing);
            let mut state = self.end(target).ok_or_else(missing)?;
            while let Some(Reached { step, .. }) = self.reached[state].filter(|reached| reached.hops > 0) {
                let StateStep { from, link, .. } = self.steps[step];
                self.load[link] += self.weight[link];
                path.push(link as u32);
                state = from;
            }
            path[first..].reverse();
            Ok(())
        })
    }

    /// The target's state with the shorter path; of paths of equal length, the one whose links carry less.
    fn end(&self, target: Rank) -> Option<usize> {
        let states = (target..self.reached.len()).step_by(self.topology.nodes());
        let ends = states.filter_map(|state| Some((self.reached[state]?, state)));
        let shorter = |a: &(Reached, usize), b: &(Reached, usize)| {
            (a.0.hops, a.0.carried).partial_cmp(&(b.0.hops, b.0.carried)).unwrap_or(std::cmp::Ordering::Equal)
        };
        ends.min_by(shorter).map(|(_, state)| state)
    }

    /// Builds the tree of a source. The search is breadth first, so that a state's path is final when its steps are
    /// followed.
    fn grow(&mut self, source: NodeId) {
        self.queue.drain(..).for_each(|state| self.reached[state] = None);
        self.queue.push(source);
        self.reached[source] = Some(Reached { hops: 0, carried: 0.0, step: usize::MAX });
        let mut done = 0;
        while let Some(&state) = self.queue.get(done) {
            done += 1;
            let Some(here) = self.reached[state] else { continue };
            for &step in self.outgoing.links_of(state) {
                let StateStep { to, link, .. } = self.steps[step];
                let next = Reached { hops: here.hops + 1, carried: here.carried + self.load[link], step };
                match &mut self.reached[to] {
                    Some(known) if (known.hops, known.carried) <= (next.hops, next.carried) => {}
                    Some(known) => *known = next,
                    none => {
                        *none = Some(next);
                        self.queue.push(to);
                    }
                }
            }
        }
    }
}

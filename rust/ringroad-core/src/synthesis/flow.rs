//! Maximum flow in whole numbers, by Dinic's algorithm.
//!
//! Dinic: Algorithm for solution of a problem of maximum flow in networks with power estimation, Soviet Mathematics
//! Doklady 11, 1970. Levels are counted from the sink, so that the search never enters nodes that do not reach it.

use std::collections::VecDeque;

/// A capacity that exceeds every flow.
pub(crate) const UNLIMITED: u64 = u64::MAX / 4;

/// A network for repeated searches with different capacities, sources and sinks.
#[derive(Debug, Clone)]
pub(crate) struct MaxFlow {
    /// The node where each arc ends. Arc `a ^ 1` is the reverse of arc `a`.
    ends: Vec<u32>,
    capacities: Vec<u64>,
    /// The residual capacity of each arc.
    room: Vec<u64>,
    outgoing: Vec<Vec<u32>>,
    /// The number of arcs from each node to the sink, or `FAR`.
    levels: Vec<u32>,
    /// The arc of each node that is tried next.
    next: Vec<usize>,
    queue: VecDeque<u32>,
    /// Arcs whose residual capacity differs from their capacity.
    touched: Vec<u32>,
}

const FAR: u32 = u32::MAX;

impl MaxFlow {
    /// A network of `nodes` nodes without arcs.
    pub fn new(nodes: usize) -> MaxFlow {
        MaxFlow {
            ends: Vec::new(),
            capacities: Vec::new(),
            room: Vec::new(),
            outgoing: vec![Vec::new(); nodes],
            levels: vec![FAR; nodes],
            next: vec![0; nodes],
            queue: VecDeque::new(),
            touched: Vec::new(),
        }
    }

    /// Adds a node and returns its number.
    pub fn node(&mut self) -> usize {
        self.outgoing.push(Vec::new());
        self.levels.push(FAR);
        self.next.push(0);
        self.outgoing.len() - 1
    }

    /// Adds an arc and returns its number.
    pub fn arc(&mut self, source: usize, target: usize, capacity: u64) -> usize {
        let arc = self.ends.len();
        self.ends.extend([target as u32, source as u32]);
        self.capacities.extend([capacity, 0]);
        self.room.extend([capacity, 0]);
        self.outgoing[source].push(arc as u32);
        self.outgoing[target].push(arc as u32 + 1);
        arc
    }

    /// The capacity of an arc.
    pub fn capacity(&self, arc: usize) -> u64 {
        self.capacities[arc]
    }

    /// Changes the capacity of an arc. There must be no flow.
    pub fn set(&mut self, arc: usize, capacity: u64) {
        self.capacities[arc] = capacity;
        self.room[arc] = capacity;
    }

    /// The maximum flow from `source` to `sink`, at most `limit`. Clears the flow afterwards.
    pub fn maximum(&mut self, source: usize, sink: usize, limit: u64) -> u64 {
        let flow = self.fill(source, sink, limit);
        self.clear();
        flow
    }

    /// The nodes on the sink's side of a minimum cut, if the maximum flow is less than `limit`; else `None`. Clears the
    /// flow.
    pub fn cut(&mut self, source: usize, sink: usize, limit: u64) -> Option<Vec<bool>> {
        let flow = self.fill(source, sink, limit);
        self.clear();
        // The last search for levels did not reach the source.
        (flow < limit).then(|| self.levels.iter().map(|level| *level != FAR).collect())
    }

    fn clear(&mut self) {
        for arc in self.touched.drain(..) {
            self.room[arc as usize] = self.capacities[arc as usize];
            self.room[arc as usize ^ 1] = self.capacities[arc as usize ^ 1];
        }
    }

    fn fill(&mut self, source: usize, sink: usize, limit: u64) -> u64 {
        let mut flow = 0;
        while flow < limit && self.search(source, sink) {
            self.next.fill(0);
            while flow < limit {
                let more = self.augment(source, sink, limit - flow);
                if more == 0 {
                    break;
                }
                flow += more;
            }
        }
        flow
    }

    /// Computes levels from the sink and returns whether the source reaches it. If not, all nodes that reach the sink
    /// have a level.
    fn search(&mut self, source: usize, sink: usize) -> bool {
        self.levels.fill(FAR);
        self.levels[sink] = 0;
        self.queue.clear();
        self.queue.push_back(sink as u32);
        while let Some(node) = self.queue.pop_front() {
            let node = node as usize;
            if self.levels[node] >= self.levels[source] {
                break;
            }
            for &arc in &self.outgoing[node] {
                let before = self.ends[arc as usize] as usize;
                if self.levels[before] == FAR && self.room[arc as usize ^ 1] > 0 {
                    self.levels[before] = self.levels[node] + 1;
                    self.queue.push_back(before as u32);
                }
            }
        }
        self.levels[source] != FAR
    }

    /// Sends as much as fits along one more shortest path.
    fn augment(&mut self, source: usize, sink: usize, limit: u64) -> u64 {
        let mut path: Vec<u32> = Vec::new();
        let mut at = source;
        while at != sink {
            let step = self.outgoing[at][self.next[at]..].iter().position(|arc| {
                let arc = *arc as usize;
                let level = self.levels[self.ends[arc] as usize];
                self.room[arc] > 0 && level != FAR && level + 1 == self.levels[at]
            });
            match step {
                Some(skipped) => {
                    self.next[at] += skipped;
                    let arc = self.outgoing[at][self.next[at]];
                    path.push(arc);
                    at = self.ends[arc as usize] as usize;
                }
                // A dead end: go back by one arc, and do not try that arc again.
                None => match path.pop() {
                    Some(arc) => {
                        self.next[at] = self.outgoing[at].len();
                        at = self.ends[arc as usize ^ 1] as usize;
                        self.next[at] += 1;
                    }
                    None => return 0,
                },
            }
        }
        let more = path.iter().map(|arc| self.room[*arc as usize]).min().unwrap_or(0).min(limit);
        for &arc in &path {
            self.room[arc as usize] -= more;
            self.room[arc as usize ^ 1] += more;
        }
        self.touched.extend(path);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest capacity into any set of nodes that has the sink and not the source.
    fn least_cut(nodes: usize, arcs: &[(usize, usize, u64)], source: usize, sink: usize) -> u64 {
        let within = |set: usize, node: usize| set >> node & 1 == 1;
        let into = |set: usize| -> u64 {
            arcs.iter().filter(|(a, b, _)| !within(set, *a) && within(set, *b)).map(|arc| arc.2).sum()
        };
        let sets = (0..1usize << nodes).filter(|set| within(*set, sink) && !within(*set, source));
        sets.map(into).min().unwrap()
    }

    #[test]
    fn flows_are_as_large_as_cuts_are_small() {
        let mut state = 1u64;
        let mut below = |end: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % end
        };
        for nodes in 2..9 {
            for _ in 0..40 {
                let arcs: Vec<(usize, usize, u64)> = (0..below(4 * nodes))
                    .map(|_| (below(nodes) as usize, below(nodes) as usize, below(9)))
                    .filter(|(a, b, _)| a != b)
                    .collect();
                let nodes = nodes as usize;
                let mut flow = MaxFlow::new(nodes);
                for (a, b, capacity) in &arcs {
                    flow.arc(*a, *b, *capacity);
                }
                for sink in 1..nodes {
                    let least = least_cut(nodes, &arcs, 0, sink);
                    assert_eq!(flow.maximum(0, sink, UNLIMITED), least, "{arcs:?}");
                    assert_eq!(flow.maximum(0, sink, 3), least.min(3));
                    assert_eq!(flow.cut(0, sink, least), None);
                    let side = flow.cut(0, sink, least + 1).unwrap();
                    let into: u64 = arcs.iter().filter(|(a, b, _)| !side[*a] && side[*b]).map(|a| a.2).sum();
                    assert_eq!(into, least, "{arcs:?}");
                    assert!(side[sink] && !side[0]);
                }
            }
        }
    }
}

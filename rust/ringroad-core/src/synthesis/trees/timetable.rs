//! The step in which each chunk goes along each edge of its trees, such that busy wires are rarely idle.
//!
//! Every chunk goes up a tree to be reduced, or down a tree, or up one and then down another. In every step a wire may
//! carry a limited number of chunks. Among those that are ready, the chunk with the longest remaining path goes first
//! (list scheduling). The pieces of a part follow each other at equal distances: a later piece may finish that much
//! later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::wiring::WireGraph;
use crate::collective::Collective;
use crate::schedule::{Action, ChunkSet, Schedule, Send};
use crate::synthesis::{Budget, Spent};
use crate::units::{Port, Rank};

/// A path from one rank to another.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub source: Rank,
    pub target: Rank,
    /// The wires on the path.
    pub wires: Vec<usize>,
    /// The ports of its first, parallel links.
    pub ports: Vec<Port>,
}

/// An edge of a tree and its lane, which leads to the child, or in a tree that leads up, to the parent.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeEdge {
    pub parent: Rank,
    pub child: Rank,
    pub lane: usize,
}

/// A tree of all ranks. Each edge comes after the one that leads to its parent.
#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub edges: Vec<TreeEdge>,
}

/// The route of one part of the vector: it is reduced up a tree, then spread down a tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct TreeCourse {
    /// The tree that it goes up, if any.
    pub up: Option<usize>,
    /// The tree that it goes down, if any.
    pub down: Option<usize>,
}

/// The trees, and the course of each part of the vector. All parts are equally large.
#[derive(Debug, Clone, Default)]
pub(super) struct Forest {
    pub lanes: Vec<Lane>,
    pub trees: Vec<Tree>,
    pub courses: Vec<TreeCourse>,
}

impl Forest {
    /// The number of parts that each wire carries.
    pub fn loads(&self, wires: usize) -> Vec<u64> {
        let mut uses = vec![0u64; self.trees.len()];
        let along = self.courses.iter().flat_map(|course| course.up.into_iter().chain(course.down));
        along.for_each(|tree| uses[tree] += 1);
        let mut loads = vec![0; wires];
        for (tree, uses) in self.trees.iter().zip(uses) {
            for edge in &tree.edges {
                self.lanes[edge.lane].wires.iter().for_each(|wire| loads[*wire] += uses);
            }
        }
        loads
    }

    /// The largest number of edges that a part takes one after the other.
    pub fn height(&self) -> usize {
        let depths: Vec<usize> = self.trees.iter().map(|tree| TreeShape::from_tree(tree).depth).collect();
        let depth = |tree: Option<usize>| tree.map_or(0, |tree| depths[tree]);
        self.courses.iter().map(|course| depth(course.up) + depth(course.down)).max().unwrap_or(0)
    }

    /// The schedule that spreads the load of the busiest wire evenly over about `parts` steps.
    pub fn schedule(
        &self,
        name: &str,
        wiring: &WireGraph,
        collective: Collective,
        parts: usize,
        budget: Budget<'_>,
    ) -> Result<Schedule, Spent> {
        let (pieces, allowances) = self.grain(wiring, parts);
        let mut schedule =
            Schedule::empty(name, collective, wiring.ranks, (self.courses.len() * pieces).max(1));
        for mut moves in
            Timetable::new(self, pieces, (parts / pieces).max(1), allowances, budget)?.run(budget)?
        {
            budget.check()?;
            moves.sort_unstable_by_key(|one| (one.lane, one.up, one.port, one.chunk));
            let same = |a: &LaneMove, b: &LaneMove| (a.lane, a.up, a.port) == (b.lane, b.up, b.port);
            let send = |moves: &[LaneMove]| {
                let Lane { source, target, .. } = self.lanes[moves[0].lane as usize];
                Send {
                    source,
                    destination: target,
                    chunks: moves.iter().map(|one| one.chunk as usize).collect::<ChunkSet>(),
                    action: if moves[0].up { Action::Reduce } else { Action::Copy },
                    port: moves[0].port as Port,
                    from: 0,
                    into: 0,
                }
            };
            schedule.push(moves.chunk_by(same).map(send).collect());
        }
        Ok(schedule)
    }

    /// The number of pieces into which each part is cut, and the number of pieces that each wire may carry in a step.
    /// Wires of all capacities take nearly equally long for their allowance.
    fn grain(&self, wiring: &WireGraph, parts: usize) -> (usize, Vec<u64>) {
        const FINE: u64 = 8;
        /// The most moves of chunks along edges, if the trees allow it. It takes a second to arrange them.
        const MOST_MOVES: u64 = 1 << 22;
        let loads = self.loads(wiring.wires.len());
        let used = || wiring.wires.iter().zip(&loads).filter(|(_, load)| **load > 0);
        let slowest = used().map(|(wire, _)| wire.capacity).min().unwrap_or(1);
        // The load in terms of the slowest wire.
        let load = used().map(|(wire, load)| (load * slowest).div_ceil(wire.capacity)).max().unwrap_or(1);
        let courses = self.courses.len().max(1) as u64;
        let most = (MOST_MOVES / (2 * wiring.ranks as u64 * courses)).max(1);
        let parts = parts.max(1) as u64;
        // A fine division costs chunks, so it is coarser where there would be too many.
        let fine = (most * load / parts).clamp(1, slowest.min(FINE));
        let pieces = (parts * fine).div_ceil(load).clamp(1, most);
        let each = fine * (load * pieces).div_ceil(parts * fine);
        let allowances = wiring.wires.iter().map(|wire| (wire.capacity * each / slowest).max(1)).collect();
        (pieces as usize, allowances)
    }
}

/// The properties of a tree that decide when its edges are used.
struct TreeShape {
    /// The edge that leads to each edge's parent; `None` if that is the root.
    before: Vec<Option<u32>>,
    /// The number of edges that follow each edge.
    children: Vec<u32>,
    /// The edges that follow edge `e` are `after[starts[e]..starts[e + 1]]`.
    starts: Vec<u32>,
    after: Vec<u32>,
    /// The edges at the root.
    top: Vec<u32>,
    /// The number of edges from the root to the end of each edge.
    depths: Vec<u32>,
    /// The number of edges of the longest path that begins with each edge.
    heights: Vec<u32>,
    depth: usize,
}

impl TreeShape {
    fn from_tree(tree: &Tree) -> TreeShape {
        let edges = &tree.edges;
        let ranks = edges.len() + 1;
        let mut to: Vec<Option<u32>> = vec![None; ranks];
        edges.iter().enumerate().for_each(|(id, edge)| to[edge.child] = Some(id as u32));
        let before: Vec<Option<u32>> = edges.iter().map(|edge| to[edge.parent]).collect();
        let mut depths = vec![1; edges.len()];
        let mut heights = vec![1; edges.len()];
        let mut children = vec![0; edges.len()];
        for (id, before) in before.iter().enumerate() {
            if let Some(before) = *before {
                depths[id] = depths[before as usize] + 1;
                children[before as usize] += 1;
            }
        }
        for (id, before) in before.iter().enumerate().rev() {
            if let Some(before) = before.map(|before| before as usize) {
                heights[before] = heights[before].max(heights[id] + 1);
            }
        }
        let mut starts = vec![0; edges.len() + 1];
        (0..edges.len()).for_each(|id| starts[id + 1] = starts[id] + children[id]);
        let mut next = starts.clone();
        let mut after = vec![0; starts[edges.len()] as usize];
        let mut top = Vec::new();
        for (id, before) in before.iter().enumerate() {
            match before.map(|before| before as usize) {
                Some(before) => {
                    after[next[before] as usize] = id as u32;
                    next[before] += 1;
                }
                None => top.push(id as u32),
            }
        }
        let depth = heights.iter().copied().max().unwrap_or(0) as usize;
        TreeShape { before, children, starts, after, top, depths, heights, depth }
    }
}

/// A chunk's move along a lane in one step.
#[derive(Debug, Clone, Copy)]
struct LaneMove {
    lane: u32,
    chunk: u32,
    port: u32,
    up: bool,
}

/// A chunk that may go along an edge. The one with the longest remaining path is the greatest.
type Ready = (u32, Reverse<u32>, bool, Reverse<u32>);

struct Timetable<'a> {
    forest: &'a Forest,
    pieces: usize,
    /// The number of steps by which a piece follows the previous one.
    distance: usize,
    allowances: Vec<u64>,
    shapes: Vec<TreeShape>,
    /// The moves that are ready for each lane.
    ready: Vec<BinaryHeap<Ready>>,
    /// For every chunk that goes up, and every edge of its tree, the number of edges below that it has not used yet.
    /// The last entry is for the edges at the root.
    pending: Vec<Vec<u32>>,
    /// Whether each lane shares no wire with other lanes.
    alone: Vec<bool>,
}

impl<'a> Timetable<'a> {
    fn new(
        forest: &'a Forest,
        pieces: usize,
        distance: usize,
        allowances: Vec<u64>,
        budget: Budget<'_>,
    ) -> Result<Timetable<'a>, Spent> {
        let mut users = vec![0; allowances.len()];
        forest.lanes.iter().flat_map(|lane| &lane.wires).for_each(|wire| users[*wire] += 1);
        let alone = |lane: &Lane| lane.wires.iter().all(|wire| users[*wire] == 1);
        let mut table = Timetable {
            forest,
            pieces,
            distance,
            shapes: forest.trees.iter().map(TreeShape::from_tree).collect(),
            ready: vec![BinaryHeap::new(); forest.lanes.len()],
            pending: Vec::with_capacity(forest.courses.len() * pieces),
            alone: forest.lanes.iter().map(alone).collect(),
            allowances,
        };
        for chunk in 0..(forest.courses.len() * pieces) as u32 {
            budget.check()?;
            table.begin(chunk);
        }
        Ok(table)
    }

    fn course(&self, chunk: u32) -> TreeCourse {
        self.forest.courses[chunk as usize / self.pieces]
    }

    fn begin(&mut self, chunk: u32) {
        let course = self.course(chunk);
        let Some(up) = course.up else {
            self.pending.push(Vec::new());
            return self.turn(chunk);
        };
        let shape = &self.shapes[up];
        let mut pending = shape.children.clone();
        pending.push(shape.top.len() as u32);
        let leaves: Vec<u32> =
            (0..shape.children.len() as u32).filter(|e| pending[*e as usize] == 0).collect();
        self.pending.push(pending);
        leaves.into_iter().for_each(|edge| self.offer(chunk, edge, true));
    }

    /// A chunk that has arrived at the root starts to go down.
    fn turn(&mut self, chunk: u32) {
        let Some(down) = self.course(chunk).down else { return };
        for index in 0..self.shapes[down].top.len() {
            self.offer(chunk, self.shapes[down].top[index], false);
        }
    }

    fn offer(&mut self, chunk: u32, edge: u32, up: bool) {
        let course = self.course(chunk);
        let (tree, way) = match (up, course.up, course.down) {
            (true, Some(tree), down) => {
                let further = down.map_or(0, |down| self.shapes[down].depth as u32);
                (tree, self.shapes[tree].depths[edge as usize] + further)
            }
            (false, _, Some(tree)) => (tree, self.shapes[tree].heights[edge as usize]),
            _ => unreachable!("a chunk goes along the trees of its course"),
        };
        let lane = self.forest.trees[tree].edges[edge as usize].lane;
        let earlier = self.pieces - 1 - chunk as usize % self.pieces;
        self.ready[lane].push((way + (earlier * self.distance) as u32, Reverse(chunk), up, Reverse(edge)));
    }

    /// Makes the next moves of a chunk ready after it went along an edge.
    fn advance(&mut self, chunk: u32, edge: u32, up: bool) {
        let course = self.course(chunk);
        let tree = if up { course.up } else { course.down };
        let Some(tree) = tree else { return };
        let shape = &self.shapes[tree];
        if !up {
            for index in shape.starts[edge as usize]..shape.starts[edge as usize + 1] {
                self.offer(chunk, self.shapes[tree].after[index as usize], false);
            }
            return;
        }
        let before = shape.before[edge as usize];
        let pending = &mut self.pending[chunk as usize];
        let place = before.map_or(pending.len() - 1, |before| before as usize);
        pending[place] -= 1;
        if pending[place] == 0 {
            match before {
                Some(before) => self.offer(chunk, before, true),
                None => self.turn(chunk),
            }
        }
    }

    fn run(mut self, budget: Budget<'_>) -> Result<Vec<Vec<LaneMove>>, Spent> {
        let lanes = 0..self.forest.lanes.len();
        let (alone, shared): (Vec<usize>, Vec<usize>) = lanes.partition(|lane| self.alone[*lane]);
        let mut steps = Vec::new();
        loop {
            budget.check()?;
            let (mut moves, mut done) = (Vec::new(), Vec::new());
            let mut go = |lane: usize, ready: Ready| {
                let (_, Reverse(chunk), up, Reverse(edge)) = ready;
                let ports = &self.forest.lanes[lane].ports;
                let port = ports[chunk as usize % ports.len()] as u32;
                moves.push(LaneMove { lane: lane as u32, chunk, port, up });
                done.push((chunk, edge, up));
            };
            for &lane in &alone {
                let wires = self.forest.lanes[lane].wires.iter();
                let room = wires.map(|wire| self.allowances[*wire]).min().unwrap_or(0);
                for _ in 0..room {
                    let Some(ready) = self.ready[lane].pop() else { break };
                    go(lane, ready);
                }
            }
            let mut room = self.allowances.clone();
            let first = |lane: &usize| self.ready[*lane].peek().map(|ready| (*ready, Reverse(*lane)));
            let mut waiting: BinaryHeap<(Ready, Reverse<usize>)> = shared.iter().filter_map(first).collect();
            while let Some((_, Reverse(lane))) = waiting.pop() {
                let wires = &self.forest.lanes[lane].wires;
                if wires.iter().any(|wire| room[*wire] == 0) {
                    continue;
                }
                wires.iter().for_each(|wire| room[*wire] -= 1);
                self.ready[lane].pop().into_iter().for_each(|ready| go(lane, ready));
                waiting.extend(self.ready[lane].peek().map(|ready| (*ready, Reverse(lane))));
            }
            if moves.is_empty() {
                return Ok(steps);
            }
            steps.push(moves);
            done.into_iter().for_each(|(chunk, edge, up)| self.advance(chunk, edge, up));
        }
    }
}

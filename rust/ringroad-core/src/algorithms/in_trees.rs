//! Families of in-trees: one table per algorithm, which determines reduce-scatter, allgather and allreduce.
//!
//! A table says for every rank and every block in which step the rank gives its partial result of the block away, and
//! to whom. The block's own rank is the root of the block's tree and keeps it. The table performs a reduce-scatter that
//! counts every contribution exactly once if and only if every parent is the root or gives the block away in a later
//! step. Allgather is the reverse in time, and allreduce is one after the other.
//!
//! A torus is the product of its rings: there is a table per dimension, and a time for each level of each table. A rank
//! gives a block away at the earliest time of all dimensions, along that dimension. Its parent differs in that
//! coordinate only. So the parent gives the block away later: the times of other dimensions are the same, and the level
//! of that dimension is higher.

use super::shape::{in_turns, Shape};
use crate::collective::Collective;
use crate::schedule::{Action, Axis, Cycle, Motion, Schedule, Send, Slice, Step, Symmetry};
use crate::units::{ChunkId, Port, Rank};

/// How a rank gives its partial result of a block away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Give {
    /// The step.
    pub level: usize,
    /// The receiver.
    pub parent: Rank,
    /// The port.
    pub port: Port,
}

/// One in-tree per block, over the positions of one ring; ports are 0 (up) and 1 (down).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    size: usize,
    levels: usize,
    motion: Option<Motion>,
    /// For position `x` and block `q` at index `x * size + q`; with a motion, for position 0 only. A position's own
    /// block has the level `levels`.
    gives: Vec<Give>,
}

impl Table {
    /// The table of `give(position, block)`, which is not called for a position's own block.
    pub fn new(size: usize, give: impl Fn(usize, usize) -> Give) -> Table {
        Table::from_fn(size, None, size, give)
    }

    /// The table in which all positions act alike, each seen from its own place. `give(block)` says how position 0
    /// gives a block other than 0 away.
    pub fn symmetric(size: usize, motion: Motion, give: impl Fn(usize) -> Give) -> Table {
        Table::from_fn(size, Some(motion), 1, |_, block| give(block))
    }

    fn from_fn(
        size: usize,
        motion: Option<Motion>,
        rows: usize,
        give: impl Fn(usize, usize) -> Give,
    ) -> Table {
        let own = |position| Give { level: 0, parent: position, port: 0 };
        let cell = |position, block| if position == block { own(position) } else { give(position, block) };
        let mut gives: Vec<Give> =
            (0..rows).flat_map(|x| (0..size).map(move |q| (x, q))).map(|(x, q)| cell(x, q)).collect();
        let levels = if size > 1 { gives.iter().map(|g| g.level + 1).max().unwrap_or(0) } else { 0 };
        gives.iter_mut().step_by(size + 1).for_each(|own| own.level = levels);
        Table { size, levels, motion, gives }
    }

    /// How `position` gives `block` away. Its own block, which it keeps, has a level past the last.
    pub fn give(&self, position: usize, block: usize) -> Give {
        let give = self.gives[self.index(position, block)];
        let Some(motion) = self.motion.filter(|_| position > 0) else { return give };
        let Give { level, parent, port } = give;
        let turned = motion.turns(self.size, position, parent);
        let parent = motion.apply(self.size, position, parent);
        Give { level, parent, port: port ^ usize::from(turned) }
    }

    /// Where it is written how `position` gives `block` away; with a motion, as position 0 sees it.
    fn index(&self, position: usize, block: usize) -> usize {
        let of_first = |motion: Motion| motion.back(self.size, position, block);
        self.motion.map_or(position * self.size + block, of_first)
    }

    /// The number of steps.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// The number of positions.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The motion that makes the other positions' rows from the row of position 0; `None` if positions do not act
    /// alike.
    pub(super) fn motion(&self) -> Option<Motion> {
        self.motion
    }

    /// The mirror image: position `-x` does downwards what position `x` does upwards in this table.
    pub fn mirrored(&self) -> Table {
        let mirror = |x: usize| (self.size - x) % self.size;
        let give = |position, block| {
            let Give { level, parent, port } = self.give(mirror(position), mirror(block));
            Give { level, parent: mirror(parent), port: port ^ 1 }
        };
        match self.motion {
            None => Table::new(self.size, give),
            Some(motion) => Table::symmetric(self.size, motion.mirrored(), |block| give(0, block)),
        }
    }

    /// For every block and level, the lowest position that gives the block away at that level or later, or keeps it.
    fn holders(&self) -> Vec<Vec<usize>> {
        if self.motion == Some(Motion::Shift) {
            return self.shifted_holders();
        }
        let of_block = |block| {
            let mut holders = Vec::with_capacity(self.levels + 1);
            for position in 0..=block {
                let level = self.gives[self.index(position, block)].level;
                while holders.len() <= level {
                    holders.push(position);
                }
            }
            holders
        };
        (0..self.size).map(of_block).collect()
    }

    /// The same where positions are shifts of each other: as position 0 gives its block `q - x` away, position `x`
    /// gives `q`.
    fn shifted_holders(&self) -> Vec<Vec<usize>> {
        let mut farthest = vec![0; self.levels + 1];
        let of_block = |(block, give): (usize, &Give)| {
            farthest[..=give.level].fill(block);
            farthest.iter().map(|farthest| block - farthest).collect()
        };
        self.gives.iter().enumerate().map(of_block).collect()
    }
}

/// One in-tree per block, over all ranks: the product of one table per dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InTrees {
    shape: Shape,
    tables: Vec<Table>,
    /// For every dimension, the time of each level of its table.
    times: Vec<Vec<usize>>,
    /// The cycle along which the positions of the only dimension stand; `None` if they stand in the order of the ranks.
    cycle: Option<Cycle>,
}

impl InTrees {
    /// The product of `tables`: table `d` has the size of dimension `d`. No time may occur twice.
    pub fn product(shape: &Shape, tables: Vec<Table>, times: Vec<Vec<usize>>) -> InTrees {
        InTrees { shape: shape.clone(), tables, times, cycle: None }
    }

    /// The trees of one table.
    pub fn from_table(table: Table) -> InTrees {
        let times = vec![(0..table.levels).collect()];
        InTrees { shape: Shape::ring(table.size), tables: vec![table], times, cycle: None }
    }

    /// The trees of one table whose positions stand along a cycle. If the table has a motion, it must be a shift.
    pub fn along(cycle: Cycle, table: Table) -> InTrees {
        InTrees { cycle: Some(cycle), ..InTrees::from_table(table) }
    }

    /// How position `x` gives `block` away; `None` for its own block, which it keeps.
    pub fn give(&self, x: usize, block: usize) -> Option<Give> {
        let mut earliest: Option<Give> = None;
        let mut stride = 1;
        for (dimension, table) in self.tables.iter().enumerate().rev() {
            let at = x / stride % table.size;
            let Give { level, parent, port } = table.give(at, block / stride % table.size);
            if let Some(&time) = self.times[dimension].get(level) {
                if earliest.is_none_or(|give| time < give.level) {
                    let parent = x + parent * stride - at * stride;
                    earliest = Some(Give { level: time, parent, port: 2 * dimension + port });
                }
            }
            stride *= table.size;
        }
        earliest
    }

    fn ranks(&self) -> usize {
        self.shape.ranks()
    }

    /// One more than the last time.
    fn steps(&self) -> usize {
        self.times.iter().flatten().map(|time| time + 1).max().unwrap_or(0)
    }

    /// The symmetry given by the tables' motions; `None` if some table has no motion.
    fn symmetry(&self) -> Option<Symmetry> {
        let axis = |table: &Table| Some(Axis { size: table.size, blocks: table.size, motion: table.motion? });
        let axes = self.tables.iter().map(axis).collect::<Option<Vec<Axis>>>()?;
        let rank = |position| self.rank(position);
        let chunks = (0..self.ranks()).map(rank).collect();
        Some(Symmetry { slices: vec![Slice { cycle: self.cycle.clone(), ..Slice::on_grid(axes, chunks) }] })
    }

    fn rank(&self, position: usize) -> Rank {
        self.cycle.as_ref().map_or(position, |cycle| cycle.ranks[position])
    }

    /// The reduce-scatter, in chunks of one block each; every rank sends `ranks - 1` blocks. Keeps steps without
    /// messages, so that trees with the same times can run side by side.
    fn reduce_scatter(&self, name: &str) -> Schedule {
        let mut schedule = Schedule::empty(name, Collective::ReduceScatter, self.ranks(), self.ranks());
        schedule.symmetry = self.symmetry();
        let mut steps: Vec<Vec<(Rank, Give, Vec<ChunkId>)>> = vec![Vec::new(); self.steps()];
        let rows = if schedule.symmetry.is_some() { 1 } else { self.ranks() };
        for position in 0..rows {
            for block in 0..self.ranks() {
                let Some(give) = self.give(position, block) else { continue };
                let sends = &mut steps[give.level];
                let here = |s: &&mut (Rank, Give, Vec<ChunkId>)| s.0 == position;
                match sends.iter_mut().rev().take_while(here).find(|s| s.1 == give) {
                    Some(send) => send.2.push(self.rank(block)),
                    None => sends.push((position, give, vec![self.rank(block)])),
                }
            }
        }
        let send = |(source, give, blocks): (Rank, Give, Vec<ChunkId>)| Send {
            source: self.rank(source),
            destination: self.rank(give.parent),
            chunks: blocks.into_iter().collect(),
            action: Action::Reduce,
            port: give.port,
            from: 0,
            into: 0,
        };
        let step = |sends: Vec<_>| Step { sends: sends.into_iter().map(send).collect(), locals: Vec::new() };
        schedule.steps = steps.into_iter().map(step).collect();
        schedule
    }

    /// A number for every block such that blocks that travel together have adjacent numbers. This requires that any two
    /// sets of blocks that ranks hold before a step are equal or disjoint, which holds for powers of two and three.
    fn numbering(&self) -> Vec<ChunkId> {
        let holders: Vec<Vec<Vec<usize>>> = self.tables.iter().map(Table::holders).collect();
        let mut levels: Vec<(usize, usize, usize)> = Vec::new();
        for (dimension, times) in self.times.iter().enumerate() {
            levels.extend(times.iter().enumerate().map(|(level, time)| (*time, dimension, level)));
        }
        levels.sort_unstable();
        // Sorts blocks by their sets, from coarse to fine, where the lowest position that holds a set stands for it.
        // This is a stable sort by the finest set first. Consecutive levels of one dimension form one key.
        let mut blocks: Vec<usize> = (0..self.ranks()).collect();
        for row in levels.chunk_by(|a, b| a.1 == b.1).rev() {
            let dimension = row[0].1;
            let (size, stride) = (self.shape.sizes()[dimension], self.shape.stride(dimension));
            let by_level = |keys: Vec<usize>, &(_, _, level): &(usize, usize, usize)| {
                sorted_by(keys, size, |coordinate| holders[dimension][coordinate][level + 1])
            };
            let order = row.iter().rev().fold((0..size).collect(), by_level);
            let alike = |a: &usize, b: &usize| {
                let same =
                    |l: &(_, _, usize)| holders[dimension][*a][l.2 + 1] == holders[dimension][*b][l.2 + 1];
                row.iter().all(same)
            };
            let mut keys = vec![0; size];
            for (key, coordinates) in order.chunk_by(alike).enumerate() {
                coordinates.iter().for_each(|coordinate| keys[*coordinate] = key);
            }
            blocks = sorted_by(blocks, size, |block| keys[block / stride % size]);
        }
        let mut numbers = vec![0; self.ranks()];
        blocks.into_iter().enumerate().for_each(|(number, block)| numbers[self.rank(block)] = number);
        numbers
    }
}

/// A reduce-scatter along `scatter`, an allgather along the reverse of `gather`, or both in turn as an allreduce. In an
/// allreduce any rank may reduce any chunk, so chunks get other numbers if that leaves fewer runs to send.
fn slice(name: &str, collective: Collective, scatter: &InTrees, gather: &InTrees) -> Schedule {
    let reversed = |scatter: &Schedule| scatter.reverse().expect("a reduce-scatter can be reversed");
    match collective {
        Collective::ReduceScatter => scatter.reduce_scatter(name),
        Collective::Allgather => reversed(&gather.reduce_scatter(name)),
        Collective::Allreduce => {
            let first = scatter.reduce_scatter(name);
            let second =
                if gather == scatter { reversed(&first) } else { reversed(&gather.reduce_scatter(name)) };
            let natural = first.compose(&second);
            let natural = natural.expect("reduce-scatter and allgather make an allreduce");
            if runs(&natural) == natural.steps.iter().map(|step| step.sends.len()).sum::<usize>() {
                return natural;
            }
            let renumbered = natural.clone().renumbered(&scatter.numbering());
            if runs(&renumbered) < runs(&natural) {
                renumbered
            } else {
                natural
            }
        }
        other => unreachable!("in-trees perform no {other}"),
    }
}

/// Reduce-scatter, allgather or allreduce in slices that run side by side. Each slice has a family of trees for the
/// reduce-scatter and another whose reverse is for the allgather.
pub fn perform<'a>(
    name: &str,
    collective: Collective,
    slices: impl IntoIterator<Item = &'a (InTrees, InTrees)>,
) -> Schedule {
    let slices: Vec<Schedule> =
        slices.into_iter().map(|(scatter, gather)| slice(name, collective, scatter, gather)).collect();
    Schedule::split(name, &slices).expect("all slices have a block for every rank")
}

/// Trees for slices that start in every dimension, where `tables` take one step in each dimension in turn. With
/// `both_ways`, each slice has a mirror image, so that each takes half of the vector.
pub fn interleaved(shape: &Shape, tables: &[Table], both_ways: bool) -> Vec<(InTrees, InTrees)> {
    let levels: Vec<usize> = tables.iter().map(Table::levels).collect();
    let mut images = vec![tables.to_vec()];
    images.extend(both_ways.then(|| tables.iter().map(Table::mirrored).collect()));
    let starts = 0..shape.wide().len().max(1);
    let slices = starts.flat_map(|first| images.iter().map(move |image| (first, image.clone())));
    let trees = slices.map(|(first, image)| {
        let trees = InTrees::product(shape, image, in_turns(&levels, &shape.order(first)));
        (trees.clone(), trees)
    });
    trees.collect()
}

/// Sorts items by a key less than `keys`, without changing the order of equals.
fn sorted_by(items: Vec<usize>, keys: usize, key: impl Fn(usize) -> usize) -> Vec<usize> {
    let mut next = vec![0; keys + 1];
    items.iter().for_each(|item| next[key(*item) + 1] += 1);
    (0..keys).for_each(|key| next[key + 1] += next[key]);
    let mut sorted = vec![0; items.len()];
    for item in items {
        let place = &mut next[key(item)];
        sorted[*place] = item;
        *place += 1;
    }
    sorted
}

fn runs(schedule: &Schedule) -> usize {
    schedule.steps.iter().flat_map(|step| &step.sends).map(|send| send.chunks.runs().len()).sum()
}

#[cfg(test)]
mod tests {
    use super::super::distances::{fewest, plan};
    use super::super::nested::table;
    use super::*;

    #[test]
    fn holders_of_shifts_are_those_of_every_position() {
        for (size, extra) in [(2, 0), (7, 0), (9, 0), (12, 1), (16, 0), (27, 2), (30, 5)] {
            let levels = fewest(size) + extra;
            let table = table(size, &plan(&[size], &[levels.min(size / 2)])[0]);
            let every = Table::new(size, |position, block| table.give(position, block));
            assert_eq!(table.holders(), every.holders(), "{size}");
        }
    }
}

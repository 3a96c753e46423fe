//! Schedules in which every rank does the same, seen from its own place: one rank's sends stand for all.
//!
//! The vector is cut into slices, and the ranks of a slice stand on a grid (a ring, a torus, or one cycle through all
//! of it). A motion of the grid takes its first position to any other one, along every axis by a shift, by a shift or a
//! reflection, or by flipping bits. It moves senders, receivers, ports and blocks of the vector alike. What the first
//! position does, moved to position r, is what position r does: this *defines* the other ranks' sends, so nothing has to
//! be believed about them, and whoever verifies one block of each slice has verified all.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ChunkSet, Group, Local, Send};
use crate::units::{ChunkId, Port, Rank};

/// How motions along one axis look. `r` is where position 0 goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Motion {
    /// `x` goes to `x + r`.
    Shift,
    /// `x` goes to `x + r` if `r` is even and to `r - x` if it is odd; for even sizes.
    Reflect,
    /// `x` goes to `x ^ r`; for powers of two.
    Flip,
    /// `-x` goes to `-(x ^ r)`: the mirror image of [`Motion::Flip`].
    MirroredFlip,
}

impl Motion {
    /// Where `x` goes by the motion that takes 0 to `r`.
    pub fn apply(self, size: usize, r: usize, x: usize) -> usize {
        let negative = |x: usize| (size - x) % size;
        match self {
            Motion::Shift => (x + r) % size,
            Motion::Reflect if r.is_multiple_of(2) => (x + r) % size,
            Motion::Reflect => (size + r - x) % size,
            Motion::Flip => x ^ r,
            Motion::MirroredFlip => negative(negative(x) ^ negative(r)),
        }
    }

    /// The `r` by whose motion `x` goes to `target`.
    fn between(self, size: usize, x: usize, target: usize) -> usize {
        let negative = |x: usize| (size - x) % size;
        match self {
            Motion::Shift => (target + size - x) % size,
            Motion::Reflect if (x + target).is_multiple_of(2) => (target + size - x) % size,
            Motion::Reflect => (target + x) % size,
            Motion::Flip => x ^ target,
            Motion::MirroredFlip => negative(negative(x) ^ negative(target)),
        }
    }

    /// What goes to `x` by the motion that takes 0 to `r`.
    pub fn back(self, size: usize, r: usize, x: usize) -> usize {
        self.apply(size, self.between(size, r, 0), x)
    }

    /// The motion of the mirror image, in which `x` and `-x` change places.
    pub fn mirrored(self) -> Motion {
        match self {
            Motion::Flip => Motion::MirroredFlip,
            Motion::MirroredFlip => Motion::Flip,
            same => same,
        }
    }

    /// Whether the motion to `r` turns the way from 0 to `x` around.
    pub fn turns(self, size: usize, r: usize, x: usize) -> bool {
        match self {
            Motion::Shift => false,
            Motion::Reflect => !r.is_multiple_of(2),
            Motion::Flip => r & x != 0,
            Motion::MirroredFlip => ((size - r) % size) & ((size - x) % size) != 0,
        }
    }

    fn admits(self, size: usize, blocks: usize) -> bool {
        let divides = blocks > 0 && size.is_multiple_of(blocks);
        divides
            && match self {
                Motion::Shift => true,
                Motion::Reflect => {
                    size == 1 || size.is_multiple_of(2) && (blocks == 1 || blocks.is_multiple_of(2))
                }
                Motion::Flip | Motion::MirroredFlip => size.is_power_of_two(),
            }
    }
}

/// One axis of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Positions along it.
    pub size: usize,
    /// How many blocks the vector is cut into along it: position `x` stands on block `x % blocks`.
    pub blocks: usize,
    /// The motions along it.
    pub motion: Motion,
}

/// A cycle through all ranks: rank `ranks[i]` reaches `ranks[i + 1]`, and the last the first, by its port `ports[i]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycle {
    /// The ranks in order.
    pub ranks: Vec<Rank>,
    /// By which port each leaves for the next. The way back leaves by the opposite port.
    pub ports: Vec<Port>,
}

/// A slice of the vector and the grid on which the ranks pass it around.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The grid; positions count like the elements of a C array. Empty where there is a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// The chunk of every block; blocks count like the elements of a C array of `axes[..].blocks`.
    pub chunks: Vec<ChunkId>,
    /// Which rank stands at which position of a grid of one axis; without it, rank `i` stands at position `i`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Cycle>,
    /// The group that the positions are, where they form no grid: a block for every element, and every port a generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Arc<Group>>,
}

/// The slices of a schedule; every message belongs to one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symmetry {
    /// They have no chunk in common, and all chunks between them.
    pub slices: Vec<Slice>,
}

impl Slice {
    /// How many bytes it takes, about.
    pub(super) fn footprint(&self) -> usize {
        let cycle = |cycle: &Cycle| size_of_val(&*cycle.ranks) + size_of_val(&*cycle.ports);
        let group = |group: &Arc<Group>| group.footprint();
        size_of::<Slice>()
            + size_of_val(&*self.chunks)
            + self.cycle.as_ref().map_or(0, cycle)
            + self.group.as_ref().map_or(0, group)
    }

    /// A slice on a grid on which rank `i` stands at position `i`.
    pub fn on_grid(axes: Vec<Axis>, chunks: Vec<ChunkId>) -> Slice {
        Slice { axes, chunks, cycle: None, group: None }
    }

    /// A slice of one chunk for every element of a group.
    pub fn of_group(group: Arc<Group>, chunks: Vec<ChunkId>) -> Slice {
        Slice { axes: Vec::new(), chunks, cycle: None, group: Some(group) }
    }

    /// How many positions there are.
    fn positions(&self) -> usize {
        self.group.as_ref().map_or_else(|| self.axes.iter().map(|a| a.size).product(), |group| group.size())
    }

    /// The rank at a position.
    pub fn rank(&self, position: usize) -> Rank {
        self.cycle.as_ref().map_or(position, |cycle| cycle.ranks[position])
    }

    /// The position that `x` goes to by the motion to `r`.
    pub(crate) fn moved(&self, r: usize, x: usize) -> usize {
        if let Some(group) = &self.group {
            return group.product(r, x);
        }
        self.fold(|axis, stride| axis.motion.apply(axis.size, r / stride % axis.size, x / stride % axis.size))
    }

    /// Whether its motions do the same to ranks and ports as those of `other`.
    pub(super) fn moves_like(&self, other: &Slice) -> bool {
        let motions =
            |slice: &'_ Slice| slice.axes.iter().map(|axis| (axis.size, axis.motion)).collect::<Vec<_>>();
        let same_group = match (&self.group, &other.group) {
            (Some(group), Some(others)) => Arc::ptr_eq(group, others),
            (None, None) => true,
            _ => false,
        };
        same_group && motions(self) == motions(other) && self.cycle.is_none() && other.cycle.is_none()
    }

    /// Where the motions to all positions take `x`.
    fn moved_by_all(&self, x: usize) -> Vec<usize> {
        if let Some(group) = &self.group {
            return (0..group.size()).map(|r| group.product(r, x)).collect();
        }
        let mut stride = self.positions();
        let mut all = vec![0];
        for axis in &self.axes {
            stride /= axis.size;
            let x = x / stride % axis.size;
            let along: Vec<usize> =
                (0..axis.size).map(|r| axis.motion.apply(axis.size, r, x) * stride).collect();
            all = all.iter().flat_map(|before| along.iter().map(move |step| before + step)).collect();
        }
        all
    }

    /// The position to which the motion leads that takes `x` to `target`.
    pub(crate) fn between(&self, x: usize, target: usize) -> usize {
        if let Some(group) = &self.group {
            return group.product(target, group.inverse(x));
        }
        self.fold(|axis, stride| {
            axis.motion.between(axis.size, x / stride % axis.size, target / stride % axis.size)
        })
    }

    /// The position whose coordinates are told for every axis and its stride.
    fn fold(&self, coordinate: impl Fn(&Axis, usize) -> usize) -> usize {
        let mut stride = 1;
        let mut position = 0;
        for axis in self.axes.iter().rev() {
            position += coordinate(axis, stride) * stride;
            stride *= axis.size;
        }
        position
    }

    /// Where the block goes by the motion to `r`.
    fn moved_block(&self, r: usize, block: usize) -> usize {
        if self.group.is_some() {
            return self.moved(r, block);
        }
        let (mut stride, mut blocks, mut moved) = (1, 1, 0);
        for axis in self.axes.iter().rev() {
            let (r, b) = (r / stride % axis.size, block / blocks % axis.blocks);
            moved += axis.motion.apply(axis.size, r, b) % axis.blocks * blocks;
            stride *= axis.size;
            blocks *= axis.blocks;
        }
        moved
    }

    /// The positions whose motions take `block` to block 0.
    fn homing(&self, block: usize) -> Vec<usize> {
        if let Some(group) = &self.group {
            return vec![group.inverse(block)];
        }
        let (mut stride, mut blocks) = (1, 1);
        let mut positions = vec![0];
        for axis in self.axes.iter().rev() {
            let b = block / blocks % axis.blocks;
            // Along an axis with fewer blocks than positions, every so many motions take it there.
            let first = axis.motion.between(axis.size, b, 0) % axis.blocks;
            let along = (first..axis.size).step_by(axis.blocks);
            positions = along.flat_map(|x| positions.iter().map(move |p| p + x * stride)).collect();
            stride *= axis.size;
            blocks *= axis.blocks;
        }
        positions
    }

    /// Whether these blocks of an all-to-all, one for each position, are what the motions make of the first one: a block
    /// is numbered by who sends and who receives it.
    pub(super) fn pairs_move(&self, blocks: &[usize]) -> bool {
        if self.cycle.is_some() {
            return false;
        }
        let ranks = blocks.len();
        let (source, target) = (blocks[0] / ranks, blocks[0] % ranks);
        let block = |r| self.moved(r, source) * ranks + self.moved(r, target);
        (0..ranks).all(|r| blocks[self.moved_block(r, 0)] == block(r))
    }

    /// The port by which the motion to `r` makes a message leave that leaves position 0 for `x` by `port`.
    pub(super) fn port(&self, r: usize, x: usize, port: Port) -> Port {
        if let Some(Cycle { ports, .. }) = &self.cycle {
            return if port == 0 { ports[r] } else { ports[(r + ports.len() - 1) % ports.len()] ^ 1 };
        }
        let Some(axis) = self.axes.get(port / 2) else { return port };
        let stride: usize = self.axes[port / 2 + 1..].iter().map(|a| a.size).product();
        let turned = axis.motion.turns(axis.size, r / stride % axis.size, x / stride % axis.size);
        port ^ usize::from(turned)
    }

    /// [`Slice::port`] for all positions in turn.
    fn ports(&self, x: usize, port: Port) -> impl Fn(usize) -> Port + use<'_> {
        let axis = self.axes.get(port / 2).filter(|_| self.cycle.is_none());
        let stride: usize = self.axes.iter().skip(port / 2 + 1).map(|a| a.size).product();
        let at = axis.map_or(0, |axis| x / stride % axis.size);
        let ports: Vec<Port> = axis.map_or(Vec::new(), |axis| {
            (0..axis.size).map(|r| port ^ usize::from(axis.motion.turns(axis.size, r, at))).collect()
        });
        move |r| match ports.len() {
            0 => self.port(r, x, port),
            size => ports[r / stride % size],
        }
    }

    fn check(&self, ranks: usize, chunks: usize) -> Result<(), String> {
        if let Some(group) = &self.group {
            let alone = self.axes.is_empty() && self.cycle.is_none();
            let fits = alone && group.size() == ranks && self.chunks.len() == ranks;
            let there = self.chunks.iter().all(|chunk| *chunk < chunks);
            let what = "a slice of a group does not have one of the chunks for each rank";
            return (fits && there).then_some(()).ok_or_else(|| what.to_owned());
        }
        let product = |size: fn(&Axis) -> usize| {
            self.axes.iter().try_fold(1usize, |product, axis| product.checked_mul(size(axis)))
        };
        let admitted = self.axes.iter().all(|a| a.motion.admits(a.size, a.blocks));
        if !admitted || product(|a| a.size) != Some(ranks) || product(|a| a.blocks) != Some(self.chunks.len())
        {
            return Err(format!("a slice on {:?} does not hold {ranks} ranks", self.axes));
        }
        if self.chunks.iter().any(|c| *c >= chunks) {
            return Err(format!("a slice has chunks beyond {chunks}"));
        }
        let Some(cycle) = &self.cycle else { return Ok(()) };
        let mut order = cycle.ranks.clone();
        order.sort_unstable();
        if self.axes.len() == 1
            && self.axes[0].motion == Motion::Shift
            && cycle.ports.len() == ranks
            && order.into_iter().eq(0..ranks)
        {
            Ok(())
        } else {
            Err(format!("a slice's cycle does not visit each of {ranks} ranks once"))
        }
    }
}

/// A symmetry with its tables turned around: from chunks to blocks, from ranks to positions.
pub(super) struct Chart<'a> {
    slices: &'a [Slice],
    /// The slice and the block of every chunk.
    blocks: Vec<(u32, u32)>,
    /// The position of every rank, for slices with a cycle.
    positions: Vec<Vec<usize>>,
}

impl<'a> Chart<'a> {
    pub fn new(symmetry: &'a Symmetry, chunks: usize) -> Chart<'a> {
        let mut blocks = vec![(0, 0); chunks];
        for (index, slice) in symmetry.slices.iter().enumerate() {
            let numbered = slice.chunks.iter().enumerate();
            numbered.for_each(|(block, chunk)| blocks[*chunk] = (index as u32, block as u32));
        }
        let turned = |slice: &Slice| {
            let ranks = slice.cycle.iter().flat_map(|cycle| cycle.ranks.iter().enumerate());
            let mut positions = vec![0; slice.cycle.as_ref().map_or(0, |cycle| cycle.ranks.len())];
            ranks.for_each(|(position, rank)| positions[*rank] = position);
            positions
        };
        Chart { slices: &symmetry.slices, blocks, positions: symmetry.slices.iter().map(turned).collect() }
    }

    /// The index of the slice that `chunks` are of.
    pub fn slice_of(&self, chunks: &ChunkSet) -> usize {
        chunks.max().map_or(0, |chunk| self.blocks[chunk].0 as usize)
    }

    pub fn slice(&self, index: usize) -> &Slice {
        &self.slices[index]
    }

    pub fn position(&self, slice: usize, rank: Rank) -> usize {
        self.positions[slice].get(rank).copied().unwrap_or(rank)
    }

    fn chunks(&self, slice: &Slice, r: usize, chunks: &ChunkSet) -> ChunkSet {
        if r == 0 {
            return chunks.clone();
        }
        let place = |chunk: ChunkId| slice.chunks[slice.moved_block(r, self.blocks[chunk].1 as usize)];
        chunks.iter().map(place).collect()
    }

    /// The send of position 0, moved to position `r` of its slice.
    fn moved(&self, index: usize, r: usize, send: &Send) -> Send {
        let slice = &self.slices[index];
        let goal = self.position(index, send.destination);
        Send {
            source: slice.rank(r),
            destination: slice.rank(slice.moved(r, goal)),
            chunks: self.chunks(slice, r, &send.chunks),
            port: slice.port(r, goal, send.port),
            ..*send
        }
    }

    /// To whom `rank` sends where position 0 makes `send`.
    pub fn partner(&self, rank: Rank, send: &Send) -> Rank {
        let index = self.slice_of(&send.chunks);
        let (slice, goal) = (&self.slices[index], self.position(index, send.destination));
        slice.rank(slice.moved(self.position(index, rank), goal))
    }

    /// The send that `rank` makes where position 0 makes `send`.
    pub fn sent_by(&self, rank: Rank, send: &Send) -> Send {
        let slice = self.slice_of(&send.chunks);
        self.moved(slice, self.position(slice, rank), send)
    }

    /// The send that reaches `rank` where position 0 makes `send`.
    pub fn received_by(&self, rank: Rank, send: &Send) -> Send {
        let slice = self.slice_of(&send.chunks);
        let goal = self.position(slice, send.destination);
        self.moved(slice, self.slices[slice].between(goal, self.position(slice, rank)), send)
    }

    /// What `rank` does where position 0 does `local`.
    pub fn local_of(&self, rank: Rank, local: &Local) -> Local {
        let slice = self.slice_of(&local.chunks);
        let r = self.position(slice, rank);
        Local { rank, chunks: self.chunks(&self.slices[slice], r, &local.chunks), ..*local }
    }

    /// A send of another position, moved back to position 0.
    pub fn rebased(&self, send: &Send) -> Send {
        let index = self.slice_of(&send.chunks);
        let (slice, start) = (&self.slices[index], self.position(index, send.source));
        let back = slice.between(start, 0);
        let goal = slice.moved(back, self.position(index, send.destination));
        Send {
            source: slice.rank(0),
            destination: slice.rank(goal),
            chunks: self.chunks(slice, back, &send.chunks),
            // Turning around twice changes nothing; along a cycle ports count from the cycle in any case.
            port: if slice.cycle.is_some() { send.port } else { slice.port(start, goal, send.port) },
            ..*send
        }
    }

    /// Who sends to whom by which port where position 0 makes `send`.
    pub fn everywhere<'s>(
        &'s self,
        send: &'s Send,
    ) -> impl Iterator<Item = ((Rank, Rank), Port)> + use<'s, 'a> {
        let index = self.slice_of(&send.chunks);
        let (slice, goal) = (&self.slices[index], self.position(index, send.destination));
        let pair = move |(r, goal)| (slice.rank(r), slice.rank(goal));
        let ports = slice.ports(goal, send.port);
        slice.moved_by_all(goal).into_iter().enumerate().map(move |way| (pair(way), ports(way.0)))
    }

    /// All `(source, destination)` between which block 0 of its slice travels because of `send`.
    pub fn carriers(&self, send: &Send) -> Vec<(Rank, Rank)> {
        let index = self.slice_of(&send.chunks);
        let (slice, goal) = (&self.slices[index], self.position(index, send.destination));
        let homing = |chunk: ChunkId| slice.homing(self.blocks[chunk].1 as usize);
        let positions = send.chunks.iter().flat_map(homing);
        positions.map(|r| (slice.rank(r), slice.rank(slice.moved(r, goal)))).collect()
    }

    /// All ranks at which `local` changes block 0 of its slice.
    pub fn holders(&self, local: &Local) -> Vec<Rank> {
        let slice = &self.slices[self.slice_of(&local.chunks)];
        let homing = |chunk: ChunkId| slice.homing(self.blocks[chunk].1 as usize);
        local.chunks.iter().flat_map(homing).map(|r| slice.rank(r)).collect()
    }
}

impl Symmetry {
    /// The chunk of block 0 of every slice; all others follow from them.
    pub fn representatives(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.slices.iter().map(|slice| slice.chunks[0])
    }

    /// Whether every slice is a grid of all ranks and every chunk is in one slice.
    pub(super) fn check(&self, ranks: usize, chunks: usize) -> Result<(), String> {
        self.slices.iter().try_for_each(|slice| slice.check(ranks, chunks))?;
        // A slice's check has found its chunks to be there.
        let mut seen = vec![false; chunks];
        let mut all = self.slices.iter().flat_map(|slice| &slice.chunks);
        let once = all.all(|chunk| !std::mem::replace(&mut seen[*chunk], true));
        if once && seen.into_iter().all(|seen| seen) {
            Ok(())
        } else {
            Err(format!("the slices do not have each of {chunks} chunks once"))
        }
    }
}

//! Schedules in which every rank does the same as seen from its own position, so that one rank's sends stand for all.
//!
//! The vector is cut into slices. In each slice the ranks stand on a grid (a ring, a torus, or one cycle through all
//! ranks) or are the elements of a group. For every position r a motion takes the first position to r: on a grid it is,
//! along every axis, a shift, a shift or reflection, or a flip of bits. The motion moves senders, receivers, ports and
//! blocks of the vector together. What position r does is *defined* as what the first position does, moved to r. So the
//! verification of one block of each slice verifies all blocks.
//!
//! Written out, a reduce-scatter for 4,096 ranks has 16 million entries. With a symmetry a rank's plan needs no rows
//! of others, and costs need only the endpoints. Schedules without one (trees with a root, an odd number of ranks in
//! Swing, folding, most graphs) are written out; [`Schedule::expand`](super::Schedule::expand) turns the symmetric form into the written one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ChunkSet, Group, Local, Send};
use crate::topology::inverse;
use crate::units::{ChunkId, Port, Rank};

/// The motions along one axis. There is one for every `r`, which takes position 0 to `r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Motion {
    /// `x` goes to `x + r`.
    Shift,
    /// `x` goes to `x + r` if `r` is even and to `r - x` if it is odd; for even sizes.
    Reflect,
    /// `x` goes to `x ^ r`; for powers of two.
    Flip,
    /// `-x` goes to `-(x ^ -r)`: the mirror image of [`Motion::Flip`].
    MirroredFlip,
}

impl Motion {
    /// Where the motion that takes 0 to `r` takes `x`.
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

    /// The `r` whose motion takes `x` to `target`.
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

    /// The position that the motion that takes 0 to `r` takes to `x`.
    pub fn back(self, size: usize, r: usize, x: usize) -> usize {
        self.apply(size, self.between(size, r, 0), x)
    }

    /// The motions of the mirror image, in which `x` and `-x` are exchanged.
    pub fn mirrored(self) -> Motion {
        match self {
            Motion::Flip => Motion::MirroredFlip,
            Motion::MirroredFlip => Motion::Flip,
            same => same,
        }
    }

    /// Whether the motion to `r` reverses the direction from 0 to `x`.
    pub fn turns(self, size: usize, r: usize, x: usize) -> bool {
        match self {
            Motion::Shift => false,
            Motion::Reflect => !r.is_multiple_of(2),
            Motion::Flip => r & x != 0,
            Motion::MirroredFlip => ((size - r) % size) & ((size - x) % size) != 0,
        }
    }

    /// Whether these motions exist on an axis of `size` positions and `blocks` blocks.
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
    /// How many positions the axis has.
    pub size: usize,
    /// Into how many blocks the vector is cut along the axis: position `x` has block `x % blocks`.
    pub blocks: usize,
    /// The motions along the axis.
    pub motion: Motion,
}

/// A cycle through all ranks: rank `ranks[i]` reaches `ranks[i + 1]`, and the last the first, by its port `ports[i]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cycle {
    /// The ranks in order.
    pub ranks: Vec<Rank>,
    /// The port by which each rank reaches the next. A rank reaches the one before it by the opposite of that one's
    /// port.
    pub ports: Vec<Port>,
}

/// A slice of the vector, and the grid or group on which the ranks exchange it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// The axes of the grid. Positions are numbered like the elements of a C array. Empty where there is a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// The chunk of every block. Blocks are numbered like the elements of a C array of `axes[..].blocks`.
    pub chunks: Vec<ChunkId>,
    /// The rank at each position of a grid of one axis. Without a cycle rank `i` is at position `i`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Cycle>,
    /// The group whose elements are the positions, where they form no grid. There is a block for every element, and
    /// every port is a generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Arc<Group>>,
    /// The rank at each position, where that is not its number and there is no cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Arc<[Rank]>>,
}

/// The slices of a schedule; every message belongs to one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symmetry {
    /// The slices. Every chunk is in exactly one of them.
    pub slices: Vec<Slice>,
}

impl Slice {
    /// About how many bytes of memory the slice takes.
    pub(super) fn footprint(&self) -> usize {
        let cycle = |cycle: &Cycle| size_of_val(&*cycle.ranks) + size_of_val(&*cycle.ports);
        let group = |group: &Arc<Group>| group.footprint();
        size_of::<Slice>()
            + size_of_val(&*self.chunks)
            + self.cycle.as_ref().map_or(0, cycle)
            + self.group.as_ref().map_or(0, group)
            + self.ranks.as_ref().map_or(0, |ranks| size_of_val(&**ranks))
    }

    /// A slice on a grid on which rank `i` is at position `i`.
    pub fn on_grid(axes: Vec<Axis>, chunks: Vec<ChunkId>) -> Slice {
        Slice { axes, chunks, cycle: None, group: None, ranks: None }
    }

    /// A slice with one chunk for every element of a group.
    pub fn from_group(group: Arc<Group>, chunks: Vec<ChunkId>) -> Slice {
        Slice { axes: Vec::new(), chunks, cycle: None, group: Some(group), ranks: None }
    }

    /// How many positions there are.
    fn positions(&self) -> usize {
        self.group.as_ref().map_or_else(|| self.axes.iter().map(|a| a.size).product(), |group| group.size())
    }

    /// The rank at each position, where ranks are not at the positions of their numbers.
    fn order(&self) -> Option<&[Rank]> {
        self.cycle.as_ref().map(|cycle| &*cycle.ranks).or(self.ranks.as_deref())
    }

    /// The rank at `position`.
    pub fn rank(&self, position: usize) -> Rank {
        self.order().map_or(position, |ranks| ranks[position])
    }

    /// The same slice with rank `numbers[r]` in the place of rank `r`.
    pub(super) fn renumbered(mut self, numbers: &Arc<[Rank]>) -> Slice {
        let renumber = |ranks: &[Rank]| ranks.iter().map(|rank| numbers[*rank]).collect();
        match &mut self.cycle {
            Some(cycle) => cycle.ranks = renumber(&cycle.ranks),
            None => self.ranks = Some(self.ranks.map_or(numbers.clone(), |r| renumber(&r).into())),
        }
        self
    }

    /// The position to which the motion to `r` takes `x`.
    pub(crate) fn moved(&self, r: usize, x: usize) -> usize {
        if let Some(group) = &self.group {
            return group.product(r, x);
        }
        self.fold(|axis, stride| axis.motion.apply(axis.size, r / stride % axis.size, x / stride % axis.size))
    }

    /// Whether its motions move ranks and ports in the same way as those of `other`.
    pub(super) fn moves_like(&self, other: &Slice) -> bool {
        let motion = |axis: &Axis| (axis.size, axis.motion);
        let same_motions = self.axes.iter().map(motion).eq(other.axes.iter().map(motion));
        let same_group = match (&self.group, &other.group) {
            (Some(group), Some(others)) => Arc::ptr_eq(group, others),
            (None, None) => true,
            _ => false,
        };
        let at_same_places = self.cycle.is_none() && other.cycle.is_none() && self.ranks == other.ranks;
        same_group && same_motions && at_same_places
    }

    /// For every position `r`, where the motion to `r` takes `x`.
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

    /// The `r` whose motion takes `x` to `target`.
    pub(crate) fn between(&self, x: usize, target: usize) -> usize {
        if let Some(group) = &self.group {
            return group.product(target, group.inverse(x));
        }
        self.fold(|axis, stride| {
            axis.motion.between(axis.size, x / stride % axis.size, target / stride % axis.size)
        })
    }

    /// The position with the coordinates `coordinate(axis, stride)`.
    fn fold(&self, coordinate: impl Fn(&Axis, usize) -> usize) -> usize {
        let mut stride = 1;
        let mut position = 0;
        for axis in self.axes.iter().rev() {
            position += coordinate(axis, stride) * stride;
            stride *= axis.size;
        }
        position
    }

    /// The block to which the motion to `r` takes `block`.
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
            // Along an axis with fewer blocks than positions, every `blocks`-th motion takes the block there.
            let first = axis.motion.between(axis.size, b, 0) % axis.blocks;
            let along = (first..axis.size).step_by(axis.blocks);
            positions = along.flat_map(|x| positions.iter().map(move |p| p + x * stride)).collect();
            stride *= axis.size;
            blocks *= axis.blocks;
        }
        positions
    }

    /// Whether the motions take the first of these blocks of an all-to-all, one for each position, to all others. A
    /// block is numbered by the rank that sends it and the rank that receives it.
    pub(super) fn pairs_move(&self, blocks: &[usize]) -> bool {
        if self.cycle.is_some() {
            return false;
        }
        let ranks = blocks.len();
        let positions = self.ranks.as_deref().and_then(inverse);
        let at = |rank: Rank| positions.as_ref().map_or(rank, |positions| positions[rank]);
        let (source, target) = (at(blocks[0] / ranks), at(blocks[0] % ranks));
        let block = |r| self.rank(self.moved(r, source)) * ranks + self.rank(self.moved(r, target));
        (0..ranks).all(|r| blocks[self.moved_block(r, 0)] == block(r))
    }

    /// The port by which a message leaves position `r` where the same message leaves position 0 for `x` by `port`.
    pub(super) fn port(&self, r: usize, x: usize, port: Port) -> Port {
        if let Some(Cycle { ports, .. }) = &self.cycle {
            return if port == 0 { ports[r] } else { ports[(r + ports.len() - 1) % ports.len()] ^ 1 };
        }
        let Some(axis) = self.axes.get(port / 2) else { return port };
        let stride: usize = self.axes[port / 2 + 1..].iter().map(|a| a.size).product();
        let turned = axis.motion.turns(axis.size, r / stride % axis.size, x / stride % axis.size);
        port ^ usize::from(turned)
    }

    /// [`Slice::port`] as a function of the position.
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
        let placed = |order: &[Rank]| order.len() == ranks && inverse(order).is_some();
        if self.ranks.as_deref().is_some_and(|order| self.cycle.is_some() || !placed(order)) {
            return Err(format!("a slice does not place each of {ranks} ranks once, in one way"));
        }
        if let Some(group) = &self.group {
            let alone = self.axes.is_empty() && self.cycle.is_none();
            let fits = alone && group.size() == ranks && self.chunks.len() == ranks;
            let there = self.chunks.iter().all(|chunk| *chunk < chunks);
            let what =
                "a slice with a group must have one existing chunk for each rank, and no axes or cycle";
            return (fits && there).then_some(()).ok_or_else(|| what.to_owned());
        }
        let product = |size: fn(&Axis) -> usize| {
            self.axes.iter().try_fold(1usize, |product, axis| product.checked_mul(size(axis)))
        };
        let admitted = self.axes.iter().all(|a| a.motion.admits(a.size, a.blocks));
        if !admitted || product(|a| a.size) != Some(ranks) || product(|a| a.blocks) != Some(self.chunks.len())
        {
            return Err(format!(
                "a slice with {} chunks on the axes {:?} does not fit {ranks} ranks",
                self.chunks.len(),
                self.axes
            ));
        }
        if self.chunks.iter().any(|c| *c >= chunks) {
            return Err(format!("a slice has chunks beyond {chunks}"));
        }
        let Some(cycle) = &self.cycle else { return Ok(()) };
        if self.axes.len() == 1
            && self.axes[0].motion == Motion::Shift
            && cycle.ports.len() == ranks
            && placed(&cycle.ranks)
        {
            Ok(())
        } else {
            Err(format!("a slice's cycle does not visit each of {ranks} ranks once along one axis of shifts"))
        }
    }
}

/// A symmetry with the inverses of its tables: from chunks to blocks, and from ranks to positions.
pub(super) struct Chart<'a> {
    slices: &'a [Slice],
    /// The slice and the block of every chunk.
    blocks: Vec<(u32, u32)>,
    /// The position of every rank, for slices where that is not its number.
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
            let ranks = slice.order().unwrap_or_default();
            let mut positions = vec![0; ranks.len()];
            ranks.iter().enumerate().for_each(|(position, rank)| positions[*rank] = position);
            positions
        };
        Chart { slices: &symmetry.slices, blocks, positions: symmetry.slices.iter().map(turned).collect() }
    }

    /// The index of the slice that `chunks` belong to.
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

    /// The rank to which `rank` sends where position 0 makes `send`.
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

    /// The local operation of `rank` where position 0 performs `local`.
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
            // To reverse a direction twice changes nothing. Along a cycle ports are relative to the cycle.
            port: if slice.cycle.is_some() { send.port } else { slice.port(start, goal, send.port) },
            ..*send
        }
    }

    /// The (source, destination) and the port of the messages of all ranks where position 0 makes `send`.
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

    /// All `(source, destination)` whose message carries block 0 of the slice, of the messages that `send` stands for.
    pub fn carriers(&self, send: &Send) -> Vec<(Rank, Rank)> {
        let index = self.slice_of(&send.chunks);
        let (slice, goal) = (&self.slices[index], self.position(index, send.destination));
        let homing = |chunk: ChunkId| slice.homing(self.blocks[chunk].1 as usize);
        let positions = send.chunks.iter().flat_map(homing);
        positions.map(|r| (slice.rank(r), slice.rank(slice.moved(r, goal)))).collect()
    }

    /// All ranks at which the operations that `local` stands for change block 0 of the slice.
    pub fn holders(&self, local: &Local) -> Vec<Rank> {
        let slice = &self.slices[self.slice_of(&local.chunks)];
        let homing = |chunk: ChunkId| slice.homing(self.blocks[chunk].1 as usize);
        local.chunks.iter().flat_map(homing).map(|r| slice.rank(r)).collect()
    }
}

impl Symmetry {
    /// The chunk of block 0 of every slice, from which all others follow.
    pub fn representatives(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.slices.iter().map(|slice| slice.chunks[0])
    }

    /// Checks that every slice has a grid or group of all ranks and that every chunk is in exactly one slice.
    pub(super) fn check(&self, ranks: usize, chunks: usize) -> Result<(), String> {
        self.slices.iter().try_for_each(|slice| slice.check(ranks, chunks))?;
        // The check of each slice has ensured that its chunks exist.
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

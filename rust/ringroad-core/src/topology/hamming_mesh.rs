//! HammingMesh: boards of ranks, each a mesh, arranged in a grid. In every row and every column of ranks the ends of
//! all boards are cabled to one fat tree (Hoefler et al., "HammingMesh: a network topology for large-scale deep
//! learning", SC 2022, section III). Hx2Mesh and Hx4Mesh of 4,096 ranks (Swing, section 5.4.1) are
//! `hammingmesh:2x2:32x32` and `hammingmesh:4x4:16x16`.
//!
//! ```text
//! hammingmesh:2x2:1x2    ┌──────⇅──8──⇅──────┐         board size, then how many boards; rank = 4·y + x at (y, x)
//!                        0 ⇄ 1        2 ⇄ 3            two boards in a row: nodes 8 and 9 join the rows' ends,
//!                        ⇅   ⇅        ⇅   ⇅            1 and 2 as well as 0 and 3
//!                        4 ⇄ 5        6 ⇄ 7
//!                        └──────⇅──9──⇅──────┘
//! ```
//!
//! A fat tree is one node here. It forwards everything at full bandwidth and takes one hop in and one hop out, as a
//! single level of switches does. (Switches with 64 ports allow that for 32 boards; larger trees would be two hops
//! longer.) A row with a single board has no tree. The trees of rows are numbered after the ranks, those of columns
//! after these. The links of the ranks come first, rank by rank and port by port, then the links of the trees, tree by
//! tree in the order of the ranks that they lead to.

use super::{grid, mesh, Link};
use crate::units::{NodeId, Rank};

/// The sizes of a board and of the arrangement of boards, rows before columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Boards {
    pub board: [usize; 2],
    pub count: [usize; 2],
}

impl Boards {
    /// How many ranks there are in each dimension.
    pub fn grid(&self) -> [usize; 2] {
        [0, 1].map(|d| self.board[d].saturating_mul(self.count[d]))
    }

    /// How many trees join rows, and how many join columns.
    fn trees(&self) -> [usize; 2] {
        let [rows, columns] = self.grid();
        [if self.count[1] > 1 { rows } else { 0 }, if self.count[0] > 1 { columns } else { 0 }]
    }

    pub fn nodes(&self) -> usize {
        let [rows, columns] = self.grid();
        rows * columns + self.trees().iter().sum::<usize>()
    }

    /// The tree that joins the line of ranks through `rank` along `dimension`: for dimension 1 that of its row.
    fn tree(&self, rank: Rank, dimension: usize) -> NodeId {
        let [rows, columns] = self.grid();
        let line = grid::coordinate(&[rows, columns], rank, 1 - dimension);
        rows * columns + if dimension == 1 { line } else { self.trees()[0] + line }
    }

    /// The rank or tree that the upper or lower port of a dimension leads to, where there is one.
    pub fn neighbour(&self, rank: Rank, dimension: usize, up: bool) -> Option<NodeId> {
        let sizes = self.grid();
        let at = grid::coordinate(&sizes, rank, dimension);
        let board = self.board[dimension];
        let end = if up { (at + 1).is_multiple_of(board) } else { at.is_multiple_of(board) };
        match (end, self.count[dimension] > 1) {
            (true, true) => Some(self.tree(rank, dimension)),
            _ => mesh::neighbour(&sizes, rank, dimension, up),
        }
    }

    pub fn links(&self) -> Vec<Link> {
        let sizes = self.grid();
        let mut links = grid::links(&sizes, |rank, dimension, up| self.neighbour(rank, dimension, up));
        let ranks = sizes[0] * sizes[1];
        let mut back: Vec<Link> = links.iter().filter(|link| link.target >= ranks).copied().collect();
        back.iter_mut().for_each(|link| (link.source, link.target) = (link.target, link.source));
        back.sort_by_key(|link| (link.source, link.target));
        links.extend(back);
        links
    }
}

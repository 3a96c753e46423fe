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

use super::family::{check_size, Ends, Family, FamilyLayout, PortRule, SpecForm, TopologyResult, Traits};
use super::{grid, mesh, text, Link, Topology, TopologyError, TopologyKind};
use crate::units::{NodeId, Rank};

pub(super) static HAMMING_MESH: Family = Family {
    name: "hammingmesh",
    example: "hammingmesh:2x2:4x4",
    summary: "4x4 boards of 2x2 ranks; in each row and column a fat tree joins the boards' ends",
    source: "Hoefler et al.: HammingMesh: a network topology for large-scale deep learning, SC 2022",
    form: SpecForm::Parts(read),
};

const LAYOUT: FamilyLayout = FamilyLayout {
    family: &HAMMING_MESH,
    ports: PortRule::Neighbour(|mesh, rank, dimension, up| {
        Boards::from_mesh(mesh)?.neighbour(rank, dimension, up)
    }),
    ends: Ends::Some(first_board),
    traits: Traits { is_ordered: true, ..Traits::NONE },
};

fn read(parts: &[&str]) -> Option<TopologyResult> {
    let [board, count] = parts else { return None };
    match (text::sizes(board)?[..].try_into(), text::sizes(count)?[..].try_into()) {
        (Ok(board), Ok(count)) => Some(Topology::hamming_mesh(board, count)),
        _ => None,
    }
}

impl Topology {
    /// So many boards (rows, columns), each a mesh of `board` ranks, whose ends are joined by a tree for every row and
    /// column of ranks.
    pub fn hamming_mesh(board: [usize; 2], count: [usize; 2]) -> Result<Topology, TopologyError> {
        let boards = Boards { board, count };
        let spec = || HAMMING_MESH.spec(format!("{}:{}", text::join(&board), text::join(&count)));
        let parameters = [board, count].concat();
        check_size(&parameters, 8, spec)?;
        let kind = TopologyKind::Member { layout: LAYOUT, spec: spec(), parameters };
        let grid = boards.grid();
        let mesh = Topology::plain(kind, grid.iter().product(), boards.nodes(), boards.links());
        Ok(Topology { dimensions: grid.to_vec(), ..mesh })
    }
}

/// All boards are alike.
fn first_board(mesh: &Topology) -> Vec<Rank> {
    let Some(Boards { board, .. }) = Boards::from_mesh(mesh) else { return vec![0] };
    let on_first = |rank: &Rank| {
        let at = mesh.coordinates(*rank);
        at[0] < board[0] && at[1] < board[1]
    };
    (0..mesh.ranks()).filter(on_first).collect()
}

/// The sizes of a board and of the arrangement of boards, rows before columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Boards {
    board: [usize; 2],
    count: [usize; 2],
}

impl Boards {
    /// Those that a HammingMesh was made of.
    fn from_mesh(mesh: &Topology) -> Option<Boards> {
        match mesh.parameters() {
            [a, b, c, d] => Some(Boards { board: [*a, *b], count: [*c, *d] }),
            _ => None,
        }
    }

    /// Ranks in every dimension.
    fn grid(&self) -> [usize; 2] {
        [0, 1].map(|d| self.board[d].saturating_mul(self.count[d]))
    }

    /// How many trees join rows, and how many join columns.
    fn trees(&self) -> [usize; 2] {
        let [rows, columns] = self.grid();
        [if self.count[1] > 1 { rows } else { 0 }, if self.count[0] > 1 { columns } else { 0 }]
    }

    fn nodes(&self) -> usize {
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
    fn neighbour(&self, rank: Rank, dimension: usize, up: bool) -> Option<NodeId> {
        let sizes = self.grid();
        let at = grid::coordinate(&sizes, rank, dimension);
        let board = self.board[dimension];
        let end = if up { (at + 1).is_multiple_of(board) } else { at.is_multiple_of(board) };
        match (end, self.count[dimension] > 1) {
            (true, true) => Some(self.tree(rank, dimension)),
            _ => mesh::neighbour(&sizes, rank, dimension, up),
        }
    }

    fn links(&self) -> Vec<Link> {
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

//! A compact representation of the many paths that demands take.

use std::ops::Range;

use crate::units::Rank;

/// One path of a pair's demand.
#[derive(Debug, Clone, Copy)]
pub(super) struct DemandPath {
    pub target: u32,
    /// Where its arcs begin in the arcs of its row. They end where the next path's arcs begin.
    start: u32,
    /// The share of the pair's demand that takes it.
    pub share: f32,
}

/// The paths of what one rank sends, ordered by target.
#[derive(Debug, Clone, Default)]
pub(super) struct RankPaths {
    pub paths: Vec<DemandPath>,
    arcs: Vec<u32>,
}

impl RankPaths {
    /// An empty row with the capacity that another row's content needs.
    pub fn as_large_as(other: &RankPaths) -> RankPaths {
        RankPaths { paths: Vec::with_capacity(other.paths.len()), arcs: Vec::with_capacity(other.arcs.len()) }
    }

    /// A path and its arcs.
    pub fn path(&self, index: usize) -> (DemandPath, &[u32]) {
        let end = self.paths.get(index + 1).map_or(self.arcs.len(), |next| next.start as usize);
        let path = self.paths[index];
        (path, &self.arcs[path.start as usize..end])
    }

    /// Appends a path. Paths to the same target must be consecutive.
    pub fn push(&mut self, target: Rank, share: f32, arcs: impl Iterator<Item = u32>) {
        self.paths.push(DemandPath { target: target as u32, start: self.arcs.len() as u32, share });
        self.arcs.extend(arcs);
    }

    /// The range of path numbers of each target.
    pub fn targets(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut next = 0;
        self.paths.chunk_by(|a, b| a.target == b.target).map(move |paths| {
            let range = next..next + paths.len();
            next = range.end;
            range
        })
    }

    /// Calls `each` for all paths with the path's share and its arcs. The shares of a target add up to 1: those that are
    /// stored do so except for rounding.
    pub fn shares(&self, mut each: impl FnMut(DemandPath, f64, &[u32])) {
        for paths in self.targets() {
            let all: f64 = paths.clone().map(|path| f64::from(self.paths[path].share)).sum();
            for index in paths {
                let (path, arcs) = self.path(index);
                each(path, f64::from(path.share) / all, arcs);
            }
        }
    }

    /// Frees unused memory.
    pub fn shrink(&mut self) {
        self.paths.shrink_to_fit();
        self.arcs.shrink_to_fit();
    }
}

/// The paths of all demands.
#[derive(Debug, Clone)]
pub(super) enum DemandPaths {
    /// One row for each source.
    All(Vec<RankPaths>),
    /// The row of rank 0, whose paths hold kinds of arcs; and for each rank, the arc of each kind with the rank to
    /// which it leads.
    Alike(RankPaths, Vec<Vec<(u32, Rank)>>),
}

impl DemandPaths {
    /// Calls `each` for all paths from `source`, target by target, with the target, the share of the demand, and the
    /// arcs.
    pub fn from(&self, source: Rank, mut each: impl FnMut(Rank, f64, &[u32])) {
        match self {
            DemandPaths::All(rows) => {
                rows[source].shares(|path, share, arcs| each(path.target as Rank, share, arcs));
            }
            DemandPaths::Alike(row, arcs_of) => {
                let mut arcs = Vec::new();
                row.shares(|_, share, kinds| {
                    let mut here = source;
                    arcs.clear();
                    for kind in kinds {
                        let (arc, next) = arcs_of[here][*kind as usize];
                        arcs.push(arc);
                        here = next;
                    }
                    each(here, share, &arcs);
                });
            }
        }
    }
}

//! Networks of the catalogue of which some cables are missing.

use super::factors::{grids, join};
use super::shape::{Recognised, SimpleGraph};
use crate::topology::Topology;

/// The most cables that may be missing, and of how many one may.
const MAX_MISSING_CABLES: [usize; 2] = [2, 20];

/// The torus or hypercube of which this graph is a part, with nearly all cables, if every rank has its own number there.
pub(super) fn damaged(shape: &SimpleGraph) -> Option<Recognised> {
    let n = shape.ranks;
    if shape.nodes() > n || !shape.is_undirected() {
        return None;
    }
    let tori = grids(n, 3)
        .into_iter()
        .filter(|sizes| sizes.len() > 1)
        .map(|sizes| format!("torus:{}", join(&sizes)));
    let cube = (n.is_power_of_two() && n > 4).then(|| format!("hypercube:{}", n.ilog2()));
    tori.chain(cube).find_map(|spec| {
        let whole = SimpleGraph::from_topology(&Topology::parse(&spec).ok()?);
        let missing = whole.edges().checked_sub(shape.edges())? / 2;
        let is_part = (0..n).all(|rank| shape.out[rank].iter().all(|to| whole.out[rank].contains(to)));
        if !is_part
            || missing == 0
            || missing > MAX_MISSING_CABLES[0].max(shape.edges() / 2 / MAX_MISSING_CABLES[1])
        {
            return None;
        }
        let ends = (0..n).flat_map(|from| whole.out[from].iter().map(move |to| (from, *to)));
        let cut = ends.filter(|(from, to)| from < to && !shape.out[*from].contains(to));
        let cuts: Vec<String> = cut.map(|(from, to)| format!("{from}-{to}")).collect();
        let base = Topology::parse(&format!("without({spec}, {})", cuts.join(", "))).ok()?;
        Some(Recognised { base, place: (0..n).collect() })
    })
}

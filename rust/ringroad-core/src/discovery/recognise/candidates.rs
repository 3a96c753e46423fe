//! Which networks of the catalogue a graph could be, by numbers of nodes and links: the best for algorithms first.

use super::factors::{grids, join};
use super::shape::SimpleGraph;
use crate::topology::named_graphs;

/// The largest graph that has a name of its own.
const LARGEST_NAMED: usize = 728;
/// The most ranks of circulants that are looked for under other numbers, by their offsets besides 1.
const LARGEST_CIRCULANT: [usize; 3] = [256, 128, 40];

/// Specs of networks that may be this graph, whose hosts may have memories; the preferred first.
pub(super) fn specs(shape: &SimpleGraph, has_memories: bool) -> Vec<String> {
    let mut specs = Vec::new();
    match (shape.nodes() == shape.ranks, shape.is_undirected(), shape.degree()) {
        (true, true, Some(degree)) => regular(shape, degree, &mut specs),
        (true, true, None) => uneven(shape, &mut specs),
        (true, false, Some(degree)) => directed(shape, degree, &mut specs),
        (true, false, None) => {}
        (false, ..) if has_memories => hosts(shape, &mut specs),
        (false, ..) => switched(shape, &mut specs),
    }
    specs
}

/// Graphs of ranks that have as many cables each.
fn regular(shape: &SimpleGraph, degree: usize, specs: &mut Vec<String>) {
    let n = shape.ranks;
    let all = grids(n, 2);
    let with = |family: &str, fits: &dyn Fn(&[usize]) -> bool| -> Vec<String> {
        all.iter().filter(|sizes| fits(sizes)).map(|sizes| format!("{family}:{}", join(sizes))).collect()
    };
    let of_torus = |sizes: &[usize]| sizes.iter().map(|size| (*size).min(3) - 1).sum::<usize>();
    if degree == 2 {
        specs.push(format!("ring:{n}"));
    }
    let has_two = |sizes: &[usize]| sizes.contains(&2);
    specs.extend(with("torus", &|sizes| sizes.len() > 1 && !has_two(sizes) && of_torus(sizes) == degree));
    if n == 1 << degree {
        specs.push(format!("hypercube:{degree}"));
    }
    if degree + 1 == n {
        specs.push(format!("complete:{n}"));
    }
    let of_hyperx = |sizes: &[usize]| sizes.iter().map(|size| size - 1).sum::<usize>();
    specs.extend(with("hyperx", &|sizes| sizes.len() > 1 && of_hyperx(sizes) == degree));
    specs.extend(with("torus", &|sizes| sizes.len() > 1 && has_two(sizes) && of_torus(sizes) == degree));
    specs.extend(named(n));
    if n == 2 * degree {
        specs.push(format!("complete-bipartite:{degree}"));
    }
    specs.extend(with("twisted-torus", &|sizes| match *sizes {
        [a, b] => degree == 4 && (a == 2 * b || b == 2 * a),
        _ => false,
    }));
    if n == 1 << degree && degree > 2 {
        specs.push(format!("twisted-hypercube:{degree}"));
    }
    specs.extend(rotated(shape).map(|offsets| {
        let cables: Vec<usize> = offsets.into_iter().filter(|offset| 2 * offset <= n).collect();
        format!("circulant:{n}:{}", list(&cables))
    }));
    specs.extend(circulants(n, degree));
}

/// The sizes of graphs with names, so that others need not be made.
fn named(n: usize) -> Vec<String> {
    let odd = [10, 35, 126].iter().position(|ranks| *ranks == n).map(|k| format!("odd-graph:{}", k + 3));
    let doubled = [20, 70, 252].iter().position(|ranks| *ranks == n);
    let doubled = doubled.map(|k| format!("doubled-odd-graph:{}", k + 3));
    let names = named_graphs().filter(|_| n <= LARGEST_NAMED).map(str::to_owned);
    names.chain(odd).chain(doubled).collect()
}

/// Graphs of ranks that are not alike, with cables.
fn uneven(shape: &SimpleGraph, specs: &mut Vec<String>) {
    let n = shape.ranks;
    let links = |sizes: &[usize]| sizes.iter().map(|size| 2 * (n - n / size)).sum::<usize>();
    let meshes = grids(n, 2).into_iter().filter(|sizes| links(sizes) == shape.edges());
    specs.extend(meshes.map(|sizes| format!("mesh:{}", join(&sizes))));
    let sides = (1..=n / 2).filter(|side| 2 * side * (n - side) == shape.edges());
    specs.extend(
        sides
            .flat_map(|side| [(side, n - side), (n - side, side)])
            .map(|(a, b)| format!("complete-bipartite:{a}x{b}")),
    );
}

/// Graphs of ranks that have as many links each, some of them without one back.
fn directed(shape: &SimpleGraph, degree: usize, specs: &mut Vec<String>) {
    let n = shape.ranks;
    if degree == 1 {
        specs.push(format!("uniring:1:{n}"));
    }
    let mut ranks = degree + 1;
    for order in 1..usize::BITS as usize {
        if ranks == n {
            specs.push(format!("kautz:{degree}:{}", order - 1));
        }
        ranks = ranks.saturating_mul(degree.max(2));
    }
    specs.extend(rotated(shape).map(|offsets| format!("directed-circulant:{n}:{}", list(&offsets))));
    specs.push(format!("generalized-kautz:{degree}:{n}"));
    if degree == 2 && n <= LARGEST_CIRCULANT[0] {
        specs.extend((2..n).map(|offset| format!("directed-circulant:{n}:1,{offset}")));
    }
}

/// Graphs with a memory for every host, and a switch.
fn hosts(shape: &SimpleGraph, specs: &mut Vec<String>) {
    let (n, others) = (shape.ranks, shape.nodes() - shape.ranks);
    let hosts = others.saturating_sub(1);
    if hosts > 0 && n.is_multiple_of(hosts) {
        specs.push(format!("hosts:{hosts}x{}", n / hosts));
    }
    // The ranks that hang on each memory.
    let on = |node: usize| shape.into[node].iter().filter(|from| **from < n).count();
    let sizes: Vec<usize> = (n..shape.nodes()).map(on).filter(|size| *size > 0).collect();
    if sizes.len() == hosts && sizes.iter().any(|size| *size != sizes[0]) {
        specs.push(format!("hosts:{}", list(&sizes)));
    }
}

/// Graphs with switches.
fn switched(shape: &SimpleGraph, specs: &mut Vec<String>) {
    let (n, others) = (shape.ranks, shape.nodes() - shape.ranks);
    if others == 1 {
        specs.push(format!("switch:{n}"));
    }
    let divisors = || (1..=n).filter(|size| n % size == 0);
    let switches = |sizes: &[usize]| -> usize {
        (0..sizes.len()).map(|top| sizes[..top].iter().product::<usize>()).sum()
    };
    let trees = grids(n, 2).into_iter().filter(|sizes| sizes.len() > 1 && switches(sizes) == others);
    specs.extend(trees.map(|sizes| format!("fattree:{}", join(&sizes))));
    for (rows, columns) in divisors().map(|rows| (rows, n / rows)) {
        for board in (1..=rows).filter(|size| rows % size == 0) {
            for width in (1..=columns).filter(|size| columns % size == 0) {
                let trees = if columns > width { rows } else { 0 } + if rows > board { columns } else { 0 };
                if trees == others {
                    specs.push(format!("hammingmesh:{board}x{width}:{}x{}", rows / board, columns / width));
                }
            }
        }
    }
}

/// By how much every rank's links lead further, if that is the same for all.
fn rotated(shape: &SimpleGraph) -> Option<Vec<usize>> {
    let n = shape.ranks;
    let offsets = shape.out.first()?.clone();
    let same = |rank: usize| {
        let mut ends: Vec<usize> = offsets.iter().map(|offset| (rank + offset) % n).collect();
        ends.sort_unstable();
        ends == shape.out[rank]
    };
    (1..n).all(same).then_some(offsets)
}

/// Circulants in other numbers. Those with an offset that has no factor in common with `n` can be numbered so that it is
/// 1; others are not looked for.
fn circulants(n: usize, degree: usize) -> Vec<String> {
    let cables = degree / 2;
    let (half, others) = (degree % 2 == 1, cables.saturating_sub(1));
    if cables == 0
        || others >= LARGEST_CIRCULANT.len()
        || n > LARGEST_CIRCULANT[others]
        || (half && n % 2 == 1)
    {
        return Vec::new();
    }
    let last = (n - 1) / 2;
    let sets: Vec<Vec<usize>> = match others {
        0 => vec![vec![1]],
        1 => (2..=last).map(|offset| vec![1, offset]).collect(),
        _ => (2..=last).flat_map(|one| (one + 1..=last).map(move |other| vec![1, one, other])).collect(),
    };
    let all = sets.into_iter().map(|set| if half { [&set[..], &[n / 2]].concat() } else { set });
    all.map(|offsets| format!("circulant:{n}:{}", list(&offsets))).collect()
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<String>>().join(",")
}

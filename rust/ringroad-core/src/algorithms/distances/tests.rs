use super::nest::Nest;
use super::torus::Torus;
use super::*;

/// The bytes over the busiest link, reduce-scatter and allgather together, as a multiple of the m/D bytes of a
/// collective. Infinite if the distances do not reach every rank, or if one is more than half its ring.
fn link_load(sizes: &[usize], distances: &[Vec<usize>]) -> f64 {
    assert_eq!(sizes.len(), distances.len(), "every dimension needs distances");
    let nests = sizes.iter().zip(distances).map(|(&size, distances)| Nest::new(size, distances.clone()));
    nests.collect::<Option<Vec<_>>>().map_or(f64::INFINITY, |nests| {
        let torus = Torus::new((0..sizes.len()).collect(), &nests);
        torus.load(&nests, 0..torus.steps.len() - 1) as f64 / sizes.iter().product::<usize>() as f64
    })
}

/// The load of distances, found by counting the blocks that cross every link of the torus in every step.
fn counted(sizes: &[usize], distances: &[Vec<usize>]) -> f64 {
    let dimensions = sizes.len();
    let ranks: usize = sizes.iter().product();
    let coordinates = |rank: usize| -> Vec<usize> {
        let place = |(at, size): (usize, &usize)| rank / sizes[..at].iter().product::<usize>() % size;
        sizes.iter().enumerate().map(place).collect()
    };
    let rank = |at: &[usize]| at.iter().zip(sizes).rev().fold(0, |rank, (at, size)| rank * size + at);
    // For every offset, the level and the direction of the parent: -1 down, 1 up.
    let table = |(&size, distances): (&usize, &Vec<usize>)| {
        let mut table = vec![None; size];
        table[0] = Some((distances.len(), 0));
        for (level, &distance) in distances.iter().enumerate().rev() {
            let inside = table.clone();
            for offset in (0..size).filter(|offset| inside[*offset].is_none()) {
                let down = inside[(offset + size - distance) % size].map(|_| (level, -1));
                table[offset] = down.or(inside[(offset + distance) % size].map(|_| (level, 1)));
            }
        }
        table.into_iter().map(|entry| entry.expect("reached")).collect::<Vec<(usize, isize)>>()
    };
    let tables: Vec<_> = sizes.iter().zip(distances).map(table).collect();
    let steps: usize = distances.iter().map(Vec::len).sum();
    let mut crossings = vec![vec![[0, 0]; ranks * dimensions]; steps];
    for (collective, sign) in (0..dimensions).flat_map(|collective| [(collective, 1), (collective, -1)]) {
        let mut done = vec![0; dimensions];
        let mut dimension = collective;
        for crossings in &mut crossings {
            while done[dimension] == distances[dimension].len() {
                dimension = (dimension + 1) % dimensions;
            }
            let (size, distance) = (sizes[dimension], distances[dimension][done[dimension]]);
            for (from, block) in (0..ranks).flat_map(|from| (0..ranks).map(move |block| (from, block))) {
                let (mut at, home) = (coordinates(from), coordinates(block));
                let entry = |(i, at): (usize, &usize)| {
                    let offset = if sign > 0 { at + sizes[i] - home[i] } else { home[i] + sizes[i] - at };
                    tables[i][offset % sizes[i]]
                };
                let entries: Vec<(usize, isize)> = at.iter().enumerate().map(entry).collect();
                let here = entries.iter().zip(&done).all(|(entry, done)| entry.0 >= *done);
                if !here || entries[dimension].0 != done[dimension] {
                    continue;
                }
                let up = entries[dimension].1 * sign > 0;
                let start = at[dimension];
                for (up, weight) in
                    if 2 * distance == size { [(true, 1), (false, 1)] } else { [(up, 2), (up, 0)] }
                {
                    at[dimension] = start;
                    for _ in 0..distance {
                        crossings[rank(&at) * dimensions + dimension][usize::from(up)] += weight;
                        at[dimension] = (at[dimension] + if up { 1 } else { size - 1 }) % size;
                    }
                }
            }
            done[dimension] += 1;
            dimension = (dimension + 1) % dimensions;
        }
    }
    let worst = |step: &Vec<[usize; 2]>| *step.iter().flatten().max().expect("links");
    // Each crossing counts twice, each collective has two halves, and the allgather doubles the load.
    crossings.iter().map(worst).sum::<usize>() as f64 * 2.0 / 4.0 / ranks as f64
}

#[test]
fn the_load_is_that_of_the_busiest_link() {
    for sizes in
        [&[16][..], &[7], &[9, 9], &[4, 4], &[6, 4], &[3, 9], &[7, 5], &[2, 8], &[4, 4, 4], &[2, 3, 5]]
    {
        for (extra, levels) in members(sizes) {
            let mut plans = vec![plan(sizes, &levels)];
            plans.extend((extra == 0).then(|| sizes.iter().map(|size| trivance(*size)).collect()));
            for plan in plans {
                assert_eq!(link_load(sizes, &plan), counted(sizes, &plan), "{sizes:?} {plan:?}");
            }
        }
    }
}

#[test]
fn loads() {
    // A torus, its levels, the load of Trivance's distances if the levels are the fewest, and the least load.
    let rows: &[(&[usize], usize, f64, f64)] = &[
        (&[9, 9], 2, 1.185, 1.185),
        (&[27, 27], 3, 1.284, 1.284),
        (&[9, 9, 9], 2, 1.070, 1.070),
        (&[8, 8], 2, 1.234, 1.234),
        (&[8, 8], 3, 0.0, 1.109),
        (&[16], 3, 2.063, 1.813),
        (&[16], 4, 0.0, 1.438),
        (&[16], 5, 0.0, 1.313),
        (&[16, 16], 3, 1.652, 1.328),
        (&[16, 16], 4, 0.0, 1.121),
        (&[16, 16, 16], 3, 1.362, 1.113),
        (&[32, 32], 4, 1.655, 1.218),
        (&[34], 6, 0.0, 1.647),
        (&[64], 4, 2.859, 2.734),
        (&[64], 5, 0.0, 2.203),
        (&[64], 6, 0.0, 2.047),
        (&[64, 64], 4, 1.492, 1.386),
        (&[64, 64], 5, 0.0, 1.193),
        (&[64, 64], 6, 0.0, 1.139),
        (&[64], 32, 0.0, 63.0 / 64.0),
        (&[6, 6], 3, 0.0, 35.0 / 36.0),
    ];
    for &(sizes, levels, trivances, least) in rows {
        let usual: Vec<Vec<usize>> = sizes.iter().map(|size| trivance(*size)).collect();
        let found = plan(sizes, &vec![levels; sizes.len()]);
        let loads = [link_load(sizes, &usual), link_load(sizes, &found)];
        let close = |load: f64, expected: f64| (load - expected).abs() < 6e-4;
        assert!(close(loads[0], trivances) || levels > fewest(sizes[0]), "{sizes:?} {usual:?} {}", loads[0]);
        assert!(close(loads[1], least), "{sizes:?} {found:?} {}", loads[1]);
    }
    assert_eq!(link_load(&[16], &[vec![1, 3]]), f64::INFINITY);
}

/// All distances that reach every rank and leave no step idle.
fn all(size: usize, levels: usize) -> Vec<Vec<usize>> {
    let longer = |all: Vec<Vec<usize>>| {
        all.into_iter()
            .flat_map(move |distances| (1..=size / 2).map(move |last| [&distances[..], &[last]].concat()))
    };
    let all = (0..levels).fold(vec![Vec::new()], |all, _| longer(all).collect());
    let nests = all.into_iter().filter_map(|distances| Nest::new(size, distances));
    nests.filter(|nest| nest.idle() == 0).map(|nest| nest.distances).collect()
}

#[test]
fn nothing_is_better() {
    let mut cases: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    for size in 1..=16 {
        for levels in fewest(size)..=(size / 2).min(4) {
            cases.extend((1..=3).map(|dimensions| (vec![size; dimensions], vec![levels; dimensions])));
        }
    }
    for sizes in [&[8, 16][..], &[20, 5], &[5, 7], &[2, 16], &[1, 16], &[4, 6, 8]] {
        cases.extend(members(sizes).into_iter().take(2).map(|(_, levels)| (sizes.to_vec(), levels)));
    }
    for (sizes, levels) in cases {
        let mut plans = vec![Vec::new()];
        for (&size, &levels) in sizes.iter().zip(&levels) {
            let longer = |plan: Vec<Vec<usize>>| {
                // Equal dimensions have equal distances.
                let next = if plan.is_empty() || size != sizes[0] {
                    all(size, levels)
                } else {
                    vec![plan[0].clone()]
                };
                next.into_iter().map(move |distances| [&plan[..], &[distances]].concat())
            };
            plans = plans.into_iter().flat_map(longer).collect();
        }
        let best = plans.iter().map(|plan| link_load(&sizes, plan)).fold(f64::INFINITY, f64::min);
        assert_eq!(link_load(&sizes, &plan(&sizes, &levels)), best, "{sizes:?} {levels:?}");
    }
}

#[test]
fn plans() {
    let rings = (1..=40).chain([64, 81, 100, 127, 128, 129, 200, 243, 256, 730, 1000]).map(|size| vec![size]);
    let tori = [vec![], vec![1, 1], vec![64, 32], vec![8, 64, 27], vec![130, 7], vec![16, 12, 10, 8]];
    for sizes in rings.chain(tori) {
        for (extra, levels) in members(&sizes) {
            let found = plan(&sizes, &levels);
            let usual: Vec<Vec<usize>> = sizes.iter().map(|size| trivance(*size)).collect();
            assert!(link_load(&sizes, &found) <= link_load(&sizes, &usual) || extra > 0, "{sizes:?}");
            assert_eq!(least(&sizes, &levels), found, "{sizes:?} {levels:?}: not the same twice");
            for ((&size, &levels), distances) in sizes.iter().zip(&levels).zip(found) {
                assert_eq!(distances.len(), levels);
                assert!(levels < size / 2 || distances.iter().all(|distance| *distance == 1));
                let nest = Nest::new(size, distances).expect("reaches everybody");
                assert_eq!(nest.idle(), 0, "{sizes:?} {nest:?}");
            }
        }
    }
    assert_eq!(plan(&[16], &[0]), [[1, 2, 5]]);
    assert_eq!(plan(&[7], &[9]), [[1, 1, 1]]);
    assert_eq!(trivance(64), [1, 3, 9, 19]);
    let extras_and_levels = |size| members(&[size]).into_iter().map(|(extra, levels)| (extra, levels[0]));
    let expected = [0, 1, 2, 3, 4, 5, 6, 12, 24, 28].map(|extra| (extra, 4 + extra));
    assert!(extras_and_levels(64).eq(expected));
    assert_eq!(members(&[8, 16])[2..4], [(2, vec![4, 5]), (3, vec![4, 6])]);
}

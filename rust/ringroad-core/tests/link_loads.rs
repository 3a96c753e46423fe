//! Compares the load of the most loaded link in an allreduce with the formulas of the papers or, where these only give
//! a limit, with formulas for finite sizes.

use ringroad_core::algorithms::find;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::{Collective, Topology};

/// The sum over the steps of what the most loaded link carries, as a fraction of the message.
fn load(name: &str, topology: &Topology) -> f64 {
    let schedule = find(name).unwrap().build(topology, Collective::Allreduce).unwrap();
    ScheduleCost::from_schedule(&schedule, topology).unwrap().link_load()
}

fn check(name: &str, topology: &str, expected: f64) {
    let found = load(name, &Topology::parse(topology).unwrap());
    assert!((found - expected).abs() < 1e-9, "{name} on {topology}: {found} instead of {expected}");
}

fn torus(side: usize, dimensions: u32) -> String {
    format!("torus:{}", vec![side.to_string(); dimensions as usize].join("x"))
}

/// A rank sends 2(n-1)/n of the vector by 2D links, and no link carries more than its share.
#[test]
fn bucket_is_optimal_on_square_tori() {
    for (side, dimensions) in [(2, 2), (3, 2), (4, 2), (5, 2), (8, 2), (3, 3), (4, 3), (2, 4)] {
        let ranks = (side as f64).powi(dimensions as i32);
        check("bucket", &torus(side, dimensions), (ranks - 1.0) / ranks / dimensions as f64);
    }
    // The steps of one phase send 1/3, 1/2 (where the short rings also send) and twice 1/6 of a quarter of the vector.
    check("bucket", "torus:2x3", 2.0 * (1.0 / 3.0 + 1.0 / 2.0 + 2.0 / 6.0) / 4.0);
}

/// How many messages share a link. At distance d, d messages in one direction do. The mirror image is not the
/// complement but the same pattern shifted by one, so on some links both together have 2d - 1 messages. At half the
/// ring, half of a message goes each way.
fn overlap(side: usize, distance: usize, both: bool) -> f64 {
    match (2 * distance == side, both) {
        (true, false) => distance as f64 / 2.0,
        (true, true) => distance as f64,
        (false, false) => distance as f64,
        (false, true) => (2 * distance - 1) as f64,
    }
}

/// The load of one phase: the sum over the steps of the overlap times the part of the vector that is exchanged.
fn phase(side: usize, dimensions: u32, both: bool) -> f64 {
    let steps = (0..side.ilog2()).flat_map(|bit| (0..dimensions).map(move |d| (bit, bit * dimensions + d)));
    steps.map(|(bit, step)| overlap(side, 1 << bit, both) / 2f64.powi(step as i32 + 1)).sum()
}

#[test]
fn halving_and_doubling() {
    for (side, dimensions) in [(4, 1), (8, 1), (16, 1), (4, 2), (8, 2), (16, 2), (4, 3), (8, 3)] {
        // One slice in two phases; or, with all ports, 2D slices of the 2D-th part each, of which each link carries
        // two.
        check("halving-doubling", &torus(side, dimensions), 2.0 * phase(side, dimensions, false));
        let both = phase(side, dimensions, true) / dimensions as f64;
        check("halving-doubling-multiport", &torus(side, dimensions), both);
    }
    check("halving-doubling-multiport", "torus:8x8", 1.5 / 2.0);
    check("halving-doubling-multiport", "torus:8x8x8", 1.2578125 / 3.0);
}

/// Sack and Gropp: in the limit of large tori, one slice that alternates between the dimensions loads links with
/// (2^D - 1) / (2^D - 2) times what it exchanges. Together with the mirror image it is twice that less 1.
#[test]
fn halving_and_doubling_on_endless_tori() {
    for dimensions in 2..=4 {
        let limit = (2f64.powi(dimensions) - 1.0) / (2f64.powi(dimensions) - 2.0);
        let endless = |both| phase(1 << 40, dimensions as u32, both);
        assert!((endless(false) - limit).abs() < 1e-9, "{dimensions}: {}", endless(false));
        assert!((endless(true) - (2.0 * limit - 1.0)).abs() < 1e-9, "{dimensions}: {}", endless(true));
    }
}

#[test]
fn whole_vectors() {
    for (ranks, expected) in [(8, 1.0 + 2.0 + 2.0), (16, 1.0 + 2.0 + 4.0 + 4.0)] {
        check("recursive-doubling", &format!("ring:{ranks}"), expected);
    }
    for (ranks, expected) in [(8, 1.0 + 3.0 + 4.0), (16, 1.0 + 3.0 + 7.0 + 8.0)] {
        check("recursive-doubling-multiport", &format!("ring:{ranks}"), expected / 2.0);
    }
    for (ranks, expected) in [(3, 1.0), (9, 5.0), (27, 17.0), (81, 53.0), (6, 3.0), (18, 11.0)] {
        check("butterfly", &format!("ring:{ranks}"), expected);
    }
    for (ranks, expected) in [(3, 1.0), (9, 6.0), (27, 27.0), (81, 108.0)] {
        check("gather-sum", &format!("ring:{ranks}"), expected);
    }
    // Trivance's distances would give 17, 25, 56, 92, 263, 289 and 986.
    for (ranks, expected) in
        [(16, 15.0), (25, 25.0), (28, 27.0), (64, 88.0), (100, 133.0), (127, 179.0), (256, 415.0)]
    {
        check("gather-sum", &format!("ring:{ranks}"), expected);
    }
    // Two slices, each in one dimension at a time.
    check("gather-sum", "torus:9x9", 6.0);
    check("gather-sum", "torus:16x16", 15.0);
    check("butterfly", "torus:9x9", 5.0);
}

/// With elimination a rank sends fewer than three vectors in all, exactly 2 + 1/q - 2/p, where p is the largest power
/// of two below n and q the largest that divides n. Folding would take 2(p-1)/p + 2.
#[test]
fn elimination_is_faster_than_folding() {
    for ranks in (3usize..=40).filter(|ranks| !ranks.is_power_of_two()) {
        let (power, divisor) = (1 << ranks.ilog2(), 1 << ranks.trailing_zeros());
        let expected = 2.0 + 1.0 / f64::from(divisor) - 2.0 / f64::from(power);
        check("halving-doubling", &format!("switch:{ranks}"), expected);
    }
}

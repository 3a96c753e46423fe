//! Compares latency, bandwidth and congestion deficiencies with the formulas of the papers.

use ringroad_core::algorithms::find;
use ringroad_core::cost::{CostModel, Deficiencies, ScheduleCost};
use ringroad_core::{Collective, Schedule, Topology};

fn schedule(name: &str, topology: &Topology) -> Schedule {
    find(name).unwrap().build(topology, Collective::Allreduce).unwrap()
}

fn deficiencies(name: &str, spec: &str) -> Deficiencies {
    let topology = Topology::parse(spec).unwrap();
    let cost = ScheduleCost::from_schedule(&schedule(name, &topology), &topology).unwrap();
    cost.deficiencies(Collective::Allreduce, &topology)
}

fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} instead of {expected}");
}

/// Swing, section 4.1, in the limit of large tori: steps alternate between D dimensions, each sends half as much as the
/// one before, and distances are about 2^step / 3.
fn swing_limit(dimensions: i32) -> f64 {
    let half = |power: i32| 2f64.powi(-power);
    (1.0 - half(dimensions)) / 3.0 * (2.0 / (1.0 - half(dimensions - 1)) + 1.0 / (1.0 + half(dimensions)))
}

#[test]
fn swing() {
    for (dimensions, limit) in [(2, 1.2), (3, 28.0 / 27.0), (4, 1.0084)] {
        close(swing_limit(dimensions), limit, 5e-5, "limit");
    }
    // Worst links. On finite rings some messages go both ways around, which the limit does not have.
    for (spec, worst) in [("torus:8x8", 1.0781), ("torus:64x64", 1.1843), ("torus:8x8x8", 1.0254)] {
        let found = deficiencies("swing", spec);
        let ranks = Topology::parse(spec).unwrap().ranks() as f64;
        close(found.worst_link, worst, 5e-5, spec);
        close(found.latency, 2.0, 0.0, spec);
        close(found.bandwidth, 1.0 - 1.0 / ranks, 1e-12, spec);
        close(found.congestion, found.worst_link / found.bandwidth, 1e-12, spec);
    }
    // Larger tori are closer to the limit.
    let side = |n: usize| deficiencies("swing", &format!("torus:{n}x{n}")).worst_link;
    let gaps: Vec<f64> = [8, 16, 32, 64, 128].map(|n| swing_limit(2) - side(n)).to_vec();
    assert!(gaps.windows(2).all(|pair| 0.0 < pair[1] && pair[1] < pair[0]), "{gaps:?}");
    close(gaps[4], 0.0, 0.01, "128x128");
}

/// Trivance with sides of 3^levels: steps alternate between dimensions, each port sends a third of what is left, and at
/// distance 3^k as many messages share a link.
fn trivance_worst_link(levels: usize, dimensions: usize) -> f64 {
    let step = |t: usize| 3f64.powi((t / dimensions) as i32 - t as i32 - 1);
    2.0 * (0..levels * dimensions).map(step).sum::<f64>()
}

#[test]
fn trivance() {
    for (levels, dimensions, worst) in
        [(2, 2, 1.185), (3, 2, 1.284), (4, 2, 1.317), (2, 3, 1.070), (3, 3, 1.082)]
    {
        let formula = trivance_worst_link(levels, dimensions);
        let sides = vec![3usize.pow(levels as u32).to_string(); dimensions];
        let spec = format!("torus:{}", sides.join("x"));
        close(formula, worst, 5e-4, &spec);
        // The last network has more ranks than this test builds schedules for.
        if (levels, dimensions) != (3, 3) {
            close(deficiencies("trivance", &spec).worst_link, formula, 1e-12, &spec);
        }
    }
    for (dimensions, limit) in [(2, 4.0 / 3.0), (3, 13.0 / 12.0), (4, 40.0 / 39.0)] {
        close(trivance_worst_link(40, dimensions), limit, 1e-12, "limit");
    }
    for (ranks, log) in [(9usize, 2.0), (27, 3.0), (81, 4.0), (243, 5.0)] {
        let spec = format!("ring:{ranks}");
        let found = deficiencies("trivance", &spec);
        close(found.worst_link, 2.0 / 3.0 * log, 1e-12, &spec);
        let found = deficiencies("trivance-latency", &spec);
        close(found.worst_link, (ranks as f64 - 1.0) / 2.0, 1e-12, &spec);
        close(found.bandwidth, log, 1e-12, &spec);
        close(found.latency, log / (ranks as f64).log2(), 1e-12, &spec);
    }
}

/// Swing, table 2: algorithms without congestion, and algorithms that use one of 2D ports.
#[test]
fn others() {
    for name in ["bucket", "hamiltonian-rings"] {
        let found = deficiencies(name, "torus:8x8");
        close(found.bandwidth, 63.0 / 64.0, 1e-12, name);
        close(found.congestion, 1.0, 1e-12, name);
    }
    for (spec, dimensions) in [("ring:16", 1.0), ("torus:16x16", 2.0), ("torus:8x8x8", 3.0)] {
        let ranks = Topology::parse(spec).unwrap().ranks() as f64;
        let found = deficiencies("recursive-doubling", spec);
        close(found.latency, 1.0, 0.0, spec);
        close(found.bandwidth, dimensions * ranks.log2(), 1e-12, spec);
        let found = deficiencies("halving-doubling", spec);
        close(found.latency, 2.0, 0.0, spec);
        close(found.bandwidth, 2.0 * dimensions * (1.0 - 1.0 / ranks), 1e-12, spec);
    }
    // With one cable per rank, halving and doubling is optimal behind a switch.
    let found = deficiencies("halving-doubling", "switch:16");
    close(found.worst_link, 15.0 / 16.0, 1e-12, "switch:16");
    close(found.congestion, 1.0, 1e-12, "switch:16");
    assert_eq!(deficiencies("ring", "ring:1").latency, 1.0);
}

#[test]
fn reductions_may_hide_behind_transfers() {
    let topology = Topology::ring(4).unwrap();
    let cost = ScheduleCost::from_schedule(&schedule("ring", &topology), &topology).unwrap();
    let check = |reduce_cost: f64, overlapped: bool, expected: f64| {
        let model = CostModel { bandwidth: Some(1.0), reduce_cost, overlapped, ..CostModel::default() };
        close(model.per_byte(&cost), expected, 1e-12, "seconds per byte");
    };
    // Three steps reduce a quarter of the vector, three copy a quarter.
    check(0.5, false, 1.5 + 0.375);
    check(0.5, true, 1.5);
    check(4.0, false, 1.5 + 3.0);
    check(4.0, true, 3.0 + 0.75);
}

/// One slice of several is the same algorithm on fewer ports.
#[test]
fn one_slice_alone() {
    let topology = Topology::parse("torus:8x8").unwrap();
    let all = schedule("swing-latency", &topology);
    for index in 0..4 {
        let one = all.on_slice(index).unwrap();
        one.verify().unwrap();
        assert_eq!((one.ports(), one.max_sent()), (1, 6.0));
    }
    let one = schedule("swing", &topology).on_slice(2).unwrap();
    one.verify().unwrap();
    assert_eq!(one.chunks, 64);
    let scatter = find("swing").unwrap().build(&topology, Collective::ReduceScatter).unwrap();
    scatter.on_slice(3).unwrap().verify().unwrap();
    let error = all.on_slice(4).unwrap_err().to_string();
    assert_eq!(
        error,
        "\"swing-latency\" has 4 slices, and no slice 4; a schedule that is written out has none"
    );
}

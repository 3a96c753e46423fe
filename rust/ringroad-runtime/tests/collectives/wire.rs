//! Calls with a wire format, over all transports of one process: replicas are bit-identical, and errors within bounds.

use half::{bf16, f16};
use ringroad_core::schedule::Rounding;
use ringroad_core::{Collective, Topology, Wire};
use ringroad_runtime::kernels::wire::dithers;
use ringroad_runtime::{CallKey, Communicator, DType, Memory, Operation, Precision, ReduceOp, Request};

use crate::common::{each, group, watch, Means, MEANS};

const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Numbers between -1 and 1, which differ between ranks.
fn values(rank: usize, elements: usize) -> Vec<f64> {
    let mut state = rank as u64 + 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    (0..elements).map(next).collect()
}

fn memory(dtype: DType, values: &[f64]) -> Memory {
    match dtype {
        DType::F16 => {
            Memory::from_slice(&values.iter().map(|x| f16::from_f64(*x).to_bits()).collect::<Vec<u16>>())
        }
        DType::BF16 => {
            Memory::from_slice(&values.iter().map(|x| bf16::from_f64(*x).to_bits()).collect::<Vec<u16>>())
        }
        DType::F32 => Memory::from_slice(&values.iter().map(|x| *x as f32).collect::<Vec<f32>>()),
        _ => Memory::from_slice(values),
    }
}

fn numbers(dtype: DType, memory: &Memory) -> Vec<f64> {
    match dtype {
        DType::F16 => memory.to_vec::<u16>().into_iter().map(|x| f16::from_bits(x).to_f64()).collect(),
        DType::BF16 => memory.to_vec::<u16>().into_iter().map(|x| bf16::from_bits(x).to_f64()).collect(),
        DType::F32 => memory.to_vec::<f32>().into_iter().map(f64::from).collect(),
        _ => memory.to_vec(),
    }
}

/// What the type of the elements rounds.
fn own_error(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::BF16 => 1.0 / 128.0,
        _ => 1e-6,
    }
}

#[test]
fn replicas_are_bit_identical_within_the_bound() {
    let full = std::env::var_os("RINGROAD_TEST_FULL").is_some();
    let sizes: &[usize] = if full { &[2, 3, 4, 5, 8, 9, 16, 17, 33] } else { &[2, 3, 4] };
    let lengths: &[usize] = if full { &[0, 1, 255, 3000, 1_000_000] } else { &[1, 3000] };
    for (&ranks, means) in sizes.iter().flat_map(|ranks| MEANS.map(|means| (ranks, means))) {
        let communicators = group(ranks, means);
        let ops = [ReduceOp::Sum, ReduceOp::Avg].into_iter().cycle();
        for ((&elements, op), dtype) in
            lengths.iter().zip(ops).flat_map(|call| DTYPES.map(|dtype| (call, dtype)))
        {
            check(&communicators, means, op, dtype, elements);
        }
    }
}

/// All algorithms and formats for one call.
fn check(communicators: &[Communicator], means: Means, op: ReduceOp, dtype: DType, elements: usize) {
    let ranks = communicators.len();
    let ring = Topology::ring(ranks).unwrap();
    let rounded = |rank| numbers(dtype, &memory(dtype, &values(rank, elements)));
    let inputs: Vec<Vec<f64>> = (0..ranks).map(rounded).collect();
    let divisor = if op == ReduceOp::Avg { ranks as f64 } else { 1.0 };
    let exact = |at: usize| inputs.iter().map(|input| input[at]).sum::<f64>() / divisor;
    let exact: Vec<f64> = (0..elements).map(exact).collect();
    for name in ["ring", "direct", "recursive-doubling", "swing", "double-binary-tree"] {
        let member = ringroad_core::algorithms::find(name).unwrap();
        let Ok(schedule) = member.build(&ring, Collective::Allreduce) else { continue };
        let rounding = Rounding::from_schedule(&schedule).unwrap();
        let stochastic = [Wire::Int8, Wire::Int4].map(Precision::Stochastic);
        for precision in Wire::ALL.map(Precision::Wire).into_iter().chain(stochastic) {
            let (wire, roundings) = match precision {
                // One such rounding errs like two to the nearest.
                Precision::Stochastic(wire) if !dithers(wire, dtype) => continue,
                Precision::Stochastic(wire) => (wire, 2 * rounding.roundings),
                Precision::Wire(wire) => (wire, rounding.roundings),
                _ => unreachable!("these are formats"),
            };
            let _watchdog = watch();
            let results = each(communicators, |communicator| {
                let input = memory(dtype, &inputs[communicator.rank()]);
                let output = Memory::zeroed(elements * dtype.size());
                let key = CallKey::new(Operation::Collective(Collective::Allreduce), dtype, elements);
                let key = CallKey { op, precision, ..key };
                communicator.run(Request::from_key(key, input, output).by(member)).unwrap().to_vec::<u8>()
            });
            let what = format!("{precision:?} of {elements} {dtype} over {ranks} ranks by {name}, {means:?}");
            assert!(results.iter().all(|result| *result == results[0]), "{what}: other bits");
            let own = own_error(dtype) * f64::from(rounding.roundings);
            let bound = ranks as f64 * (wire.bound(roundings, dtype.size()) + own);
            for (found, exact) in numbers(dtype, &Memory::from_slice(&results[0])).iter().zip(&exact) {
                assert!((found - exact).abs() <= bound / divisor, "{what}: {found} is not {exact}");
            }
        }
    }
}

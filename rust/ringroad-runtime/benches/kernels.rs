//! How fast the reduction kernels and the codecs of wire formats are: `make bench SET=kernels`. Throughput counts the bytes of all operands that are read.
//!
//! Every operation, type and size is measured with two and with four operands, and where the result is written a second
//! time for others to read, by plain and by streaming stores. `scalar` is the oracle that the kernels are tested against.
//! An average is the sum and a division. Compare rows of one run: absolute figures depend on the machine.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{
    criterion_group, criterion_main, BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput,
};
use ringroad_core::Wire;
use ringroad_runtime::kernels::{combine, copy, digest, divide, scalar, wire as codec, Stores};
use ringroad_runtime::{DType, ReduceOp};

const OPS: [ReduceOp; 3] = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Avg];
const DTYPES: [DType; 5] = [DType::F32, DType::F64, DType::BF16, DType::F16, DType::I32];
/// The bytes of an operand. Six of them (sources and targets) fit the first-level cache, the second-level cache, and none.
const SIZES: [(&str, usize); 3] = [("L1", 4 << 10), ("L2", 64 << 10), ("memory", 16 << 20)];
const SEVERAL: usize = 4;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "it is read by pointers only")] [u8; 64]);

/// An operand that begins at a cache line.
struct Operand {
    lines: Vec<Line>,
    bytes: usize,
}

impl Operand {
    /// Ordinary numbers in every type: no NaN and no subnormal ones, which are slower on some processors.
    fn new(bytes: usize) -> Operand {
        Operand { lines: vec![Line([0x3c; 64]); bytes.div_ceil(64)], bytes }
    }

    fn start(&self) -> *const u8 {
        self.lines.as_ptr().cast()
    }

    fn start_mut(&mut self) -> *mut u8 {
        self.lines.as_mut_ptr().cast()
    }

    fn slice(&self) -> &[u8] {
        // SAFETY: the lines hold at least so many initialized bytes.
        unsafe { std::slice::from_raw_parts(self.start(), self.bytes) }
    }

    fn slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and they are borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.start_mut(), self.bytes) }
    }
}

/// All operands of one size.
struct Operands {
    sources: [Operand; SEVERAL],
    target: Operand,
    also: Operand,
}

impl Operands {
    fn new(bytes: usize) -> Operands {
        let operand = || Operand::new(bytes);
        Operands { sources: [(); SEVERAL].map(|()| operand()), target: operand(), also: operand() }
    }

    /// The kernel, with the first `count` sources.
    fn reduce(&mut self, op: ReduceOp, dtype: DType, count: usize, also: Option<Stores>) {
        let sources: [*const u8; SEVERAL] = std::array::from_fn(|index| self.sources[index].start());
        let elements = self.target.bytes / dtype.size();
        let target = self.target.start_mut();
        let also = also.map(|stores| (self.also.start_mut(), stores));
        // SAFETY: all operands have so many elements, none overlaps another, and nobody else uses them meanwhile.
        unsafe { combine(op, dtype, target, &sources[..count], elements, also) };
        if op == ReduceOp::Avg {
            // SAFETY: as above; source and target are the same.
            unsafe { divide(dtype, target, target, count as u32, elements) };
        }
    }

    /// The oracle, with two sources.
    fn reduce_by_scalars(&mut self, op: ReduceOp, dtype: DType) {
        let [first, second, ..] = &self.sources;
        scalar::reduce(op, dtype, self.target.slice_mut(), first.slice(), second.slice()).expect("supported");
        if op == ReduceOp::Avg {
            // The division reads what another operand holds: safe slices cannot overlap.
            scalar::divide(dtype, self.also.slice_mut(), self.target.slice(), 2).expect("supported");
        }
    }
}

/// One row.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    (size, bytes): (&str, usize),
    operands: usize,
    mut reduce: impl FnMut(),
) {
    group.throughput(Throughput::BytesDecimal((operands * bytes) as u64));
    group.bench_function(BenchmarkId::new(name, size), |bencher| bencher.iter(&mut reduce));
}

fn kernels(criterion: &mut Criterion) {
    let mut rooms = SIZES.map(|(_, bytes)| Operands::new(bytes));
    for (op, dtype) in OPS.into_iter().flat_map(|op| DTYPES.map(|dtype| (op, dtype))) {
        if !op.supports(dtype) {
            continue;
        }
        let mut group = criterion.benchmark_group(format!("{} {dtype}", op.name()));
        group
            .sampling_mode(SamplingMode::Flat)
            .sample_size(10)
            .warm_up_time(Duration::from_millis(50))
            .measurement_time(Duration::from_millis(200));
        for (size, room) in SIZES.into_iter().zip(&mut rooms) {
            measure(&mut group, "two", size, 2, || room.reduce(op, dtype, 2, None));
            measure(&mut group, "four", size, SEVERAL, || room.reduce(op, dtype, SEVERAL, None));
            for (name, stores) in [("two, plain", Stores::Plain), ("two, streaming", Stores::Streaming)] {
                measure(&mut group, name, size, 2, || room.reduce(op, dtype, 2, Some(stores)));
            }
            measure(&mut group, "scalar", size, 2, || room.reduce_by_scalars(op, dtype));
        }
        group.finish();
    }
}

/// Encoding, also with the rounded elements kept, and decoding, also with an addition, beside a copy that reads and writes
/// as many bytes together.
fn codecs(criterion: &mut Criterion) {
    let dtype = DType::F32;
    for wire in Wire::ALL {
        let mut group = criterion.benchmark_group(format!("{wire} {dtype}"));
        group
            .sampling_mode(SamplingMode::Flat)
            .sample_size(10)
            .warm_up_time(Duration::from_millis(50))
            .measurement_time(Duration::from_millis(200));
        for (size, bytes) in SIZES {
            let elements = bytes / dtype.size();
            let length = wire.encoded(elements);
            let [mut vector, mut encoded] = [bytes, length].map(Operand::new);
            let target = vector.start_mut();
            let codes = encoded.start_mut();
            let moved = (bytes + length) / 2;
            let [from, mut to] = [(); 2].map(|()| Operand::new(moved));
            measure(&mut group, "copy", (size, moved), 2, || {
                // SAFETY: the operands have so many bytes, none overlaps another, and nobody else uses them.
                unsafe { copy(to.start_mut(), from.start(), moved, Stores::Plain) }
            });
            measure(&mut group, "encode", (size, moved), 2, || {
                // SAFETY: as above.
                unsafe { codec::encode(wire, dtype, codes, target, None, elements) }
            });
            measure(&mut group, "encode, keep", (size, moved), 2, || {
                // SAFETY: as above; the elements are kept where they are read.
                unsafe { codec::encode(wire, dtype, codes, target, Some(target), elements) }
            });
            measure(&mut group, "decode", (size, moved), 2, || {
                // SAFETY: as above.
                unsafe { codec::decode(wire, dtype, target, None, codes, elements) }
            });
            measure(&mut group, "decode, add", (size, moved), 2, || {
                // SAFETY: as above; the sum is written where an operand is.
                unsafe { codec::decode(wire, dtype, target, Some(target), codes, elements) }
            });
        }
        group.finish();
    }
}

/// The digest by which replicas are compared, beside a copy that reads and writes as many bytes together.
fn digests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("digest");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(50))
        .measurement_time(Duration::from_millis(200));
    for (size, bytes) in SIZES {
        let [all, from, mut to] = [bytes, bytes / 2, bytes / 2].map(Operand::new);
        measure(&mut group, "copy", (size, bytes), 1, || {
            // SAFETY: both have so many bytes, do not overlap, and nobody else uses them.
            unsafe { copy(to.start_mut(), from.start(), bytes / 2, Stores::Plain) }
        });
        measure(&mut group, "digest", (size, bytes), 1, || {
            std::hint::black_box(digest(all.slice()));
        });
    }
    group.finish();
}

criterion_group!(benches, codecs, digests, kernels);
criterion_main!(benches);

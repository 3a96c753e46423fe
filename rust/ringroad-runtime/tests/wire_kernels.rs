//! Compares the codecs of wire formats with their scalar twin, and checks what replicas and error bounds rely on.

use half::{bf16, f16};
use proptest::prelude::*;
use ringroad_core::Wire;
use ringroad_runtime::kernels::dtype::DType;
use ringroad_runtime::kernels::wire::{dithers, scalar, Format};
use ringroad_runtime::kernels::InstructionSet;

const DTYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];
const LENGTHS: [usize; 12] = [0, 1, 2, 3, 31, 127, 255, 256, 257, 300, 513, 1025];
const CASES: u32 = if cfg!(miri) { 1 } else { 64 };
/// What is around the memory that a kernel may write.
const FENCE: u8 = 0xa5;
const FENCED: usize = 64;

fn bytes_of(dtype: DType, values: &[f64]) -> Vec<u8> {
    let one = |x: &f64| match dtype {
        DType::F16 => f16::from_f64(*x).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f64(*x).to_le_bytes().to_vec(),
        DType::F32 => (*x as f32).to_le_bytes().to_vec(),
        _ => x.to_le_bytes().to_vec(),
    };
    values.iter().flat_map(one).collect()
}

fn values_of(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let one = |b: &[u8]| match dtype {
        DType::F16 => f16::from_le_bytes([b[0], b[1]]).to_f64(),
        DType::BF16 => bf16::from_le_bytes([b[0], b[1]]).to_f64(),
        DType::F32 => f64::from(f32::from_le_bytes(b.try_into().unwrap())),
        _ => f64::from_le_bytes(b.try_into().unwrap()),
    };
    bytes.chunks_exact(dtype.size()).map(one).collect()
}

/// Numbers from 0 to 1 from a seed (splitmix64).
fn random(mut seed: u64) -> impl FnMut() -> f64 {
    move || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Runs `kernel` on memory for `bytes` bytes, which begin at any address, and checks that it writes nothing else.
fn fenced(bytes: usize, before: &[u8], kernel: impl FnOnce(*mut u8)) -> Vec<u8> {
    let mut memory = vec![FENCE; bytes + 2 * FENCED];
    let start = FENCED - 1;
    memory[start..start + before.len()].copy_from_slice(before);
    kernel(memory[start..].as_mut_ptr());
    assert!(memory[..start].iter().chain(&memory[start + bytes..]).all(|byte| *byte == FENCE));
    memory[start..start + bytes].to_vec()
}

fn same(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    let size = dtype.size();
    let is_nan = |x: &[u8]| values_of(dtype, x)[0].is_nan();
    a.len() == b.len()
        && a.chunks_exact(size).zip(b.chunks_exact(size)).all(|(x, y)| x == y || is_nan(x) && is_nan(y))
}

/// Encodes with every instruction set, compares with the twin, and returns the bytes and what they stand for.
fn encoded(format: Format, dtype: DType, input: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (wire, elements) = (format.wire, input.len() / dtype.size());
    let bytes = scalar::encode(format, dtype, input);
    let kept = scalar::decode(wire, dtype, &bytes, elements);
    for set in InstructionSet::available() {
        let source = input.as_ptr();
        let found = fenced(bytes.len(), &[], |target| {
            // SAFETY: the memory has so many bytes, none overlaps another, and nobody else uses it.
            unsafe { set.encode(format, dtype, target, source, None, elements) }
        });
        assert_eq!(found, bytes, "{wire} of {elements} {dtype} with {set}");
        // In place.
        let mut again = vec![0; bytes.len()];
        let rounded = fenced(input.len(), input, |both| {
            // SAFETY: as above, and the elements are kept where they are read.
            unsafe { set.encode(format, dtype, again.as_mut_ptr(), both, Some(both), elements) }
        });
        assert_eq!(again, bytes, "{wire} of {elements} {dtype} with {set}");
        assert!(same(dtype, &rounded, &kept), "{wire} of {elements} {dtype} with {set}");
        let decoded = fenced(input.len(), &[], |target| {
            // SAFETY: as above.
            unsafe { set.decode(wire, dtype, target, None, bytes.as_ptr(), elements) }
        });
        assert_eq!(decoded, rounded, "{wire} of {elements} {dtype} with {set}");
    }
    (bytes, kept)
}

/// What rounding to the type may add, as a fraction of the magnitude, and the distance of its smallest numbers.
fn precision(dtype: DType) -> [f64; 2] {
    let [relative, absolute] = match dtype {
        DType::F16 => [-11, -24],
        DType::BF16 => [-8, -133],
        _ => [-24, -149],
    };
    [relative, absolute].map(|exponent: i32| 2f64.powi(exponent))
}

/// The distance of the smallest numbers of a format.
fn smallest(wire: Wire) -> f64 {
    2f64.powi(match wire {
        Wire::F16 => -24,
        Wire::Bf16 => -133,
        Wire::Fp8 | Wire::Int8 | Wire::Int4 => -126,
    })
}

fn check(wire: Wire, dtype: DType, input: &[u8]) {
    if wire.shortens(dtype.size()) {
        check_format(wire.into(), dtype, input);
        if dithers(wire, dtype) {
            check_format(Format { wire, seed: Some(input.len() as u32) }, dtype, input);
        }
    }
}

fn check_format(format: Format, dtype: DType, input: &[u8]) {
    let (wire, elements) = (format.wire, input.len() / dtype.size());
    let (bytes, kept) = encoded(format, dtype, input);
    assert_eq!(bytes.len(), wire.encoded(elements));
    // Another seed does not move what is on the grid.
    let seed = format.seed.map(|seed| seed + 1);
    let (again, rounded) = encoded(Format { seed, ..format }, dtype, &kept);
    assert_eq!(again, bytes, "{wire} of {dtype}: {:?}", values_of(dtype, input));
    assert!(same(dtype, &rounded, &kept));
    let [relative, absolute] = precision(dtype);
    let (input, kept) = (values_of(dtype, input), values_of(dtype, &kept));
    for (before, after) in input.chunks(Wire::BLOCK).zip(kept.chunks(Wire::BLOCK)) {
        let top = before.iter().filter(|x| x.is_finite()).fold(0f64, |top, x| top.max(x.abs()));
        let range = if wire == Wire::F16 { 65504.0 } else { f64::from(f32::MAX) * (1.0 - 2f64.powi(-8)) };
        let distance = if format.seed.is_some() { 2.0 * wire.error() } else { wire.error() };
        let most = distance * top + relative * top + absolute + smallest(wire);
        for (x, y) in before.iter().zip(after) {
            if !x.is_finite() {
                assert!(x.is_nan() && y.is_nan() || x == y, "{wire} of {dtype}: {x} became {y}");
            } else if x.abs() <= range {
                assert!((x - y).abs() <= most * 1.0001, "{wire} of {dtype}: {x} became {y}, beside {top}");
            } else {
                assert!(y.abs() > 0.99 * range, "{wire} of {dtype}: {x} became {y}");
            }
        }
    }
}

/// Vectors of all kinds: zeros, all scales from the smallest numbers to the largest, outliers, and numbers that are not
/// finite.
fn vectors(elements: usize) -> Vec<Vec<f64>> {
    let mut next = random(elements as u64);
    let mut vectors = vec![vec![0.0; elements], vec![-0.0; elements]];
    for exponent in [-149, -140, -126, -100, -24, -14, -3, 0, 3, 14, 15, 100, 127] {
        let scale = 2f64.powi(exponent);
        vectors.push((0..elements).map(|_| (next() * 4.0 - 2.0) * scale).collect());
    }
    let mixed = |_| (next() - 0.5) * 2f64.powi((next() * 40.0) as i32 - 20);
    vectors.push((0..elements).map(mixed).collect());
    for others in [&[f64::NAN][..], &[f64::INFINITY], &[f64::NEG_INFINITY, f64::NAN, f64::INFINITY]] {
        let mut vector: Vec<f64> = (0..elements).map(|_| next() - 0.5).collect();
        vector.iter_mut().step_by(97).zip(others.iter().cycle()).for_each(|(x, other)| *x = *other);
        vectors.push(vector);
        vectors.push((0..elements).map(|at| others[at % others.len()]).collect());
    }
    vectors
}

#[test]
fn every_format_keeps_its_promises() {
    let lengths = if cfg!(miri) { &LENGTHS[8..9] } else { &LENGTHS };
    for elements in lengths {
        for vector in vectors(*elements) {
            for (wire, dtype) in Wire::ALL.into_iter().flat_map(|wire| DTYPES.map(|dtype| (wire, dtype))) {
                check(wire, dtype, &bytes_of(dtype, &vector));
            }
        }
    }
}

/// Rounded at random, many times, a number is itself on average.
#[test]
fn dithers_are_even() {
    let vector: Vec<f64> = (0..Wire::BLOCK).map(|at| at as f64 / Wire::BLOCK as f64).collect();
    let input = bytes_of(DType::F32, &vector);
    for wire in [Wire::Int8, Wire::Int4] {
        let mut sums = vec![0.0; Wire::BLOCK];
        const TIMES: u32 = 4000;
        for seed in 0..TIMES {
            let bytes = scalar::encode(Format { wire, seed: Some(seed) }, DType::F32, &input);
            let rounded = values_of(DType::F32, &scalar::decode(wire, DType::F32, &bytes, Wire::BLOCK));
            sums.iter_mut().zip(rounded).for_each(|(sum, x)| *sum += x / f64::from(TIMES));
        }
        // Five standard deviations, and what 128 dithers leave.
        let most = 2.0 * wire.error() * (2.5 / f64::from(TIMES).sqrt() + 1.0 / 256.0);
        for (mean, x) in sums.iter().zip(&vector) {
            assert!((mean - x).abs() <= most, "{wire}: {x} is {mean} on average, more than {most} away");
        }
    }
}

/// All numbers of 16 bits, in blocks of neighbours and of strangers.
#[test]
#[cfg_attr(miri, ignore = "a million conversions")]
fn all_numbers_of_16_bits_settle() {
    for stride in [1, 257, 4099] {
        let all = (0..1u32 << 16).flat_map(|at| ((at * stride) as u16).to_le_bytes());
        let all: Vec<u8> = all.collect();
        for (wire, dtype) in Wire::ALL.into_iter().flat_map(|w| [DType::F16, DType::BF16].map(|d| (w, d))) {
            check(wire, dtype, &all);
        }
    }
}

/// Decodes with every instruction set, without and with an addition, as the twin does.
fn check_decoding(wire: Wire, dtype: DType, bytes: &[u8], elements: usize) {
    let left = bytes_of(dtype, &vec![1.5; elements]);
    let decoded = scalar::decode(wire, dtype, bytes, elements);
    let added = scalar::decode_add(wire, dtype, &left, bytes);
    for set in InstructionSet::available() {
        let found = fenced(left.len(), &[], |target| {
            // SAFETY: the memory has so many bytes, none overlaps another, and nobody else uses it.
            unsafe { set.decode(wire, dtype, target, None, bytes.as_ptr(), elements) }
        });
        assert!(same(dtype, &found, &decoded), "{wire} {dtype} {set}");
        let found = fenced(left.len(), &left, |both| {
            // SAFETY: as above; the sum is written where an operand is.
            unsafe { set.decode(wire, dtype, both, Some(both), bytes.as_ptr(), elements) }
        });
        assert!(same(dtype, &found, &added), "{wire} {dtype} {set}");
    }
}

/// All codes of a byte, with scales of all kinds.
#[test]
fn all_codes_are_decoded() {
    let scales = [0.0, 1.0, 0.3, f32::MIN_POSITIVE, 1e-45, 1e38, f32::MAX, f32::INFINITY, f32::NAN];
    for scale in scales.into_iter().flat_map(|scale| [scale, -scale]) {
        let codes: Vec<u8> = scale.to_le_bytes().into_iter().chain(0..=255).collect();
        for (wire, dtype) in
            [Wire::Int8, Wire::Fp8, Wire::Int4].into_iter().flat_map(|wire| DTYPES.map(|dtype| (wire, dtype)))
        {
            let elements = Wire::BLOCK - usize::from(wire == Wire::Int4);
            check_decoding(wire, dtype, &codes[..wire.encoded(elements)], elements);
        }
    }
}

/// Numbers half-way between two codes, and their neighbours, with a scale of a power of two.
#[test]
fn ties_are_rounded_as_the_twin_rounds_them() {
    for wire in [Wire::Int8, Wire::Fp8, Wire::Int4] {
        let codes: Vec<u8> = 1f32.to_le_bytes().into_iter().chain(0..=255).collect();
        let mut grid = values_of(DType::F32, &scalar::decode(wire, DType::F32, &codes[..wire.record()], 256));
        // -128 and e4m3's last code are no codes of finite numbers.
        let largest = grid.iter().fold(0.0, |largest, x: &f64| match wire {
            Wire::Fp8 => 1.75,
            _ => x.max(largest),
        });
        grid.retain(|x| x.abs() <= largest);
        grid.sort_by(f64::total_cmp);
        let ties = grid.windows(2).map(|pair| ((pair[0] + pair[1]) / 2.0) as f32);
        let near = |x: f32| [x.next_down(), x, x.next_up()];
        let all: Vec<f64> = ties.flat_map(near).map(f64::from).filter(|x| x.abs() <= largest).collect();
        for some in all.chunks(Wire::BLOCK - 1) {
            let block: Vec<f64> = std::iter::once(largest).chain(some.iter().copied()).collect();
            check(wire, DType::F32, &bytes_of(DType::F32, &block));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn any_bits_are_encoded(bits in prop::collection::vec(any::<u64>(), 0..600)) {
        let all: Vec<u8> = bits.iter().flat_map(|x| x.to_le_bytes()).collect();
        for (wire, dtype) in Wire::ALL.into_iter().flat_map(|wire| DTYPES.map(|dtype| (wire, dtype))) {
            check(wire, dtype, &all[..bits.len() * dtype.size()]);
        }
    }

    /// Whatever a peer sends is decoded as the twin decodes it, and added as the twin adds it.
    #[test]
    fn any_bytes_are_decoded(mut bytes in prop::collection::vec(any::<u8>(), 600), elements in 0usize..600) {
        for (wire, dtype) in Wire::ALL.into_iter().flat_map(|wire| DTYPES.map(|dtype| (wire, dtype))) {
            bytes.resize(wire.encoded(elements), 0x3f);
            check_decoding(wire, dtype, &bytes, elements);
        }
    }
}

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

fn is_full() -> bool {
    std::env::var_os("RINGROAD_TEST_FULL").is_some()
}

/// The smallest number of a type, and the exponents of its smallest and its largest.
fn smallest(dtype: DType) -> (f64, [i32; 2]) {
    let exponents = match dtype {
        DType::F16 => [-24, 15],
        DType::BF16 => [-133, 127],
        DType::F32 => [-149, 127],
        _ => [-1074, 1023],
    };
    (if dtype == DType::F64 { f64::from_bits(1) } else { 2f64.powi(exponents[0]) }, exponents)
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
    // Two numbers of e4m3 may be the same number of the type.
    assert!(again == bytes || wire == Wire::Fp8, "{wire} of {dtype}: {:?}", values_of(dtype, input));
    assert!(same(dtype, &rounded, &kept), "{wire} of {dtype}: {:?}", values_of(dtype, input));
    let (smallest, _) = smallest(dtype);
    let (input, kept) = (values_of(dtype, input), values_of(dtype, &kept));
    for (before, after) in input.chunks(Wire::BLOCK).zip(kept.chunks(Wire::BLOCK)) {
        let top = before.iter().filter(|x| x.is_finite()).fold(0f64, |top, x| top.max(x.abs()));
        let range = if wire == Wire::Bf16 { f64::from(f32::MAX) * (1.0 - 2f64.powi(-8)) } else { f64::MAX };
        let distance = wire.error(dtype.size()) * if format.seed.is_some() { 2.0 } else { 1.0 };
        // Between numbers of the type that are so far apart, none is nearer.
        let between = if top < 2f64.powi(20) * smallest && wire != Wire::F16 { 0.5 * smallest } else { 0.0 };
        let most = distance * top + between + if wire == Wire::Bf16 { 2f64.powi(-134) } else { 0.0 };
        for (x, y) in before.iter().zip(after) {
            if !x.is_finite() {
                assert!(x.is_nan() && y.is_nan() || x == y, "{wire} of {dtype}: {x} became {y}");
            } else if x.abs() <= range {
                assert!((x - y).abs() <= most, "{wire} of {dtype}: {x:e} became {y:e}, beside {top:e}");
            } else {
                assert!(y.is_infinite() || y.abs() > 0.99 * range, "{wire} of {dtype}: {x} became {y}");
            }
        }
    }
}

/// Vectors of all kinds: zeros, all scales from the smallest number of the type to the largest, mixtures of them, and
/// numbers that are not finite.
fn vectors(dtype: DType, elements: usize) -> Vec<Vec<f64>> {
    let mut next = random(elements as u64);
    let mut vectors = vec![vec![0.0; elements], vec![-0.0; elements]];
    let (smallest, [first, last]) = smallest(dtype);
    let power = |exponent: i32| {
        let above = exponent - first;
        (0..3).fold(smallest, |x, part| x * 2f64.powi((above + part) / 3))
    };
    let steps = match elements {
        Wire::BLOCK if is_full() => 1,
        Wire::BLOCK => 17,
        _ => 97,
    };
    for exponent in (first..=last).step_by(steps) {
        vectors.push((0..elements).map(|_| (next() * 4.0 - 2.0) * power(exponent)).collect());
        let below = |next: &mut dyn FnMut() -> f64| (next() * f64::from(exponent - first)) as i32;
        vectors.push((0..elements).map(|_| (next() - 0.5) * power(exponent - below(&mut next))).collect());
    }
    vectors
        .push((0..elements).map(|at| [1.0, -1.0][at % 2] * power(last) * (2.0 - 2f64.powi(-24))).collect());
    vectors.push((0..elements).map(|at| power(first) * (at % 5) as f64).collect());
    for others in [&[f64::NAN][..], &[f64::INFINITY], &[f64::NEG_INFINITY, f64::NAN, f64::INFINITY]] {
        for exponent in [first, first + 3, first + 9, first + 17, 0, last].map(|exponent| exponent.min(last))
        {
            let mut vector: Vec<f64> =
                (0..elements).map(|_| (next() * 4.0 - 2.0) * power(exponent)).collect();
            vector.iter_mut().step_by(97).zip(others.iter().cycle()).for_each(|(x, other)| *x = *other);
            vectors.push(vector);
        }
        vectors.push((0..elements).map(|at| others[at % others.len()]).collect());
    }
    vectors
}

#[test]
fn every_format_keeps_its_promises() {
    let lengths = if cfg!(miri) { &LENGTHS[8..9] } else { &LENGTHS };
    for (elements, dtype) in lengths.iter().flat_map(|elements| DTYPES.map(|dtype| (*elements, dtype))) {
        for vector in vectors(dtype, elements) {
            Wire::ALL.iter().for_each(|wire| check(*wire, dtype, &bytes_of(dtype, &vector)));
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
        let most = 2.0 * wire.error(4) * (2.5 / f64::from(TIMES).sqrt() + 1.0 / 256.0);
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
    let shifted = [1, 63, 64, 127].map(|shift| f32::from_bits(1f32.to_bits() | shift));
    let scales = [0.0, 1.0, 0.3, f32::MIN_POSITIVE, 1e-45, 1e38, f32::MAX, f32::INFINITY, f32::NAN];
    let scales = scales.into_iter().chain(shifted);
    for scale in scales.flat_map(|scale| [scale, -scale]) {
        let codes: Vec<u8> = scale.to_le_bytes().into_iter().chain(0..=255).cycle().take(600).collect();
        for (wire, dtype) in [Wire::F16, Wire::Int8, Wire::Fp8, Wire::Int4]
            .into_iter()
            .flat_map(|wire| DTYPES.map(|dtype| (wire, dtype)))
        {
            let elements = Wire::BLOCK - usize::from(wire == Wire::Int4);
            check_decoding(wire, dtype, &codes[..wire.encoded(elements)], elements);
        }
    }
}

/// Every largest magnitude of a block that is up to 2^20 times the smallest number of its type, where the numbers of the
/// type are no closer than those of a format, and a choice of those above.
#[test]
#[cfg_attr(miri, ignore = "a million blocks")]
fn small_magnitudes_settle() {
    let (every, step) = if is_full() { (1 << 11, 11) } else { (300, 7001) };
    let mut next = random(7);
    for dtype in [DType::F32, DType::F64] {
        let (smallest, _) = smallest(dtype);
        let tops = (1..every).chain((every..1 << 20).step_by(step));
        let tops = tops.chain((20..27).flat_map(|bits| (0..9).map(move |at| (1 << bits) + at * 100_003)));
        for top in tops {
            let number = |at: usize| match at {
                0 => f64::from(top),
                1 => f64::INFINITY,
                2..64 => (f64::from(top) * (next() * 2.0 - 1.0)).round(),
                _ => (f64::from(top) * 2f64.powf(-20.0 * next())).round(),
            };
            let mut block: Vec<f64> = (0..96).map(number).map(|x| x * smallest).collect();
            Wire::ALL.iter().for_each(|wire| check(*wire, dtype, &bytes_of(dtype, &block)));
            block[1] = 0.0;
            Wire::ALL.iter().for_each(|wire| check(*wire, dtype, &bytes_of(dtype, &block)));
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

//! Compares the kernels with their scalar twin, and checks the properties that replicas rely on.
//!
//! `cargo +nightly miri test -p ringroad-runtime --test kernels` interprets them, with fewer and smaller operands:
//! every access is then checked, and there are no instructions beyond the scalar ones.

use half::{bf16, f16};
use proptest::prelude::*;
use ringroad_core::random::Random;
use ringroad_runtime::kernels::dtype::{DType, ReduceOp};
use ringroad_runtime::kernels::{self, scalar, InstructionSet, Stores};

/// Which operand `dst` is.
#[derive(Clone, Copy, Debug)]
enum Alias {
    Disjoint,
    First,
    Second,
}

/// The longest operands where the length does not matter, the number of repetitions, and the step between the pairs
/// of an operation and a type that are tried: an interpreter is slow, and all pairs use the same loop.
const MAX_ELEMENTS: usize = if cfg!(miri) { 140 } else { 300 };
const CASES: u32 = if cfg!(miri) { 1 } else { 64 };
const PAIRS: usize = if cfg!(miri) { 7 } else { 1 };

const ALIASES: [Alias; 3] = [Alias::Disjoint, Alias::First, Alias::Second];

fn supported() -> impl Iterator<Item = (ReduceOp, DType)> {
    let ops = ReduceOp::ALL.into_iter();
    ops.flat_map(|op| DType::ALL.map(|dtype| (op, dtype)))
        .filter(|(op, dtype)| op.supports(*dtype))
        .step_by(PAIRS)
}

/// Bytes for `elements` elements from a seed: two thirds random bits, the rest special values.
fn data(dtype: DType, elements: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut next = move || random.bits();
    // Zeros, infinities, quiet and signalling NaN of both signs, the least subnormal and the largest normal.
    let special: &[u64] = match dtype {
        DType::F16 => &[0, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0xfc01, 1, 0x8001, 0x7bff, 0x3c00],
        DType::BF16 => &[0, 0x8000, 0x7f80, 0xff80, 0x7fc1, 0xff81, 1, 0x8001, 0x7f7f, 0x3f80],
        DType::F32 | DType::Complex64 => &[
            0,
            0x8000_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0001,
            0xff80_0001,
            1,
            0x8000_0001,
            0x7f7f_ffff,
            0x3f80_0000,
        ],
        DType::F64 | DType::Complex128 => &[
            0,
            1 << 63,
            0x7ff0 << 48,
            0xfff0 << 48,
            (0x7ff8 << 48) + 1,
            (0xfff0 << 48) + 1,
            1,
            (1 << 63) + 1,
            (0x7ff0 << 48) - 1,
            0x3ff0 << 48,
        ],
        _ => &[0, 1, u64::MAX, 0x8080_8080_8080_8080, 0x7f7f_7f7f_7f7f_7f7f],
    };
    let part = if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() };
    let mut bytes = Vec::new();
    while bytes.len() < elements * dtype.size() {
        let bits = match next() % 3 {
            0 => special[next() as usize % special.len()],
            _ => next(),
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..part]);
    }
    bytes
}

/// Runs `kernel(dst, a, b)` on copies of the operands at these offsets from an aligned address. Checks that no byte
/// around `dst` is changed.
fn run(
    a: &[u8],
    b: &[u8],
    alias: Alias,
    offsets: [usize; 3],
    kernel: impl Fn(*mut u8, *const u8, *const u8),
) -> Vec<u8> {
    let place = |bytes: &[u8], offset: usize| {
        let mut room = vec![0xa5u8; offset + bytes.len() + 32];
        room[offset..offset + bytes.len()].copy_from_slice(bytes);
        room
    };
    let mut a_room = place(a, offsets[0]);
    let mut b_room = place(b, offsets[1]);
    let mut d_room = place(&vec![0x5a; a.len()], offsets[2]);
    let (a_at, b_at, d_at) = (
        a_room[offsets[0]..].as_mut_ptr(),
        b_room[offsets[1]..].as_mut_ptr(),
        d_room[offsets[2]..].as_mut_ptr(),
    );
    let (mut room, offset) = match alias {
        Alias::Disjoint => {
            kernel(d_at, a_at, b_at);
            (d_room, offsets[2])
        }
        Alias::First => {
            kernel(a_at, a_at, b_at);
            (a_room, offsets[0])
        }
        Alias::Second => {
            kernel(b_at, a_at, b_at);
            (b_room, offsets[1])
        }
    };
    let result: Vec<u8> = room.drain(offset..offset + a.len()).collect();
    assert!(room.iter().all(|byte| *byte == 0xa5), "wrote outside dst");
    result
}

fn reduce(set: InstructionSet, op: ReduceOp, dtype: DType, a: &[u8], b: &[u8]) -> Vec<u8> {
    reduce_at(set, op, dtype, a, b, Alias::Disjoint, [0; 3])
}

fn reduce_at(
    set: InstructionSet,
    op: ReduceOp,
    dtype: DType,
    a: &[u8],
    b: &[u8],
    alias: Alias,
    offsets: [usize; 3],
) -> Vec<u8> {
    let elements = a.len() / dtype.size();
    // SAFETY: `run` gives operands of this length that are equal or disjoint.
    run(a, b, alias, offsets, |dst, a, b| unsafe { set.reduce(op, dtype, dst, a, b, elements) })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reduce_equals_the_scalar_twin_bit_for_bit(
        elements in 0..MAX_ELEMENTS,
        seed in any::<u64>(),
        offsets in [0usize..16, 0usize..16, 0usize..16],
        alias in prop::sample::select(&ALIASES[..]),
    ) {
        for (op, dtype) in supported() {
            let (a, b) = (data(dtype, elements, seed), data(dtype, elements, !seed));
            let mut expected = vec![0; a.len()];
            scalar::reduce(op, dtype, &mut expected, &a, &b).unwrap();
            for set in InstructionSet::available() {
                let fast = reduce_at(set, op, dtype, &a, &b, alias, offsets);
                prop_assert_eq!(&fast, &expected, "{} {} {}", set, op, dtype);
            }
        }
    }

    #[test]
    fn scale_and_divide_equal_the_scalar_twin_bit_for_bit(
        elements in 0..MAX_ELEMENTS,
        seed in any::<u64>(),
        offsets in [0usize..16, 0usize..16, 0usize..16],
        in_place in any::<bool>(),
        factor in any::<f64>(),
        divisor in 1u32..,
    ) {
        let alias = if in_place { Alias::First } else { Alias::Disjoint };
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_floating()) {
            let src = data(dtype, elements, seed);
            let (mut scaled, mut divided) = (vec![0; src.len()], vec![0; src.len()]);
            scalar::scale(dtype, &mut scaled, &src, factor).unwrap();
            scalar::divide(dtype, &mut divided, &src, divisor).unwrap();
            for set in InstructionSet::available() {
                let fast = run(&src, &src, alias, offsets, |dst, src, _| {
                    // SAFETY: `run` gives operands of this length that are equal or disjoint.
                    unsafe { set.scale(dtype, dst, src, factor, elements) }
                });
                prop_assert_eq!(&fast, &scaled, "{} scale {}", set, dtype);
                let fast = run(&src, &src, alias, offsets, |dst, src, _| {
                    // SAFETY: as above.
                    unsafe { set.divide(dtype, dst, src, divisor, elements) }
                });
                prop_assert_eq!(&fast, &divided, "{} divide {}", set, dtype);
            }
        }
    }

    #[test]
    fn order_of_operands_changes_no_bit(elements in 0..MAX_ELEMENTS, seed in any::<u64>()) {
        for (op, dtype) in supported() {
            let (a, b, c) =
                (data(dtype, elements, seed), data(dtype, elements, !seed), data(dtype, elements, seed / 3));
            for set in InstructionSet::available() {
                let ab = reduce(set, op, dtype, &a, &b);
                prop_assert_eq!(&ab, &reduce(set, op, dtype, &b, &a), "{} {} {}", set, op, dtype);
                if op.order_independent(dtype) {
                    let bc = reduce(set, op, dtype, &b, &c);
                    let (left, right) = (reduce(set, op, dtype, &ab, &c), reduce(set, op, dtype, &a, &bc));
                    prop_assert_eq!(left, right, "{} {} {}", set, op, dtype);
                }
            }
        }
    }

    /// Without the scalar twin: the reference is the half crate's own operators.
    #[test]
    fn halves_round_once_from_single(pairs in prop::collection::vec(any::<(u16, u16)>(), 0..200)) {
        macro_rules! check {
            ($t:ident, $dtype:expr) => {
                let bytes = |side: fn(&(u16, u16)) -> u16| -> Vec<u8> {
                    pairs.iter().flat_map(|pair| side(pair).to_ne_bytes()).collect()
                };
                let (a, b) = (bytes(|pair| pair.0), bytes(|pair| pair.1));
                for set in InstructionSet::available() {
                    let sum = reduce(set, ReduceOp::Sum, $dtype, &a, &b);
                    let product = reduce(set, ReduceOp::Product, $dtype, &a, &b);
                    for (i, (x, y)) in pairs.iter().enumerate() {
                        let (x, y) = ($t::from_bits(*x), $t::from_bits(*y));
                        let at = |bytes: &[u8]| $t::from_ne_bytes([bytes[2 * i], bytes[2 * i + 1]]);
                        let same = |got: $t, want: $t| {
                            got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan()
                        };
                        prop_assert!(same(at(&sum), x + y), "{set}: {x} + {y} gave {}", at(&sum));
                        prop_assert!(same(at(&product), x * y), "{set}: {x} * {y} gave {}", at(&product));
                    }
                }
            };
        }
        check!(f16, DType::F16);
        check!(bf16, DType::BF16);
    }
}

/// Widens and narrows every 16-bit pattern.
#[test]
fn scaling_by_one_changes_no_half() {
    let patterns = || (0..=u16::MAX).step_by(if cfg!(miri) { 97 } else { 1 });
    let all: Vec<u8> = patterns().flat_map(u16::to_ne_bytes).collect();
    for set in InstructionSet::available() {
        for (dtype, is_nan) in [
            (DType::F16, (|bits| f16::from_bits(bits).is_nan()) as fn(u16) -> bool),
            (DType::BF16, |bits| bf16::from_bits(bits).is_nan()),
        ] {
            let scaled = run(&all, &all, Alias::Disjoint, [0; 3], |dst, src, _| {
                // SAFETY: `run` gives these elements of two bytes.
                unsafe { set.scale(dtype, dst, src, 1.0, all.len() / 2) }
            });
            for (bits, pair) in patterns().zip(scaled.chunks_exact(2)) {
                let got = u16::from_ne_bytes([pair[0], pair[1]]);
                assert!(got == bits || is_nan(got) && is_nan(bits), "{set} {dtype} {bits:#x}");
            }
        }
    }
}

/// Bytes with spare room around them, at an offset from the beginning of a cache line.
struct Room {
    bytes: Vec<u8>,
    from: usize,
    length: usize,
}

impl Room {
    fn new(content: &[u8], offset: usize) -> Self {
        let mut bytes = vec![0xa5; content.len() + offset + 128];
        let from = 64 - bytes.as_ptr().addr() % 64 + offset;
        bytes[from..from + content.len()].copy_from_slice(content);
        Self { bytes, from, length: content.len() }
    }

    fn at(&mut self) -> *mut u8 {
        self.bytes[self.from..].as_mut_ptr()
    }

    /// The content, after a check that no byte around it was changed.
    fn content(&self) -> &[u8] {
        let (before, rest) = self.bytes.split_at(self.from);
        let (content, after) = rest.split_at(self.length);
        assert!(before.iter().chain(after).all(|byte| *byte == 0xa5), "wrote outside the target");
        content
    }
}

/// Combines `sources` with every instruction set, into a target of its own and into some of the sources, and also to
/// another place with every kind of stores.
fn check_combine(op: ReduceOp, dtype: DType, sources: &[Vec<u8>]) {
    let (elements, k) = (sources[0].len() / dtype.size(), sources.len());
    let mut expected = sources[0].clone();
    for source in &sources[1..] {
        let left = expected.clone();
        scalar::reduce(op, dtype, &mut expected, &left, source).unwrap();
    }
    let mut places = vec![None, Some(0), Some(k / 2), Some(k - 1)];
    places.dedup();
    for (case, place) in places.into_iter().enumerate() {
        // Elements that fit evenly in cache lines, elements that do not, and whole lines.
        let shift = [dtype.size(), 1, 0, 37][(case + k + elements) % 4];
        for (set, stores) in InstructionSet::available()
            .into_iter()
            .flat_map(|set| [None, Some(Stores::Plain), Some(Stores::Streaming)].map(|stores| (set, stores)))
        {
            let mut rooms: Vec<Room> = sources
                .iter()
                .enumerate()
                .map(|(i, source)| Room::new(source, (i + 1) * shift % 64))
                .collect();
            let spare = vec![0x5a; sources[0].len()];
            rooms.push(Room::new(&spare, shift));
            let mut other = Room::new(&spare, (k + 2) * shift % 64);
            let also = stores.map(|stores| (other.at(), stores));
            let pointers: Vec<*mut u8> = rooms.iter_mut().map(Room::at).collect();
            let target = place.unwrap_or(k);
            let from: Vec<*const u8> = pointers[..k].iter().map(|pointer| pointer.cast_const()).collect();
            // SAFETY: every room holds this many elements, and the target is one of them.
            unsafe { set.combine(op, dtype, pointers[target], &from, elements, also) };
            let context =
                || format!("{set} {op} {dtype} {k} x {elements} into {place:?} by {shift} {stores:?}");
            for (i, room) in rooms.iter().enumerate() {
                let want = if i == target { &expected } else { sources.get(i).unwrap_or(&spare) };
                assert!(room.content() == want, "{}: room {i}", context());
            }
            let want = if also.is_some() { &expected } else { &spare };
            assert!(other.content() == want, "{}: also", context());
        }
    }
}

#[test]
fn combine_equals_a_chain_of_the_scalar_twin_bit_for_bit() {
    let counts = if cfg!(miri) { vec![1, 3] } else { (1..=9).chain([17]).collect() };
    for (op, dtype) in supported() {
        let block = 256 / dtype.size();
        // With a streamed copy of the result, pieces are half as long.
        let piece = 8192 / dtype.size();
        let lengths = if cfg!(miri) {
            vec![0, 9]
        } else {
            vec![0, 1, block - 1, block + 1, piece / 2 + 1, piece, piece + 1, 2 * piece + 37]
        };
        for (k, elements) in counts.iter().flat_map(|k| lengths.iter().map(move |elements| (*k, *elements))) {
            let sources: Vec<_> = (0..k).map(|i| data(dtype, elements, (k * elements + i) as u64)).collect();
            check_combine(op, dtype, &sources);
        }
    }
    // Several pieces.
    let sources: Vec<_> = (0..3).map(|i| data(DType::I64, 1100, i)).collect();
    check_combine(ReduceOp::Sum, DType::I64, &sources);
}

#[test]
fn copy_copies_any_bytes_to_any_address() {
    let lengths = (0..200).chain([4096, 4097, 10_000]).step_by(if cfg!(miri) { 13 } else { 1 });
    for (bytes, (to, from)) in
        lengths.flat_map(|bytes| [(0, 0), (0, 3), (1, 1), (63, 16)].map(|at| (bytes, at)))
    {
        let content = data(DType::U8, bytes, bytes as u64);
        for (set, stores) in InstructionSet::available()
            .into_iter()
            .flat_map(|set| [(set, Stores::Plain), (set, Stores::Streaming)])
        {
            let (mut source, mut target) = (Room::new(&content, from), Room::new(&vec![0; bytes], to));
            // SAFETY: both rooms hold this many bytes; a copy onto itself is allowed.
            unsafe {
                set.copy(target.at(), source.at(), bytes, stores);
                let itself = source.at();
                set.copy(itself, itself, bytes, stores);
            }
            assert!(target.content() == content, "{set} {bytes} {to} {from} {stores:?}");
            assert!(source.content() == content, "{set} {bytes} {to} {from} {stores:?}");
        }
    }
}

#[test]
fn edges_are_numpys() {
    let one = |op, dtype, a: &[u8], b: &[u8]| reduce(InstructionSet::best(), op, dtype, a, b);
    let single = |op, a: f32, b: f32| {
        let bytes = one(op, DType::F32, &a.to_ne_bytes(), &b.to_ne_bytes());
        u32::from_ne_bytes(bytes.try_into().unwrap())
    };
    assert_eq!(one(ReduceOp::Sum, DType::I8, &[127], &[1]), [128]);
    assert_eq!(one(ReduceOp::Product, DType::U8, &[16], &[17]), [16]);
    assert_eq!(one(ReduceOp::Sum, DType::Bool, &[1, 2, 0], &[1, 0, 0]), [1, 1, 0]);
    assert_eq!(one(ReduceOp::Product, DType::Bool, &[1, 2, 1], &[1, 4, 0]), [1, 1, 0]);
    assert_eq!(one(ReduceOp::Bxor, DType::Bool, &[1, 2, 1], &[1, 4, 0]), [0, 0, 1]);
    assert_eq!(single(ReduceOp::Min, 0.0, -0.0), (-0.0f32).to_bits());
    assert_eq!(single(ReduceOp::Max, -0.0, 0.0), 0);
    for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max] {
        assert_eq!(single(op, f32::from_bits(0xffc0_0001), 1.0), 0x7fc0_0000, "{op}");
    }
    // The hardware's own NaN is negative on x86 and positive on Arm.
    assert_eq!(single(ReduceOp::Sum, f32::INFINITY, f32::NEG_INFINITY), 0x7fc0_0000);
}

#[test]
fn unsupported_pairs_are_errors_that_say_what_is_supported() {
    let text = |op: ReduceOp, dtype| op.check(dtype).unwrap_err().to_string();
    assert_eq!(
        text(ReduceOp::PremulSum, DType::I32),
        "premul_sum does not support int32; \
         it supports float16, bfloat16, float32, float64, complex64, complex128"
    );
    assert_eq!(
        text(ReduceOp::Max, DType::Complex64),
        "max does not support complex64; it supports float16, bfloat16, float32, float64, \
         int8, uint8, int16, int32, int64, bool, uint16, uint32, uint64"
    );
    let ops = ReduceOp::ALL.into_iter();
    for (op, dtype) in ops.flat_map(|op| DType::ALL.map(|dtype| (op, dtype))) {
        let mut bytes = [0u8; 16];
        let size = dtype.size();
        let twin = scalar::reduce(op, dtype, &mut bytes[..size], &[0; 16][..size], &[0; 16][..size]);
        assert_eq!(twin, op.check(dtype));
        let dst = bytes.as_mut_ptr();
        // SAFETY: one element fits into 16 bytes, and all operands are the same.
        let fast = std::panic::catch_unwind(|| unsafe { kernels::reduce(op, dtype, dst, dst, dst, 1) });
        assert_eq!(fast.is_ok(), op.supports(dtype), "{op} {dtype}");
    }
}

#[test]
fn names_and_codes_are_inverses() {
    for dtype in DType::ALL {
        assert_eq!(dtype.name().parse(), Ok(dtype));
        assert_eq!(DType::from_code(dtype.code()), Some(dtype));
    }
    assert_eq!((DType::from_code(15), DType::from_code(16)), (Some(DType::OF_BYTES), None));
    for (code, op) in ReduceOp::ALL.into_iter().enumerate() {
        assert_eq!(op.name().parse(), Ok(op));
        assert_eq!(usize::from(op.code()), code);
    }
    assert_eq!(ReduceOp::PremulSum.to_string(), "premul_sum");
    let error = "nothing".parse::<DType>().unwrap_err().to_string();
    assert!(error.starts_with("unknown data type \"nothing\"; expected one of: float16, "), "{error}");
}

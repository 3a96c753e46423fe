//! The oracle of the formats: the same bytes as [`super`], one element at a time. It shares no code with the fast
//! kernels, on purpose. Read it to learn what the bytes mean.
#![forbid(unsafe_code)]

use half::{bf16, f16};
use ringroad_core::Wire;

use super::format::Format;
use crate::kernels::dtype::{DType, ReduceOp};
use crate::kernels::scalar;

/// The bytes of these elements.
pub fn encode(format: impl Into<Format>, dtype: DType, elements: &[u8]) -> Vec<u8> {
    let format = format.into();
    let singles: Vec<f32> = elements.chunks_exact(dtype.size()).map(|bytes| single(dtype, bytes)).collect();
    singles.chunks(Wire::BLOCK).flat_map(|block| record(format, block)).collect()
}

/// The elements of these bytes.
///
/// # Panics
/// If there are not as many bytes as so many elements have.
pub fn decode(wire: Wire, dtype: DType, bytes: &[u8], elements: usize) -> Vec<u8> {
    assert_eq!(bytes.len(), wire.encoded(elements));
    let records = bytes.chunks(wire.record()).enumerate();
    let singles =
        records.flat_map(|(at, record)| block(wire, record, Wire::BLOCK.min(elements - at * Wire::BLOCK)));
    singles.flat_map(|x| element(dtype, x)).collect()
}

/// The sums of `left` and the elements of these bytes.
pub fn decode_add(wire: Wire, dtype: DType, left: &[u8], bytes: &[u8]) -> Vec<u8> {
    let right = decode(wire, dtype, bytes, left.len() / dtype.size());
    let mut sum = vec![0; left.len()];
    scalar::reduce(ReduceOp::Sum, dtype, &mut sum, left, &right).expect("all types have sums");
    sum
}

/// The element of these bytes as a single.
///
/// # Panics
/// If the data type is not encoded.
pub fn single(dtype: DType, bytes: &[u8]) -> f32 {
    match dtype {
        DType::F16 => bytemuck::pod_read_unaligned::<f16>(bytes).to_f32(),
        DType::BF16 => bytemuck::pod_read_unaligned::<bf16>(bytes).to_f32(),
        DType::F32 => bytemuck::pod_read_unaligned(bytes),
        DType::F64 => bytemuck::pod_read_unaligned::<f64>(bytes) as f32,
        other => panic!("{other} is not encoded"),
    }
}

fn element(dtype: DType, x: f32) -> Vec<u8> {
    match dtype {
        DType::F16 => f16::from_f32(x).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f32(x).to_le_bytes().to_vec(),
        DType::F32 => x.to_le_bytes().to_vec(),
        DType::F64 => f64::from(x).to_le_bytes().to_vec(),
        other => panic!("{other} is not encoded"),
    }
}

/// What a scaled code can be, from 0 upwards: its number by its code.
fn grid(wire: Wire) -> Vec<f32> {
    match wire {
        Wire::Int8 => (0..=127).map(|code| code as f32).collect(),
        Wire::Int4 => (0..=7).map(|code| code as f32).collect(),
        Wire::Fp8 => (0..=126).map(e4m3).collect(),
        Wire::Bf16 | Wire::F16 => unreachable!("it has no scale"),
    }
}

/// 4 bits of exponent, with the bias of half precision, and 3 of mantissa.
fn e4m3(code: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(code >> 3), f32::from(code & 7));
    match exponent {
        0 => mantissa * 2f32.powi(-17),
        _ => (8.0 + mantissa) * 2f32.powi(exponent - 18),
    }
}

/// The code of the nearest number of the grid, among equally near ones of the even code.
fn nearest(grid: &[f32], x: f32) -> u8 {
    let above = grid.partition_point(|number| *number < x.abs()).min(grid.len() - 1);
    let below = above.saturating_sub(1);
    let (up, down) =
        (f64::from(grid[above]) - f64::from(x.abs()), f64::from(x.abs()) - f64::from(grid[below]));
    let code = match down.partial_cmp(&up) {
        Some(std::cmp::Ordering::Less) => below,
        Some(std::cmp::Ordering::Greater) => above,
        _ if below % 2 == 0 => below,
        _ => above,
    };
    code as u8
}

/// The bits of a code with a sign.
fn signed(wire: Wire, code: u8, negative: bool) -> u8 {
    match wire {
        Wire::Fp8 => code | u8::from(negative) << 7,
        Wire::Int4 => (if negative { code.wrapping_neg() } else { code }) & 15,
        _ => {
            if negative {
                code.wrapping_neg()
            } else {
                code
            }
        }
    }
}

/// The codes of NaN, +inf and -inf in a block that has such numbers.
fn others(wire: Wire) -> [u8; 3] {
    match wire {
        Wire::Int8 => [0x80, 127, 0x81],
        Wire::Int4 => [8, 7, 9],
        _ => [0x7f, 0x7e, 0xfe],
    }
}

/// What is added to an element's code before it is rounded: from -1/2 to 1/2, as good as at random.
fn dither(seed: u32, element: usize, x: f32) -> f32 {
    let key = seed.wrapping_mul(0x27d4_eb2d).wrapping_add((element as u32).wrapping_mul(0x9e37_79b9));
    let mixed = (x.to_bits() ^ key).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ mixed >> 15).wrapping_mul(0xc2b2_ae35);
    ((mixed >> 25) as f32 - 63.5) / 128.0
}

fn record(Format { wire, seed }: Format, block: &[f32]) -> Vec<u8> {
    let halves: Option<fn(&f32) -> u16> = match wire {
        Wire::Bf16 => Some(|x| bf16::from_f32(*x).to_bits()),
        Wire::F16 => Some(|x| f16::from_f32(*x).to_bits()),
        _ => None,
    };
    if let Some(halves) = halves {
        return written(wire, &block.iter().map(halves).collect::<Vec<_>>());
    }
    let all_finite = block.iter().all(|x| x.is_finite());
    let mut grid = grid(wire);
    if !all_finite {
        grid.pop();
    }
    let largest = *grid.last().expect("it has numbers");
    let top = block.iter().filter(|x| x.is_finite()).fold(0f32, |top, x| top.max(x.abs()));
    // Upwards to 17 significant bits, but not so far that the largest product would be infinite.
    let up = |x: f32| x.to_bits().div_ceil(128) * 128;
    let down = |x: f32| x.to_bits() / 128 * 128;
    let least = 2f32.powi(if wire == Wire::Fp8 { -109 } else { -126 });
    let scale = f32::from_bits(up(top / largest).min(down(f32::MAX / largest))).max(least);
    let divided = |x: f32| match x * (1.0 / scale) {
        number if wire == Wire::Fp8 => f16::from_f32(number).to_f32(),
        number => number,
    };
    let [nan, plus, minus] = others(wire);
    let code = |(element, x): (usize, &f32)| match x {
        x if x.is_nan() => nan,
        x if *x == f32::INFINITY => plus,
        x if *x == f32::NEG_INFINITY => minus,
        x => {
            let number = divided(*x) + seed.map_or(0.0, |seed| dither(seed, element, *x));
            let negative = if seed.is_some() { number < 0.0 } else { x.is_sign_negative() };
            signed(wire, nearest(&grid, number), negative)
        }
    };
    let codes: Vec<u16> = block.iter().enumerate().map(|numbered| code(numbered).into()).collect();
    let scale = if all_finite { scale } else { -scale };
    [&scale.to_le_bytes()[..], &written(wire, &codes)].concat()
}

/// The bits of a code.
fn bits(wire: Wire) -> usize {
    8 * wire.codes(Wire::BLOCK) / Wire::BLOCK
}

/// Codes in their order, from the lowest bits of the first byte on.
fn written(wire: Wire, codes: &[u16]) -> Vec<u8> {
    let mut bytes = vec![0; wire.codes(codes.len())];
    for (element, code) in codes.iter().enumerate() {
        for bit in 0..bits(wire) {
            let place = element * bits(wire) + bit;
            bytes[place / 8] |= ((code >> bit & 1) as u8) << (place % 8);
        }
    }
    bytes
}

fn read(wire: Wire, bytes: &[u8], element: usize) -> u16 {
    let place = |bit: usize| element * bits(wire) + bit;
    let bit = |bit: usize| u16::from(bytes[place(bit) / 8] >> (place(bit) % 8) & 1) << bit;
    (0..bits(wire)).map(bit).sum()
}

fn block(wire: Wire, record: &[u8], elements: usize) -> Vec<f32> {
    let half = |at| read(wire, record, at);
    match wire {
        Wire::Bf16 => return (0..elements).map(|at| bf16::from_bits(half(at)).to_f32()).collect(),
        Wire::F16 => return (0..elements).map(|at| f16::from_bits(half(at)).to_f32()).collect(),
        _ => {}
    }
    let (first, rest) = record.split_at(4);
    let scale = f32::from_le_bytes([first[0], first[1], first[2], first[3]]);
    let code = |at: usize| read(wire, rest, at) as u8;
    let number = |code: u8| match wire {
        Wire::Int8 => f32::from(code as i8),
        Wire::Int4 => f32::from(code) - if code < 8 { 0.0 } else { 16.0 },
        _ if code >= 0x80 => -e4m3(code & 0x7f),
        _ => e4m3(code),
    };
    let [nan, plus, minus] = others(wire);
    let value = |at: usize| match code(at) {
        code if scale.is_sign_positive() => number(code) * scale,
        code if code == nan => f32::NAN,
        code if code == plus => f32::INFINITY,
        code if code == minus => f32::NEG_INFINITY,
        code => number(code) * -scale,
    };
    (0..elements).map(value).collect()
}

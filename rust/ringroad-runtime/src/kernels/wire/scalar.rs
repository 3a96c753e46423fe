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
    let numbers: Vec<f64> = elements.chunks_exact(dtype.size()).map(|bytes| number(dtype, bytes)).collect();
    numbers.chunks(Wire::BLOCK).flat_map(|block| record(format, dtype, block)).collect()
}

/// The elements of these bytes.
///
/// # Panics
/// If there are not as many bytes as so many elements have.
pub fn decode(wire: Wire, dtype: DType, bytes: &[u8], elements: usize) -> Vec<u8> {
    assert_eq!(bytes.len(), wire.encoded(elements));
    let records = bytes.chunks(wire.record()).enumerate();
    let numbers =
        records.flat_map(|(at, record)| block(wire, record, Wire::BLOCK.min(elements - at * Wire::BLOCK)));
    numbers.flat_map(|x| element(dtype, x)).collect()
}

/// The sums of `left` and the elements of these bytes.
pub fn decode_add(wire: Wire, dtype: DType, left: &[u8], bytes: &[u8]) -> Vec<u8> {
    let right = decode(wire, dtype, bytes, left.len() / dtype.size());
    let mut sum = vec![0; left.len()];
    scalar::reduce(ReduceOp::Sum, dtype, &mut sum, left, &right).expect("all types have sums");
    sum
}

/// The element of these bytes.
///
/// # Panics
/// If the data type is not encoded.
pub fn number(dtype: DType, bytes: &[u8]) -> f64 {
    match dtype {
        DType::F16 => bytemuck::pod_read_unaligned::<f16>(bytes).to_f64(),
        DType::BF16 => bytemuck::pod_read_unaligned::<bf16>(bytes).to_f64(),
        DType::F32 => bytemuck::pod_read_unaligned::<f32>(bytes).into(),
        DType::F64 => bytemuck::pod_read_unaligned(bytes),
        other => panic!("{other} is not encoded"),
    }
}

/// All but doubles are rounded to a single first.
fn element(dtype: DType, x: f64) -> Vec<u8> {
    match dtype {
        DType::F16 => f16::from_f32(x as f32).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f32(x as f32).to_le_bytes().to_vec(),
        DType::F32 => (x as f32).to_le_bytes().to_vec(),
        DType::F64 => x.to_le_bytes().to_vec(),
        other => panic!("{other} is not encoded"),
    }
}

/// The smallest magnitude and the largest.
fn range(dtype: DType) -> [f64; 2] {
    match dtype {
        DType::F16 => [f16::from_bits(1).to_f64(), f16::MAX.to_f64()],
        DType::BF16 => [bf16::from_bits(1).to_f64(), bf16::MAX.to_f64()],
        DType::F32 => [f32::from_bits(1), f32::MAX].map(f64::from),
        _ => [f64::from_bits(1), f64::MAX],
    }
}

/// What a scaled code can be, from 0 upwards: its number by its code.
fn grid(wire: Wire) -> Vec<f32> {
    match wire {
        Wire::Int8 => (0..=127).map(|code| code as f32).collect(),
        Wire::Int4 => (0..=7).map(|code| code as f32).collect(),
        Wire::Fp8 => (0..=126).map(e4m3).collect(),
        Wire::F16 => vec![32768.0],
        Wire::Bf16 => unreachable!("it has no scale"),
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

/// A number that is at least 1 and less than 2, and the power of two by which it was divided.
fn parts(mut x: f64) -> (f64, i32) {
    let mut exponent = 0;
    while x >= 2.0 {
        (x, exponent) = (x / 2.0, exponent + 1);
    }
    while x < 1.0 {
        (x, exponent) = (x * 2.0, exponent - 1);
    }
    (x, exponent)
}

/// To 17 significant bits, or for f16 to 11 bits, of which the first one is kept.
fn rounded(wire: Wire, x: f64) -> f64 {
    match wire {
        Wire::F16 if (x * 1024.0).round() == 2048.0 => 2.0,
        Wire::F16 => 1.0,
        _ => (x * 65536.0).round() / 65536.0,
    }
}

/// The scale for a block with this largest magnitude, and by how many powers of 2^24 it was divided. `is_rare`: some
/// numbers are not finite, as singles.
fn scale(wire: Wire, dtype: DType, top: f64, largest: f32, is_rare: bool) -> (f32, i32) {
    let least = 2f32.powi(match wire {
        Wire::Fp8 => -109,
        _ => -125,
    });
    let fits = |scale: f64, most: f64| scale >= f64::from(least) && scale * f64::from(largest) <= most;
    if top == 0.0 {
        return (least, 0);
    }
    let quotient = top as f32 / largest;
    if !is_rare && quotient > 0.0 {
        let (x, exponent) = parts(quotient.into());
        let scale = rounded(wire, x) * 2f64.powi(exponent);
        if fits(scale, f32::MAX.into()) {
            return (scale as f32, 0);
        }
    }
    let (top, away) = parts(top);
    let (x, exponent) = parts(top / f64::from(largest));
    let times = |x: f64, exponent: i32| x * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
    let [_, most] = range(dtype);
    let mut mantissa = rounded(wire, x);
    if times(mantissa * f64::from(largest), exponent + away) > most {
        mantissa = if wire == Wire::F16 { 1.0 } else { (x * 65536.0).floor() / 65536.0 };
    }
    let (mantissa, carried) = parts(mantissa);
    let exponent = exponent + carried + away;
    if fits(times(mantissa, exponent), f32::MAX.into()) {
        return (times(mantissa, exponent) as f32, 0);
    }
    ((mantissa * 2f64.powi(exponent.rem_euclid(24))) as f32, exponent.div_euclid(24))
}

fn record(Format { wire, seed }: Format, dtype: DType, block: &[f64]) -> Vec<u8> {
    if wire == Wire::Bf16 {
        let codes: Vec<u16> = block.iter().map(|x| bf16::from_f32(*x as f32).to_bits()).collect();
        return written(wire, &codes);
    }
    let all_finite = block.iter().all(|x| x.is_finite());
    let is_rare = block.iter().any(|x| !(*x as f32).is_finite());
    let mut grid = grid(wire);
    if !all_finite && wire != Wire::F16 {
        grid.pop();
    }
    let largest = *grid.last().expect("it has numbers");
    let top = block.iter().filter(|x| x.is_finite()).fold(0f64, |top, x| top.max(x.abs()));
    let (scale, shift) = scale(wire, dtype, top, largest, is_rare);
    let [least, _] = range(dtype);
    // Where a scale has fewer bits, codes are not exactly numbers of the type, and are not rounded at random.
    let is_exact = moved(f64::from(scale), shift) >= least * 65536.0;
    let seed = seed.filter(|_| is_exact);
    let [nan, plus, minus] = others(wire);
    let code = |(element, x): (usize, &f64)| -> u16 {
        let single = moved(*x, -shift) as f32;
        let number = single * (1.0 / scale);
        match x {
            x if wire == Wire::F16 && x.is_nan() => f16::NAN.to_bits(),
            x if wire == Wire::F16 && x.is_finite() => {
                f16::from_f32(number.clamp(-65504.0, 65504.0)).to_bits()
            }
            _ if wire == Wire::F16 => f16::from_f32(number).to_bits(),
            x if x.is_nan() => nan.into(),
            x if *x == f64::INFINITY => plus.into(),
            x if *x == f64::NEG_INFINITY => minus.into(),
            x => {
                let number = if wire == Wire::Fp8 { f16::from_f32(number).to_f32() } else { number };
                let number = number + seed.map_or(0.0, |seed| dither(seed, element, single));
                let negative = if seed.is_some() { number < 0.0 } else { x.is_sign_negative() };
                signed(wire, nearest(&grid, number), negative).into()
            }
        }
    };
    let codes: Vec<u16> = block.iter().enumerate().map(code).collect();
    let sign = u32::from(!all_finite && wire != Wire::F16) << 31;
    let scale = scale.to_bits() | sign | shift as u32 & 0x7f;
    [&scale.to_le_bytes()[..], &written(wire, &codes)].concat()
}

/// Times a power of 2^24.
fn moved(x: f64, shift: i32) -> f64 {
    x * 2f64.powi(12 * shift) * 2f64.powi(12 * shift)
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

fn block(wire: Wire, record: &[u8], elements: usize) -> Vec<f64> {
    if wire == Wire::Bf16 {
        return (0..elements).map(|at| bf16::from_bits(read(wire, record, at)).to_f64()).collect();
    }
    let (first, rest) = record.split_at(4);
    let first = u32::from_le_bytes([first[0], first[1], first[2], first[3]]);
    let (is_finite, scale) = (first >> 31 == 0, f32::from_bits(first & 0x7fff_ff80));
    let shift = (first & 0x7f) as i32 - if first & 0x40 == 0 { 0 } else { 0x80 };
    let number = |code: u16| match wire {
        Wire::F16 => f16::from_bits(code).to_f32(),
        Wire::Int8 => f32::from(code as i8),
        Wire::Int4 => f32::from(code) - if code < 8 { 0.0 } else { 16.0 },
        _ if code >= 0x80 => -e4m3(code as u8 & 0x7f),
        _ => e4m3(code as u8),
    };
    let others = others(wire).map(u16::from);
    let value = |at: usize| match read(wire, rest, at) {
        code if !is_finite && wire != Wire::F16 && others.contains(&code) => match code {
            code if code == others[0] => f64::NAN,
            code if code == others[1] => f64::INFINITY,
            _ => f64::NEG_INFINITY,
        },
        code => moved(f64::from(number(code) * scale), shift),
    };
    (0..elements).map(value).collect()
}

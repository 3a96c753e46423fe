//! The oracle: computes the same results as [`super`], one element at a time, from safe slices and the crates' own
//! arithmetic.
//!
//! It shares no code with the fast kernels, on purpose. Read it to learn how an operation is defined.
#![forbid(unsafe_code)]

use crate::kernels::dtype::{DType, ReduceOp, Unsupported};
use bytemuck::Pod;
use half::{bf16, f16};
use num_complex::Complex;

/// `dst[i] = a[i] op b[i]`; `Avg` and `PremulSum` combine as `Sum`.
///
/// # Panics
/// If the slices differ in length.
pub fn reduce(op: ReduceOp, dtype: DType, dst: &mut [u8], a: &[u8], b: &[u8]) -> Result<(), Unsupported> {
    op.check(dtype)?;
    macro_rules! integer {
        ($t:ty) => {
            zip(dst, a, b, |x: $t, y: $t| match op {
                ReduceOp::Sum => x.wrapping_add(y),
                ReduceOp::Product => x.wrapping_mul(y),
                ReduceOp::Min => x.min(y),
                ReduceOp::Max => x.max(y),
                ReduceOp::Band => x & y,
                ReduceOp::Bor => x | y,
                ReduceOp::Bxor => x ^ y,
                ReduceOp::Avg | ReduceOp::PremulSum | ReduceOp::Own(_) => unreachable!("checked"),
            })
        };
    }
    match dtype {
        DType::I8 => integer!(i8),
        DType::U8 => integer!(u8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::U16 => integer!(u16),
        DType::U32 => integer!(u32),
        DType::U64 => integer!(u64),
        DType::Bool => zip(dst, a, b, |x: u8, y: u8| logic(op, x != 0, y != 0) as u8),
        DType::F32 => zip(dst, a, b, |x, y| single(op, x, y)),
        DType::F64 => zip(dst, a, b, |x, y| double(op, x, y)),
        DType::F16 => zip(dst, a, b, |x: f16, y: f16| f16::from_f32(single(op, x.to_f32(), y.to_f32()))),
        DType::BF16 => zip(dst, a, b, |x: bf16, y: bf16| bf16::from_f32(single(op, x.to_f32(), y.to_f32()))),
        DType::Complex64 => zip(dst, a, b, |x: Complex<f32>, y: Complex<f32>| {
            let z = if op == ReduceOp::Product { x * y } else { x + y };
            Complex::new(canonical32(z.re), canonical32(z.im))
        }),
        DType::Complex128 => zip(dst, a, b, |x: Complex<f64>, y: Complex<f64>| {
            let z = if op == ReduceOp::Product { x * y } else { x + y };
            Complex::new(canonical64(z.re), canonical64(z.im))
        }),
        DType::Opaque(_) => unreachable!("kernels combine no such type"),
    }
    Ok(())
}

/// `dst[i] = src[i] * factor`, for floats and complex.
///
/// # Panics
/// If the slices differ in length.
pub fn scale(dtype: DType, dst: &mut [u8], src: &[u8], factor: f64) -> Result<(), Unsupported> {
    ReduceOp::PremulSum.check(dtype)?;
    map(dtype, dst, src, |x| x * factor as f32, |x| x * factor);
    Ok(())
}

/// `dst[i] = src[i] / divisor`, for floats and complex.
///
/// # Panics
/// If the slices differ in length.
pub fn divide(dtype: DType, dst: &mut [u8], src: &[u8], divisor: u32) -> Result<(), Unsupported> {
    ReduceOp::Avg.check(dtype)?;
    map(dtype, dst, src, |x| x / divisor as f32, |x| x / f64::from(divisor));
    Ok(())
}

fn map(
    dtype: DType,
    dst: &mut [u8],
    src: &[u8],
    in_single: impl Fn(f32) -> f32,
    in_double: impl Fn(f64) -> f64,
) {
    let single = |x| canonical32(in_single(x));
    let double = |x| canonical64(in_double(x));
    match dtype {
        DType::F16 => zip(dst, src, src, |x: f16, _| f16::from_f32(single(x.to_f32()))),
        DType::BF16 => zip(dst, src, src, |x: bf16, _| bf16::from_f32(single(x.to_f32()))),
        DType::F32 | DType::Complex64 => zip(dst, src, src, |x, _| single(x)),
        DType::F64 | DType::Complex128 => zip(dst, src, src, |x, _| double(x)),
        _ => unreachable!("checked"),
    }
}

fn zip<T: Pod>(dst: &mut [u8], a: &[u8], b: &[u8], f: impl Fn(T, T) -> T) {
    assert!(dst.len() == a.len() && a.len() == b.len(), "operands differ in length");
    let size = size_of::<T>();
    let operands = a.chunks_exact(size).zip(b.chunks_exact(size));
    for (to, (x, y)) in dst.chunks_exact_mut(size).zip(operands) {
        let z = f(bytemuck::pod_read_unaligned(x), bytemuck::pod_read_unaligned(y));
        to.copy_from_slice(bytemuck::bytes_of(&z));
    }
}

fn logic(op: ReduceOp, x: bool, y: bool) -> bool {
    match op {
        ReduceOp::Sum | ReduceOp::Max | ReduceOp::Bor => x || y,
        ReduceOp::Product | ReduceOp::Min | ReduceOp::Band => x && y,
        ReduceOp::Bxor => x != y,
        ReduceOp::Avg | ReduceOp::PremulSum | ReduceOp::Own(_) => unreachable!("checked"),
    }
}

macro_rules! float {
    ($name:ident, $t:ident, $canonical:ident, $quiet:literal) => {
        fn $name(op: ReduceOp, x: $t, y: $t) -> $t {
            $canonical(match op {
                ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum => x + y,
                ReduceOp::Product => x * y,
                _ if x.is_nan() || y.is_nan() => $t::NAN,
                // The total order puts -0 below +0.
                ReduceOp::Min => {
                    if x.total_cmp(&y).is_le() {
                        x
                    } else {
                        y
                    }
                }
                ReduceOp::Max => {
                    if x.total_cmp(&y).is_ge() {
                        x
                    } else {
                        y
                    }
                }
                ReduceOp::Band | ReduceOp::Bor | ReduceOp::Bxor | ReduceOp::Own(_) => unreachable!("checked"),
            })
        }

        fn $canonical(x: $t) -> $t {
            if x.is_nan() {
                $t::from_bits($quiet)
            } else {
                x
            }
        }
    };
}
float!(single, f32, canonical32, 0x7fc0_0000);
float!(double, f64, canonical64, 0x7ff8_0000_0000_0000);

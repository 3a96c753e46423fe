//! Reductions and scalings on raw bytes: `dst[i] = a[i] op b[i]` for every [`DType`] and [`ReduceOp`].
//!
//! The fast code is generic: element types define how bytes become lanes, operations define what two lanes become,
//! and one loop joins them. It is compiled for each instruction set, and the version is chosen at run time.
//! [`scalar`] is the slow twin that the tests compare it with.
//!
//! Properties that ranks rely on:
//! - **Commutative bit for bit.** `reduce(a, b)` equals `reduce(b, a)` for every operation and every input. A result
//!   that is NaN is the one canonical quiet NaN (hardware would keep the first operand's payload).
//! - Integers wrap. Minimum and maximum propagate NaN and put -0 below +0.
//! - f16 and bf16 compute in f32 and round once, to nearest even.
//! - [`combine`] gives for any number of operands bit for bit the same result as a chain of `reduce`.
//! - `Avg` and `PremulSum` combine as `Sum`; the caller divides at the end ([`divide`]) or multiplies first
//!   ([`scale`]).
//!
//! ```
//! use ringroad_runtime::kernels::dtype::{DType, ReduceOp};
//! use ringroad_runtime::kernels;
//!
//! let mut total = [1.0f32, 2.0, 3.0];
//! let received = [10.0f32, 20.0, 30.0];
//! let dst = total.as_mut_ptr().cast::<u8>();
//! // SAFETY: both arrays hold three floats, and dst is one of the operands exactly.
//! unsafe { kernels::reduce(ReduceOp::Avg, DType::F32, dst, dst, received.as_ptr().cast(), 3) };
//! // SAFETY: as above.
//! unsafe { kernels::divide(DType::F32, dst, dst, 2, 3) };
//! assert_eq!(total, [5.5, 11.0, 16.5]);
//! ```
#![allow(unsafe_code)]

mod block;
mod combine;
mod copy;
mod digest;
pub mod dtype;
mod element;
mod instruction_set;
mod op;
pub mod scalar;
pub mod wire;

use crate::kernels::dtype::{DType, ReduceOp, Unsupported};
use block::{run, run_abreast};
pub use combine::combine;
pub use copy::{copy, Stores};
pub use digest::digest;
use element::Bool;
pub use instruction_set::InstructionSet;

use half::{bf16, f16};
use num_complex::Complex;
use op::{Add, And, Divide, Max, Min, Mul, Or, Scale, Xor};

/// The most sources that are read side by side: the lines of more would compete for the same places of the
/// first-level cache.
const ABREAST: usize = 8;

/// Sets `dst[i] = a[i] op b[i]` for `elements` elements. Pointers need no alignment.
///
/// # Panics
/// If the operation does not support the data type: callers check that with [`ReduceOp::check`] while they can still
/// return an error.
///
/// # Safety
/// `a` and `b` must be readable and `dst` writable for `elements * dtype.size()` bytes, none of it written by others
/// meanwhile. `dst` must be `a` exactly, or `b` exactly, or overlap neither.
pub unsafe fn reduce(op: ReduceOp, dtype: DType, dst: *mut u8, a: *const u8, b: *const u8, elements: usize) {
    // SAFETY: the caller's promise.
    unsafe { InstructionSet::best().reduce(op, dtype, dst, a, b, elements) }
}

/// Sets `dst[i] = src[i] * factor`, in f32 for f16, bf16, f32 and complex64 (the factor is rounded to it first).
///
/// # Panics
/// If the data type is neither floating nor complex.
///
/// # Safety
/// As [`reduce`], with `src` for both operands.
pub unsafe fn scale(dtype: DType, dst: *mut u8, src: *const u8, factor: f64, elements: usize) {
    // SAFETY: the caller's promise.
    unsafe { InstructionSet::best().scale(dtype, dst, src, factor, elements) }
}

/// Sets `dst[i] = src[i] / divisor` by a true division, so that an average is exactly what `sum / n` gives.
///
/// # Panics
/// If the data type is neither floating nor complex.
///
/// # Safety
/// As [`reduce`], with `src` for both operands.
pub unsafe fn divide(dtype: DType, dst: *mut u8, src: *const u8, divisor: u32, elements: usize) {
    // SAFETY: the caller's promise.
    unsafe { InstructionSet::best().divide(dtype, dst, src, divisor, elements) }
}

/// The arms for the floating types of an operation on one operand; see [`scale`] and [`divide`].
macro_rules! unary {
    ($set:expr, $op:ident($number:ident), $as_op:expr, $dtype:ident, $dst:ident, $src:ident, $elements:ident) => {{
        macro_rules! go {
            ($element:ty, $lane:ty, $lanes:literal, $count:expr) => {
                // SAFETY: the caller's promise is `run`'s with both operands `src`; a complex number is two floats.
                unsafe {
                    run::<$element, _, $lanes>($set, $op($number as $lane), $dst, $src, $src, $count)
                }
            };
        }
        match $dtype {
            DType::F16 => go!(f16, f32, 32, $elements),
            DType::BF16 => go!(bf16, f32, 32, $elements),
            DType::F32 => go!(f32, f32, 64, $elements),
            DType::F64 => go!(f64, f64, 32, $elements),
            DType::Complex64 => go!(f32, f32, 64, 2 * $elements),
            DType::Complex128 => go!(f64, f64, 32, 2 * $elements),
            _ => unsupported($as_op, $dtype),
        }
    }};
}

impl InstructionSet {
    /// [`reduce`] with this instruction set.
    ///
    /// # Safety
    /// As [`reduce`].
    pub unsafe fn reduce(
        self,
        op: ReduceOp,
        dtype: DType,
        dst: *mut u8,
        a: *const u8,
        b: *const u8,
        elements: usize,
    ) {
        // One arm for each class of type, with the operations that the class has. A complex sum is a sum of twice as
        // many floats. `$lanes` makes a block of 128 or 256 bytes of lanes: enough independent work to hide latency,
        // and few enough registers not to spill.
        macro_rules! go {
            ($element:ty, $op:expr, $lanes:literal, $count:expr) => {
                // SAFETY: the caller's promise is `run`'s; a complex number is two floats, so the bytes are the same.
                unsafe { run::<$element, _, $lanes>(self, $op, dst, a, b, $count) }
            };
        }
        // Wrapping sums and products, and bitwise operations, do not depend on the sign: `$bits` is the signed type.
        macro_rules! integer {
            ($element:ty, $bits:ty, $lanes:literal) => {
                match op {
                    ReduceOp::Sum => go!($bits, Add, $lanes, elements),
                    ReduceOp::Product => go!($bits, Mul, $lanes, elements),
                    ReduceOp::Min => go!($element, Min, $lanes, elements),
                    ReduceOp::Max => go!($element, Max, $lanes, elements),
                    ReduceOp::Band => go!($bits, And, $lanes, elements),
                    ReduceOp::Bor => go!($bits, Or, $lanes, elements),
                    ReduceOp::Bxor => go!($bits, Xor, $lanes, elements),
                    ReduceOp::Avg | ReduceOp::PremulSum | ReduceOp::Own(_) => unsupported(op, dtype),
                }
            };
        }
        macro_rules! float {
            ($element:ty, $lanes:literal) => {
                match op {
                    ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum => {
                        go!($element, Add, $lanes, elements)
                    }
                    ReduceOp::Product => go!($element, Mul, $lanes, elements),
                    ReduceOp::Min => go!($element, Min, $lanes, elements),
                    ReduceOp::Max => go!($element, Max, $lanes, elements),
                    ReduceOp::Band | ReduceOp::Bor | ReduceOp::Bxor | ReduceOp::Own(_) => {
                        unsupported(op, dtype)
                    }
                }
            };
        }
        macro_rules! complex {
            ($part:ty, $lanes:literal) => {
                match op {
                    ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum => {
                        go!($part, Add, $lanes, 2 * elements)
                    }
                    ReduceOp::Product => go!(Complex<$part>, Mul, 16, elements),
                    _ => unsupported(op, dtype),
                }
            };
        }
        match dtype {
            DType::F16 => float!(f16, 32),
            DType::BF16 => float!(bf16, 32),
            DType::F32 => float!(f32, 64),
            DType::F64 => float!(f64, 32),
            DType::I8 => integer!(i8, i8, 128),
            DType::U8 => integer!(u8, i8, 128),
            DType::I16 => integer!(i16, i16, 128),
            DType::U16 => integer!(u16, i16, 128),
            DType::I32 => integer!(i32, i32, 64),
            DType::U32 => integer!(u32, i32, 64),
            DType::I64 => integer!(i64, i64, 32),
            DType::U64 => integer!(u64, i64, 32),
            DType::Complex64 => complex!(f32, 64),
            DType::Complex128 => complex!(f64, 32),
            DType::Bool => match op {
                ReduceOp::Sum | ReduceOp::Max | ReduceOp::Bor => go!(Bool, Or, 128, elements),
                ReduceOp::Product | ReduceOp::Min | ReduceOp::Band => go!(Bool, And, 128, elements),
                ReduceOp::Bxor => go!(Bool, Xor, 128, elements),
                ReduceOp::Avg | ReduceOp::PremulSum | ReduceOp::Own(_) => unsupported(op, dtype),
            },
            DType::Opaque(_) => unsupported(op, dtype),
        }
    }

    /// How many sources are best added side by side, instead of one after the other; see [`run_abreast`].
    fn abreast(op: ReduceOp, dtype: DType) -> usize {
        match (op, dtype) {
            (_, DType::F16 | DType::BF16 | DType::Bool) => 2,
            (ReduceOp::Sum, _) => ABREAST,
            (ReduceOp::Avg | ReduceOp::PremulSum, _) if dtype.is_floating() || dtype.is_complex() => ABREAST,
            _ => 2,
        }
    }

    /// Sets `dst[i] = sources[0][i] + sources[1][i] + ...`, for the types for which [`abreast`](Self::abreast) is
    /// more than 2.
    ///
    /// # Safety
    /// As [`reduce`], for each source; there is at least one.
    unsafe fn sum(self, dtype: DType, dst: *mut u8, sources: &[*const u8], elements: usize) {
        macro_rules! go {
            ($element:ty, $lanes:literal, $count:expr) => {
                // SAFETY: the caller's promise is `run_abreast`'s; a complex number is two floats.
                unsafe { run_abreast::<$element, _, $lanes>(self, Add, dst, sources, $count) }
            };
        }
        match dtype {
            DType::F32 => go!(f32, 64, elements),
            DType::F64 => go!(f64, 32, elements),
            DType::I8 | DType::U8 => go!(i8, 128, elements),
            DType::I16 | DType::U16 => go!(i16, 128, elements),
            DType::I32 | DType::U32 => go!(i32, 64, elements),
            DType::I64 | DType::U64 => go!(i64, 32, elements),
            DType::Complex64 => go!(f32, 64, 2 * elements),
            DType::Complex128 => go!(f64, 32, 2 * elements),
            DType::F16 | DType::BF16 | DType::Bool | DType::Opaque(_) => {
                unreachable!("these are combined two by two, or not at all")
            }
        }
    }

    /// [`scale`] with this instruction set.
    ///
    /// # Safety
    /// As [`scale`].
    pub unsafe fn scale(self, dtype: DType, dst: *mut u8, src: *const u8, factor: f64, elements: usize) {
        unary!(self, Scale(factor), ReduceOp::PremulSum, dtype, dst, src, elements)
    }

    /// [`divide`] with this instruction set.
    ///
    /// # Safety
    /// As [`divide`].
    pub unsafe fn divide(self, dtype: DType, dst: *mut u8, src: *const u8, divisor: u32, elements: usize) {
        unary!(self, Divide(divisor), ReduceOp::Avg, dtype, dst, src, elements)
    }
}

#[cold]
fn unsupported(op: ReduceOp, dtype: DType) -> ! {
    panic!("{}", Unsupported { op, dtype })
}

//! Whole numbers that are added up or multiplied. Python's do not overflow, so these are computed with 128 bits, and each
//! rank that gets a result which int64 cannot hold raises OverflowError. Arrays wrap around, as in NumPy.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyInt;
use ringroad_runtime::{DType, Function, Memory, Opaque, Own, ReduceOp};

/// The type as which such a number is sent.
pub const DTYPE: DType = DType::Opaque(&Opaque { bytes: size_of::<i128>(), name: "int64 (a number)" });

/// Stands for all numbers that int64 cannot hold, and for results that 128 bits cannot.
const BEYOND: i128 = i128::MAX;

/// An operation on such numbers.
#[derive(Debug)]
pub struct Exactly(fn(i128, i128) -> i128);

impl Function for Exactly {
    fn combine(&self, left: Memory, right: Memory) -> Result<Memory, String> {
        Ok(Memory::from_slice(&[self.0(value(&left), value(&right))]))
    }
}

fn add(left: i128, right: i128) -> i128 {
    if left == BEYOND || right == BEYOND {
        return BEYOND;
    }
    left.checked_add(right).unwrap_or(BEYOND)
}

/// Zero times anything is zero, so that the order of factors does not matter.
fn multiply(left: i128, right: i128) -> i128 {
    match (left, right) {
        (0, _) | (_, 0) => 0,
        (BEYOND, _) | (_, BEYOND) => BEYOND,
        _ => left.checked_mul(right).unwrap_or(BEYOND),
    }
}

/// The reduction of such numbers; `None` if `op` cannot overflow, or is not for whole numbers.
pub fn exactly(op: ReduceOp) -> Option<(ReduceOp, Exactly)> {
    match op {
        ReduceOp::Sum => Some((ReduceOp::Own(&Own { name: "sum", commutative: true }), Exactly(add))),
        ReduceOp::Product => {
            Some((ReduceOp::Own(&Own { name: "product", commutative: true }), Exactly(multiply)))
        }
        _ => None,
    }
}

/// Whether `object` is a number of Python's that int64 cannot hold.
pub fn is_beyond(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyInt>() && object.extract::<i64>().is_err()
}

/// The memory of a number that is sent.
pub fn memory(number: &Bound<'_, PyAny>) -> Memory {
    Memory::from_slice(&[number.extract::<i64>().map_or(BEYOND, i128::from)])
}

/// The number in this memory. `what` is the call that has returned it.
pub fn result(memory: &Memory, what: &str) -> PyResult<i64> {
    i64::try_from(value(memory)).map_err(|_| {
        PyOverflowError::new_err(format!(
            "the result of this {what} of whole numbers does not fit int64; pass floats, or arrays, whose results wrap \
             around"
        ))
    })
}

fn value(memory: &Memory) -> i128 {
    memory.to_vec()[0]
}

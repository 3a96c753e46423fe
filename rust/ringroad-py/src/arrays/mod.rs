//! Arrays and tensors of the caller's, the types of their elements, and what computes with them.

#[allow(unsafe_code)]
pub mod array;
pub mod digest;
pub mod interned;
pub mod number;
pub mod operation;
#[allow(unsafe_code)]
pub mod rounding;
#[allow(unsafe_code)]
pub mod tensor;

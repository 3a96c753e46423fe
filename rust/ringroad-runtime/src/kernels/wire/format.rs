//! Which format, and which way of rounding.

use ringroad_core::Wire;

use crate::kernels::dtype::DType;

/// A format, and how elements are rounded to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The format.
    pub wire: Wire,
    /// Where [`dithers`] allows it: of the two numbers next to an element, one is chosen at random, the nearer one more often,
    /// so that errors are 0 on average. The choice depends only on the seed, the element, and its place in the block. What
    /// is a number of the format stays what it is. None: to the nearest number, and to the even one of two.
    pub seed: Option<u32>,
}

impl From<Wire> for Format {
    fn from(wire: Wire) -> Format {
        Format { wire, seed: None }
    }
}

/// Whether elements of this type can be rounded at random in this format. Those of 16 bits cannot: they are too short to
/// be numbers of the format exactly.
pub const fn dithers(wire: Wire, dtype: DType) -> bool {
    matches!((wire, dtype), (Wire::Int8 | Wire::Int4, DType::F32 | DType::F64))
}

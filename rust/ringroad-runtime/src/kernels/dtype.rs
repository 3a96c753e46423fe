//! The two enums that every layer shares: the type of an element ([`DType`]), and how two elements are combined
//! ([`ReduceOp`]).
//!
//! ```
//! use ringroad_runtime::kernels::dtype::{DType, ReduceOp};
//!
//! let dtype: DType = "bfloat16".parse()?;
//! assert_eq!((dtype, dtype.size()), (DType::BF16, 2));
//! assert!(ReduceOp::Avg.check(dtype).is_ok());
//! assert_eq!(
//!     ReduceOp::Band.check(dtype).unwrap_err().to_string(),
//!     "band does not support bfloat16; it supports int8, uint8, int16, int32, int64, bool, uint16, uint32, uint64"
//! );
//! # Ok::<(), ringroad_runtime::kernels::dtype::UnknownName>(())
//! ```

use std::fmt;
use std::str::FromStr;

use ringroad_core::units::{did_you_mean, nearest};

use crate::error::convert;

/// The type of one element, by NumPy's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// IEEE 754 half precision.
    F16,
    /// The upper half of a single: 8 exponent bits, 7 mantissa bits.
    BF16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// One byte; zero is false, anything else true, and results are 0 or 1.
    Bool,
    /// Two singles: real, imaginary.
    Complex64,
    /// Two doubles: real, imaginary.
    Complex128,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Any other type: its bytes are moved as they are, and only reductions of the caller's own combine them.
    Opaque(&'static Opaque),
}

/// A type that kernels do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opaque {
    /// Bytes of one element; not 0.
    pub bytes: usize,
    /// The name of the type, by which ranks compare their calls.
    pub name: &'static str,
}

impl DType {
    /// Every data type that kernels know, in the order of [`code`](Self::code).
    pub const ALL: [DType; 15] = [
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::Bool,
        DType::Complex64,
        DType::Complex128,
        DType::U16,
        DType::U32,
        DType::U64,
    ];

    /// What the receiver of a message knows of a type that kernels do not know: that it consists of bytes. A receive of
    /// this type takes messages of all such types.
    pub const OF_BYTES: DType = DType::Opaque(&Opaque { bytes: 1, name: "|V1" });

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 | DType::Complex64 => 8,
            DType::Complex128 => 16,
            DType::Opaque(opaque) => opaque.bytes,
        }
    }

    /// NumPy's name (`bfloat16` as torch and ml_dtypes have it).
    pub const fn name(self) -> &'static str {
        match self {
            DType::F16 => "float16",
            DType::BF16 => "bfloat16",
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::I8 => "int8",
            DType::U8 => "uint8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::Bool => "bool",
            DType::Complex64 => "complex64",
            DType::Complex128 => "complex128",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::U64 => "uint64",
            DType::Opaque(opaque) => opaque.name,
        }
    }

    /// Whether arithmetic on it rounds: true for the floats and the complex types.
    pub const fn is_floating(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64) || self.is_complex()
    }

    /// Whether it has a real and an imaginary part (and so no order).
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::Complex64 | DType::Complex128)
    }

    /// Number on the wire. Peers of other versions read it, so a number is never reused.
    pub const fn code(self) -> u8 {
        match self {
            DType::F16 => 0,
            DType::BF16 => 1,
            DType::F32 => 2,
            DType::F64 => 3,
            DType::I8 => 4,
            DType::U8 => 5,
            DType::I16 => 6,
            DType::I32 => 7,
            DType::I64 => 8,
            DType::Bool => 9,
            DType::Complex64 => 10,
            DType::Complex128 => 11,
            DType::U16 => 12,
            DType::U32 => 13,
            DType::U64 => 14,
            DType::Opaque(_) => 15,
        }
    }

    /// The inverse of [`code`](Self::code); types that kernels do not know are [`OF_BYTES`](Self::OF_BYTES).
    pub fn from_code(code: u8) -> Option<DType> {
        Self::ALL.into_iter().chain([Self::OF_BYTES]).find(|dtype| dtype.code() == code)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("data type", name, &Self::ALL, |dtype| dtype.name())
    }
}

/// A reduction of the caller's own, which a [`Function`](crate::calls::function::Function) performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Own {
    /// The name by which ranks compare their calls.
    pub name: &'static str,
    /// Whether the operands may change places without changing a bit of the result. Then any algorithm that leaves all
    /// ranks with the same bits may perform it; otherwise values are combined in the order of the ranks.
    pub commutative: bool,
}

/// How two elements are combined. All operations but one's own are commutative bit for bit (see [`crate::kernels`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Addition. Integers wrap as in NumPy; on bool it is logical or.
    Sum,
    /// The sum, divided by the number of ranks at the end.
    Avg,
    /// Multiplication. Integers wrap; on bool it is logical and.
    Product,
    /// NumPy's `minimum`: the result is NaN if either operand is; -0 is below +0.
    Min,
    /// NumPy's `maximum`: the result is NaN if either operand is; +0 is above -0.
    Max,
    /// Bitwise and.
    Band,
    /// Bitwise or.
    Bor,
    /// Bitwise exclusive or.
    Bxor,
    /// The sum of each rank's data times that rank's factor.
    PremulSum,
    /// A reduction of the caller's own, on any type.
    Own(&'static Own),
}

impl ReduceOp {
    /// Every operation that kernels know, in the order of [`code`](Self::code).
    pub const ALL: [ReduceOp; 9] = [
        ReduceOp::Sum,
        ReduceOp::Avg,
        ReduceOp::Product,
        ReduceOp::Min,
        ReduceOp::Max,
        ReduceOp::Band,
        ReduceOp::Bor,
        ReduceOp::Bxor,
        ReduceOp::PremulSum,
    ];

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Avg => "avg",
            ReduceOp::Product => "product",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::Band => "band",
            ReduceOp::Bor => "bor",
            ReduceOp::Bxor => "bxor",
            ReduceOp::PremulSum => "premul_sum",
            ReduceOp::Own(own) => own.name,
        }
    }

    /// Number on the wire, never reused.
    pub const fn code(self) -> u8 {
        match self {
            ReduceOp::Sum => 0,
            ReduceOp::Avg => 1,
            ReduceOp::Product => 2,
            ReduceOp::Min => 3,
            ReduceOp::Max => 4,
            ReduceOp::Band => 5,
            ReduceOp::Bor => 6,
            ReduceOp::Bxor => 7,
            ReduceOp::PremulSum => 8,
            ReduceOp::Own(_) => 9,
        }
    }

    /// Whether the operation is defined for this data type.
    pub const fn supports(self, dtype: DType) -> bool {
        match self {
            ReduceOp::Own(_) => true,
            _ if matches!(dtype, DType::Opaque(_)) => false,
            ReduceOp::Sum | ReduceOp::Product => true,
            ReduceOp::Min | ReduceOp::Max => !dtype.is_complex(),
            ReduceOp::Avg | ReduceOp::PremulSum => dtype.is_floating(),
            ReduceOp::Band | ReduceOp::Bor | ReduceOp::Bxor => !dtype.is_floating(),
        }
    }

    /// Like [`supports`](Self::supports), but returns an error that says which types are supported.
    pub fn check(self, dtype: DType) -> Result<(), Unsupported> {
        if self.supports(dtype) {
            Ok(())
        } else {
            Err(Unsupported { op: self, dtype })
        }
    }

    /// The factor of this rank's data. The caller must give one for a premultiplied sum, and must not otherwise.
    pub fn factor(self, stated: Option<f64>) -> Result<f64, WrongFactor> {
        match (self, stated) {
            (ReduceOp::PremulSum, Some(factor)) => Ok(factor),
            (ReduceOp::PremulSum, None) => Err(WrongFactor::Missing),
            (_, None) => Ok(1.0),
            (_, Some(_)) => Err(WrongFactor::Meaningless(self)),
        }
    }

    /// Whether the operands may change places.
    pub const fn is_commutative(self) -> bool {
        !matches!(self, ReduceOp::Own(Own { commutative: false, .. }))
    }

    /// Whether every order of combining three or more contributions gives the same bits.
    ///
    /// Wrapping integers and logic are associative. So are minimum and maximum of floats, because NaN and the two
    /// zeros have fixed places. Rounded sums and products are not: ranks get the same result only if all combine in
    /// the same order.
    pub const fn order_independent(self, dtype: DType) -> bool {
        !matches!(self, ReduceOp::Own(_))
            && (!dtype.is_floating() || matches!(self, ReduceOp::Min | ReduceOp::Max))
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ReduceOp {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        find("reduction", name, &Self::ALL, |op| op.name())
    }
}

/// A reduction is not defined for a data type.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{} does not support {dtype}; it supports {}", op.name(), join(DType::ALL.into_iter().filter(|d| op.supports(*d)).map(DType::name)))]
pub struct Unsupported {
    /// The reduction asked for.
    pub op: ReduceOp,
    /// The data type it was asked for.
    pub dtype: DType,
}

/// A factor was given or left out wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongFactor {
    /// The reduction needs a factor.
    #[error("op='premul_sum' needs factor=")]
    Missing,
    /// The reduction takes no factor.
    #[error("factor= goes with op='premul_sum', not {:?}", .0.name())]
    Meaningless(ReduceOp),
}

/// A name that the enum does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {name:?}; {meant}one of: {known}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    meant: String,
    known: String,
}

convert! {
    Unsupported => Type,
    UnknownName => Argument,
    WrongFactor => Argument,
}

fn find<T: Copy>(
    what: &'static str,
    name: &str,
    all: &[T],
    name_of: impl Fn(T) -> &'static str,
) -> Result<T, UnknownName> {
    let found = all.iter().copied().find(|value| name_of(*value) == name);
    found.ok_or_else(|| UnknownName {
        what,
        name: name.to_owned(),
        meant: did_you_mean(nearest(name, all.iter().copied().map(&name_of))),
        known: join(all.iter().copied().map(name_of)),
    })
}

fn join(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

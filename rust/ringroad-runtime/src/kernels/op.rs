//! What two lanes become. All operations are branch-free once compiled, so that the loop around them vectorises.

use num_complex::Complex;

/// An operation on lanes of type `L`. If it uses `x` only, the loop is a map.
pub(super) trait Op<L>: Copy {
    fn apply(self, x: L, y: L) -> L;
}

/// Lanes that can be added and multiplied.
pub(super) trait Arithmetic: Copy {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

/// Lanes with an order.
pub(super) trait Ordered: Copy {
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($lane:ty),*) => {$(
        impl Arithmetic for $lane {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Ordered for $lane {
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
        }
    )*};
}
integer!(i8, u8, i16, u16, i32, u32, i64, u64);

macro_rules! float {
    ($lane:ident, $canonical:literal) => {
        /// `x`, or the canonical NaN if `x` is any NaN: the hardware's NaN depends on the order of the operands.
        #[inline(always)]
        fn $lane(x: $lane) -> $lane {
            $lane::from_bits(if x.is_nan() { $canonical } else { x.to_bits() })
        }

        impl Arithmetic for $lane {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                $lane(self + other)
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                $lane(self * other)
            }
        }

        impl Ordered for $lane {
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let (x, y) = (self.to_bits(), other.to_bits());
                // Equal floats have equal bits or are the two zeros; combined by `or`, these give -0.
                let equal = if self > other { y } else { x | y };
                let ordered = if self < other { x } else { equal };
                let nan = self.is_nan() | other.is_nan();
                $lane::from_bits(if nan { $canonical } else { ordered })
            }

            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let (x, y) = (self.to_bits(), other.to_bits());
                // As in `min`; combined by `and`, the two zeros give +0.
                let equal = if self < other { y } else { x & y };
                let ordered = if self > other { x } else { equal };
                let nan = self.is_nan() | other.is_nan();
                $lane::from_bits(if nan { $canonical } else { ordered })
            }
        }

        impl Arithmetic for Complex<$lane> {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                Complex::new($lane(self.re + other.re), $lane(self.im + other.im))
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                // Not fused: a fused product would depend on the order of the operands.
                let (re, im) =
                    (self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re);
                Complex::new($lane(re), $lane(im))
            }
        }

        impl Op<$lane> for Scale<$lane> {
            #[inline(always)]
            fn apply(self, x: $lane, _: $lane) -> $lane {
                $lane(x * self.0)
            }
        }

        impl Op<$lane> for Divide<$lane> {
            #[inline(always)]
            fn apply(self, x: $lane, _: $lane) -> $lane {
                $lane(x / self.0)
            }
        }
    };
}
float!(f32, 0x7fc0_0000);
float!(f64, 0x7ff8_0000_0000_0000);

/// Multiplication of one operand by a number.
#[derive(Clone, Copy)]
pub(super) struct Scale<L>(pub(super) L);

/// Division of one operand by a number.
#[derive(Clone, Copy)]
pub(super) struct Divide<L>(pub(super) L);

macro_rules! binary {
    ($($op:ident: $bound:path => $apply:expr;)*) => {$(
        #[derive(Clone, Copy)]
        pub(super) struct $op;

        impl<L: $bound> Op<L> for $op {
            #[inline(always)]
            fn apply(self, x: L, y: L) -> L {
                $apply(x, y)
            }
        }
    )*};
}
binary! {
    Add: Arithmetic => Arithmetic::add;
    Mul: Arithmetic => Arithmetic::mul;
    Min: Ordered => Ordered::min;
    Max: Ordered => Ordered::max;
}

macro_rules! bitwise {
    ($($op:ident: $trait:ident => $apply:expr;)*) => {$(
        #[derive(Clone, Copy)]
        pub(super) struct $op;

        impl<L: Copy + std::ops::$trait<Output = L>> Op<L> for $op {
            #[inline(always)]
            fn apply(self, x: L, y: L) -> L {
                $apply(x, y)
            }
        }
    )*};
}
bitwise! {
    And: BitAnd => std::ops::BitAnd::bitand;
    Or: BitOr => std::ops::BitOr::bitor;
    Xor: BitXor => std::ops::BitXor::bitxor;
}

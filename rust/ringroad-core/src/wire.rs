//! Wire formats: how the elements of a floating-point vector are encoded in messages, to send fewer bytes.
//!
//! **Records.** A chunk of a schedule is encoded in records of [`Wire::BLOCK`] elements, counted from the start of the
//! chunk; the last record may be shorter. A record is the block's scale, if the format has one, and then the codes of
//! its elements. So an encoded chunk is a string of bytes whose length follows from the number of elements, any of its
//! records can be decoded alone, and a message may be cut between any two records. Chunks have the same boundaries on
//! all ranks, and so have records.
//!
//! **The rounding Q.** To encode a block and to decode it again rounds it: `Q(x)`. The formats are made such that
//! `Q(Q(x)) = Q(x)` bit for bit. Three rules follow, which hold in every schedule and on every network:
//!
//! 1. A rank that sends a chunk keeps `Q` of its value, if it still needs the value. The receiver copies or adds `Q` of
//!    it. So both sides go on with the same bits, as they do without a format, and algorithms in which two ranks
//!    exchange partial sums stay symmetric.
//! 2. What has arrived and is copied is sent on as the bytes that arrived; it would be encoded as the same bytes.
//! 3. Where several ranks get a chunk of the result, those that neither sent nor received their value replace it by `Q`
//!    of it at the end.
//!
//! Replicas are bit-identical for every schedule of which [`Rounding`](crate::schedule::Rounding) says that they are;
//! it replays the schedule by these rules.
//!
//! **Memory.** Beside its home (see [`crate::plan`]) a chunk that a rank sends or receives has a place in scratch memory
//! for its encoded bytes. Places lie side by side in the order of the chunks, so that a run of chunks is sent without
//! packing. Messages that are added are received in the window, as without a format. The vector itself takes part only
//! element by element: encoding reads the value where it is and writes the rounded one to the home.
//!
//! **The error.** Every rounding moves an element by at most [`Wire::error`] times the largest magnitude of its block.
//! In a sum, a rank's value passes as many roundings as [`Rounding`](crate::schedule::Rounding) counts along the in-tree
//! of its chunk. The largest magnitude of a partial sum is at most the sum of those of its terms, which are values that
//! grew in earlier roundings: by [`Wire::growth`], no more, since formats with a scale represent a block's largest
//! magnitude. That holds from the smallest number of the elements' type to the largest, as scales have the range of the
//! type; only bf16 has no scale, and is not [bounded](Wire::is_bounded). A sum whose terms' magnitudes together are
//! beyond the type's largest number may be infinite, as without a format. So the `j`-th rounding of a rank's value adds to the error at most `error * growth^(j-1)` times the rank's
//! largest magnitude, and the result differs from the exact sum by at most [`Wire::bound`], which adds these up, times the
//! sum of all ranks' largest magnitudes. An average divides both by the number of ranks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::{did_you_mean, nearest};

/// A format of encoded elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wire {
    /// The upper half of a single, rounded: the range of a single, 8 significant bits.
    Bf16,
    /// Half precision, 11 significant bits, and a scale per block.
    F16,
    /// One byte (e4m3: 4 significant bits) per element and a scale per block.
    Fp8,
    /// A whole number from -127 to 127 per element and a scale per block.
    Int8,
    /// A whole number from -7 to 7 per element and a scale per block.
    Int4,
}

impl Wire {
    /// Every format, the most exact one first.
    pub const ALL: [Wire; 5] = [Wire::F16, Wire::Bf16, Wire::Int8, Wire::Fp8, Wire::Int4];

    /// How many elements have a scale, and a record, in common.
    pub const BLOCK: usize = 256;

    /// Lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Wire::Bf16 => "bf16",
            Wire::F16 => "f16",
            Wire::Fp8 => "fp8",
            Wire::Int8 => "int8",
            Wire::Int4 => "int4",
        }
    }

    /// A number that distinguishes formats, from 1 on, never reused.
    pub const fn code(self) -> u8 {
        match self {
            Wire::Bf16 => 1,
            Wire::F16 => 2,
            Wire::Fp8 => 3,
            Wire::Int8 => 4,
            Wire::Int4 => 5,
        }
    }

    /// The bytes of a block's scale, a single; 0 where the format has none.
    pub const fn scale(self) -> usize {
        match self {
            Wire::Bf16 => 0,
            Wire::F16 | Wire::Fp8 | Wire::Int8 | Wire::Int4 => 4,
        }
    }

    /// The bytes of the codes of `elements` elements of one block.
    pub const fn codes(self, elements: usize) -> usize {
        match self {
            Wire::Bf16 | Wire::F16 => 2 * elements,
            Wire::Fp8 | Wire::Int8 => elements,
            Wire::Int4 => elements.div_ceil(2),
        }
    }

    /// The bytes of the record of a whole block.
    pub const fn record(self) -> usize {
        self.scale() + self.codes(Wire::BLOCK)
    }

    /// The bytes of a chunk of so many elements.
    pub const fn encoded(self, elements: usize) -> usize {
        let rest = elements % Wire::BLOCK;
        let last = if rest == 0 { 0 } else { self.scale() + self.codes(rest) };
        elements / Wire::BLOCK * self.record() + last
    }

    /// How many elements of a chunk the records before this place have, which is between two records.
    pub const fn elements_before(self, place: usize) -> usize {
        place / self.record() * Wire::BLOCK
    }

    /// Encoded bytes per byte of a long vector whose elements have `element_bytes` bytes.
    pub fn ratio(self, element_bytes: usize) -> f64 {
        self.record() as f64 / (Wire::BLOCK * element_bytes) as f64
    }

    /// Whether messages get shorter by it, where elements have `element_bytes` bytes. All ranks send them as they are
    /// otherwise.
    pub fn shortens(self, element_bytes: usize) -> bool {
        self.record() < Wire::BLOCK * element_bytes
    }

    /// Whether [`Wire::error`] holds for every finite number of every type. bf16 has the range of singles: magnitudes above
    /// 3.38e38 become infinite, and those below 1.2e-38 lose bits or become 0.
    pub const fn is_bounded(self) -> bool {
        !matches!(self, Wire::Bf16)
    }

    /// The most by which one rounding moves an element of `element_bytes` bytes, as a fraction of the largest finite
    /// magnitude of its block. Where the elements' type has no number there, because the block's magnitudes are small
    /// (below 2^20 times the type's smallest number, or in 16 bits 2^8 times), the element moves to the next one of the
    /// type: by up to half the smallest number more.
    pub const fn error(self, element_bytes: usize) -> f64 {
        // Half of a code's distance to the next, for the largest magnitude, and a little for the rounded scale and for
        // products of singles. In a block with numbers that are not finite, the codes that they have are missing. Before
        // it becomes e4m3, a number is rounded to a half.
        let codes = match self {
            Wire::Bf16 => 1.0 / 256.0,
            Wire::F16 => 1.0 / 2048.0,
            Wire::Fp8 => (16.0 + 1.0 / 8.0) / 416.0,
            Wire::Int8 => 0.5 / 126.0,
            Wire::Int4 => 0.5 / 6.0,
        };
        // What is decoded is rounded to the elements' type, of which a bfloat16 has the fewest bits.
        let elements = if element_bytes == 2 { 1.0 / 256.0 } else { 0.0 };
        codes * (1.0 + 1.0 / 4096.0) + elements
    }

    /// The most by which one rounding multiplies the largest magnitude of a block.
    pub const fn growth(self) -> f64 {
        match self {
            Wire::Bf16 => 1.0 + 1.0 / 256.0,
            Wire::F16 => 1.0 + 1.0 / 2048.0,
            Wire::Fp8 | Wire::Int8 | Wire::Int4 => 1.0 + 1.0 / 65536.0,
        }
    }

    /// The most by which `roundings` roundings in a row move a result, as a fraction of the sum of the ranks' largest
    /// magnitudes.
    pub fn bound(self, roundings: u32, element_bytes: usize) -> f64 {
        (0..roundings).fold(0.0, |bound, _| bound * self.growth() + self.error(element_bytes))
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no wire format has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown wire format {name:?}; {meant}one of: {}", Wire::ALL.map(Wire::name).join(", "))]
pub struct UnknownWire {
    name: String,
    meant: String,
}

impl FromStr for Wire {
    type Err = UnknownWire;

    fn from_str(name: &str) -> Result<Wire, UnknownWire> {
        let found = Wire::ALL.into_iter().find(|wire| wire.name() == name);
        found.ok_or_else(|| UnknownWire {
            name: name.to_owned(),
            meant: did_you_mean(nearest(name, Wire::ALL.into_iter().map(Wire::name))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_add_up_at_every_record() {
        for wire in Wire::ALL {
            assert_eq!(wire.name().parse(), Ok(wire));
            for elements in [0, 1, 2, 255, 256, 257, 511, 512, 100_000] {
                let whole = wire.encoded(elements);
                for record in 0..elements / Wire::BLOCK {
                    let place = record * wire.record();
                    let before = wire.elements_before(place);
                    assert_eq!(wire.encoded(before), place);
                    assert_eq!(place + wire.encoded(elements - before), whole, "{wire} of {elements}");
                }
            }
        }
        assert_eq!(Wire::Int4.encoded(3), 6);
        assert_eq!(
            "int16".parse::<Wire>().unwrap_err().to_string(),
            "unknown wire format \"int16\"; did you mean int4? Expected one of: f16, bf16, int8, fp8, int4"
        );
    }

    #[test]
    fn bounds_grow_with_the_roundings() {
        assert_eq!(Wire::Int8.bound(0, 4), 0.0);
        assert!((Wire::Int8.bound(1, 4) - 0.5 / 126.0).abs() < 1e-6);
        assert!(Wire::Int8.bound(16, 4) > 16.0 * Wire::Int8.error(4));
        assert!(Wire::Int8.bound(16, 4) < 16.01 * Wire::Int8.error(4));
        assert!(Wire::Bf16.bound(16, 8) < 16.6 * Wire::Bf16.error(8));
        assert!(Wire::Int8.bound(1, 2) > 1.0 / 252.0 + 1.0 / 256.0);
    }
}

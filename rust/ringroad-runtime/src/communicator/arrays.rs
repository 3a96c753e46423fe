//! What the shapes of the arrays that a rank passes to a collective say about the call.

use std::borrow::Cow;
use std::sync::Arc;

use ringroad_core::collective::Holding;
use ringroad_core::plan::Counts;
use ringroad_core::{Collective, Rank};

use super::Communicator;
use crate::error::{Error, Result};
use crate::kernels::dtype::DType;

/// What a rank's input says about the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallShape<'a> {
    /// As in [`crate::CallKey::elements`].
    pub elements: usize,
    /// The number of elements of each block, if blocks differ in length.
    pub counts: Option<Arc<[usize]>>,
    /// The shape of the result.
    pub result: Cow<'a, [usize]>,
}

impl CallShape<'_> {
    /// Returns an error if the result, of elements of type `dtype`, does not fit an array of this type and shape: it has as
    /// many elements.
    #[inline]
    pub fn check(&self, dtype: DType, out: (DType, &[usize])) -> Result<()> {
        let (result, (found, shape)) = (&self.result, out);
        if dtype == found && (*shape == **result || volume(shape) == volume(result)) {
            return Ok(());
        }
        Err(Error::Argument(format!(
            "out must be {dtype} of shape {result:?}, or of as many elements, not {found} of shape {shape:?}"
        )))
    }
}

impl Communicator {
    /// Whether this rank has an input, and whether it has an output, in a collective.
    #[inline]
    pub fn takes(&self, collective: Collective) -> Result<[bool; 2]> {
        let (rank, size) = (self.rank(), self.size());
        if let Some(root) = collective.root().filter(|root| *root >= size) {
            return Err(Error::Argument(format!("root {root} is not one of the ranks 0 to {}", size - 1)));
        }
        Ok([collective.input(rank) != Holding::Nothing, collective.output(rank) != Holding::Nothing])
    }

    /// What an input of this shape says. `rows`: the number of rows of each block, if they differ; without blocks, the
    /// lengths of arrays that lie side by side.
    #[inline]
    pub fn given<'a>(
        &self,
        collective: Collective,
        shape: &'a [usize],
        rows: Option<&[usize]>,
    ) -> Result<CallShape<'a>> {
        let (rank, size) = (self.rank(), self.size());
        match rows {
            Some(rows) if collective.has_blocks() => from_rows(collective, rank, size, shape, rows, 0),
            _ => Ok(CallShape { counts: rows.map(Arc::from), ..from_shape(collective, rank, size, shape)? }),
        }
    }

    /// What an output of this shape says, on a rank without an input. `rows` as for [`Communicator::given`].
    pub fn given_by_output<'a>(
        &self,
        collective: Collective,
        shape: &'a [usize],
        rows: Option<&[usize]>,
    ) -> Result<CallShape<'a>> {
        match rows {
            Some(rows) if collective.has_blocks() => {
                from_rows(collective, self.rank(), self.size(), shape, rows, 1)
            }
            _ => {
                let counts = rows.map(Arc::from);
                Ok(CallShape { elements: volume(shape), counts, result: Cow::Borrowed(shape) })
            }
        }
    }

    /// The counts of all pairs as one list, by source, then by target.
    pub fn pairs(&self, counts: &[Vec<i64>]) -> Result<Vec<usize>> {
        let size = self.size();
        let bad = |what: String| {
            Error::Argument(format!("counts must be {size} by {size} whole numbers from 0 on, {what}"))
        };
        if counts.len() != size || counts.iter().any(|row| row.len() != size) {
            let lengths: Vec<usize> = counts.iter().map(Vec::len).collect();
            return Err(bad(format!("by source, then by target, not rows of {lengths:?}")));
        }
        let whole = |(place, count): (usize, &i64)| {
            let (source, target) = (place / size, place % size);
            let error = || bad(format!("but rank {source} has {count} for rank {target}"));
            usize::try_from(*count).map_err(|_| error())
        };
        counts.iter().flatten().enumerate().map(whole).collect()
    }
}

/// The number of elements of an array of this shape.
fn volume(shape: &[usize]) -> usize {
    shape.iter().product()
}

#[inline]
fn from_shape(collective: Collective, rank: Rank, size: usize, shape: &[usize]) -> Result<CallShape<'_>> {
    let elements = volume(shape);
    let (elements, result) = match (collective.input(rank), collective.has_blocks(), shape) {
        (Holding::Whole, true, [first, rest @ ..]) if first % size == 0 => {
            let result = match collective {
                Collective::Alltoall => Cow::Borrowed(shape),
                _ => Cow::Owned([&[first / size], rest].concat()),
            };
            (elements / size, result)
        }
        (Holding::Whole, true, _) => {
            return Err(Error::Argument(format!(
                "{collective} over {size} ranks needs a first axis that is a multiple of {size}; send has shape {shape:?}"
            )));
        }
        (Holding::Block(_), _, [first, rest @ ..]) => {
            (elements, Cow::Owned([&[first * size], rest].concat()))
        }
        (Holding::Block(_), _, []) => (elements, Cow::Owned(vec![size])),
        _ => (elements, Cow::Borrowed(shape)),
    };
    Ok(CallShape { elements, counts: None, result })
}

/// `side`: 0 if the shape is that of the input, 1 for the output.
fn from_rows<'a>(
    collective: Collective,
    rank: Rank,
    size: usize,
    shape: &[usize],
    rows: &[usize],
    side: usize,
) -> Result<CallShape<'a>> {
    let each = Counts::PerBlock(rows);
    if !each.fits(collective, size) {
        let found = rows.len();
        let what = format!("counts must have one number for each of {size} ranks, not {found}");
        return Err(Error::Argument(what));
    }
    let lengths = each.total(collective, size).and(each.lengths(collective, size, rank));
    let lengths = lengths.ok_or_else(|| Error::Argument("the sum of counts is too large".to_owned()))?;
    let (expected, result) = (lengths[side], lengths[1]);
    let of_row = |row: &[usize]| {
        let counts = rows.iter().map(|rows| rows.saturating_mul(volume(row))).collect();
        Ok(CallShape { elements: 0, counts: Some(counts), result: Cow::Owned([&[result], row].concat()) })
    };
    match shape {
        [first, row @ ..] if *first == expected => of_row(row),
        // As MPI has it: so many elements, in any shape.
        shape if volume(shape) == expected => of_row(&[]),
        // An output alone does not tell what a row is, if it has another shape.
        shape if side == 1 && expected > 0 && volume(shape).is_multiple_of(expected) => {
            of_row(&[volume(shape) / expected])
        }
        other => Err(Error::Argument(format!(
            "rank {rank} must pass {expected} rows as counts say, not an array of shape {other:?}"
        ))),
    }
}

//! One call as it is asked for.

use std::sync::Arc;
use std::time::Duration;

use ringroad_core::algorithms::Member;
use ringroad_core::Rank;

use crate::buffer::Memory;
use crate::call::{CallKey, Operation};
use crate::dtype::{DType, ReduceOp};
use crate::error::{Error, Result};

/// One call: what to do, on which memory.
#[derive(Debug)]
pub struct Request {
    /// What.
    pub key: CallKey,
    /// What this rank's data is multiplied by first, in a premultiplied sum. Ranks may well pass different ones.
    pub factor: f64,
    /// This rank's data; not used in place.
    pub input: Memory,
    /// Where the result goes. In place the larger of input and output, with the smaller at its natural place within.
    pub output: Memory,
    /// Instead of the communicator's.
    pub timeout: Option<Duration>,
}

impl Request {
    /// A call on memory, with the communicator's timeout.
    #[inline]
    pub fn of(key: CallKey, input: Memory, output: Memory) -> Request {
        Request { key, factor: 1.0, input, output, timeout: None }
    }

    /// A call out of place with the cheapest algorithm and the communicator's timeout. Sums.
    pub fn new(
        operation: Operation,
        dtype: DType,
        elements: usize,
        input: Memory,
        output: Memory,
    ) -> Request {
        Request::of(CallKey::new(operation, dtype, elements), input, output)
    }

    /// A barrier.
    pub fn barrier() -> Request {
        Request::of(CallKey::barrier(), Memory::nothing(), Memory::zeroed(1))
    }

    /// The same with contributions combined so.
    pub fn reducing(mut self, op: ReduceOp) -> Request {
        self.key.op = op;
        self
    }

    /// The same with input and output in the same memory.
    pub fn in_place(mut self) -> Request {
        self.key.in_place = true;
        self
    }

    /// The same with a certain algorithm.
    pub fn by(mut self, algorithm: Member) -> Request {
        self.key.algorithm = Some(algorithm);
        self
    }

    /// The same with blocks of so many elements each.
    pub fn in_blocks(mut self, counts: impl Into<Arc<[usize]>>) -> Request {
        self.key.counts = Some(counts.into());
        self
    }

    /// Of input and output, in bytes.
    pub(crate) fn lengths(&self) -> [usize; 2] {
        [self.input.region().len(), self.output.region().len()]
    }

    /// The bytes of input and output; an error where the call makes no sense on this one of so many ranks, or where its
    /// memory is longer or shorter.
    pub(crate) fn check(&self, rank: Rank, ranks: usize) -> Result<[usize; 2]> {
        let expected = self.key.lengths(rank, ranks)?;
        for ((what, expected), found) in ["input", "output"].into_iter().zip(expected).zip(self.lengths()) {
            if found != expected {
                return Err(Error::Argument(format!(
                    "this call needs {expected} bytes of {what} on rank {rank}, not {found}"
                )));
            }
        }
        Ok(expected)
    }
}

//! One call, as the user makes it.

use std::sync::Arc;
use std::time::Duration;

use ringroad_core::algorithms::Member;
use ringroad_core::Rank;

use crate::calls::call::{CallKey, Operation, Prepared};
use crate::calls::function::Function;
use crate::error::{Error, Result};
use crate::kernels::dtype::{DType, ReduceOp};
use crate::transport::buffer::Memory;

/// One call: what to do, and on which memory.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub key: CallKey,
    /// The factor of this rank's data in a premultiplied sum. Ranks may pass different factors.
    pub factor: f64,
    /// What performs a reduction of the caller's own, [`ReduceOp::Own`].
    pub function: Option<Arc<dyn Function>>,
    /// This rank's data; not used in place.
    pub input: Memory,
    /// The memory of the result. In place, this is the larger of input and output, and the smaller one lies at its
    /// natural place within.
    pub output: Memory,
    /// Whether a receive also takes a shorter message, which fills the start of the output.
    pub shorter: bool,
    /// The timeout, if it differs from the communicator's.
    pub timeout: Option<Duration>,
    /// The call as [`Communicator::prepare`](crate::Communicator::prepare) has prepared it for this key and memory;
    /// `None` if it is prepared when it starts.
    pub prepared: Option<Arc<Prepared>>,
}

impl Request {
    /// A call on this memory, with the communicator's timeout.
    #[inline]
    pub fn from_key(key: CallKey, input: Memory, output: Memory) -> Request {
        Request {
            key,
            factor: 1.0,
            function: None,
            input,
            output,
            shorter: false,
            timeout: None,
            prepared: None,
        }
    }

    /// A call out of place with the cheapest algorithm and the communicator's timeout. Reductions are sums.
    pub fn new(
        operation: Operation,
        dtype: DType,
        elements: usize,
        input: Memory,
        output: Memory,
    ) -> Request {
        Request::from_key(CallKey::new(operation, dtype, elements), input, output)
    }

    /// A barrier with the communicator's timeout.
    pub fn barrier() -> Request {
        Request::from_key(CallKey::barrier(), Memory::nothing(), Memory::zeroed(1))
    }

    /// The same with this reduction.
    pub fn reducing(mut self, op: ReduceOp) -> Request {
        self.key.op = op;
        self
    }

    /// The same with input and output in the same memory.
    pub fn in_place(mut self) -> Request {
        self.key.in_place = true;
        self
    }

    /// The same, made by ringroad for itself.
    pub(crate) fn internal(mut self) -> Request {
        self.key.internal = true;
        self
    }

    /// The same with this algorithm.
    pub fn by(mut self, algorithm: Member) -> Request {
        self.key.algorithm = Some(algorithm);
        self
    }

    /// The same with blocks of these numbers of elements.
    pub fn in_blocks(mut self, counts: impl Into<Arc<[usize]>>) -> Request {
        self.key.counts = Some(counts.into());
        self
    }

    /// The lengths of input and output in bytes.
    pub(crate) fn lengths(&self) -> [usize; 2] {
        [self.input.region().len(), self.output.region().len()]
    }

    /// The lengths of input and output in bytes. An error if the call is not valid on rank `rank` of `ranks`, or if
    /// the memory has other lengths.
    pub(crate) fn check(&self, rank: Rank, ranks: usize) -> Result<[usize; 2]> {
        let by_own = self.key.reduces() && matches!(self.key.op, ReduceOp::Own(_));
        if by_own != self.function.is_some() {
            let text = "a function goes with a reduction of one's own, and the other way round";
            return Err(Error::Argument(text.to_owned()));
        }
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

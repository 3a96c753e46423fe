//! Reductions of the caller's own. The thread that drives the engine calls them after it has released all locks: they may
//! take long, wait for other calls, and run Python code.

use std::fmt;
use std::sync::Arc;

use crate::transport::buffer::{Memory, Region};
use crate::transport::RequestId;

/// A reduction of the caller's own, for elements of one type.
pub trait Function: fmt::Debug + Send + Sync {
    /// Combines two vectors of equal length, which it must not write. The text of an error is told to all ranks.
    fn combine(&self, left: Memory, right: Memory) -> Result<Memory, String>;
}

/// Vectors that are to be combined for a call in flight.
#[derive(Debug)]
pub(crate) struct FunctionReduction {
    pub request: RequestId,
    pub function: Arc<dyn Function>,
    /// What is held, and then what has come.
    pub sources: Vec<Region>,
    /// Whether what has come is the left operand.
    pub flipped: bool,
}

impl FunctionReduction {
    /// Combines the vectors one after the other.
    pub fn run(self) -> (RequestId, Result<Region, String>) {
        let FunctionReduction { request, function, sources, flipped } = self;
        let combined = sources.into_iter().map(Ok).reduce(|held, value| {
            let (held, value) = (Memory::new(held?), Memory::new(value?));
            let (left, right) = if flipped { (value, held) } else { (held, value) };
            function.combine(left, right).map(Memory::into_region)
        });
        (request, combined.unwrap_or_else(|| Ok(Region::nothing())))
    }
}

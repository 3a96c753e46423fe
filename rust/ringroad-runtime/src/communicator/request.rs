//! One call: what is asked for, and whether it makes sense.

use std::sync::Arc;
use std::time::Duration;

use ringroad_core::collective::Holding;
use ringroad_core::plan::Counts;
use ringroad_core::{algorithms, Collective, Rank};

use crate::buffer::Memory;
use crate::call::Operation;
use crate::dtype::{DType, ReduceOp};
use crate::error::{Error, Result};
use crate::planner::Key;

/// User tags of messages between two ranks are below this.
pub const TAGS: u32 = 1 << 28;

/// One call: what to do, on which memory.
#[derive(Debug)]
pub struct Request {
    /// What.
    pub operation: Operation,
    /// How contributions combine, where they do.
    pub op: ReduceOp,
    /// The elements' type.
    pub dtype: DType,
    /// Elements of the whole vector (allreduce, broadcast, reduce, messages), or of one rank's block (all others).
    pub elements: usize,
    /// Elements of each rank's block where they differ, in an all-to-all of each pair's, by source, then by target;
    /// `elements` does not count then. The same on all ranks.
    pub counts: Option<Arc<[usize]>>,
    /// This rank's data; not used in place.
    pub input: Memory,
    /// Where the result goes. In place the larger of input and output, with the smaller at its natural place within.
    pub output: Memory,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// The algorithm to use instead of the cheapest; the same on all ranks.
    pub algorithm: Option<String>,
    /// Instead of the communicator's.
    pub timeout: Option<Duration>,
}

impl Request {
    /// A call out of place with the cheapest algorithm and the communicator's timeout. Sums.
    pub fn new(
        operation: Operation,
        dtype: DType,
        elements: usize,
        input: Memory,
        output: Memory,
    ) -> Request {
        Request {
            operation,
            op: ReduceOp::Sum,
            dtype,
            elements,
            counts: None,
            input,
            output,
            in_place: false,
            algorithm: None,
            timeout: None,
        }
    }

    /// A barrier: one byte that everybody waits for.
    pub fn barrier() -> Request {
        let byte = Memory::zeroed(1);
        let request = Request::new(Operation::Barrier, DType::U8, 1, Memory::nothing(), byte);
        Request { op: ReduceOp::Bor, in_place: true, ..request }
    }

    fn counts(&self) -> Counts<'_> {
        Counts::of(self.elements, self.counts.as_deref())
    }

    /// Of input and output, in bytes.
    pub(super) fn lengths(&self) -> [usize; 2] {
        [self.input.region().len(), self.output.region().len()]
    }

    /// An error where the call makes no sense on this one of so many ranks.
    pub(super) fn check(&self, rank: Rank, size: usize) -> Result<()> {
        match self.operation {
            Operation::Collective(collective) => {
                if let Some(root) = collective.root().filter(|root| *root >= size) {
                    return Err(Error::Argument(format!("root {root} is not one of the ranks 0..{size}")));
                }
                if collective.reduces() {
                    self.op.check(self.dtype)?;
                }
                self.check_memory(collective, rank, size)
            }
            Operation::Barrier => check_bytes("output", &self.output, 1, rank),
            Operation::Send { peer, tag } | Operation::Receive { peer, tag } => {
                if peer >= size || peer == rank {
                    let what = format!("peer {peer} is not another rank of 0..{size} than this one, {rank}");
                    return Err(Error::Argument(what));
                }
                self.check_message(tag, rank)
            }
            Operation::ReceiveAny { tag } => {
                if size == 1 {
                    return Err(Error::Argument("there is no other rank to receive from".to_owned()));
                }
                self.check_message(tag, rank)
            }
        }
    }

    fn check_message(&self, tag: u32, rank: Rank) -> Result<()> {
        if tag >= TAGS {
            return Err(Error::Argument(format!("tag {tag} is not below {TAGS}")));
        }
        let bytes = self.elements.saturating_mul(self.dtype.size());
        let sends = matches!(self.operation, Operation::Send { .. });
        let (input, output) = if sends { (bytes, 0) } else { (0, bytes) };
        check_bytes("input", &self.input, input, rank)?;
        check_bytes("output", &self.output, output, rank)
    }

    fn check_memory(&self, collective: Collective, rank: Rank, size: usize) -> Result<()> {
        let counts = self.counts();
        if !counts.fits(collective, size) {
            let found = self.counts.as_ref().map_or(0, |counts| counts.len());
            return Err(Error::Argument(format!(
                "{} over {size} ranks takes {}, not {found} counts",
                collective.name(),
                match collective {
                    Collective::Alltoall => "one count for each pair of ranks",
                    _ if collective.has_blocks() => "one count for each rank",
                    _ => "the same count on all ranks",
                },
            )));
        }
        if self.in_place && self.counts.is_some() && collective == Collective::Alltoall {
            let what = "an alltoall whose blocks differ is not performed in place; pass another output";
            return Err(Error::Argument(what.to_owned()));
        }
        let elements = counts.lengths(collective, size, rank).unwrap_or([usize::MAX; 2]);
        let [mut input, mut output] = elements.map(|elements| elements.saturating_mul(self.dtype.size()));
        let (has, gets) = (collective.input(rank), collective.output(rank));
        if self.in_place && has != Holding::Nothing && gets != Holding::Nothing {
            (input, output) = (0, input.max(output));
        }
        check_bytes("input", &self.input, input, rank)?;
        check_bytes("output", &self.output, output, rank)
    }

    /// What is planned for it as this collective. `readable`: whether near ranks can read input and output where they are.
    pub(super) fn key(&self, collective: Collective, readable: (bool, bool)) -> Result<Key> {
        let reduces = collective.reduces();
        let algorithm = match &self.algorithm {
            Some(name) => Some(algorithms::find(name)?),
            None => None,
        };
        Ok(Key {
            collective,
            elements: self.elements,
            counts: self.counts.clone(),
            element_bytes: self.dtype.size(),
            any_order: !reduces || self.op.order_independent(self.dtype),
            in_place: self.in_place,
            readable,
            premultiply: reduces && matches!(self.op, ReduceOp::PremulSum(_)),
            average: reduces && self.op == ReduceOp::Avg,
            algorithm,
        })
    }
}

fn check_bytes(what: &str, memory: &Memory, expected: usize, rank: Rank) -> Result<()> {
    match memory.region().len() {
        found if found == expected => Ok(()),
        found => Err(Error::Argument(format!(
            "this call needs {expected} bytes of {what} on rank {rank}, not {found}"
        ))),
    }
}

//! What a rank believes it is doing: the description that all ranks of a call must agree on.

use std::fmt;
use std::sync::Arc;

use ringroad_core::{Collective, Plan, Rank};

use crate::dtype::{DType, ReduceOp};
use crate::transport::Tag;

/// The rest of the check says how often the sequence numbers have wrapped around.
const DIGEST_BITS: u32 = 18;

/// Tells a message of this call from one that a rank far ahead has sent, whose sequence number is the same.
pub(crate) fn generation(tag: Tag) -> u32 {
    tag.check >> DIGEST_BITS
}

/// The generation of call number `number`.
pub(crate) fn generation_of(number: u64) -> u32 {
    (number / u64::from(Tag::SEQUENCES) % (1 << (20 - DIGEST_BITS))) as u32
}

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A collective on data.
    Collective(Collective),
    /// Nobody leaves before everybody has entered.
    Barrier,
    /// A message to a rank.
    Send {
        /// The receiver.
        peer: Rank,
        /// Pairs it with the receive.
        tag: u32,
    },
    /// A message from a rank.
    Receive {
        /// The sender.
        peer: Rank,
        /// Pairs it with the send.
        tag: u32,
    },
    /// A message from whichever rank sends one first.
    ReceiveAny {
        /// Pairs it with the send.
        tag: u32,
    },
}

impl Operation {
    /// The name users know.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Collective(collective) => collective.name(),
            Operation::Barrier => "barrier",
            Operation::Send { .. } => "send",
            Operation::Receive { .. } | Operation::ReceiveAny { .. } => "recv",
        }
    }
}

/// One call of a communicator.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What is done.
    pub operation: Operation,
    /// How contributions combine.
    pub op: ReduceOp,
    /// The elements' type.
    pub dtype: DType,
    /// How many elements: of the whole vector, or of one rank's block where the collective has blocks.
    pub elements: usize,
    /// Elements of each block where they differ; `elements` is their sum then.
    pub counts: Option<Arc<[usize]>>,
    /// The algorithm that performs it.
    pub algorithm: Arc<str>,
}

/// A call, this rank's part in it, and what stands for it in its messages.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub call: Call,
    /// Of a receive from whoever sends first the one that counts is made when that is known.
    pub plan: Arc<Plan>,
    digest: u32,
}

impl Prepared {
    pub fn new(call: Call, plan: Arc<Plan>) -> Prepared {
        Prepared { digest: call.digest(), call, plan }
    }

    /// For [`Tag::check`]; the upper bits say how often sequence numbers had wrapped around by call `number`.
    pub fn check(&self, number: u64) -> u32 {
        generation_of(number) << DIGEST_BITS | self.digest
    }
}

impl Call {
    /// Calls that ranks must not mix up differ in it (with near certainty).
    fn digest(&self) -> u32 {
        // FNV-1a: the same on every machine and in every version.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut mix = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        };
        let (kind, root) = match self.operation {
            // Sends and receives agree on size and type only.
            Operation::Send { .. } | Operation::Receive { .. } | Operation::ReceiveAny { .. } => {
                ("message", 0)
            }
            Operation::Collective(collective) => (collective.name(), collective.root().unwrap_or(0)),
            Operation::Barrier => ("barrier", 0),
        };
        mix(kind.as_bytes());
        mix(self.algorithm.as_bytes());
        mix(&[self.op.code(), self.dtype.code()]);
        mix(&(self.elements as u64).to_le_bytes());
        for count in self.counts.iter().flat_map(|counts| counts.iter()) {
            mix(&(*count as u64).to_le_bytes());
        }
        mix(&(root as u64).to_le_bytes());
        ((hash ^ hash >> 18 ^ hash >> 36 ^ hash >> 54) % (1 << DIGEST_BITS)) as u32
    }
}

/// For example `allreduce of 10 float32, sum, by ring`.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { operation, op, dtype, elements, counts, algorithm } = self;
        match operation {
            Operation::Barrier => write!(f, "barrier, by {algorithm}"),
            Operation::Send { peer, tag } => {
                write!(f, "send of {elements} {dtype} to rank {peer} (tag {tag})")
            }
            Operation::Receive { peer, tag } => {
                write!(f, "recv of {elements} {dtype} from rank {peer} (tag {tag})")
            }
            Operation::ReceiveAny { tag } => {
                write!(f, "recv of {elements} {dtype} from any rank (tag {tag})")
            }
            Operation::Collective(collective) => {
                write!(f, "{collective} of {elements} {dtype}")?;
                match counts {
                    Some(counts) => write!(f, " in blocks of {}", some_of(counts))?,
                    None if collective.has_blocks() => write!(f, " per rank")?,
                    None => {}
                }
                if collective.reduces() {
                    write!(f, ", {}", op.name())?;
                }
                write!(f, ", by {algorithm}")
            }
        }
    }
}

/// The first counts.
fn some_of(counts: &[usize]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = counts.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if counts.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

//! A call: what distinguishes it from others, and what all ranks must agree on.
//!
//! The tags of its messages carry what they agree on: beside source, kind, sequence and message they have a check, 18
//! bits of digest of what the sender believes the call to be (collective, type, counts, reduction, root, algorithm),
//! and 2 that count how often the sequence has wrapped. A receive matches all but the check, and compares that and
//! the length. So no header is needed in the first message: the check costs nothing, and *every* message is checked.
//! Two different calls have the same digest once in 260,000 pairs.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use ringroad_core::algorithms::Member;
use ringroad_core::collective::Holding;
use ringroad_core::plan::Counts;
use ringroad_core::{Collective, Plan, Rank, Wire};

use crate::error::{Error, Result};
use crate::kernels::dtype::{DType, Opaque, Own, ReduceOp};
use crate::kernels::wire;
use crate::transport::{Subject, Tag};

/// User tags of messages between two ranks are below this.
pub const TAGS: u32 = 1 << 28;

/// No rank: a message to or from it ends at once, and a receive leaves its memory as it is.
pub const PROC_NULL: Rank = Rank::MAX;

/// The number of bits of the check that hold the digest. The others count how often the sequence numbers have wrapped
/// around.
const DIGEST_BITS: u32 = 18;

/// The lowest bits of a message's digest, which hold the number of its type.
const CODE_BITS: u32 = 4;

/// The number of the type of a message that has this check.
pub(crate) fn code_of(check: u32) -> u8 {
    (check % (1 << CODE_BITS)) as u8
}

/// How often sequence numbers had wrapped around in the sender's call. Distinguishes the call from an earlier or
/// later one with the same sequence number.
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
    /// No rank leaves before all ranks have entered.
    Barrier,
    /// A message to a rank.
    Send {
        /// The receiver.
        peer: Rank,
        /// Matches the send with its receive.
        tag: u32,
    },
    /// A message from a rank.
    Receive {
        /// The sender.
        peer: Rank,
        /// Matches the receive with its send.
        tag: u32,
    },
    /// The first message of any rank, or with any tag.
    ReceiveAny {
        /// The sender; `None`: any.
        peer: Option<Rank>,
        /// Matches the receive with its send; `None`: any.
        tag: Option<u32>,
    },
    /// Waits until the first message has come that such a receive would take, and leaves it there.
    Probe {
        /// The sender; `None`: any.
        peer: Option<Rank>,
        /// The tag of the send; `None`: any.
        tag: Option<u32>,
    },
}

impl Operation {
    /// The name that users know.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Collective(collective) => collective.name(),
            Operation::Barrier => "barrier",
            Operation::Send { .. } => "send",
            Operation::Receive { .. } | Operation::ReceiveAny { .. } => "recv",
            Operation::Probe { .. } => "probe",
        }
    }

    /// The operation of this name: a collective, `barrier`, or `send` or `recv` with tag 0. `root` is also the peer
    /// of the latter.
    pub fn named(name: &str, root: Rank) -> Result<Operation> {
        match name {
            "barrier" => Ok(Operation::Barrier),
            "send" | "recv" => Operation::message(name, Some(root), Some(0)),
            _ => Ok(Operation::Collective(name.parse::<Collective>()?.with_root(root))),
        }
    }

    /// A message in this direction, `send` or `recv`. A `recv` without a peer accepts any source, and without a tag any
    /// tag.
    pub fn message(direction: &str, peer: Option<Rank>, tag: Option<u32>) -> Result<Operation> {
        match (direction, peer, tag) {
            ("send", Some(peer), Some(tag)) => Ok(Operation::Send { peer, tag }),
            ("send", ..) => Err(Error::Type("send needs a peer and a tag".to_owned())),
            ("recv", Some(PROC_NULL), _) => Ok(Operation::Receive { peer: PROC_NULL, tag: tag.unwrap_or(0) }),
            ("recv", Some(peer), Some(tag)) => Ok(Operation::Receive { peer, tag }),
            ("recv", ..) => Ok(Operation::ReceiveAny { peer, tag }),
            _ => Err(Error::Argument(format!("direction {direction:?} is neither send nor recv"))),
        }
    }

    /// The collective that performs the operation, if one does.
    #[inline]
    pub fn collective(self) -> Option<Collective> {
        match self {
            Operation::Collective(collective) => Some(collective),
            Operation::Barrier => Some(Collective::Allreduce),
            _ => None,
        }
    }

    /// The other rank and the tag of a message between two ranks, as far as they are named; `None` for collectives.
    #[inline]
    pub fn ends(self) -> Option<(Option<Rank>, Option<u32>)> {
        match self {
            Operation::Collective(_) | Operation::Barrier => None,
            Operation::Send { peer, tag } | Operation::Receive { peer, tag } => Some((Some(peer), Some(tag))),
            Operation::ReceiveAny { peer, tag } | Operation::Probe { peer, tag } => Some((peer, tag)),
        }
    }

    /// The messages that such a receive or probe accepts.
    pub(crate) fn subject(self) -> Subject {
        let (peer, tag) = self.ends().unwrap_or_default();
        Subject::new(peer, tag)
    }
}

/// How exactly the elements of a collective are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// As they are.
    #[default]
    Exact,
    /// In this format.
    Wire(Wire),
    /// In this format, rounded at random, by the number of the call: the same on all ranks.
    Stochastic(Wire),
    /// In any format and by any algorithm whose error has this bound.
    Within(MaxError),
}

/// What follows the name of a format that rounds at random.
const STOCHASTIC: &str = ":stochastic";

impl Precision {
    /// What `wire=` names: a format, also one with `:stochastic`.
    pub fn named(name: &str) -> Result<Precision> {
        Ok(match name.strip_suffix(STOCHASTIC) {
            None => Precision::Wire(name.parse()?),
            Some(name) => Precision::Stochastic(name.parse()?),
        })
    }

    fn is_stochastic(self) -> bool {
        matches!(self, Precision::Stochastic(_))
    }
}

/// The most by which a result may differ from the exact one, as a fraction of the sum of the ranks' largest magnitudes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MaxError(u64);

impl MaxError {
    /// This error; it must be a number from 0 on.
    pub fn new(error: f64) -> Result<MaxError> {
        if error >= 0.0 && error.is_finite() {
            return Ok(MaxError(error.to_bits()));
        }
        Err(Error::Argument(format!("max_error must be a number from 0 on, not {error}")))
    }

    /// The fraction.
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

/// Everything that the plan of a call depends on: the call without its memory and its timeout.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallKey {
    /// The operation.
    pub operation: Operation,
    /// How contributions are combined, in a reduction.
    pub op: ReduceOp,
    /// The type of the elements.
    pub dtype: DType,
    /// Elements of the whole vector (allreduce, broadcast, reduce, messages), or of one rank's block (all others).
    pub elements: usize,
    /// The number of elements of each rank's block, if blocks differ in length; for an all-to-all that of each
    /// pair's, by source, then by target. Then `elements` is not used. The same on all ranks. Of a collective without
    /// blocks: the lengths of the arrays that lie side by side in the vector, which only the ranks' comparison uses.
    pub counts: Option<Arc<[usize]>>,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// The algorithm to use instead of the cheapest one; the same on all ranks.
    pub algorithm: Option<Member>,
    /// How exactly elements are sent; the same on all ranks.
    pub precision: Precision,
    /// Whether local ranks can read the input, and the output. The communicator sets this; a value from the caller is
    /// ignored.
    pub readable: (bool, bool),
    /// Whether ringroad makes the call for itself: it begins although the user's calls are held.
    pub internal: bool,
    /// Whether a receive, [`Operation::ReceiveAny`], takes a message of any length into new memory. One of
    /// [`DType::OF_BYTES`] takes elements of any type.
    pub allocates: bool,
}

/// The memory of an input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySpan {
    /// The address of the first byte.
    pub address: usize,
    /// The number of bytes.
    pub bytes: usize,
}

impl MemorySpan {
    /// Whether the two have bytes in common.
    #[inline]
    fn overlaps(self, other: MemorySpan) -> bool {
        let end = |side: MemorySpan| side.address.saturating_add(side.bytes);
        self.bytes > 0 && other.bytes > 0 && self.address.max(other.address) < end(self).min(end(other))
    }
}

impl CallKey {
    /// A call out of place with the cheapest algorithm. Reductions are sums.
    #[inline]
    pub fn new(operation: Operation, dtype: DType, elements: usize) -> CallKey {
        CallKey {
            operation,
            op: ReduceOp::Sum,
            dtype,
            elements,
            counts: None,
            in_place: false,
            algorithm: None,
            precision: Precision::Exact,
            readable: (false, false),
            internal: false,
            allocates: false,
        }
    }

    /// A barrier: an allreduce of one byte.
    pub fn barrier() -> CallKey {
        let byte = CallKey::new(Operation::Barrier, DType::U8, 1);
        CallKey { op: ReduceOp::Bor, in_place: true, ..byte }
    }

    #[inline]
    pub(crate) fn counts(&self) -> Counts<'_> {
        Counts::from_elements(self.elements, self.counts.as_deref().filter(|_| self.has_blocks()))
    }

    fn has_blocks(&self) -> bool {
        self.operation.collective().is_some_and(Collective::has_blocks)
    }

    #[inline]
    pub(crate) fn reduces(&self) -> bool {
        self.operation.collective().is_some_and(Collective::reduces)
    }

    /// Whether the result does not depend on the order in which contributions are combined.
    pub(crate) fn any_order(&self) -> bool {
        !self.reduces() || self.op.order_independent(self.dtype)
    }

    /// Whether values must be combined in the order of the ranks.
    pub(crate) fn in_rank_order(&self) -> bool {
        self.reduces() && !self.op.is_commutative()
    }

    /// The number of bytes of `elements` elements; an error if that overflows.
    #[inline]
    fn bytes(&self, elements: Option<usize>) -> Result<usize> {
        elements.and_then(|elements| elements.checked_mul(self.dtype.size())).ok_or_else(|| {
            Error::Argument(match self.counts {
                Some(_) => "the sum of counts is too large".to_owned(),
                None => format!("elements is too large: {}", self.elements),
            })
        })
    }

    /// The bytes of the input and of the output on rank `rank` of `ranks`, for a call out of place. An error if the
    /// call is not valid there.
    #[inline]
    fn sides(&self, rank: Rank, ranks: usize) -> Result<[usize; 2]> {
        let refused = |text: String| Err(Error::Argument(text));
        if self.precision != Precision::Exact {
            self.check_precision()?;
        }
        if let Some((peer, tag)) = self.operation.ends() {
            if let Some(peer) = peer.filter(|peer| *peer >= ranks && *peer != PROC_NULL) {
                return refused(format!("peer {peer} is not one of the ranks 0 to {}", ranks - 1));
            }
            if let Some(tag) = tag.filter(|tag| *tag >= TAGS) {
                return refused(format!("tag {tag} is not below {TAGS}"));
            }
        }
        match self.operation {
            Operation::Probe { .. } => Ok([0, 0]),
            Operation::Send { .. } => Ok([self.bytes(Some(self.elements))?, 0]),
            Operation::Receive { .. } | Operation::ReceiveAny { .. } => {
                Ok([0, self.bytes(Some(self.elements))?])
            }
            Operation::Barrier => Ok([1, 1]),
            Operation::Collective(collective) => {
                self.check_collective(collective, ranks)?;
                let lengths = self.counts().lengths(collective, ranks, rank);
                let side = |side: usize| self.bytes(lengths.map(|elements| elements[side]));
                Ok([side(0)?, side(1)?])
            }
        }
    }

    /// Says why elements of this call cannot be rounded, if they cannot.
    fn check_precision(&self) -> Result<()> {
        let CallKey { op, dtype, .. } = self;
        let adds = matches!(op, ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PremulSum);
        let reason = match self.operation {
            Operation::Collective(_) if !wire::supports(*dtype) => {
                format!("it rounds float16, bfloat16, float32 and float64; {dtype} is always sent exactly")
            }
            Operation::Collective(_) if self.reduces() && !adds => {
                format!("it rounds what sum and avg add up; {op} is always exact")
            }
            Operation::Collective(_) => {
                match self.precision {
                    Precision::Stochastic(wire) if !wire::dithers(wire, *dtype) => {
                        format!("int8 and int4 of float32 and float64 can be stochastic, {wire} of {dtype} cannot")
                    }
                    _ => return Ok(()),
                }
            }
            other => format!("{} is not a collective on arrays", other.name()),
        };
        Err(Error::Argument(format!("this call takes no wire format: {reason}")))
    }

    #[inline]
    fn check_collective(&self, collective: Collective, ranks: usize) -> Result<()> {
        let refused = |text: String| Err(Error::Argument(text));
        if let Some(root) = collective.root().filter(|root| *root >= ranks) {
            return refused(format!("root {root} is not one of the ranks 0 to {}", ranks - 1));
        }
        if collective.reduces() {
            self.op.check(self.dtype)?;
        }
        if collective.is_prefix() && self.op == ReduceOp::Avg {
            return refused(format!("{collective} takes no avg; divide a sum by the number of ranks in it"));
        }
        if !self.counts().fits(collective, ranks) {
            let found = self.counts.as_ref().map_or(0, |counts| counts.len());
            let wanted = match collective {
                Collective::Alltoall => "one count for each pair of ranks",
                _ => "one count for each rank",
            };
            let name = collective.name();
            return refused(format!("{name} over {ranks} ranks takes {wanted}, not {found} counts"));
        }
        if !collective.has_blocks() && self.total() != self.elements {
            let (name, total) = (collective.name(), self.total());
            return refused(format!("{name} of {} elements takes no counts of {total}", self.elements));
        }
        if self.in_place && self.counts.is_some() && collective == Collective::Alltoall {
            let what = "an alltoall whose blocks differ is not performed in place; pass another output";
            return refused(what.to_owned());
        }
        Ok(())
    }

    /// What a rank holds before and after the call, if it has both an input and an output.
    #[inline]
    fn both_sides(&self, rank: Rank) -> Option<(Holding, Holding)> {
        let collective = self.operation.collective()?;
        let (input, output) = (collective.input(rank), collective.output(rank));
        (input != Holding::Nothing && output != Holding::Nothing).then_some((input, output))
    }

    /// The bytes of the input and of the output on rank `rank` of `ranks`. In place, all bytes are the output's. An
    /// error if the call is not valid there.
    pub fn lengths(&self, rank: Rank, ranks: usize) -> Result<[usize; 2]> {
        let [input, output] = self.sides(rank, ranks)?;
        let shared = self.in_place && self.both_sides(rank).is_some();
        Ok(if shared { [0, input.max(output)] } else { [input, output] })
    }

    /// Finds out from the addresses of input and output whether the call is in place, and which memory it uses as
    /// either. `None` if they overlap in any other way.
    #[inline]
    pub fn locate(
        &mut self,
        rank: Rank,
        ranks: usize,
        addresses: [usize; 2],
    ) -> Result<Option<[MemorySpan; 2]>> {
        self.in_place = false;
        let bytes = self.sides(rank, ranks)?;
        let side = |side: usize| MemorySpan { address: addresses[side], bytes: bytes[side] };
        let (input, output) = (side(0), side(1));
        let Some(holdings) = self.both_sides(rank).filter(|_| input.overlaps(output)) else {
            return Ok(Some([input, output]));
        };
        let before = || match self.counts() {
            Counts::Equal(_) => rank * input.bytes.min(output.bytes),
            Counts::PerBlock(counts) => counts[..rank].iter().sum::<usize>() * self.dtype.size(),
        };
        self.in_place = match holdings {
            (Holding::Block(_), Holding::Whole) => input.address.wrapping_sub(output.address) == before(),
            (Holding::Whole, Holding::Block(_)) => output.address.wrapping_sub(input.address) == before(),
            _ => input == output,
        };
        let whole = if input.bytes > output.bytes { input } else { output };
        Ok(self.in_place.then_some([MemorySpan { address: 0, bytes: 0 }, whole]))
    }

    /// The bytes of the whole vector of a rank; the algorithm is chosen by this length.
    pub(crate) fn vector(&self, collective: Collective, ranks: usize) -> Result<usize> {
        self.bytes(self.counts().total(collective, ranks))
    }

    /// A digest that differs (with near certainty) between calls that ranks must not mix up.
    fn digest(&self, algorithm: &str, wire: Option<Wire>) -> u32 {
        // FNV-1a: the same on every machine and in every version.
        let hash = Cell::new(0xcbf2_9ce4_8422_2325_u64);
        let mix = |bytes: &[u8]| {
            for byte in bytes {
                hash.set((hash.get() ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
            }
        };
        let folded = |bits: u32| {
            let hash = hash.get();
            ((hash ^ hash >> 18 ^ hash >> 36 ^ hash >> 54) % (1 << bits)) as u32
        };
        if let DType::Opaque(Opaque { name, bytes }) = self.dtype {
            mix(name.as_bytes());
            mix(&bytes.to_le_bytes());
        }
        if self.internal {
            mix(b"internal");
        }
        let (kind, root) = match self.operation {
            Operation::Collective(collective) => (collective.name(), collective.root().unwrap_or(0)),
            Operation::Barrier => ("barrier", 0),
            // Sends and receives have to agree on the type only, and the receiver wants to know its number.
            _ => {
                let is_named = matches!(self.dtype, DType::Opaque(_)) && self.dtype != DType::OF_BYTES;
                let name = if is_named { folded(DIGEST_BITS - CODE_BITS) } else { 0 };
                return name << CODE_BITS | u32::from(self.dtype.code());
            }
        };
        mix(kind.as_bytes());
        mix(algorithm.as_bytes());
        let format = wire.map_or(0, |wire| wire.code() | u8::from(self.precision.is_stochastic()) << 7);
        mix(&[self.op.code(), self.dtype.code(), format]);
        if let ReduceOp::Own(Own { name, commutative }) = self.op {
            mix(name.as_bytes());
            mix(&[u8::from(*commutative)]);
        }
        mix(&(self.total() as u64).to_le_bytes());
        for count in self.counts.iter().flat_map(|counts| counts.iter()) {
            mix(&(*count as u64).to_le_bytes());
        }
        mix(&(root as u64).to_le_bytes());
        folded(DIGEST_BITS)
    }

    /// The number of elements, summed over the blocks if these differ.
    pub(crate) fn total(&self) -> usize {
        let sum = |counts: &Arc<[usize]>| counts.iter().fold(0, |sum, count| count.saturating_add(sum));
        self.counts.as_ref().map_or(self.elements, sum)
    }
}

/// The number of elements of a collective (see [`CallKey::elements`]) of which this rank's input and output have
/// `sides` elements; `None` if there is no such number.
pub fn elements_of(collective: Collective, rank: Rank, ranks: usize, sides: [usize; 2]) -> Option<usize> {
    let blocks = collective.blocks_per_vector(ranks);
    let count = |elements: usize, holding| match holding {
        Holding::Nothing => None,
        Holding::Block(_) => Some(Some(elements)),
        Holding::Whole => Some(elements.is_multiple_of(blocks).then(|| elements / blocks)),
    };
    match (count(sides[0], collective.input(rank)), count(sides[1], collective.output(rank))) {
        (Some(input), Some(output)) => input.filter(|_| input == output),
        (input, output) => input.or(output)?,
    }
}

/// What a call is predicted to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prediction {
    pub collective: Collective,
    /// The length of the whole vector.
    pub bytes: usize,
    pub seconds: f32,
    /// Whether ringroad makes the call for itself. Then it shows who comes late, and nothing of the prediction.
    pub internal: bool,
}

/// A call with this rank's plan, and its digest for the tags of messages.
#[derive(Debug)]
pub struct Prepared {
    /// The call.
    pub key: CallKey,
    /// The name of the algorithm that performs it, which its traces share.
    pub algorithm: Arc<str>,
    /// The format in which elements are sent; `None`: as they are.
    pub wire: Option<Wire>,
    /// Whether what arrives is the left operand of a reduction, not the right one.
    pub(crate) flipped: bool,
    /// The plan. A receive from any source gets another one once its source is known.
    pub(crate) plan: Arc<Plan>,
    /// The bytes of input and output.
    pub(crate) lengths: [usize; 2],
    /// What it is expected to take, if that is known and watched.
    pub(crate) prediction: Option<Prediction>,
    /// How often the network had changed when it was prepared.
    pub(crate) epoch: u64,
    digest: u32,
}

impl Prepared {
    /// How elements are encoded in the call of this number, which is the same on all ranks.
    #[inline]
    pub(crate) fn format(&self, number: u64) -> Option<wire::Format> {
        let seed = self.key.precision.is_stochastic().then_some(number as u32);
        self.wire.map(|wire| wire::Format { wire, seed })
    }

    pub(crate) fn new(
        key: CallKey,
        member: Member,
        wire: Option<Wire>,
        plan: Plan,
        lengths: [usize; 2],
    ) -> Prepared {
        let algorithm: Arc<str> = member.name().into();
        let digest = key.digest(&algorithm, wire);
        let plan = Arc::new(plan);
        let (flipped, prediction) = (false, None);
        Prepared { key, algorithm, wire, flipped, plan, lengths, prediction, epoch: 0, digest }
    }

    /// The value of [`Tag::check`] for call number `number`: its generation and the digest.
    pub(crate) fn check(&self, number: u64) -> u32 {
        generation_of(number) << DIGEST_BITS | self.digest
    }

    /// About how many bytes it takes besides its own size.
    pub(crate) fn footprint(&self) -> usize {
        let counts = self.key.counts.as_ref().map_or(0, |counts| size_of_val(&**counts));
        size_of::<Prepared>() + self.plan.footprint() + counts + self.algorithm.len()
    }
}

/// For example `allreduce of 10 float32, sum, by ring`.
impl fmt::Display for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Prepared { key, algorithm, .. } = self;
        let (elements, dtype) = (key.total(), key.dtype);
        match key.operation {
            Operation::Barrier => write!(f, "barrier, by {algorithm}"),
            Operation::Send { peer, tag } => {
                write!(f, "send of {elements} {dtype} to {}", MessageSource(Some(peer), Some(tag)))
            }
            Operation::Receive { peer, tag } => {
                write!(f, "recv of {elements} {dtype} from {}", MessageSource(Some(peer), Some(tag)))
            }
            Operation::ReceiveAny { peer, tag } if key.allocates => {
                let what = if dtype == DType::OF_BYTES { "any length" } else { dtype.name() };
                write!(f, "recv of {what} from {}", MessageSource(peer, tag))
            }
            Operation::ReceiveAny { peer, tag } => {
                write!(f, "recv of {elements} {dtype} from {}", MessageSource(peer, tag))
            }
            Operation::Probe { peer, tag } => write!(f, "probe of {}", MessageSource(peer, tag)),
            Operation::Collective(collective) => {
                write!(f, "{collective} of {elements} {dtype}")?;
                match &key.counts {
                    Some(counts) if !key.has_blocks() => write!(f, " in arrays of {}", some_of(counts))?,
                    Some(counts) => write!(f, " in blocks of {}", some_of(counts))?,
                    None if collective.has_blocks() => write!(f, " per rank")?,
                    None => {}
                }
                if collective.reduces() {
                    write!(f, ", {}", key.op)?;
                }
                if let Some(wire) = self.wire {
                    let how = if key.precision.is_stochastic() { STOCHASTIC } else { "" };
                    write!(f, ", in {wire}{how}")?;
                }
                let whose = if key.internal { " (ringroad's own)" } else { "" };
                write!(f, ", by {algorithm}{whose}")
            }
        }
    }
}

/// A rank and a tag, each of which may be any. For example `rank 3 (tag 7)`.
struct MessageSource(Option<Rank>, Option<u32>);

impl fmt::Display for MessageSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(PROC_NULL) => write!(f, "nobody")?,
            Some(peer) => write!(f, "rank {peer}")?,
            None => write!(f, "any rank")?,
        }
        match self.1 {
            Some(tag) => write!(f, " (tag {tag})"),
            None => write!(f, " (any tag)"),
        }
    }
}

/// The first 16 counts.
fn some_of(counts: &[usize]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = counts.iter().take(SHOWN).map(usize::to_string).collect();
    let more = if counts.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

//! How bytes get from one rank to another: the trait [`Transport`], and the transports that implement it.
//!
//! A transport moves messages; it knows nothing of collectives. It never blocks: its driver calls
//! [`Transport::progress`] and, when there is nothing left to do, [`Transport::arm`] and [`Wait::block`].

#[allow(unsafe_code)]
pub mod buffer;
mod carrier;
mod description;
#[allow(unsafe_code)]
mod events;
#[allow(unsafe_code)]
pub(crate) mod forks;
pub mod in_process;
mod local;
mod matching;
pub(crate) mod notice;
pub mod routed;
#[allow(unsafe_code)]
pub mod shared;
mod tags;
#[allow(unsafe_code)]
pub mod tcp;
#[allow(unsafe_code)]
#[cfg_attr(not(feature = "ucx"), path = "no_ucx.rs")]
pub mod ucx;
pub(crate) mod wiring;

pub use carrier::{Carrier, Opening};
pub use description::{CountedConnection, Description};
pub use forks::notice_forks;
pub(crate) use local::Returns;
pub use local::{Arrived, LocalMemory};

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::{Port, Rank};

use crate::error::convert;
use crate::transport::buffer::Region;

/// Whether this build can use UCX, where there is one.
pub const HAS_UCX: bool = cfg!(feature = "ucx");

/// What a message is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageKind {
    /// A collective call.
    Collective,
    /// A send or receive between two ranks. Sequence and message hold the user's tag.
    PointToPoint,
    /// A notice that the communicator has failed (see [`Transport::notify`]).
    Control,
}

/// Names a message: it pairs a send with its receive.
///
/// In 64 bits: source 14, kind 2, sequence 14, message 14, check 20. A receive matches on all but the check, which is
/// a digest of what the sender believes the call to be (collective, element type, count, reduction, algorithm). The
/// transport reports a message whose check differs. So every message names its call, at no extra cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// The sender.
    pub source: Rank,
    /// What it is part of.
    pub kind: MessageKind,
    /// The number of the call, modulo [`Tag::SEQUENCES`].
    pub sequence: u32,
    /// The number of the message between the two ranks within the call.
    pub message: u32,
    /// Digest of the sender's call, below [`Tag::CHECKS`].
    pub check: u32,
}

impl Tag {
    /// Sequence numbers repeat after this many.
    pub const SEQUENCES: u32 = 1 << 14;
    /// The number of different digests.
    pub const CHECKS: u32 = 1 << 20;
    /// The largest number of ranks that fit.
    pub const RANKS: usize = 1 << 14;
    /// The bits that a receive compares.
    pub const MATCH: u64 = !(Tag::CHECKS as u64 - 1);
    /// The bits that name the kind.
    pub const KIND: u64 = 3 << 48;
    /// The bits that name the source.
    pub const SOURCE: u64 = !((1 << 50) - 1);
    /// The bits that name source, kind and sequence.
    pub const CALL: u64 = !((1 << 34) - 1);
    /// The bits that name sequence and message, which hold the user's tag of a message between two ranks.
    pub const USER: u64 = Tag::MATCH & !Tag::SOURCE & !Tag::KIND;

    /// The tag of a message between two ranks to which the user gave this tag.
    #[inline]
    pub fn for_message(source: Rank, tag: u32) -> Tag {
        let (sequence, message) = (tag >> 14, tag & 0x3fff);
        Tag { source, kind: MessageKind::PointToPoint, sequence, message, check: 0 }
    }

    /// The user's tag of a message between two ranks.
    pub fn user(self) -> u32 {
        self.sequence << 14 | self.message
    }

    /// The bits of [`Tag::CALL`] that all messages of `source` in the collective call `sequence` have.
    #[inline]
    pub fn for_collective(source: Rank, sequence: u32) -> u64 {
        Tag { source, kind: MessageKind::Collective, sequence, message: 0, check: 0 }.pack()
    }

    /// The tag as 64 bits.
    #[inline]
    pub fn pack(self) -> u64 {
        let kind = match self.kind {
            MessageKind::Collective => 0,
            MessageKind::PointToPoint => 1,
            MessageKind::Control => 2,
        };
        (self.source as u64) << 50
            | kind << 48
            | u64::from(self.sequence % Tag::SEQUENCES) << 34
            | u64::from(self.message) << 20
            | u64::from(self.check)
    }

    /// The inverse of [`Tag::pack`].
    pub fn unpack(bits: u64) -> Tag {
        Tag {
            source: (bits >> 50) as Rank,
            kind: match bits >> 48 & 3 {
                0 => MessageKind::Collective,
                1 => MessageKind::PointToPoint,
                _ => MessageKind::Control,
            },
            sequence: (bits >> 34 & 0x3fff) as u32,
            message: (bits >> 20 & 0x3fff) as u32,
            check: (bits & 0xfffff) as u32,
        }
    }
}

/// Which messages between two ranks are meant: of one source or of any, with one tag or with any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    bits: u64,
    mask: u64,
}

impl Subject {
    /// Messages of this source with this tag of the user's; `None`: of any.
    pub fn new(source: Option<Rank>, tag: Option<u32>) -> Subject {
        let source_mask = if source.is_some() { Tag::SOURCE } else { 0 };
        let user_mask = if tag.is_some() { Tag::USER } else { 0 };
        let tag = Tag::for_message(source.unwrap_or(0), tag.unwrap_or(0));
        Subject { bits: tag.pack(), mask: Tag::KIND | source_mask | user_mask }
    }

    /// Whether a message with this packed tag is meant.
    #[inline]
    pub fn includes(self, tag: u64) -> bool {
        (tag ^ self.bits) & self.mask == 0
    }

    /// Whether there are messages that both mean.
    pub fn overlaps(self, other: Subject) -> bool {
        (self.bits ^ other.bits) & self.mask & other.mask == 0
    }

    /// The same from any source, if messages of `source` are meant.
    pub(crate) fn whoever_sends(self, source: Rank) -> Option<Subject> {
        let source = Subject::new(Some(source), None);
        self.overlaps(source).then_some(Subject { mask: self.mask & !Tag::SOURCE, ..self })
    }

    /// The bits that a message must have where the second value is set.
    pub fn bits(self) -> (u64, u64) {
        (self.bits & self.mask, self.mask)
    }
}

/// A message that no receive has matched yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unclaimed {
    /// Its tag.
    pub tag: Tag,
    /// Its length.
    pub bytes: usize,
}

/// The poster's name for a request; the request's events carry this number.
pub type RequestId = u64;

/// Why a message did not arrive as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The message belongs to another call: its check differs.
    Check {
        /// The tag that the message has.
        found: Tag,
        /// The message's length in bytes; `None` where it was too long to tell.
        bytes: Option<usize>,
    },
    /// The message has another length. A shorter message between two ranks is at the start of the receive's memory: its
    /// poster decides whether that is enough.
    Length {
        /// The message's length in bytes; `None` where it was too long to tell.
        found: Option<usize>,
        /// The expected length in bytes.
        expected: usize,
    },
    /// The connection broke, or the request was cancelled.
    Broken(String),
    /// This rank has no memory for the message.
    Memory(String),
}

pub(crate) use crate::os::machine::{AWHILE, LOOKED_AT};

/// The reason of [`Event::PeerFailed`] where the peer has aborted: the memory of its last messages may have been
/// overwritten.
pub(crate) const ABORTED: &str = "it has aborted";
/// The reason of [`Event::PeerFailed`] where the peer has left in good order: all its calls had ended.
pub(crate) const CLOSED: &str = "it has closed its connections";

/// What [`Transport::progress`] reports.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A request has ended; its memory may be used again.
    Completed {
        /// The request.
        request: RequestId,
        /// `Ok` where the message was sent or received as expected.
        result: Result<(), Failure>,
    },
    /// A request of [`LocalMemory::expect`] has ended well.
    Arrived {
        /// The request.
        request: RequestId,
        /// The message.
        arrived: Arrived,
    },
    /// This rank lacks what an exchange with a peer takes. The peer is not to blame.
    Lacks {
        /// The peer.
        peer: Rank,
        /// What it lacks.
        what: Lack,
        /// Why, in the transport's words.
        reason: String,
    },
    /// A peer is gone. Messages that it sent before may still arrive.
    PeerFailed {
        /// The peer.
        peer: Rank,
        /// Why, in the transport's words.
        reason: String,
    },
    /// A notice from a peer (see [`Transport::notify`]).
    Notice {
        /// The sender.
        from: Rank,
        /// The content.
        payload: Vec<u8>,
    },
}

impl Event {
    /// The event of a request that was posted with this result; `None` while the request is pending.
    pub fn from_posted(request: RequestId, posted: Result<Posted, Failure>) -> Option<Event> {
        match posted {
            Ok(Posted::Pending) => None,
            Ok(Posted::Complete) => Some(Event::Completed { request, result: Ok(()) }),
            Ok(Posted::Arrived(arrived)) => Some(Event::Arrived { request, arrived }),
            Err(failure) => Some(Event::Completed { request, result: Err(failure) }),
        }
    }
}

/// Says why a transport cannot do what it was asked to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{transport}: {reason}")]
pub struct TransportError {
    /// The transport's name.
    pub transport: &'static str,
    /// The reason, in the transport's words.
    pub reason: String,
    /// What this rank lacks, if that is the reason: no peer is to blame.
    pub lacks: Option<Lack>,
}

/// What a rank may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Memory for messages.
    Memory,
    /// Descriptors, ports, or what else the system needs for a connection.
    Connection,
}

convert! {
    TransportError => Transport,
}

/// The state of a request right after it was posted.
#[derive(Debug, PartialEq, Eq)]
pub enum Posted {
    /// The request is complete; no event will follow.
    Complete,
    /// The request is complete, and this is its message; only for [`LocalMemory::expect`].
    Arrived(Arrived),
    /// An [`Event::Completed`] or [`Event::Arrived`] will follow.
    Pending,
}

/// Moves messages between the ranks of one communicator.
///
/// A request holds its [`Region`] until the request ends, so that memory in flight stays alive whatever the caller
/// does.
pub trait Transport: Send {
    /// Describes the transport.
    fn describe(&self) -> Description;

    /// Makes sure that `peer` can be reached and that its end would be noticed. Cheap if both hold already.
    fn connect(&mut self, peer: Rank) -> Result<(), TransportError>;

    /// Starts to send `source` to `peer` by port `port`.
    fn send(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError>;

    /// Starts to receive a message of `target.len()` bytes from `tag.source`. Another length is a failure.
    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError>;

    /// Sends a short notice, which the receiver gets as [`Event::Notice`] whatever it is doing. Best effort: the
    /// sender does not learn whether the notice arrived.
    fn notify(&mut self, peer: Rank, payload: &[u8]);

    /// The operations that only local ranks support; `None` where no rank can be near.
    fn local_memory(&mut self) -> Option<&mut dyn LocalMemory> {
        None
    }

    /// Wakes sleeping peers for which something has been posted or released. After posting, call this or
    /// [`Transport::progress`] before any work that takes long.
    fn flush(&mut self) {}

    /// Does what can be done now and appends the events. Returns whether anything has happened.
    fn progress(&mut self, events: &mut Vec<Event>) -> bool;

    /// The slow check, for a caller that has waited long: appends also notices and failures that `progress` does not
    /// look for. Messages of the collective call `next`, and what came after them, may stay where they are.
    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>);

    /// A message from `source` in the collective call `sequence` that no receive has matched yet, if there is one.
    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag>;

    /// The first message of this subject that no receive has matched yet. If there is none, its arrival will end a
    /// [`Wait::block`].
    fn unclaimed(&mut self, subject: Subject) -> Option<Unclaimed>;

    /// The oldest message of any collective that no receive has matched yet, if there is one.
    fn oldest_unexpected(&mut self) -> Option<Tag>;

    /// The connections to other ranks, if the transport knows them.
    fn connections(&self) -> Vec<CountedConnection> {
        Vec::new()
    }

    /// Prepares for blocking. Returns `false` if something has happened meanwhile: then call `progress` instead.
    fn arm(&mut self) -> bool;

    /// The object to block on after [`Transport::arm`], without holding the transport.
    fn waiter(&self) -> Arc<dyn Wait>;

    /// Ends everything in flight by force, by `deadline` at the latest. Memory of requests that could not be ended by
    /// then is never freed. Afterwards the transport can only be dropped.
    fn abort(&mut self, deadline: Instant);

    /// Closes the connections after all messages that were sent have arrived, but by `deadline` at the latest.
    fn close(&mut self, deadline: Instant);
}

/// Whether sequence number `a` comes before `b`, given that the numbers wrap around.
fn is_earlier(a: u32, b: u32) -> bool {
    (a + Tag::SEQUENCES - b) % Tag::SEQUENCES > Tag::SEQUENCES / 2
}

/// Blocks a thread until a transport has something to do.
pub trait Wait: Send + Sync {
    /// Blocks until the transport has something to do, [`Wait::wake`] is called, or `timeout` has passed.
    fn block(&self, timeout: Duration);

    /// Ends the current [`Wait::block`], or the next one if no thread blocks now.
    fn wake(&self);

    /// Records that something has happened since the last [`Wait::block`], so that it ended for good reason.
    fn note_progress(&self) {}
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Check { found, .. } => write!(f, "rank {} is in another call", found.source),
            Failure::Length { found: Some(found), expected } => {
                write!(f, "a message of {found} bytes came where {expected} were expected")
            }
            Failure::Length { found: None, expected } => {
                write!(f, "a message longer than the expected {expected} bytes came")
            }
            Failure::Broken(reason) | Failure::Memory(reason) => f.write_str(reason),
        }
    }
}

//! Matches messages with receives, both in the order in which they came.

use std::collections::VecDeque;

use ringroad_core::Rank;

use super::tags::{pop, push, Queue, Tags};
use crate::transport::buffer::Region;
use crate::transport::{Arrived, Failure, Kind, Posted, RequestId, Returns, Tag, LOOKED_AT};

/// The list of candidates for the oldest message holds at least this many before it is cleaned up.
const OLDEST: usize = 32;

/// A receive that has been posted.
pub(super) struct Wanted {
    pub(super) tag: u64,
    pub(super) bytes: usize,
    pub(super) request: RequestId,
    /// Where to copy the message; `None` if it is read in the sender's memory.
    pub(super) target: Option<Region>,
}

impl Wanted {
    /// Whether the message is so long that measuring the time of a look at its channel costs nothing noticeable.
    pub(super) fn is_long(&self) -> bool {
        self.bytes >= LOOKED_AT
    }

    /// The memory to copy the message to, if it cannot be read in the sender's: the target, or new scratch memory.
    pub(super) fn room(&self) -> Result<Region, Failure> {
        match &self.target {
            Some(target) => Ok(target.clone()),
            None => Region::scratch(self.bytes).map_err(|error| Failure::Memory(error.to_string())),
        }
    }

    /// What the receive has led to after all of the message has been copied to its [`Wanted::room`].
    pub(super) fn copied(&self, peer: Rank, room: Region) -> Posted {
        match self.target {
            Some(_) => Posted::Complete,
            None => Posted::Arrived(Arrived { region: room, peer, returns: Returns::Nowhere }),
        }
    }
}

/// A parcel that has been taken out of its channel.
pub(super) struct Message {
    /// Packed, as in [`Wanted`]: reading a tag that was just written in pieces would stall.
    pub(super) tag: u64,
    /// Counts the messages that no receive matched when they came.
    pub(super) order: u64,
    pub(super) bytes: usize,
    pub(super) came: Came,
    pub(super) arrived: Arrived,
}

/// Which part of a message has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Whole,
    FirstPart,
    /// None: this is its address in the sender's private memory.
    Address(u64),
}

/// A message that has come, as [`Matching`] sees it.
pub(in crate::transport) trait Tagged {
    /// Its tag, packed.
    fn tag(&self) -> u64;

    /// Counts the messages that no receive matched when they came.
    fn order(&self) -> u64;

    /// Sets what [`Tagged::order`] returns.
    fn set_order(&mut self, order: u64);
}

impl Tagged for Message {
    fn tag(&self) -> u64 {
        self.tag
    }

    fn order(&self) -> u64 {
        self.order
    }

    fn set_order(&mut self, order: u64) {
        self.order = order;
    }
}

/// Messages without receives, and receives without messages.
pub(in crate::transport) struct Matching<M = Message, W = Wanted> {
    /// Messages that have come and that no receive has matched yet.
    unclaimed: Tags<Queue<M>>,
    unclaimed_number: u64,
    /// The order numbers and keys of those among them that belong to collectives, the oldest first. Some may have
    /// been matched since.
    oldest: VecDeque<(u64, u64)>,
    /// Once `oldest` is longer than this and [`OLDEST`], entries that have been matched since are removed.
    oldest_room: usize,
    /// Receives whose messages have not come.
    wanted: Tags<Queue<W>>,
}

impl<M, W> Default for Matching<M, W> {
    fn default() -> Self {
        Matching {
            unclaimed: Tags::default(),
            unclaimed_number: 0,
            oldest: VecDeque::new(),
            oldest_room: 0,
            wanted: Tags::default(),
        }
    }
}

impl<M: Tagged, W> Matching<M, W> {
    /// Whether a message with this key has come that no receive has matched.
    pub(in crate::transport) fn has(&self, key: u64) -> bool {
        self.unclaimed.contains_key(&key)
    }

    /// Whether a receive waits for a message with this key.
    pub(in crate::transport) fn is_wanted(&self, key: u64) -> bool {
        self.wanted.contains_key(&key)
    }

    /// Takes the first message with this key.
    pub(in crate::transport) fn take_message(&mut self, key: u64) -> Option<M> {
        pop(&mut self.unclaimed, key)
    }

    /// The first message with this key that is as wanted.
    pub(in crate::transport) fn find(&mut self, key: u64, is_it: impl Fn(&M) -> bool) -> Option<&mut M> {
        let queue = self.unclaimed.get_mut(&key)?;
        std::iter::once(&mut queue.first).chain(&mut queue.others).find(|message| is_it(message))
    }

    /// Takes the first receive with this key.
    pub(in crate::transport) fn take_wanted(&mut self, key: u64) -> Option<W> {
        pop(&mut self.wanted, key)
    }

    /// Keeps a receive until its message comes.
    pub(in crate::transport) fn keep_wanted(&mut self, key: u64, wanted: W) {
        push(&mut self.wanted, key, wanted);
    }

    /// Keeps a message until a receive matches it.
    pub(in crate::transport) fn keep_message(&mut self, key: u64, mut message: M) {
        self.unclaimed_number += 1;
        message.set_order(self.unclaimed_number);
        if Tag::unpack(message.tag()).kind == Kind::Collective {
            self.note_oldest(message.order(), key);
        }
        push(&mut self.unclaimed, key, message);
    }

    /// Notes an unmatched message, which may become the oldest.
    fn note_oldest(&mut self, order: u64, key: u64) {
        if self.oldest.len() >= self.oldest_room.max(OLDEST) {
            let Matching { oldest, unclaimed, .. } = self;
            oldest.retain(|(order, key)| {
                unclaimed.get(key).is_some_and(|messages| messages.first.order() <= *order)
            });
            self.oldest_room = 2 * self.oldest.len() + OLDEST;
        }
        self.oldest.push_back((order, key));
    }

    /// The oldest message of a collective that no receive has matched.
    pub(in crate::transport) fn oldest(&mut self) -> Option<Tag> {
        loop {
            let (order, key) = self.oldest.front()?;
            match self.unclaimed.get(key) {
                Some(messages) if messages.first.order() <= *order => {
                    return Some(Tag::unpack(messages.first.tag()))
                }
                _ => self.oldest.pop_front(),
            };
        }
    }

    /// How many messages may be the oldest.
    #[cfg(test)]
    pub(in crate::transport) fn candidates_for_oldest(&self) -> usize {
        self.oldest.len()
    }

    /// A message of this call that no receive has matched.
    pub(in crate::transport) fn of_call(&self, call: u64) -> Option<Tag> {
        let key = self.unclaimed.keys().filter(|key| *key & Tag::CALL == call).min()?;
        Some(Tag::unpack(self.unclaimed[key].first.tag()))
    }

    /// The source of the first message that no receive has matched and whose key is `wanted` where `mask` is set.
    pub(in crate::transport) fn source_of(&self, wanted: u64, mask: u64) -> Option<Rank> {
        let fitting = self.unclaimed.iter().filter(|(key, _)| *key & mask == wanted);
        fitting.min_by_key(|(_, messages)| messages.first.order()).map(|(key, _)| Tag::unpack(*key).source)
    }

    /// From now on, no receive waits.
    pub(in crate::transport) fn forget_wanted(&mut self) {
        self.wanted.clear();
    }
}

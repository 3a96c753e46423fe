//! Matches messages with receives, both in the order in which they came.

use std::collections::VecDeque;

use super::tags::{pop, push, Queue, Tags};
use crate::transport::{MessageKind, Subject, Tag};

/// The list of candidates for the oldest message holds at least this many before it is cleaned up.
const OLDEST: usize = 32;

/// A message that no receive matched when it came.
struct UnclaimedMessage<M> {
    tag: u64,
    /// Counts these messages.
    order: u64,
    message: M,
}

/// Messages without receives, and receives without messages.
pub(super) struct Matching<M, W> {
    /// Messages that have come and that no receive has matched yet.
    unclaimed: Tags<Queue<UnclaimedMessage<M>>>,
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

impl<M, W> Matching<M, W> {
    /// The first message with this key that no receive has matched.
    pub(super) fn first(&self, key: u64) -> Option<&M> {
        self.unclaimed.get(&key).map(|messages| &messages.first.message)
    }

    /// Whether a receive waits for a message with this key.
    pub(super) fn is_wanted(&self, key: u64) -> bool {
        self.wanted.contains_key(&key)
    }

    /// Takes the first message with this key.
    pub(super) fn take_message(&mut self, key: u64) -> Option<M> {
        pop(&mut self.unclaimed, key).map(|kept| kept.message)
    }

    /// The last message with this key that is as wanted. Of many, the one that is coming is mostly the last.
    pub(super) fn find_last(&mut self, key: u64, is_it: impl Fn(&M) -> bool) -> Option<&mut M> {
        let queue = self.unclaimed.get_mut(&key)?;
        let mut all =
            std::iter::once(&mut queue.first).chain(&mut queue.others).map(|kept| &mut kept.message);
        all.rfind(|message| is_it(message))
    }

    /// Takes the first receive with this key.
    pub(super) fn take_wanted(&mut self, key: u64) -> Option<W> {
        pop(&mut self.wanted, key)
    }

    /// Keeps a receive until its message comes.
    pub(super) fn keep_wanted(&mut self, key: u64, wanted: W) {
        push(&mut self.wanted, key, wanted);
    }

    /// Keeps a message with this tag until a receive matches it.
    pub(super) fn keep_message(&mut self, tag: u64, message: M) {
        let key = tag & Tag::MATCH;
        self.unclaimed_number += 1;
        let order = self.unclaimed_number;
        if Tag::unpack(tag).kind == MessageKind::Collective {
            self.note_oldest(order, key);
        }
        push(&mut self.unclaimed, key, UnclaimedMessage { tag, order, message });
    }

    /// Notes an unmatched message, which may become the oldest.
    fn note_oldest(&mut self, order: u64, key: u64) {
        if self.oldest.len() >= self.oldest_room.max(OLDEST) {
            let Matching { oldest, unclaimed, .. } = self;
            oldest.retain(|(order, key)| {
                unclaimed.get(key).is_some_and(|messages| messages.first.order <= *order)
            });
            self.oldest_room = 2 * self.oldest.len() + OLDEST;
        }
        self.oldest.push_back((order, key));
    }

    /// The oldest message of a collective that no receive has matched.
    pub(super) fn oldest(&mut self) -> Option<Tag> {
        loop {
            let (order, key) = self.oldest.front()?;
            match self.unclaimed.get(key) {
                Some(messages) if messages.first.order <= *order => {
                    return Some(Tag::unpack(messages.first.tag))
                }
                _ => self.oldest.pop_front(),
            };
        }
    }

    /// How many messages may be the oldest.
    #[cfg(test)]
    pub(super) fn candidates_for_oldest(&self) -> usize {
        self.oldest.len()
    }

    /// A message of this call that no receive has matched.
    pub(super) fn unclaimed_tag(&self, call: u64) -> Option<Tag> {
        let key = self.unclaimed.keys().filter(|key| *key & Tag::CALL == call).min()?;
        Some(Tag::unpack(self.unclaimed[key].first.tag))
    }

    /// The first message of this subject that no receive has matched.
    pub(super) fn first_of(&self, subject: Subject) -> Option<(Tag, &M)> {
        let fitting = self.unclaimed.iter().filter(|(key, _)| subject.includes(**key));
        let first = fitting.map(|(_, messages)| &messages.first).min_by_key(|message| message.order)?;
        Some((Tag::unpack(first.tag), &first.message))
    }

    /// From now on, no receive waits.
    pub(super) fn forget_wanted(&mut self) {
        self.wanted.clear();
    }
}

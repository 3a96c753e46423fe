//! What this process remembers of agreements, and tells others.

use std::collections::VecDeque;
use std::mem::{discriminant, Discriminant};
use std::num::NonZeroUsize;
use std::time::Instant;

use lru::LruCache;
use ringroad_core::agreement::{Acceptor, ProposerRequest, Reply};
use ringroad_core::Rank;

use crate::os::lock::{Condvar, Mutex};
use crate::os::pauses;

/// Agreements of a group that slower ranks may still ask for. A rank that asks for an earlier one was left out.
const KEPT: usize = 3;
/// The groups whose agreements are remembered; of more, those that were asked for last.
const GROUPS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();

/// The agreements of this process's communicators.
pub struct Rounds {
    groups: Mutex<LruCache<String, GroupRounds>>,
    changed: Condvar,
}

#[derive(Default)]
struct GroupRounds {
    /// The latest agreements in which this rank takes part, by number.
    rounds: VecDeque<(u64, Acceptor)>,
    /// How many times this process had been paused when it looked last.
    pauses: u64,
    /// Whether this rank takes part no more.
    resigned: bool,
}

impl GroupRounds {
    /// Tells the acceptors of a pause.
    fn note_pauses(&mut self) {
        let pauses = pauses::pauses();
        if pauses > self.pauses {
            self.pauses = pauses;
            self.rounds.iter_mut().for_each(|(_, acceptor)| acceptor.note_pause());
        }
    }
}

impl Rounds {
    pub fn new() -> Rounds {
        Rounds { groups: Mutex::new(LruCache::new(GROUPS)), changed: Condvar::new() }
    }

    /// Does something with this rank's part in an agreement, and lets others know. Agreements have ascending numbers.
    pub fn with<T>(&self, group: &str, number: u64, act: impl FnOnce(&mut Acceptor) -> T) -> T {
        let mut groups = self.groups.lock();
        let group = groups.get_or_insert_mut(group.to_owned(), GroupRounds::default);
        group.note_pauses();
        let is_new = group.rounds.back().is_none_or(|(last, _)| *last < number);
        if is_new {
            let mut acceptor = Acceptor::default();
            if group.resigned {
                acceptor.resign();
            }
            group.rounds.push_back((number, acceptor));
            if group.rounds.len() > KEPT {
                group.rounds.pop_front();
            }
        }
        let mut outdated = Acceptor::default();
        let found = group.rounds.iter_mut().find(|(known, _)| *known == number);
        let acceptor = found.map_or(&mut outdated, |(_, acceptor)| acceptor);
        let before = stage(acceptor);
        let done = act(acceptor);
        // A leader hears from all others: were those woken each time who wait for its news, they would keep it busy.
        if is_new || stage(acceptor) != before {
            self.changed.notify_all();
        }
        done
    }

    /// This rank takes no part in agreements of the group any more. To the others that is as if its process had ended.
    pub fn resign(&self, group: &str) {
        let mut groups = self.groups.lock();
        let group = groups.get_or_insert_mut(group.to_owned(), GroupRounds::default);
        group.resigned = true;
        group.rounds.iter_mut().for_each(|(_, acceptor)| acceptor.resign());
        self.changed.notify_all();
    }

    /// The answer to a request of another rank: at once, or at `deadline` if there is nothing to say before.
    pub fn answer(
        &self,
        group: &str,
        number: u64,
        from: Rank,
        request: &ProposerRequest,
        deadline: Instant,
    ) -> Reply {
        let mut groups = self.groups.lock();
        let mut is_late = false;
        loop {
            let reply = groups.get_mut(group).map_or(Reply::Absent, |group| {
                group.note_pauses();
                let is_past = group.rounds.front().is_some_and(|(first, _)| *first > number);
                match group.rounds.iter_mut().find(|(known, _)| *known == number) {
                    Some((_, acceptor)) => acceptor.answer(from, request),
                    None if is_past => Reply::LeftOut,
                    None if group.resigned => Reply::Resigned,
                    None => Reply::Absent,
                }
            });
            let is_news = !matches!(reply, Reply::Absent | Reply::Undecided(_));
            if is_news || is_late {
                return reply;
            }
            is_late = self.changed.wait_until(&mut groups, deadline).timed_out();
        }
    }
}

/// What those who wait for news of an agreement wait for a change of: whether the rank has come, has accepted, has decided, or
/// takes no part any more. No decision names this asker.
fn stage(acceptor: &mut Acceptor) -> Discriminant<Reply> {
    discriminant(&acceptor.answer(Rank::MAX, &ProposerRequest::Learn))
}

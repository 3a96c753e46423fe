//! After a pause: do the others still count on this rank?
//!
//! A rank that was paused for seconds may have been left out, and may not go on alone ([`Vote::paused`]). So it asks all
//! others. When each has said, after the pause, that it has not come to the next agreement, nothing was decided without this
//! rank. A rank that comes later asks it, and waits for seconds before it goes on without it: earlier pauses do not matter any more.
//!
//! [`Vote::paused`]: ringroad_core::agreement::Vote::paused

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::agreement::{ProposerRequest, Reply};
use ringroad_core::Rank;

use crate::bootstrap::{identity, EndpointInfo, LifeLine, TcpStore, UnreachableProcess};
use crate::communicator::Communicator;
use crate::os::fork::Global;
use crate::os::lock::Mutex;
use crate::os::pauses;

/// The pause before those are asked again who have not answered, or have come.
const AGAIN: Duration = Duration::from_secs(1);
/// How long one of them may take to answer.
const WITHIN: Duration = Duration::from_secs(2);

/// What lasts from one agreement of a communicator to the next.
#[derive(Default)]
pub(in crate::communicator) struct Agreements {
    /// The number of the next agreement.
    pub next: AtomicU64,
    /// The last shrink, if it has failed here, though others may have decided to go on with what was made: the number of its
    /// first agreement, who was left, and the communicator of these.
    pub unsure: Mutex<Option<(u64, Vec<Rank>, Communicator)>>,
    /// The ranks that the last agreement left out.
    pub left_out: Mutex<Vec<Rank>>,
    /// How many times this process had been paused when the others last counted on it.
    pub pauses: AtomicU64,
    /// By which this process learns that others have certainly ended, where their port says only that it refuses.
    pub watched: Mutex<BTreeMap<Rank, LifeLine>>,
}

/// One rank's communicator, as long as it exists.
#[derive(Clone)]
pub(in crate::communicator) struct Followed {
    pub agreements: Weak<Agreements>,
    pub rank: Rank,
    pub endpoints: Arc<Vec<EndpointInfo>>,
    pub secret: Option<String>,
}

/// Asks the other ranks of this communicator after each pause from now on.
pub(in crate::communicator) fn follow(one: Followed) {
    static FOLLOWED: Global<Vec<Followed>> = Global::new();
    let mut all = FOLLOWED.lock();
    all.retain(|one| one.agreements.strong_count() > 0);
    all.push(one);
    pauses::then(|pauses| {
        let inquiry = |one: &Followed| PauseInquiry::new(one.clone(), pauses);
        let mut inquiries: Vec<PauseInquiry> = FOLLOWED.lock().iter().map(inquiry).collect();
        // After another pause, all are asked anew.
        while pauses::pauses() == pauses && !inquiries.is_empty() {
            inquiries.retain_mut(|inquiry| !inquiry.is_over());
            thread::sleep(AGAIN);
        }
    });
}

/// Asks whether nothing was decided without a rank.
struct PauseInquiry {
    followed: Followed,
    /// After so many pauses.
    pauses: u64,
    /// The agreement that they are asked for.
    number: Option<u64>,
    /// The ranks that have not said so far that they have not come.
    others: Vec<Rank>,
}

impl PauseInquiry {
    fn new(followed: Followed, pauses: u64) -> PauseInquiry {
        PauseInquiry { followed, pauses, number: None, others: Vec::new() }
    }

    /// Asks once. Returns whether there is nothing more to ask.
    fn is_over(&mut self) -> bool {
        let Some(agreements) = self.followed.agreements.upgrade() else { return true };
        if agreements.pauses.load(Ordering::Relaxed) >= self.pauses {
            return true;
        }
        let next = agreements.next.load(Ordering::Relaxed);
        if self.number.replace(next) != Some(next) {
            let left_out = agreements.left_out.lock();
            // Where all were paused together, they do not all ask the same rank at the same time.
            let ranks = (self.followed.rank + 1..self.followed.endpoints.len()).chain(0..self.followed.rank);
            self.others = ranks.filter(|rank| !left_out.contains(rank)).collect();
        }
        let (followed, mut has_ended) = (&self.followed, false);
        self.others.retain(|rank| match followed.counts_with(*rank, next) {
            Ok(counts) => !counts,
            // A rank that has ended cannot say any more what it has decided.
            Err(why) => {
                has_ended |= matches!(why, UnreachableProcess::Gone(_));
                true
            }
        });
        let counts = self.others.is_empty() && agreements.next.load(Ordering::Relaxed) == next;
        if counts {
            agreements.pauses.fetch_max(self.pauses, Ordering::Relaxed);
        }
        counts || has_ended
    }
}

impl Followed {
    /// Whether another rank has decided nothing without this one, and has not come to the next agreement.
    fn counts_with(&self, other: Rank, next: u64) -> Result<bool, UnreachableProcess> {
        let Some(handle) = &self.endpoints[other].handle else { return Ok(false) };
        let store = TcpStore::connect(handle, self.secret.as_deref(), Instant::now() + WITHIN)?;
        let group = identity(&self.endpoints);
        let ask = |number| store.agree(&group, number, self.rank, &ProposerRequest::Learn, Instant::now());
        // The one before may be the second of a shrink, which others may still be in.
        let last = next.checked_sub(1).map_or(Ok(Reply::Absent), ask);
        let counted = match last {
            Ok(Reply::Absent) => true,
            Ok(Reply::Decided(decision)) => decision.alive.contains(&self.rank),
            _ => false,
        };
        match ask(next) {
            // A rank that has left takes no further part, as if its process had ended.
            Ok(Reply::Resigned) => Err(UnreachableProcess::Gone(handle.to_string())),
            answer => Ok(counted && answer == Ok(Reply::Absent)),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use ringroad_core::agreement::{Acceptor, Ballot, Decision, Proposer, Vote};

    use super::*;
    use crate::bootstrap::{Handle, Server};

    /// Rank 0 was paused; the server of this process is rank 1's.
    #[test]
    fn earlier_pauses_do_not_matter_once_all_others_have_said_so() {
        const SECRET: Option<&str> = Some("after pauses");
        let server = Server::for_process(SECRET).unwrap();
        let endpoints = (0..2).map(|rank| EndpointInfo {
            handle: Some(Handle::for_machine(SECRET).unwrap()),
            ..EndpointInfo::new(rank, 2, "none", "", Vec::new())
        });
        let endpoints = Arc::new(endpoints.collect::<Vec<_>>());
        let agreements = Arc::new(Agreements::default());
        let secret = SECRET.map(str::to_owned);
        let followed = Followed { agreements: Arc::downgrade(&agreements), rank: 0, endpoints, secret };
        let group = identity(&followed.endpoints);
        let hears = |pauses: u64| {
            let is_over = PauseInquiry::new(followed.clone(), pauses).is_over();
            (is_over, agreements.pauses.load(Ordering::Relaxed))
        };
        let with = |number, act: fn(&mut Acceptor)| server.rounds().with(&group, number, act);
        assert_eq!(hears(1), (true, 1), "rank 1 has not come");
        with(0, |acceptor| acceptor.join(Vote::default()));
        assert_eq!(hears(2), (false, 1), "it has come, and may hold rank 0 for lost");
        with(0, |acceptor| assert!(acceptor.withdraw()));
        assert_eq!(hears(2), (true, 2));
        let decide = |alive: Vec<Rank>| {
            let vote = Vote::default();
            move |acceptor: &mut Acceptor| {
                acceptor.join(vote);
                let ballot = Ballot { number: 1, leader: 0 };
                let decision = Decision { vote: false, alive };
                acceptor.answer(1, &ProposerRequest::Accept(ballot, decision));
                // Alone, rank 1 takes what it has accepted.
                Proposer::join(acceptor, 1, 2, vote).mark_dead(acceptor, 0);
            }
        };
        agreements.next.store(4, Ordering::Relaxed);
        server.rounds().with(&group, 3, decide(vec![0, 1]));
        assert_eq!(hears(3), (true, 3), "the second agreement of a shrink counts with rank 0");
        server.rounds().with(&group, 4, decide(vec![1]));
        assert_eq!(hears(4), (false, 3), "the next does not");
        agreements.next.store(5, Ordering::Relaxed);
        assert_eq!(hears(4), (false, 3), "so it stays");
        drop(agreements);
        assert!(PauseInquiry::new(followed, 4).is_over(), "the communicator is gone");
    }
}

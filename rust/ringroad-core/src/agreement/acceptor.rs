//! A rank's memory of an agreement, which answers whoever asks.

use super::{Ballot, Decision, ProposerRequest, Reply, Vote};
use crate::units::Rank;

/// One rank's state in one agreement. It outlives the rank's call: others may ask later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Acceptor {
    vote: Option<Vote>,
    promised: Ballot,
    accepted: Option<(Ballot, Decision)>,
    decided: Option<Decision>,
    resigned: bool,
    awaited: Vec<Rank>,
}

impl Acceptor {
    /// The rank has come with this vote. [`super::Proposer::join`] also takes part.
    pub fn join(&mut self, vote: Vote) {
        self.vote = Some(vote);
    }

    /// Takes back the vote, and all promises that were given with it. Returns false if a decision was accepted already:
    /// then others may act on it.
    pub fn withdraw(&mut self) -> bool {
        if self.accepted.is_some() || self.decided.is_some() {
            return false;
        }
        self.vote = None;
        // Above every ballot of this number.
        self.promised.leader = Rank::MAX;
        true
    }

    /// The rank was paused for so long that the others may have gone on without it.
    pub fn note_pause(&mut self) {
        if let Some(vote) = &mut self.vote {
            vote.paused = true;
        }
    }

    /// The rank takes no part any more. What it has decided, it still tells.
    pub fn resign(&mut self) {
        self.resigned = true;
    }

    pub(super) fn has_resigned(&self) -> bool {
        self.resigned
    }

    pub(super) fn decide(&mut self, decision: Decision) {
        self.decided = Some(decision);
    }

    pub(super) fn decided(&self) -> Option<&Decision> {
        self.decided.as_ref()
    }

    /// Whether a decision was accepted that does not name `rank`.
    pub(super) fn excludes(&self, rank: Rank) -> bool {
        self.accepted.as_ref().is_some_and(|(_, decision)| !decision.alive.contains(&rank))
    }

    /// Whom the rank waits for; others are told.
    pub fn await_ranks(&mut self, ranks: Vec<Rank>) {
        self.awaited = ranks;
    }

    /// The answer to a request of rank `from`.
    pub fn answer(&mut self, from: Rank, request: &ProposerRequest) -> Reply {
        if let Some(decision) = &self.decided {
            return Reply::Decided(decision.clone());
        }
        if self.resigned {
            return Reply::Resigned;
        }
        if self.excludes(from) {
            return Reply::LeftOut;
        }
        match request {
            ProposerRequest::Learn if self.vote.is_none() => Reply::Absent,
            ProposerRequest::Learn => Reply::Undecided(self.awaited.clone()),
            ProposerRequest::Prepare(ballot) | ProposerRequest::Accept(ballot, _)
                if *ballot < self.promised =>
            {
                Reply::Refused(self.promised)
            }
            ProposerRequest::Prepare(ballot) => {
                let Some(vote) = self.vote else { return Reply::Absent };
                self.promised = *ballot;
                Reply::Promise { vote, accepted: self.accepted.clone() }
            }
            ProposerRequest::Accept(ballot, decision) => {
                self.promised = *ballot;
                self.accepted = Some((*ballot, decision.clone()));
                Reply::Accepted { paused: self.vote.is_none_or(|vote| vote.paused) }
            }
        }
    }
}

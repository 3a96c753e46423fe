//! A rank that takes part in an agreement: whom it asks what, and what follows from the answers.

use std::collections::BTreeMap;

use super::{Acceptor, Ballot, Decision, ProposerRequest, Reply, Vote};
use crate::units::Rank;

/// One rank's part in one agreement, while it waits for the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Proposer {
    rank: Rank,
    peers: Vec<PeerView>,
    /// The highest number of a ballot that it has heard of.
    highest: u32,
    phase: Phase,
    /// Whom its leader waits for, as that has told.
    told: Vec<Rank>,
    outcome: Option<AgreementOutcome>,
}

/// What a rank knows of another one, or of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct PeerView {
    /// Silent for too long. May come back, unless a decision was accepted without it.
    lost: bool,
    /// Has ended, or takes no part any more. Does not come back.
    gone: bool,
    /// A decision was accepted without it. It may have decided something else with others before it hears of that.
    excluded: bool,
    /// Has answered that it has not come.
    absent: bool,
}

impl PeerView {
    fn is_here(self) -> bool {
        !self.lost && !self.gone && !self.excluded
    }
}

/// What a rank has promised to a leader.
type Promise = (Vote, Option<(Ballot, Decision)>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Phase {
    /// A lower rank leads.
    Follow,
    /// It leads, and collects promises.
    Prepare { ballot: Ballot, promises: BTreeMap<Rank, Promise> },
    /// It leads, and these ranks have to accept its decision. Those that have said whether they had been paused.
    Accept { ballot: Ballot, decision: Decision, members: BTreeMap<Rank, Option<bool>>, most: bool },
}

/// How an agreement ends for a rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AgreementOutcome {
    /// All remaining ranks get this decision. It names this rank.
    Decided(Decision),
    /// The others go on without this rank.
    LeftOut,
    /// This rank was paused, and of the others none is left that could say whether they went on without it.
    Paused,
    /// Fewer ranks are left than the quorum.
    TooFew {
        /// The ranks that are left.
        alive: Vec<Rank>,
        /// The fewest ranks that may go on.
        quorum: usize,
    },
}

/// Why a rank is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// It has not come.
    Absent(Rank),
    /// It has not answered so far.
    Silent(Rank),
    /// It leads, and waits for these ranks.
    Leading(Rank, Vec<Rank>),
}

impl Proposer {
    /// Rank `rank` of `size` comes with this vote.
    pub fn join(acceptor: &mut Acceptor, rank: Rank, size: usize, vote: Vote) -> Proposer {
        let peers = vec![PeerView::default(); size];
        let mut proposer =
            Proposer { rank, peers, highest: 0, phase: Phase::Follow, told: Vec::new(), outcome: None };
        acceptor.join(vote);
        // It may have learnt the outcome in an earlier call.
        if acceptor.has_resigned() {
            proposer.outcome = Some(AgreementOutcome::LeftOut);
        } else if let Some(decision) = acceptor.decided() {
            proposer.outcome = Some(AgreementOutcome::Decided(decision.clone()));
        }
        proposer.advance(acceptor);
        proposer
    }

    /// How the agreement ended, if it has.
    pub fn outcome(&self) -> Option<&AgreementOutcome> {
        self.outcome.as_ref()
    }

    /// The request that `peer` should get now.
    pub fn request(&self, peer: Rank) -> Option<ProposerRequest> {
        if self.outcome.is_some() || self.peers[peer].gone {
            return None;
        }
        match &self.phase {
            _ if self.peers[peer].excluded => self.is_too_small().then_some(ProposerRequest::Learn),
            Phase::Prepare { ballot, promises } if !promises.contains_key(&peer) => {
                Some(ProposerRequest::Prepare(*ballot))
            }
            Phase::Accept { ballot, decision, members, .. } if members.get(&peer) == Some(&None) => {
                Some(ProposerRequest::Accept(*ballot, decision.clone()))
            }
            // A lower rank that was lost may come back, and lead.
            Phase::Follow | Phase::Accept { .. } if peer < self.rank && !self.follows_another(peer) => {
                Some(ProposerRequest::Learn)
            }
            _ => None,
        }
    }

    /// Whether it waits for a leader that is lower than `peer`.
    fn follows_another(&self, peer: Rank) -> bool {
        self.leader() < peer
    }

    /// Does all that it can do without others.
    fn advance(&mut self, acceptor: &mut Acceptor) {
        while self.outcome.is_none() {
            self.step(acceptor);
            // It asks itself like any other rank.
            let Some(request) = self.request(self.rank) else { break };
            let reply = acceptor.answer(self.rank, &request);
            self.apply_reply(self.rank, &request, reply);
        }
        match &self.outcome {
            Some(AgreementOutcome::Decided(decision)) => acceptor.decide(decision.clone()),
            Some(_) => acceptor.resign(),
            None => {}
        }
    }

    fn step(&mut self, acceptor: &Acceptor) {
        for (rank, peer) in self.peers.iter_mut().enumerate() {
            peer.excluded |= acceptor.excludes(rank);
        }
        if self.leader() != self.rank {
            self.phase = Phase::Follow;
            return;
        }
        match &self.phase {
            Phase::Follow => self.lead(),
            Phase::Prepare { ballot, promises } => {
                if self.unpromised(promises).next().is_none() {
                    let (ballot, promises) = (*ballot, promises.clone());
                    self.choose(ballot, &promises);
                }
            }
            Phase::Accept { decision, members, most, .. } => {
                let missing = |(rank, accepted): (&Rank, &Option<bool>)| {
                    accepted.is_none() && !self.peers[*rank].is_here()
                };
                if members.values().all(Option::is_some) {
                    let awake = members.values().any(|paused| *paused == Some(false));
                    let enough = *most && self.are_majority(&members.keys().copied().collect::<Vec<_>>());
                    self.end(match awake || enough || members.len() == self.peers.len() {
                        true => AgreementOutcome::Decided(decision.clone()),
                        false => AgreementOutcome::Paused,
                    });
                } else if members.iter().any(missing) {
                    self.lead();
                }
            }
        }
    }

    /// Whether all have promised that are here, but they are not enough to go on.
    fn is_too_small(&self) -> bool {
        matches!(&self.phase, Phase::Prepare { promises, .. } if self.unpromised(promises).next().is_none())
    }

    /// The ranks that have to promise before this one can choose.
    fn unpromised<'a>(&'a self, promises: &'a BTreeMap<Rank, Promise>) -> impl Iterator<Item = Rank> + 'a {
        (0..self.peers.len()).filter(|rank| self.peers[*rank].is_here() && !promises.contains_key(rank))
    }

    /// `peer` has answered `request`. `acceptor` is this rank's own, here and below.
    pub fn receive_reply(
        &mut self,
        acceptor: &mut Acceptor,
        peer: Rank,
        request: &ProposerRequest,
        reply: Reply,
    ) {
        // What a rank says that is left out counts only where it is asked whether it goes on.
        let counts = !acceptor.excludes(peer) || (*request == ProposerRequest::Learn && self.is_too_small());
        if self.outcome.is_none() && !self.peers[peer].gone && counts {
            self.apply_reply(peer, request, reply);
        }
        self.advance(acceptor);
    }

    fn apply_reply(&mut self, peer: Rank, request: &ProposerRequest, reply: Reply) {
        self.peers[peer].lost = false;
        self.peers[peer].absent = reply == Reply::Absent;
        match (reply, request, &mut self.phase) {
            (Reply::Decided(decision), ..) if decision.alive.contains(&self.rank) => {
                self.end(AgreementOutcome::Decided(decision));
            }
            (Reply::Decided(_) | Reply::LeftOut, ..) => self.end(AgreementOutcome::LeftOut),
            (Reply::Resigned, ..) => self.peers[peer].gone = true,
            (Reply::Undecided(ranks), ..) => self.told = ranks,
            (Reply::Refused(ballot), _, phase) => {
                self.highest = self.highest.max(ballot.number);
                // It begins again, if it still leads.
                *phase = Phase::Follow;
            }
            (
                Reply::Promise { vote, accepted },
                ProposerRequest::Prepare(asked),
                Phase::Prepare { ballot, promises },
            ) if asked == ballot => {
                promises.insert(peer, (vote, accepted));
            }
            (
                Reply::Accepted { paused },
                ProposerRequest::Accept(asked, _),
                Phase::Accept { ballot, members, .. },
            ) if asked == ballot => {
                members.insert(peer, Some(paused));
            }
            _ => {}
        }
    }

    /// `peer` has been silent for too long.
    pub fn lose(&mut self, acceptor: &mut Acceptor, peer: Rank) {
        self.peers[peer].lost = true;
        self.advance(acceptor);
    }

    /// `peer` has certainly ended.
    pub fn mark_dead(&mut self, acceptor: &mut Acceptor, peer: Rank) {
        self.peers[peer].gone = true;
        self.advance(acceptor);
    }

    /// This rank was paused for so long that the others may have gone on without it. What they said before may be out
    /// of date.
    pub fn note_pause(&mut self, acceptor: &mut Acceptor) {
        acceptor.note_pause();
        self.phase = Phase::Follow;
        self.advance(acceptor);
    }

    /// Whether `peer` still counts as one of those that are left.
    pub fn counts_on(&self, peer: Rank) -> bool {
        self.peers[peer].is_here()
    }

    /// Whether `peer` has ended, or takes no part any more.
    pub fn is_gone(&self, peer: Rank) -> bool {
        self.peers[peer].gone
    }

    /// The number of the highest ballot that it knows.
    pub fn ballots(&self) -> u32 {
        self.highest
    }

    /// Whom this rank waits for.
    pub fn waiting(&self) -> Vec<Waiting> {
        let why = |rank: Rank| match (self.peers[rank].absent, &self.phase) {
            (true, _) => Waiting::Absent(rank),
            (false, Phase::Follow) if !self.told.is_empty() => Waiting::Leading(rank, self.told.clone()),
            (false, _) => Waiting::Silent(rank),
        };
        match &self.phase {
            Phase::Follow => vec![why(self.leader())],
            Phase::Prepare { .. } if self.is_too_small() => {
                let away = (0..self.peers.len())
                    .filter(|rank| !self.peers[*rank].is_here() && !self.peers[*rank].gone);
                away.map(Waiting::Silent).collect()
            }
            Phase::Prepare { promises, .. } => self.unpromised(promises).map(why).collect(),
            Phase::Accept { members, .. } => members
                .iter()
                .filter(|(_, accepted)| accepted.is_none())
                .map(|(rank, _)| why(*rank))
                .collect(),
        }
    }

    /// The lowest rank that is not lost.
    fn leader(&self) -> Rank {
        (0..self.rank).find(|rank| self.peers[*rank].is_here()).unwrap_or(self.rank)
    }

    fn lead(&mut self) {
        self.highest = self.highest.saturating_add(1);
        let ballot = Ballot { number: self.highest, leader: self.rank };
        self.phase = Phase::Prepare { ballot, promises: BTreeMap::new() };
    }

    /// All ranks that are not lost have promised: chooses what they are to accept.
    fn choose(&mut self, ballot: Ballot, promises: &BTreeMap<Rank, Promise>) {
        let mut members: Vec<Rank> =
            promises.keys().copied().filter(|rank| self.peers[*rank].is_here()).collect();
        let awake = members.iter().any(|rank| !promises[rank].0.paused);
        let most = promises.values().any(|(vote, _)| vote.most);
        let enough = most && self.are_majority(&members);
        if !awake && !enough && members.len() < self.peers.len() {
            return self.end(AgreementOutcome::Paused);
        }
        let accepted = promises.values().filter_map(|(_, accepted)| accepted.as_ref());
        let decision = match accepted.max_by_key(|(ballot, _)| *ballot) {
            Some((_, decision)) if !decision.alive.contains(&self.rank) => {
                return self.end(AgreementOutcome::LeftOut);
            }
            Some((_, decision)) => decision.clone(),
            None => {
                Decision { vote: members.iter().all(|rank| promises[rank].0.flag), alive: members.clone() }
            }
        };
        members.retain(|rank| decision.alive.contains(rank));
        let quorum = promises.values().map(|(vote, _)| vote.quorum).max().unwrap_or(0);
        if members.len() < quorum {
            return self.end(AgreementOutcome::TooFew { alive: members, quorum });
        }
        if most && !self.are_most(&members) {
            // It goes on as soon as silent ones answer, or says that it was left out.
            return;
        }
        let members = members.into_iter().map(|rank| (rank, None)).collect();
        self.phase = Phase::Accept { ballot, decision, members, most };
    }

    /// Whether these may go on, as [`Vote::most`] says.
    fn are_most(&self, members: &[Rank]) -> bool {
        let has_ended = |rank: Rank| self.peers[rank].gone && !self.peers[rank].lost;
        let alone = (0..self.peers.len()).all(|rank| members.contains(&rank) || has_ended(rank));
        alone || self.are_majority(members)
    }

    /// Whether no others can have decided anything without one of these, by [`Vote::most`].
    fn are_majority(&self, members: &[Rank]) -> bool {
        let (twice, size) = (2 * members.len(), self.peers.len());
        twice > size || (twice == size && members.contains(&0))
    }

    fn end(&mut self, outcome: AgreementOutcome) {
        self.outcome = Some(outcome);
    }
}

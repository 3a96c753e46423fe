//! Membership after a loss: an agreement of the remaining ranks on who they are, and on the AND of their votes.
//!
//! The protocol is single-decree Paxos (Lamport, *Paxos Made Simple*, 2001; <https://doi.org/10.1145/568425.568433>) with
//! one change: a leader needs the acceptances of *all ranks that it does not hold for lost*, not of a majority. So one
//! rank of two can go on alone, as in ULFM's agreement (Bouteiller et al., *ERA*, SC 2015, which assumes that suspicions
//! are never wrong). Here a suspicion may be wrong: a rank that was paused is silent like a dead one. Three rules make
//! that safe:
//!
//! 1. **A decision names its members**, and who has accepted one refuses ranks that it does not name ([`Reply::LeftOut`]).
//!    A rank that was taken for dead hears so from any member, and gives up.
//! 2. **Paused ranks do not decide alone.** The others may have gone on without them and have ended. So one of those that
//!    accept must not have been paused, unless all ranks accept, or a majority where most must ([`Vote::most`]). A pause
//!    does not matter any more when all others have said after it that they have not come ([`Reply::Absent`]).
//! 3. **A vote can be withdrawn** until a decision was accepted with it. A rank whose time is up withdraws.
//!
//! ```text
//! proposer (in the call)                         acceptor (in every process, answers at any time)
//!   lowest rank that is not lost?
//!     no:  Learn to that rank            ------>   Absent | Undecided | Decided(decision)
//!     yes: Prepare(ballot) to all others ------>   Absent | Promise { vote, accepted }
//!          decision = the accepted one of the highest ballot, else { AND of the votes, all who promised }
//!          Accept(ballot, decision)      ------>   Accepted     (to all: Refused(higher) | LeftOut | Resigned)
//!   all have accepted: decided
//! ```
//!
//! The leader may end as soon as it has decided: the next one finds what was accepted. All ranks that get an answer get
//! the same one, also those that die afterwards. Only if the network falls into parts may these get different answers. A
//! quorum ([`Vote::quorum`]) of more than half of the ranks excludes that, too; so does [`Vote::most`], with which the
//! smaller part does not give up, but waits.
//!
//! Nothing here does I/O or reads a clock: the caller delivers requests and replies, and says whom it holds for lost.
//! `tests/agreement.rs` checks all interleavings of messages, pauses, deaths, cuts and timeouts.

mod acceptor;
mod proposer;

use serde::{Deserialize, Serialize};

pub use self::acceptor::Acceptor;
pub use self::proposer::{AgreementOutcome, Proposer, Waiting};
use crate::units::Rank;

/// The number of an attempt to lead. A leader chooses a higher one than all that it has heard of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ballot {
    /// Compared first.
    pub number: u32,
    /// The rank that leads.
    pub leader: Rank,
}

/// What a rank brings to an agreement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Vote {
    /// Its vote.
    pub flag: bool,
    /// The fewest ranks that may go on; the highest value of all ranks counts.
    pub quorum: usize,
    /// Whether only *most* ranks may go on: more than half of all, half with rank 0, or some of which all others have
    /// certainly ended, without having been silent before. Fewer wait for the silent ones. One such vote is enough.
    pub most: bool,
    /// Whether it was paused for so long that the others may have gone on without it.
    pub paused: bool,
}

/// What the remaining ranks have agreed on; the same on all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Decision {
    /// Whether all of them voted for it.
    pub vote: bool,
    /// The remaining ranks, in ascending order.
    pub alive: Vec<Rank>,
}

impl Decision {
    /// Whether these can be ranks of a group of `size`.
    pub fn is_sound(&self, size: usize) -> bool {
        self.alive.is_sorted_by(|a, b| a < b) && self.alive.last().is_some_and(|last| *last < size)
    }
}

/// What a proposer asks an acceptor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProposerRequest {
    /// What has been decided?
    Learn,
    /// Promise to ignore lower ballots, and say what was accepted.
    Prepare(Ballot),
    /// Accept this decision.
    Accept(Ballot, Decision),
}

/// What an acceptor answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Reply {
    /// The rank runs, but it has not come, or its time was up.
    Absent,
    /// It has come, and waits for these ranks.
    Undecided(Vec<Rank>),
    /// It ignores lower ballots from now on.
    Promise {
        /// Its vote.
        vote: Vote,
        /// What it has accepted at the highest ballot so far.
        accepted: Option<(Ballot, Decision)>,
    },
    /// It has accepted the decision.
    Accepted {
        /// Like [`Vote::paused`], by now.
        paused: bool,
    },
    /// It has promised to ignore ballots below this one.
    Refused(Ballot),
    /// This was decided.
    Decided(Decision),
    /// It has accepted a decision that does not name the asker.
    LeftOut,
    /// It was left out itself, and takes no part any more.
    Resigned,
}

//! Before which call all ranks halt, to do something together although each calls in its own time.
//!
//! All ranks make the same calls, each numbered from 1. Rank 0 asks every rank for a *promise*: the number of a call that
//! it will not start before it hears more. When all have promised, it tells every rank the largest of these numbers, and
//! each halts before that call. A rank that gets to its promise before it has heard waits. Until rank 0 has told anybody, it
//! may *withdraw*: it tells all to forget. Whatever is lost, doubled or late on the way, either all ranks halt before the
//! same call, or none does; no clock decides anything.

use serde::{Deserialize, Serialize};

use crate::units::Rank;

/// What rank 0 says to a rank. Rounds have ascending numbers, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Question {
    /// How far will you go? At least `margin` calls, so that mostly nobody has to wait.
    Pause {
        /// The round.
        round: u64,
        /// How many calls.
        margin: u64,
    },
    /// Halt before this call.
    Halt {
        /// The round.
        round: u64,
        /// The number of the call.
        at: u64,
    },
    /// Go on: the round is over.
    Forget {
        /// The round.
        round: u64,
    },
}

/// What a rank answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// It starts no call from this number on before it hears more.
    Promise(u64),
    /// It knows, or the round is over.
    Noted,
    /// It does not take part.
    Declined,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Barrier {
    #[default]
    Open,
    Promised {
        round: u64,
        number: u64,
    },
    Agreed(u64),
}

/// One rank's part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Gate {
    /// The latest round in which it has promised, or that it has forgotten.
    latest: u64,
    barrier: Barrier,
}

/// Whether a call may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Passage {
    /// It may.
    Free,
    /// Not before more is heard.
    Wait,
    /// Not before the rank has done what all do now, and says so by [`Gate::pass`].
    Halt,
}

impl Gate {
    /// The answer to a question. `next`: the number of the call that this rank starts next.
    pub fn answer(&mut self, question: Question, next: u64) -> Answer {
        match (question, self.barrier) {
            (Question::Pause { round, .. }, Barrier::Promised { round: known, number }) if known == round => {
                Answer::Promise(number)
            }
            (Question::Pause { round, .. }, _) if round <= self.latest => Answer::Noted,
            // What the ranks do now may itself take calls.
            (Question::Pause { .. }, Barrier::Agreed(_)) => Answer::Declined,
            (Question::Pause { round, margin }, _) => {
                let number = next.saturating_add(margin);
                *self = Gate { latest: round, barrier: Barrier::Promised { round, number } };
                Answer::Promise(number)
            }
            (Question::Halt { round, at }, Barrier::Promised { round: known, .. }) if known == round => {
                self.barrier = Barrier::Agreed(at);
                Answer::Noted
            }
            (Question::Halt { .. }, _) => Answer::Noted,
            (Question::Forget { round }, barrier) => {
                self.latest = self.latest.max(round);
                if matches!(barrier, Barrier::Promised { round: known, .. } if known <= round) {
                    self.barrier = Barrier::Open;
                }
                Answer::Noted
            }
        }
    }

    /// Calls below this number start without asking.
    pub fn threshold(&self) -> u64 {
        match self.barrier {
            Barrier::Open => u64::MAX,
            Barrier::Promised { number, .. } | Barrier::Agreed(number) => number,
        }
    }

    /// Whether call `number` may start.
    pub fn passage(&self, number: u64) -> Passage {
        match self.barrier {
            _ if number < self.threshold() => Passage::Free,
            Barrier::Open => Passage::Free,
            Barrier::Promised { .. } => Passage::Wait,
            Barrier::Agreed(_) => Passage::Halt,
        }
    }

    /// Everything is done for which the ranks have halted.
    pub fn pass(&mut self) {
        if let Barrier::Agreed(_) = self.barrier {
            self.barrier = Barrier::Open;
        }
    }

    /// Rank 0 has gone before it said where to halt: nobody gets to a call before which others would halt.
    pub fn give_up(&mut self) {
        if let Barrier::Promised { .. } = self.barrier {
            self.barrier = Barrier::Open;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    Asking,
    Telling(u64),
    Forgetting,
}

/// Rank 0's part in a round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Convener {
    round: u64,
    margin: u64,
    phase: Phase,
    promises: Vec<Option<u64>>,
    /// Which ranks know how the round ends.
    noted: Vec<bool>,
}

impl Convener {
    /// Begins a round of so many ranks.
    pub fn begin(round: u64, margin: u64, ranks: usize) -> Convener {
        let (promises, noted) = (vec![None; ranks], vec![false; ranks]);
        Convener { round, margin, phase: Phase::Asking, promises, noted }
    }

    /// What to say to a rank; `None` if it has answered.
    pub fn question(&self, rank: Rank) -> Option<Question> {
        let round = self.round;
        match self.phase {
            Phase::Asking => {
                self.promises[rank].is_none().then_some(Question::Pause { round, margin: self.margin })
            }
            Phase::Telling(at) => (!self.noted[rank]).then_some(Question::Halt { round, at }),
            Phase::Forgetting => (!self.noted[rank]).then_some(Question::Forget { round }),
        }
    }

    /// Takes a rank's answer to a question.
    pub fn hear(&mut self, rank: Rank, question: Question, answer: Answer) {
        match (self.phase, question, answer) {
            (Phase::Asking, Question::Pause { round, .. }, Answer::Promise(promise))
                if round == self.round =>
            {
                self.promises[rank] = Some(promise);
                let all: Option<Vec<u64>> = self.promises.iter().copied().collect();
                if let Some(at) = all.and_then(|all| all.into_iter().max()) {
                    self.phase = Phase::Telling(at);
                }
            }
            (Phase::Asking, Question::Pause { round, .. }, _) if round == self.round => self.withdraw(),
            (Phase::Telling(_), Question::Halt { round, .. }, _)
            | (Phase::Forgetting, Question::Forget { round }, _)
                if round == self.round =>
            {
                self.noted[rank] = true;
            }
            _ => {}
        }
    }

    /// A rank's process has ended. It halts nowhere, and no other rank gets beyond a call that needs it.
    pub fn bury(&mut self, rank: Rank) {
        self.withdraw();
        self.noted[rank] = true;
    }

    /// Ends the round without a halt, unless somebody has been told where to halt.
    pub fn withdraw(&mut self) {
        if self.phase == Phase::Asking {
            self.phase = Phase::Forgetting;
        }
    }

    /// Whether every rank knows how the round ends.
    pub fn is_over(&self) -> bool {
        self.phase != Phase::Asking && self.noted.iter().all(|noted| *noted)
    }

    /// Before which call all halt, if they do.
    pub fn at(&self) -> Option<u64> {
        match self.phase {
            Phase::Telling(at) => Some(at),
            Phase::Asking | Phase::Forgetting => None,
        }
    }
}

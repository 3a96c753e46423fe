//! Agreements of the ranks that are left: asks the others, as the protocol in [`ringroad_core::agreement`] says.
//!
//! A rank counts as lost if its process has ended, if its port refuses, or if it has not answered for [`SILENCE`] while
//! this rank itself was awake. A port that refuses does not prove that the process has ended, since a firewall refuses,
//! too: that is proved by the number of a process on this machine, and elsewhere by a connection that the other kernel has
//! closed ([`LifeLine`](crate::bootstrap::LifeLine)). The caller's deadline proves nothing: when it passes, this rank takes
//! its vote back, and nothing is decided.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::agreement::{AgreementOutcome, Decision, Proposer, Reply, Vote, Waiting};
use ringroad_core::Rank;

use crate::bootstrap::{identity, Heard, ProcessLine, Question, Server, TcpStore, UnreachableProcess};
use crate::communicator::patience::{server, GoOn, Patience, SLICE};
use crate::communicator::Communicator;
use crate::config::Secret;
use crate::error::{refused, Error, Result};
use crate::os::pauses;

/// A rank that has not answered for so long counts as lost.
pub(super) const SILENCE: Duration = Duration::from_secs(6);
/// How long a rank waits beyond its deadline for a decision that others may already act on.
const GRACE: Duration = Duration::from_secs(2);
/// How long a rank may take to answer when this one begins to watch it.
const WITHIN: Duration = Duration::from_secs(2);
/// In larger groups nobody watches: each rank would hold a connection to each.
const MOST_WATCHED: usize = 64;
/// The longest step of the clock by which silence is measured: what is longer, this process was paused.
const STEP: Duration = Duration::from_millis(200);

/// Time in which this process was awake.
#[derive(Debug)]
pub(super) struct Awake {
    last: Instant,
    passed: Duration,
}

impl Awake {
    pub fn new() -> Awake {
        Awake { last: Instant::now(), passed: Duration::ZERO }
    }

    /// The time that has passed. To be called often.
    pub fn passed(&mut self) -> Duration {
        let now = Instant::now();
        self.passed += now.saturating_duration_since(self.last).min(STEP);
        self.last = now;
        self.passed
    }
}

/// What a rank does when its time is up before there is a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// It takes its vote back, and may come again.
    Withdraws,
    /// It votes against, and does not come again.
    Refuses,
}

impl Communicator {
    /// Agrees with all remaining ranks on who they are, and on whether all of them vote `true`. Every remaining rank
    /// calls this equally often, after a failure or before. `most` is [`Vote::most`].
    pub fn agree(&self, flag: bool, most: bool, timeout: Option<Duration>, go_on: &GoOn) -> Result<Decision> {
        let vote = Vote { flag, most, ..Vote::default() };
        self.agree_within(vote, Patience::new(timeout.unwrap_or(self.timeout), go_on))
    }

    pub(super) fn agree_within(&self, vote: Vote, patience: Patience<'_>) -> Result<Decision> {
        let number = self.agreements.next.load(Ordering::Relaxed);
        let decision = self.decide(number, vote, Late::Withdraws, patience)?;
        // After a timeout the same agreement goes on, so that all ranks count alike. Odd numbers are for the second
        // agreement of a shrink.
        self.agreements.next.store(number + 2, Ordering::Relaxed);
        Ok(decision)
    }

    /// Agreement `number` of this communicator.
    pub(super) fn decide(
        &self,
        number: u64,
        vote: Vote,
        late: Late,
        patience: Patience<'_>,
    ) -> Result<Decision> {
        if self.driver.get()?.with(|engine| engine.is_closed()) {
            return Err(Error::Aborted(format!(
                "communicator {:?} is closed, and no longer takes part in agreements: call shrink before close",
                self.name
            )));
        }
        if self.size() == 1 {
            return Ok(Decision { vote: vote.flag, alive: vec![0] });
        }
        // The acceptor is the server's, which answers the others also after this call; the proposer is this call's.
        let server = self.server()?;
        let group = identity(&self.endpoints);
        let mut pauses = pauses::pauses();
        let vote = Vote { paused: pauses > self.agreements.pauses.load(Ordering::Relaxed), ..vote };
        let left_out = self.agreements.left_out.lock().clone();
        let proposer = server.rounds().with(&group, number, |acceptor| {
            let mut proposer = Proposer::join(acceptor, self.rank, self.size(), vote);
            left_out.iter().for_each(|rank| proposer.mark_dead(acceptor, *rank));
            proposer
        });
        let mut round =
            AgreementRound { communicator: self, server, group, number, proposer, unable: BTreeMap::new() };
        let outcome = round.run(&mut pauses, patience);
        if outcome.is_err() {
            round.leave(late, vote);
        }
        let outcome = outcome?;
        if !matches!(outcome, AgreementOutcome::Decided(_)) {
            // It lasts, whatever this rank calls.
            self.resign()?;
        }
        match outcome {
            AgreementOutcome::Decided(decision) if decision.is_sound(self.size()) => {
                // The others count on this rank, so that earlier pauses do not matter any more.
                self.agreements.pauses.store(pauses, Ordering::Relaxed);
                *self.agreements.left_out.lock() =
                    (0..self.size()).filter(|rank| !decision.alive.contains(rank)).collect();
                Ok(decision)
            }
            AgreementOutcome::Decided(_) => {
                Err(Error::Store("a rank has sent an invalid list of the remaining ranks".to_owned()))
            }
            AgreementOutcome::LeftOut => Err(Error::Aborted(format!(
                "the other ranks declared {} dead, because it did not answer for {} s, and go on without it",
                self.endpoints[self.rank],
                SILENCE.as_secs()
            ))),
            AgreementOutcome::Paused => Err(Error::Aborted(format!(
                "{} was stopped for seconds, and none of the others is left who could say whether they went on without \
                 it; end this process",
                self.endpoints[self.rank]
            ))),
            AgreementOutcome::TooFew { alive, quorum } => Err(Error::Aborted(format!(
                "only {} of {} ranks are left here (ranks {alive:?}), fewer than the quorum of {quorum}; end this \
                 process, since others may go on",
                alive.len(),
                self.size()
            ))),
        }
    }

    /// From now on this rank can learn that others have certainly ended, whatever refuses connections to them: it opens
    /// connections to those of other machines, in the background.
    pub fn watch(&self) -> Result<()> {
        let secret = self.means()?.config.secret.as_ref().map(|secret| secret.reveal().to_owned());
        let (agreements, endpoints) = (Arc::downgrade(&self.agreements), self.endpoints.clone());
        let handles = endpoints.iter().filter_map(|one| Some((one.rank, one.handle.clone()?)));
        let others: Vec<_> = handles.filter(|(_, handle)| !handle.is_visible()).collect();
        if others.is_empty() || self.size() > MOST_WATCHED {
            return Ok(());
        }
        let watch = move || {
            for (rank, handle) in others {
                let store = TcpStore::connect(&handle, secret.as_deref(), Instant::now() + WITHIN);
                let line = store.ok().and_then(TcpStore::watch);
                let Some(agreements) = agreements.upgrade() else { return };
                agreements.watched.lock().extend(line.map(|line| (rank, line)));
            }
        };
        let thread = thread::Builder::new().name("ringroad-watch".to_owned()).spawn(watch);
        thread
            .map(drop)
            .map_err(|error| Error::Transport(refused("cannot start a thread to watch other ranks", &error)))
    }

    /// This rank takes no part in agreements any more. To the others that is as if its process had ended.
    pub(in crate::communicator) fn resign(&self) -> Result<()> {
        if self.size() > 1 {
            self.server()?.rounds().resign(&identity(&self.endpoints));
        }
        Ok(())
    }

    /// Votes against, without waiting for the others.
    pub(super) fn refuse(&self, number: u64) -> Result<()> {
        let vote = Vote::default();
        self.server()?.rounds().with(&identity(&self.endpoints), number, |acceptor| acceptor.join(vote));
        Ok(())
    }

    fn server(&self) -> Result<Arc<Server>> {
        server(&self.means()?.config)
    }
}

/// This rank's part in one agreement.
struct AgreementRound<'a> {
    communicator: &'a Communicator,
    server: Arc<Server>,
    group: String,
    number: u64,
    proposer: Proposer,
    /// Whom this process could not ask at last, and why.
    unable: BTreeMap<Rank, UnreachableProcess>,
}

impl AgreementRound<'_> {
    /// Asks the others until there is an outcome. `pauses` are those that are known.
    fn run(&mut self, pauses: &mut u64, patience: Patience<'_>) -> Result<AgreementOutcome> {
        let (tell, heard) = channel();
        let mut lines: Vec<Option<ProcessLine>> = (0..self.communicator.size()).map(|_| None).collect();
        // When each rank was asked what it has not answered.
        let mut asked: Vec<Option<Duration>> = vec![None; self.communicator.size()];
        let mut awake = Awake::new();
        loop {
            let now = awake.passed();
            let known = pauses::pauses();
            if known > *pauses {
                *pauses = known;
                self.step(|proposer, acceptor| proposer.note_pause(acceptor));
            }
            self.mark_watched_dead();
            for rank in 0..self.communicator.size() {
                if asked[rank].is_some_and(|since| now - since > SILENCE) && self.proposer.counts_on(rank) {
                    self.step(|proposer, acceptor| proposer.lose(acceptor, rank));
                }
                let request = if asked[rank].is_none() { self.proposer.request(rank) } else { None };
                if let Some(request) = request {
                    if lines[rank].is_none() {
                        lines[rank] = Some(self.line(rank, tell.clone())?);
                    }
                    let (group, number, from) = (self.group.clone(), self.number, self.communicator.rank);
                    let question = Question::Agree { group, number, from, request };
                    lines[rank].iter().for_each(|line| line.ask(question.clone()));
                    asked[rank] = Some(now);
                }
            }
            if let Some(outcome) = self.proposer.outcome() {
                return Ok(outcome.clone());
            }
            self.check(patience)?;
            match heard.recv_timeout(SLICE) {
                Ok((rank, Heard::Reply(request, reply))) => {
                    asked[rank] = None;
                    self.unable.remove(&rank);
                    if is_sound(&reply, self.communicator.size()) {
                        self.step(|proposer, acceptor| {
                            proposer.receive_reply(acceptor, rank, &request, reply)
                        });
                    }
                }
                Ok((rank, Heard::Ended(_))) => {
                    self.step(|proposer, acceptor| proposer.mark_dead(acceptor, rank));
                }
                Ok((rank, Heard::Unreached(why @ UnreachableProcess::Refused(_)))) => {
                    // The kernel of who is watched may say in a moment that it has ended, and who was lost before it ended
                    // may have gone on with others.
                    if !self.communicator.agreements.watched.lock().contains_key(&rank) {
                        self.step(|proposer, acceptor| proposer.lose(acceptor, rank));
                    }
                    self.unable.insert(rank, why);
                }
                Ok((rank, Heard::Unreached(why @ UnreachableProcess::Unable(..)))) => {
                    // Its silence begins anew.
                    asked[rank] = Some(awake.passed());
                    self.unable.insert(rank, why);
                }
                Ok((_, Heard::Alive | Heard::Unreached(_))) | Err(_) => {}
            }
        }
    }

    /// Notes which of those that are watched have ended. At their port another process may listen by now.
    fn mark_watched_dead(&mut self) {
        let watched = self.communicator.agreements.watched.lock();
        let ended = watched.iter().filter(|(rank, line)| !self.proposer.is_gone(**rank) && line.has_ended());
        let ended: Vec<Rank> = ended.map(|(rank, _)| *rank).collect();
        drop(watched);
        for rank in ended {
            self.step(|proposer, acceptor| proposer.mark_dead(acceptor, rank));
        }
    }

    /// Does something with both halves of the protocol.
    fn step(&mut self, act: impl FnOnce(&mut Proposer, &mut ringroad_core::agreement::Acceptor)) {
        let proposer = &mut self.proposer;
        self.server.rounds().with(&self.group, self.number, |acceptor| {
            act(proposer, acceptor);
            acceptor.await_ranks(awaited(proposer));
        });
    }

    fn line(&self, rank: Rank, tell: std::sync::mpsc::Sender<(usize, Heard)>) -> Result<ProcessLine> {
        let secret = self.communicator.means()?.config.secret.as_ref().map(Secret::reveal);
        let line =
            ProcessLine::open(rank, self.communicator.handle(rank)?.clone(), secret.map(str::to_owned), tell);
        line.map_err(|error| Error::Transport(refused("cannot start a thread to ask other ranks", &error)))
    }

    /// An error if the user has interrupted, or the time is up and no decision can come.
    fn check(&self, patience: Patience<'_>) -> Result<()> {
        (patience.go_on)()?;
        let over = Instant::now().checked_duration_since(patience.deadline);
        let Some(over) = over else { return Ok(()) };
        let free = self.server.rounds().with(&self.group, self.number, |acceptor| acceptor.withdraw());
        if !free && over < GRACE {
            return Ok(());
        }
        let waiting: Vec<String> =
            self.proposer.waiting().into_iter().map(|waiting| self.text(&waiting)).collect();
        let so_far = match free {
            true => "nothing was decided",
            false => "others may have decided with this rank's vote, and the same call again returns that",
        };
        Err(Error::Timeout(format!(
            "the ranks have not agreed on who is left: {}; {so_far}; allow more time (timeout=, RINGROAD_TIMEOUT)",
            if waiting.is_empty() {
                "too few are, and others were silent before they ended".to_owned()
            } else {
                waiting.join(", ")
            }
        )))
    }

    /// Leaves before there is an outcome.
    fn leave(&mut self, late: Late, vote: Vote) {
        self.server.rounds().with(&self.group, self.number, |acceptor| {
            if acceptor.withdraw() && late == Late::Refuses {
                acceptor.join(Vote { flag: false, ..vote });
            }
        });
    }

    fn text(&self, waiting: &Waiting) -> String {
        let endpoint = |rank: &Rank| &self.communicator.endpoints[*rank];
        match waiting {
            Waiting::Absent(rank) => format!("{} runs, but has not come to agree", endpoint(rank)),
            Waiting::Silent(rank) => match self.unable.get(rank) {
                Some(why) => why.to_string(),
                None => format!("{} has not answered so far", endpoint(rank)),
            },
            Waiting::Leading(rank, others) => {
                let others: Vec<String> = others
                    .iter()
                    .filter(|other| **other < self.communicator.size())
                    .map(|other| endpoint(other).to_string())
                    .collect();
                format!("{} waits for {}", endpoint(rank), others.join(", "))
            }
        }
    }
}

/// Whom a rank waits for.
fn awaited(proposer: &Proposer) -> Vec<Rank> {
    let ranks = proposer.waiting().into_iter().flat_map(|waiting| match waiting {
        Waiting::Absent(rank) | Waiting::Silent(rank) => vec![rank],
        Waiting::Leading(_, others) => others,
    });
    ranks.collect()
}

/// Whether the decisions in a reply can be those of a group of `size` ranks.
fn is_sound(reply: &Reply, size: usize) -> bool {
    match reply {
        Reply::Decided(decision) | Reply::Promise { accepted: Some((_, decision)), .. } => {
            decision.is_sound(size)
        }
        _ => true,
    }
}

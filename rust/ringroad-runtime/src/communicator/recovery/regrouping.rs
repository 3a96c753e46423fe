//! Regrouping after a loss: the remaining ranks agree on who they are, and form a new communicator.
//!
//! Every process has a store of its own, named by its [`Handle`], so nothing depends on the process that held the
//! job's first store. `shrink` agrees on who is left (`agree.rs`), connects them over the lowest one's store, and agrees
//! on whether all could connect. Only then the new communicator is returned. If ranks were lost meanwhile, it starts
//! again.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::agreement::{Decision, Vote};
use ringroad_core::Rank;
use sha2::{Digest, Sha256};

use super::membership::{Awake, Late, SILENCE};
use crate::bootstrap::{
    hex, identity, Handle, Heard, MemoryStore, PrefixStore, ProcessLine, Question, Server, Store, StoreError,
    TcpStore, UnreachableProcess,
};
use crate::choice::options::{fitting, part_of};
use crate::communicator::connection::{check_group, Means};
use crate::communicator::patience::{server, GoOn, Heeding, Patience};
use crate::communicator::Communicator;
use crate::config::{Config, Secret, TopologySource};
use crate::error::{refused, Error, Result};
use crate::os::lock::Mutex;

/// A try to shrink: the number of its first agreement, who was left, and the communicator of these.
type Attempt = (u64, Vec<Rank>, Result<Communicator>);

/// How long a process may take to take up a call, before the caller looks around and calls again.
const CALL: Duration = Duration::from_secs(3);
/// How often rank 0 looks whether all others have answered.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

impl Means {
    /// As [`Means::connect`], as long as the caller has patience.
    fn connect_patiently(
        &self,
        patience: Patience<'_>,
        store: Arc<dyn Store>,
        rank: Rank,
        size: usize,
    ) -> Result<Communicator> {
        let store = Arc::new(Heeding { store, go_on: patience.go_on.clone() });
        self.connect(patience.start..patience.deadline, store, rank, size)
    }

    /// A group of this process alone. Nobody has to find it, and it needs no handle.
    pub(super) fn alone(&self, patience: Patience<'_>) -> Result<Communicator> {
        self.connect_patiently(patience, Arc::new(MemoryStore::new()), 0, 1)
    }
}

impl Communicator {
    /// Makes the processes that issued these handles the ranks of a new communicator, in this order; this process is
    /// rank `rank`. All of them call this with the same handles and the same `name`, which differs for every attempt.
    pub fn regroup(
        handles: &[Handle],
        rank: Rank,
        name: &str,
        means: &Means,
        go_on: &GoOn,
    ) -> Result<Communicator> {
        let patience = Patience::new(means.options.timeout(&means.config), go_on);
        Communicator::regroup_within(patience, SILENCE, handles, rank, name, means)
    }

    /// As [`Communicator::regroup`], in a part of the time that the caller has. A rank that is silent for longer than
    /// `silence` counts as lost.
    pub(super) fn regroup_within(
        patience: Patience<'_>,
        silence: Duration,
        handles: &[Handle],
        rank: Rank,
        name: &str,
        means: &Means,
    ) -> Result<Communicator> {
        check_group(rank, handles.len())?;
        // The topology of the settings may describe the job as it was started.
        let mut means = means.clone();
        if let (TopologySource::Given(topology), None) = (&means.config.topology, &means.options.topology) {
            means.config.topology = fitting(Some((**topology).clone()), handles.len(), rank == 0).into();
        }
        let config = &means.config;
        if let Some(twice) = (1..handles.len()).find(|&i| handles[..i].contains(&handles[i])) {
            return Err(Error::Argument(format!("there are two handles of {}", handles[twice])));
        }
        if handles.len() == 1 {
            return means.alone(patience);
        }
        let server = server(config)?;
        let lists = HandleLists { name, place: &place(handles, name), own: &text(handles) };
        let watch = Arc::new(MeetingWatch::over(handles, rank, config, &lists, silence)?);
        let alert: GoOn = {
            let (go_on, watch) = (patience.go_on.clone(), watch.clone());
            Arc::new(move || go_on().and_then(|()| watch.check_ranks()))
        };
        let watched = Patience { go_on: &alert, ..patience };
        let made = if rank == 0 {
            invite(&server, handles, &lists, &watch, watched).and_then(|()| {
                let store = PrefixStore::new(lists.place, server.values().clone());
                means.connect_patiently(watched, Arc::new(store), rank, handles.len())
            })
        } else {
            join(handles, &lists, config, watched).and_then(|store| {
                let store = PrefixStore::new(lists.place, store);
                means.connect_patiently(watched, Arc::new(store), rank, handles.len())
            })
        };
        let made = made.map_err(|error| match error {
            Error::Timeout(text) => Error::Timeout(lists.explain(&server, text)),
            // The store is rank 0's: if it fails, rank 0 may be lost.
            Error::Store(_) if rank > 0 => match reach(&handles[0], config, patience.deadline) {
                Err(gone @ (UnreachableProcess::Gone(_) | UnreachableProcess::Refused(_))) => {
                    lost(0, &gone).into()
                }
                // The watch says whether it is silent.
                _ => error,
            },
            other => other,
        });
        lists.forget(&server, made.is_ok());
        made
    }

    /// The handles by which others find the ranks' processes; `None` for a rank that cannot listen or has no handle.
    pub fn handles(&self) -> Vec<Option<&Handle>> {
        self.endpoints().iter().map(|endpoint| endpoint.handle.as_ref()).collect()
    }

    /// The communicator of all remaining ranks, in the same order. Every one of them calls this, mostly after an
    /// [`Error::Peer`]. Fewer ranks than `quorum` do not go on. This communicator cannot be used afterwards.
    pub fn shrink(&self, timeout: Option<Duration>, quorum: usize, go_on: &GoOn) -> Result<Communicator> {
        if quorum > self.size() {
            let text = format!("quorum is {quorum}, but there are only {} ranks", self.size());
            return Err(Error::Argument(text));
        }
        let means = self.means()?;
        let patience = Patience::new(timeout.unwrap_or(self.timeout), go_on);
        let (unsure, next) =
            (self.agreements.unsure.lock().take(), self.agreements.next.load(Ordering::Relaxed));
        let mut unsure = unsure.filter(|(number, ..)| number + 2 == next);
        let mut tried = None;
        loop {
            let (number, alive, made) = match unsure.take() {
                Some((number, alive, made)) => (number, alive, Ok(made)),
                None => self.attempt(quorum, means, patience)?,
            };
            // Either all ranks have the new communicator or none has: others may have died meanwhile.
            let vote = Vote { flag: made.is_ok(), quorum, ..Vote::default() };
            let all = match (self.decide(number + 1, vote, Late::Refuses, patience), &made) {
                (Err(error @ (Error::Timeout(_) | Error::Store(_))), Ok(_)) => {
                    // The others may have decided to go on with it: the next shrink learns that.
                    *self.agreements.unsure.lock() = made.ok().map(|made| (number, alive, made));
                    return Err(error);
                }
                (all, _) => all?,
            };
            if made.is_ok() && all.vote && all.alive == alive {
                return made;
            }
            // All know the same, so all try again, or none. The time of one may have been up, or a rank was paused.
            if all.alive == alive && tried.replace(alive.clone()) == Some(alive) {
                let why = match made {
                    Ok(_) => "look at its own error".to_owned(),
                    Err(error @ (Error::Peer { .. } | Error::Aborted(_))) => error.to_string(),
                    Err(error) => return Err(error),
                };
                return Err(Error::Timeout(could_not_join(&why)));
            }
        }
    }

    /// Agrees on who is left, and connects these: the number of the agreement, its outcome, and what was made.
    fn attempt(&self, quorum: usize, means: &Means, patience: Patience<'_>) -> Result<Attempt> {
        let number = self.agreements.next.load(Ordering::Relaxed);
        let Decision { alive, .. } =
            self.agree_within(Vote { flag: true, quorum, ..Vote::default() }, patience)?;
        match self.smaller(&alive, number, means, patience) {
            // Whatever the cause is, there is no time for another attempt.
            Err(error) if patience.left().is_zero() => {
                self.refuse(number + 1)?;
                Err(match error {
                    Error::Peer { .. } | Error::Aborted(_) => {
                        Error::Timeout(could_not_join(&error.to_string()))
                    }
                    error => error,
                })
            }
            made => Ok((number, alive, made)),
        }
    }

    /// The communicator of these ranks, as agreement `number` has named them.
    fn smaller(
        &self,
        alive: &[Rank],
        number: u64,
        means: &Means,
        patience: Patience<'_>,
    ) -> Result<Communicator> {
        let mut means = means.clone();
        let is_first = alive.first() == Some(&self.rank);
        means.options.topology = part_of(self.known_topology(), alive, is_first);
        means.config.topology = self.choices.origin.source_for_parts();
        means.options.timeout = Some(self.timeout);
        means.options.is_part = true;
        let rank = alive.iter().position(|rank| *rank == self.rank).expect("this rank is alive");
        if alive.len() == 1 {
            return means.alone(patience);
        }
        let handles = alive.iter().map(|rank| self.handle(*rank).cloned()).collect::<Result<Vec<_>>>()?;
        let name = format!("{}/{number}", identity(&self.endpoints));
        Communicator::regroup_within(patience, SILENCE, &handles, rank, &name, &means)
    }

    pub(super) fn handle(&self, rank: Rank) -> Result<&Handle> {
        self.endpoints[rank].handle.as_ref().ok_or_else(|| {
            let text = format!(
                "{} could not open a port to listen on, so that it cannot be found again",
                self.endpoints[rank]
            );
            Error::Transport(text)
        })
    }
}

fn could_not_join(why: &str) -> String {
    format!(
        "another rank could not join the smaller group ({why}); nothing has changed, and all ranks can call shrink again"
    )
}

/// The prefix of the keys in rank 0's store under which these processes meet.
fn place(handles: &[Handle], name: &str) -> String {
    let mut digest = Sha256::new();
    handles.iter().for_each(|handle| digest.update(handle.to_text()));
    format!("regroup/{}/{name}", hex(&digest.finalize()[..16]))
}

/// `process 17 on host a, process 18 on host a`.
fn text(handles: &[Handle]) -> String {
    let texts: Vec<String> = handles.iter().map(Handle::to_string).collect();
    texts.join(", ")
}

/// Calls a process once, for requests until the deadline.
fn reach(
    handle: &Handle,
    config: &Config,
    deadline: Instant,
) -> std::result::Result<TcpStore, UnreachableProcess> {
    let secret = config.secret.as_ref().map(Secret::reveal);
    let store = TcpStore::connect(handle, secret, deadline.min(Instant::now() + CALL))?;
    Ok(store.until(deadline))
}

/// The lists of handles under one name. The ranks tell each other theirs, so that an error can say that they differ.
struct HandleLists<'a> {
    name: &'a str,
    place: &'a str,
    own: &'a str,
}

impl HandleLists<'_> {
    /// The prefix of the keys at which others tell their lists.
    fn told(&self) -> String {
        format!("regroup-lists/{}/", self.name)
    }

    /// Tells another process this rank's list.
    fn tell(&self) -> Question {
        let digest = hex(&Sha256::digest(self.own)[..8]);
        Question::Set { key: format!("{}{digest}", self.told()), value: self.own.into() }
    }

    /// The text of an error, with what others have told.
    fn explain(&self, server: &Server, text: String) -> String {
        let others = server.values().under(&self.told());
        match others.iter().find(|other| ***other != *self.own.as_bytes()) {
            None => text,
            Some(other) => format!(
                "{text}. The lists of handles differ: another rank waits for {}, this one for {}; pass the same list, in the \
                 same order, on all",
                String::from_utf8_lossy(other),
                self.own
            ),
        }
    }

    /// Removes what is not needed any more. If the ranks have not met, others may still have to read why.
    fn forget(&self, server: &Server, have_met: bool) {
        server.values().remove(&self.told());
        if have_met {
            // The last step was a barrier: all ranks have read the stored values.
            server.values().remove(&format!("{}/", self.place));
        } else {
            server.remove_later(format!("{}/", self.place));
        }
    }
}

/// Notices while the ranks meet that one of them is lost: rank 0 watches all others, and these watch rank 0.
struct MeetingWatch {
    watched: Mutex<WatchedRanks>,
}

struct WatchedRanks {
    handles: Vec<Handle>,
    lines: Vec<(Rank, ProcessLine)>,
    heard: Receiver<(usize, Heard)>,
    awake: Awake,
    /// When each rank last answered.
    last: Vec<Option<Duration>>,
    /// How long a rank may be silent.
    silence: Duration,
}

impl MeetingWatch {
    fn over(
        handles: &[Handle],
        rank: Rank,
        config: &Config,
        lists: &HandleLists<'_>,
        silence: Duration,
    ) -> Result<MeetingWatch> {
        let (tell, heard) = channel();
        let mut lines = Vec::new();
        let watched = if rank == 0 { 1..handles.len() } else { 0..1 };
        for other in watched {
            let secret = config.secret.as_ref().map(|secret| secret.reveal().to_owned());
            let line =
                ProcessLine::open(other, handles[other].clone(), secret, tell.clone()).map_err(|error| {
                    Error::Transport(refused("cannot start a thread to watch other ranks", &error))
                })?;
            line.ask(lists.tell());
            lines.push((other, line));
        }
        let (handles, last) = (handles.to_vec(), vec![None; handles.len()]);
        let awake = Awake::new();
        Ok(MeetingWatch { watched: Mutex::new(WatchedRanks { handles, lines, heard, awake, last, silence }) })
    }

    /// An error if a rank is lost.
    fn check_ranks(&self) -> std::result::Result<(), StoreError> {
        let mut watched = self.watched.lock();
        let WatchedRanks { handles, lines, heard, awake, last, silence } = &mut *watched;
        let now = awake.passed();
        while let Ok((rank, news)) = heard.try_recv() {
            match news {
                Heard::Unreached(UnreachableProcess::Silent(_)) => continue,
                Heard::Unreached(why @ UnreachableProcess::Unable(..)) => {
                    let action = format!("watch rank {rank} of the new group");
                    return Err(StoreError::Failed { action, reason: why.to_string() });
                }
                Heard::Ended(why) | Heard::Unreached(why) => return Err(lost(rank, &why)),
                _ => {}
            }
            last[rank] = Some(now);
            lines.iter().filter(|(other, _)| *other == rank).for_each(|(_, line)| line.ask(Question::Alive));
        }
        match lines.iter().find(|(rank, _)| now - last[*rank].unwrap_or_default() > *silence) {
            Some((rank, _)) => Err(lost(*rank, &UnreachableProcess::Silent(handles[*rank].to_string()))),
            None => Ok(()),
        }
    }

    /// A rank that has not answered so far.
    fn unheard(&self) -> Option<Rank> {
        let watched = self.watched.lock();
        watched.lines.iter().map(|(rank, _)| *rank).find(|rank| watched.last[*rank].is_none())
    }
}

fn lost(rank: Rank, why: &UnreachableProcess) -> StoreError {
    StoreError::Lost { rank, message: format!("rank {rank} of the new group: {why}") }
}

/// Rank 0 checks whether all processes can be reached, and tells them.
fn invite(
    server: &Server,
    handles: &[Handle],
    lists: &HandleLists<'_>,
    watch: &MeetingWatch,
    patience: Patience<'_>,
) -> Result<()> {
    let reached = loop {
        let Some(rank) = watch.unheard() else { break Ok(()) };
        match patience.next(|| format!("{} could not be reached in time", handles[rank])) {
            Ok(_) => std::thread::sleep(POLL_INTERVAL),
            Err(error) => break Err(error),
        }
    };
    let told = match &reached {
        Ok(()) => String::new(),
        Err(Error::Peer { rank, message }) => format!("{rank} {message}"),
        Err(error) => format!("0 rank 0 of the new group, {}, gave up: {error}", handles[0]),
    };
    server.values().set(&invitation(lists.place), told.as_bytes())?;
    reached
}

/// The other ranks learn from rank 0 whether all processes can be reached, or which one cannot. Returns rank 0's store.
fn join(
    handles: &[Handle],
    lists: &HandleLists<'_>,
    config: &Config,
    patience: Patience<'_>,
) -> Result<TcpStore> {
    let late = || format!("rank 0 of the new group, {}, runs, but has not called regroup", handles[0]);
    let mut store = None;
    loop {
        let until = patience.next(late)?;
        let Some(reached) = store.take().or_else(|| reach(&handles[0], config, patience.deadline).ok())
        else {
            // The watch says whether it is lost.
            std::thread::sleep(POLL_INTERVAL);
            continue;
        };
        match reached.wait(&invitation(lists.place), until) {
            Ok(told) if told.is_empty() => return Ok(reached),
            Ok(told) => {
                let told = String::from_utf8_lossy(&told);
                let (rank, message) = told.split_once(' ').unwrap_or(("0", &told));
                let rank = rank.parse().ok().filter(|rank| *rank < handles.len()).unwrap_or(0);
                return Err(Error::Peer { rank, message: message.to_owned() });
            }
            Err(StoreError::Timeout { .. }) => store = Some(reached),
            Err(_) => {}
        }
    }
}

fn invitation(place: &str) -> String {
    format!("{place}/invitation")
}

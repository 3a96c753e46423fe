//! Regrouping after a loss: the remaining ranks agree on who they are, and form a new communicator.
//!
//! Every process has a store of its own, named by its [`Handle`], so nothing depends on the process that held the
//! job's first store. The lowest rank that is alive leads an agreement. It asks all others for their votes. A rank
//! that has answered a leader accepts nothing from lower leaders any more. It also tells the leader which decision it
//! has accepted before, which the leader then takes over. So all remaining ranks come to one decision, whenever ranks
//! die, as long as no living rank is taken for dead. A rank that is taken for dead, because it was stopped or cut off
//! for seconds, gets an error that says so.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::Rank;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::connect::check_group;
use super::Communicator;
use crate::bootstrap::{
    hex, identity, Handle, MemoryStore, PrefixStore, Promise, Server, Store, StoreError, TcpStore,
    Unreachable,
};
use crate::config::{Config, Secret};
use crate::error::{Error, Result};
use crate::options::Options;

/// How often a rank that waits checks whether the caller has interrupted.
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// What a communicator was made with, so that another one can be made the same way.
#[derive(Clone)]
pub struct Means {
    /// As in [`Communicator::connect`].
    pub wheel: Option<PathBuf>,
    /// The settings.
    pub config: Config,
    /// The caller's options.
    pub options: Options,
}

/// Called many times a second while a rank waits for others. Returns an error if the user has interrupted.
pub type GoOn = Arc<dyn Fn() -> std::result::Result<(), StoreError> + Send + Sync>;

/// How long to wait for others.
#[derive(Clone, Copy)]
pub(super) struct Patience<'a> {
    pub deadline: Instant,
    pub go_on: &'a GoOn,
}

impl Patience<'_> {
    /// The time that is left until the deadline.
    pub fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The end of the next slice of waiting; an error if there is none. `text` says what has not happened.
    fn next(&self, text: impl Fn() -> String) -> Result<Instant> {
        let now = Instant::now();
        (self.go_on)()?;
        if now >= self.deadline {
            return Err(Error::Timeout(format!("{}; allow more time (timeout=, RINGROAD_TIMEOUT)", text())));
        }
        Ok(self.deadline.min(now + SLICE))
    }
}

/// A store whose users check whether the caller has interrupted.
pub(super) struct Heeding {
    pub store: Arc<dyn Store>,
    pub go_on: GoOn,
}

impl Store for Heeding {
    fn set(&self, key: &str, value: &[u8]) -> std::result::Result<(), StoreError> {
        self.store.set(key, value)
    }

    fn get(&self, key: &str) -> std::result::Result<Option<Vec<u8>>, StoreError> {
        self.store.get(key)
    }

    fn wait(&self, key: &str, deadline: Instant) -> std::result::Result<Vec<u8>, StoreError> {
        self.store.wait(key, deadline)
    }

    fn go_on(&self) -> std::result::Result<(), StoreError> {
        (self.go_on)()
    }

    fn host(&self) -> Option<String> {
        self.store.host()
    }
}

/// What the remaining ranks have agreed on; the same on all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// Whether all of them voted for it.
    pub vote: bool,
    /// The remaining ranks, in ascending order.
    pub alive: Vec<Rank>,
}

impl Agreement {
    pub(crate) fn parse(bytes: &[u8], size: usize) -> Result<Agreement> {
        let sound =
            |a: &Agreement| a.alive.is_sorted_by(|a, b| a < b) && a.alive.last().is_some_and(|r| *r < size);
        let agreement = serde_json::from_slice(bytes).ok().filter(sound);
        agreement
            .ok_or_else(|| Error::Store("a rank has sent an invalid list of the remaining ranks".to_owned()))
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
        let Means { wheel, config, options } = means;
        check_group(rank, handles.len())?;
        // The topology of the settings may describe the job as it was started.
        let mut config = config.clone();
        config.topology = config.topology.filter(|topology| topology.ranks() == handles.len());
        let config = &config;
        if let Some(twice) = (1..handles.len()).find(|&i| handles[..i].contains(&handles[i])) {
            return Err(Error::Argument(format!("there are two handles of {}", handles[twice])));
        }
        let timeout = options.timeout(config);
        let patience = Patience { deadline: Instant::now() + timeout, go_on };
        let connect = |store: Arc<dyn Store>| {
            let store = Arc::new(Heeding { store, go_on: go_on.clone() });
            let within = Options { timeout: Some(patience.left()), ..options.clone() };
            let made = Communicator::connect(store, rank, handles.len(), wheel.clone(), config, &within);
            made.map(|communicator| Communicator { timeout, ..communicator })
        };
        if handles.len() == 1 {
            return connect(Arc::new(MemoryStore::new()));
        }
        let name = &place(handles, name);
        let server = server(config)?;
        if rank == 0 {
            let lost = invite(&server, handles, name, config, patience)?;
            if let Some((rank, message)) = lost {
                return Err(Error::Peer { rank, message });
            }
            let made = connect(Arc::new(PrefixStore::new(name, server.values().clone())));
            // The last step was a barrier: all ranks have read the stored values.
            if made.is_ok() {
                server.values().remove(&format!("{name}/"));
            }
            return made;
        }
        let store = reach(&handles[0], config, patience.deadline)
            .map_err(|error| Error::Peer { rank: 0, message: format!("rank 0 of the new group: {error}") })?;
        join(&store, handles, name, patience)?;
        let made = connect(Arc::new(PrefixStore::new(name, store)));
        // The store is rank 0's: if it fails, rank 0 may be lost.
        let Err(error @ Error::Store(_)) = made else { return made };
        Err(match reach(&handles[0], config, patience.deadline) {
            Err(lost) => Error::Peer { rank: 0, message: format!("rank 0 of the new group: {lost}") },
            Ok(_) => error,
        })
    }

    /// The handles by which others find the ranks' processes; `None` for a rank that cannot listen or has no handle.
    pub fn handles(&self) -> Vec<Option<&Handle>> {
        self.cards().iter().map(|card| card.handle.as_ref()).collect()
    }

    /// Agrees with all remaining ranks on who they are, and on whether all of them vote `true`. Every remaining rank
    /// calls this equally often, after a failure or before.
    pub fn agree(&self, vote: bool, timeout: Option<Duration>, go_on: &GoOn) -> Result<Agreement> {
        let deadline = Instant::now() + timeout.unwrap_or(self.timeout);
        self.agree_until(vote, Patience { deadline, go_on })
    }

    /// The communicator of all remaining ranks, in the same order. Every one of them calls this, mostly after an
    /// [`Error::Peer`]. This communicator cannot be used afterwards.
    pub fn shrink(&self, timeout: Option<Duration>, go_on: &GoOn) -> Result<Communicator> {
        let means = self.means()?;
        let patience = Patience { deadline: Instant::now() + timeout.unwrap_or(self.timeout), go_on };
        for attempt in 0.. {
            let Agreement { alive, .. } = self.agree_until(true, patience)?;
            let handles = alive.iter().map(|rank| self.handle(*rank).cloned()).collect::<Result<Vec<_>>>()?;
            let number = alive.iter().position(|rank| *rank == self.rank).expect("this rank is alive");
            let made = self.smaller(&handles, number, attempt, means, patience);
            // Either all ranks have the new communicator or none has: others may have died meanwhile.
            let all = self.agree_until(made.is_ok(), patience)?;
            match made {
                Ok(communicator) if all.vote && all.alive == alive => return Ok(communicator),
                Ok(_) if all.alive == alive => {
                    let text = "another rank could not join the smaller group; look at its own error";
                    return Err(Error::Aborted(text.to_owned()));
                }
                Err(error) if all.alive == alive => return Err(error),
                _ => {}
            }
        }
        unreachable!("attempts end at the deadline")
    }

    fn smaller(
        &self,
        handles: &[Handle],
        rank: Rank,
        attempt: usize,
        means: &Means,
        patience: Patience<'_>,
    ) -> Result<Communicator> {
        let mut means = means.clone();
        // A topology that was given for all ranks does not describe fewer.
        let fits = |topology: &ringroad_core::Topology| topology.ranks() == handles.len();
        means.options.topology = means.options.topology.filter(fits);
        means.options.timeout = Some(patience.left());
        let number = self.agreements.load(Ordering::Relaxed);
        let name = format!("{}/{number}/{attempt}", identity(&self.cards));
        let made = Communicator::regroup(handles, rank, &name, &means, patience.go_on);
        made.map(|communicator| Communicator { timeout: self.timeout, ..communicator })
    }

    fn means(&self) -> Result<&Means> {
        self.means.as_deref().ok_or_else(|| {
            Error::Argument(
                "ranks that are threads of one process are lost together; there is nobody to regroup"
                    .to_owned(),
            )
        })
    }

    pub(super) fn handle(&self, rank: Rank) -> Result<&Handle> {
        self.cards[rank].handle.as_ref().ok_or_else(|| {
            let text = format!(
                "{} could not open a port to listen on, so that it cannot be found again",
                self.cards[rank]
            );
            Error::Transport(text)
        })
    }

    fn agree_until(&self, vote: bool, patience: Patience<'_>) -> Result<Agreement> {
        self.driver.get()?;
        if self.size() == 1 {
            return Ok(Agreement { vote, alive: vec![0] });
        }
        let config = &self.means()?.config;
        let server = server(config)?;
        let number = self.agreements.fetch_add(1, Ordering::Relaxed);
        let key = format!("agree/{}/{number}", identity(&self.cards));
        let mut round = Round { of: self, server: &server, key, patience, lost: Vec::new() };
        server.vote(&round.key, vote);
        for leader in 0..self.size() {
            let decision = if leader == self.rank { round.lead(vote)? } else { round.follow(leader)? };
            let Some(decision) = decision else { continue };
            let agreement = Agreement::parse(&decision, self.size())?;
            if !agreement.alive.contains(&self.rank) {
                let text = format!(
                    "the other ranks have taken {} for dead, since it did not answer for seconds, and go on without it",
                    self.cards[self.rank]
                );
                return Err(Error::Aborted(text));
            }
            return Ok(agreement);
        }
        Err(Error::Aborted("the other ranks have taken this one for dead and have ended".to_owned()))
    }
}

/// One agreement.
struct Round<'a> {
    of: &'a Communicator,
    server: &'a Server,
    key: String,
    patience: Patience<'a>,
    /// The ranks that were found to have ended. It takes seconds to find out that a host does not answer.
    lost: Vec<Rank>,
}

impl Round<'_> {
    fn reach(&mut self, rank: Rank) -> Result<Option<TcpStore>> {
        if self.lost.contains(&rank) {
            return Ok(None);
        }
        let config = &self.of.means()?.config;
        let reached = reach(self.of.handle(rank)?, config, self.patience.deadline);
        if reached.is_err() {
            self.lost.push(rank);
        }
        Ok(reached.ok())
    }

    fn late(&self, rank: Rank) -> String {
        format!("{} runs, but has not come to agree on who is left", self.of.cards[rank])
    }

    /// Waits for the decision of `leader`. `None` if the leader has ended or a higher leader decides.
    fn follow(&mut self, leader: Rank) -> Result<Option<Vec<u8>>> {
        let Some(mut store) = self.reach(leader)? else { return Ok(None) };
        loop {
            let until = self.patience.next(|| self.late(leader))?;
            match store.wait(&self.key, until) {
                Ok(decision) => return Ok(self.server.accept(&self.key, leader as u32, &decision)),
                Err(StoreError::Timeout { .. }) => {}
                Err(_) => match self.reach(leader)? {
                    Some(again) => store = again,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Decides for all living ranks. `None` if they have taken this rank for dead and a higher leader decides.
    fn lead(&mut self, vote: bool) -> Result<Option<Vec<u8>>> {
        let mut made = Agreement { vote, alive: vec![self.of.rank] };
        let mut decided = None;
        for peer in (0..self.of.size()).filter(|peer| *peer != self.of.rank) {
            let Some(Promise { vote, decision }) = self.ask(peer)? else { continue };
            made.vote &= vote;
            made.alive.push(peer);
            decided = decided.or(decision);
        }
        made.alive.sort_unstable();
        let made = serde_json::to_vec(&made).expect("JSON can express numbers");
        let decision = self.server.accept(&self.key, self.of.rank as u32, &decided.unwrap_or(made));
        if let Some(decision) = &decision {
            self.server.values().set(&self.key, decision)?;
        }
        Ok(decision)
    }

    /// The answer of `peer`, once it has come. `None` if it has ended.
    fn ask(&mut self, peer: Rank) -> Result<Option<Promise>> {
        let Some(mut store) = self.reach(peer)? else { return Ok(None) };
        loop {
            let until = self.patience.next(|| self.late(peer))?;
            match store.prepare(&self.key, self.of.rank as u32, until) {
                Ok(Some(promise)) => return Ok(Some(promise)),
                Ok(None) => {}
                Err(_) => match self.reach(peer)? {
                    Some(again) => store = again,
                    None => return Ok(None),
                },
            }
        }
    }
}

/// The prefix of the keys in rank 0's store under which these processes meet.
fn place(handles: &[Handle], name: &str) -> String {
    let mut digest = Sha256::new();
    handles.iter().for_each(|handle| digest.update(handle.to_text()));
    format!("regroup/{}/{name}", hex(&digest.finalize()[..16]))
}

fn server(config: &Config) -> Result<Arc<Server>> {
    Server::of_process(config.secret.as_ref().map(Secret::reveal))
        .map_err(|error| Error::Transport(format!("cannot listen for other ranks: {error}")))
}

fn reach(handle: &Handle, config: &Config, deadline: Instant) -> std::result::Result<TcpStore, Unreachable> {
    TcpStore::connect(handle, config.secret.as_ref().map(Secret::reveal), deadline)
}

/// Rank 0 checks whether all processes can be reached, and tells them. Returns the first one that cannot, if any.
fn invite(
    server: &Server,
    handles: &[Handle],
    name: &str,
    config: &Config,
    patience: Patience<'_>,
) -> Result<Option<(Rank, String)>> {
    let mut lost = None;
    for (rank, handle) in handles.iter().enumerate().skip(1) {
        patience.next(|| format!("{handle} could not be reached in time"))?;
        if let Err(error) = reach(handle, config, patience.deadline) {
            lost = Some((rank, format!("rank {rank} of the new group: {error}")));
            break;
        }
    }
    let told = lost.as_ref().map(|(rank, text)| format!("{rank} {text}")).unwrap_or_default();
    server.values().set(&invitation(name), told.as_bytes())?;
    Ok(lost)
}

/// The other ranks learn from rank 0 whether all processes can be reached, or which one cannot.
fn join(store: &TcpStore, handles: &[Handle], name: &str, patience: Patience<'_>) -> Result<()> {
    loop {
        let late = || format!("rank 0 of the new group, {}, runs, but has not called regroup", handles[0]);
        match store.wait(&invitation(name), patience.next(late)?) {
            Ok(told) if told.is_empty() => return Ok(()),
            Ok(told) => {
                let told = String::from_utf8_lossy(&told);
                let (rank, message) = told.split_once(' ').unwrap_or(("0", &told));
                let rank = rank.parse().ok().filter(|rank| *rank < handles.len()).unwrap_or(0);
                return Err(Error::Peer { rank, message: message.to_owned() });
            }
            Err(StoreError::Timeout { .. }) => {}
            Err(error) => {
                return Err(Error::Peer { rank: 0, message: format!("rank 0 of the new group: {error}") })
            }
        }
    }
}

fn invitation(name: &str) -> String {
    format!("{name}/invitation")
}

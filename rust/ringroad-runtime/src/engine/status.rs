//! What the engine says when somebody asks how its calls stand.

use std::time::{Duration, Instant};

use ringroad_core::Rank;
use serde::Serialize;

use super::error_texts::pending;
use super::{Engine, Task};
use crate::calls::call::Prepared;
use crate::transport::CountedConnection;

/// Of how many connections a rank says how they stand: of a large job, everything would be too much to read.
const CONNECTIONS: usize = 64;

/// How one rank of a communicator stands.
#[derive(Debug, Serialize)]
pub(crate) struct RankStanding {
    /// The number of the last collective call that was made here.
    called: u64,
    /// The number of the last one that has ended here together with all calls before it.
    ended: u64,
    /// The calls in flight.
    calls: Vec<InFlight>,
    /// The latest collective calls, with those in flight.
    recent: Vec<CallFacts>,
    /// Why the communicator cannot be used any more.
    failure: Option<String>,
    closed: bool,
    /// The ranks that are gone, and how that is known.
    lost: Vec<(Rank, String)>,
    transport: String,
    /// The connections to other hosts that had to send most again, then those that sent most.
    connections: Vec<CountedConnection>,
}

/// A call that has not ended.
#[derive(Debug, Serialize)]
struct InFlight {
    #[serde(flatten)]
    facts: CallFacts,
    /// Seconds since it was made; `None` in its first moment.
    since: Option<f64>,
    /// Seconds after which it fails.
    timeout: f64,
    /// The first step that has not ended.
    step: Option<u32>,
    /// The ranks from which messages are missing there.
    waits_for: Vec<Rank>,
    /// The ranks to which messages have not left.
    sends_to: Vec<Rank>,
    /// Whether a message of any of the ranks is enough.
    any: bool,
}

/// What was called.
#[derive(Debug, Serialize)]
struct CallFacts {
    /// The number of the collective call; 0 for messages between two ranks.
    number: u64,
    /// Equal for calls that fit each other.
    digest: u32,
    text: String,
    kind: &'static str,
    dtype: &'static str,
    /// Of the whole call, or of each block.
    elements: usize,
    /// Whether blocks differ.
    uneven: bool,
    op: Option<&'static str>,
    root: Option<Rank>,
    peer: Option<Rank>,
    tag: Option<u32>,
    algorithm: String,
}

impl CallFacts {
    fn from_call(number: u64, call: &Prepared) -> CallFacts {
        let collective = call.key.operation.collective();
        let (peer, tag) = call.key.operation.ends().unwrap_or_default();
        CallFacts {
            number,
            digest: call.check(0),
            text: call.to_string(),
            kind: call.key.operation.name(),
            dtype: call.key.dtype.name(),
            elements: call.key.total(),
            uneven: call.key.counts.is_some(),
            op: collective.filter(|collective| collective.reduces()).map(|_| call.key.op.name()),
            root: collective.and_then(|collective| collective.root()),
            peer,
            tag,
            algorithm: call.algorithm.to_string(),
        }
    }
}

impl Engine {
    /// How this rank stands now. Changes nothing.
    pub fn standing(&self) -> RankStanding {
        let now = Instant::now();
        let begun = self.calls.in_flight().map(|task| {
            let (step, waits_for, sends_to) = pending(task);
            in_flight(task, now, step, waits_for, sends_to)
        });
        let before = self.calls.waiting().iter().map(|task| {
            let peer = match task.call().key.operation.ends() {
                Some((Some(peer), _)) => vec![peer],
                _ => self.peers.others().collect(),
            };
            in_flight(task, now, None, peer, Vec::new())
        });
        let held = (self.calls.called + 1..).zip(self.calls.held()).map(|(number, task)| {
            let mut held = in_flight(task, now, None, Vec::new(), Vec::new());
            held.facts.number = number;
            held
        });
        let mut calls: Vec<InFlight> = begun.chain(before).chain(held).collect();
        let recent =
            self.calls.history().into_iter().map(|(number, call)| CallFacts::from_call(number, call));
        let mut recent: Vec<CallFacts> = recent.collect();
        for facts in calls.iter_mut().map(|call| &mut call.facts).chain(&mut recent) {
            facts.number = self.calls.shown(facts.number);
        }
        recent.retain(|facts| facts.number > 0);
        let gone = |peer: Rank| Some((peer, self.peers.broken(peer)?.to_owned()));
        let mut connections = self.transport.connections();
        connections.sort_by_key(|one| (one.sent_again, one.sent));
        connections.reverse();
        connections.truncate(CONNECTIONS);
        RankStanding {
            called: self.calls.shown(self.calls.called),
            ended: self.calls.shown(self.calls.last_ended()),
            calls,
            recent,
            failure: self.failure.as_ref().map(ToString::to_string),
            closed: self.closed,
            lost: (0..self.peers.ranks()).filter_map(gone).collect(),
            transport: self.transport.describe().to_string(),
            connections,
        }
    }
}

fn in_flight(
    task: &Task,
    now: Instant,
    step: Option<u32>,
    waits_for: Vec<Rank>,
    sends_to: Vec<Rank>,
) -> InFlight {
    // The deadline tells when the call was made, so that calls note nothing for this.
    let left = |deadline: Instant| deadline.saturating_duration_since(now);
    let since = task.deadline.map(|deadline| task.timeout.saturating_sub(left(deadline)));
    InFlight {
        facts: CallFacts::from_call(task.number, task.call()),
        since: since.as_ref().map(Duration::as_secs_f64),
        timeout: task.timeout.as_secs_f64(),
        step,
        waits_for,
        sends_to,
        any: matches!(task.call().key.operation.ends(), Some((None, _))),
    }
}

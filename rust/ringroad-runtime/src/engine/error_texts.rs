//! What errors say of calls: which differ, where each rank was, and for which ranks it waited.

use std::collections::BTreeSet;

use ringroad_core::plan::{Command, PlannedCommand};
use ringroad_core::Rank;

use super::peers::Suspect;
use super::{Engine, Task};
use crate::calls::call::{Operation, Prepared};
use crate::calls::work::Message;
use crate::error::Error;
use crate::kernels::dtype::DType;
use crate::transport::notice::{FailureReason, Notice, Unfinished, CALLS_TOLD};
use crate::transport::{Failure, Unclaimed};

/// Why a message from `peer` does not fit its receive.
pub(super) fn misfit(call: &Prepared, peer: Rank, failure: &Failure) -> String {
    let (Failure::Check { bytes, .. } | Failure::Length { found: bytes, .. }) = failure else {
        return failure.to_string();
    };
    let found = bytes.map_or_else(|| "more".to_owned(), |bytes| format!("{bytes} bytes"));
    let message = match failure {
        Failure::Check { found: tag, bytes } => {
            Some(Message::from_unclaimed(Unclaimed { tag: *tag, bytes: bytes.unwrap_or(0) }))
        }
        _ => None,
    };
    let kind = message.map_or_else(String::new, |message| match message.dtype {
        DType::OF_BYTES => " of another type".to_owned(),
        dtype => format!(" of {dtype}"),
    });
    let room = match call.key.allocates {
        true => "any number of".to_owned(),
        false => call.lengths[1].to_string(),
    };
    let rule = match failure {
        Failure::Length { found: Some(bytes), expected } if bytes < expected => {
            "this receive takes only messages of its own length"
        }
        _ => "the types must be the same, and no message may be longer than its receive",
    };
    format!("{call} is for {room} bytes, but the message from rank {peer} has {found}{kind}; {rule}")
}

/// The first step of a call that has not ended, from whom it waits for messages there, and to whom it sends.
pub(super) fn pending(task: &Task) -> (Option<u32>, Vec<Rank>, Vec<Rank>) {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    let mut first: Option<PlannedCommand> = None;
    for (_, step) in task.executor.unfinished() {
        if step.step != first.get_or_insert(step).step {
            break;
        }
        match step.command {
            Command::Receive { peer, .. } | Command::Expect { peer, .. } => from.push(peer),
            Command::Send { peer, .. } => to.push(peer),
            _ => {}
        }
    }
    for ranks in [&mut from, &mut to] {
        ranks.sort_unstable();
        ranks.dedup();
    }
    (first.map(|step| step.step), from, to)
}

/// The call of all ranks that a rank is in, by what it has answered, unless it waits for a message.
fn current(told: &Notice) -> Option<&(u64, String)> {
    told.calls.last().filter(|(number, _)| told.messages.is_empty() && *number > told.ended)
}

/// What a rank is doing that has answered this, when a message has not come.
fn doing(told: Option<&Notice>, shown: impl Fn(u64) -> u64) -> String {
    let Some(told) = told else {
        return "did not answer: it has not made the matching call, is late, or has stopped".to_owned();
    };
    if !told.messages.is_empty() {
        return told.messages.iter().map(|message| &*message.call).collect::<Vec<_>>().join("; ");
    }
    match current(told) {
        Some((number, call)) => format!("is in call number {}: {call}", shown(*number)),
        None => "is in no call".to_owned(),
    }
}

impl Engine {
    /// What went wrong, by the calls that the ranks have made: if these differ, the error names them; otherwise it names the
    /// ranks that have not made call `number`. `message` says what this rank was doing.
    pub(super) fn describe_difference(
        &self,
        reason: FailureReason,
        message: String,
        answers: Vec<Option<Notice>>,
    ) -> Error {
        let number = reason.number().unwrap_or(0);
        let answers: Vec<_> = answers.into_iter().map(|notice| notice.map(|notice| notice.calls)).collect();
        let numbers: BTreeSet<u64> = answers.iter().flatten().flatten().map(|(n, _)| *n).collect();
        let called = |rank: Rank, number: u64| {
            answers[rank].as_ref()?.iter().find(|(n, _)| *n == number).map(|(_, call)| call.as_str())
        };
        let all = || 0..answers.len();
        let differ = |n: &u64| all().filter_map(|r| called(r, *n)).collect::<BTreeSet<_>>().len() > 1;
        // Says which other call a rank is in.
        let elsewhere = |rank: Rank| match answers[rank].as_ref().map(|calls| calls.last()) {
            None => "(did not answer: has not made this call, is late, or has stopped)".to_owned(),
            Some(None) => "(has made no call yet)".to_owned(),
            Some(Some((n, call))) => format!("(is at call number {}: {call})", self.calls.shown(*n)),
        };
        let line = |rank: Rank, call: &str| format!("  rank {}: {call}", self.peers.describe(rank));
        let unlike = numbers.into_iter().find(differ);
        if unlike.is_some() || matches!(reason, FailureReason::Mismatch { .. }) {
            let number = unlike.unwrap_or(number);
            let row =
                |r: Rank| called(r, number).map_or_else(|| line(r, &elsewhere(r)), |call| line(r, call));
            Error::Mismatch(format!(
                "ranks made different calls as number {} of communicator {:?}:\n{}\n\
                 All ranks must make the same calls in the same order with equal arguments. Threads that make calls side by \
                 side, as torch's async_save does, need communicators (groups) of their own.",
                self.calls.shown(number),
                self.name,
                all().map(row).collect::<Vec<_>>().join("\n")
            ))
        } else {
            let absent = all().filter(|r| called(*r, number).is_none()).map(|r| line(r, &elsewhere(r)));
            let absent: Vec<String> = absent.collect();
            Error::Timeout(if absent.is_empty() {
                format!("{message}. All ranks have made this call; raise the timeout if it is only slow")
            } else {
                format!("{message}, when the timeout passed. Not in this call:\n{}", absent.join("\n"))
            })
        }
    }

    pub(super) fn describe_loss(&self, suspect: &Suspect) -> String {
        format!(
            "rank {} is gone: {}. Rank {} was {}",
            self.peers.describe(suspect.peer),
            suspect.reason,
            self.peers.describe(self.peers.rank),
            self.describe_need(suspect.peer)
        )
    }

    /// For what a peer is needed, or else where this rank is.
    pub(super) fn describe_need(&self, peer: Rank) -> String {
        let tasks = || self.calls.in_flight();
        let call = tasks().find(|t| t.needs(peer)).map(|t| self.describe_call(t));
        let call = call.or_else(|| self.calls.waiting().first().map(|task| self.describe_before(task)));
        let call = call.or_else(|| tasks().next().map(|task| self.describe_call(task)));
        call.unwrap_or_else(|| "between two calls".to_owned())
    }

    pub(super) fn describe_timeout(&self, task: &Task) -> String {
        let seconds = task.timeout.as_secs_f64();
        let (who, transport) = (self.peers.describe(self.peers.rank), self.transport.describe());
        format!(
            "timed out after {seconds:.3} s: rank {who} was {}, over {transport}",
            self.describe_call(task)
        )
    }

    /// Like [`Engine::describe_timeout`], for a receive whose message has not come.
    pub(super) fn describe_timeout_before(&self, task: &Task) -> String {
        let seconds = task.timeout.as_secs_f64();
        format!(
            "timed out after {seconds:.3} s: rank {} was {}",
            self.peers.describe(self.peers.rank),
            self.describe_before(task)
        )
    }

    /// Like [`Engine::describe_timeout`], for a call that is held.
    pub(super) fn describe_timeout_held(&self, task: &Task) -> String {
        let seconds = task.timeout.as_secs_f64();
        format!(
            "timed out after {seconds:.3} s: rank {} was in communicator {:?}, about to begin {} once all ranks had looked at \
             the network",
            self.peers.describe(self.peers.rank),
            self.name,
            task.call()
        )
    }

    fn describe_before(&self, task: &Task) -> String {
        format!("in communicator {:?} ({}), waiting for a message", self.name, task.call())
    }

    /// The messages between two ranks for which calls of this rank wait.
    pub(super) fn unfinished_messages(&self) -> Vec<Unfinished> {
        let waiting = self.calls.waiting().iter().map(|task| &**task);
        let unfinished = self.calls.in_flight().filter(|task| !task.executor.is_done()).chain(waiting);
        let message = |task: &Task| {
            let operation = task.call().key.operation;
            let sends = matches!(operation, Operation::Send { .. });
            Some(Unfinished { sends, peer: operation.ends()?.0, call: task.call().to_string() })
        };
        unfinished.filter_map(message).take(CALLS_TOLD).collect()
    }

    /// What ranks have said for which messages they wait, from this rank to the one it waits for, and so on, up to those that
    /// have not made the call which the last one is in; and what to do if they wait for each other.
    pub(super) fn describe_messages(&self, answers: &[Option<Notice>]) -> String {
        let mut chain: Vec<Rank> = Vec::new();
        let mut lines: Vec<String> = Vec::new();
        let mut next = Some(self.peers.rank);
        let line = |rank: Rank| {
            let doing = doing(answers[rank].as_ref(), |number| self.calls.shown(number));
            format!("  rank {}: {doing}", self.peers.describe(rank))
        };
        while let Some(rank) = next.filter(|rank| !chain.contains(rank)) {
            let told = answers[rank].as_ref();
            lines.push(line(rank));
            chain.push(rank);
            next = told.and_then(|notice| notice.messages.first()?.peer);
        }
        if let Some((number, _)) = chain.last().and_then(|rank| current(answers[*rank].as_ref()?)) {
            let made = |told: &Notice| told.calls.iter().any(|(made, _)| made >= number);
            let is_absent = |rank: &Rank| !chain.contains(rank) && !answers[*rank].as_ref().is_some_and(made);
            lines.extend((0..answers.len()).filter(is_absent).map(line));
        }
        let stuck = next.map(|again| chain.iter().skip_while(move |rank| **rank != again));
        let all_are = |sends: bool| {
            let does = |rank: &Rank| {
                answers[*rank].iter().flat_map(|notice| &notice.messages).all(|m| m.sends == sends)
            };
            stuck.clone().is_some_and(|mut ranks| ranks.all(does))
        };
        let advice = if all_are(true) {
            "\nAll of these are sending, and none receives: use async_op=True or sendrecv."
        } else if all_are(false) {
            "\nAll of these are receiving, and none sends: send first, or use async_op=True or sendrecv."
        } else {
            ""
        };
        format!("Waiting ranks:\n{}{advice}", lines.join("\n"))
    }

    /// Where a call stands: `in call number 3 of "world" (allreduce ...), at step 1, waiting for rank 2 (host, pid)`.
    pub(super) fn describe_call(&self, task: &Task) -> String {
        let (first, from, to) = pending(task);
        let list = |what: &str, ranks: Vec<Rank>| {
            let names: Vec<String> =
                ranks.into_iter().map(|r| format!("rank {}", self.peers.describe(r))).collect();
            (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
        };
        let waiting: Vec<String> =
            [list("waiting for", from), list("sending to", to)].into_iter().flatten().collect();
        let number = match task.number {
            0 => String::new(),
            number => format!("call number {} of ", self.calls.shown(number)),
        };
        let held = self.calls.held().next().filter(|_| task.call().key.internal);
        let before = held.map_or_else(String::new, |held| format!(", before {}", held.call()));
        format!(
            "in {number}communicator {:?} ({}{before}), at step {}, {}",
            self.name,
            task.call(),
            first.unwrap_or(0),
            waiting.join(" and ")
        )
    }
}

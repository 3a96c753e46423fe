//! Descriptions for error messages: where each rank was, and for which ranks it waited.

use ringroad_core::plan::{Command, PlannedCommand};
use ringroad_core::Rank;

use super::peers::Suspect;
use super::{Engine, Task};
use crate::calls::call::{Operation, Prepared};

/// Why a message of so many bytes does not fit its receive.
pub(super) fn misfit(call: &Prepared, peer: Rank, bytes: Option<usize>) -> String {
    let room = call.lengths[1];
    let found = match bytes {
        Some(bytes) if bytes == room => format!("{bytes} bytes of another type"),
        Some(bytes) => format!("{bytes} bytes"),
        None => "more".to_owned(),
    };
    format!("{call} is for {room} bytes, but the message from rank {peer} has {found}; both must be the same")
}

impl Engine {
    pub(super) fn describe_loss(&self, suspect: &Suspect) -> String {
        let tasks = || self.calls.in_flight();
        let call = tasks().find(|t| t.needs(suspect.peer)).map(|t| self.describe_call(t));
        let call = call.or_else(|| self.calls.waiting().first().map(|task| self.describe_before(task)));
        let call = call.or_else(|| tasks().next().map(|task| self.describe_call(task)));
        let call = call.unwrap_or_else(|| "between two calls".to_owned());
        format!(
            "rank {} is gone: {}. Rank {} was {call}",
            self.peers.describe(suspect.peer),
            suspect.reason,
            self.peers.describe(self.peers.rank)
        )
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

    fn describe_before(&self, task: &Task) -> String {
        format!("in communicator {:?} ({}), waiting for a message", self.name, task.call())
    }

    /// Where a call stands: `in call number 3 of "world" (allreduce ...), at step 1, waiting for rank 2 (host, pid)`.
    pub(super) fn describe_call(&self, task: &Task) -> String {
        let mut from: Vec<Rank> = Vec::new();
        let mut to: Vec<Rank> = Vec::new();
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
        let list = |what: &str, mut ranks: Vec<Rank>| {
            ranks.sort_unstable();
            ranks.dedup();
            let names: Vec<String> =
                ranks.into_iter().map(|r| format!("rank {}", self.peers.describe(r))).collect();
            (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
        };
        let waiting: Vec<String> =
            [list("waiting for", from), list("sending to", to)].into_iter().flatten().collect();
        let number = match task.call().key.operation {
            Operation::Send { .. } | Operation::Receive { .. } | Operation::ReceiveAny { .. } => {
                String::new()
            }
            _ => format!("call number {} of ", task.number),
        };
        format!(
            "in {number}communicator {:?} ({}), at step {}, {}",
            self.name,
            task.call(),
            first.map_or(0, |s| s.step),
            waiting.join(" and ")
        )
    }
}

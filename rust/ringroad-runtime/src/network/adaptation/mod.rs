//! What is known of changes of the network while a communicator is used.
//!
//! Ranks look at the times of their calls (`watch`), vote before which call all look at the network (`quiesce`), and then
//! measure it and choose again (`revision`). Each communicator looks after itself. One that is made of another's ranks begins
//! with what is known then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::changes::{Changes, Difference};
use ringroad_core::discovery::Mismatch;
use ringroad_core::{Rank, Topology};
use serde::{Deserialize, Serialize};

use crate::bootstrap::EndpointInfo;
use crate::choice::choices::{Choices, NetworkOrigin};
use crate::config::Budget;
use crate::network;
use crate::os::lock::Mutex;
use crate::os::scheduler::Cores;
use crate::transport::CountedConnection;

/// How long a rank suspects nothing after the network has changed, and after it has not; the latter doubles each time.
const REST: Duration = Duration::from_secs(3);
const LONGEST_REST: Duration = Duration::from_secs(600);
/// How soon the ranks look whether what had become slow has recovered; the time doubles each time.
const AGAIN: Duration = Duration::from_secs(4);
const LATEST_AGAIN: Duration = Duration::from_secs(64);

/// Why ranks look at the network again: calls took `ratio` times as long as usual.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LookReason {
    /// The ranks that have noticed.
    pub rank: Rank,
    /// How many times as long as usual.
    pub ratio: f32,
    /// What the latest call has taken, in seconds.
    pub took: f32,
    /// What was predicted.
    pub predicted: f32,
}

/// A change of the network to which the ranks have reacted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkChange {
    /// The number of the collective call before which they have.
    pub call: u64,
    /// The links that carry more or less than before.
    pub links: Vec<Difference>,
    /// Why they have looked.
    pub reason: Option<LookReason>,
}

/// Ranks that have come late to calls, while the links were as before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Straggle {
    /// The number of the collective call before which all ranks have looked.
    pub call: u64,
    /// The ranks that were late.
    pub ranks: Vec<Rank>,
    /// Why they have looked.
    pub reason: LookReason,
}

/// The network as the ranks see it.
#[derive(Debug, Clone, Serialize)]
pub struct NetworkView {
    /// As it is now.
    pub topology: Topology,
    /// Where it comes from.
    pub origin: NetworkOrigin,
    /// Whether the ranks look after it.
    pub watched: bool,
    /// How the network that the user has named differs from the one that the ranks have found.
    pub mismatch: Option<Mismatch>,
    /// What has changed so far.
    pub changes: Vec<NetworkChange>,
    /// Which ranks were the reason that calls took longer, not the network.
    pub stragglers: Vec<Straggle>,
    /// The connections to other hosts, if they are of our own.
    pub connections: Vec<CountedConnection>,
}

/// What is known now.
pub(super) struct Present {
    pub choices: Arc<Choices>,
    pub changes: Changes,
    pub history: Vec<NetworkChange>,
    pub stragglers: Vec<Straggle>,
    /// The cores when calls last took unusually long.
    pub suspected: Option<Cores>,
    /// How long to rest after a look that finds nothing.
    rest: Duration,
    /// Until when this rank suspects nothing.
    until: Option<Instant>,
    /// When to look next whether something has recovered.
    again: Duration,
}

/// What a communicator knows of its network, which can be measured again.
pub(super) struct Adaptation {
    /// How long the ranks measure.
    pub budget: Duration,
    pub present: Mutex<Present>,
}

impl Adaptation {
    /// For a communicator of these ranks, if they watch their network. The same on all ranks: rank 0's budget counts, and
    /// any rank can turn it off.
    pub fn for_ranks(endpoints: &[EndpointInfo], choices: &Arc<Choices>) -> Option<Arc<Adaptation>> {
        let several = network::hosts(endpoints).into_iter().any(|host| host > 0);
        let is_off =
            endpoints.iter().any(|endpoint| endpoint.adaptation.is_some_and(|budget| budget.is_zero()));
        let is_found = choices.origin == NetworkOrigin::Found;
        let budget = endpoints[0].adaptation.or(is_found.then_some(Budget::ADAPTATION))?;
        if !several || is_off {
            return None;
        }
        let present = Present {
            choices: choices.clone(),
            changes: Changes::default(),
            history: Vec::new(),
            stragglers: Vec::new(),
            suspected: None,
            rest: REST,
            until: None,
            again: AGAIN,
        };
        Some(Arc::new(Adaptation { budget, present: Mutex::new(present) }))
    }

    /// What has changed, and who was late.
    pub fn seen(&self) -> (Vec<NetworkChange>, Vec<Straggle>) {
        let present = self.present.lock();
        (present.history.clone(), present.stragglers.clone())
    }

    /// Whether this rank suspects nothing now.
    pub fn is_resting(&self) -> bool {
        self.present.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// Ends what followed from a vote. Returns when to look at the network in any case, if it is not as it was at first.
    pub fn rest(&self, has_changed: bool, was_suspected: bool) -> Option<Instant> {
        let mut present = self.present.lock();
        let now = Instant::now();
        let mut rest = REST;
        if has_changed {
            (present.rest, present.again) = (REST, AGAIN);
        } else if was_suspected {
            rest = present.rest;
            present.rest = (2 * rest).min(LONGEST_REST);
        }
        present.until = Some(now + rest);
        if present.changes.is_empty() {
            return None;
        }
        let due = now + present.again;
        present.again = (2 * present.again).min(LATEST_AGAIN);
        Some(due)
    }
}

//! What follows the changes of a network while a communicator is used.
//!
//! Ranks look at the times of their calls (`watch`), vote before which call all look at the network (`pace`), and then
//! measure it and choose again (`revision`). Each communicator looks after itself. One that is made of another's ranks begins
//! with what is known then.

mod pace;
mod revision;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::changes::Changes;

use self::pace::VotePace;
use self::watch::{Sign, Suspicion, Watching};
use crate::adaptation::{Adaptation, Present};
use crate::bootstrap::{hosts, Exchange};
use crate::calls::call::{Prediction, Prepared};
use crate::choice::agreement::slowest;
use crate::choice::choices::{Choices, NetworkOrigin};
use crate::communicator::Group;
use crate::config::Budget;
use crate::error::Result;
use crate::os::lock::Mutex;
use crate::os::messages::warn_once;
use crate::os::scheduler::Cores;

/// How long a rank suspects nothing after the network has changed, and after it has not; the latter doubles each time.
const REST: Duration = Duration::from_secs(3);
const LONGEST_REST: Duration = Duration::from_secs(600);
/// How soon the ranks look whether what had become slow has recovered; the time doubles each time.
const AGAIN: Duration = Duration::from_secs(4);
const LATEST_AGAIN: Duration = Duration::from_secs(64);
/// How long looking at the network may take besides what the settings allow.
const MEASUREMENT_ALLOWANCE: Duration = Duration::from_secs(10);

/// What is known now.
struct Known {
    present: Present,
    changes: Changes,
    /// What this rank suspected when it last voted.
    suspicion: Option<Suspicion>,
    /// The cores when calls last took unusually long.
    suspected: Option<Cores>,
    /// How long to rest after a look that finds nothing.
    rest: Duration,
    /// Until when this rank suspects nothing.
    until: Option<Instant>,
    /// When to look next whether something has recovered.
    again: Duration,
}

/// What a communicator knows of its network, which can be measured again.
pub(crate) struct Follower {
    group: Group,
    /// How long the ranks measure.
    budget: Duration,
    pace: VotePace,
    watching: Mutex<Watching>,
    known: Mutex<Known>,
}

impl Follower {
    /// For a communicator of these ranks, if they watch their network. The same on all ranks: rank 0's budget counts, and
    /// any rank can turn it off.
    pub fn for_group(group: Group) -> Option<Follower> {
        let Group { endpoints, choices, .. } = &group;
        let several = hosts(endpoints).into_iter().any(|host| host > 0);
        let is_off =
            endpoints.iter().any(|endpoint| endpoint.adaptation.is_some_and(|budget| budget.is_zero()));
        let is_found = choices.origin == NetworkOrigin::Found;
        let budget = endpoints[0].adaptation.or(is_found.then_some(Budget::ADAPTATION))?;
        if !several || is_off {
            return None;
        }
        let known = Known {
            present: Present::first(choices),
            changes: Changes::default(),
            suspicion: None,
            suspected: None,
            rest: REST,
            until: None,
            again: AGAIN,
        };
        Some(Follower {
            budget,
            pace: VotePace::new(slowest(&choices.topology, choices.model.bandwidth)),
            watching: Mutex::new(Watching::new()),
            known: Mutex::new(known),
            group,
        })
    }

    /// Lets the ranks vote before their next call, and this one want to look.
    #[cfg(test)]
    pub fn vote_next(&self, wants_to_look: bool) {
        self.pace.vote_next();
        self.watching.lock().look_from(wants_to_look.then(Instant::now));
    }

    /// Says that calls take much longer than predicted, from the first on.
    fn warn_of(&self, suspicion: Suspicion) {
        let topology = self.known.lock().present.choices.topology.spec();
        let Suspicion { took, predicted, .. } = suspicion;
        let (collective, bytes) = suspicion.calls();
        let text = format!(
            "{}: {} of {} KiB and more takes {:.1} ms where {:.1} ms were predicted on {topology}: its rates may be \
             wrong, or ranks come late; `ringroad discover` shows what the network is, RINGROAD_TOPOLOGY names it",
            self.group.name,
            collective.name(),
            bytes >> 10,
            1e3 * took,
            1e3 * predicted
        );
        warn_once("unpredicted", &text);
    }

    /// Whether this rank suspects nothing now.
    fn is_resting(&self) -> bool {
        self.known.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// Ends what followed from a vote. The ranks look at the network again in any case, if it is not as it was at first.
    fn rest(&self, has_changed: bool, was_suspected: bool) {
        let mut known = self.known.lock();
        let now = Instant::now();
        let mut rest = REST;
        if has_changed {
            (known.rest, known.again) = (REST, AGAIN);
        } else if was_suspected {
            rest = known.rest;
            known.rest = (2 * rest).min(LONGEST_REST);
        }
        known.until = Some(now + rest);
        let due = (!known.changes.is_empty()).then(|| now + known.again);
        if due.is_some() {
            known.again = (2 * known.again).min(LATEST_AGAIN);
        }
        drop(known);
        self.watching.lock().look_from(due);
    }
}

impl Adaptation for Follower {
    fn before_call(&self, call: &Prepared) -> bool {
        self.pace.begins(&call.key)
    }

    fn after_call(&self, prediction: Prediction, took: Duration) {
        self.watching.lock().note(prediction, took);
    }

    fn vote(&self) -> bool {
        let (sign, is_due) = self.watching.lock().take_sign();
        let suspected = |at: Cores| self.known.lock().suspected.replace(at);
        let suspicion = match sign {
            Sign::Nothing => None,
            Sign::Changed(suspicion) => {
                suspected(Cores::now());
                Some(suspicion)
            }
            Sign::Unpredicted(suspicion) => {
                // Where cores are busy, calls take long on any network.
                if suspected(Cores::now()).is_some_and(|since| !since.were_busy(Cores::now()))
                    && self.group.rank == 0
                {
                    self.warn_of(suspicion);
                }
                None
            }
        };
        let suspicion = suspicion.filter(|_| !self.is_resting());
        self.known.lock().suspicion = suspicion;
        is_due || suspicion.is_some()
    }

    fn time(&self) -> Duration {
        let synthesis = self.group.means.config.budget.synthesis;
        self.budget.saturating_add(synthesis).saturating_add(MEASUREMENT_ALLOWANCE)
    }

    fn reconsider(&self, call: u64, ranks: &mut dyn Exchange) -> Result<Option<Arc<Choices>>> {
        self.revise(call, ranks)
    }

    fn present(&self) -> Present {
        self.known.lock().present.clone()
    }
}

//! Between calls and what follows the changes of their network: all that either knows of the other.
//!
//! A communicator between hosts may get an `Adaptation`. Ranks of one host have none, and their calls pay nothing for it.

use std::sync::Arc;
use std::time::Duration;

use ringroad_core::changes::Difference;
use ringroad_core::Rank;
use serde::{Deserialize, Serialize};

use crate::bootstrap::Exchange;
use crate::calls::call::{Prediction, Prepared};
use crate::choice::choices::Choices;
use crate::error::Result;

/// Follows the changes of a communicator's network. Ranks ask theirs the same questions in the same order, and only
/// [`Adaptation::vote`] may be answered differently.
pub(crate) trait Adaptation: Send + Sync {
    /// Whether a collective call begins at once, in the order of the calls. If not, it is held, with those after it, until
    /// all ranks have voted.
    fn before_call(&self, call: &Prepared) -> bool;

    /// Takes note of what a call has taken.
    fn after_call(&self, prediction: Prediction, took: Duration);

    /// Whether this rank wants all to look at the network.
    fn vote(&self) -> bool;

    /// How long a look may take.
    fn time(&self) -> Duration;

    /// Looks at the network with the other ranks, before the call of this number. Returns what the ranks use from now on, if
    /// that is something else.
    fn reconsider(&self, call: u64, ranks: &mut dyn Exchange) -> Result<Option<Arc<Choices>>>;

    /// What is known now.
    fn present(&self) -> Present;
}

/// What is known of a network now.
#[derive(Clone)]
pub(crate) struct Present {
    pub choices: Arc<Choices>,
    pub changes: Vec<NetworkChange>,
    pub stragglers: Vec<Straggle>,
}

impl Present {
    /// What is known at first.
    pub fn first(choices: &Arc<Choices>) -> Present {
        Present { choices: choices.clone(), changes: Vec::new(), stragglers: Vec::new() }
    }
}

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

//! Dividing the ranks of a communicator among new ones.
//!
//! The ranks tell each other their colours and keys by an allgather, and each rank finds its group in the same list.
//! Processes then meet as after a loss: at the group's first rank, found by its [`Handle`]. Ranks that are threads of
//! one process take what the group's first rank has made for them. A new communicator has connections of its own, so
//! that its failure leaves the others as they are.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringroad_core::{Collective, Rank, Topology};

use crate::bootstrap::{identity, Handle};
use crate::calls::request::Request;
use crate::choice::choices::NetworkOrigin;
use crate::choice::options::{part_of, Options};
use crate::communicator::patience::{GoOn, Patience, SLICE};
use crate::communicator::{CallExchange, Called, Communicator, Means, ThreadFamily};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::kernels::dtype::DType;
use crate::transport::buffer::Memory;

/// What ranks of no colour pass.
const NONE: i64 = -1;

impl Communicator {
    /// Makes a communicator of all ranks that pass the same colour, in the order of their keys; ranks of equal keys keep
    /// their order. `None` for a rank without a colour. All ranks call this, like a collective.
    ///
    /// `topology` is the network of the new communicator; its first rank's value is used. Without one it is the part of
    /// this communicator's network, if that was given.
    pub fn split(
        &self,
        color: Option<i64>,
        key: i64,
        topology: Option<Topology>,
        timeout: Option<Duration>,
        go_on: &GoOn,
    ) -> Result<Option<Communicator>> {
        if let Some(color) = color.filter(|color| *color < 0) {
            return Err(Error::Argument(format!("color is {color}; pass a whole number from 0 on, or None")));
        }
        let patience = Patience::new(timeout.unwrap_or(self.timeout), go_on);
        let mine = color.unwrap_or(NONE);
        let ranks = CallExchange { communicator: self, patience, internal: false };
        let own = Memory::from_slice(&[mine, key]);
        let all = ranks.call(Collective::Allgather, DType::I64, 2, own)?.to_vec::<i64>();
        let number = self.splits.fetch_add(1, Ordering::Relaxed);
        let mut members: Vec<Rank> = (0..self.size()).filter(|rank| all[2 * rank] == mine).collect();
        members.sort_by_key(|rank| all[2 * rank + 1]);
        let (config, options) = self.wishes();
        let (mut config, mut options) = (config.clone(), options.clone());
        let position = members.iter().position(|rank| *rank == self.rank).expect("it has its own colour");
        let part = || part_of(self.known_topology(), &members, position == 0 && color.is_some());
        options.topology = topology.or_else(part);
        config.topology = self.choices.origin.source_for_parts();
        options.timeout = Some(self.timeout);
        options.is_part = true;
        options.name = format!("{}.{number}.{mine}", self.name);
        if let Some(family) = &self.family {
            return self.take_communicator(
                family,
                (number, mine),
                (&members, position),
                &config,
                &options,
                patience,
            );
        }
        if color.is_none() {
            return Ok(None);
        }
        let Means { wheel, discovery, .. } = self.means()?;
        let means = Means { wheel: wheel.clone(), config, options, discovery: *discovery };
        if members.len() == 1 {
            return means.alone(patience).map(Some);
        }
        let handles =
            members.iter().map(|rank| self.handle(*rank).cloned()).collect::<Result<Vec<Handle>>>()?;
        let name = format!("split/{}/{number}/{mine}", identity(&self.endpoints));
        // Nobody has been lost: who is silent is slow.
        Communicator::regroup_within(patience, Duration::MAX, &handles, position, &name, &means).map(Some)
    }

    /// What this communicator was made with.
    fn wishes(&self) -> (&Config, &Options) {
        match (&self.means, &self.family) {
            (Some(means), _) => (&means.config, &means.options),
            (None, Some(family)) => (&family.config, &family.options),
            (None, None) => unreachable!("its ranks are processes or threads"),
        }
    }

    /// The network, if it was given or found out rather than assumed.
    pub fn known_topology(&self) -> Option<Topology> {
        let is_known = self.choices.origin != NetworkOrigin::Assumed;
        is_known.then(|| self.present().topology.clone())
    }

    /// Makes a call that ends at the deadline, or on all ranks when the user interrupts.
    pub(in crate::communicator) fn run_patiently(
        &self,
        request: Request,
        patience: Patience<'_>,
    ) -> Result<Memory> {
        match self.call(Request { timeout: Some(patience.left()), ..request })? {
            Called::Ended(output, _) => Ok(output),
            Called::InFlight(work) => {
                while !work.wait_until(Instant::now() + SLICE) {
                    if let Err(interrupt) = (patience.go_on)() {
                        self.interrupt()?;
                        return Err(interrupt.into());
                    }
                }
                work.finish()
            }
        }
    }

    /// As the first of its group, makes the communicators of all; takes the one of this rank.
    fn take_communicator(
        &self,
        family: &ThreadFamily,
        (number, color): (u64, i64),
        (members, position): (&[Rank], usize),
        config: &Config,
        options: &Options,
        patience: Patience<'_>,
    ) -> Result<Option<Communicator>> {
        if color != NONE && position == 0 {
            let places = members.iter().map(|rank| (number, *rank));
            match Communicator::in_process(members.len(), config, options) {
                Ok(made) => {
                    family.made.lock().extend(places.zip(made.into_iter().map(Ok)));
                }
                Err(error) => family.made.lock().extend(places.map(|place| (place, Err(error.clone())))),
            }
        }
        self.run_patiently(Request::barrier(), patience)?;
        family.made.lock().remove(&(number, self.rank)).transpose()
    }
}

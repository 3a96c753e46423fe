//! From a call to the plan that performs it: what this rank has to do, by the algorithm that was chosen.

use std::sync::Arc;

use ringroad_core::algorithms::{self, Member};
use ringroad_core::plan::{Counts, LowerOptions, Near};
use ringroad_core::{Bytes, Collective, Plan, Rank, Schedule};

pub use crate::choices::{candidates, explain, Choices, Explanation, Lowering, Wishes};
use crate::error::Result;
use crate::kept::Kept;
use crate::schedules::Schedules;
use crate::transport::shared::PRIVATE;

/// Plans kept for calls to come take so many bytes, and as many the schedules that they are made of. A training loop repeats
/// a few hundred plans, mostly of less than 100 KiB each.
const KEPT_BYTES: usize = 64 << 20;

/// The most bytes in one message between ranks that share memory. Long ones, because what was just written is dear to read
/// as long as it is in another core's own cache: on two cores that share the last-level one (AMD EPYC), 4 MiB in messages
/// of 128 KiB take 1.1 to 1.15 times as long.
const NEAR_SEGMENT: usize = 512 << 10;
/// The same where all wait for the messages of one rank: 1 MiB to four ranks on two cores takes 1.6 times as long in
/// messages of 512 KiB.
const NEAR_BROADCAST_SEGMENT: usize = 128 << 10;
/// From so many bytes on waiting until others have read takes less time than a copy for them.
pub(crate) const LEND: usize = 32 << 10;

/// Everything that a plan depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub collective: Collective,
    pub elements: usize,
    /// Elements of each block, where they differ; `elements` does not count then.
    pub counts: Option<Arc<[usize]>>,
    pub element_bytes: usize,
    pub any_order: bool,
    pub in_place: bool,
    /// Whether near ranks can read the input and the output.
    pub readable: (bool, bool),
    pub premultiply: bool,
    pub average: bool,
    /// Chosen by the caller, instead of by the tables.
    pub algorithm: Option<Member>,
}

impl Key {
    pub fn counts(&self) -> Counts<'_> {
        Counts::of(self.elements, self.counts.as_deref())
    }
}

/// A plan, and the algorithm it comes from.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub algorithm: Arc<str>,
    pub plan: Arc<Plan>,
}

pub(crate) struct Planner {
    rank: Rank,
    /// For each rank whether it is near, or nothing where none is.
    near: Arc<[bool]>,
    /// From vectors of how many bytes on near ranks copy out of private memory, if they do.
    copies: Option<usize>,
    choices: Arc<Choices>,
    kept: Schedules,
    schedules: Kept<(Member, Collective), Arc<Schedule>>,
    plans: Kept<Key, Planned>,
}

impl Planner {
    pub fn new(
        rank: Rank,
        near: Arc<[bool]>,
        copies: Option<usize>,
        choices: Arc<Choices>,
        kept: Schedules,
    ) -> Planner {
        let (schedules, plans) = (Kept::new(KEPT_BYTES), Kept::new(KEPT_BYTES));
        Planner { rank, near, copies, choices, kept, schedules, plans }
    }

    /// The plan for a call, made now or kept from an earlier one.
    pub fn plan(&mut self, key: &Key) -> Result<Planned> {
        match self.plans.get(key) {
            Some(planned) => Ok(planned.clone()),
            None => self.make_plan(key),
        }
    }

    fn make_plan(&mut self, key: &Key) -> Result<Planned> {
        let elements = key.counts().total(key.collective, self.choices.topology.ranks());
        let bytes = elements.and_then(|elements| elements.checked_mul(key.element_bytes));
        let bytes = bytes.unwrap_or(usize::MAX);
        let member = match key.algorithm {
            Some(member) => member,
            None => algorithms::find(self.choices.pick(key.collective, bytes as Bytes, key.any_order))?,
        };
        let schedule = self.schedule(member, key.collective)?;
        let options = LowerOptions {
            in_place: key.in_place,
            premultiply: key.premultiply,
            average: key.average,
            segment: self.choices.lowering.segment,
            part: self.choices.lowering.part,
            two_areas: self.choices.lowering.two_areas,
            near: Near {
                ranks: self.near.clone(),
                segment: match key.collective {
                    Collective::Broadcast { .. } => NEAR_BROADCAST_SEGMENT,
                    _ => NEAR_SEGMENT,
                },
                input: key.readable.0,
                output: key.readable.1,
                lend: LEND,
                copies: self.copies.filter(|least| bytes >= *least).map(|_| PRIVATE),
            },
            ..LowerOptions::default()
        };
        let plan = Plan::lower(&schedule, self.rank, key.counts(), key.element_bytes, &options)?;
        let planned = Planned { algorithm: member.name().into(), plan: Arc::new(plan) };
        let bytes = planned.plan.footprint() + key.counts.as_ref().map_or(0, |counts| size_of_val(&**counts));
        self.plans.insert(key.clone(), planned.clone(), bytes);
        Ok(planned)
    }

    /// The verified schedule of `member`.
    fn schedule(&mut self, member: Member, collective: Collective) -> Result<Arc<Schedule>> {
        if let Some(schedule) = self.schedules.get(&(member, collective)) {
            return Ok(schedule.clone());
        }
        let expected = self.choices.digest(collective, &member.name());
        let schedule = self.kept.schedule(&self.choices.topology, member, collective, self.rank, expected)?;
        let schedule = Arc::new(schedule);
        self.schedules.insert((member, collective), schedule.clone(), schedule.footprint());
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::choose;
    use crate::bootstrap::Card;
    use crate::communicator::Options;
    use crate::config::Config;

    const RANKS: usize = 12;

    fn planner(most: usize) -> Planner {
        let cards: Vec<Card> = (0..RANKS).map(|rank| Card::new(rank, RANKS, "", "", Vec::new())).collect();
        let choices = choose(&cards, &Config::default(), &Options::default(), 1).unwrap();
        let near = Arc::new([false; RANKS]);
        let planner = Planner::new(3, near, None, Arc::new(choices), Schedules::new(None));
        Planner { schedules: Kept::new(most), plans: Kept::new(most), ..planner }
    }

    fn key(collective: Collective, elements: usize, algorithm: Option<&str>) -> Key {
        Key {
            collective,
            elements,
            counts: None,
            element_bytes: 4,
            any_order: true,
            in_place: false,
            readable: (false, false),
            premultiply: false,
            average: false,
            algorithm: algorithm.map(|name| algorithms::find(name).unwrap()),
        }
    }

    /// However many sizes and algorithms are called, what is kept stays within its bounds, and every plan is right.
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of plans, and no unsafe code")]
    fn what_is_kept_is_bounded_and_plans_stay_right() {
        const MOST: usize = 256 << 10;
        let (mut small, mut large) = (planner(MOST), planner(usize::MAX));
        let collectives = [Collective::Allreduce, Collective::Allgather, Collective::Broadcast { root: 5 }];
        let algorithms = [None, Some("ring"), Some("direct"), Some("bfb")];
        for round in 0..200 {
            for collective in collectives {
                for algorithm in algorithms {
                    let key = key(collective, 1 + round % 80 * 57, algorithm);
                    let (Ok(plan), Ok(expected)) = (small.plan(&key), large.plan(&key)) else { continue };
                    assert_eq!((&plan.algorithm, &plan.plan), (&expected.algorithm, &expected.plan));
                    assert!(small.plans.bytes() <= MOST && small.schedules.bytes() <= MOST);
                }
            }
        }
        assert!(large.plans.bytes() > 2 * MOST, "{} bytes are no test", large.plans.bytes());
        let plan = large.plan(&key(Collective::Allreduce, 1000, None)).unwrap().plan;
        assert!(Arc::ptr_eq(&plan, &large.plan(&key(Collective::Allreduce, 1000, None)).unwrap().plan));
    }
}

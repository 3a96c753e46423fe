//! Schedules that the user gives, beside the algorithms of the catalogue.
//!
//! A given schedule is a member of the family [`NAME`]. Its parameter is the beginning of the schedule's digest, so that
//! a member means the same schedule on all ranks that have it. A schedule is verified when it is added, and stays until
//! the process ends, because members have no owner.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::{
    Algorithm, Construct, Member, Naming, Offer, Parameter, Ports, Requirement, ScheduleRequest,
    SearchObstacle,
};
use crate::collective::Collective;
use crate::schedule::{Expressions, Schedule, VerifyError};

/// The name of the family. Members are written `given:` and digits of the schedule's digest.
pub const NAME: &str = "given";

/// The most bytes of all given schedules of a process.
const MOST_BYTES: usize = 1 << 30;

/// Why a schedule cannot be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotGiven {
    /// It does not perform its collective.
    #[error("schedule {name:?} cannot be used: {error}")]
    Wrong {
        /// The schedule's name.
        name: String,
        /// What is wrong with it.
        error: VerifyError,
    },
    /// There are too many.
    #[error(
        "schedule {name:?} cannot be used: it takes {bytes} bytes, and all given schedules of a process at most {MOST_BYTES}"
    )]
    TooMany {
        /// The schedule's name.
        name: String,
        /// Its size.
        bytes: usize,
    },
}

/// The row of the family, which is not in the catalogue: it has no members of its own.
pub(super) static FAMILY: Algorithm = Algorithm {
    name: NAME,
    summary: "a schedule that the user has given",
    source: "the user",
    ports: Ports::Any,
    parameter: Some(Parameter {
        name: "digest",
        meaning: "the beginning of the digest of a schedule that this process has read",
        values: |_| Vec::new(),
        admits: |_, _| true,
        naming: Naming::Digest,
    }),
    offers: &OFFERS,
    bit_identical,
};

/// An offer for every collective.
static OFFERS: [Offer; Collective::ALL.len()] = [
    offer::<0>(),
    offer::<1>(),
    offer::<2>(),
    offer::<3>(),
    offer::<4>(),
    offer::<5>(),
    offer::<6>(),
    offer::<7>(),
    offer::<8>(),
    offer::<9>(),
];

/// The offer of collective number `NUMBER`.
const fn offer<const NUMBER: usize>() -> Offer {
    let performs = |key| {
        schedule_of(key).is_some_and(|schedule| schedule.collective.with_root(0) == Collective::ALL[NUMBER])
    };
    Offer {
        collective: Collective::ALL[NUMBER],
        requirement: Requirement {
            text: "as many ranks as the schedule has",
            admits: |_| true,
            fits: |_| true,
            made: true,
            worth_trying: |_| false,
        },
        only: Some(performs),
        in_rank_order: false,
        construct: Construct::Search(construct, None),
    }
}

/// A schedule, and whether all ranks end with the same bits.
#[derive(Debug)]
struct GivenSchedule {
    schedule: Arc<Schedule>,
    bit_identical: bool,
}

static ALL: RwLock<BTreeMap<usize, GivenSchedule>> = RwLock::new(BTreeMap::new());

/// Verifies a schedule and returns its member. To add a schedule again changes nothing.
pub fn add(schedule: &Schedule) -> Result<Member, NotGiven> {
    let name = || schedule.name.clone();
    let key = key(schedule);
    let member = Member { algorithm: &FAMILY, parameter: Some(key) };
    if schedule_of(key).is_some_and(|known| *known == *schedule) {
        return Ok(member);
    }
    schedule.verify().map_err(|error| NotGiven::Wrong { name: name(), error })?;
    let mut all = ALL.write().unwrap_or_else(PoisonError::into_inner);
    let others: usize = all.values().map(|given| given.schedule.footprint()).sum();
    let bytes = schedule.footprint();
    if others.saturating_add(bytes) > MOST_BYTES {
        return Err(NotGiven::TooMany { name: name(), bytes });
    }
    let bit_identical = Expressions::new(schedule.ranks).agree(schedule);
    all.insert(key, GivenSchedule { schedule: Arc::new(schedule.clone()), bit_identical });
    Ok(member)
}

/// The schedule of a member of this family; `None` for all others.
pub fn schedule(member: Member) -> Option<Arc<Schedule>> {
    schedule_of(member.parameter.filter(|_| member.algorithm.name == NAME)?)
}

const MISSING: &str = "this process does not have it";

/// The member whose parameter is written like this, if this process has the schedule.
pub(super) fn find(digits: &str) -> Option<Member> {
    let key = Naming::Digest.value(digits).filter(|key| schedule_of(*key).is_some())?;
    Some(Member { algorithm: &FAMILY, parameter: Some(key) })
}

fn key(schedule: &Schedule) -> usize {
    Naming::Digest.value(&schedule.digest()[..Naming::DIGITS]).expect("digests are hexadecimal digits")
}

fn schedule_of(key: usize) -> Option<Arc<Schedule>> {
    let all = ALL.read().unwrap_or_else(PoisonError::into_inner);
    all.get(&key).map(|given| given.schedule.clone())
}

/// Why the schedule does not perform `collective` among this many ranks; `None` if it does.
pub(super) fn obstacle(key: usize, collective: Collective, ranks: usize) -> Option<String> {
    match schedule_of(key) {
        None => Some(MISSING.to_owned()),
        Some(found) if (found.collective, found.ranks) != (collective, ranks) => {
            Some(format!("it is a schedule of {} over {} ranks", found.collective, found.ranks))
        }
        Some(_) => None,
    }
}

pub(super) fn construct(request: &ScheduleRequest<'_>) -> Result<Schedule, SearchObstacle> {
    let found = schedule_of(request.parameter).ok_or_else(|| SearchObstacle::None(MISSING.to_owned()))?;
    Ok((*found).clone())
}

fn bit_identical(request: &ScheduleRequest<'_>) -> bool {
    let all = ALL.read().unwrap_or_else(PoisonError::into_inner);
    all.get(&request.parameter).is_some_and(|given| given.bit_identical)
}

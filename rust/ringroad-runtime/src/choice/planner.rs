//! Turns a call into the plan that performs it: the operations of this rank by the chosen algorithm. Calls repeat, so
//! prepared calls are kept.

use std::collections::HashMap;
use std::sync::Arc;

use ringroad_core::algorithms::{self, Member};
use ringroad_core::plan::{Counts, LocalRanks, LowerOptions};
use ringroad_core::schedule::{Expressions, Rounding, Side};
use ringroad_core::selection::Choice;
use ringroad_core::{Bytes, Collective, Plan, Port, Rank, Schedule, Wire};

use crate::calls::call::{CallKey, MaxError, Operation, Precision, Prediction, Prepared, PROC_NULL};
use crate::calls::request::Request;
use crate::choice::choices::Choices;
use crate::choice::plan_cache::BoundedCache;
use crate::choice::schedule_cache::Schedules;
use crate::error::{Error, Result};
use crate::kernels::dtype::ReduceOp;
use crate::os::machine::{LEND, LOCAL_BROADCAST_SEGMENT, LOCAL_SEGMENT};
use crate::transport::shared::PRIVATE;

/// How many bytes the prepared calls may take, and also the schedules from which their plans are made. A training
/// loop repeats a few hundred calls, mostly with plans of less than 100 KiB each.
const KEPT_BYTES: usize = 64 << 20;

/// A format is used where the call then takes no more than this part of its time.
const WORTH_IT: f64 = 0.97;

/// How many bytes of a vector of `bytes` bytes are sent in a format.
fn encoded(wire: Wire, bytes: usize, element: usize) -> Bytes {
    (bytes as f64 * wire.ratio(element)) as Bytes
}

pub(crate) struct Planner {
    rank: Rank,
    /// For each rank, whether it is local; empty if none is.
    local: Arc<[bool]>,
    /// The shortest vector in bytes for which local ranks copy out of private memory; `None` if they never do.
    copies: Option<usize>,
    choices: Arc<Choices>,
    /// The choices of the beginning: messages between two ranks keep their ports, whatever changes.
    first: Arc<Choices>,
    /// What [`Planner::inlets`] returns, once somebody has asked.
    inlets: Option<Arc<[Port]>>,
    /// How often the choices were replaced.
    epoch: u64,
    kept: Schedules,
    schedules: BoundedCache<(Member, Collective), Arc<Schedule>>,
    calls: BoundedCache<CallKey, Arc<Prepared>>,
    /// How often schedules round, where that was asked.
    roundings: HashMap<(Member, Collective), Option<Rounding>>,
    /// The choices for reductions that do not commute, where such were asked for.
    in_rank_order: HashMap<Collective, Choice>,
}

impl Planner {
    pub fn new(
        rank: Rank,
        local: Arc<[bool]>,
        copies: Option<usize>,
        choices: Arc<Choices>,
        kept: Schedules,
    ) -> Planner {
        let (schedules, calls) = (BoundedCache::new(KEPT_BYTES), BoundedCache::new(KEPT_BYTES));
        Planner {
            rank,
            local,
            copies,
            first: choices.clone(),
            inlets: None,
            choices,
            epoch: 0,
            kept,
            schedules,
            calls,
            roundings: HashMap::new(),
            in_rank_order: HashMap::new(),
        }
    }

    /// Makes all later plans by other choices. Calls that were prepared earlier are prepared anew.
    pub fn replace(&mut self, choices: Arc<Choices>) {
        self.choices = choices;
        self.epoch += 1;
        (self.schedules, self.calls) = (BoundedCache::new(KEPT_BYTES), BoundedCache::new(KEPT_BYTES));
        self.roundings.clear();
        self.in_rank_order.clear();
    }

    /// Whether this call was prepared by the current choices.
    #[inline]
    pub fn is_current(&self, prepared: &Prepared) -> bool {
        prepared.epoch == self.epoch
    }

    /// By each rank, the port by which it sends messages to this one.
    pub fn inlets(&mut self) -> Arc<[Port]> {
        let (topology, rank) = (&self.first.topology, self.rank);
        let inlet = |peer| topology.port_to(peer, rank).unwrap_or(0);
        self.inlets.get_or_insert_with(|| (0..topology.ranks()).map(inlet).collect()).clone()
    }

    /// The call and this rank's plan, prepared now or kept from an earlier call with the same key. An error if the
    /// call is not valid.
    pub fn prepare(&mut self, request: &Request) -> Result<&Arc<Prepared>> {
        let key = &request.key;
        if self.calls.latest().is_none_or(|(latest, _)| latest != key) && self.calls.get(key).is_none() {
            let lengths = request.check(self.rank, self.choices.topology.ranks())?;
            self.prepare_and_keep(key, lengths)?;
        }
        let (_, prepared) = self.calls.latest().expect("it is the latest one now");
        if prepared.lengths != request.lengths() {
            request.check(self.rank, self.choices.topology.ranks())?;
        }
        Ok(prepared)
    }

    /// Prepares a call again, by the current choices.
    pub fn prepare_again(&mut self, earlier: &Prepared) -> Result<Arc<Prepared>> {
        match self.calls.get(&earlier.key) {
            Some(prepared) => Ok(prepared.clone()),
            None => self.prepare_and_keep(&earlier.key, earlier.lengths),
        }
    }

    fn prepare_and_keep(&mut self, key: &CallKey, lengths: [usize; 2]) -> Result<Arc<Prepared>> {
        let prepared = Arc::new(self.prepare_anew(key, lengths)?);
        self.calls.insert(key.clone(), prepared.clone(), prepared.footprint());
        Ok(prepared)
    }

    fn prepare_anew(&mut self, key: &CallKey, lengths: [usize; 2]) -> Result<Prepared> {
        let port = |from, to| match from == to {
            true => 0,
            false => self.first.topology.port_to(from, to).unwrap_or(0),
        };
        let [input, output] = lengths;
        let epoch = self.epoch;
        let message = |plan| {
            let mut prepared = Prepared::new(key.clone(), Member::for_messages(), None, plan, lengths);
            prepared.epoch = epoch;
            Ok(prepared)
        };
        match key.operation {
            Operation::Send { peer: PROC_NULL, .. } | Operation::Receive { peer: PROC_NULL, .. } => {
                message(Plan::nothing())
            }
            Operation::Probe { .. } => message(Plan::nothing()),
            Operation::Send { peer, .. } => message(Plan::send(peer, port(self.rank, peer), input)),
            Operation::Receive { peer, .. } => message(Plan::receive(peer, port(peer, self.rank), output)),
            // The source and its port are known only once a message has come.
            Operation::ReceiveAny { .. } => message(Plan::receive(0, 0, output)),
            Operation::Barrier => self.prepare_collective(key, Collective::Allreduce, lengths),
            Operation::Collective(collective) => self.prepare_collective(key, collective, lengths),
        }
    }

    fn prepare_collective(
        &mut self,
        key: &CallKey,
        collective: Collective,
        lengths: [usize; 2],
    ) -> Result<Prepared> {
        let bytes = key.vector(collective, self.choices.topology.ranks())?;
        let (member, wire) = self.choose(key, collective, bytes)?;
        let schedule = self.schedule(member, collective)?;
        let side = if key.in_rank_order() { self.side(member, collective)? } else { Some(Side::Right) };
        // What the call cannot use is refused before a plan is made.
        let Some(side) = side else {
            return Err(Error::Schedule(format!(
                "{member} does not combine values in the order of the ranks, which {} needs; name no algorithm, or say that \
                 the operation is commutative if it is",
                key.op
            )));
        };
        if wire.is_some() && !self.keeps_replicas(member, collective)? {
            return Err(Error::Schedule(format!(
                "with a wire format, ranks would end with different bits by {member}, in which they add up the same values \
                 in different ways; name another one with algorithm="
            )));
        }
        let options = LowerOptions {
            in_place: key.in_place,
            premultiply: key.reduces() && key.op == ReduceOp::PremulSum,
            average: key.reduces() && key.op == ReduceOp::Avg,
            segment: self.choices.lowering.segment,
            part: self.choices.lowering.part,
            two_areas: self.choices.lowering.two_areas,
            wire,
            local: LocalRanks {
                ranks: self.local.clone(),
                segment: match collective {
                    Collective::Broadcast { .. } => LOCAL_BROADCAST_SEGMENT,
                    _ => LOCAL_SEGMENT,
                },
                input: key.readable.0,
                output: key.readable.1,
                zero_copy: LEND,
                copies: self.copies.filter(|least| bytes >= *least).map(|_| PRIVATE),
            },
            ..LowerOptions::default()
        };
        let plan = Plan::lower(&schedule, self.rank, key.counts(), key.dtype.size(), &options)?;
        let is_watched = matches!(key.operation, Operation::Collective(_))
            && matches!(key.counts(), Counts::Equal(_))
            && wire.is_none();
        // Its time is compared with this prediction. Costs are those of equal blocks without a wire format.
        let seconds = self.choices.seconds(collective, member, bytes as Bytes).filter(|_| is_watched);
        let predicted =
            |seconds| Prediction { collective, bytes, seconds: seconds as f32, internal: key.internal };
        let mut prepared = Prepared::new(key.clone(), member, wire, plan, lengths);
        (prepared.prediction, prepared.epoch) = (seconds.map(predicted), self.epoch);
        prepared.flipped = side == Side::Left;
        Ok(prepared)
    }

    /// The algorithm and the format for a vector of `bytes` bytes.
    fn choose(
        &mut self,
        key: &CallKey,
        collective: Collective,
        bytes: usize,
    ) -> Result<(Member, Option<Wire>)> {
        let element = key.dtype.size();
        let wire = match key.precision {
            Precision::Exact => None,
            Precision::Wire(wire) | Precision::Stochastic(wire) => {
                Some(wire).filter(|wire| wire.shortens(element))
            }
            Precision::Within(most) => return self.choose_within(key, collective, bytes, most),
        };
        let sent = wire.map_or(bytes as Bytes, |wire| encoded(wire, bytes, element));
        if let Some(named) = key.algorithm {
            return Ok((named, wire));
        }
        if key.in_rank_order() {
            return Ok((self.in_rank_order(collective)?.any.table.pick(sent), wire));
        }
        let fastest = self.choices.pick(collective, sent, key.any_order());
        if wire.is_none() || self.keeps_replicas(fastest, collective)? {
            return Ok((fastest, wire));
        }
        let choices = self.choices.clone();
        let seconds = |member: &Member| choices.seconds(collective, *member, sent).unwrap_or(f64::INFINITY);
        let mut others = choices.known(collective);
        others.sort_by(|one, other| seconds(one).total_cmp(&seconds(other)));
        for member in others {
            if self.keeps_replicas(member, collective)? {
                return Ok((member, wire));
            }
        }
        Ok((fastest, wire))
    }

    /// The fastest algorithm and format whose error has the bound `most`. Elements are sent as they are where that is
    /// about as fast, or where the costs are not known.
    fn choose_within(
        &mut self,
        key: &CallKey,
        collective: Collective,
        bytes: usize,
        most: MaxError,
    ) -> Result<(Member, Option<Wire>)> {
        let (choices, element) = (self.choices.clone(), key.dtype.size());
        let exact = || choices.pick(collective, bytes as Bytes, key.any_order());
        let exact = key.algorithm.unwrap_or_else(exact);
        let seconds = |member, bytes| choices.seconds(collective, member, bytes);
        let Some(limit) = seconds(exact, bytes as Bytes).filter(|_| !choices.is_one_host()) else {
            return Ok((exact, None));
        };
        let codec = choices.model.codec(choices.topology.ranks(), bytes as Bytes);
        let mut best = (limit * WORTH_IT, exact, None);
        let members = key.algorithm.map_or_else(|| choices.known(collective), |member| vec![member]);
        for wire in Wire::ALL.into_iter().filter(|wire| wire.is_bounded() && wire.shortens(element)) {
            for &member in &members {
                let Some(seconds) = seconds(member, encoded(wire, bytes, element)) else { continue };
                let is_faster = seconds + codec < best.0;
                if is_faster
                    && wire.bound(self.roundings(member, collective)?, element) <= most.get()
                    && self.keeps_replicas(member, collective)?
                {
                    best = (seconds + codec, member, Some(wire));
                }
            }
        }
        Ok((best.1, best.2))
    }

    /// The choice among the algorithms that combine values in the order of the ranks, whatever the user prefers.
    pub fn in_rank_order(&mut self, collective: Collective) -> Result<&Choice> {
        if !self.in_rank_order.contains_key(&collective) {
            let mut among = Vec::new();
            for member in algorithms::available(&self.choices.topology, collective) {
                let may_be = member.in_rank_order(collective) || collective.is_prefix();
                if may_be && self.side(member, collective)?.is_some() {
                    among.push(member);
                }
            }
            if among.is_empty() {
                return Err(Error::Schedule(format!(
                    "no algorithm for {collective} combines the values of {} ranks in their order; say that the \
                     operation is commutative if it is",
                    self.choices.topology.ranks()
                )));
            }
            let choice = self.choices.by_cost(collective, &among)?;
            self.in_rank_order.insert(collective, choice);
        }
        Ok(&self.in_rank_order[&collective])
    }

    /// On which side arriving values are combined, so that all are combined in the order of the ranks; `None` if `member`
    /// combines them in another order.
    fn side(&mut self, member: Member, collective: Collective) -> Result<Option<Side>> {
        if member.in_rank_order(collective) {
            return Ok(Some(Side::Right));
        }
        Ok(Expressions::side_in_rank_order(&*self.schedule(member, collective)?))
    }

    /// The most roundings on the way of a value into the result of `member`.
    fn roundings(&mut self, member: Member, collective: Collective) -> Result<u32> {
        let most = Rounding::most(self.schedule(member, collective)?.steps.len());
        Ok(self.rounding(member, collective)?.map_or(most, |rounding| rounding.roundings))
    }

    /// Whether replicas that are bit-identical by `member` are so with a wire format, too.
    fn keeps_replicas(&mut self, member: Member, collective: Collective) -> Result<bool> {
        let agrees = self.rounding(member, collective)?.is_none_or(|rounding| rounding.agrees);
        Ok(agrees || !member.bit_identical(&self.choices.topology, collective))
    }

    fn rounding(&mut self, member: Member, collective: Collective) -> Result<Option<Rounding>> {
        if let Some(rounding) = self.roundings.get(&(member, collective)) {
            return Ok(*rounding);
        }
        let rounding = Rounding::from_schedule(&*self.schedule(member, collective)?);
        self.roundings.insert((member, collective), rounding);
        Ok(rounding)
    }

    /// The verified schedule of `member`.
    fn schedule(&mut self, member: Member, collective: Collective) -> Result<Arc<Schedule>> {
        if let Some(schedule) = self.schedules.get(&(member, collective)) {
            return Ok(schedule.clone());
        }
        let expected = self.choices.digest(collective, member);
        let schedule = self.kept.schedule(&self.choices.topology, member, collective, self.rank, expected)?;
        let schedule = Arc::new(schedule);
        self.schedules.insert((member, collective), schedule.clone(), schedule.footprint());
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::EndpointInfo;
    use crate::choice::agreement::choose;
    use crate::choice::options::Options;
    use crate::choice::report::DiscoveryReport;
    use crate::config::Config;
    use crate::kernels::dtype::DType;
    use crate::transport::buffer::Memory;

    const RANKS: usize = 12;
    const RANK: Rank = 3;

    fn planner(most: usize) -> Planner {
        let endpoints: Vec<EndpointInfo> =
            (0..RANKS).map(|rank| EndpointInfo::new(rank, RANKS, "", "", Vec::new())).collect();
        let choices =
            choose(&endpoints, &Config::default(), &Options::default(), 1, &DiscoveryReport::default())
                .unwrap();
        let local = Arc::new([false; RANKS]);
        let planner = Planner::new(RANK, local, None, Arc::new(choices), Schedules::new(None));
        Planner { schedules: BoundedCache::new(most), calls: BoundedCache::new(most), ..planner }
    }

    fn request(collective: Collective, elements: usize, algorithm: Option<&str>) -> Request {
        let algorithm = algorithm.map(|name| algorithms::find(name).unwrap());
        let key = CallKey::new(Operation::Collective(collective), DType::I32, elements);
        let key = CallKey { algorithm, ..key };
        let [input, output] = key.lengths(RANK, RANKS).unwrap().map(Memory::zeroed);
        Request::from_key(key, input, output)
    }

    /// However many sizes and algorithms are called, the kept values stay within their bounds, and every plan is
    /// right.
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of plans, and no unsafe code")]
    fn what_is_kept_is_bounded_and_plans_stay_right() {
        const CACHE_LIMIT: usize = 256 << 10;
        let (mut small, mut large) = (planner(CACHE_LIMIT), planner(usize::MAX));
        let collectives = [Collective::Allreduce, Collective::Allgather, Collective::Broadcast { root: 5 }];
        let algorithms = [None, Some("ring"), Some("direct"), Some("bfb")];
        for round in 0..200 {
            for collective in collectives {
                for algorithm in algorithms {
                    let request = request(collective, 1 + round % 80 * 57, algorithm);
                    let (Ok(call), Ok(expected)) = (small.prepare(&request), large.prepare(&request)) else {
                        continue;
                    };
                    assert_eq!((&call.algorithm, &call.plan), (&expected.algorithm, &expected.plan));
                    assert!(small.calls.bytes() <= CACHE_LIMIT && small.schedules.bytes() <= CACHE_LIMIT);
                }
            }
        }
        assert!(large.calls.bytes() > 2 * CACHE_LIMIT, "{} bytes are no test", large.calls.bytes());
        let again = || request(Collective::Allreduce, 1000, None);
        let call = large.prepare(&again()).unwrap().clone();
        assert!(Arc::ptr_eq(&call, large.prepare(&again()).unwrap()));
    }

    /// A call with a kept key is refused all the same if its memory has another length.
    #[test]
    fn memory_is_looked_at_in_every_call() {
        let mut planner = planner(usize::MAX);
        let whole = request(Collective::Allreduce, 10, None);
        planner.prepare(&whole).unwrap();
        let short = Request { output: Memory::zeroed(39), ..request(Collective::Allreduce, 10, None) };
        let error = planner.prepare(&short).unwrap_err().to_string();
        assert_eq!(error, "this call needs 40 bytes of output on rank 3, not 39");
        planner.prepare(&whole).unwrap();
    }
}

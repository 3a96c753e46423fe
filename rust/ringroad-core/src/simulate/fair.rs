//! Max-min fair rates of flows that share links.
//!
//! A flow that is split over several shortest paths has one rate `r`. A link on its route carries a fixed share `s` of
//! its bytes, and so `r · s` bytes per second. The rates are found by water-filling: the rates of all flows rise
//! together until a link is full. The flows on this link keep their rates, and the rates of the others rise further. In
//! the end no flow can have a higher rate unless another flow, whose rate is not higher, gets less (Bertsekas,
//! Gallager: Data Networks, 6.5.2, with fractions in place of zeros and ones).
//!
//! Flows that share no link, directly or through other flows, do not affect each other. So only the links and flows
//! that are connected to a change are computed again.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use crate::units::LinkId;

/// The number of a flow. Numbers of ended flows are reused.
pub(super) type FlowId = usize;

/// The links of a flow, and the fraction of its bytes that each link carries.
pub(super) type Shares = Arc<[(LinkId, f64)]>;

struct FairFlow {
    shares: Shares,
    /// In bytes per second.
    rate: f64,
    open: bool,
    /// The round that last visited the flow.
    seen: u64,
    /// Whether the current round has determined its rate.
    settled: bool,
}

struct FairLink {
    /// In bytes per second.
    capacity: f64,
    /// The open flows on the link, and, until the next round, ended ones.
    flows: Vec<FlowId>,
    /// The round that last visited the link.
    seen: u64,
    /// During a round: the capacity that settled flows leave.
    left: f64,
    /// During a round: the sum of the shares of flows that are not settled.
    weight: f64,
    /// During a round: how many flows are not settled.
    competing: usize,
}

/// Flows and the links that they share.
pub(super) struct FairNetwork {
    links: Vec<FairLink>,
    flows: Vec<FairFlow>,
    /// The numbers of flows that may be reused now.
    free: Vec<FlowId>,
    /// The numbers of flows that may be reused after the next round.
    ended: Vec<FlowId>,
    /// The links whose flows have changed since the last round.
    changed: Vec<LinkId>,
    round: u64,
    /// The links and flows of the last round, kept to reuse their memory.
    reached: (Vec<LinkId>, Vec<FlowId>),
    rising: BinaryHeap<Saturation>,
}

/// The rate at which a link is full. The lowest rate compares as the greatest, and among equals the first link.
#[derive(PartialEq)]
struct Saturation {
    rate: f64,
    link: LinkId,
}

impl Eq for Saturation {}

impl Ord for Saturation {
    fn cmp(&self, other: &Self) -> Ordering {
        other.rate.total_cmp(&self.rate).then(other.link.cmp(&self.link))
    }
}

impl PartialOrd for Saturation {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FairNetwork {
    /// A network without flows, whose links have these capacities in bytes per second, which must be positive.
    pub fn new(capacities: impl Iterator<Item = f64>) -> FairNetwork {
        let link = |capacity| FairLink {
            capacity,
            flows: Vec::new(),
            seen: 0,
            left: 0.0,
            weight: 0.0,
            competing: 0,
        };
        FairNetwork {
            links: capacities.map(link).collect(),
            flows: Vec::new(),
            free: Vec::new(),
            ended: Vec::new(),
            changed: Vec::new(),
            round: 0,
            reached: Default::default(),
            rising: BinaryHeap::new(),
        }
    }

    /// Starts a flow over at least one link. Its rate is 0 until [`FairNetwork::settle`].
    pub fn begin(&mut self, shares: Shares) -> FlowId {
        let flow = FairFlow { shares, rate: 0.0, open: true, seen: 0, settled: false };
        let id = self.free.pop().unwrap_or(self.flows.len());
        for &(link, _) in flow.shares.iter() {
            self.links[link].flows.push(id);
            self.changed.push(link);
        }
        if id == self.flows.len() {
            self.flows.push(flow);
        } else {
            self.flows[id] = flow;
        }
        id
    }

    /// Ends a flow. The rates of the others do not change until [`FairNetwork::settle`].
    pub fn end(&mut self, id: FlowId) {
        self.flows[id].open = false;
        self.changed.extend(self.flows[id].shares.iter().map(|(link, _)| *link));
        self.ended.push(id);
    }

    /// The rate of a flow, in bytes per second.
    pub fn rate(&self, id: FlowId) -> f64 {
        self.flows[id].rate
    }

    /// Whether flows have started or ended since the last [`FairNetwork::settle`].
    pub fn is_unsettled(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Computes the rates of all flows that the changes can affect. Calls `changed` for every flow whose rate has
    /// changed, with its rate before.
    pub fn settle(&mut self, mut changed: impl FnMut(&FairNetwork, FlowId, f64)) {
        let (links, flows) = self.reach();
        let before: Vec<f64> = flows.iter().map(|id| self.flows[*id].rate).collect();
        self.fill(&links, &flows);
        self.free.append(&mut self.ended);
        for (id, before) in flows.iter().zip(before) {
            if self.flows[*id].rate != before {
                changed(self, *id, before);
            }
        }
        self.reached = (links, flows);
    }

    /// All links and open flows that are connected to changed links, directly or through other flows.
    fn reach(&mut self) -> (Vec<LinkId>, Vec<FlowId>) {
        self.round += 1;
        let (mut links, mut flows) = std::mem::take(&mut self.reached);
        links.clear();
        flows.clear();
        let FairNetwork { links: channels, flows: all, changed, round, .. } = self;
        let visit = |channels: &mut Vec<FairLink>, links: &mut Vec<LinkId>, link: LinkId| {
            if channels[link].seen != *round {
                channels[link].seen = *round;
                links.push(link);
            }
        };
        changed.drain(..).for_each(|link| visit(channels, &mut links, link));
        let mut next = 0;
        while let Some(&link) = links.get(next) {
            next += 1;
            channels[link].flows.retain(|id| all[*id].open);
            for at in 0..channels[link].flows.len() {
                let id = channels[link].flows[at];
                if all[id].seen != *round {
                    all[id].seen = *round;
                    flows.push(id);
                    all[id].shares.iter().for_each(|(link, _)| visit(channels, &mut links, *link));
                }
            }
        }
        (links, flows)
    }

    /// Determines the rates of these flows by water-filling.
    fn fill(&mut self, links: &[LinkId], flows: &[FlowId]) {
        for &link in links {
            let channel = &mut self.links[link];
            (channel.left, channel.weight, channel.competing) = (channel.capacity, 0.0, 0);
        }
        for &id in flows {
            self.flows[id].settled = false;
            for &(link, share) in self.flows[id].shares.iter() {
                self.links[link].weight += share;
                self.links[link].competing += 1;
            }
        }
        let competing = links.iter().filter(|link| self.links[**link].competing > 0);
        self.rising.extend(competing.map(|link| self.links[*link].level(*link)));
        let mut water = 0.0f64;
        while let Some(full) = self.rising.pop() {
            if self.links[full.link].competing == 0 {
                continue;
            }
            // Flows that other links have limited since may have left this link more capacity.
            let level = self.links[full.link].level(full.link);
            if level.rate > full.rate {
                self.rising.push(level);
                continue;
            }
            water = water.max(level.rate);
            self.hold(full.link, water);
        }
    }

    /// Settles the flows of a full link at `rate`.
    fn hold(&mut self, link: LinkId, rate: f64) {
        let FairNetwork { links, flows, .. } = self;
        let of_link = std::mem::take(&mut links[link].flows);
        for &id in &of_link {
            let flow = &mut flows[id];
            if flow.settled {
                continue;
            }
            (flow.rate, flow.settled) = (rate, true);
            for &(other, share) in flow.shares.iter() {
                let other = &mut links[other];
                other.left -= share * rate;
                other.weight -= share;
                other.competing -= 1;
            }
        }
        links[link].flows = of_link;
    }
}

impl FairLink {
    /// The rate at which the link is full, if only flows that are not settled rise further.
    fn level(&self, link: LinkId) -> Saturation {
        Saturation { rate: (self.left / self.weight).max(0.0), link }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settled(network: &mut FairNetwork) {
        network.settle(|_, _, _| {});
    }

    fn rates(capacities: &[f64], flows: &[&[(LinkId, f64)]]) -> Vec<f64> {
        let mut network = FairNetwork::new(capacities.iter().copied());
        let ids: Vec<FlowId> = flows.iter().map(|shares| network.begin((*shares).into())).collect();
        settled(&mut network);
        ids.into_iter().map(|id| network.rate(id)).collect()
    }

    #[test]
    fn small_networks_by_hand() {
        let check = |capacities: &[f64], flows: &[&[(LinkId, f64)]], expected: &[f64]| {
            let found = rates(capacities, flows);
            let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-12 * b);
            assert!(close && found.len() == expected.len(), "{found:?} instead of {expected:?}");
        };
        check(&[12.0], &[&[(0, 1.0)]], &[12.0]);
        check(&[12.0], &[&[(0, 1.0)], &[(0, 1.0)], &[(0, 1.0)]], &[4.0; 3]);
        // The textbook example: the long flow is limited by the narrow link, and the short one gets the rest of the
        // wide link.
        check(&[12.0, 6.0], &[&[(0, 1.0), (1, 1.0)], &[(0, 1.0)], &[(1, 1.0)]], &[3.0, 9.0, 3.0]);
        // A flow split in halves over two links gets twice a link's capacity. A second flow on one of the links slows
        // it down: r / 2 + r = 12.
        check(&[12.0, 12.0], &[&[(0, 0.5), (1, 0.5)]], &[24.0]);
        check(&[12.0, 12.0], &[&[(0, 0.5), (1, 0.5)], &[(0, 1.0)]], &[8.0, 8.0]);
        // Where another link limits the first flow, the second flow gets the rest.
        check(&[12.0, 2.0], &[&[(0, 0.5), (1, 0.5)], &[(0, 1.0)]], &[4.0, 10.0]);
    }

    type Shared = Vec<(LinkId, f64)>;

    fn networks() -> impl Strategy<Value = (Vec<f64>, Vec<Shared>)> {
        (1usize..8).prop_flat_map(|links| {
            let share = (0..links, 0.05f64..1.0);
            let flow = prop::collection::vec(share, 1..5).prop_map(|mut shares| {
                shares.sort_by_key(|(link, _)| *link);
                shares.dedup_by_key(|(link, _)| *link);
                shares
            });
            (prop::collection::vec(0.5f64..20.0, links), prop::collection::vec(flow, 1..20))
        })
    }

    /// Checks that rates are max-min fair: no link carries too much, and every flow has a full link on which no flow
    /// has a higher rate.
    fn assert_fair(network: &FairNetwork, open: &[(FlowId, Shared)]) {
        let carried = |link| {
            let share = |shares: &Shared| shares.iter().find(|s| s.0 == link).map_or(0.0, |s| s.1);
            open.iter().map(|(id, shares)| share(shares) * network.rate(*id)).sum::<f64>()
        };
        for (link, channel) in network.links.iter().enumerate() {
            assert!(carried(link) <= channel.capacity * (1.0 + 1e-9), "link {link} carries too much");
        }
        for (id, shares) in open {
            let bottleneck = shares.iter().any(|&(link, _)| {
                let highest = open
                    .iter()
                    .filter(|(_, s)| s.iter().any(|s| s.0 == link))
                    .map(|(id, _)| network.rate(*id))
                    .fold(0.0, f64::max);
                carried(link) >= network.links[link].capacity * (1.0 - 1e-9)
                    && network.rate(*id) >= highest * (1.0 - 1e-9)
            });
            assert!(bottleneck, "flow {id} could get more than {}", network.rate(*id));
        }
    }

    proptest! {
        /// Rates are fair after every change, and `changed` is called for exactly the flows whose rates have changed.
        #[test]
        fn rates_are_fair_whatever_begins_and_ends(
            (capacities, flows) in networks(),
            ends in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let mut network = FairNetwork::new(capacities.iter().copied());
            let mut open: Vec<(FlowId, Shared)> = Vec::new();
            for (count, shares) in flows.iter().enumerate() {
                open.push((network.begin(shares.as_slice().into()), shares.clone()));
                if count % 3 == 0 {
                    settled(&mut network);
                    assert_fair(&network, &open);
                }
            }
            settled(&mut network);
            assert_fair(&network, &open);
            for end in ends.iter().take(flows.len()) {
                let (id, _) = open.swap_remove(end.index(open.len()));
                network.end(id);
                let mut told = Vec::new();
                let before: Vec<f64> = open.iter().map(|(id, _)| network.rate(*id)).collect();
                network.settle(|_, id, was| told.push((id, was)));
                for ((id, _), was) in open.iter().zip(before) {
                    prop_assert_eq!(told.contains(&(*id, was)), network.rate(*id) != was);
                }
                assert_fair(&network, &open);
            }
        }
    }
}

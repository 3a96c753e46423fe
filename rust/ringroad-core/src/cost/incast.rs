//! Incast: messages of several senders that arrive by the same port of a receiver and wait for each other.
//!
//! The loads of links do not show incast: 255 short messages fit a link easily. But hardware needs a gap between two
//! messages at a port (g of Culler et al.: LogP, PPoPP 1993), and switches delay or drop messages that arrive at the
//! same time. A model without this term prefers that all ranks send to all others in one step, at any number of ranks.
//! Xiong et al. (Revisiting the time cost model of allreduce, arXiv 2409.04202) measured incast as a share of the bytes
//! from some number of senders on. Here every sender but the first of a port adds the same time, however much it sends.
//!
//! A rank has as many ports as links end at it, one behind a switch and 2D on a torus, and messages spread over them.
//! So there is no incast where ranks send and receive one message by each port. Messages between ranks of one host are
//! in memory and pass no port.

use crate::schedule::View;
use crate::topology::Topology;
use crate::units::{Rank, Seconds};

/// The default time in seconds that every sender but the first of a port adds to a step: ten million messages per
/// second, about what one core takes from a NIC.
pub const DEFAULT_INCAST_LATENCY: Seconds = 0.1e-6;

/// The ports by which messages arrive at ranks.
pub(crate) struct Inlets {
    /// How many links end at each rank.
    links: Vec<usize>,
    /// The host of every rank.
    hosts: Vec<usize>,
}

impl Inlets {
    pub fn new(topology: &Topology) -> Inlets {
        let mut links = vec![0; topology.ranks()];
        for link in topology.links().iter().filter(|link| link.target < topology.ranks()) {
            links[link.target] += 1;
        }
        Inlets { links, hosts: topology.hosts_of_ranks() }
    }

    /// How many ports a rank has.
    pub fn ports(&self, rank: Rank) -> usize {
        self.links[rank].max(1)
    }

    /// Whether messages from the source to the destination pass a port: whether the ranks are on different hosts.
    pub fn pass(&self, source: Rank, destination: Rank) -> bool {
        self.hosts[source] != self.hosts[destination]
    }

    /// How many senders the busiest port of `rank` has beyond the first, if `senders` ranks send to it.
    pub fn further(&self, rank: Rank, senders: usize) -> usize {
        senders.div_ceil(self.ports(rank)).saturating_sub(1)
    }

    /// The most senders beyond the first that a port has in a step.
    pub fn further_in_step(&self, view: &View<'_>, step: usize) -> usize {
        let ranks = 0..view.ranks();
        if let Some(partners) = view.partners(step).filter(|_| self.hosts.is_sorted_by(|a, b| a < b)) {
            // All ranks have the same number of senders, but not of ports.
            return ranks.map(|rank| self.further(rank, partners)).max().unwrap_or(0);
        }
        let senders = view.senders(step, |source, destination| self.pass(source, destination));
        ranks.map(|rank| self.further(rank, senders[rank])).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::{available, find};
    use crate::collective::Collective;
    use crate::cost::{CostModel, ScheduleCost};
    use crate::schedule::Schedule;

    fn topology(spec: &str) -> Topology {
        Topology::parse(spec).unwrap()
    }

    fn counts(schedule: &Schedule, topology: &Topology) -> Vec<usize> {
        ScheduleCost::from_schedule(schedule, topology)
            .unwrap()
            .steps
            .iter()
            .map(|step| step.incast)
            .collect()
    }

    #[test]
    fn messages_that_meet() {
        let check = |algorithm: &str, collective: Collective, spec: &str, expected: &[usize]| {
            let topology = topology(spec);
            let schedule = find(algorithm).unwrap().build(&topology, collective).unwrap();
            assert_eq!(counts(&schedule, &topology), expected, "{algorithm} on {spec}");
        };
        let allreduce = Collective::Allreduce;
        check("direct", allreduce, "switch:256", &[254, 254]);
        check("direct-latency", allreduce, "switch:16", &[14]);
        // One partner, two partners, a root that receives from all, and a root that sends to all.
        check("recursive-doubling", allreduce, "switch:8", &[0, 0, 0]);
        check("trivance-latency", allreduce, "switch:9", &[1, 1]);
        check("direct", Collective::Gather { root: 3 }, "switch:16", &[14]);
        check("direct", Collective::Scatter { root: 3 }, "switch:16", &[0]);
        // 15 messages by two ports, by four, by six, and by the two of a corner. With one message for each port there
        // is no incast.
        check("direct-latency", allreduce, "ring:16", &[7]);
        check("direct-latency", allreduce, "torus:4x4", &[3]);
        check("direct-latency", allreduce, "hyperx:4x4", &[2]);
        check("direct-latency", allreduce, "mesh:4x4", &[7]);
        check("trivance-latency", allreduce, "torus:9x9", &[0; 4]);
        check("swing", allreduce, "torus:4x4", &[0; 8]);
        // There is no incast in memory; between hosts there are three senders.
        check("hierarchical:direct", allreduce, "hosts:4x8", &[0, 2, 2, 0]);
        check("direct-latency", allreduce, "hosts:2x4", &[3]);
    }

    /// By hand: 2 steps of 2 µs in which 5 messages reach one port (0.5 µs for each but the first) over 2 hops of 1 µs.
    #[test]
    fn seconds() {
        let topology = topology("switch:6");
        let schedule = find("direct").unwrap().build(&topology, Collective::Allreduce).unwrap();
        let cost = ScheduleCost::from_schedule(&schedule, &topology).unwrap();
        let model = CostModel {
            step_latency: 2e-6,
            incast_latency: 0.5e-6,
            hop_latency: Some(1e-6),
            ..CostModel::default()
        };
        assert!((model.fixed(&cost) - 2.0 * (2.0 + 4.0 * 0.5 + 2.0) * 1e-6).abs() < 1e-15);
        // Every message beyond the first takes both its incast latency and its message latency.
        let both = CostModel { message_latency: 0.25e-6, ..model };
        assert!((both.fixed(&cost) - 2.0 * (2.0 + 4.0 * 0.75 + 2.0) * 1e-6).abs() < 1e-15);
        // The messages of ranks that share cores are in memory, without incast.
        let cores = CostModel { cores: Some(2), message_latency: 0.0, ..model };
        assert!((cores.fixed(&cost) - 2.0 * (2.0 + 2.0) * 1e-6).abs() < 1e-15);
    }

    /// The counts of a symmetric schedule are those of the same schedule written out.
    #[test]
    fn symmetric_and_written_out() {
        let specs = ["switch:8", "ring:9", "torus:4x4", "torus:3x4", "mesh:3x4", "hyperx:3x4", "hypercube:3"];
        for spec in specs.into_iter().chain(["hosts:2x4", "hosts:3x3", "fattree:3x3"]) {
            let topology = topology(spec);
            for collective in Collective::ALL {
                for member in available(&topology, collective) {
                    let schedule = member.build(&topology, collective).unwrap();
                    let written = counts(&schedule.expand(), &topology);
                    assert_eq!(counts(&schedule, &topology), written, "{member}: {collective} on {spec}");
                }
            }
        }
    }

    /// With incast, sending from all ranks to all others pays off for few ranks only.
    #[test]
    fn choices_behind_a_switch() {
        let fastest = |ranks: usize, model: &CostModel, bytes: f64| {
            let topology = Topology::switch(ranks).unwrap();
            let cost = |name: &str| {
                let schedule = find(name).unwrap().build(&topology, Collective::Allreduce).unwrap();
                let cost = ScheduleCost::from_schedule(&schedule, &topology).unwrap();
                model.fixed(&cost) + model.per_byte(&cost) * bytes
            };
            let names =
                ["direct-latency", "direct", "bruck-latency", "recursive-doubling", "halving-doubling"];
            names.into_iter().min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap()
        };
        let (with, without) =
            (CostModel::default(), CostModel { incast_latency: 0.0, ..CostModel::default() });
        for (ranks, bytes, free, expected) in [
            (4, 8.0, "direct-latency", "direct-latency"),
            (16, 8.0, "direct-latency", "direct-latency"),
            (256, 8.0, "direct-latency", "bruck-latency"),
            (256, 1e6, "direct", "halving-doubling"),
            (256, 1e9, "direct", "halving-doubling"),
        ] {
            assert_eq!(fastest(ranks, &without, bytes), free, "{ranks} ranks, {bytes} bytes");
            assert_eq!(fastest(ranks, &with, bytes), expected, "{ranks} ranks, {bytes} bytes");
        }
    }
}

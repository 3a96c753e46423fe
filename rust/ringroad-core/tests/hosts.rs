//! Tests which algorithms are chosen behind switches, where each rank can send to all others, and on hosts whose ranks
//! share a cable.

use ringroad_core::algorithms::{available, find, Member};
use ringroad_core::cost::{rank, Candidate, CostModel, Ranked, ScheduleCost, SwitchTable};
use ringroad_core::{Collective, Topology};

/// A model in which further messages and reductions take time.
const MODEL: CostModel = CostModel {
    step_latency: 1e-6,
    message_latency: 0.5e-6,
    incast_latency: 0.0,
    hop_latency: None,
    bandwidth: None,
    reduce_cost: 5e-11,
    overlapped: false,
    cores: None,
    over_links: false,
    codec_cost: 0.0,
};

fn candidates(topology: &Topology, collective: Collective) -> Vec<Candidate> {
    let candidate = |member: Member, bit_identical| {
        let schedule = member.build(topology, collective).unwrap();
        Candidate::new(member, ScheduleCost::from_schedule(&schedule, topology).unwrap(), bit_identical)
    };
    let all = available(topology, collective).into_iter();
    all.map(|member| candidate(member, member.bit_identical(topology, collective))).collect()
}

fn seconds(ranked: &[Ranked<'_>], name: &str) -> f64 {
    ranked
        .iter()
        .find(|r| r.candidate.member.name() == name)
        .unwrap_or_else(|| panic!("there is no {name}"))
        .seconds
}

/// A host's cable carries as much as if the host were one rank, and memory has twice its bandwidth.
#[test]
fn cables_carry_each_byte_as_if_hosts_were_ranks() {
    for (hosts, per_host) in [(2, 4), (4, 2), (3, 3), (4, 8)] {
        let topology = Topology::hosts(hosts, per_host).unwrap();
        let load = |name: &str| {
            let schedule = find(name).unwrap().build(&topology, Collective::Allreduce).unwrap();
            ScheduleCost::from_schedule(&schedule, &topology).unwrap().link_load()
        };
        let part = |n: usize| 2.0 * (n - 1) as f64 / n as f64;
        let expected = part(per_host) / 2.0 + part(hosts);
        assert!((load("hierarchical:ring") - expected).abs() < 1e-12, "{topology}");
        assert!((load("hierarchical:direct") - expected).abs() < 1e-12, "{topology}");
        // All ranks of a host send their vectors to all ranks of the other hosts.
        let (vectors, elsewhere) = (per_host, (hosts - 1) * per_host);
        assert!((load("direct-latency") - (vectors * elsewhere) as f64).abs() < 1e-9, "{topology}");
    }
}

#[test]
fn hosts_are_used_as_hosts() {
    let topology = Topology::hosts(2, 4).unwrap().with_hosts(Some(4.0), Some(5e-6)).unwrap();
    let candidates = candidates(&topology, Collective::Allreduce);
    let at = |bytes| rank(&MODEL, &candidates, bytes);
    // Short vectors are exchanged as a whole and long ones in slices; both cross the network as rarely as possible.
    assert_eq!(at(1 << 10)[0].candidate.member.name(), "hierarchical-latency:recursive-doubling");
    assert_eq!(at(64 << 10)[0].candidate.member.name(), "hierarchical:recursive-doubling");
    assert_eq!(at(64 << 20)[0].candidate.member.name(), "hierarchical:ring");
    let at = at(1 << 20);
    let best = at[0].seconds;
    assert_eq!(at[0].candidate.member.name(), "hierarchical:recursive-doubling");
    for (flat, ratio) in
        [("ring", 1.9), ("bidirectional-ring", 1.9), ("swing", 1.6), ("direct", 2.0), ("direct-latency", 9.0)]
    {
        assert!(seconds(&at, flat) > ratio * best, "{flat}: {} and {best}", seconds(&at, flat));
    }
}

#[test]
fn direct_is_for_switches_and_short_vectors() {
    let pick = |spec: &str, bytes| {
        let candidates = candidates(&Topology::parse(spec).unwrap(), Collective::Allreduce);
        SwitchTable::build(&MODEL, &candidates).unwrap().pick(bytes).name()
    };
    assert_eq!(pick("switch:4", 1 << 10), "direct-latency");
    assert_eq!(pick("switch:6", 1 << 20), "direct");
    for spec in ["ring:8", "ring:16", "torus:8x8", "ring:64"] {
        assert!(!pick(spec, 1 << 20).starts_with("direct"), "{spec}");
    }
    // With many ranks `direct` sends too many messages.
    for spec in ["ring:64", "torus:8x8", "switch:64"] {
        assert!(!pick(spec, 64).starts_with("direct"), "{spec}");
    }
}

/// A direct gather is slow with many ranks, although each rank sends one message: the root receives all of them.
#[test]
fn messages_cost_their_receiver_too() {
    let topology = Topology::switch(64).unwrap();
    let gather = candidates(&topology, Collective::Gather { root: 0 });
    assert_eq!(rank(&MODEL, &gather, 64)[0].candidate.member.name(), "binomial");
    assert_eq!(gather.iter().find(|c| c.member.name() == "direct").unwrap().cost.steps[0].messages, 63);
}

/// Hosts of unequal sizes, too, carry each byte over their cables as if they were ranks, with memory beside.
#[test]
fn unequal_hosts_are_used_as_hosts() {
    let seconds = |topology: &Topology, name: &str| {
        let schedule = find(name).unwrap().build(topology, Collective::Allreduce).unwrap();
        let cost = ScheduleCost::from_schedule(&schedule, topology).unwrap();
        CostModel::default().seconds(&cost, 1 << 20)
    };
    let cables = |topology: Topology| topology.with_links(Some(100e6 / 8.0), None).unwrap();
    for sizes in [&[1, 2, 3][..], &[2, 3, 1], &[4, 4, 3], &[1, 5, 2, 2]] {
        let unequal = Topology::hosts_with(sizes).unwrap().with_hosts(Some(100.0), None).unwrap();
        let hosts = cables(Topology::hosts(sizes.len(), 1).unwrap());
        for name in ["ring", "direct"] {
            let (here, there) =
                (seconds(&cables(unequal.clone()), &format!("hierarchical:{name}")), seconds(&hosts, name));
            println!("{unequal} {name} {here} {there}");
            assert!(here < 1.05 * there, "{unequal}: {name}: {here} and {there}");
        }
    }
}

//! Which network devices of the ranks reach each other.
//!
//! Settings may list a device for each port (`RINGROAD_NET_DEVICES=per-port:...`). A message of port `p` leaves by
//! device `p` modulo their number, and a receive names the sender's port. Behind a switch the message arrives at the
//! device of the same number: the devices form rails, the n-th of every rank on one network. On a ring or torus with
//! an even number of devices it arrives at the opposite one, `d ^ 1`, because a cable leads from the upper port of
//! one rank to the lower port of its neighbour. A device whose cable leads elsewhere connects to a peer only if a
//! message needs it. Over bare cables that fails, so only algorithms that talk to neighbours run there.
//!
//! Waiting, failing and closing cover all devices: a peer that one device has lost is lost.

use ringroad_core::{Rank, Topology};

/// How this rank's devices are joined to those of other ranks.
#[derive(Debug, Default)]
pub(crate) struct DeviceWiring {
    /// For each device, the ranks at the other ends of its cables. Empty if switches join the devices.
    neighbours: Vec<Vec<Rank>>,
}

impl DeviceWiring {
    /// On rings, tori and meshes a cable leads from each port to the opposite port of the neighbour, if the number of
    /// devices is even. Otherwise switches join the devices of the same number.
    pub fn new(topology: &Topology, rank: Rank, devices: usize) -> DeviceWiring {
        let ports = 2 * topology.dimensions().len();
        if !topology.has_cabled_ports() || devices % 2 == 1 {
            return DeviceWiring::default();
        }
        let mut neighbours = vec![Vec::new(); devices];
        for port in 0..ports {
            let cable = topology.port_link(rank, port).map(|link| topology.links()[link].target);
            neighbours[port % devices].extend(cable);
        }
        DeviceWiring { neighbours }
    }

    pub fn is_cabled(&self) -> bool {
        !self.neighbours.is_empty()
    }

    /// The device of other ranks that this rank's `device` is joined to. The relation is symmetric.
    #[inline]
    pub fn remote_end(&self, device: usize) -> usize {
        device ^ usize::from(self.is_cabled())
    }

    /// Whether `device` leads directly to `peer`. Other devices may reach the peer through other ranks, if those
    /// forward.
    pub fn joins(&self, device: usize, peer: Rank) -> bool {
        !self.is_cabled() || self.neighbours[device].contains(&peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_joined_as_the_topology_says() {
        let check = |spec: &str, rank, cabled: bool, expected: &[&[usize]]| {
            let wiring = DeviceWiring::new(&Topology::parse(spec).unwrap(), rank, expected.len());
            for (device, peers) in expected.iter().enumerate() {
                let case = format!("{spec}, rank {rank}, device {device}");
                let joined: Vec<usize> = (0..4).filter(|peer| wiring.joins(device, *peer)).collect();
                assert_eq!(joined, *peers, "{case}");
                assert_eq!(wiring.remote_end(device), if cabled { device ^ 1 } else { device }, "{case}");
            }
        };
        let all: &[usize] = &[0, 1, 2, 3];
        check("switch:4", 1, false, &[all, all]);
        check("ring:4", 1, false, &[all]);
        check("ring:4", 1, false, &[all, all, all]);
        check("ring:4", 0, true, &[&[1], &[3]]);
        check("ring:4", 0, true, &[&[1], &[3], &[], &[]]);
        check("ring:2", 1, true, &[&[0], &[0]]);
        check("torus:2x2", 1, true, &[&[3], &[3], &[0], &[0]]);
        check("torus:2x2", 1, true, &[&[0, 3], &[0, 3]]);
        check("mesh:4", 0, true, &[&[1], &[]]);
        check("mesh:4", 2, true, &[&[3], &[1]]);
        for spec in ["hosts:2x2", "hyperx:2x2", "hypercube:2", "hammingmesh:2x2:1x1", "fattree:2x2"] {
            check(spec, 1, false, &[all, all]);
        }
    }
}

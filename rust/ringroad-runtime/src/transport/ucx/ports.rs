//! Ports: opens a device for each network device that the user lists, and says which devices reach each other.

use ringroad_core::{Rank, Topology};
use ucx_sys::Ucx;

use super::device::{said, Allowed, Context, Device};

/// How this rank's devices are joined to those of other ranks.
#[derive(Debug, Default)]
pub(crate) struct Wiring {
    /// For each device, the ranks at the other ends of its cables. Empty if switches join the devices.
    neighbours: Vec<Vec<Rank>>,
}

impl Wiring {
    /// On rings, tori and meshes a cable leads from each port to the opposite port of the neighbour, if the number of
    /// devices is even. Otherwise switches join the devices of the same number.
    pub fn new(topology: &Topology, rank: Rank, devices: usize) -> Wiring {
        let ports = 2 * topology.dimensions().len();
        if !topology.has_cabled_ports() || devices % 2 == 1 {
            return Wiring::default();
        }
        let mut neighbours = vec![Vec::new(); devices];
        for port in 0..ports {
            let cable = topology.port_link(rank, port).map(|link| topology.links()[link].target);
            neighbours[port % devices].extend(cable);
        }
        Wiring { neighbours }
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

/// Opens a device for each of `names`. A name may occur twice.
pub(super) fn open(
    ucx: &'static Ucx,
    size: usize,
    names: &[String],
    allowed: Allowed,
) -> Result<Vec<Device>, String> {
    names.iter().map(|name| open_one(ucx, size, name, allowed)).collect()
}

fn open_one(ucx: &'static Ucx, size: usize, name: &str, allowed: Allowed) -> Result<Device, String> {
    let tls = allowed.tls;
    let opened = Device::open(ucx, size, Allowed { net_devices: Some(name), ..allowed });
    let lacks = |devices: &Vec<String>| !devices.iter().any(|device| device == name);
    // If UCX does not know the name, it goes on without a network, provided that it has shared memory.
    let suspicious = match &opened {
        Ok(device) => device.context().network_devices().is_some_and(|devices| lacks(&devices)),
        Err(_) => true,
    };
    if !suspicious {
        return opened;
    }
    let all = Context::open(ucx, Allowed { net_devices: Some("all"), ..allowed });
    match all.ok().and_then(|context| context.network_devices()) {
        Some(devices) if lacks(&devices) => Err(unknown(name, &devices, tls)),
        _ => opened,
    }
}

fn unknown(name: &str, devices: &[String], tls: Option<&str>) -> String {
    let with = said("UCX_TLS", tls).map_or_else(String::new, |tls| format!(" with {tls}"));
    let there = if devices.is_empty() {
        "none; allow a transport that uses the network, such as tcp".to_owned()
    } else {
        devices.join(", ")
    };
    format!(
        "RINGROAD_NET_DEVICES names {name:?}, which is not a network device that UCX finds{with}: {there}"
    )
}

#[cfg(test)]
mod tests {
    use ringroad_core::Topology;

    use super::{unknown, Wiring};

    #[test]
    fn devices_are_joined_as_the_topology_says() {
        let check = |spec: &str, rank, cabled: bool, expected: &[&[usize]]| {
            let wiring = Wiring::new(&Topology::parse(spec).unwrap(), rank, expected.len());
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

    #[test]
    fn unknown_names_are_explained() {
        let devices = ["eth0".to_owned(), "lo".to_owned()];
        let expected = "RINGROAD_NET_DEVICES names \"eth7\", which is not a network device that UCX finds with UCX_TLS=tcp: eth0, lo";
        assert_eq!(unknown("eth7", &devices, Some("tcp")), expected);
        let expected = "with UCX_TLS=posix,self: none; allow a transport that uses the network, such as tcp";
        assert!(unknown("lo", &[], Some("posix,self")).ends_with(expected));
    }
}

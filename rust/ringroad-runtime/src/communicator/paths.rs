//! Whether UCX can connect the ranks' network devices over tcp, before the first message.
//!
//! Every rank says in its endpoint which devices it uses, and then whether its best routes to those of the others lead by its
//! own. See [`crate::os::routes`] for why it matters. Connections of our own need none of this.

use ringroad_core::{Rank, Topology};

use crate::bootstrap::{refused, unreadable, EndpointInfo, Rendezvous};
use crate::error::{Error, Result};
use crate::os::routes::{interfaces, KernelRoutes, NetDevice};
use crate::transport::wiring::DeviceWiring;

const WAYS: &str = "ways";
/// More bytes than a rank has to say.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// The devices with these names, which serve the ports of this rank.
pub(super) fn devices(named: Vec<Vec<String>>) -> Vec<NetDevice> {
    let ports = |name: &String| (0..named.len()).filter(|port| named[*port].contains(name)).collect();
    let all = interfaces().into_iter();
    let all = all.map(|one| NetDevice { ports: ports(&one.name), name: one.name, address: one.address });
    all.filter(|device| !device.ports.is_empty()).collect()
}

/// An error on all ranks unless the devices of all lead to each other, or some rank cannot tell.
pub(super) fn check(
    rendezvous: &mut Rendezvous,
    endpoints: &[EndpointInfo],
    rank: Rank,
    topology: &Topology,
    version: &str,
) -> Result<()> {
    if endpoints.iter().any(|endpoint| endpoint.devices.is_empty()) {
        return Ok(());
    }
    let routes = KernelRoutes::read();
    let indices = interfaces();
    let leads = |device: &NetDevice, to: &NetDevice| {
        let index = indices.iter().find(|one| one.name == device.name).map_or(0, |one| one.index);
        routes.as_ref().is_none_or(|routes| routes.leads(index, to.address))
    };
    let own = obstacle(endpoints, rank, topology, leads);
    let text = serde_json::to_vec(&own).expect("text can be written");
    for (rank, text) in rendezvous.collect(WAYS, &text, MAX_MESSAGE_BYTES)?.iter().enumerate() {
        let said: Option<String> =
            serde_json::from_slice(text).map_err(|error| refused(WAYS, rank, unreadable(&error)))?;
        if let Some(obstacle) = said {
            return Err(Error::Transport(format!(
                "{obstacle}; UCX {version} connects only by best routes, and would crash: use ringroad's own connections \
                 (RINGROAD_TRANSPORT=auto,tcp), name devices that lead to all others (RINGROAD_NET_DEVICES), or \
                 add host routes for them (ip route add ADDRESS/32 dev DEVICE)"
            )));
        }
    }
    Ok(())
}

/// The first device of another rank to which no best route leads by the devices of this one. UCX also needs a way back, for
/// which the other rank looks.
fn obstacle(
    endpoints: &[EndpointInfo],
    rank: Rank,
    topology: &Topology,
    leads: impl Fn(&NetDevice, &NetDevice) -> bool,
) -> Option<String> {
    let (own, ports) = (&endpoints[rank], endpoints[rank].addresses.len());
    let wiring = DeviceWiring::new(topology, rank, ports);
    for other in endpoints.iter().filter(|other| other.rank != rank) {
        for port in (0..ports).filter(|port| wiring.joins(*port, other.rank)) {
            let here: Vec<_> = own.devices.iter().filter(|one| one.ports.contains(&port)).collect();
            let end = wiring.remote_end(port);
            let mut there = other.devices.iter().filter(|to| to.ports.contains(&end));
            if let Some(to) = there.find(|to| !here.iter().any(|one| leads(one, to))) {
                let names: Vec<&str> = here.iter().map(|one| one.name.as_str()).collect();
                return Some(format!(
                    "the best route of {own} to {} ({} of {other}) leads by none of its devices {}",
                    to.address,
                    to.name,
                    names.join(", ")
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_needs_a_route() {
        let endpoint = |rank: Rank| {
            let device = |(port, name): (usize, &str)| NetDevice {
                name: name.to_owned(),
                address: format!("10.{port}.0.{rank}").parse().unwrap(),
                ports: vec![port],
            };
            let endpoint = EndpointInfo::new(rank, 3, "ucx", "1.22.0", vec![vec![1]; 2]);
            let devices = [(0, "plus"), (1, "minus")].map(device).to_vec();
            EndpointInfo { host: format!("h{rank}"), devices, ..endpoint }
        };
        let endpoints: Vec<EndpointInfo> = (0..3).map(endpoint).collect();
        let check = |topology: Topology, lacking: (&str, &str), expected: Option<&str>| {
            let leads = |from: &NetDevice, to: &NetDevice| {
                (from.name.as_str(), to.address.to_string().as_str()) != lacking
            };
            let found = obstacle(&endpoints, 0, &topology, leads);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{expected:?}");
        };
        let (switch, ring) = (|| Topology::switch(3).unwrap(), || Topology::ring(3).unwrap());
        check(switch(), ("plus", "10.9.9.9"), None);
        let words = "to 10.0.0.2 (plus of rank 2 (host h2";
        check(switch(), ("plus", "10.0.0.2"), Some(words));
        check(switch(), ("plus", "10.1.0.2"), None);
        // On a ring the device up is cabled to the device down of the next rank.
        check(ring(), ("plus", "10.0.0.2"), None);
        check(ring(), ("plus", "10.1.0.1"), Some("leads by none of its devices plus"));
    }
}

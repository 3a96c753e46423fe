//! Whether the ranks' network devices reach each other both ways, before the first message.
//!
//! Every rank says in its endpoint which devices it uses, and then by which of them the best route to each device of the
//! others leads. All ranks so know all ways, and come to the same result. See [`crate::os::routes`] for why it matters.

use ringroad_core::{Rank, Topology};
use serde::{Deserialize, Serialize};

use crate::bootstrap::{refused, unreadable, BootstrapError, EndpointInfo, Rendezvous};
use crate::os::routes::{interfaces, Interface, NetDevice, Routes};
use crate::transport::ucx::{UcxTransport, Wiring};

const WAYS: &str = "ways";
/// The most devices of a rank that are looked at, as many as a mask has bits.
const MOST: usize = 64;

/// The interfaces of this machine, and where they lead.
pub(super) struct Surroundings {
    interfaces: Vec<Interface>,
    routes: Routes,
}

/// For one rank: the masks of its used devices by which it reaches each used device of the ranks in a run. Most ranks
/// of a job look alike from where a rank stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    ranks: usize,
    masks: Vec<u64>,
}

/// The devices of a rank's endpoint that the rank uses.
fn used(endpoint: &EndpointInfo) -> impl Iterator<Item = &NetDevice> {
    endpoint.devices.iter().filter(|device| !device.ports.is_empty())
}

impl Surroundings {
    /// Looks around; `None` if the kernel does not tell its routes.
    pub fn look() -> Option<Surroundings> {
        Some(Surroundings { interfaces: interfaces(), routes: Routes::read()? })
    }

    /// What this rank's endpoint says of its devices; nothing if UCX does not ask for routes there.
    pub fn devices(&self, transport: &UcxTransport) -> Vec<NetDevice> {
        let Some(named) = transport.routed_devices() else { return Vec::new() };
        let device = |one: &Interface| NetDevice {
            name: one.name.clone(),
            address: one.address,
            ports: (0..named.len()).filter(|port| named[*port].contains(&one.name)).collect(),
        };
        self.interfaces.iter().take(MOST).map(device).collect()
    }

    /// The names of the interfaces by which the best routes to any device of any other rank lead.
    pub fn leading(&self, endpoints: &[EndpointInfo], rank: Rank) -> Vec<String> {
        let is_own = |address| self.interfaces.iter().any(|one| one.address == address);
        let all =
            endpoints.iter().filter(|endpoint| endpoint.rank != rank).flat_map(|endpoint| &endpoint.devices);
        let addresses: Vec<_> =
            all.map(|device| device.address).filter(|address| !is_own(*address)).collect();
        let leads = |one: &&Interface| addresses.iter().any(|to| self.routes.leads(one.index, *to));
        self.interfaces.iter().filter(leads).map(|one| one.name.clone()).collect()
    }

    fn row(&self, endpoints: &[EndpointInfo], rank: Rank) -> Vec<Run> {
        let index = |device: &NetDevice| {
            self.interfaces.iter().find(|one| one.name == device.name).map_or(0, |one| one.index)
        };
        let own: Vec<u32> = used(&endpoints[rank]).map(index).collect();
        let mut row: Vec<Run> = Vec::new();
        for endpoint in endpoints {
            let mask = |to: &NetDevice| {
                let leads = |bit: &usize| self.routes.leads(own[*bit], to.address);
                (0..own.len()).filter(leads).fold(0, |mask, bit| mask | 1 << bit)
            };
            let masks: Vec<u64> = used(endpoint).map(mask).collect();
            match row.last_mut() {
                Some(last)
                    if last.masks == masks || (endpoint.rank == rank && last.masks.len() == masks.len()) =>
                {
                    last.ranks += 1;
                }
                _ => row.push(Run { ranks: 1, masks }),
            }
        }
        row
    }
}

/// Why the ranks' devices do not reach each other, and what to do; `None` if they do, or if some rank cannot tell. All
/// ranks call this, and get the same result.
pub(super) fn obstacle(
    rendezvous: &mut Rendezvous,
    kind: &str,
    endpoints: &[EndpointInfo],
    rank: Rank,
    around: Option<&Surroundings>,
    topology: &Topology,
) -> Result<Option<String>, BootstrapError> {
    if endpoints.iter().any(|endpoint| used(endpoint).next().is_none()) {
        return Ok(None);
    }
    // A rank that has devices in its endpoint has looked around.
    let row = around.map(|around| around.row(endpoints, rank)).unwrap_or_default();
    let text = serde_json::to_vec(&row).expect("numbers can be written");
    let most = 64 + endpoints.len() * 32 * MOST;
    let kind = format!("{WAYS}{kind}");
    let all = rendezvous.collect(&kind, &text, most)?;
    let rows: Vec<Vec<Run>> = all
        .iter()
        .enumerate()
        .map(|(rank, text)| read(text, endpoints).map_err(|reason| refused(&kind, rank, reason)))
        .collect::<Result<_, _>>()?;
    let ports = endpoints[0].addresses.len();
    let open = |row: &Vec<Run>| row.iter().all(|run| run.masks.iter().all(|mask| *mask != 0));
    if ports == 1 && rows.iter().all(open) {
        return Ok(None);
    }
    let masks: Vec<Vec<&[u64]>> = rows
        .iter()
        .map(|row| row.iter().flat_map(|run| std::iter::repeat_n(&run.masks[..], run.ranks)).collect())
        .collect();
    let wirings = (0..endpoints.len()).map(|rank| Wiring::new(topology, rank, ports));
    for (one, wiring) in wirings.enumerate() {
        for other in (0..endpoints.len()).filter(|other| *other != one) {
            for port in (0..ports).filter(|port| wiring.joins(*port, other)) {
                let ends = [(&endpoints[one], port), (&endpoints[other], wiring.remote_end(port))];
                if let Some(text) = blocked(ends, masks[one][other], masks[other][one]) {
                    return Ok(Some(text));
                }
            }
        }
    }
    Ok(None)
}

/// Why the first rank cannot connect to the second by these ports. `there`, `back`: the masks of the devices by which
/// each reaches the used devices of the other.
fn blocked(
    [(one, out), (other, into)]: [(&EndpointInfo, usize); 2],
    there: &[u64],
    back: &[u64],
) -> Option<String> {
    let of =
        |endpoint, port| used(endpoint).enumerate().filter(move |(_, device)| device.ports.contains(&port));
    let names = |endpoint, port| {
        of(endpoint, port).map(|(_, device)| device.name.clone()).collect::<Vec<_>>().join(", ")
    };
    let mut found = false;
    for (bit, from) in of(one, out) {
        let leads = of(other, into).any(|(index, _)| there[index] & (1 << bit) != 0);
        found |= leads;
        // The other rank answers by a device with the best route to where the request came from.
        if leads && of(other, into).all(|(answer, _)| back[bit] & (1 << answer) == 0) {
            return Some(format!(
                "the best route of {other} to {} ({} of {one}) leads by none of its devices {}",
                from.address,
                from.name,
                names(other, into)
            ));
        }
    }
    let addresses = of(other, into).map(|(_, device)| device.address.to_string()).collect::<Vec<_>>();
    (!found).then(|| {
        format!(
            "the best route of {one} to {} ({} of {other}) leads by none of its devices {}",
            addresses.join(", "),
            names(other, into),
            names(one, out)
        )
    })
}

/// Reads and checks a rank's row.
fn read(text: &[u8], endpoints: &[EndpointInfo]) -> Result<Vec<Run>, String> {
    let row: Vec<Run> = serde_json::from_slice(text).map_err(|error| unreadable(&error))?;
    let mut rest = endpoints;
    for run in &row {
        let Some((ranks, others)) = rest.split_at_checked(run.ranks) else {
            return Err("it tells of more ranks than there are".to_owned());
        };
        if ranks.iter().any(|endpoint| used(endpoint).count() != run.masks.len()) {
            return Err("it tells of other devices than the endpoints name".to_owned());
        }
        rest = others;
    }
    if rest.is_empty() {
        Ok(row)
    } else {
        Err("it does not tell of all ranks".to_owned())
    }
}

/// The error of all ranks.
pub(super) fn remedy(obstacle: &str, version: &str) -> String {
    format!(
        "{obstacle}; UCX {version} connects only by best routes, and would crash: add host routes for the devices of the \
         other ranks (ip route add ADDRESS/32 dev DEVICE), name devices that lead to each other both ways \
         (RINGROAD_NET_DEVICES, perhaps with one device for each port), or load a UCX older than 1.20 on all \
         ranks (RINGROAD_UCX_LIBRARY)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(rank: Rank, devices: &[(&str, &str, &[usize])]) -> EndpointInfo {
        let device = |(name, address, ports): &(&str, &str, &[usize])| NetDevice {
            name: (*name).to_owned(),
            address: address.parse().unwrap(),
            ports: ports.to_vec(),
        };
        let endpoint = EndpointInfo::new(rank, 2, "ucx", "1.22.0", vec![vec![1]]);
        EndpointInfo { host: format!("h{rank}"), devices: devices.iter().map(device).collect(), ..endpoint }
    }

    #[test]
    fn a_request_needs_a_way_back() {
        let plus = endpoint(0, &[("plus", "10.77.0.1", &[0]), ("minus", "10.78.0.1", &[])]);
        let far = endpoint(1, &[("plus", "10.77.0.2", &[0])]);
        let check =
            |one: &EndpointInfo, other: &EndpointInfo, there: u64, back: u64, expected: Option<&str>| {
                let found = blocked([(one, 0), (other, 0)], &[there], &[back]);
                match (&found, expected) {
                    (None, None) => {}
                    (Some(text), Some(words)) => assert!(text.contains(words), "{text}"),
                    _ => panic!("{found:?}, expected {expected:?}"),
                }
            };
        check(&plus, &far, 1, 1, None);
        check(&plus, &far, 1, 0, Some("to 10.77.0.1 (plus of rank 0 (host h0"));
        check(&plus, &far, 0, 1, Some("to 10.77.0.2 (plus of rank 1 (host h1"));
        let both = endpoint(1, &[("plus", "10.77.0.2", &[0]), ("minus", "10.78.0.2", &[0])]);
        assert_eq!(blocked([(&plus, 0), (&both, 0)], &[1, 1], &[0b10]), None, "the other device answers");
        assert_eq!(blocked([(&both, 0), (&plus, 0)], &[0b10], &[1, 1]), None, "that one asks");
    }

    #[test]
    fn rows_are_checked() {
        let endpoints = [endpoint(0, &[("a", "10.0.0.1", &[0])]), endpoint(1, &[("a", "10.0.0.2", &[0])])];
        let check = |text: &str, expected: &str| {
            let found =
                read(text.as_bytes(), &endpoints).map_or_else(|error| error, |row| row.len().to_string());
            assert!(found.contains(expected), "{text}: {found}");
        };
        check(r#"[{"ranks": 2, "masks": [1]}]"#, "1");
        check(r#"[{"ranks": 3, "masks": [1]}]"#, "more ranks");
        check(r#"[{"ranks": 1, "masks": [1]}]"#, "all ranks");
        check(r#"[{"ranks": 2, "masks": [1, 1]}]"#, "other devices");
        check("[3]", "cannot be read");
    }
}

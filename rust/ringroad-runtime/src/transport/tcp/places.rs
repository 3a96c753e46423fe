//! Where a rank listens, and what it tells the others of that.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use super::socket;
use crate::error::refused;
use crate::os::ports::PortRange;
use crate::os::random::secret;
use crate::transport::{ucx, HAS_UCX};

/// How many bytes of a published address strangers cannot guess.
const NONCE: usize = 16;
/// The most addresses of a device that are told.
const MAX_ADDRESSES: usize = 32;

/// The connections of some ports: those by one network device, or by any.
pub(super) struct TcpDevice {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// What listens, and where.
    pub doors: Vec<(OwnedFd, SocketAddr)>,
}

/// An address of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    device: String,
    address: IpAddr,
    is_loopback: bool,
}

/// All addresses that mean the same to other hosts.
fn addresses() -> Vec<Address> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let address = |one: if_addrs::Interface| Address {
        // A second address of an interface may have a label of its own.
        device: one.name.split(':').next().unwrap_or_default().to_owned(),
        address: one.ip(),
        is_loopback: one.is_loopback(),
    };
    let is_usable =
        |one: &Address| !matches!(one.address, IpAddr::V6(address) if address.is_unicast_link_local());
    let mut all: Vec<Address> = all.into_iter().map(address).filter(is_usable).collect();
    all.sort_by_key(|one| one.address.is_ipv6());
    all
}

/// The device that has this address.
pub(super) fn device_of(address: IpAddr) -> Option<String> {
    addresses().into_iter().find(|one| one.address == address).map(|one| one.device)
}

impl TcpDevice {
    /// Listens at all addresses of these devices, or, if none is named, at all addresses of the machine.
    pub fn open(names: &[String], ports: PortRange) -> Result<TcpDevice, String> {
        let all = addresses();
        let given = names;
        // UCX counts the ports of a device, which others do not have.
        let names: Vec<&str> = given.iter().map(|name| name.split(':').next().unwrap_or(name)).collect();
        let mut unknown =
            given.iter().zip(&names).filter(|(_, name)| all.iter().all(|one| one.device != **name));
        if let Some((name, _)) = unknown.next() {
            if name.contains(':') || ucx::rdma_devices().iter().any(|device| device == name) {
                let remedy = match HAS_UCX {
                    true => "set RINGROAD_TRANSPORT=ucx on all ranks, or",
                    false => "this build of ringroad has none:",
                };
                return Err(format!(
                    "RINGROAD_NET_DEVICES names {name:?}, the name of an RDMA device, which only UCX can use; {remedy} \
                     name network devices that have an address"
                ));
            }
            let known: BTreeSet<&str> = all.iter().map(|one| one.device.as_str()).collect();
            let known = known.into_iter().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "RINGROAD_NET_DEVICES names {name:?}, which is not a network device with an address: {known}"
            ));
        }
        let leads_out = |one: &&Address| match names.is_empty() {
            true => !one.is_loopback,
            false => names.contains(&one.device.as_str()),
        };
        let mut chosen: Vec<&Address> = all.iter().filter(leads_out).take(MAX_ADDRESSES).collect();
        if chosen.is_empty() {
            chosen = all.iter().take(1).collect();
        }
        let name = if let [name] = names[..] { Some(name.to_owned()) } else { None };
        let listen = |one: &&Address| {
            let listening = socket::listen(one.address, ports);
            let at = ports
                .map_or_else(String::new, |(first, last)| format!(", by RINGROAD_TCP_PORTS={first}-{last}"));
            listening.map_err(|error| refused(&format!("cannot listen at {}{at}", one.address), &error))
        };
        let (doors, failed): (Vec<_>, Vec<_>) = chosen.iter().map(listen).partition(Result::is_ok);
        // An address may be given up at any time; one that works is enough.
        match (doors.is_empty(), failed.into_iter().find_map(Result::err)) {
            (true, error) => Err(error.unwrap_or_else(|| "this machine has no network address".to_owned())),
            (false, _) => Ok(TcpDevice { name, doors: doors.into_iter().flatten().collect() }),
        }
    }

    /// What the others are told.
    pub fn address(&self) -> Result<Vec<u8>, String> {
        let mut published = secret::<NONCE>().map_err(|error| format!("random numbers: {error}"))?.to_vec();
        let doors: Vec<String> = self.doors.iter().map(|(_, address)| address.to_string()).collect();
        published.extend_from_slice(doors.join(" ").as_bytes());
        Ok(published)
    }
}

/// The addresses in what a device has published.
pub(crate) fn read(published: &[u8]) -> Result<Vec<SocketAddr>, String> {
    let text = published.get(NONCE..).and_then(|text| std::str::from_utf8(text).ok());
    let addresses: Option<Vec<SocketAddr>> =
        text.and_then(|text| text.split(' ').take(MAX_ADDRESSES + 1).map(|one| one.parse().ok()).collect());
    addresses
        .filter(|all| all.len() <= MAX_ADDRESSES && all.iter().all(|one| one.port() > 0))
        .ok_or_else(|| "it has no addresses in what it has published".to_owned())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood() {
        let device = TcpDevice::open(&["lo".to_owned()], None).unwrap();
        assert_eq!(device.name.as_deref(), Some("lo"));
        let told = read(&device.address().unwrap()).unwrap();
        assert!(told.contains(&device.doors[0].1) && told[0].ip().is_loopback(), "{told:?}");
        assert_ne!(device.address().unwrap()[..NONCE], device.address().unwrap()[..NONCE]);
    }

    #[test]
    fn unknown_devices_are_named() {
        for name in ["nonesuch0", "all", ""] {
            let error = TcpDevice::open(&["lo".to_owned(), name.to_owned()], None).err().unwrap();
            assert!(error.contains(&format!("names {name:?}")) && error.contains("lo"), "{error}");
        }
    }

    #[test]
    fn rdma_devices_need_ucx() {
        let error = TcpDevice::open(&["mlx5_0:1".to_owned()], None).err().unwrap();
        assert!(error.contains("\"mlx5_0:1\", the name of an RDMA"), "{error}");
        assert_eq!(error.contains("=ucx"), HAS_UCX, "{error}");
    }

    #[test]
    fn ports_are_those_that_are_permitted() {
        let first = TcpDevice::open(&["lo".to_owned()], None).unwrap().doors[0].1.port();
        let lo = ["lo".to_owned()];
        let range = Some((first, first));
        let device = TcpDevice::open(&lo, range).unwrap();
        assert!(device.doors.iter().all(|(_, address)| address.port() == first));
        let error = TcpDevice::open(&lo, range).err().unwrap();
        assert!(error.contains("cannot listen at 127.0.0.1, by RINGROAD_TCP_PORTS="), "{error}");
    }

    #[test]
    fn published_addresses_are_checked() {
        let many = vec!["10.0.0.1:5"; MAX_ADDRESSES + 1].join(" ");
        for text in ["", "x", "10.0.0.1", "10.0.0.1:0", "10.0.0.1:5  10.0.0.1:6", &many] {
            let published = [&[0; NONCE], text.as_bytes()].concat();
            assert!(read(&published).is_err(), "{text:?}");
        }
        assert!(read(&[0; 3]).is_err());
    }
}

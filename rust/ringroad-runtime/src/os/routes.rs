//! Which network interfaces lead where: the kernel's routes, as UCX judges them.
//!
//! From 1.20 on, UCX connects over tcp only by an interface that has a route to the peer's address at least as specific as
//! every other interface's (`ucs_netlink_is_best_route`). It looks at the routes of all tables, so this does, too. A rank
//! that gets a request from an address to which none of its devices has such a route crashes inside UCX. So ranks ask
//! beforehand.

use std::net::IpAddr;

use rustix::io::Errno;
use rustix::net::{recv, AddressFamily, RecvFlags};
use serde::{Deserialize, Serialize};

use super::netlink::{ask, number, HEADER};

/// More bytes than a table of a million routes takes.
const MAX_TABLE_BYTES: usize = 256 << 20;
/// More bytes than the kernel puts into one answer.
const ANSWER: usize = 64 << 10;

// The kernel's numbers (linux/netlink.h, linux/rtnetlink.h).
const DUMP: u16 = 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;
const ROUTE: usize = 12;

/// A network interface of this machine, by its number, and the address that UCX uses there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub name: String,
    pub address: IpAddr,
    pub index: u32,
}

/// A network device that a rank uses, as other ranks have to know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetDevice {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// The ports that use it.
    pub ports: Vec<usize>,
}

/// The interfaces that lead out of this machine and have an address.
pub(crate) fn interfaces() -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    let mut all = if_addrs::get_if_addrs().unwrap_or_default();
    let is_local = |address: IpAddr| matches!(address, IpAddr::V6(it) if it.segments()[0] & 0xffc0 == 0xfe80);
    all.retain(|one| !one.is_loopback() && !is_local(one.ip()));
    // UCX takes the first address, and one of IPv4 if there is one.
    all.sort_by_key(|one| one.ip().is_ipv6());
    for one in all {
        // A second address of an interface may have a label of its own.
        let name = one.name.split(':').next().unwrap_or_default().to_owned();
        // Without permission to open sockets for datagrams the C library knows no index.
        let Some(index) = one.index.or_else(|| stated_index(&name)) else { continue };
        if found.iter().all(|known| known.index != index) {
            found.push(Interface { name, address: one.ip(), index });
        }
    }
    found
}

fn stated_index(interface: &str) -> Option<u32> {
    std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).ok()?.trim().parse().ok()
}

/// A route, whichever table it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KernelRoute {
    interface: u32,
    /// `None` stands for all addresses of the family, like those with length 0.
    destination: Option<IpAddr>,
    /// How many bits of the destination count.
    length: u8,
    is_ipv6: bool,
}

impl KernelRoute {
    fn leads_to(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let (wanted, most) = bits(address);
        if self.is_ipv6 != address.is_ipv6() || self.length > most {
            return false;
        }
        let own = self.destination.map_or(0, |destination| bits(destination).0);
        let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
        (own ^ wanted) & mask == 0
    }
}

/// The kernel's routes in this process's network.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelRoutes(Vec<KernelRoute>);

impl KernelRoutes {
    /// Asks the kernel. `None` if it does not answer as expected, for example in a sandbox.
    pub fn read() -> Option<KernelRoutes> {
        let mut routes = Vec::new();
        for family in [AddressFamily::INET, AddressFamily::INET6] {
            routes.extend(dump(family.as_raw() as u8).ok()??);
        }
        Some(KernelRoutes(routes))
    }

    /// Whether this interface has a route to the address, and no other a more specific one.
    pub fn leads(&self, interface: u32, address: IpAddr) -> bool {
        let all = self.0.iter().filter(|route| route.leads_to(address));
        let (mut own, mut others) = (None, None);
        for route in all {
            let best = if route.interface == interface { &mut own } else { &mut others };
            *best = (*best).max(Some(route.length));
        }
        own.is_some() && own >= others
    }
}

/// All routes of a family; `None` if the kernel refuses or its answer makes no sense.
fn dump(family: u8) -> Result<Option<Vec<KernelRoute>>, Errno> {
    let mut question = [0; ROUTE];
    question[0] = family;
    // The protocol of routes is number 0, which rustix writes as None.
    let socket = ask(None, GET_ROUTE, DUMP, &question)?;
    let (mut routes, mut answer, mut heard) = (Vec::new(), vec![0; ANSWER], 0);
    while heard < MAX_TABLE_BYTES {
        let (length, _) = recv(&socket, answer.as_mut_slice(), RecvFlags::empty())?;
        heard += length;
        match read(&answer[..length.min(ANSWER)], &mut routes) {
            Some(true) => return Ok(Some(routes)),
            Some(false) => {}
            None => return Ok(None),
        }
    }
    Ok(None)
}

/// Reads the messages of an answer. Returns whether the last one was among them; `None` if they make no sense.
fn read(mut answer: &[u8], routes: &mut Vec<KernelRoute>) -> Option<bool> {
    if answer.is_empty() {
        return None;
    }
    while answer.len() >= HEADER {
        let length = u32::from_ne_bytes(number(answer, 0)?) as usize;
        let message = answer.get(HEADER..length)?;
        match u16::from_ne_bytes(number(answer, 4)?) {
            DONE => return Some(true),
            ERROR => return None,
            NEW_ROUTE => routes.extend(route(message)?),
            _ => {}
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(false)
}

/// Reads a route. The inner `None`: it has no interface of its own, such as one that refuses packets.
fn route(message: &[u8]) -> Option<Option<KernelRoute>> {
    let [family, length] = number(message, 0)?;
    let is_ipv6 = AddressFamily::INET6.as_raw() as u8 == family;
    let (mut interface, mut destination) = (None, None);
    let mut rest = message.get(ROUTE..)?;
    while rest.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes(number(rest, 0)?));
        let value = rest.get(4..length)?;
        match u16::from_ne_bytes(number(rest, 2)?) {
            INTERFACE => interface = Some(u32::from_ne_bytes(number(value, 0)?)),
            DESTINATION if is_ipv6 => destination = Some(IpAddr::from(number::<16>(value, 0)?)),
            DESTINATION => destination = Some(IpAddr::from(number::<4>(value, 0)?)),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(interface.map(|interface| KernelRoute { interface, destination, length, is_ipv6 }))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn to(destination: &str, length: u8, interface: u32) -> KernelRoute {
        let destination = address(destination);
        let is_ipv6 = destination.is_ipv6();
        KernelRoute { interface, destination: (length > 0).then_some(destination), length, is_ipv6 }
    }

    #[test]
    fn the_most_specific_route_counts() {
        let routes = KernelRoutes(vec![
            to("0.0.0.0", 0, 1),
            to("10.77.0.2", 32, 2),
            to("10.77.0.3", 32, 3),
            to("10.77.0.0", 24, 3),
            to("10.78.0.0", 24, 2),
            to("10.78.0.0", 24, 3),
            to("fd00::", 64, 2),
        ]);
        let check = |to: &str, expected: &[u32]| {
            let found: Vec<u32> = (1..=4).filter(|one| routes.leads(*one, address(to))).collect();
            assert_eq!(found, expected, "{to}");
        };
        check("10.77.0.2", &[2]);
        check("10.77.0.3", &[3]);
        check("10.77.0.9", &[3]);
        check("10.78.0.9", &[2, 3]);
        check("192.0.2.1", &[1]);
        check("fd00::7", &[2]);
        check("fd01::7", &[]);
    }

    #[test]
    fn this_machine_has_routes() {
        let routes = KernelRoutes::read().expect("the kernel answers");
        let loopback = if_addrs::get_if_addrs().unwrap().into_iter().find(|one| one.is_loopback()).unwrap();
        assert!(routes.leads(loopback.index.unwrap(), loopback.ip()), "{routes:?}");
        assert!(interfaces().iter().all(|one| !one.address.is_loopback()));
    }

    /// Whatever comes is read without a panic; a real answer, cut off anywhere, is refused or has no more routes.
    #[test]
    fn answers_are_checked() {
        let message = |kind: u16, content: &[u8]| {
            let mut bytes = ((HEADER + content.len()) as u32).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.resize(HEADER, 0);
            [bytes, content.to_vec()].concat()
        };
        let attribute = |kind: u16, value: &[u8]| {
            let length = (4 + value.len()) as u16;
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
        };
        let mut content = vec![2, 32];
        content.resize(ROUTE, 0);
        content.extend(attribute(DESTINATION, &[10, 77, 0, 2]));
        content.extend(attribute(INTERFACE, &7u32.to_ne_bytes()));
        let answer = [message(NEW_ROUTE, &content), message(DONE, &[0; 4])].concat();
        let mut routes = Vec::new();
        assert_eq!(read(&answer, &mut routes), Some(true));
        assert_eq!(routes, [to("10.77.0.2", 32, 7)]);
        for end in 0..answer.len() {
            let mut routes = Vec::new();
            assert_ne!(
                (read(&answer[..end], &mut routes), end < HEADER),
                (Some(true), true),
                "cut off at {end}"
            );
            assert!(routes.len() <= 1);
        }
        assert_eq!(read(&message(ERROR, &[0; 4]), &mut routes), None);
        assert_eq!(read(&[0xff; 64], &mut routes), None);
        // A length of nothing must not be read for ever.
        assert_eq!(read(&[0; 64], &mut routes), None);
    }
}

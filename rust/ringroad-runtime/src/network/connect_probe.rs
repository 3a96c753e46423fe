//! Hosts that answer no datagrams, asked over tcp.
//!
//! A firewall that drops datagrams lets the connections through by which ranks meet. So hosts are asked where they receive
//! flows. That tells by which addresses they are reached and how soon they answer, but not how many hops away they are.

use std::io::Read;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::rates::{greet, CONNECT_PROBE};
use super::reach::{ReachTarget, Seen, Token};

/// How long a connection may take to be made, and then the answer.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
/// After every host has answered by some address, others may do so for so long.
const BRIEF: Duration = Duration::from_millis(5);
/// More than a thread needs that waits for an answer.
const STACK: usize = 128 << 10;

/// By which addresses these hosts answer; `None` for a host that is not asked. Their ports are those for flows.
pub(super) fn probe(targets: &[Option<ReachTarget>]) -> Vec<Vec<Seen>> {
    let (send, heard) = channel();
    let mut silent: Vec<bool> = targets.iter().map(Option::is_some).collect();
    for (index, target) in targets.iter().enumerate() {
        let Some(target) = target else { continue };
        for (place, address) in target.addresses.iter().copied().enumerate() {
            let Some(port) = target.ports[usize::from(address.is_ipv6())] else { continue };
            let (token, send) = (target.token, send.clone());
            let ask = move || answer(address, port, &token).map(|seconds| send.send((index, place, seconds)));
            let thread = std::thread::Builder::new().name("ringroad-probes".to_owned()).stack_size(STACK);
            // A host that cannot be asked is one that does not answer.
            let _ = thread.spawn(ask);
        }
    }
    drop(send);
    let mut seen = vec![Vec::new(); targets.len()];
    let mut deadline = Instant::now() + 3 * CONNECT_TIMEOUT;
    loop {
        if !silent.contains(&true) {
            deadline = deadline.min(Instant::now() + BRIEF);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok((index, address, seconds)) = heard.recv_timeout(left) else { return seen };
        silent[index] = false;
        seen[index].push(Seen { address, hops: None, seconds, ahead: None });
    }
}

/// How long a connection takes to be made to a host that knows this token.
fn answer(address: IpAddr, port: u16, token: &Token) -> Option<f64> {
    let start = Instant::now();
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), CONNECT_TIMEOUT).ok()?;
    let seconds = start.elapsed().as_secs_f64();
    stream.set_read_timeout(Some(CONNECT_TIMEOUT)).ok()?;
    greet(&mut stream, token, CONNECT_PROBE, 0).ok()?;
    stream.read_exact(&mut [0]).ok()?;
    Some(seconds)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::rates::Receiving;
    use super::*;

    #[test]
    fn hosts_with_the_right_token_answer() {
        let receiving = Receiving::begin([7; 16], None).unwrap();
        let target = |token: u8| {
            let addresses = vec![Ipv4Addr::LOCALHOST.into()];
            Some(ReachTarget { addresses, ports: receiving.servers.ports, token: [token; 16] })
        };
        let seen = probe(&[target(7), None, target(8)]);
        assert_eq!(seen[0].iter().map(|seen| (seen.address, seen.hops)).collect::<Vec<_>>(), [(0, None)]);
        assert!(seen[1].is_empty() && seen[2].is_empty(), "{seen:?}");
    }
}

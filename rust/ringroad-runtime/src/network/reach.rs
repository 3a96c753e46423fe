//! By which addresses hosts reach each other, how far away they are, and how long a message takes.
//!
//! While a network is being discovered, every host answers datagrams that name its token, which only ranks of the job know.
//! The answer says how many hops the question had left. Nobody else is answered, and only ranks are asked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::datagram::{wait, Datagrams, HOPS};
use super::servers::Servers;
use crate::os::ports::PortRange;

/// How often each host is asked. The least time of all answers is the latency.
const ROUNDS: usize = 8;
/// The first rounds wait for lost datagrams: three of them, and more while some host has not answered at all.
const PATIENT_ROUNDS: usize = 3;
const MOST_PATIENT_ROUNDS: usize = 10;
const PATIENT: Duration = Duration::from_millis(40);
const BRIEF: Duration = Duration::from_millis(8);
/// How often the thread that answers looks whether it shall end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

const QUESTION: &[u8; 4] = b"rrQ2";
const ANSWER: &[u8; 4] = b"rrA2";
/// Where in a datagram its parts begin: the kind, the token of the host that is asked, the number of the question, and in
/// answers the hops that were left and the nanoseconds on the clock of the host that answers.
const TOKEN_AT: usize = 4;
const NUMBER_AT: usize = 20;
const LEFT_AT: usize = 24;
const CLOCK_AT: usize = 25;
const ANSWER_END: usize = 33;

/// What only ranks of the job know of a host.
pub(super) type Token = [u8; 16];

/// A host as others have to know it to ask it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReachTarget {
    pub addresses: Vec<IpAddr>,
    /// Its ports for questions over IPv4 and IPv6.
    pub ports: [Option<u16>; 2],
    pub token: Token,
}

/// An address of a host that has answered.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Which of the host's addresses.
    pub address: usize,
    /// How many hops away; 1 is next to this host. `None` if the kernel did not say.
    pub hops: Option<u8>,
    /// The shortest time from a question to its answer, in seconds.
    pub seconds: f64,
    /// By how many seconds the host's clock is ahead of this one's, if it has said so.
    pub ahead: Option<f64>,
}

/// Answers questions with this token until what is returned is dropped; its clock began at `epoch`.
pub(super) fn answering(token: Token, ports: PortRange, epoch: Instant) -> io::Result<Servers> {
    Servers::begin("ringroad-answers", |is_ipv6| {
        let socket = Datagrams::open(is_ipv6, ports)?;
        Ok((socket.port()?, move |stop: &AtomicBool| answer(&socket, &token, epoch, stop)))
    })
}

fn answer(socket: &Datagrams, token: &Token, epoch: Instant, stop: &AtomicBool) {
    let mut content = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        wait([socket], POLL_INTERVAL);
        while let Some(arrival) = socket.receive(&mut content) {
            let asked = content[..arrival.length].strip_prefix(QUESTION).and_then(|rest| rest.first_chunk());
            if arrival.length != LEFT_AT || asked != Some(token) {
                continue;
            }
            let mut reply = [0; ANSWER_END];
            reply[..LEFT_AT].copy_from_slice(&content[..LEFT_AT]);
            reply[..TOKEN_AT].copy_from_slice(ANSWER);
            reply[LEFT_AT] = arrival.left.unwrap_or(0);
            let clock = u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
            reply[CLOCK_AT..].copy_from_slice(&clock.to_be_bytes());
            // A lost answer is like a lost question: the other side asks again.
            let _ = socket.send(arrival.from, HOPS, &reply);
        }
        while socket.complaint().is_some() {}
    }
}

/// The sockets by which a host asks, for IPv4 and IPv6. They stay open until routes are traced: a kernel complains about an
/// answer that comes to a closed one, and then it is less willing to complain about a trace.
pub(super) struct Questions([Option<Datagrams>; 2]);

impl Questions {
    pub fn open() -> Questions {
        Questions([false, true].map(|is_ipv6| Datagrams::open(is_ipv6, None).ok()))
    }
}

/// What one host, whose clock began at `epoch`, has learned of all others, in the order of the targets; `None` for a target
/// that is not asked.
pub(super) fn ask(
    Questions(sockets): &Questions,
    targets: &[Option<ReachTarget>],
    first: usize,
    epoch: Instant,
) -> Vec<Vec<Seen>> {
    let mut asking = Asking {
        targets,
        sockets,
        seen: vec![Vec::new(); targets.len()],
        silent: Vec::new(),
        sent: Vec::new(),
        epoch,
    };
    let mut patient = 0;
    while patient < PATIENT_ROUNDS || patient < MOST_PATIENT_ROUNDS && asking.misses_any() {
        asking.round(true, first, Instant::now() + PATIENT);
        patient += 1;
    }
    for _ in patient..ROUNDS {
        asking.round(false, first, Instant::now() + BRIEF);
    }
    asking.seen
}

struct Asking<'a> {
    targets: &'a [Option<ReachTarget>],
    sockets: &'a [Option<Datagrams>; 2],
    seen: Vec<Vec<Seen>>,
    /// Of each target, whether it was asked in this round and has not answered yet. Empty once all have answered.
    silent: Vec<bool>,
    /// By the number of a question: the target, which of its addresses, and when.
    sent: Vec<(usize, usize, Instant)>,
    epoch: Instant,
}

impl Asking<'_> {
    /// Whether a host has not answered by any of its addresses.
    fn misses_any(&self) -> bool {
        self.targets.iter().zip(&self.seen).any(|(target, seen)| target.is_some() && seen.is_empty())
    }

    /// Asks every target once. While some addresses have not answered, these are asked, too. Ends soon after every target
    /// has answered by one of its addresses: others may lead nowhere.
    fn round(&mut self, is_patient: bool, first: usize, deadline: Instant) {
        self.silent = vec![false; self.targets.len()];
        // Beginning with another one on each host, so that not all ask the same host at the same time.
        for index in (0..self.targets.len()).map(|step| (first + step) % self.targets.len()) {
            let Some(target) = &self.targets[index] else { continue };
            for (place, address) in target.addresses.iter().enumerate() {
                let answered = self.seen[index].iter().any(|seen| seen.address == place);
                if answered || is_patient {
                    self.silent[index] |= self.put(index, place, *address);
                }
            }
        }
        let mut deadline = deadline;
        loop {
            if !self.silent.contains(&true) {
                deadline = deadline.min(Instant::now() + BRIEF / 4);
                self.silent = Vec::new();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            if !self.listen() {
                wait(self.sockets.iter().flatten(), left.min(BRIEF / 4));
            }
        }
    }

    fn put(&mut self, index: usize, place: usize, address: IpAddr) -> bool {
        let target = self.targets[index].as_ref().expect("it is asked");
        let family = usize::from(address.is_ipv6());
        let (Some(socket), Some(port)) = (&self.sockets[family], target.ports[family]) else { return false };
        let mut question = [0; LEFT_AT];
        question[..TOKEN_AT].copy_from_slice(QUESTION);
        question[TOKEN_AT..NUMBER_AT].copy_from_slice(&target.token);
        question[NUMBER_AT..].copy_from_slice(&(self.sent.len() as u32).to_be_bytes());
        self.sent.push((index, place, Instant::now()));
        socket.send(SocketAddr::new(address, port), HOPS, &question).is_ok()
    }

    /// Takes the answers that have come; returns whether there were any.
    fn listen(&mut self) -> bool {
        let (mut content, mut heard) = ([0; 64], false);
        for socket in self.sockets.iter().flatten() {
            while let Some(arrival) = socket.receive(&mut content) {
                let now = Instant::now();
                let Some(reply) = content[..arrival.length].strip_prefix(ANSWER) else { continue };
                if arrival.length != ANSWER_END {
                    continue;
                }
                let number =
                    u32::from_be_bytes(*reply[NUMBER_AT - TOKEN_AT..].first_chunk().expect("4 bytes"));
                let Some((index, place, then)) = self.sent.get(number as usize).copied() else { continue };
                let token = self.targets[index].as_ref().map(|target| target.token);
                if token.as_ref().map(|token| &token[..]) != Some(&reply[..NUMBER_AT - TOKEN_AT]) {
                    continue;
                }
                let left = content[LEFT_AT];
                let hops = (1..=HOPS).contains(&left).then(|| HOPS - left + 1);
                let seconds = now.duration_since(then).as_secs_f64();
                let clock = u64::from_be_bytes(*content[CLOCK_AT..].first_chunk().expect("8 bytes"));
                let own = then.duration_since(self.epoch).as_secs_f64() + seconds / 2.0;
                let ahead = Some(clock as f64 * 1e-9 - own);
                heard = true;
                self.silent.get_mut(index).into_iter().for_each(|silent| *silent = false);
                match self.seen[index].iter_mut().find(|seen| seen.address == place) {
                    Some(seen) => {
                        if seconds < seen.seconds {
                            (seen.seconds, seen.ahead) = (seconds, ahead);
                        }
                        // Packets may take several paths.
                        seen.hops = seen.hops.min(hops).or(hops);
                    }
                    None => self.seen[index].push(Seen { address: place, hops, seconds, ahead }),
                }
            }
            while socket.complaint().is_some() {}
        }
        heard
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn hosts_with_the_right_token_answer() {
        let epoch = Instant::now();
        let answering = answering([7; 16], None, epoch).unwrap();
        let target = |token: u8| {
            // The second address is that of nobody.
            let addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(127, 0, 0, 9).into()];
            Some(ReachTarget { addresses, ports: answering.ports, token: [token; 16] })
        };
        let seen = ask(&Questions::open(), &[target(7), None, target(8)], 1, epoch);
        assert_eq!(seen[0].iter().map(|seen| seen.hops).collect::<Vec<_>>(), [Some(1), Some(1)]);
        // One clock is not ahead of itself by more than half of the time for the answer.
        let Seen { seconds, ahead, .. } = seen[0][0];
        assert!(seconds < 1.0 && ahead.unwrap().abs() <= seconds / 2.0, "{seconds} {ahead:?}");
        assert!(seen[1].is_empty() && seen[2].is_empty(), "{seen:?}");
    }
}

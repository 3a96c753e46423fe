//! For the fuzz targets in `rust/fuzz` only: reads bytes as a rank reads what other ranks and earlier runs have written,
//! and uses what is accepted.

use ringroad_core::algorithms::find;
use ringroad_core::cost::ScheduleCost;
use ringroad_core::{Collective, Rank, Topology, Wire};

use crate::bootstrap::neighbourhood::{self, OpenedRanks};
use crate::bootstrap::{compare, identity, open, read_place, seal, unpack, End, EndpointInfo, Handle};
use crate::choice::agreement::{self, SharedChoices};
use crate::choice::options::Options;
use crate::choice::report::DiscoveryReport;
use crate::choice::schedule_cache::{checksum, kept, Header, KnownSchedule, ScheduleKey, KIND};
use crate::config::Config;
use crate::kernels::dtype::DType;
use crate::kernels::wire::scalar;
use crate::kernels::InstructionSet;
use crate::transport::notice::Notice;
use crate::transport::shared::MemoryOffer;
use crate::transport::tcp;

const RANKS: usize = 4;

/// A letter for each kind of value that ranks tell each other, and what reads it.
pub const VALUES: [(char, fn(&[u8])); 8] = [
    ('b', |content| drop(unpack(content, 64))),
    ('c', endpoint),
    ('e', |content| drop(End::read(content, RANKS))),
    ('h', handle),
    ('n', local),
    ('o', choices),
    ('p', |content| drop(read_place(content))),
    ('w', notice),
];

/// Element types that messages in wire formats are decoded to.
pub const DECODED: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Decodes a message of so many elements, and encodes and decodes what that gives.
#[allow(unsafe_code)]
pub fn decode(wire: Wire, dtype: DType, message: &[u8], elements: usize) {
    let numbers = scalar::decode(wire, dtype, message, elements);
    let rounded = scalar::decode(wire, dtype, &scalar::encode(wire, dtype, &numbers), elements);
    for set in InstructionSet::available() {
        let mut found = vec![0; numbers.len()];
        let mut codes = vec![0; message.len()];
        let (target, source) = (found.as_mut_ptr(), message.as_ptr());
        // SAFETY: all have so many bytes, none overlaps another, and nobody else uses them.
        unsafe { set.decode(wire, dtype, target, None, source, elements) };
        same(dtype, &found, &numbers);
        // SAFETY: as above.
        unsafe { set.encode(wire, dtype, codes.as_mut_ptr(), target, Some(target), elements) };
        same(dtype, &found, &rounded);
    }
}

/// Panics unless both have the same numbers, and NaN in the same places.
fn same(dtype: DType, a: &[u8], b: &[u8]) {
    let is_nan = |x: &[u8]| scalar::number(dtype, x).is_nan();
    for (x, y) in a.chunks(dtype.size()).zip(b.chunks(dtype.size())) {
        assert!(x == y || is_nan(x) && is_nan(y), "{x:?} is not {y:?}");
    }
}

fn endpoint(content: &[u8]) {
    let Ok(endpoint) = EndpointInfo::read(1, content) else { return };
    assert_eq!(EndpointInfo::read(1, &endpoint.write()).unwrap(), endpoint);
    let endpoints = [EndpointInfo { rank: 0, ..endpoint.clone() }, endpoint];
    assert_eq!(compare(&endpoints), Ok(()));
    let _ = (
        EndpointInfo::cores_of(&[&endpoints[0], &endpoints[1]]),
        identity(&endpoints),
        endpoints[1].to_string(),
    );
    assert!(endpoints[0].shares_machine(&endpoints[1]));
}

fn handle(content: &[u8]) {
    let Ok(text) = std::str::from_utf8(content) else { return };
    if let Ok(handle) = Handle::parse(text) {
        assert_eq!(Handle::parse(&handle.to_text()).unwrap(), handle);
    }
}

/// The endpoints of ranks of which all but the last share a host.
fn endpoints() -> Vec<EndpointInfo> {
    let endpoint = |rank: Rank| {
        let host = if rank < RANKS - 1 { "a" } else { "b" };
        let memory = Some(MemoryOffer { host: host.to_owned(), ..MemoryOffer::default() });
        let (host, pid_space) = (host.to_owned(), host.to_owned());
        EndpointInfo { rank, ranks: RANKS, host, pid_space, memory, cores: 1, ..EndpointInfo::default() }
    };
    (0..RANKS).map(endpoint).collect()
}

fn local(content: &[u8]) {
    let endpoints = endpoints();
    if let Ok(around) = neighbourhood::read(1, content, &endpoints) {
        let all: Vec<OpenedRanks> = vec![around.local; RANKS];
        assert!(all[0].keys().all(|rank| [0, 2].contains(rank)));
        assert!(RANKS.is_multiple_of(neighbourhood::per_host(&all)));
    }
}

fn choices(content: &[u8]) {
    let Ok(Ok(choices)) = agreement::read(content, RANKS, RANKS) else { return };
    let text = serde_json::to_vec(&SharedChoices::Ok(choices.clone())).unwrap();
    assert!(agreement::read(&text, RANKS, RANKS).unwrap().is_ok_and(|again| again == choices));
    for collective in Collective::ALL {
        for bytes in [0, 1 << 10, 1 << 40] {
            let _ = choices.pick(collective, bytes, true).build(&choices.topology, collective);
        }
    }
}

fn notice(content: &[u8]) {
    if let Some(notice) = Notice::parse(content, RANKS) {
        assert!(Notice::parse(&notice.to_bytes(), RANKS).is_some());
    }
}

/// Opens a value as it is, and what becomes of its seal when anything changes.
pub fn seals(bytes: &[u8]) {
    for secret in [None, Some("secret")] {
        let _ = open(secret, "key", bytes, 100);
        let sealed = seal(secret, "key", bytes);
        assert_eq!(open(secret, "key", &sealed, bytes.len()), Ok(bytes));
        assert!(open(secret, "other", &sealed, bytes.len()).is_err());
        assert!(open(Some("other"), "key", &sealed, bytes.len()).is_err());
        assert!(bytes.is_empty() || open(secret, "key", &sealed, bytes.len() - 1).is_err());
        let at = bytes.iter().fold(0, |at: usize, byte| at.wrapping_mul(31).wrapping_add((*byte).into()));
        let mut changed = sealed.clone();
        changed[at % sealed.len()] ^= 1 << (at % 8);
        assert!(open(secret, "key", &changed, usize::MAX).is_err());
        assert!(open(secret, "key", &sealed[..at % sealed.len()], usize::MAX).is_err());
    }
}

/// What comes by a tcp connection: after a 0 what strangers send, otherwise what ranks do who belong to the group.
pub fn connection(bytes: &[u8]) {
    match bytes.split_first() {
        Some((0, bytes)) => tcp::greet(bytes),
        Some((_, bytes)) => drop(tcp::hear_anything(bytes)),
        None => {}
    }
}

/// Inputs for [`connection`]: frames of each kind, and changes of each part of a stranger's first message.
pub fn connections() -> Vec<Vec<u8>> {
    let greetings = [0, 8, 24, 60].map(|place| [vec![0; 1 + place], vec![1]].concat());
    let said = tcp::conversations().into_iter().map(|said| [vec![1], said].concat());
    said.chain(greetings).collect()
}

fn key() -> (Topology, ScheduleKey) {
    let topology = Topology::parse("without(torus:2x4, 0-1)").unwrap();
    let key = ScheduleKey::for_member(&topology, find("bfb").unwrap(), Collective::Allreduce);
    (topology, key)
}

/// Reads a file of a schedule: as it is, and with the right checksum.
pub fn cache(bytes: &[u8]) {
    let (_, key) = key();
    let _ = kept(&mut &*bytes, &key);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let file = format!("{}{}{first}\n{rest}", KIND.mark, checksum(first));
    if let Ok(Some(schedule)) = kept(&mut file.as_bytes(), &key) {
        assert_eq!(schedule.verify(), Ok(()));
    }
}

/// A file for [`cache`], without the checksum.
pub fn cached() -> Vec<u8> {
    let (topology, key) = key();
    let schedule = find("bfb").unwrap().build(&topology, Collective::Allreduce).unwrap();
    let known = KnownSchedule {
        cost: ScheduleCost::from_schedule(&schedule, &topology).unwrap(),
        digest: schedule.digest(),
    };
    let first = serde_json::to_string(&Header { key, known }).unwrap();
    format!("{first}\n{}", schedule.to_json()).into_bytes()
}

/// Choices of rank 0 for [`VALUES`].
pub fn chosen() -> Vec<u8> {
    let options = Options { topology: Some(Topology::parse("ring:4").unwrap()), ..Options::default() };
    let choices =
        agreement::choose(&endpoints(), &Config::default(), &options, RANKS, &DiscoveryReport::default())
            .unwrap();
    serde_json::to_vec(&SharedChoices::Ok(choices)).unwrap()
}

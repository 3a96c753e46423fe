//! The start of a job with many ranks: `start RANKS` meets at the store of rank 0 as the ranks of a job do that share no
//! memory. Rank 0 is a process of its own, the others are threads of this one. Prints one object of JSON: the requests
//! and bytes of an average rank other than 0, and the memory that ranks keep, and took at most.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use ringroad_runtime::bootstrap::{EndpointInfo, JobPlace, JobStore, Rendezvous, Store, StoreError};

const TIMEOUT: Duration = Duration::from_secs(240);
const STACK: usize = 256 << 10;
/// What a rank says of its network: about as many bytes as one that uses tcp.
const ADDRESS: [u8; 64] = [7; 64];

/// A store that counts requests, and the bytes of their answers.
struct Counted {
    store: JobStore,
    counts: Arc<[AtomicUsize; 2]>,
}

impl Counted {
    fn count(&self, bytes: usize) {
        self.counts[0].fetch_add(1, Ordering::Relaxed);
        self.counts[1].fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Store for Counted {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.count(0);
        self.store.set(key, value)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.store.get(key);
        self.count(found.as_ref().map_or(0, |found| found.as_ref().map_or(0, Vec::len)));
        found
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        let found = self.store.wait(key, deadline);
        self.count(found.as_ref().map_or(0, Vec::len));
        found
    }
}

/// One rank meets the others. What it returns is what it keeps.
fn meet(place: &JobPlace, rank: usize, ranks: usize, counts: &Arc<[AtomicUsize; 2]>) -> Vec<EndpointInfo> {
    let store = JobStore::open(place, rank, None, TIMEOUT, || Ok(())).expect("rank 0 serves the store");
    let store = Arc::new(Counted { store, counts: counts.clone() });
    let endpoint = EndpointInfo::new(rank, ranks, "", "", Vec::new());
    let now = Instant::now();
    let mut rendezvous = Rendezvous::join(store, "start", endpoint, None, now..now + TIMEOUT)
        .expect("rank 0 announces a place");
    rendezvous.exchange().expect("all ranks come");
    let endpoints = rendezvous.exchange_addresses("tcp", "1", vec![ADDRESS.to_vec()]);
    endpoints.expect("all ranks say where they listen")
}

/// Bytes of memory of this process, as the kernel calls them.
fn memory(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it has this line");
    let number = line.trim_start_matches(':').split_whitespace().next().and_then(|word| word.parse().ok());
    number.map_or(0, |kilobytes: usize| kilobytes << 10)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ranks: usize = words.first().and_then(|word| word.parse().ok()).expect("start RANKS");
    let port = words.get(1).map(|word| word.parse().expect("a port"));
    let free =
        || TcpListener::bind("127.0.0.1:0").and_then(|door| door.local_addr()).expect("a free port").port();
    let port: u16 = port.unwrap_or_else(free);
    let place = JobPlace { host: "127.0.0.1".to_owned(), ports: vec![port], job: "start".to_owned() };
    let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    if words.len() > 1 {
        let before = memory("VmRSS");
        let kept = meet(&place, 0, ranks, &counts);
        println!("{} {}", memory("VmRSS") - before, memory("VmHWM") - before);
        drop(kept);
        // The others may still read; the end of their process ends this one.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    let start = Instant::now();
    let this = std::env::current_exe().expect("it runs");
    let mut first = Command::new(this);
    first.args([ranks.to_string(), port.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut first = first.spawn().expect("rank 0 starts");
    let (before, all_have_met) = (memory("VmRSS"), Arc::new(Barrier::new(ranks)));
    for rank in 1..ranks {
        let (place, counts, all_have_met) = (place.clone(), counts.clone(), all_have_met.clone());
        let rank = move || {
            let kept = meet(&place, rank, ranks, &counts);
            all_have_met.wait();
            all_have_met.wait();
            drop(kept);
        };
        thread::Builder::new().stack_size(STACK).spawn(rank).expect("there is a thread for every rank");
    }
    all_have_met.wait();
    let (seconds, others) = (start.elapsed().as_secs_f64(), ranks - 1);
    let each = |total: usize| total / others;
    let [requests, bytes] = [0, 1].map(|which| counts[which].load(Ordering::Relaxed));
    drop(first.stdin.take());
    let mut said = String::new();
    first.stdout.take().expect("it is piped").read_to_string(&mut said).expect("rank 0 says what it takes");
    let server: Vec<usize> = said.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let (kept, most) = (each(memory("VmRSS") - before), each(memory("VmHWM") - before));
    println!(
        r#"{{"ranks": {ranks}, "seconds": {seconds:.3}, "requests": {:.1}, "bytes": {}, "kept": {kept}, "most": {most}, "rank_0_kept": {}, "rank_0_most": {}}}"#,
        requests as f64 / others as f64,
        each(bytes),
        server[0],
        server[1],
    );
    let _ = first.wait();
    std::process::exit(0);
}

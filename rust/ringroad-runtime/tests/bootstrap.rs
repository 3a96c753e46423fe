//! Stores, the exchange of endpoints with everything that can be wrong with it, and the configuration.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::algorithms::find;
use ringroad_core::Collective;
use ringroad_runtime::bootstrap::{
    BootstrapError, EndpointInfo, FileStore, MemoryStore, PrefixStore, Rendezvous, Store, StoreError,
};
use ringroad_runtime::communicator::Means;
use ringroad_runtime::config::{
    Algorithms, Between, Budget, Config, Debug, Devices, ProfileSource, Signal, StoreSource, TopologySource,
    TransportKind, ValueOrigin, Within, SETTINGS,
};
use ringroad_runtime::{Communicator, Error, Options};

/// More time than anything here takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Long enough for the ranks that do come, in tests where another one does not.
const SHORT: Duration = Duration::from_millis(1000);

/// How long ranks have waited before.
const EARLIER: Duration = Duration::from_secs(5);

fn soon() -> Instant {
    Instant::now() + TEST_TIMEOUT
}

/// The time of a rank that waits since a little earlier, and goes on for this long.
fn lasting(patience: Duration) -> Range<Instant> {
    let now = Instant::now();
    now - EARLIER..now + patience
}

/// A new directory, which is removed with the guard.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("ringroad-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Every kind of store, with the guard of its directory.
fn stores(test: &str) -> Vec<(Arc<dyn Store>, Option<Directory>)> {
    let directory = Directory::new(test);
    let file = FileStore::open(&directory.0).unwrap();
    let prefixed = PrefixStore::new("a/b", MemoryStore::new());
    vec![(Arc::new(MemoryStore::new()), None), (Arc::new(prefixed), None), (Arc::new(file), Some(directory))]
}

#[test]
fn stores_keep_what_is_set() {
    let long = "k".repeat(400);
    let keys = ["a", "A", "a/b", "a%2fb", "../a", "", "ü", ".", &long, &long[1..]];
    for (store, _guard) in stores("keep") {
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(store.get(key).unwrap(), None, "{key:?} is like an earlier key");
            store.set(key, b"old").unwrap();
            store.set(key, &[number as u8; 3]).unwrap();
        }
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(store.get(key).unwrap(), Some(vec![number as u8; 3]));
            assert_eq!(store.wait(key, Instant::now()).unwrap(), [number as u8; 3], "it is there already");
        }
        store.set("a", b"").unwrap();
        assert_eq!(store.get("a").unwrap(), Some(vec![]));
    }
}

#[test]
fn waiting_ends_with_the_key_or_the_deadline() {
    for (store, _guard) in stores("wait") {
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..4).map(|_| scope.spawn(|| store.wait("key", soon()))).collect();
            store.set("other", b"no").unwrap();
            store.set("key", b"value").unwrap();
            for wait in waiting {
                assert_eq!(wait.join().unwrap().unwrap(), b"value");
            }
        });
        let start = Instant::now();
        let error = store.wait("nothing", start + Duration::from_millis(20)).unwrap_err();
        assert!(start.elapsed() >= Duration::from_millis(20));
        let StoreError::Timeout { key, waited } = &error else { panic!("{error}") };
        assert!(key.ends_with("nothing") && *waited >= Duration::from_millis(20));
        assert!(error.to_string().contains("within 0.0 s; check that every rank is running"), "{error}");
    }
}

#[test]
fn prefixes_keep_keys_apart() {
    let memory = MemoryStore::new();
    let (a, b) = (PrefixStore::new("a", memory.clone()), PrefixStore::new("b", memory.clone()));
    a.set("key", b"1").unwrap();
    b.set("key", b"2").unwrap();
    assert_eq!(a.get("key").unwrap().unwrap(), b"1");
    assert_eq!(memory.get("b/key").unwrap().unwrap(), b"2");
}

#[test]
fn nobody_sees_half_a_value() {
    let directory = Directory::new("half");
    let store = || FileStore::open(&directory.0).unwrap();
    let values = [vec![1u8; 100_000], vec![2u8; 50_000]];
    thread::scope(|scope| {
        let writers: Vec<_> = values.iter().map(|value| (store(), value)).collect();
        let writers: Vec<_> = writers
            .into_iter()
            .map(|(store, value)| scope.spawn(move || (0..20).for_each(|_| store.set("key", value).unwrap())))
            .collect();
        let reader = store();
        reader.wait("key", soon()).unwrap();
        while !writers.iter().all(|w| w.is_finished()) {
            assert!(values.contains(&reader.get("key").unwrap().unwrap()));
        }
    });
    let left = fs::read_dir(&directory.0).unwrap().count();
    assert_eq!(left, 1, "nothing partial stays behind");
}

#[test]
fn directories_that_cannot_serve_are_refused() {
    let directory = Directory::new("refused");
    fs::create_dir_all(&directory.0).unwrap();
    fs::write(directory.0.join("thesis.tex"), b"").unwrap();
    let error = FileStore::open(&directory.0).unwrap_err().to_string();
    assert!(error.contains("it holds \"thesis.tex\", which is not part of a store; give a new"), "{error}");
    let file = directory.0.join("thesis.tex");
    assert!(FileStore::open(&file).unwrap_err().to_string().contains("give a directory that can be written"));
    let inner = directory.0.join("inner");
    let store = FileStore::open(&inner).unwrap();
    fs::remove_dir_all(&inner).unwrap();
    for result in [store.set("key", b""), store.get("key").map(drop), store.wait("key", soon()).map(drop)] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("check that") && error.contains("inner exists"), "{error}");
    }
}

/// Pipes, sockets and directories in place of values or of the store are refused at once.
#[test]
fn what_is_no_file_is_refused() {
    let directory = Directory::new("no-file");
    let store = FileStore::open(&directory.0).unwrap();
    let path = |key: &str| directory.0.join(format!("key.{key}"));
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    fs::create_dir(path("directory")).unwrap();
    fs::File::create(path("huge")).unwrap().set_len(1 << 40).unwrap();
    for key in ["pipe", "socket", "directory", "huge"] {
        for result in [store.get(key).map(drop), store.wait(key, soon()).map(drop)] {
            let error = result.unwrap_err().to_string();
            let words = if key == "huge" { "it has more than" } else { "it is not a regular file" };
            assert!(error.contains(words) && error.contains("give every job a new"), "{key}: {error}");
        }
    }
    for key in ["pipe", "socket", "huge"] {
        store.set(key, b"value").unwrap();
        assert_eq!(store.get(key).unwrap().unwrap(), b"value", "{key}: it was replaced");
        let file = path(key);
        fs::remove_file(&file).unwrap();
        assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
        let error = FileStore::open(&file).unwrap_err().to_string();
        assert!(error.contains("give a directory that can be written"), "{error}");
    }
    assert!(store.set("directory", b"value").unwrap_err().to_string().contains("write \"directory\""));
}

fn endpoint(rank: usize, ranks: usize) -> EndpointInfo {
    EndpointInfo::new(rank, ranks, "ucx", "1.22.0", vec![vec![rank as u8, 0xab, 0], vec![]])
}

/// The place where the ranks of these tests meet.
const PLACE: &str = "here";

/// Runs the exchange on all ranks as threads and returns all results.
fn run(
    store: &Arc<dyn Store>,
    endpoints: &[EndpointInfo],
    secret: impl Fn(usize) -> Option<&'static str> + Sync,
    patience: Duration,
) -> Vec<Result<Vec<EndpointInfo>, BootstrapError>> {
    let secret = &secret;
    thread::scope(|scope| {
        let meet = |endpoint: &EndpointInfo| {
            let time = lasting(patience);
            Rendezvous::at(store.clone(), PLACE, endpoint.clone(), secret(endpoint.rank), time).exchange()
        };
        let threads: Vec<_> = endpoints.iter().map(|endpoint| scope.spawn(move || meet(endpoint))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// The sealed endpoint that a rank leaves in the store.
fn sealed(endpoint: &EndpointInfo, secret: Option<&'static str>) -> Vec<u8> {
    let store = memory();
    run(&store, std::slice::from_ref(endpoint), |_| secret, Duration::ZERO);
    store.get(&format!("{PLACE}/endpoint/{}", endpoint.rank)).unwrap().unwrap()
}

fn text(result: &Result<Vec<EndpointInfo>, BootstrapError>) -> String {
    result.as_ref().unwrap_err().to_string()
}

#[test]
fn everybody_gets_all_endpoints() {
    for secret in [None, Some("open sesame")] {
        for size in [1, 2, 16] {
            for (store, _guard) in stores(&format!("all-{size}-{}", secret.is_some())) {
                let endpoints: Vec<EndpointInfo> = (0..size).map(|rank| endpoint(rank, size)).collect();
                for result in run(&store, &endpoints, |_| secret, TEST_TIMEOUT) {
                    assert_eq!(result.unwrap(), endpoints);
                }
            }
        }
    }
}

#[test]
fn those_who_do_not_come_are_named() {
    let endpoints: Vec<EndpointInfo> = [0, 2].map(|rank| endpoint(rank, 7)).to_vec();
    for result in run(&memory(), &endpoints, |_| None, SHORT) {
        let text = text(&result);
        let (a, b) = (&endpoints[0], &endpoints[1]);
        let expected = format!(
            " s, ranks 1, 3-6 did not come; rank 0 (host {}, pid {}), rank 2 (host {}, pid {}) came; check that every rank is running and uses the same store and RINGROAD_SECRET, or allow more time (RINGROAD_TIMEOUT)",
            a.host, a.pid, b.host, b.pid
        );
        let seconds = text.strip_prefix("within ").and_then(|text| text.strip_suffix(&expected));
        assert!(seconds.is_some_and(|seconds| seconds.parse::<f64>().unwrap() >= 6.0), "{text}");
    }
}

#[test]
fn those_who_stop_half_way_are_named() {
    let store = memory();
    store.set("here/endpoint/1", &sealed(&endpoint(1, 2), None)).unwrap();
    let text = text(&run(&store, &[endpoint(0, 2)], |_| None, SHORT)[0]);
    assert!(text.contains("s, rank 1 (host ") && text.contains(") came but stopped half-way"), "{text}");
}

#[test]
fn differences_are_listed_on_every_rank() {
    type Change = fn(&mut EndpointInfo);
    let cases: [(Change, &str); 5] = [
        (|c| c.transport_version = "1.13.1".into(), "the ranks have different versions of the transport: ucx 1.13.1 on ranks 1, 2, ucx 1.22.0 on ranks 0, 3; they cannot talk to each other; install the same on all, or point RINGROAD_UCX_LIBRARY to it"),
        (|c| c.ringroad = "9.9".into(), "the ranks have different versions of ringroad: VERSION on ranks 0, 3, 9.9 on ranks 1, 2; install the same on all"),
        (|c| c.asked = Some(["ucx", "tcp"][c.rank % 2].into()), "the ranks have different transports: tcp on rank 1, ucx on rank 2; set the same RINGROAD_TRANSPORT for all"),
        (|c| c.format = 0, "the ranks have different versions of the endpoint info: 0 on ranks 1, 2, 5 on ranks 0, 3; install the same ringroad on all"),
        (|c| c.addresses.truncate(1), "the ranks have different numbers of ports: 1 on ranks 1, 2, 2 on ranks 0, 3; name equally many devices in RINGROAD_NET_DEVICES=per-port:... on all"),
    ];
    for (change, expected) in cases {
        let mut endpoints: Vec<EndpointInfo> = (0..4).map(|rank| endpoint(rank, 4)).collect();
        endpoints[1..3].iter_mut().for_each(change);
        for result in run(&memory(), &endpoints, |_| None, TEST_TIMEOUT) {
            assert_eq!(text(&result), expected.replace("VERSION", env!("CARGO_PKG_VERSION")));
        }
    }
}

#[test]
fn different_numbers_of_ranks_are_noticed() {
    let endpoints = [endpoint(0, 2), endpoint(1, 3), endpoint(2, 3)];
    for result in run(&memory(), &endpoints[..], |_| None, TEST_TIMEOUT) {
        let text = text(&result);
        assert!(
            text.starts_with("the ranks have different numbers of ranks: 2 on rank 0, 3 on rank"),
            "{text}"
        );
    }
}

#[test]
fn damaged_and_foreign_endpoints_are_not_accepted() {
    let good = sealed(&endpoint(1, 2), Some("right"));
    let content = br#"{"rank":1}"#;
    let damage = |at: usize| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    };
    let unsealed = "its seal does not fit this rank's secret; set the same RINGROAD_SECRET for all ranks";
    let cases = [
        (vec![], "it is incomplete (0 bytes)"),
        (good[..good.len() - 1].to_vec(), "it is incomplete ("),
        ([&u32::MAX.to_le_bytes()[..], content].concat(), "it is incomplete ("),
        (vec![b'x'; 8 << 20], "are allowed; start all ranks anew"),
        (damage(0), "it is incomplete ("),
        (damage(20), unsealed),
        (damage(good.len() - 1), unsealed),
        (sealed(&endpoint(1, 2), None), unsealed),
        (sealed(&endpoint(1, 2), Some("wrong")), unsealed),
        (sealed(&endpoint(0, 2), Some("right")), unsealed),
    ];
    let refusal = |bytes: &[u8], secret| {
        let store = memory();
        store.set("here/endpoint/1", bytes).unwrap();
        text(&run(&store, &[endpoint(0, 2)], |_| secret, TEST_TIMEOUT)[0])
    };
    for (bytes, reason) in cases {
        let text = refusal(&bytes, Some("right"));
        assert!(text.starts_with("the endpoint of rank 1 in the store is not accepted: "), "{text}");
        assert!(text.contains(reason) && !text.contains("\"right"), "{text}");
    }
    let text = refusal(&good, None);
    assert!(text.contains("set the same RINGROAD_SECRET for all ranks or for none"), "{text}");
}

/// Seals as any rank does that knows the secret.
fn seal(secret: &str, key: &str, content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(content);
    let mut mac: hmac::Hmac<sha2::Sha256> = hmac::Mac::new_from_slice(secret.as_bytes()).unwrap();
    hmac::Mac::update(&mut mac, &(key.len() as u64).to_le_bytes());
    hmac::Mac::update(&mut mac, key.as_bytes());
    hmac::Mac::update(&mut mac, &bytes);
    bytes.extend_from_slice(&hmac::Mac::finalize(mac).into_bytes());
    bytes
}

#[test]
fn endpoints_of_other_versions_can_be_read() {
    // An endpoint of a later version, with new fields and without some old ones.
    let (key, content) = ("here/endpoint/1", br#"{"format": 4, "ringroad": "7.0", "rank": 1, "rails": [1]}"#);
    let store = memory();
    store.set(key, &seal("key", key, content)).unwrap();
    let text = text(&run(&store, &[endpoint(0, 2)], |_| Some("key"), TEST_TIMEOUT)[0]);
    assert!(text.starts_with("the ranks have different versions of ringroad: "), "{text}");
    assert!(text.contains("7.0 on rank 1"), "{text}");
}

/// After a timeout, the error says which ranks came and which are missing, whatever was waited for.
#[test]
fn the_limit_names_ranks_in_every_phase() {
    let meet = |rank: usize, patience: Duration, store: &Arc<dyn Store>| {
        let mut rendezvous = Rendezvous::at(store.clone(), PLACE, endpoint(rank, 2), None, lasting(patience));
        rendezvous.exchange().map(|_| rendezvous)
    };
    for rank in [0, 1] {
        let store = memory();
        let error = thread::scope(|scope| {
            let other = scope.spawn(|| meet(1 - rank, TEST_TIMEOUT, &store).map(drop));
            let mut rendezvous = meet(rank, SHORT, &store).unwrap();
            other.join().unwrap().unwrap();
            match rank {
                0 => rendezvous.collect("near", b"", 10).unwrap_err(),
                _ => rendezvous.share("choices", None, 10).unwrap_err(),
            }
        });
        let text = error.to_string();
        let stopped = format!("s, rank {} (host ", 1 - rank);
        assert!(text.contains(&stopped) && text.contains(") came but stopped half-way"), "{text}");
        assert!(text.contains(&format!("; rank {rank} (host ")) && !text.contains(PLACE), "{text}");
    }
}

/// Rank 0 is started anew on another host, from which nobody can see that the first one is gone.
#[test]
fn ranks_follow_a_rank_0_that_begins_anew() {
    let store = memory();
    let join = |rank| {
        Rendezvous::join(store.clone(), "world", endpoint(rank, 2), None, lasting(TEST_TIMEOUT)).unwrap()
    };
    let mut first = join(0);
    let joined = Mutex::new(0);
    thread::scope(|scope| {
        let other = scope.spawn(|| loop {
            let mut rendezvous = join(1);
            *joined.lock().unwrap() += 1;
            match rendezvous.exchange() {
                Err(BootstrapError::Moved) => assert!(rendezvous.has_moved()),
                result => break result,
            }
        });
        while *joined.lock().unwrap() == 0 {
            thread::yield_now();
        }
        let second = join(0).exchange();
        assert_eq!(second.unwrap(), other.join().unwrap().unwrap());
        assert_eq!(*joined.lock().unwrap(), 2);
        // If two processes are rank 0 at the same time, the earlier one gives up and leaves the announcement alone.
        let third = join(0);
        let error = first.exchange().unwrap_err();
        assert!(matches!(error, BootstrapError::Replaced { .. }), "{error}");
        drop(first);
        assert_ne!(store.get("ringroad/world").unwrap().unwrap(), b"-", "the announcement is another's");
        drop(third);
        assert_eq!(store.get("ringroad/world").unwrap().unwrap(), b"-");
    });
}

#[test]
fn a_rank_that_was_started_twice_is_noticed() {
    // One after the other.
    let store = memory();
    let (first, second) = (endpoint(0, 2), endpoint(0, 2));
    store.set("here/endpoint/0", &sealed(&first, None)).unwrap();
    let result = run(&store, &[second], |_| None, TEST_TIMEOUT);
    assert!(matches!(result[0], Err(BootstrapError::Duplicate { .. })));
    assert!(text(&result[0]).ends_with("start every rank once, and give every job a fresh store"));

    // At the same time: whichever comes first, not all of them succeed, and none waits for long.
    for _ in 0..20 {
        let results = run(&memory(), &[endpoint(0, 2), endpoint(0, 2), endpoint(1, 2)], |_| None, SHORT);
        assert!(results[..2].iter().any(|r| r.is_err()), "both were accepted");
    }
}

/// Ranks 0 and 1 of three, and rank 1 once more: there is no rank 2 to wait for.
#[test]
fn all_learn_at_once_that_ranks_are_numbered_wrongly() {
    for _ in 0..10 {
        let results =
            run(&memory(), &[endpoint(0, 3), endpoint(1, 3), endpoint(1, 3)], |_| None, TEST_TIMEOUT);
        for result in &results {
            assert!(text(result).contains("start every rank once"), "{results:?}");
        }
        assert!(matches!(results[0], Err(BootstrapError::Conflict(_))), "{results:?}");
    }
    let store = memory();
    let connect = |rank| {
        let made = Means::default().connect(lasting(TEST_TIMEOUT), store.clone(), rank, 2);
        made.err().map(|error| error.to_string()).unwrap_or_default()
    };
    thread::scope(|scope| {
        let first = scope.spawn(|| connect(0));
        while !first.is_finished() {
            let third = connect(2);
            assert!(third.starts_with("rank 2 of 2 is out of range"), "{third}");
        }
        let first = first.join().unwrap();
        assert!(first.contains("cannot take part: rank 2 of 2 is out of range"), "{first}");
    });
}

#[test]
fn who_is_refused_is_named_and_ends_nothing() {
    let store = memory();
    let join_within = |patience, rank, secret| {
        Rendezvous::join(store.clone(), "world", endpoint(rank, 2), Some(secret), lasting(patience))
    };
    let join = |rank, secret| join_within(SHORT, rank, secret);
    let late = |mut rendezvous: Rendezvous| rendezvous.exchange().unwrap_err().to_string();
    let first = join(0, "ours").unwrap();
    let refused = join(1, "theirs").err().unwrap().to_string();
    assert!(refused.contains("set the same RINGROAD_SECRET"), "{refused}");
    let told = late(first);
    for words in ["rank 1 did not come", "cannot come in", &refused] {
        assert!(told.contains(words), "{told}");
    }
    let again = join(0, "ours").unwrap();
    store.set("ringroad/refused", &[b"nonsense\x07\n".as_slice(), &[b'x'; 10_000]].concat()).unwrap();
    let told = late(again);
    assert!(!told.contains("cannot come in"), "it was long ago: {told}");
    assert!(told.contains("nonsensex") && told.len() < 2000, "{told}");
    // Whatever anybody has written, ranks meet.
    thread::scope(|scope| {
        let mut first = join_within(TEST_TIMEOUT, 0, "ours").unwrap();
        store.set("ringroad/refused", b"stop").unwrap();
        let other = scope.spawn(|| join_within(TEST_TIMEOUT, 1, "ours").unwrap().exchange());
        assert!(first.exchange().is_ok() && other.join().unwrap().is_ok());
    });
}

/// A store that sets and finds other values under some keys.
struct Forged<F> {
    inner: MemoryStore,
    forge: F,
}

impl<F: Fn(&str, &[u8]) -> Option<Vec<u8>> + Send + Sync> Store for Forged<F> {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        // At once, so that no rank sees the true value.
        self.inner.set(key, &(self.forge)(key, value).unwrap_or(value.to_vec()))
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(key)
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        self.inner.wait(key, deadline)
    }
}

/// A store that fails at some requests.
struct Failing<F> {
    inner: Arc<dyn Store>,
    fails: F,
}

impl<F: Fn(&str) -> Option<StoreError> + Send + Sync> Failing<F> {
    fn ask<T>(&self, key: &str, act: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        (self.fails)(key).map_or_else(act, Err)
    }
}

impl<F: Fn(&str) -> Option<StoreError> + Send + Sync> Store for Failing<F> {
    fn set(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.ask(key, || self.inner.set(key, value))
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.ask(key, || self.inner.get(key))
    }

    fn wait(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, StoreError> {
        self.ask(key, || self.inner.wait(key, deadline))
    }
}

#[test]
fn a_slow_store_is_asked_again_until_the_deadline() {
    let silent = || StoreError::Silent("rank 0 at node:29500".to_owned());
    let asked = AtomicUsize::new(0);
    let fails = move |_: &str| asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(3).then(silent);
    let store: Arc<dyn Store> = Arc::new(Failing { inner: memory(), fails });
    let results = run(&store, &[endpoint(0, 2), endpoint(1, 2)], |_| None, TEST_TIMEOUT);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let store: Arc<dyn Store> = Arc::new(Failing { inner: memory(), fails: move |_: &str| Some(silent()) });
    let results = run(&store, &[endpoint(0, 2)], |_| None, SHORT);
    assert!(text(&results[0]).starts_with("rank 0 at node:29500 has not answered so far"), "{results:?}");
}

/// As where a process lacks descriptors, which it has again once it gives up.
#[test]
fn all_learn_at_once_that_a_rank_cannot_use_the_store() {
    for (place, times) in [("ringroad/world", 1), ("/endpoint/1", 9)] {
        let store = memory();
        let asked = AtomicUsize::new(0);
        let failed = || StoreError::Failed { action: "read".to_owned(), reason: "too many files".to_owned() };
        let fails = move |key: &str| {
            (key.ends_with(place) && asked.fetch_add(1, Ordering::Relaxed) < times).then(failed)
        };
        let failing: Arc<dyn Store> = Arc::new(Failing { inner: store.clone(), fails });
        let connect = |rank, store| Means::default().connect(lasting(TEST_TIMEOUT), store, rank, 2).err();
        thread::scope(|scope| {
            let other = scope.spawn(|| connect(0, store));
            let own = connect(1, failing).expect("its store fails").to_string();
            assert!(own.contains("too many files"), "{own}");
            let told = other.join().unwrap().expect("it cannot meet rank 1").to_string();
            assert!(told.contains("rank 1") && told.contains("too many files"), "{told}");
        });
    }
}

#[test]
fn an_endpoint_that_was_overwritten_is_noticed_by_both_sides() {
    // A second process publishes its endpoint between this one's look for an endpoint and its own publication.
    let other = sealed(&endpoint(0, 2), None);
    let forge = move |key: &str, _: &[u8]| (key == "here/endpoint/0").then(|| other.clone());
    let store: Arc<dyn Store> = Arc::new(Forged { inner: MemoryStore::new(), forge });
    let results = run(&store, &[endpoint(0, 2), endpoint(1, 2)], |_| None, TEST_TIMEOUT);
    assert!(matches!(results[0], Err(BootstrapError::Duplicate { .. })), "{results:?}");
    let expected = "rank 0 read other endpoints than rank 1: a rank was started twice, or the store holds endpoints of an earlier job; start every rank once, and give every job a fresh store";
    assert_eq!(text(&results[1]), expected);
}

#[test]
fn what_an_earlier_job_has_left_is_noticed() {
    // The endpoint of rank 1 of the earlier job is found before the new rank 1 has come.
    let store = memory();
    let old: Vec<EndpointInfo> = (0..2).map(|rank| endpoint(rank, 2)).collect();
    run(&store, &old, |_| None, TEST_TIMEOUT).into_iter().for_each(|r| assert!(r.is_ok()));
    let fresh = memory();
    for key in ["here/endpoint/1", "here/digest/1"] {
        fresh.set(key, &store.get(key).unwrap().unwrap()).unwrap();
    }
    let results = run(&fresh, &[endpoint(0, 2), endpoint(1, 2)], |_| None, TEST_TIMEOUT);
    assert!(matches!(results[0], Err(BootstrapError::Disagree { .. })), "{results:?}");
    assert!(matches!(results[1], Err(BootstrapError::Duplicate { .. })), "{results:?}");
}

#[test]
fn sharing_goes_from_rank_0_to_all() {
    let store = memory();
    let share = |rank: usize, value: Option<&[u8]>| {
        Rendezvous::at(store.clone(), PLACE, endpoint(rank, 4), None, lasting(TEST_TIMEOUT))
            .share("plan", value, 4)
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..4).map(|rank| scope.spawn(move || share(rank, None))).collect();
        assert_eq!(share(0, Some(b"ring")).unwrap(), b"ring");
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap().unwrap(), b"ring"));
    });
    assert!(share(0, None).unwrap_err().to_string().contains("no value to share"));
}

/// Makes a communicator between threads that do not share memory, so that every kind of message is exchanged.
fn connect(
    store: &Arc<dyn Store>,
    secret: Option<&str>,
    patience: Duration,
) -> Vec<Result<Communicator, Error>> {
    let mut config = Config::default();
    config.secret = secret.map(|text| read(&[("RINGROAD_SECRET", text)]).unwrap().secret.unwrap());
    let options = Options { timeout: Some(patience), ..Options::default() };
    let means = Means { config, options, ..Means::default() };
    let join = |rank| means.connect(means.time(), store.clone(), rank, 2);
    let join = &join;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|rank| scope.spawn(move || join(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn texts(results: &[Result<Communicator, Error>]) -> Vec<String> {
    let text = |result: &Result<Communicator, Error>| match result {
        Ok(_) => "is connected".to_owned(),
        Err(error) => error.to_string(),
    };
    results.iter().map(text).collect()
}

/// The kind of value under a key, from the last parts of its name, whatever the place.
fn kind(key: &str) -> String {
    let parts: Vec<&str> = key.split('/').collect();
    match parts.len() {
        0..=2 => "announcement".to_owned(),
        count => parts[count - 2..].join("/"),
    }
}

/// Everything that was published in one rendezvous.
type Said = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

fn listening() -> (Arc<dyn Store>, Said) {
    let said = Said::default();
    let heard = said.clone();
    let forge = move |key: &str, value: &[u8]| {
        heard.lock().unwrap().insert(kind(key), value.to_vec());
        None
    };
    (Arc::new(Forged { inner: MemoryStore::new(), forge }), said)
}

/// Whatever is done to any published value, the ranks notice it and name the value and its rank; none panics or waits
/// for long.
#[test]
fn nothing_can_be_forged_moved_or_used_again() {
    type Attack = fn(&mut Vec<u8>, others: &BTreeMap<String, Vec<u8>>, kind: &str);
    let attacks: [(&str, Attack); 8] = [
        ("forge", |value, _, _| value[6] ^= 1),
        ("reseal", |value, _, _| *value.last_mut().unwrap() ^= 1),
        ("truncate", |value, _, _| value.truncate(value.len() - 1)),
        ("empty", |value, _, _| value.clear()),
        ("inflate", |value, _, kind| value.resize(if kind == "choices/0" { 65 << 20 } else { 2 << 20 }, 0)),
        ("lengthen", |value, _, _| value[..4].copy_from_slice(&u32::MAX.to_le_bytes())),
        ("replay", |value, others, kind| *value = others[kind].clone()),
        ("swap", |value, others, kind| {
            let (what, rank) = kind.split_once('/').unwrap_or((kind, ""));
            let other = if rank == "0" { 1 } else { 0 };
            let other = others.get(&format!("{what}/{other}")).unwrap_or(&others["endpoint/0"]);
            *value = other.clone();
        }),
    ];
    const LIMIT: Duration = Duration::from_secs(10);
    for secret in [None, Some("sesame")] {
        let (store, said) = listening();
        connect(&store, secret, TEST_TIMEOUT).into_iter().for_each(|c| drop(c.unwrap()));
        let others = said.lock().unwrap().clone();
        let kinds: Vec<String> = others.keys().cloned().collect();
        let expected = [
            "announcement",
            "endpoint/0",
            "endpoint/1",
            "choices/0",
            "digest/0",
            "digest/1",
            "near/0",
            "near/1",
        ];
        assert!(expected.iter().all(|key| others.contains_key(*key)), "{kinds:?}");
        for kind_of in kinds {
            for (name, attack) in attacks {
                // A replayed announcement leads to an empty place. That costs time, but so may any interference.
                if kind_of == "announcement" && name == "replay" {
                    continue;
                }
                let (target, others) = (kind_of.clone(), others.clone());
                let forge = move |key: &str, value: &[u8]| {
                    (kind(key) == target && value != b"-").then(|| {
                        let mut value = value.to_vec();
                        attack(&mut value, &others, &target);
                        value
                    })
                };
                let store: Arc<dyn Store> = Arc::new(Forged { inner: MemoryStore::new(), forge });
                let start = Instant::now();
                let results = connect(&store, secret, LIMIT);
                assert!(start.elapsed() < LIMIT, "{name} {kind_of}: {results:?}", results = texts(&results));
                let told = texts(&results);
                let (what, rank) = kind_of.split_once('/').unwrap_or(("\"ringroad/world\"", "0"));
                let named = told.iter().any(|text| text.contains(what) && text.contains("is not accepted: "));
                let whose = told.iter().any(|text| text.contains(&format!("rank {rank}")));
                assert!(named && (whose || what.starts_with('"')), "{name} {kind_of}: {told:?}");
            }
        }
    }
}

/// Values from a rank that knows the secret are also checked before they are used.
#[test]
fn what_makes_no_sense_is_not_accepted() {
    let cases = [
        ("choices/0", r#""tables":["#, r#""tables":[],"left":["#, "no table for"),
        ("choices/0", r#""segment":524288"#, r#""segment":0"#, "pieces of 0"),
        ("choices/0", r#""per_host":2"#, r#""per_host":0"#, "0 ranks per host"),
        ("choices/0", r#""spec":"hosts:1x2""#, r#""spec":"ring:64""#, "has 64 ranks, but there are 2"),
        ("choices/0", r#""algorithm":""#, r#""algorithm":"un"#, "unknown algorithm"),
        ("choices/0", r#""from_bytes":0"#, r#""from_bytes":1"#, "begin at 0 bytes"),
        ("choices/0", r#"{"Ok""#, r#"{"Maybe""#, "cannot be read"),
        ("near/1", "[[0,0,", "[[0,99,", "names rank 99, but there are 2 ranks"),
        ("near/1", "[[0,0,", "[[1,1,", "names rank 1, which is not on its host"),
        ("near/1", r#"{"local""#, r#"{"far""#, "cannot be read"),
        ("endpoint/1", r#""rank":1"#, r#""rank":0"#, "it belongs to rank 0"),
        ("endpoint/1", r#""pid":"#, r#""pid":"many","left":"#, "cannot be read"),
        ("digest/1", "", "longer than a digest", "are allowed; start all ranks anew"),
    ];
    for (target, old, new, reason) in cases {
        let forge = move |key: &str, value: &[u8]| {
            (kind(key) == target).then(|| {
                let content = &value[4..value.len() - 32];
                let changed = match std::str::from_utf8(content) {
                    Ok(text) if !old.is_empty() => {
                        assert!(text.contains(old), "{target} has no {old}: {text}");
                        text.replacen(old, new, usize::MAX).into_bytes()
                    }
                    _ => [content, new.as_bytes()].concat(),
                };
                seal("sesame", key, &changed)
            })
        };
        let store: Arc<dyn Store> = Arc::new(Forged { inner: MemoryStore::new(), forge });
        let start = Instant::now();
        let results = connect(&store, Some("sesame"), TEST_TIMEOUT);
        assert!(start.elapsed() < TEST_TIMEOUT / 2, "{target} {new}");
        let (what, rank) = target.split_once('/').unwrap();
        let refused = format!("the {what} of rank {rank} in the store is not accepted: ");
        for text in texts(&results) {
            assert!(text.contains(&refused) && text.contains(reason), "{target} {new}: {text}");
        }
    }
}

const ROLE: &str = "RINGROAD_TEST_BOOTSTRAP";

/// No test by itself: the body of the processes of the next test.
#[test]
fn process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (rank, directory) = role.split_once(' ').unwrap();
    let rank = rank.parse().unwrap();
    let store = FileStore::open(Path::new(directory)).unwrap();
    let mut rendezvous =
        Rendezvous::at(Arc::new(store), PLACE, endpoint(rank, 3), Some("secret"), lasting(TEST_TIMEOUT));
    let endpoints = rendezvous.exchange().unwrap();
    let pids: BTreeMap<u32, usize> = endpoints.iter().map(|endpoint| (endpoint.pid, endpoint.rank)).collect();
    assert_eq!((pids.len(), pids[&std::process::id()]), (3, rank));
    let value = std::process::id().to_string();
    let shared = rendezvous.share("root", (rank == 0).then_some(value.as_bytes()), 100).unwrap();
    assert_eq!(shared, endpoints[0].pid.to_string().as_bytes());
}

#[test]
fn processes_meet_in_a_directory() {
    let directory = Directory::new("processes");
    let start = |rank: usize| {
        let role = format!("{rank} {}", directory.0.display());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process", "--nocapture"]).env(ROLE, role).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let processes: Vec<_> = (0..3).map(start).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
}

fn read(variables: &[(&str, &str)]) -> Result<Config, String> {
    let owned = variables.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    Config::read(owned).map_err(|e| e.to_string())
}

#[test]
fn defaults_are_those_of_the_table() {
    let config = Config::default();
    assert_eq!((config.timeout, config.segment, config.debug), (Duration::from_secs(300), None, Debug::Warn));
    assert!(config.topology.given().is_none() && config.store.is_none() && config.secret.is_none());
    assert_eq!(
        (config.size_invariant, &config.tuner_file, &config.profile),
        (false, &None, &ProfileSource::Stored)
    );
    assert_eq!(config.algorithms, Algorithms::default());
    assert_eq!(config.cost_model(Default::default()), Default::default());
    let (discovery, synthesis) = (Duration::from_millis(1500), Duration::from_secs(2));
    assert_eq!(config.budget, Budget { discovery, synthesis, adaptation: None });
    for (entry, setting) in config.entries().iter().zip(SETTINGS) {
        assert_eq!(
            (entry.setting, entry.origin, entry.value.as_deref()),
            (setting, ValueOrigin::Default, setting.default)
        );
    }
}

#[test]
fn transports_are_read() {
    let read = |text| read(&[("RINGROAD_TRANSPORT", text)]).unwrap().transport;
    let kind = |within, between, streams| TransportKind { within, between, streams };
    for (text, expected) in [
        ("auto", kind(Some(Within::Auto), None, None)),
        ("ucx", kind(None, Some(Between::Ucx), None)),
        ("TCP", kind(None, Some(Between::Tcp), None)),
        ("cma, tcp:4", kind(Some(Within::Cma), Some(Between::Tcp), Some(4))),
        ("ucx,no-cma", kind(Some(Within::NoCma), Some(Between::Ucx), None)),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn values_are_read() {
    let config = read(&[
        ("RINGROAD_ALGO", "ring, Swing"),
        ("RINGROAD_DETERMINISTIC", "Size-Invariant"),
        ("RINGROAD_TUNER_FILE", "/etc/rules.csv"),
        ("RINGROAD_PROFILE", "/etc/profile.json"),
        ("RINGROAD_TOPOLOGY", " torus:4x2 "),
        ("RINGROAD_TIMEOUT", "1.5"),
        ("RINGROAD_UCX_LIBRARY", "/opt/ucx/lib/libucp.so.0"),
        ("RINGROAD_TRANSPORT", "No-CMA"),
        ("RINGROAD_HOST", "node 7"),
        ("RINGROAD_NET_DEVICES", "mlx5_0:1, eth0"),
        ("RINGROAD_TCP_PORTS", "20000-20999"),
        ("RINGROAD_SECRET", "open sesame"),
        ("RINGROAD_STORE", "file:///shared/job"),
        ("RINGROAD_SEGMENT", "64KiB"),
        ("RINGROAD_DEBUG", "trace"),
        ("RINGROAD_TRACE", "/tmp/traces"),
        ("RINGROAD_SIGNAL", "usr1"),
        ("RINGROAD_COST", "bandwidth=100Gbit/s, step_latency=1us,hop_latency = 0,message_latency=2e-7,incast_latency=300ns,reduce_cost=1e-10"),
        ("RINGROAD_BUDGET", "adaptation=0,synthesis=0.5"),
        ("RINGROAD_CACHE", "/var/cache"),
        ("RINGROAD_SCHEDULES", "/etc/schedules"),
        ("UCX_TLS", "tcp"),
        ("PATH", "/bin"),
    ])
    .unwrap();
    assert_eq!(names(&config.algorithms, Collective::Allreduce), ["ring", "swing"]);
    assert!(config.size_invariant);
    assert_eq!(config.tuner_file.as_deref(), Some(Path::new("/etc/rules.csv")));
    assert_eq!(config.profile, ProfileSource::File("/etc/profile.json".into()));
    assert_eq!(config.topology.given().unwrap().spec(), "torus:4x2");
    assert_eq!(config.timeout, Duration::from_millis(1500));
    assert_eq!(config.ucx_library.as_deref(), Some(Path::new("/opt/ucx/lib/libucp.so.0")));
    let no_cma = TransportKind { within: Some(Within::NoCma), between: None, streams: None };
    assert_eq!(config.transport, no_cma);
    let devices = ["mlx5_0:1", "eth0"].map(str::to_owned).to_vec();
    assert_eq!(config.net_devices, Some(Devices::Any(devices)));
    assert_eq!(
        (config.devices_of_all().as_deref(), config.devices_of_ports()),
        (Some("mlx5_0:1,eth0"), &[][..])
    );
    assert_eq!(config.tcp_ports, Some((20000, 20999)));
    assert_eq!(config.secret.as_ref().unwrap().reveal(), "open sesame");
    assert_eq!(config.store, Some(StoreSource::Directory("/shared/job".into())));
    let store = |url| read(&[("RINGROAD_STORE", url)]).unwrap().store;
    assert_eq!(store("tcp://node1:29500"), Some(StoreSource::Server("node1".to_owned(), 29500)));
    assert_eq!(store("tcp://[::1]:1"), Some(StoreSource::Server("::1".to_owned(), 1)));
    assert_eq!((config.segment, config.debug), (Some(65536), Debug::Trace));
    assert_eq!(config.trace.as_deref(), Some(Path::new("/tmp/traces")));
    assert_eq!(config.signal, Some(Signal::Usr1));
    let model = config.cost_model(Default::default());
    assert_eq!((model.step_latency, model.hop_latency, model.bandwidth), (1e-6, Some(0.0), Some(12.5e9)));
    assert_eq!((model.message_latency, model.reduce_cost, model.incast_latency), (2e-7, 1e-10, 3e-7));
    let (discovery, synthesis) = (Duration::from_millis(1500), Duration::from_millis(500));
    assert_eq!(config.budget, Budget { discovery, synthesis, adaptation: Some(Duration::ZERO) });
    let kept = [config.made_schedules(), config.networks(), config.profiles()];
    let expected = ["schedules", "networks", "profiles"].map(|name| Some(Path::new("/var/cache").join(name)));
    assert_eq!(kept, expected);
    let none = read(&[("RINGROAD_CACHE", "none")]).unwrap();
    assert_eq!((none.made_schedules(), none.networks(), none.profiles()), (None, None, None));
    assert_eq!(config.schedules.as_deref(), Some(Path::new("/etc/schedules")));
    assert_eq!(read(&[("RINGROAD_TOPOLOGY", "off")]).unwrap().topology, TopologySource::Off);
    assert_eq!(read(&[("RINGROAD_TOPOLOGY", "auto")]).unwrap().topology, TopologySource::Auto);
    assert!(config.warnings.is_empty());
    assert!(config.entries().iter().all(|entry| entry.origin == ValueOrigin::Environment));
    let ports = read(&[("RINGROAD_NET_DEVICES", "per-port: mlx5_0:1, eth0 ,eth0")]).unwrap();
    assert_eq!(ports.devices_of_ports(), ["mlx5_0:1", "eth0", "eth0"]);
    assert_eq!(ports.devices_of_all(), None);
    let shown = format!("{config:?} {:?}", config.entries());
    assert!(!shown.contains("sesame"), "{shown}");
}

#[test]
fn what_is_empty_is_not_set() {
    let config = read(&[("RINGROAD_TIMEOUT", " "), ("RINGROAD_SECRET", "")]).unwrap();
    assert!(config.secret.is_none());
    assert!(config.entries().iter().all(|entry| entry.origin == ValueOrigin::Default));
}

fn names(algorithms: &Algorithms, collective: Collective) -> Vec<String> {
    algorithms.preferred(collective).iter().map(|member| member.name()).collect()
}

#[test]
fn lists_of_algorithms_are_read() {
    let cases: [(&str, &[&str], &[&str]); 6] = [
        ("ring", &["ring"], &[]),
        ("binomial,ring", &["ring"], &["binomial"]),
        ("allreduce:swing,RING,swing", &["swing", "ring"], &[]),
        ("allreduce:ring,swing;broadcast:binomial", &["ring", "swing"], &["binomial"]),
        ("allreduce:recursive_doubling; ring, binomial", &["recursive-doubling"], &["binomial"]),
        ("broadcast:scatter-allgather;;", &[], &["scatter-allgather"]),
    ];
    for (text, allreduce, broadcast) in cases {
        let algorithms = Algorithms::parse(text).unwrap();
        assert_eq!(names(&algorithms, Collective::Allreduce), allreduce, "{text}");
        assert_eq!(names(&algorithms, Collective::Broadcast { root: 3 }), broadcast, "{text}");
    }
}

#[test]
fn what_is_to_be_left_out_is_read() {
    let check = |text: &str, allreduce: &[&str], excluded: &[&str], kept: &[&str]| {
        let algorithms = Algorithms::parse(text).unwrap();
        assert_eq!(names(&algorithms, Collective::Allreduce), allreduce, "{text}");
        let excludes = |name: &&str| algorithms.excludes(Collective::Allreduce, &find(name).unwrap());
        assert!(excluded.iter().all(excludes) && !kept.iter().any(excludes), "{text}");
    };
    check("^ring", &[], &["ring"], &["swing", "bidirectional-ring"]);
    check("^ring,swing", &[], &["ring", "swing"], &["bucket"]);
    check("allreduce: ^ring, ^swing", &[], &["ring", "swing"], &["bucket"]);
    check("allreduce:swing,ring;^bucket", &["swing", "ring"], &["bucket"], &["ring"]);
    check("reduce_scatter:^ring", &[], &[], &["ring"]);
    check("^generalized", &[], &["generalized:0", "generalized:2"], &["generalized-xor:0"]);
    check("^generalized:2", &[], &["generalized:2"], &["generalized:1"]);
}

#[test]
fn invalid_values_are_explained() {
    let cases = [
        (
            "RINGROAD_TIMEOUT",
            "soon",
            "RINGROAD_TIMEOUT=\"soon\" cannot be used; expected a time above 0 and up to a year",
        ),
        ("RINGROAD_TIMEOUT", "0", "expected a time above 0"),
        ("RINGROAD_TIMEOUT", "inf", "up to a year"),
        ("RINGROAD_TIMEOUT", "NaN", "up to a year"),
        ("RINGROAD_ALGO", "rign", "unknown algorithm \"rign\"; did you mean ring?"),
        ("RINGROAD_ALGO", "allredcue:ring", "unknown collective \"allredcue\"; did you mean allreduce? Expected one of: "),
        (
            "RINGROAD_ALGO",
            "broadcast:ring",
            "ring performs no broadcast; choose among binomial, ",
        ),
        ("RINGROAD_ALGO", "allreduce:", "\"allreduce:\" lacks the name of an algorithm"),
        ("RINGROAD_ALGO", "^", "\"^\" lacks the name of an algorithm"),
        ("RINGROAD_ALGO", "^rign", "did you mean ring?"),
        ("RINGROAD_ALGO", "broadcast:^ring", "ring performs no broadcast"),
        (
            "RINGROAD_ALGO",
            "swing,^ring",
            "\"swing,^ring\" both names and leaves out; write a list of its own after a semicolon, such as ;^ring",
        ),
        ("RINGROAD_DETERMINISTIC", "yes", "cannot be used; expected size-invariant"),
        ("RINGROAD_TOPOLOGY", "rnig:8", "did you mean ring?"),
        ("RINGROAD_TOPOLOGY", "/nowhere/net.json", "No such file or directory"),
        ("RINGROAD_TOPOLOGY", "/dev/null", "the path of a .json file that Topology.save has written"),
        ("RINGROAD_TRANSPORT", "pigeons", "there is no \"pigeons\" among auto, cma or no-cma, or ucx or tcp; expected auto, cma or no-cma"),
        ("RINGROAD_TRANSPORT", "tcp,ucx", "\"ucx\" is one too many"),
        ("RINGROAD_TRANSPORT", "auto,cma", "\"cma\" is one too many"),
        ("RINGROAD_TRANSPORT", "cma:2", "\"cma:2\" is one too many"),
        ("RINGROAD_TRANSPORT", "ucx:2", "\"ucx:2\" is not tcp with a number of connections from 1 to 16"),
        ("RINGROAD_TRANSPORT", "tcp:17", "\"tcp:17\" is not tcp with"),
        ("RINGROAD_NET_DEVICES", "eth0,", "a name is empty; expected network devices"),
        ("RINGROAD_NET_DEVICES", "per-port:eth0,,eth1", "a name is empty; expected network devices"),
        ("RINGROAD_NET_DEVICES", "per-port:", "a name is empty"),
        ("RINGROAD_NET_DEVICES", "eth0 eth1", "\"eth0 eth1\" has a space within, where a comma belongs; expected"),
        ("RINGROAD_TCP_PORTS", "2000", "cannot be used; expected the first and the last TCP port"),
        ("RINGROAD_TCP_PORTS", "0-5", "ports are above 0"),
        ("RINGROAD_TCP_PORTS", "9-5", "the first is not above the last"),
        ("RINGROAD_TCP_PORTS", "1-99999", "\"99999\" is not a port"),
        (
            "RINGROAD_STORE",
            "/shared",
            "expected a directory that all ranks can reach, such as file:///shared/job-17",
        ),
        ("RINGROAD_STORE", "file://shared", "the path must begin with a slash"),
        ("RINGROAD_STORE", "tcp://node1", "the port is missing"),
        ("RINGROAD_STORE", "tcp://node1:0", "the port must be a number from 1 to 65535"),
        ("RINGROAD_STORE", "tcp://:29500", "the host is missing"),
        ("RINGROAD_SEGMENT", "1e6", "expected a number of bytes, 64 or more"),
        ("RINGROAD_SEGMENT", "63", "64 or more"),
        ("RINGROAD_DEBUG", "verbose", "expected WARN, INFO or TRACE"),
        (
            "RINGROAD_COST",
            "step_latency=-1",
            "cannot be used: step_latency must be a time, 0 or more, such as 500ns; expected any of bandwidth=100Gbit/s",
        ),
        ("RINGROAD_COST", "bandwidth=1GB/s,hop_latency=1h", "hop_latency must be a time"),
        ("RINGROAD_COST", "bandwidth=0", "bandwidth must be a bandwidth above 0, such as 100Gbit/s"),
        ("RINGROAD_COST", "bandwidth=fast", "bandwidth must be a bandwidth above 0"),
        ("RINGROAD_COST", "reduce_cost=inf", "reduce_cost must be a time, 0 or more"),
        ("RINGROAD_COST", "bandwith=1GB/s", "there is no \"bandwith\"; did you mean bandwidth?"),
        ("RINGROAD_COST", "5us", "\"5us\" is not written as name=value"),
        ("RINGROAD_COST", "hop_latency=1us,", "\"\" is not written as name=value"),
        ("RINGROAD_COST", "hop_latency=1us,hop_latency=2us", "hop_latency is given twice"),
        ("RINGROAD_BUDGET", "synthesis=-1", "synthesis must be a time of up to a year, such as 500ms"),
        ("RINGROAD_BUDGET", "patience=1", "there is no \"patience\"; expected any of discovery=1.5s"),
    ];
    for (name, value, expected) in cases {
        let error = read(&[(name, value)]).unwrap_err();
        assert!(error.starts_with(&format!("{name}={value:?} cannot be used")), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn values_with_a_unit_are_read_as_the_command_line_reads_them() {
    for setting in SETTINGS.iter().filter(|setting| !setting.unit.is_empty()) {
        let value = match setting.unit {
            "seconds" => "1500us",
            "bytes" => "1.5KiB",
            unit => panic!("say here what users write for {} in {unit}", setting.name),
        };
        read(&[(setting.name, value)]).unwrap();
    }
}

#[test]
fn unknown_variables_are_pointed_out() {
    let config = read(&[
        ("RINGROAD_TIMOUT", "3"),
        ("RINGROAD_ALGOS", "ring"),
        ("RINGROAD_COFFEE", "black"),
        ("RINGROAD_timeout", "3"),
    ])
    .unwrap();
    let expected = [
        "there is no variable RINGROAD_ALGOS; did you mean RINGROAD_ALGO?",
        "there is no variable RINGROAD_COFFEE; `ringroad info` lists all",
        "there is no variable RINGROAD_TIMOUT; did you mean RINGROAD_TIMEOUT?",
        "there is no variable RINGROAD_timeout; did you mean RINGROAD_TIMEOUT?",
    ];
    assert_eq!(config.warnings, expected);
}

#[test]
fn the_environment_can_be_read() {
    assert!(Config::from_env().is_ok());
}

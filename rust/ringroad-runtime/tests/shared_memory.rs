//! Communicators between real processes of one host, which share memory: this binary again, with a scenario's name in
//! the environment. UCX is opened only if some ranks cannot read each other's memory. Every wait is bounded.

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::processes::{self, now, processor_time, useless, SHORT, SLACK};
use common::{allreduce, receive, send, Case};
use ringroad_core::{algorithms, Collective};
use ringroad_runtime::bootstrap::FileStore;
use ringroad_runtime::communicator::Means;
use ringroad_runtime::config::{Config, Within};
use ringroad_runtime::os::machine::cache;
use ringroad_runtime::transport::shared::LONG;
use ringroad_runtime::{Communicator, DType, Error, Memory, Operation, Options, ReduceOp, Request};

const VARIABLE: &str = "RINGROAD_TEST_SHARED_MEMORY_CHILD";
/// More time than any scenario takes on the slowest machine.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(60);
struct Scenario {
    name: &'static str,
    body: fn(&Communicator),
    ranks: &'static [usize],
    /// Runs before the communicator is made.
    before: fn(usize),
    /// The environment of each rank; further ranks have that of the last one.
    environment: &'static [&'static [(&'static str, &'static str)]],
    /// The rank that is killed.
    dies: Option<usize>,
    /// The transport of each rank; further ranks have that of the last one.
    transport: &'static [&'static str],
    /// A text that some rank prints.
    says: &'static str,
}

const ALONE: &str = "shared memory";
const BY_CMA: &str = "shared memory, cma";

const fn scenario(name: &'static str, ranks: &'static [usize], body: fn(&Communicator)) -> Scenario {
    let (environment, transport): (&[&[_]], _) = (&[&[]], &[ALONE]);
    Scenario { name, body, ranks, before: |_| (), environment, dies: None, transport, says: "" }
}

const fn killed(name: &'static str, body: fn(&Communicator)) -> Scenario {
    Scenario { dies: Some(2), ..scenario(name, &[3], body) }
}

/// Four ranks, two on each host.
const fn hosts(name: &'static str, body: fn(&Communicator)) -> Scenario {
    const ONE: &[(&str, &str)] = &[("RINGROAD_HOST", "one"), ("RINGROAD_TRANSPORT", "no-cma")];
    const TWO: &[(&str, &str)] = &[("RINGROAD_HOST", "two"), ("RINGROAD_TRANSPORT", "no-cma")];
    let transport = &["shared memory (with 1 of 3 ranks), tcp "];
    Scenario { environment: &[ONE, ONE, TWO], transport, ..scenario(name, &[4], body) }
}

/// However many cores there are: long messages are copied by the kernel, or go through the segment.
const CMA: &[&[(&str, &str)]] = &[&[("RINGROAD_TRANSPORT", "cma")]];
const NO_CMA: &[&[(&str, &str)]] = &[&[("RINGROAD_TRANSPORT", "no-cma")]];

const fn cma(scenario: Scenario) -> Scenario {
    Scenario { environment: CMA, transport: &[BY_CMA], ..scenario }
}

const SCENARIOS: &[Scenario] = &[
    cma(scenario("collectives_by_cma", &[2, 3, 4], long_collectives)),
    cma(scenario("messages_by_cma", &[2, 3], messages)),
    cma(scenario("secret_by_cma", &[2], secret)),
    cma(killed("killed_in_message_by_cma", killed_in_a_flow)),
    cma(killed("killed_in_collective_by_cma", killed_in_all_to_all)),
    cma(scenario("late_by_cma", &[3], late_for_a_flow)),
    cma(scenario("refused_by_cma", &[3], refused)),
    scenario("collectives", &[2, 3, 4], collectives),
    scenario("results_past_the_caches", &[2, 4], results_past_the_caches),
    killed("killed_8_bytes", |communicator| killed_in_round(communicator, 2)),
    killed("killed_100_kilobytes", |communicator| killed_in_round(communicator, 25_000)),
    killed("killed_4_megabytes", |communicator| killed_in_round(communicator, 1 << 20)),
    killed("killed_asleep", killed_asleep),
    Scenario { environment: NO_CMA, ..killed("killed_in_a_flow", killed_in_a_flow) },
    killed("exit_without_close", exit_without_close),
    Scenario { environment: NO_CMA, ..scenario("messages", &[2, 3], messages) },
    Scenario { environment: NO_CMA, ..scenario("late_for_a_flow", &[3], late_for_a_flow) },
    scenario("late", &[3], late),
    scenario("different_calls", &[3], different_calls),
    scenario("aborted", &[3], aborted),
    Scenario { environment: NO_CMA, ..scenario("no_memory_to_share", &[3], no_memory_to_share) },
    scenario("closed_early", &[3], closed_early),
    scenario("idle", &[2], idle),
    scenario("interrupted", &[2], interrupted),
    Scenario {
        environment: &[NO_CMA[0], &[("RINGROAD_TRANSPORT", "tcp")], NO_CMA[0]],
        transport: &[
            "shared memory (with 1 of 2 ranks), tcp ",
            "tcp ",
            "shared memory (with 1 of 2 ranks), tcp ",
        ],
        ..scenario("one_without", &[3], collectives)
    },
    Scenario {
        environment: &[&[("RINGROAD_TRANSPORT", "tcp")]],
        transport: &["tcp (authenticated; devices lo)"],
        ..scenario("own_tcp", &[3], collectives)
    },
    Scenario {
        environment: &[&[("RINGROAD_TRANSPORT", "tcp:2"), ("RINGROAD_SECRET", "open sesame")]],
        transport: &["tcp (encrypted; devices lo)"],
        ..scenario("own_sealed_tcp", &[2], collectives)
    },
    Scenario {
        environment: &[
            &[("RINGROAD_HOST", "one"), ("RINGROAD_TRANSPORT", "no-cma,ucx")],
            &[("RINGROAD_HOST", "one"), ("RINGROAD_TRANSPORT", "no-cma,ucx")],
            &[("RINGROAD_HOST", "two"), ("RINGROAD_TRANSPORT", "no-cma,ucx")],
        ],
        transport: &[
            "shared memory (with 1 of 2 ranks), ucx ",
            "shared memory (with 1 of 2 ranks), ucx ",
            "ucx ",
        ],
        ..scenario("ucx_beside_memory", &[3], collectives)
    },
    Scenario {
        environment: &[&[("RINGROAD_TRANSPORT", "tcp")]],
        transport: &["tcp (authenticated; devices lo)"],
        ..killed("killed_over_own_tcp", |communicator| killed_in_round(communicator, 25_000))
    },
    Scenario {
        before: hide,
        // Without a secret, processes of other users are refused.
        environment: &[&[("RINGROAD_DEBUG", "INFO"), ("RINGROAD_SECRET", "open sesame")]],
        transport: &["tcp "],
        says: "shares no memory with others of its host",
        ..scenario("unreadable", &[2], collectives)
    },
    Scenario {
        before: forbid,
        // Others could read the memory of rank 1, but rank 1 cannot find out what they would find.
        transport: &[ALONE],
        says: "no rank copies out of rank 0's private memory: rank 1 cannot read it: process_vm_readv",
        ..cma(scenario("cma_is_forbidden", &[3], long_collectives))
    },
    Scenario {
        environment: &[NO_CMA[0], CMA[0]],
        says:
            "no rank copies out of rank 1's private memory: rank 0 cannot read it: RINGROAD_TRANSPORT=no-cma",
        ..scenario("one_without_cma", &[2], long_collectives)
    },
    hosts("collectives_on_hosts", collectives),
    Scenario {
        dies: Some(2),
        ..hosts("killed_on_hosts", |communicator| killed_in_round(communicator, 25_000))
    },
    hosts("late_on_hosts", late),
    hosts("different_calls_on_hosts", different_calls),
    hosts("aborted_on_hosts", aborted),
    hosts("idle_on_hosts", idle),
];

macro_rules! tests {
    ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name)); })* };
}

mod processes_of_a_host {
    use super::run;
    tests! {
        own_tcp own_sealed_tcp ucx_beside_memory killed_over_own_tcp
        collectives results_past_the_caches killed_8_bytes killed_100_kilobytes killed_4_megabytes killed_asleep killed_in_a_flow
        exit_without_close messages late_for_a_flow late different_calls aborted no_memory_to_share closed_early idle interrupted one_without unreadable
        collectives_by_cma messages_by_cma secret_by_cma killed_in_message_by_cma killed_in_collective_by_cma late_by_cma
        refused_by_cma cma_is_forbidden one_without_cma
        collectives_on_hosts killed_on_hosts late_on_hosts different_calls_on_hosts aborted_on_hosts idle_on_hosts
    }
}

// ---- What the ranks do ----

/// Every collective at lengths around those at which something changes. The algorithms take turns.
fn collectives(communicator: &Communicator) {
    let (rank, ranks) = (communicator.rank(), communicator.size());
    let topology = communicator.choices().topology;
    let mut number = 0;
    for (root, collective) in Collective::ALL.into_iter().enumerate() {
        let collective = collective.with_root(root % ranks);
        let mut members = vec![None];
        members.extend(algorithms::available(&topology, collective).into_iter().map(Some));
        for round in 0..2 * members.len().max(4) {
            let (elements, dtype) = [
                (0, DType::I32),
                (1, DType::F32),
                (8, DType::U8),
                (33, DType::U8),
                (1000, DType::I64),
                (8191, DType::F32),
                (70_001, DType::F32),
                (300_001, DType::U8),
            ][number % 8];
            number += 1;
            let case = Case {
                algorithm: members[round % members.len()],
                in_place: round % 3 == 1,
                seed: number as u64,
                ..Case::new(ranks, collective, ReduceOp::Sum, dtype, elements)
            };
            case.check(communicator, &case.prepare()).unwrap();
        }
    }
    // The last messages arrive even though their sender leaves.
    let message = |operation, input, output| Request::new(operation, DType::U8, 1 << 20, input, output);
    let (up, down) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let bytes = Memory::from_slice(&vec![7u8; 1 << 20]);
    let sent = message(Operation::Send { peer: up, tag: 5 }, bytes, Memory::nothing());
    let work = communicator.start(sent).unwrap();
    let receive = Operation::Receive { peer: down, tag: 5 };
    let received = message(receive, Memory::nothing(), Memory::zeroed(1 << 20));
    assert!(communicator.run(received).unwrap().to_vec::<u8>() == vec![7; 1 << 20]);
    work.wait().unwrap();
    communicator.close();
}

/// Every collective with more input and output than the caches hold.
fn results_past_the_caches(communicator: &Communicator) {
    let ranks = communicator.size();
    for (number, collective) in Collective::ALL.into_iter().enumerate() {
        let collective = collective.with_root(number % ranks);
        let blocks = if collective.has_blocks() { ranks } else { 1 };
        let elements = cache::share_of_last_level(ranks) / size_of::<i32>() / blocks + 13;
        // The caches may be large, and these calls long: two ranks make the half of them in place that four do not.
        let in_place = (number + ranks / 2).is_multiple_of(2);
        let case = Case { in_place, ..Case::new(ranks, collective, ReduceOp::Sum, DType::I32, elements) };
        case.check(communicator, &case.prepare()).unwrap();
    }
    communicator.close();
}

/// Every collective that only moves data, with every algorithm, with blocks so long that the kernel may copy them.
fn long_collectives(communicator: &Communicator) {
    let ranks = communicator.size();
    let topology = communicator.choices().topology;
    let mut number = 0;
    for collective in Collective::ALL.into_iter().filter(|collective| !collective.reduces()) {
        let collective = collective.with_root(number as usize % ranks);
        let members = algorithms::available(&topology, collective);
        for member in std::iter::once(None).chain(members.into_iter().map(Some)) {
            number += 1;
            let elements = if collective.has_blocks() { 590_001 / ranks } else { 590_001 };
            let case = Case {
                algorithm: member,
                in_place: number % 3 == 0,
                seed: number,
                ..Case::new(ranks, collective, ReduceOp::Sum, DType::I64, elements)
            };
            case.check(communicator, &case.prepare()).unwrap();
        }
    }
    communicator.close();
}

/// Rank 2 is killed somewhere in a call: the others learn of it soon.
fn killed_in_round(communicator: &Communicator, elements: usize) {
    if communicator.rank() == 2 {
        communicator.run(allreduce(elements)).unwrap();
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            processes::die();
        });
    }
    loop {
        let start = Instant::now();
        match communicator.run(allreduce(elements)) {
            Ok(_) => continue,
            Err(Error::Peer { rank: 2, message }) => println!("after {:?}: {message}", start.elapsed()),
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < SLACK);
        return useless(communicator);
    }
}

/// Rank 2 is killed while it blocks. Waking it is then an error, but raises no signal, whatever the program does with
/// signals.
fn killed_asleep(communicator: &Communicator) {
    // SAFETY: the default is to be killed; nothing else here depends on signals.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
    if communicator.rank() == 2 {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            processes::die();
        });
    } else {
        std::thread::sleep(Duration::from_millis(800));
    }
    let start = Instant::now();
    // The messages that the dead rank sent before may suffice for the first call.
    let first = communicator.run(allreduce(1000));
    let error = first.and_then(|_| communicator.run(allreduce(1000))).unwrap_err();
    assert!(matches!(error, Error::Peer { rank: 2, .. }), "{error:?}");
    assert!(start.elapsed() < SLACK);
    useless(communicator);
}

/// Messages of all lengths to the next rank, many at a time. They are received in another order.
fn messages(communicator: &Communicator) {
    let (rank, ranks) = (communicator.rank(), communicator.size());
    let lengths = [0, 33, 100_000, LONG - 1, LONG, LONG + 1, 3 * LONG + 7, 20 * LONG];
    let content = |from: usize, tag: usize| -> Vec<u8> {
        (0..lengths[tag]).map(|i| (i * 7 + i / 4096 + from + tag) as u8).collect()
    };
    for _ in 0..2 {
        let all = 0..lengths.len();
        let sent: Vec<_> = all
            .clone()
            .map(|tag| communicator.start(send((rank + 1) % ranks, tag as u32, &content(rank, tag))).unwrap())
            .collect();
        let from = (rank + ranks - 1) % ranks;
        for tag in all.rev() {
            let received = communicator.run(receive(from, tag as u32, lengths[tag])).unwrap();
            assert!(received.to_vec::<u8>() == content(from, tag), "{} bytes", lengths[tag]);
        }
        sent.iter().for_each(|work| work.wait().unwrap());
    }
}

/// Rank 2 is killed while a long message from it is on its way.
fn killed_in_a_flow(communicator: &Communicator) {
    if communicator.rank() == 2 {
        let _sent = communicator.start(send(0, 5, &vec![7; 20 * LONG])).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        processes::die();
    }
    if communicator.rank() == 0 {
        std::thread::sleep(Duration::from_millis(800));
    }
    let start = Instant::now();
    let error = communicator.run(receive(2, 5, 20 * LONG)).unwrap_err();
    assert!(matches!(error, Error::Peer { rank: 2, .. }), "{error:?}");
    assert!(start.elapsed() < SLACK);
    useless(communicator);
}

/// Rank 2 is killed while others copy out of its memory.
fn killed_in_all_to_all(communicator: &Communicator) {
    communicator.run(all_to_all(communicator)).unwrap();
    if communicator.rank() == 2 {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            processes::die();
        });
    }
    let error = loop {
        match communicator.run(all_to_all(communicator)) {
            Ok(_) => continue,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Peer { rank: 2, .. }), "{error:?}");
    useless(communicator);
}

/// The kernel no longer copies for rank 1, although it did when the ranks met.
fn refused(communicator: &Communicator) {
    communicator.run(all_to_all(communicator)).unwrap();
    forbid(communicator.rank());
    let mut result = communicator.run(all_to_all(communicator));
    if communicator.rank() != 1 {
        // The other ranks may have received all that they needed.
        result = result.and_then(|_| communicator.run(all_to_all(communicator)));
    }
    let error = result.unwrap_err();
    println!("{error}");
    if communicator.rank() == 1 {
        assert!(error.to_string().contains("RINGROAD_TRANSPORT=no-cma does without"), "{error}");
    }
    useless(communicator);
}

/// Memory that the kernel does not find for other ranks goes through the segment.
fn secret(communicator: &Communicator) {
    const BYTES: usize = 6 << 20;
    // SAFETY: a new mapping, which is never removed.
    #[allow(unsafe_code)]
    let input = unsafe {
        let descriptor = libc::syscall(libc::SYS_memfd_secret, 0) as i32;
        if descriptor < 0 || libc::ftruncate(descriptor, BYTES as i64) != 0 {
            return println!("there is no secret memory: {}", std::io::Error::last_os_error());
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let start = libc::mmap(std::ptr::null_mut(), BYTES, access, libc::MAP_SHARED, descriptor, 0);
        if start == libc::MAP_FAILED {
            return println!("no secret memory can be had: {}", std::io::Error::last_os_error());
        }
        std::slice::from_raw_parts_mut(start.cast::<u8>(), BYTES).fill(7 + communicator.rank() as u8);
        Memory::foreign(start.cast(), BYTES, Arc::new(()))
    };
    let operation = Operation::Collective(Collective::Alltoall);
    let request = Request::new(operation, DType::U8, BYTES / 2, input, Memory::zeroed(BYTES));
    let output = communicator.run(request).unwrap().to_vec::<u8>();
    assert!(output[..BYTES / 2] == vec![7; BYTES / 2] && output[BYTES / 2..] == vec![8; BYTES / 2]);
}

/// A long message that nobody receives: its sender gets an error, and may use its memory.
fn late_for_a_flow(communicator: &Communicator) {
    let start = Instant::now();
    let error = if communicator.rank() == 1 {
        let message = send(0, 5, &vec![7; 20 * LONG]);
        communicator.run(Request { timeout: Some(SHORT), ..message }).unwrap_err()
    } else {
        communicator.run(receive(1, 6, 20 * LONG)).unwrap_err()
    };
    assert!(matches!(error, Error::Timeout(_)), "{error:?}");
    assert!(start.elapsed() < SHORT + SLACK);
    useless(communicator);
}

/// Messages that a rank has sent arrive even though its process ends; those that it does not send are noticed as
/// missing.
fn exit_without_close(communicator: &Communicator) {
    let case = Case::new(3, Collective::Broadcast { root: 2 }, ReduceOp::Sum, DType::U8, 4 << 20);
    let prepared = case.prepare();
    for _ in 0..3 {
        case.check(communicator, &prepared).unwrap();
    }
    if communicator.rank() == 2 {
        // Not even destructors run.
        #[allow(unsafe_code)]
        // SAFETY: ends the process.
        unsafe {
            libc::_exit(0)
        }
    }
    let error = communicator.run(allreduce(1000)).unwrap_err();
    assert!(matches!(error, Error::Peer { rank: 2, .. }), "{error:?}");
    useless(communicator);
}

fn different_calls(communicator: &Communicator) {
    let elements = if communicator.rank() == 0 { 3 } else { 4 };
    // Some ranks may be notified of the mismatch before their own call, or only in the next one.
    let first = communicator.barrier(None).and_then(|()| communicator.run(allreduce(elements)));
    let error =
        first.and_then(|_| communicator.barrier(None).and_then(|()| communicator.barrier(None))).unwrap_err();
    assert!(error.to_string().contains("ranks made different calls as number 2"), "{error:?}");
    useless(communicator);
}

fn late(communicator: &Communicator) {
    processes::late(communicator, allreduce(100_000));
}

fn aborted(communicator: &Communicator) {
    processes::aborted(communicator, || allreduce(100_000));
}

/// The kernel has no memory for the segment of rank 1, which is full: rank 1 says so, and the others get the same
/// reason.
fn no_memory_to_share(communicator: &Communicator) {
    communicator.run(allreduce(1000)).unwrap();
    if communicator.rank() != 1 {
        // Rank 0 waits for the message, rank 2 for all ranks.
        let request = if communicator.rank() == 0 { receive(1, 5, 8000) } else { allreduce(1000) };
        let error = communicator.run(request).unwrap_err();
        let Error::Aborted(message) = &error else { panic!("{error:?}") };
        assert!(message.contains("rank 1 (") && message.contains("no memory"), "{message}");
        return useless(communicator);
    }
    refuse(libc::SYS_fallocate, libc::ENOSPC);
    let mut held = Vec::new();
    for bytes in (6..20).rev().map(|power| 1 << power) {
        held.extend(std::iter::from_fn(|| communicator.memory(bytes).ok()));
    }
    let error = communicator.memory(64).unwrap_err();
    assert!(matches!(error, Error::Memory(_)), "{error:?}");
    let error = communicator.run(send(0, 5, &[7; 8000])).unwrap_err();
    let Error::Memory(message) = &error else { panic!("{error:?}") };
    for part in ["rank 1 (", "and rank 0 (", "8000 bytes", "Communicator.empty"] {
        assert!(message.contains(part), "{message}");
    }
    useless(communicator);
}

/// A rank whose process lives on is also missed, long before the timeout.
fn closed_early(communicator: &Communicator) {
    communicator.run(allreduce(100_000)).unwrap();
    if communicator.rank() == 1 {
        communicator.close();
        std::thread::sleep(Duration::from_secs(1));
        return;
    }
    let start = Instant::now();
    let error = communicator.run(allreduce(100_000)).unwrap_err();
    assert!(matches!(&error, Error::Peer { rank: 1, .. }), "{error:?}");
    assert!(start.elapsed() < SLACK);
    useless(communicator);
}

/// A rank that waits blocks, and is woken.
fn idle(communicator: &Communicator) {
    const PAUSE: Duration = Duration::from_secs(2);
    for elements in [2, 100_000] {
        communicator.run(allreduce(elements)).unwrap();
        let start = (Instant::now(), processor_time());
        if communicator.rank() == 1 {
            std::thread::sleep(PAUSE);
        }
        communicator.run(allreduce(elements)).unwrap();
        let (waited, used) = (start.0.elapsed(), processor_time() - start.1);
        println!("{elements} elements: {waited:?} passed, {used:?} used");
        // One percent of the time, and the time of the calls themselves.
        let most = if [ALONE, BY_CMA].contains(&&*communicator.transport().unwrap().text) {
            PAUSE / 100
        } else {
            PAUSE / 4
        };
        assert!(used < most + Duration::from_millis(10), "{used:?} of processor time in {waited:?}");
        assert!(waited < PAUSE + SLACK);
    }
}

/// Signals come all the time, and interrupt everything that can be interrupted.
fn interrupted(communicator: &Communicator) {
    extern "C" fn ignore(_: libc::c_int) {}
    let period = libc::timeval { tv_sec: 0, tv_usec: 2000 };
    // SAFETY: a handler that does nothing, and a timer.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut()), 0);
        let timer = libc::itimerval { it_interval: period, it_value: period };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()), 0);
    }
    for elements in [2, 1000, 1 << 20, 16 << 20] {
        let case = Case::new(2, Collective::Allreduce, ReduceOp::Sum, DType::I32, elements);
        case.check(communicator, &case.prepare()).unwrap();
    }
}

/// Makes the memory of rank 1 unreadable for the others, or theirs for it.
fn hide(rank: usize) {
    if rank != 1 {
        return;
    }
    // SAFETY: reads and sets what the process may do.
    #[allow(unsafe_code)]
    unsafe {
        if libc::geteuid() == 0 {
            // Root can read everybody's memory, but nobody else can read root's.
            assert_eq!(libc::setgid(65534) | libc::setuid(65534), 0);
        } else {
            assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 0), 0);
        }
    }
}

/// Makes the kernel refuse rank 1 the copies out of others' private memory, as containers do.
fn forbid(rank: usize) {
    if rank == 1 {
        refuse(libc::SYS_process_vm_readv, libc::EPERM);
    }
}

/// Makes the kernel refuse this process a system call from now on.
fn refuse(call: i64, error: i32) {
    let line = |code: u32, jt, jf, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut lines = [
        // The number of the system call, which comes first.
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, call as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_mut_ptr() };
    // SAFETY: the kernel copies the program.
    #[allow(unsafe_code)]
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

fn all_to_all(communicator: &Communicator) -> Request {
    const BLOCK: usize = 16 << 20;
    let memory = || Memory::zeroed(communicator.size() * BLOCK);
    Request::new(Operation::Collective(Collective::Alltoall), DType::U8, BLOCK, memory(), memory())
}

// ---- Processes ----

fn item_of<T: Copy>(list: &[T], rank: usize) -> T {
    *list.get(rank).or(list.last()).unwrap()
}

/// The body of every child. Does nothing if it runs as an ordinary test.
#[test]
#[ignore = "run by the other tests"]
fn child() {
    let Ok(value) = std::env::var(VARIABLE) else { return };
    let [name, rank, ranks, directory] = value.split('|').collect::<Vec<_>>()[..] else { panic!("{value}") };
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    let (rank, ranks) = (rank.parse().unwrap(), ranks.parse().unwrap());
    // The variables of the tests are not those of the runtime.
    let mut config = Config::from_env().unwrap();
    config.warnings.clear();
    (scenario.before)(rank);
    let store = Arc::new(FileStore::open(Path::new(directory)).unwrap());
    let options = Options { timeout: Some(SCENARIO_TIMEOUT / 2), ..Options::default() };
    let means = Means { config, options, ..Means::default() };
    let communicator = means.connect(means.time(), store, rank, ranks).unwrap();
    let (transport, expected) = (communicator.transport().unwrap().text, item_of(scenario.transport, rank));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    if [ALONE, BY_CMA].contains(&expected) {
        let as_cores_are = means.config.transport.within == Some(Within::Auto) && transport == BY_CMA;
        assert!(transport == expected || as_cores_are, "{transport}, not {expected}");
        assert!(!maps.contains("libucp"), "UCX was opened");
    } else {
        assert!(transport.starts_with(expected), "{transport}, not {expected}");
    }
    (scenario.body)(&communicator);
    println!("child finished");
}

/// Whether the kernel copies between processes of one parent; containers and Yama may forbid it.
fn may_copy() -> bool {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    let may_trace = u64::from_str_radix(capabilities, 16).unwrap() & 1 << 19 != 0;
    let mut byte = 0_u8;
    let part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: copies a byte to itself.
    #[allow(unsafe_code)]
    unsafe {
        (may_trace || ["", "0"].contains(&scope.trim()))
            && libc::process_vm_readv(libc::getpid(), &raw const part, 1, &raw const part, 1, 0) == 1
    }
}

fn run(name: &str) {
    // One group at a time: there may be only two cores.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
    if scenario.environment.concat().contains(&CMA[0][0]) && !may_copy() {
        return processes::say_skipped(name, "the kernel may not copy between processes");
    }
    if scenario.transport.iter().all(|transport| [self::ALONE, BY_CMA].contains(transport)) {
        return scenario.ranks.iter().for_each(|ranks| run_group(scenario, "none", *ranks));
    }
    // Any UCX will do here.
    match processes::libraries().into_iter().find_map(|(_, library)| library.ok()) {
        Some(library) => scenario.ranks.iter().for_each(|ranks| run_group(scenario, &library, *ranks)),
        None => processes::skip(name, "there is no UCX"),
    }
}

fn run_group(scenario: &Scenario, library: &str, ranks: usize) {
    let unique = format!("ringroad-shared-{}-{}-{}", std::process::id(), scenario.name, now().as_nanos());
    let directory = std::env::temp_dir().join(unique);
    let (store, temporary) = (directory.join("store"), directory.join("tmp"));
    for directory in [&directory, &store, &temporary] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(directory).unwrap();
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let start = |rank: usize| {
        let mut child = processes::child();
        child.env("TMPDIR", &temporary);
        match library {
            // A UCX that cannot be loaded, although one would be found otherwise.
            "none" => child.env("RINGROAD_UCX_LIBRARY", "/nowhere/libucp.so.0"),
            "system" => child.env("UCX_TLS", "tcp,self"),
            library => child.env("RINGROAD_UCX_LIBRARY", library).env("UCX_TLS", "tcp,self"),
        };
        child.envs(item_of(scenario.environment, rank).iter().copied());
        child.env(VARIABLE, format!("{}|{rank}|{ranks}|{}", scenario.name, store.display()));
        child
    };
    let ended = processes::run((0..ranks).map(start).collect(), 3 * SCENARIO_TIMEOUT);
    let left = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    };
    let files = left(&temporary);
    let shared: Vec<_> = left(Path::new("/dev/shm")).into_iter().filter(|n| n.contains("ringroad")).collect();
    let _ = std::fs::remove_dir_all(&directory);
    let case = format!("{}, {ranks} ranks", scenario.name);
    println!("== {case}");
    ended.iter().for_each(|(_, output)| print!("{output}"));
    for (rank, (finished, _)) in ended.iter().enumerate() {
        assert_eq!(*finished, scenario.dies != Some(rank), "{case}: whether rank {rank} finished");
    }
    let said = ended.iter().any(|(_, output)| output.contains(scenario.says));
    assert!(said, "{case}: nobody says {:?}", scenario.says);
    assert!(files.is_empty() && shared.is_empty(), "{case} left {files:?} and {shared:?}");
}

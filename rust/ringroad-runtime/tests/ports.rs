//! Communicators over UCX whose ports are several network devices (`RINGROAD_NET_DEVICES=per-port:...`), between real processes: this
//! binary again, with a scenario's name in the environment, over the installed UCX, over shared memory and tcp. All
//! devices are the loopback interface, which several contexts can share. They act as rails, or as the cables of a
//! ring or torus. Every wait is bounded.

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::processes::{self, now, processor_time, useless, SLACK};
use common::{allreduce, Case};
use ringroad_core::{algorithms, Collective};
use ringroad_runtime::bootstrap::FileStore;
use ringroad_runtime::communicator::Means;
use ringroad_runtime::config::Config;
use ringroad_runtime::{Communicator, DType, Error, Memory, Operation, Options, ReduceOp, Request};

const VARIABLE: &str = "RINGROAD_TEST_PORTS_CHILD";
/// More time than any scenario takes on the slowest machine.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(60);
/// UCX's transports.
const MEANS: [&str; 2] = ["posix,cma,self,tcp", "tcp,self"];

struct Scenario {
    name: &'static str,
    body: fn(&Communicator),
    ranks: &'static [usize],
    /// The ports of each rank; further ranks have those of the last one.
    ports: &'static [&'static str],
    /// `RINGROAD_TOPOLOGY`; N stands for the number of ranks.
    topology: &'static str,
    /// Whether the ports are described as cabled.
    cabled: bool,
    /// The rank that is killed.
    dies: Option<usize>,
    /// The error if the communicator cannot be made.
    refused: Option<&'static str>,
}

const fn scenario(name: &'static str, ranks: &'static [usize], body: fn(&Communicator)) -> Scenario {
    let (topology, cabled) = ("switch:N", false);
    Scenario { name, body, ranks, ports: &["lo,lo"], topology, cabled, dies: None, refused: None }
}

const fn on_ring(name: &'static str, ranks: &'static [usize], body: fn(&Communicator)) -> Scenario {
    Scenario { topology: "ring:N", cabled: true, ..scenario(name, ranks, body) }
}

const fn on_torus(name: &'static str, body: fn(&Communicator)) -> Scenario {
    Scenario { ports: &["lo,lo,lo,lo"], topology: "torus:2x2", ..on_ring(name, &[4], body) }
}

const fn refused(name: &'static str, ports: &'static [&'static str], how: &'static str) -> Scenario {
    Scenario { ports, refused: Some(how), ..scenario(name, &[3], |_| unreachable!("it was made")) }
}

const SCENARIOS: &[Scenario] = &[
    scenario("collectives", &[2, 4], collectives),
    Scenario { ports: &["lo, lo ,lo"], ..scenario("three_ports", &[3], collectives) },
    Scenario { ports: &["lo,lo,lo"], cabled: false, ..on_ring("odd_on_ring", &[3], collectives) },
    on_ring("collectives_on_ring", &[2, 4], collectives),
    on_torus("collectives_on_torus", collectives),
    // Both dimensions share the devices.
    Scenario { ports: &["lo,lo"], ..on_torus("two_ports_on_torus", collectives) },
    Scenario { dies: Some(2), ..scenario("killed", &[3], killed) },
    Scenario { dies: Some(2), ..on_ring("killed_on_ring", &[3], killed) },
    Scenario { dies: Some(2), ..on_torus("killed_on_torus", killed) },
    Scenario { dies: Some(2), ..scenario("killed_at_once", &[3], killed_at_once) },
    Scenario { dies: Some(2), ..on_ring("killed_at_once_on_ring", &[3], killed_at_once) },
    scenario("late", &[3], late),
    on_ring("late_on_ring", &[3], late),
    on_torus("late_on_torus", late),
    scenario("different_calls", &[3], different_calls),
    on_ring("different_calls_on_ring", &[3], different_calls),
    scenario("aborted", &[3], aborted),
    on_ring("aborted_on_ring", &[3], aborted),
    scenario("idle", &[2], idle),
    on_ring("idle_on_ring", &[2], idle),
    refused(
        "different_numbers",
        &["lo", "lo,lo"],
        "the ranks have different numbers of ports: 1 on rank 0, 2 on ranks 1, 2; name equally many devices in RINGROAD_NET_DEVICES=per-port:... on all",
    ),
    refused("unknown_device", &["lo,nonesuch0"], "ucx: RINGROAD_NET_DEVICES names \"nonesuch0\", which is not a "),
    // UCX has words for devices that are no names.
    refused("no_name", &["all"], "ucx: RINGROAD_NET_DEVICES names \"all\", which is not a "),
];

macro_rules! tests {
    ($($name:ident)*) => { $(#[test] fn $name() { run(stringify!($name)); })* };
}

mod processes_with_ports {
    use super::run;
    tests! {
        collectives three_ports odd_on_ring collectives_on_ring collectives_on_torus two_ports_on_torus
        killed killed_on_ring killed_on_torus killed_at_once killed_at_once_on_ring
        late late_on_ring late_on_torus different_calls different_calls_on_ring aborted aborted_on_ring
        idle idle_on_ring different_numbers unknown_device no_name
    }
}

// ---- What the ranks do ----

/// Every collective with every algorithm, of which some use two ports.
fn collectives(communicator: &Communicator) {
    let (rank, ranks) = (communicator.rank(), communicator.size());
    let topology = communicator.choices().topology;
    for (number, collective) in Collective::ALL.into_iter().enumerate() {
        let collective = collective.with_root(number % ranks);
        let members = algorithms::available(&topology, collective).into_iter().map(Some);
        for (turn, algorithm) in std::iter::once(None).chain(members).enumerate() {
            let vectors = [(0, DType::I32), (1000, DType::I64), (1, DType::F32), (70_001, DType::F32)];
            // Half of them for each algorithm, in turn.
            for &(elements, dtype) in vectors.iter().skip(turn % 2).step_by(2) {
                let case = Case {
                    algorithm,
                    seed: elements as u64,
                    ..Case::new(ranks, collective, ReduceOp::Sum, dtype, elements)
                };
                case.check(communicator, &case.prepare()).unwrap();
            }
        }
    }
    // The last messages arrive even though their sender leaves.
    let message = |operation, input, output| Request::new(operation, DType::U8, 1 << 20, input, output);
    let (up, down) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    for (to, from) in [(up, down), (down, up)] {
        let bytes = Memory::from_slice(&vec![7u8; 1 << 20]);
        let sent = message(Operation::Send { peer: to, tag: 5 }, bytes, Memory::nothing());
        let work = communicator.start(sent).unwrap();
        let receive = Operation::Receive { peer: from, tag: 5 };
        let received = message(receive, Memory::nothing(), Memory::zeroed(1 << 20));
        assert!(communicator.run(received).unwrap().to_vec::<u8>() == vec![7; 1 << 20]);
        work.wait().unwrap();
    }
    println!("rank {rank}: {}", communicator.transport().unwrap());
    let start = Instant::now();
    communicator.close();
    println!("rank {rank}: closed in {:?}", start.elapsed());
}

fn killed(communicator: &Communicator) {
    killed_in_round(communicator, 20);
}

/// A rank is killed before the second device has carried anything.
fn killed_at_once(communicator: &Communicator) {
    killed_in_round(communicator, 0);
}

fn killed_in_round(communicator: &Communicator, last: usize) {
    for round in 0.. {
        if communicator.rank() == 2 && round == last {
            processes::die();
        }
        let start = Instant::now();
        match communicator.run(by_two_ports(100_000)) {
            Ok(_) => continue,
            Err(Error::Peer { rank: 2, message }) => println!("after {:?}: {message}", start.elapsed()),
            Err(error) => panic!("{error}"),
        }
        assert!(start.elapsed() < SLACK);
        return useless(communicator);
    }
}

fn different_calls(communicator: &Communicator) {
    let elements = if communicator.rank() == 0 { 3 } else { 4 };
    // Some ranks may be notified in the first call or after it, but none while connecting.
    let first = communicator.run(by_two_ports(100_000));
    let error = first.and_then(|_| communicator.run(by_two_ports(elements))).unwrap_err();
    assert!(error.to_string().contains("ranks made different calls as number 2"), "{error:?}");
    useless(communicator);
}

fn late(communicator: &Communicator) {
    processes::late(communicator, by_two_ports(100_000));
}

fn aborted(communicator: &Communicator) {
    processes::aborted(communicator, || by_two_ports(100_000));
}

/// A rank that waits blocks, and is woken by every device.
fn idle(communicator: &Communicator) {
    const PAUSE: Duration = Duration::from_secs(1);
    for round in 0..3 {
        let start = (Instant::now(), processor_time());
        if communicator.rank() == 1 {
            std::thread::sleep(PAUSE);
        }
        // In the first round only a barrier is called, and the second device has carried nothing.
        let request = if round == 0 { Request::barrier() } else { by_two_ports(8) };
        communicator.run(request).unwrap();
        let (waited, used) = (start.0.elapsed(), processor_time() - start.1);
        println!("round {round}: {waited:?} passed, {used:?} used");
        assert!(used < PAUSE / 4, "round {round}: {used:?} of processor time in {waited:?}");
        assert!(waited < PAUSE + SLACK);
    }
}

/// An allreduce that sends in both directions, each by its own port.
fn by_two_ports(elements: usize) -> Request {
    allreduce(elements).by(algorithms::find("bidirectional-ring").unwrap())
}

// ---- Processes ----

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
    let store = Arc::new(FileStore::open(Path::new(directory)).unwrap());
    let options = Options { timeout: Some(SCENARIO_TIMEOUT / 2), ..Options::default() };
    let means = Means { config, options, ..Means::default() };
    let made = means.connect(means.time(), store, rank, ranks);
    match (made, scenario.refused) {
        (Ok(communicator), None) => {
            let (cabled, ports) =
                (if scenario.cabled { "cabled " } else { "" }, means.config.devices_of_ports().join(", "));
            assert!(communicator.transport().unwrap().text.ends_with(&format!("; {cabled}ports {ports})")));
            (scenario.body)(&communicator);
        }
        (Err(error), Some(how)) => {
            println!("{error}");
            assert!(error.to_string().starts_with(how), "{error}");
        }
        (made, _) => panic!("{:?}", made.err()),
    }
    println!("child finished");
}

fn run(name: &str) {
    // One group at a time: there may be only two cores.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let index = SCENARIOS.iter().position(|scenario| scenario.name == name).unwrap();
    let scenario = &SCENARIOS[index];
    for (number, tls) in MEANS.into_iter().enumerate() {
        // Means and libraries take turns.
        if number != index % 2 && !processes::full() {
            continue;
        }
        for (ucx, library) in processes::libraries_for(number + index / 2) {
            match &library {
                Ok(library) => {
                    scenario.ranks.iter().for_each(|ranks| run_group(scenario, ucx, library, tls, *ranks))
                }
                Err(reason) => processes::skip(&format!("{name} ({ucx}, {tls})"), reason),
            }
        }
    }
}

fn run_group(scenario: &Scenario, ucx: &str, library: &str, tls: &str, ranks: usize) {
    let unique = format!("ringroad-ports-{}-{}-{}", std::process::id(), scenario.name, now().as_nanos());
    let directory = std::env::temp_dir().join(unique);
    std::fs::create_dir_all(&directory).unwrap();
    let start = |rank: usize| {
        let mut child = processes::child();
        let ports = scenario.ports.get(rank).or(scenario.ports.last()).unwrap();
        let topology = scenario.topology.replace('N', &ranks.to_string());
        child.env("RINGROAD_TRANSPORT", "ucx").env("UCX_TLS", tls);
        child.env("RINGROAD_NET_DEVICES", format!("per-port:{ports}")).env("RINGROAD_TOPOLOGY", topology);
        if library != "system" {
            child.env("RINGROAD_UCX_LIBRARY", library);
        }
        child.env(VARIABLE, format!("{}|{rank}|{ranks}|{}", scenario.name, directory.display()));
        child
    };
    let ended = processes::run((0..ranks).map(start).collect(), SCENARIO_TIMEOUT);
    let _ = std::fs::remove_dir_all(&directory);
    let case = format!("{}, {ucx}, {tls}, {ranks} ranks", scenario.name);
    println!("== {case}");
    ended.iter().for_each(|(_, output)| print!("{output}"));
    for (rank, (finished, _)) in ended.iter().enumerate() {
        assert_eq!(*finished, scenario.dies != Some(rank), "{case}: whether rank {rank} finished");
    }
}

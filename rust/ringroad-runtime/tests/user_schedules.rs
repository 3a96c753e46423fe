//! Schedules of the user's own: read from files, chosen by rank 0, sent to all, and run like those of the catalogue.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{config, each, patient, watch, Case, Means};
use ringroad_core::algorithms::{available, find, given};
use ringroad_core::interchange::msccl;
use ringroad_core::schedule::{ChunkSet, Send};
use ringroad_core::{Action, Collective, Schedule, Topology};
use ringroad_runtime::choice::user_schedules::{read, read_all};
use ringroad_runtime::config::Config;
use ringroad_runtime::{Communicator, DType, Options, ReduceOp};

const RANKS: usize = 4;

/// An allreduce of two chunks: each is added up at one rank, which sends the sum to all.
fn by_two_ranks(name: &str) -> Schedule {
    let mut schedule = Schedule::empty(name, Collective::Allreduce, RANKS, 2);
    let all = |make: &dyn Fn(usize, usize, usize) -> Send| -> Vec<Send> {
        let pairs = (0..2).flat_map(|chunk| (0..RANKS).map(move |rank| (chunk, rank)));
        pairs.filter(|(chunk, rank)| chunk != rank).map(|(chunk, rank)| make(chunk, chunk, rank)).collect()
    };
    let send = |source, destination, chunk, action| Send {
        source,
        destination,
        chunks: ChunkSet::from_iter([chunk]),
        action,
        port: 0,
        from: 0,
        into: 0,
    };
    schedule.push(all(&|chunk, root, rank| send(rank, root, chunk, Action::Reduce)));
    schedule.push(all(&|chunk, root, rank| send(root, rank, chunk, Action::Copy)));
    schedule
}

/// A directory that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ringroad-given-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set(name: &str, value: &Path) -> Config {
    Config::read([(name.to_owned(), value.display().to_string())]).unwrap()
}

fn start(config: &Config, algorithm: Option<String>) -> Result<Vec<Communicator>, String> {
    let topology = Some(Topology::parse("switch:4").unwrap());
    let options = Options { topology, algorithm, ..patient() };
    Communicator::over(Means::Mailboxes(0).transports(RANKS), config, &options).map_err(|e| e.to_string())
}

/// Every rank gets the right result, by this algorithm.
fn check(group: &[Communicator], algorithm: &str) {
    for (op, dtype) in [(ReduceOp::Sum, DType::F32), (ReduceOp::Max, DType::I64)] {
        for elements in [1, 2, 1001] {
            let case = Case::new(RANKS, Collective::Allreduce, op, dtype, elements);
            let prepared = case.prepare();
            let results = each(group, |communicator| case.check(communicator, &prepared).unwrap());
            assert!(results.iter().all(|result| *result == results[0]));
            let bytes = (elements * dtype.size()) as u64;
            let chosen = group[RANKS - 1].algorithm_for(Collective::Allreduce, bytes, op, dtype).unwrap();
            assert_eq!(chosen, algorithm);
        }
    }
}

#[test]
fn a_named_file_is_what_runs() {
    let _watch = watch();
    let folder = Folder::new("named");
    let schedule = by_two_ranks("named");
    let path = folder.write("named.json", &schedule.to_json());
    let member = read(&path).unwrap();
    assert_eq!(member.name(), format!("given:{}", &schedule.digest()[..12]));
    assert_eq!((find(&member.name()).unwrap(), given::schedule(member).unwrap()), (member, schedule.into()));
    // The contents say the format.
    let program = msccl::write(&given::schedule(member).unwrap()).unwrap();
    let as_program = given::schedule(read(&folder.write("program.json", &program)).unwrap()).unwrap();
    assert_eq!((as_program.ranks, &as_program.name[..]), (RANKS, "named"));
    for text in [format!("allreduce:file:{}", path.display()), format!("file:{}", path.display())] {
        check(&start(&config(), Some(text)).unwrap(), &member.name());
    }
    check(
        &start(&set("RINGROAD_ALGO", Path::new(&format!("file:{}", path.display()))), None).unwrap(),
        &member.name(),
    );
    // A call that names it, of a communicator that does not know it.
    let group = start(&config(), None).unwrap();
    let case = Case::new(RANKS, Collective::Allreduce, ReduceOp::Sum, DType::I32, 777).by(&member.name());
    let prepared = case.prepare();
    each(&group, |communicator| case.check(communicator, &prepared).unwrap());
    let wrong = Case::new(RANKS, Collective::Allgather, ReduceOp::Sum, DType::I32, 7).by(&member.name());
    let prepared = wrong.prepare();
    for result in each(&group, |communicator| wrong.check(communicator, &prepared)) {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("it is a schedule of allreduce over 4 ranks"), "{error}");
    }
    // The communicator can still be used.
    let case = Case::new(RANKS, Collective::Allgather, ReduceOp::Sum, DType::I32, 7);
    let prepared = case.prepare();
    each(&group, |communicator| case.check(communicator, &prepared).unwrap());
}

#[test]
fn those_of_a_directory_compete() {
    let _watch = watch();
    let folder = Folder::new("compete");
    let good = by_two_ranks("compete");
    folder.write("a.json", &good.to_json());
    folder.write("notes.txt", "no schedule");
    let slow = Schedule {
        name: "slow".to_owned(),
        ..find("ring").unwrap().build(&Topology::ring(4).unwrap(), Collective::Allreduce).unwrap()
    };
    folder.write("b.json", &slow.to_json());
    let other =
        Schedule { ranks: 5, ..Schedule::empty("for other ranks", Collective::Broadcast { root: 1 }, 1, 1) };
    assert!(other.verify().is_err());
    let members = read_all(&folder.0).unwrap();
    assert_eq!(members.len(), 2);
    let config = set("RINGROAD_SCHEDULES", &folder.0);
    let group = start(&config, None).unwrap();
    let found = group[0].explain(Collective::Allreduce, 1 << 20, ReduceOp::Sum, DType::F32).unwrap();
    let named = |name: &str| found.candidates.iter().any(|row| row.algorithm.name() == name);
    assert!(members.iter().all(|member| named(&member.name())) && named("ring"), "{found:?}");
    // No other may be used, so that one of them is chosen.
    let topology = Topology::parse("switch:4").unwrap();
    let others: Vec<String> = available(&topology, Collective::Allreduce).iter().map(|m| m.name()).collect();
    let only = format!("allreduce:^{}", others.join(","));
    let group = start(&config, Some(only)).unwrap();
    check(&group, &members[0].name());
}

/// The error names the file, and what is wrong with the schedule.
#[test]
fn a_wrong_file_is_refused() {
    let folder = Folder::new("wrong");
    let right = by_two_ranks("wrong");
    let with = |change: &dyn Fn(&mut Schedule)| {
        let mut schedule = right.clone();
        change(&mut schedule);
        schedule.to_json()
    };
    let rooted =
        find("binomial").unwrap().build(&Topology::ring(4).unwrap(), Collective::Broadcast { root: 2 });
    let cases = [
        (with(&|s| drop(s.steps[1].sends.pop())), "chunk 1 of rank 3 lacks the contribution of rank 0"),
        (with(&|s| s.steps[0].sends[0].action = Action::Copy), "chunk 0"),
        (with(&|s| s.steps[0].sends.push(right.steps[0].sends[0].clone())), "a second time"),
        (with(&|s| s.steps[0].sends[0].chunks = ChunkSet::from_iter([7])), "malformed"),
        (with(&|s| s.chunks = usize::MAX), "malformed"),
        ("{}".to_owned(), "not a schedule"),
        (right.to_json()[..100].to_owned(), "not a schedule"),
        (rooted.unwrap().to_json(), "rank 2 as its root"),
    ];
    for (number, (text, expected)) in cases.into_iter().enumerate() {
        let path = folder.write(&format!("{number}.json"), &text);
        for algorithm in [format!("file:{}", path.display()), format!("ring,file:{}", path.display())] {
            let error = start(&config(), Some(algorithm)).err().unwrap();
            assert!(error.contains(expected), "{number}: {error}");
            assert!(error.contains("wrong/") || expected.contains("root"), "{number}: {error}");
        }
        let error = start(&set("RINGROAD_SCHEDULES", &folder.0), None).err().unwrap();
        assert!(error.contains(expected), "{number}: {error}");
        fs::remove_file(path).unwrap();
    }
    for (config, algorithm, expected) in [
        (set("RINGROAD_SCHEDULES", &folder.0.join("missing")), None, "RINGROAD_SCHEDULES="),
        (config(), Some("file:missing.json".to_owned()), "missing.json cannot be used"),
        (config(), Some("given:0123456789ab".to_owned()), "this process has not read it"),
        (config(), Some("given".to_owned()), "this process has not read it"),
        (config(), Some("^file:a.json".to_owned()), "should name a file to use"),
        (
            config(),
            Some(format!("broadcast:file:{}", folder.write("a.json", &right.to_json()).display())),
            "is a schedule of allreduce, not of broadcast",
        ),
    ] {
        let error = start(&config, algorithm).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    let large = folder.write("large.json", "");
    fs::File::options().write(true).open(&large).unwrap().set_len(1 << 40).unwrap();
    assert!(read(&large).unwrap_err().to_string().contains("it has more than"));
}

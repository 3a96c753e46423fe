//! Files for other programs, as these would read them.

// Only `Random` is used here.
#[allow(dead_code)]
#[path = "../../ringroad-core/tests/common/mod.rs"]
mod common;

use std::collections::HashMap;

use common::Random;
use ringroad_core::algorithms::find;
use ringroad_core::cost::CostModel;
use ringroad_core::simulate::{Scenario, Simulator};
use ringroad_core::{Collective, Rank, Schedule, Topology};
use ringroad_lab::formats::{chakra, goal, mscclpp};
use serde_json::Value;

fn schedule(algorithm: &str, spec: &str, collective: Collective) -> Schedule {
    find(algorithm).unwrap().build(&Topology::parse(spec).unwrap(), collective).unwrap()
}

// ------------------------------------------------------------------------------------------------ MSCCL++

/// A plan that runs as MSCCL++'s executor would, in a random order.
struct Executor<'a> {
    gpus: &'a [Value],
    memory: HashMap<(Rank, String, usize), u64>,
    /// For each rank, thread block: the next operation.
    next: Vec<Vec<usize>>,
    signals: HashMap<(Rank, usize), u64>,
    semaphores: HashMap<(Rank, usize), u64>,
}

fn index(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn list(value: &Value) -> Vec<usize> {
    value.as_array().map_or(Vec::new(), |all| all.iter().map(index).collect())
}

impl Executor<'_> {
    fn peers(&self, rank: Rank) -> Vec<Rank> {
        list(&self.gpus[rank]["channels"][0]["connected_to"])
    }

    /// The rank and the number of the channel at the other end.
    fn other_end(&self, rank: Rank, channel: usize) -> (Rank, usize) {
        let peers = self.peers(rank);
        let (peer, nth) = (peers[channel], peers[..channel].iter().filter(|p| **p == peers[channel]).count());
        let theirs = self.peers(peer);
        let mut ends = (0..theirs.len()).filter(|channel| theirs[*channel] == rank);
        (peer, ends.nth(nth).expect("channels come in pairs"))
    }

    fn run(&mut self, in_place: bool, random: &mut Random) {
        loop {
            let blocks =
                self.next.iter().enumerate().flat_map(|(rank, next)| (0..next.len()).map(move |b| (rank, b)));
            let ready: Vec<(Rank, usize)> =
                blocks.filter(|(rank, block)| self.is_ready(*rank, *block)).collect();
            if ready.is_empty() {
                break;
            }
            let (rank, block) = random.pick(&ready);
            self.step(rank, block, in_place);
        }
        for (rank, next) in self.next.iter().enumerate() {
            for (block, next) in next.iter().enumerate() {
                let ops = self.gpus[rank]["threadblocks"][block]["ops"].as_array().unwrap();
                assert_eq!(*next, ops.len(), "rank {rank} waits in thread block {block}: {}", ops[*next]);
            }
        }
        assert!(self.signals.values().chain(self.semaphores.values()).all(|count| *count == 0));
    }

    fn operation(&self, rank: Rank, block: usize) -> Option<&Value> {
        self.gpus[rank]["threadblocks"][block]["ops"].get(self.next[rank][block])
    }

    fn channels(&self, rank: Rank, block: usize, operation: &Value) -> Vec<usize> {
        let own = list(&self.gpus[rank]["threadblocks"][block]["channels"][0]["channel_ids"]);
        assert!(own.len() <= 16);
        list(&operation["channel_ids"]).into_iter().map(|id| own[id]).collect()
    }

    fn is_ready(&self, rank: Rank, block: usize) -> bool {
        let Some(operation) = self.operation(rank, block) else { return false };
        let has = |counts: &HashMap<(Rank, usize), u64>, id| {
            counts.get(&(rank, id)).is_some_and(|count| *count > 0)
        };
        match operation["name"].as_str().unwrap() {
            "wait" => self.channels(rank, block, operation).into_iter().all(|id| has(&self.signals, id)),
            "sem_acquire" => {
                list(&operation["semaphore_ids"]).into_iter().all(|id| has(&self.semaphores, id))
            }
            _ => true,
        }
    }

    fn step(&mut self, rank: Rank, block: usize, in_place: bool) {
        let operation = self.operation(rank, block).unwrap().clone();
        self.next[rank][block] += 1;
        let place = |rank: Rank, part: &Value, piece: usize| {
            let buffer = part["type"].as_str().unwrap();
            let buffer = if in_place && buffer == "o" { "i" } else { buffer };
            (rank, buffer.to_owned(), index(&part["index"]) + piece)
        };
        let size = |part: &Value| index(&part["size"]);
        match operation["name"].as_str().unwrap() {
            "nop" => {}
            "signal" => {
                for channel in self.channels(rank, block, &operation) {
                    *self.signals.entry(self.other_end(rank, channel)).or_default() += 1;
                }
            }
            "wait" => {
                for channel in self.channels(rank, block, &operation) {
                    *self.signals.get_mut(&(rank, channel)).unwrap() -= 1;
                }
            }
            "sem_release" => {
                list(&operation["semaphore_ids"])
                    .into_iter()
                    .for_each(|id| *self.semaphores.entry((rank, id)).or_default() += 1);
            }
            "sem_acquire" => {
                list(&operation["semaphore_ids"])
                    .into_iter()
                    .for_each(|id| *self.semaphores.get_mut(&(rank, id)).unwrap() -= 1);
            }
            "put" => {
                let (source, target) = (&operation["src_buff"][0], &operation["dst_buff"][0]);
                let refs = list(
                    &self.gpus[rank]["threadblocks"][block]["remote_buffer_refs"][0]["remote_buffer_ids"],
                );
                let remote = &self.gpus[rank]["remote_buffers"][refs[index(&target["buffer_id"])]];
                let (peer, channel) = (index(&remote["rank"]), self.channels(rank, block, &operation)[0]);
                assert_eq!(peer, self.other_end(rank, channel).0);
                let mut there = target.clone();
                there["type"] = remote["type"].clone();
                for piece in 0..size(source) {
                    let value = self.memory[&place(rank, source, piece)];
                    self.memory.insert(place(peer, &there, piece), value);
                }
            }
            "copy" | "re" => {
                let (sources, target) =
                    (operation["src_buff"].as_array().unwrap(), &operation["dst_buff"][0]);
                for piece in 0..size(target) {
                    let values = sources.iter().map(|source| self.memory[&place(rank, source, piece)]);
                    let sum = values.fold(0u64, u64::wrapping_add);
                    self.memory.insert(place(rank, target, piece), sum);
                }
            }
            other => panic!("{other}"),
        }
    }
}

/// Runs plans of schedules of all kinds in random orders.
#[test]
fn execution_plans() {
    let mut random = Random(8);
    for (algorithm, spec, collective) in [
        ("ring", "ring:8", Collective::Allgather),
        ("ring", "ring:12", Collective::Allreduce),
        ("swing", "torus:4x4", Collective::Allreduce),
        ("swing", "torus:4x4", Collective::Allgather),
        ("recursive-doubling", "ring:8", Collective::Allreduce),
        ("trivance-latency", "ring:7", Collective::Allreduce),
        ("direct", "switch:8", Collective::Allreduce),
        ("direct", "switch:8", Collective::Alltoall),
        ("bfb", "petersen", Collective::ReduceScatter),
        ("bruck", "ring:5", Collective::Allgather),
    ] {
        let about = format!("{algorithm} on {spec}");
        let schedule = schedule(algorithm, spec, collective);
        let text = mscclpp::write(&schedule).unwrap_or_else(|error| panic!("{about}: {error}"));
        let plan: Value = serde_json::from_str(&text).unwrap();
        let (ranks, chunks) = (schedule.ranks, schedule.chunks);
        let per_block = chunks / collective.blocks(ranks);
        let vector = schedule.chunks_per_vector();
        let in_place = plan["inplace"].as_bool().unwrap();
        assert_eq!(in_place, collective != Collective::Alltoall);
        let gpus = plan["gpus"].as_array().unwrap();
        let blocks = |gpu: &Value| gpu["threadblocks"].as_array().unwrap().len();
        for gpu in gpus {
            assert_eq!(gpu["semaphores"].as_array().unwrap().len() + 1, blocks(gpu));
            for block in gpu["threadblocks"].as_array().unwrap() {
                assert!(block["ops"].as_array().unwrap().len() <= 64);
            }
        }
        let value =
            |rank: Rank, place: usize| ((rank as u64 + 1) * 0x1_0000_0001) ^ ((place as u64 + 1) << 20);
        for _ in 0..3 {
            let mut memory = HashMap::new();
            for (rank, place) in (0..ranks).flat_map(|rank| (0..vector).map(move |place| (rank, place))) {
                let held = collective != Collective::Allgather || place / per_block == rank;
                if held {
                    memory.insert((rank, "i".to_owned(), place), value(rank, place));
                }
            }
            let next = gpus.iter().map(|gpu| vec![0; blocks(gpu)]).collect();
            let mut executor =
                Executor { gpus, memory, next, signals: HashMap::new(), semaphores: HashMap::new() };
            executor.run(in_place, &mut random);
            let output = if in_place { "i" } else { "o" };
            let sum = |place| (0..ranks).fold(0u64, |sum, rank| sum.wrapping_add(value(rank, place)));
            for (rank, place) in (0..ranks).flat_map(|rank| (0..vector).map(move |place| (rank, place))) {
                let expected = match collective {
                    Collective::Allreduce => sum(place),
                    Collective::ReduceScatter if place / per_block != rank => continue,
                    Collective::ReduceScatter => sum(place),
                    Collective::Allgather => value(place / per_block, place),
                    _ => value(place / per_block, rank * per_block + place % per_block),
                };
                assert_eq!(
                    executor.memory[&(rank, output.to_owned(), place)],
                    expected,
                    "{about}: rank {rank}, chunk {place}"
                );
            }
        }
    }
}

#[test]
fn plans_that_cannot_be_written() {
    let check = |schedule: Schedule, expected: &str| {
        let error = mscclpp::write(&schedule).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    mscclpp::write(&schedule("ring", "ring:64", Collective::Allreduce)).unwrap();
    check(schedule("ring", "ring:128", Collective::Allreduce), "thread blocks in turn, of at most 17");
    check(schedule("direct", "switch:32", Collective::Allgather), "has 31 peers");
    check(
        schedule("binomial", "ring:4", Collective::Broadcast { root: 3 }),
        "there is no collective broadcast",
    );
}

// ------------------------------------------------------------------------------------------------ simulators

#[test]
fn goal_files() {
    let model = CostModel { reduce_cost: 1e-9, ..CostModel::default() };
    let simulator = Simulator { model, ..Simulator::default() };
    let ring = schedule("ring", "ring:2", Collective::Allreduce);
    insta::assert_snapshot!(goal::write(&ring, 1000, &simulator).unwrap(), @r"
    num_ranks 2

    rank 0 {
    l0: send 500b to 1 tag 0
    l1: recv 500b from 1 tag 0
    l2: calc 500
    l2 requires l1
    l3: send 500b to 1 tag 1
    l3 requires l2
    l4: recv 500b from 1 tag 1
    }

    rank 1 {
    l0: send 500b to 0 tag 0
    l1: recv 500b from 0 tag 0
    l2: calc 500
    l2 requires l1
    l3: send 500b to 0 tag 1
    l3 requires l2
    l4: recv 500b from 0 tag 1
    }
    ");
    let alltoall = schedule("direct", "ring:3", Collective::Alltoall);
    assert!(goal::write(&alltoall, 1000, &simulator).unwrap_err().to_string().contains("not divisible by 3"));
    let wrong = Schedule { steps: Vec::new(), ..ring };
    assert!(goal::write(&wrong, 8, &simulator).unwrap_err().to_string().contains("lacks the contribution"));
}

/// A protobuf message, decoded: for each field, numbers and bytes.
fn decode(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let number = varint(&mut bytes);
        match key & 7 {
            0 => fields.push((key >> 3, number, Vec::new())),
            2 => {
                let (content, rest) = bytes.split_at(number as usize);
                bytes = rest;
                fields.push((key >> 3, 0, content.to_vec()));
            }
            other => panic!("{other}"),
        }
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
    let (own, rest) = bytes.split_at(end + 1);
    *bytes = rest;
    own.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}

/// A trace has the messages that the simulator counts, at both ends, and every node waits for nodes before it.
#[test]
fn chakra_traces() {
    let simulator = Simulator::default();
    for (algorithm, spec, collective) in [
        ("ring", "ring:4", Collective::Allreduce),
        ("swing", "torus:4x4", Collective::Allreduce),
        ("bfb", "petersen", Collective::Allgather),
        ("trivance-latency", "ring:5", Collective::Allreduce),
    ] {
        let schedule = schedule(algorithm, spec, collective);
        let network = Topology::parse(spec).unwrap();
        let outcome = simulator.run(&schedule, &network, 1 << 20, &Scenario::default()).unwrap();
        let files = chakra::write(&schedule, 1 << 20, &simulator).unwrap();
        let mut messages: HashMap<Vec<(String, u64)>, [usize; 2]> = HashMap::new();
        for file in &files {
            let mut rest = &file[..];
            let mut known = 0;
            let length = varint(&mut rest) as usize;
            assert_eq!(decode(&rest[..length]), [(1, 0, b"1.0.0".to_vec())]);
            rest = &rest[length..];
            while !rest.is_empty() {
                let length = varint(&mut rest) as usize;
                let node = decode(&rest[..length]);
                rest = &rest[length..];
                let number = |field| node.iter().find(|f| f.0 == field).map_or(0, |f| f.1);
                assert_eq!(number(1), known);
                for (_, _, waits) in node.iter().filter(|f| f.0 == 5) {
                    let mut waits = &waits[..];
                    while !waits.is_empty() {
                        assert!(varint(&mut waits) < known);
                    }
                }
                known += 1;
                let attribute = |bytes: &[u8]| {
                    let fields = decode(bytes);
                    (String::from_utf8(fields[0].2.clone()).unwrap(), fields[1].1)
                };
                let attributes = node.iter().filter(|f| f.0 == 10).map(|f| attribute(&f.2)).collect();
                match number(3) {
                    4 => {}
                    kind @ (5 | 6) => messages.entry(attributes).or_default()[kind as usize - 5] += 1,
                    other => panic!("{other}"),
                }
            }
        }
        assert!(messages.values().all(|ends| *ends == [1, 1]));
        assert_eq!(messages.len(), outcome.messages, "{algorithm} on {spec}");
    }
}

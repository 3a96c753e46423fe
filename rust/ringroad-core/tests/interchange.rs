//! Schedules in other programs' formats: what is written is read back equal, runs in any order that the format allows,
//! and what is wrong is refused. By default on small networks; `RINGROAD_TEST_FULL=1` tests on more than 40.

// Only some parts are used here.
#[allow(dead_code)]
mod common;
#[path = "common/members.rs"]
mod members;

use std::collections::{BTreeMap, HashMap, VecDeque};

use common::Random;
use members::brief_members;
use quick_xml::events::{BytesStart, Event};
use quick_xml::Reader;
use ringroad_core::algorithms::{catalogue, find};
use ringroad_core::interchange::{msccl, InterchangeError};
use ringroad_core::{Collective, Rank, Schedule, Slot, Topology};

fn topology(spec: &str) -> Topology {
    Topology::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// Networks for every algorithm; more than 40 with `RINGROAD_TEST_FULL=1`.
fn networks() -> Vec<Topology> {
    let small = ["ring:1", "ring:4", "ring:5", "torus:3x3", "hosts:2x2", "fattree:2x2", "kautz:2:1"];
    let others = [
        "ring:2",
        "ring:3",
        "ring:6",
        "ring:7",
        "ring:8",
        "ring:9",
        "ring:12",
        "ring:16",
        "torus:2x3",
        "torus:2x4",
        "torus:4x4",
        "torus:3x5",
        "torus:2x2x2",
        "torus:3x2x2",
        "mesh:5",
        "mesh:3x3",
        "twisted-torus:4x2",
        "twisted-torus:8x4",
        "hyperx:4x4",
        "hammingmesh:2x2:2x2",
        "hypercube:3",
        "hypercube:4",
        "twisted-hypercube:3",
        "switch:5",
        "switch:8",
        "fattree:4x4:2",
        "hosts:2x4",
        "hosts:3x3",
        "hosts:4x2",
        "circulant:9:1,2",
        "complete:6",
        "kautz:2:2",
        "generalized-kautz:2:7",
        "petersen",
        "de-bruijn:2:3",
        "without(torus:4x4, 0-1)",
        "line(complete:3)",
    ];
    let full = std::env::var_os("RINGROAD_TEST_FULL").is_some();
    let all = small.into_iter().chain(others.into_iter().filter(|_| full));
    all.map(topology).collect()
}

/// Schedules of an algorithm for all its collectives on all networks.
fn schedules(name: &str) -> Vec<(String, Schedule)> {
    let algorithm = find(name).unwrap().algorithm();
    let mut schedules = Vec::new();
    for network in networks() {
        for collective in algorithm.collectives() {
            let collective = collective.with_root(network.ranks() - 1);
            for member in brief_members(algorithm, &network) {
                if let Ok(schedule) = member.build(&network, collective) {
                    schedules.push((format!("{member}, {collective} on {}", network.spec()), schedule));
                }
            }
        }
    }
    schedules
}

/// The schedule with each rank's slots of a chunk, but slot 0, numbered in the order of their use.
fn with_numbered_slots(schedule: &Schedule) -> Schedule {
    let mut numbers: HashMap<(Rank, usize), Vec<Slot>> = HashMap::new();
    let mut number = |rank: Rank, chunks: &ringroad_core::ChunkSet, slot: Slot| -> Vec<(usize, Slot)> {
        let numbered = |chunk: usize| {
            let known = numbers.entry((rank, chunk)).or_insert_with(|| vec![0]);
            let found = known.iter().position(|other| *other == slot);
            (
                chunk,
                found.unwrap_or_else(|| {
                    known.push(slot);
                    known.len() - 1
                }),
            )
        };
        chunks.iter().map(numbered).collect()
    };
    let mut schedule = schedule.expand();
    for step in &mut schedule.steps {
        // What is sent side by side from one rank to another may come in several sends, in any order.
        let way = |send: &ringroad_core::Send| (send.source, send.destination, send.action, send.port);
        let mut sends = Vec::new();
        for together in step.sends.chunk_by(|a, b| way(a) == way(b)) {
            let mut parts: BTreeMap<(Slot, Slot), Vec<usize>> = BTreeMap::new();
            for send in together {
                let from = number(send.source, &send.chunks, send.from);
                let into = number(send.destination, &send.chunks, send.into);
                for ((chunk, from), (_, into)) in from.into_iter().zip(into) {
                    parts.entry((from, into)).or_default().push(chunk);
                }
            }
            sends.extend(parts.into_iter().map(|((from, into), chunks)| ringroad_core::Send {
                chunks: chunks.into_iter().collect(),
                from,
                into,
                ..together[0].clone()
            }));
        }
        // So may what a rank does to different chunks.
        let mut locals = Vec::new();
        for one in step.locals.chunk_by(|a, b| (a.rank, a.action) == (b.rank, b.action)) {
            let mut rest = one;
            while !rest.is_empty() {
                let mut seen = std::collections::BTreeSet::new();
                let fresh =
                    |local: &&ringroad_core::schedule::Local| local.chunks.iter().all(|c| seen.insert(c));
                let (together, later) = rest.split_at(rest.iter().take_while(fresh).count());
                let mut parts: BTreeMap<(Slot, Slot), Vec<usize>> = BTreeMap::new();
                for local in together {
                    let from = number(local.rank, &local.chunks, local.from);
                    let into = number(local.rank, &local.chunks, local.into);
                    for ((chunk, from), (_, into)) in from.into_iter().zip(into) {
                        parts.entry((from, into)).or_default().push(chunk);
                    }
                }
                locals.extend(parts.into_iter().map(|((from, into), chunks)| {
                    ringroad_core::schedule::Local {
                        chunks: chunks.into_iter().collect(),
                        from,
                        into,
                        ..together[0].clone()
                    }
                }));
                rest = later;
            }
        }
        (step.sends, step.locals) = (sends, locals);
    }
    schedule
}

/// What is written is read back equal but for the numbers of slots, and the second time fully equal. Any order that
/// the thread blocks allow gives the same result.
fn check_msccl(name: &str) {
    let mut random = Random(name.bytes().fold(3, |seed: u64, b| seed.wrapping_mul(31) + u64::from(b)));
    for (about, schedule) in schedules(name) {
        let collective = schedule.collective;
        let has = !collective.is_prefix()
            && !matches!(collective, Collective::Gather { .. } | Collective::Scatter { .. });
        let text = match msccl::write(&schedule) {
            Ok(text) => text,
            Err(InterchangeError::Inexpressible { .. }) if !has => continue,
            Err(error) => panic!("{about}: {error}"),
        };
        assert!(has, "{about}");
        let read = msccl::read(&text).unwrap_or_else(|error| panic!("{about}: {error}\n{text}"));
        read.verify().unwrap_or_else(|error| panic!("{about}: {error}\n{text}"));
        assert_eq!(with_numbered_slots(&read), with_numbered_slots(&schedule), "{about}\n{text}");
        if schedule.slots() == 1 {
            assert_eq!(read.digest(), schedule.expand().digest(), "{about}");
        }
        let again = msccl::read(&msccl::write(&read).unwrap()).unwrap();
        assert_eq!((&again, again.digest()), (&read, read.digest()), "{about}");
        Machine::new(&text)
            .run(&schedule, &mut random)
            .unwrap_or_else(|error| panic!("{about}: {error}\n{text}"));
    }
}

include!("common/every_algorithm.rs");
every_algorithm!(check_msccl);

// ------------------------------------------------------------------------------- a slow twin of MSCCL's runtime

/// A step of a thread block.
struct Step {
    kind: String,
    source: (char, usize),
    target: (char, usize),
    count: usize,
    wait: Option<(usize, usize)>,
    has_dependence: bool,
}

struct Block {
    rank: Rank,
    id: usize,
    send: i64,
    receive: i64,
    channel: usize,
    steps: Vec<Step>,
    done: usize,
    /// The number of the last step with `hasdep` that is done, from 1.
    flag: usize,
}

/// A program that runs as MSCCL's runtime would, in a random order, with room for one message per connection.
struct Machine {
    in_place: bool,
    sizes: Vec<[usize; 3]>,
    blocks: Vec<Block>,
}

fn attributes(tag: &BytesStart<'_>) -> HashMap<String, String> {
    tag.attributes().map(|a| a.unwrap()).map(|a| (a.key.as_ref().to_owned(), a.value.into_owned())).collect()
}

impl Machine {
    fn new(text: &str) -> Machine {
        let mut machine = Machine { in_place: false, sizes: Vec::new(), blocks: Vec::new() };
        let mut reader = Reader::from_str(text);
        loop {
            match reader.read_event().unwrap() {
                Event::Start(tag) | Event::Empty(tag) => {
                    machine.element(tag.name().as_ref(), &attributes(&tag))
                }
                Event::Eof => break,
                _ => {}
            }
        }
        machine.check_form();
        machine
    }

    fn element(&mut self, name: &str, attributes: &HashMap<String, String>) {
        let number = |name: &str| attributes[name].parse::<i64>().unwrap();
        let index = |name: &str| number(name) as usize;
        match name {
            "algo" => {
                assert_eq!(number("inplace") + number("outofplace"), 1);
                self.in_place = number("inplace") == 1;
            }
            "gpu" => {
                assert_eq!(index("id"), self.sizes.len());
                self.sizes.push([index("i_chunks"), index("o_chunks"), index("s_chunks")]);
            }
            "tb" => self.blocks.push(Block {
                rank: self.sizes.len() - 1,
                id: index("id"),
                send: number("send"),
                receive: number("recv"),
                channel: index("chan"),
                steps: Vec::new(),
                done: 0,
                flag: 0,
            }),
            "step" => {
                let place = |buffer: &str, offset: &str| {
                    (attributes[buffer].chars().next().unwrap(), number(offset).max(0) as usize)
                };
                let steps = &mut self.blocks.last_mut().unwrap().steps;
                assert_eq!(index("s"), steps.len());
                steps.push(Step {
                    kind: attributes["type"].clone(),
                    source: place("srcbuf", "srcoff"),
                    target: place("dstbuf", "dstoff"),
                    count: index("cnt"),
                    wait: (number("depid") >= 0).then(|| (index("depid"), index("deps"))),
                    has_dependence: number("hasdep") == 1,
                });
            }
            other => panic!("{other}"),
        }
    }

    /// What MSCCL's parser checks.
    fn check_form(&self) {
        let mut connections = std::collections::HashSet::new();
        for block in &self.blocks {
            let own = self.blocks.iter().filter(|other| other.rank == block.rank);
            assert_eq!(own.filter(|other| other.id == block.id).count(), 1);
            assert!(
                block.channel < 32 && block.send != block.rank as i64 && block.receive != block.rank as i64
            );
            for (peer, sends) in [(block.send, true), (block.receive, false)] {
                assert!(peer < 0 || connections.insert((block.rank, peer, block.channel, sends)));
            }
            for (number, step) in block.steps.iter().enumerate() {
                assert!(step.count < 72);
                if let Some((id, other)) = step.wait {
                    let target = self.blocks.iter().find(|b| (b.rank, b.id) == (block.rank, id)).unwrap();
                    assert!(id != block.id && target.steps[other].has_dependence);
                }
                // A chain of waits ends with a step that waits, too, and is no `nop`.
                if step.kind == "nop" {
                    assert!(step.wait.is_some() && block.steps[number + 1].wait.is_some());
                }
            }
        }
    }

    fn run(&mut self, schedule: &Schedule, random: &mut Random) -> Result<(), String> {
        let Schedule { ranks, chunks, collective, .. } = *schedule;
        let vector = collective.chunks_per_vector(ranks, chunks);
        let per_block = chunks / collective.blocks(ranks);
        let (holds_block, gives_block) =
            (collective == Collective::Allgather, collective == Collective::ReduceScatter);
        let input_size = if holds_block { per_block } else { vector };
        let output_size = if gives_block { per_block } else { vector };
        // In place, the shorter of input and output is part of the longer; both are then in the input here.
        let in_place = self.in_place;
        let at = move |rank: Rank, (buffer, offset): (char, usize)| match buffer {
            'i' if in_place && holds_block => ('i', rank * per_block + offset),
            'o' if in_place && gives_block => ('i', rank * per_block + offset),
            'o' if in_place => ('i', offset),
            other => (other, offset),
        };
        let value = |rank: Rank, chunk: usize| {
            ((rank as u64 + 1) * 0x1_0000_0001) ^ (chunk as u64).wrapping_mul(0x9E37_79B9)
        };
        let mut memory: HashMap<(Rank, char, usize), u64> = HashMap::new();
        for (rank, sizes) in self.sizes.iter().enumerate() {
            for (buffer, size) in "ios".chars().zip(sizes) {
                (0..*size).for_each(|offset| {
                    let (buffer, offset) = at(rank, (buffer, offset));
                    memory.insert((rank, buffer, offset), random.next());
                });
            }
            for offset in 0..input_size {
                let global = if holds_block { rank * per_block + offset } else { offset };
                let (buffer, offset) = at(rank, ('i', offset));
                memory.insert((rank, buffer, offset), value(rank, global));
            }
        }
        let mut queues: HashMap<(i64, i64, usize), VecDeque<Vec<u64>>> = HashMap::new();
        loop {
            let ready: Vec<usize> = (0..self.blocks.len()).filter(|b| self.is_ready(*b, &queues)).collect();
            if ready.is_empty() {
                break;
            }
            let block = random.pick(&ready);
            self.step(block, &at, &mut memory, &mut queues)?;
        }
        if let Some(block) = self.blocks.iter().find(|block| block.done < block.steps.len()) {
            return Err(format!(
                "gpu {} waits in thread block {}, step {}",
                block.rank, block.id, block.done
            ));
        }
        let sum = |chunk| (0..ranks).fold(0u64, |sum, rank| sum.wrapping_add(value(rank, chunk)));
        for rank in (0..ranks).filter(|rank| collective.root().is_none_or(|root| root == *rank)) {
            for offset in 0..output_size {
                let expected = match collective {
                    Collective::Allreduce | Collective::Reduce { .. } => sum(offset),
                    Collective::ReduceScatter => sum(rank * per_block + offset),
                    Collective::Allgather => value(offset / per_block, offset),
                    Collective::Broadcast { root } => value(root, offset),
                    Collective::Alltoall => value(offset / per_block, rank * per_block + offset % per_block),
                    other => panic!("{other}"),
                };
                let (buffer, place) = at(rank, ('o', offset));
                if memory.get(&(rank, buffer, place)) != Some(&expected) {
                    return Err(format!("gpu {rank} ends with something else in o[{offset}]"));
                }
            }
        }
        Ok(())
    }

    fn is_ready(&self, block: usize, queues: &HashMap<(i64, i64, usize), VecDeque<Vec<u64>>>) -> bool {
        let Block { rank, send, receive, channel, ref steps, done, .. } = self.blocks[block];
        let Some(step) = steps.get(done) else { return false };
        let reached = step.wait.is_none_or(|(id, other)| {
            self.blocks.iter().any(|b| b.rank == rank && b.id == id && b.flag > other)
        });
        let length = |key| queues.get(&key).map_or(0, VecDeque::len);
        let kind = step.kind.as_str();
        let (receives, sends) = (kind.starts_with('r') && kind != "re", kind.ends_with('s'));
        let arrived = !receives || length((receive, rank as i64, channel)) > 0;
        reached && arrived && (!sends || length((rank as i64, send, channel)) == 0)
    }

    fn step(
        &mut self,
        block: usize,
        at: &impl Fn(Rank, (char, usize)) -> (char, usize),
        memory: &mut HashMap<(Rank, char, usize), u64>,
        queues: &mut HashMap<(i64, i64, usize), VecDeque<Vec<u64>>>,
    ) -> Result<(), String> {
        let Block { rank, send, receive, channel, ref mut steps, ref mut done, ref mut flag, .. } =
            self.blocks[block];
        let Step { kind, source, target, count, has_dependence, .. } = &steps[*done];
        let key = |(buffer, offset): (char, usize), piece: usize| {
            let (buffer, offset) = at(rank, (buffer, offset + piece));
            (rank, buffer, offset)
        };
        let get = |memory: &HashMap<_, u64>, place, piece| {
            memory
                .get(&key(place, piece))
                .copied()
                .ok_or_else(|| format!("gpu {rank} has no {place:?} + {piece}"))
        };
        let arrived = match kind.as_str() {
            "r" | "rrc" => queues.get_mut(&(receive, rank as i64, channel)).and_then(VecDeque::pop_front),
            _ => None,
        };
        let mut sent = Vec::new();
        for piece in 0..*count {
            match kind.as_str() {
                "s" => sent.push(get(memory, *source, piece)?),
                "r" => drop(memory.insert(key(*target, piece), arrived.as_ref().unwrap()[piece])),
                "rrc" => {
                    let sum = get(memory, *source, piece)?.wrapping_add(arrived.as_ref().unwrap()[piece]);
                    memory.insert(key(*target, piece), sum);
                }
                "cpy" => drop(memory.insert(key(*target, piece), get(memory, *source, piece)?)),
                "re" => {
                    let sum = get(memory, *target, piece)?.wrapping_add(get(memory, *source, piece)?);
                    memory.insert(key(*target, piece), sum);
                }
                "nop" => {}
                other => return Err(other.to_owned()),
            }
        }
        if kind == "s" {
            queues.entry((rank as i64, send, channel)).or_default().push_back(sent);
        }
        *done += 1;
        if *has_dependence {
            *flag = *done;
        }
        Ok(())
    }
}

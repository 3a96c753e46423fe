//! Files of other programs: what is read from them, which are refused, and the formats that are only written.

// Only `Random` is used here.
#[allow(dead_code)]
mod common;

use std::collections::HashMap;

use common::Random;
use ringroad_core::algorithms::find;
use ringroad_core::cost::CostModel;
use ringroad_core::interchange::{self, chakra, goal, msccl, mscclpp, InterchangeError};
use ringroad_core::schedule::Expressions;
use ringroad_core::simulate::{Scenario, Simulator};
use ringroad_core::{Action, ChunkSet, Collective, Rank, Schedule, Send, Topology};
use serde_json::Value;

fn schedule(algorithm: &str, spec: &str, collective: Collective) -> Schedule {
    find(algorithm).unwrap().build(&Topology::parse(spec).unwrap(), collective).unwrap()
}

/// A step: type, source, target, count, and what it waits for.
type Step<'a> = (&'a str, &'a str, &'a str, usize, Option<(usize, usize)>);
/// A thread block: the peer it sends to, the peer it receives from, and the steps.
type Block<'a> = (i64, i64, &'a [Step<'a>]);

/// A file with the thread blocks of each GPU, all on channel 0. A place is written as `i3`.
fn file(head: &str, scratch: usize, gpus: &[&[Block<'_>]]) -> String {
    let mut text =
        format!("<algo name=\"hand\" proto=\"LL\" nchannels=\"1\" ngpus=\"{}\" {head}>\n", gpus.len());
    for (id, blocks) in gpus.iter().enumerate() {
        text += &format!("<gpu id=\"{id}\" i_chunks=\"0\" o_chunks=\"0\" s_chunks=\"{scratch}\">\n");
        for (id, (send, receive, steps)) in blocks.iter().enumerate() {
            text += &format!("<tb id=\"{id}\" send=\"{send}\" recv=\"{receive}\" chan=\"0\">\n");
            for (s, (kind, source, target, count, wait)) in steps.iter().enumerate() {
                let ((srcbuf, srcoff), (dstbuf, dstoff)) = (source.split_at(1), target.split_at(1));
                let (depid, deps) = wait.map_or((-1, -1), |(id, step)| (id as i64, step as i64));
                text += &format!(
                    "<step s=\"{s}\" type=\"{kind}\" srcbuf=\"{srcbuf}\" srcoff=\"{srcoff}\" dstbuf=\"{dstbuf}\" dstoff=\"{dstoff}\" cnt=\"{count}\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"0\"/>\n"
                );
            }
            text += "</tb>\n";
        }
        text += "</gpu>\n";
    }
    text + "</algo>\n"
}

const NONE: Option<(usize, usize)> = None;

fn read(text: &str) -> Schedule {
    let schedule = msccl::read(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    schedule.verify().unwrap_or_else(|error| panic!("{error}\n{schedule}"));
    let again = msccl::read(&msccl::write(&schedule).unwrap()).unwrap();
    assert_eq!((again.digest(), &again), (schedule.digest(), &schedule));
    schedule
}

/// A ring of three with all fused types: each chunk is reduced around and then copied around.
#[test]
fn fused_types() {
    let steps = |rank: usize| -> Vec<Step<'static>> {
        let place = |chunk: usize| ["i0", "i1", "i2"][chunk % 3];
        let all = [("s", rank), ("rrs", rank + 2), ("rrcs", rank + 1), ("rcs", rank), ("r", rank + 2)];
        all.map(|(kind, chunk)| (kind, place(chunk), place(chunk), 1, NONE)).to_vec()
    };
    let steps = [steps(0), steps(1), steps(2)];
    let blocks: Vec<Vec<Block<'_>>> =
        (0..3).map(|rank| vec![((rank as i64 + 1) % 3, (rank as i64 + 2) % 3, &steps[rank][..])]).collect();
    let gpus: Vec<&[Block<'_>]> = blocks.iter().map(|blocks| &blocks[..]).collect();
    let text = file("nchunksperloop=\"3\" coll=\"allreduce\" inplace=\"1\"", 0, &gpus);
    insta::assert_snapshot!(read(&text), @r"
    hand: allreduce over 3 ranks, 3 chunks
    step 0: 0→1 +[0] | 1→2 +[1] | 2→0 +[2]
    step 1: 0→1 +[2] | 1→2 +[0] | 2→0 +[1]
    step 2: 0→1 =[1] | 1→2 =[2] | 2→0 =[0]
    step 3: 0→1 =[0] | 1→2 =[1] | 2→0 =[2]
    ");
}

/// Out of place, with copies from input to output, and a `copy` element; input and output are one slot.
#[test]
fn out_of_place() {
    let head = "nchunksperloop=\"2\" coll=\"allgather\" inplace=\"0\"";
    let (own0, own1): (&[Step], &[Step]) = (&[("cpy", "i0", "o0", 1, NONE)], &[("cpy", "i0", "o1", 1, NONE)]);
    let (send, get0, get1): (&[Step], &[Step], &[Step]) =
        (&[("s", "i0", "o0", 1, NONE)], &[("r", "i0", "o1", 1, NONE)], &[("r", "i0", "o0", 1, NONE)]);
    let text = file(
        head,
        0,
        &[&[(-1, -1, own0), (1, -1, send), (-1, 1, get0)], &[(-1, -1, own1), (0, -1, send), (-1, 0, get1)]],
    );
    let expected = "hand: allgather over 2 ranks, 2 chunks\nstep 0: 0→1 =[0] | 1→0 =[1]\n";
    assert_eq!(read(&text).to_string(), expected);
    let elements = text.replace("cpy", "nop").replacen("<tb", "<copy i_off=\"0\" o_off=\"0\"/><tb", 1);
    let at = elements.rfind("<gpu id=\"1\"").unwrap();
    let (first, second) = elements.split_at(at);
    let both =
        format!("{first}{}", second.replacen("<tb", "<copy i_off=\"0\" o_off=\"1\" cnt=\"1\"/><tb", 1));
    assert_eq!(read(&both).to_string(), expected);
}

/// The input is sent after the output has changed, so the output is a slot of its own until the end.
#[test]
fn inputs_that_are_read_later() {
    let head = "nchunksperloop=\"1\" coll=\"allreduce\" inplace=\"0\"";
    // Rank 1 sends its input first, and rank 0 answers with its own input after it has added up.
    let zero: &[Step] = &[("rrc", "i0", "o0", 1, NONE), ("s", "i0", "o0", 1, NONE)];
    let one: &[Step] = &[
        ("s", "i0", "s0", 1, NONE),
        ("r", "i0", "s0", 1, NONE),
        ("cpy", "s0", "o0", 1, NONE),
        ("re", "i0", "o0", 1, NONE),
    ];
    let text = file(head, 1, &[&[(1, 1, zero)], &[(0, 0, one)]]);
    insta::assert_snapshot!(read(&text), @r"
    hand: allreduce over 2 ranks, 1 chunks
    step 0: 1→0:1 =[0] then 0 s1+s0 [0]
    step 1: 0→1:1 =[0] then 1 s2=s1 [0] | 1 s2+s0 [0] | 0 s0=s1 [0] | 1 s0=s2 [0]
    ");
}

/// Two messages over scratch memory, and a `nop` that waits for both.
#[test]
fn waits_across_thread_blocks() {
    let head = "nchunksperloop=\"1\" coll=\"reduce\" inplace=\"1\"";
    let text = file(
        head,
        2,
        &[
            &[
                (-1, 1, &[("r", "i0", "s0", 1, NONE)]),
                (-1, 2, &[("r", "i0", "s1", 1, NONE)]),
                (
                    -1,
                    -1,
                    &[
                        ("nop", "i0", "i0", 0, Some((0, 0))),
                        ("re", "s0", "i0", 1, Some((1, 0))),
                        ("re", "s1", "i0", 1, NONE),
                    ],
                ),
            ],
            &[(0, -1, &[("s", "i0", "s0", 1, NONE)])],
            &[(0, -1, &[("s", "i0", "s1", 1, NONE)])],
        ],
    );
    insta::assert_snapshot!(read(&text), @r"
    hand: reduce (root 0) over 3 ranks, 1 chunks
    step 0: 1→0:1 =[0] | 2→0:2 =[0] then 0 s0+s1 [0] | 0 s0+s2 [0]
    ");
    // Without a wait the value may be read before it has arrived, or written before it was read.
    let cut = |from: &str| refusal(&text.replacen(from, "depid=\"-1\" deps=\"-1\"", 1));
    assert_eq!(cut("depid=\"0\" deps=\"0\"").0, 11);
    let (line, what) = cut("depid=\"1\" deps=\"0\"");
    assert_eq!(line, 12);
    assert!(
        what.starts_with("it uses s[1] of gpu 0 as the step in line 7 does, but nothing makes it wait"),
        "{what}"
    );
}

/// In place, the copy of the input to its part of the output is one onto itself: it races with nobody who reads the
/// input. Out of place the same file is another program.
#[test]
fn copies_onto_themselves() {
    let gpu = |own: &'static str, other: &'static str| {
        ([("cpy", "i0", own, 1, NONE)], [("s", "i0", own, 1, NONE), ("r", "i0", other, 1, NONE)])
    };
    let (zero, one) = (gpu("o0", "o1"), gpu("o1", "o0"));
    for in_place in ["inplace=\"1\"", "inplace=\"0\""] {
        let head = format!("nchunksperloop=\"2\" coll=\"allgather\" {in_place}");
        let gpus: &[&[Block<'_>]] =
            &[&[(-1, -1, &zero.0), (1, 1, &zero.1)], &[(-1, -1, &one.0), (0, 0, &one.1)]];
        let expected = "hand: allgather over 2 ranks, 2 chunks\nstep 0: 0→1 =[0] | 1→0 =[1]\n";
        assert_eq!(read(&file(&head, 0, gpus)).to_string(), expected);
    }
    // A copy to another place still races: here, of the other rank's block.
    let head = "nchunksperloop=\"2\" coll=\"allgather\" inplace=\"1\"";
    let wrong = [("cpy", "i0", "o1", 1, NONE)];
    let text = file(head, 0, &[&[(-1, -1, &wrong), (1, 1, &zero.1)], &[(0, 0, &one.1)]]);
    assert!(refusal(&text).1.contains("nothing makes it wait for that step"), "{:?}", refusal(&text));
}

/// The line and the text of the error of a file that is no program of MSCCL.
fn refusal(text: &str) -> (usize, String) {
    match msccl::read(text) {
        Err(InterchangeError::Line { line, what }) => (line, what),
        other => panic!("{other:?}\n{text}"),
    }
}

/// What a file states of rounds does not make MSCCL keep them: it knows only thread blocks, waits and messages.
#[test]
fn rounds_hide_nothing() {
    let with = |waits: [Option<(usize, usize)>; 2], orders: [usize; 2]| {
        let own: [Step<'_>; 2] = waits.map(|wait| ("rrc", "i0", "i0", 1, wait));
        let send: &[Step<'_>] = &[("s", "i0", "i0", 1, NONE)];
        let text = file(
            "nchunksperloop=\"1\" coll=\"reduce\" inplace=\"1\"",
            0,
            &[&[(-1, 1, &own[..1]), (-1, 2, &own[1..])], &[(0, -1, send)], &[(0, -1, send)]],
        );
        let stated = |text: String, order| {
            text.replacen("hasdep=\"0\"", &format!("hasdep=\"1\" round=\"0\" order=\"{order}\""), 1)
        };
        [orders[0], orders[1], 0, 0].into_iter().fold(text, stated)
    };
    read(&with([NONE, Some((0, 0))], [0, 1]));
    let (line, what) = refusal(&with([Some((1, 0)), Some((0, 0))], [0, 1]));
    assert!(
        line == 4 && what.starts_with("this waits for itself in MSCCL, by way of the lines 4, 7"),
        "{line}: {what}"
    );
    let (line, what) = refusal(&with([NONE, Some((0, 0))], [1, 0]));
    assert!(
        line == 4 && what.starts_with("it uses i[0] of gpu 0 as the step in line 7 does"),
        "{line}: {what}"
    );
}

/// Every file that is wrong is refused with its line.
#[test]
fn refused_files() {
    let check = |text: &str, line: usize, expected: &str| {
        match msccl::read(text) {
            Err(InterchangeError::Line { line: found, what }) => {
                assert!(found == line && what.contains(expected), "line {found}: {what}\n{text}");
            }
            other => panic!("{other:?}\n{text}"),
        };
    };
    let head = "nchunksperloop=\"1\" coll=\"allreduce\" inplace=\"1\"";
    let both: &[&[Block<'_>]] = &[
        &[(1, -1, &[("s", "i0", "i0", 1, NONE)]), (-1, 1, &[("rrc", "i0", "i0", 1, Some((0, 0)))])],
        &[(0, -1, &[("s", "i0", "i0", 1, NONE)]), (-1, 0, &[("rrc", "i0", "i0", 1, Some((0, 0)))])],
    ];
    let good = file(head, 1, both);
    read(&good);
    let edit = |from: &str, to: &str, line: usize, expected: &str| {
        assert!(good.contains(from), "{from}\n{good}");
        check(&good.replacen(from, to, 1), line, expected);
    };
    check("", 1, "there is no element algo");
    check("[1, 2]", 1, "there is text between the elements");
    check("<algo", 1, "this is not XML");
    check(&good[..good.len() - 20], 16, "this is not XML");
    check(&good[..good.len() - 8], 18, "the file ends within an element");
    edit("<algo", "<!DOCTYPE algo [<!ENTITY a \"aaaa\">]><algo", 1, "a document type is not allowed");
    edit("name=\"hand\"", "name=\"&a;\"", 1, "");
    edit("name=\"hand\"", "name=\"a\" name=\"b\"", 1, "");
    edit("proto=\"LL\"", &format!("proto=\"{}\"", "a".repeat(300)), 1, "one is longer than 256 bytes");
    let many: String = (0..100).map(|number| format!(" a{number}=\"\"")).collect();
    edit(" name=", &(many + " name="), 1, "there are more than 64 attributes");
    edit("name=\"hand\"", "", 1, "algo: the attribute name is missing");
    edit("ngpus=\"2\"", "ngpus=\"0\"", 1, "ngpus=0 has no ranks");
    edit("ngpus=\"2\"", "ngpus=\"99999999\"", 1, "ngpus=\"99999999\" is not from 0 to 8192");
    edit("ngpus=\"2\"", "ngpus=\"3\"", 19, "there is no gpu 2 of 3");
    edit("coll=\"allreduce\"", "coll=\"custom\"", 1, "coll=\"custom\" is not a collective of ringroad");
    edit("coll=\"allreduce\"", "coll=\"allgather\"", 1, "multiple of 2");
    edit("nchunksperloop=\"1\"", "nchunksperloop=\"-1\"", 1, "nchunksperloop=\"-1\" is not from 0");
    edit("inplace=\"1\"", "inplace=\"2\"", 1, "inplace=\"2\" is not from 0 to 1");
    edit("gpu id=\"0\"", "gpu id=\"1\"", 2, "id=1 is in the place of id=0; gpus must be in order");
    edit("gpu id=\"1\"", "gpu id=\"0\"", 10, "there are two with id=0");
    edit("<gpu id", "<cpu id", 2, "an element cpu does not belong here");
    edit("<step", "<op", 4, "an element op does not belong here");
    edit("send=\"1\"", "send=\"2\"", 3, "send=2 is not one of 2 gpus");
    edit("send=\"1\"", "send=\"0\"", 3, "send=0 is the gpu itself");
    edit("send=\"1\"", "send=\"-1\"", 4, "type=\"s\" needs a thread block with send");
    edit("chan=\"0\"", "chan=\"1\"", 4, "gpu 1 does not receive this message over channel 1");
    edit("chan=\"0\"", "chan=\"-1\"", 3, "chan=\"-1\" is not from 0");
    edit("tb id=\"1\"", "tb id=\"0\"", 6, "gpu 0 has two with id=0");
    edit("type=\"s\"", "type=\"x\"", 4, "type=\"x\" is not one of s, r, rcs");
    edit("type=\"s\"", "type=\"nop\"", 15, "gpu 0 does not send this message");
    edit("s=\"0\" type", "s=\"1\" type", 4, "s=1 is step 0 of its thread block");
    edit("cnt=\"1\"", "cnt=\"0\"", 4, "type=\"s\" with cnt=0 does nothing");
    edit("cnt=\"1\"", "cnt=\"9\"", 4, "ends at 9, after the 1 chunks of the buffer");
    edit("cnt=\"1\"", "cnt=\"99999999999999999999\"", 4, "is not a number");
    edit("srcoff=\"0\"", "srcoff=\"1\"", 4, "ends at 2, after the 1 chunks");
    edit("srcbuf=\"i\"", "srcbuf=\"x\"", 4, "is not one of the buffers i, o, s");
    edit("srcbuf=\"i\"", "srcbuf=\"s\"", 4, "it reads s[0] of gpu 0, which holds nothing");
    edit(
        "depid=\"0\" deps=\"0\"",
        "depid=\"7\" deps=\"0\"",
        7,
        "step 0 of thread block 7, which does not exist",
    );
    edit("depid=\"0\" deps=\"0\"", "depid=\"1\" deps=\"0\"", 7, "which follows after it");
    edit("depid=\"-1\" deps=\"-1\"", "depid=\"1\" deps=\"0\"", 7, "this waits for itself");
    edit("</algo>", "</algo>\n<algo name=\"x\"/>", 19, "an element algo does not belong here");

    // Wrong chunks.
    let head = "nchunksperloop=\"2\" coll=\"allgather\" inplace=\"1\"";
    let swapped = file(
        head,
        0,
        &[
            &[(1, 1, &[("s", "o0", "o0", 1, NONE), ("r", "o0", "o0", 1, NONE)])],
            &[(0, 0, &[("s", "o1", "o0", 1, NONE), ("r", "o0", "o0", 1, NONE)])],
        ],
    );
    let local =
        good.replacen("<tb id=\"0\"", "<tb id=\"2\" send=\"-1\" recv=\"-1\" chan=\"-1\"/><tb id=\"0\"", 1);
    read(&local);
    check(&swapped, 5, "o[0] of gpu 0 ends with chunk 1, where chunk 0 belongs");
    let head = "nchunksperloop=\"2\" coll=\"allreduce\" inplace=\"1\"";
    let added = file(
        head,
        0,
        &[&[(1, -1, &[("s", "i0", "i0", 1, NONE)])], &[(-1, 0, &[("rrc", "i1", "i1", 1, NONE)])]],
    );
    check(&added, 9, "it adds up chunk 0 and chunk 1, which is at i[1] of gpu 1");
    let cut = added.replacen("cnt=\"1\"", "cnt=\"2\"", 1);
    check(&cut, 4, "it sends cnt=2, but gpu 1 receives cnt=1 in line 9");
    // Right chunks without all contributions are left to the verifier.
    let once = added.replace("\"1\" dstbuf", "\"0\" dstbuf").replace("dstoff=\"1\"", "dstoff=\"0\"");
    assert!(msccl::read(&once).unwrap().verify().unwrap_err().to_string().contains("lacks the contribution"));

    let too_large = |text: &str, expected: &str| match interchange::read(text.as_bytes()) {
        Err(error @ InterchangeError::TooLarge { .. }) => {
            assert!(error.to_string().contains(expected), "{error}")
        }
        other => panic!("{other:?}"),
    };
    let long = " ".repeat(interchange::MOST_BYTES + 1);
    too_large(&long, "the file has more bytes; ringroad reads at most 268435456");
    too_large(&good.replacen("s_chunks=\"1\"", "s_chunks=\"4194303\"", 1), "the buffers have");
}

/// Two thread blocks that wait for each other, and messages that are sent before and read after each other.
#[test]
fn cycles() {
    let head = "nchunksperloop=\"1\" coll=\"allreduce\" inplace=\"1\"";
    let waiting = file(
        head,
        1,
        &[&[
            (-1, -1, &[("nop", "i0", "i0", 0, Some((1, 0)))]),
            (-1, -1, &[("nop", "i0", "i0", 0, Some((0, 0)))]),
        ]],
    );
    let error = msccl::read(&waiting).unwrap_err();
    assert!(
        matches!(&error, InterchangeError::Line { what, .. } if what.contains("this waits for itself, by way of the lines 4, 7")),
        "{error}"
    );
}

/// Nothing is read from random changes of a file without a result or an error.
#[test]
fn random_files() {
    let good = msccl::write(&schedule("trivance-latency", "ring:5", Collective::Allreduce)).unwrap();
    let mut random = Random(5);
    let words = ["-1", "0", "1", "99999999", "s", "rrcs", "re", "nop", "i", "o", "<", ">", "\"", "/>", "\n"];
    for _ in 0..400 {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            let end = at + random.below((bytes.len() - at).min(40));
            bytes.splice(at..end, random.pick(&words).bytes());
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if let Ok(schedule) = msccl::read(&text) {
            // What is read may be wrong, but can be checked and written.
            let _ = schedule.verify();
            msccl::read(&msccl::write(&schedule).unwrap()).unwrap();
        }
    }
}

#[test]
fn absent_collectives() {
    let gather = schedule("binomial", "ring:4", Collective::Gather { root: 0 });
    assert_eq!(
        msccl::write(&gather).unwrap_err().to_string(),
        "MSCCL's XML cannot express this schedule: MSCCL has no gather"
    );
    let broadcast = schedule("binomial", "ring:4", Collective::Broadcast { root: 3 });
    assert!(read(&msccl::write(&broadcast).unwrap()).collective == Collective::Broadcast { root: 3 });
    assert!(mscclpp::write(&broadcast).unwrap_err().to_string().contains("there is no collective broadcast"));
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
fn plans_that_are_too_long() {
    let check = |schedule: Schedule, expected: &str| {
        let error = mscclpp::write(&schedule).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    mscclpp::write(&schedule("ring", "ring:64", Collective::Allreduce)).unwrap();
    check(schedule("ring", "ring:128", Collective::Allreduce), "thread blocks in turn, of at most 17");
    check(schedule("direct", "switch:32", Collective::Allgather), "has 31 peers");
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

/// The contents say the format, and what is wrong.
#[test]
fn contents_say_the_format() {
    let ring = find("ring").unwrap().build(&Topology::ring(3).unwrap(), Collective::Allreduce).unwrap();
    for text in [ring.to_json(), msccl::write(&ring).unwrap()] {
        for before in ["", "\u{feff}", " \r\n\t", "\u{feff}\n"] {
            let read = interchange::read(format!("{before}{text}").as_bytes()).unwrap();
            assert_eq!(read.expand(), ring.expand(), "{before:?}");
        }
    }
    let cases: [(&[u8], &str); 4] = [
        (b"", "this is not a schedule: "),
        (b"{}", "this is not a schedule: missing field `format_version`"),
        (b"\n<algo/>", "line 2: algo: the attribute ngpus is missing"),
        (b"<algo\n\n\xff", "line 3: this is not UTF-8 text"),
    ];
    for (content, expected) in cases {
        let error = interchange::read(content).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// A port that is no channel is not written, because it could not be read.
#[test]
fn ports_are_channels() {
    let mut ring = schedule("ring", "ring:3", Collective::Allreduce).expand();
    ring.steps[0].sends[0].port = 1 << 14;
    assert_eq!(msccl::read(&msccl::write(&ring).unwrap()).unwrap(), ring);
    ring.steps[0].sends[0].port += 1;
    let error = msccl::write(&ring).unwrap_err().to_string();
    assert!(error.contains("port 16385 would be a channel above 16384"), "{error}");
}

/// A schedule may have any name.
#[test]
fn names_come_back() {
    let ring = schedule("ring", "ring:3", Collective::Allreduce).expand();
    for name in ["a".repeat(1000), " two\n\tlines\r\n <&>\"' ".to_owned(), String::new()] {
        let named = Schedule { name, ..ring.clone() };
        assert_eq!(msccl::read(&msccl::write(&named).unwrap()).unwrap(), named);
    }
}

/// Each message of a short file may name all of millions of chunks. To check it takes no longer for that, and no more
/// memory.
#[test]
fn a_short_file_of_many_chunks() {
    const CHUNKS: usize = 1 << 24;
    let send = |source: Rank, start: usize, action| Send {
        source,
        destination: 1 - source,
        chunks: ChunkSet::range(start, CHUNKS),
        action,
        port: 0,
        from: 0,
        into: 0,
    };
    let mut right = Schedule::empty("right", Collective::Allreduce, 2, CHUNKS);
    right.push(vec![send(0, 0, Action::Reduce), send(1, 0, Action::Reduce)]);
    // All of that again, and once more only the chunks from some chunk on.
    let again = (0..1000).map(|at| send(at % 2, at * 7, Action::Copy));
    again.for_each(|send| right.push(vec![send]));
    assert_eq!(interchange::read(right.to_json().as_bytes()).unwrap().verify(), Ok(()));
    assert!(!Expressions::new(2).agree(&right));
    let mut wrong = right.clone();
    wrong.push(vec![send(0, CHUNKS - 1, Action::Reduce)]);
    let error = interchange::read(wrong.to_json().as_bytes()).unwrap().verify().unwrap_err().to_string();
    assert!(error.contains("contribution of rank 0 to chunk 16777215 a second time"), "{error}");
}

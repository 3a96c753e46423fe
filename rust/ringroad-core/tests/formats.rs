//! Files of other programs: what is read from them, and which are refused.

// Only `Random` is used here.
#[allow(dead_code)]
mod common;

use common::Random;
use ringroad_core::algorithms::find;
use ringroad_core::interchange::{self, msccl, InterchangeError};
use ringroad_core::schedule::Expressions;
use ringroad_core::{Action, ChunkSet, Collective, Rank, Schedule, Send, Topology};

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

//! From a schedule to thread blocks and text.
//!
//! A rank has a thread block for each peer and port that it sends by, one for each that it receives by, and one for
//! local operations, so no block waits for what another could do. An instruction waits for what wrote its operands, and
//! for what still reads the place that it writes.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use quick_xml::escape::escape;

use super::document::MOST_CHANNELS;
use crate::collective::Collective;
use crate::interchange::buffers::{Location, Run, SlotPlaces};
use crate::interchange::InterchangeError;
use crate::schedule::{Action, Schedule};
use crate::units::{Port, Rank};

/// MSCCL's instructions have fewer chunks than 72.
const MOST_COUNT: usize = 71;

/// An instruction.
struct WrittenInstruction {
    name: &'static str,
    run: Run,
    round: usize,
    order: usize,
    /// The thread block, and the position in it.
    block: usize,
    position: usize,
    /// Instructions of other thread blocks that it waits for.
    waits: Vec<usize>,
    is_awaited: bool,
}

/// What a thread block sends to and receives from, and its channel; MSCCL's order of thread blocks.
type BlockConnection = (Option<Rank>, Option<Rank>, Port);

/// The instructions of one rank.
#[derive(Default)]
struct RankInstructions {
    instructions: Vec<WrittenInstruction>,
    blocks: Vec<(BlockConnection, Vec<usize>)>,
    numbers: HashMap<BlockConnection, usize>,
    /// For each place, what wrote it last and what has read it since.
    touched: HashMap<Location, (Option<usize>, Vec<usize>)>,
}

impl RankInstructions {
    /// Adds an instruction that reads and writes these places.
    fn push(
        &mut self,
        connection: BlockConnection,
        name: &'static str,
        run: Run,
        (round, order): (usize, usize),
        reads: &[Location],
        writes: Option<Location>,
    ) {
        let number = self.instructions.len();
        let places = |firsts: &[Location]| {
            let all = firsts.iter().flat_map(|(buffer, at)| (*at..at + run.count).map(|at| (*buffer, at)));
            all.collect::<Vec<Location>>()
        };
        let (reads, writes) = (places(reads), places(writes.as_slice()));
        let mut waits = Vec::new();
        for place in &reads {
            waits.extend(self.touched.get(place).and_then(|(writer, _)| *writer));
        }
        for place in &writes {
            let (writer, readers) = self.touched.entry(*place).or_default();
            waits.extend(*writer);
            waits.append(readers);
        }
        for place in reads {
            self.touched.entry(place).or_default().1.push(number);
        }
        for place in writes {
            self.touched.insert(place, (Some(number), Vec::new()));
        }
        let block = *self.numbers.entry(connection).or_insert(self.blocks.len());
        if block == self.blocks.len() {
            self.blocks.push((connection, Vec::new()));
        }
        let position = self.blocks[block].1.len();
        self.blocks[block].1.push(number);
        let instruction =
            WrittenInstruction { name, run, round, order, block, position, waits, is_awaited: false };
        self.instructions.push(instruction);
    }

    /// Leaves only those waits that the order within thread blocks does not imply, one for each thread block.
    fn reduce_waits(&mut self) {
        for block in 0..self.blocks.len() {
            // How far the other thread blocks are when this one is at an instruction.
            let mut reached: HashMap<usize, usize> = HashMap::new();
            for number in self.blocks[block].1.clone() {
                let mut latest: BTreeMap<usize, usize> = BTreeMap::new();
                for other in std::mem::take(&mut self.instructions[number].waits) {
                    let WrittenInstruction { block: theirs, position, .. } = self.instructions[other];
                    if theirs != block && reached.get(&theirs).is_none_or(|at| position > *at) {
                        let last = latest.entry(theirs).or_insert(position);
                        *last = position.max(*last);
                    }
                }
                let waits: Vec<usize> =
                    latest.iter().map(|(theirs, at)| self.blocks[*theirs].1[*at]).collect();
                waits.iter().for_each(|other| self.instructions[*other].is_awaited = true);
                reached.extend(latest);
                self.instructions[number].waits = waits;
            }
        }
    }

    fn write(&mut self, text: &mut String) {
        self.reduce_waits();
        let mut order: Vec<usize> = (0..self.blocks.len()).collect();
        order.sort_by_key(|block| self.blocks[*block].0);
        let mut ids = vec![0; order.len()];
        order.iter().enumerate().for_each(|(id, block)| ids[*block] = id);
        // Of several waits, all but the last have a nop of their own, which is a step, too.
        let mut steps = vec![0; self.instructions.len()];
        for (_, numbers) in &self.blocks {
            let mut next = 0;
            for number in numbers {
                next += self.instructions[*number].waits.len().saturating_sub(1);
                steps[*number] = next;
                next += 1;
            }
        }
        let peer = |peer: Option<Rank>| peer.map_or("-1".to_owned(), |peer| peer.to_string());
        let at = |number: usize| (ids[self.instructions[number].block], steps[number]);
        for (id, block) in order.iter().enumerate() {
            let ((send, receive, channel), numbers) = &self.blocks[*block];
            let (send, receive) = (peer(*send), peer(*receive));
            push(
                text,
                format_args!("    <tb id=\"{id}\" send=\"{send}\" recv=\"{receive}\" chan=\"{channel}\">\n"),
            );
            for number in numbers {
                let WrittenInstruction { name, run, round, order, waits, is_awaited, .. } =
                    &self.instructions[*number];
                let (first, last) = waits.split_at(waits.len().saturating_sub(1));
                for (position, other) in first.iter().enumerate() {
                    let (step, (depid, deps)) = (steps[*number] - first.len() + position, at(*other));
                    push(text, format_args!(
                        "      <step s=\"{step}\" type=\"nop\" srcbuf=\"i\" srcoff=\"-1\" dstbuf=\"o\" dstoff=\"-1\" cnt=\"0\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"0\"/>\n"
                    ));
                }
                let Run { source: (from, srcoff), target: (into, dstoff), count } = run;
                let (srcbuf, dstbuf) = (from.letter(), into.letter());
                let (step, hasdep) = (steps[*number], u8::from(*is_awaited));
                let wait = last.first().map(|other| at(*other));
                let (depid, deps) = wait.map_or((-1, -1), |(block, step)| (block as i64, step as i64));
                push(text, format_args!(
                    "      <step s=\"{step}\" type=\"{name}\" srcbuf=\"{srcbuf}\" srcoff=\"{srcoff}\" dstbuf=\"{dstbuf}\" dstoff=\"{dstoff}\" cnt=\"{count}\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"{hasdep}\" round=\"{round}\" order=\"{order}\"/>\n"
                ));
            }
            text.push_str("    </tb>\n");
        }
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a string can always be written to");
}

fn inexpressible(what: String) -> Result<String, InterchangeError> {
    Err(InterchangeError::Inexpressible { format: "MSCCL's XML", what })
}

/// Writes a schedule. Ports become channels.
pub fn write(schedule: &Schedule) -> Result<String, InterchangeError> {
    let collective = schedule.collective;
    if collective.is_prefix() || matches!(collective, Collective::Gather { .. } | Collective::Scatter { .. })
    {
        return inexpressible(format!("MSCCL has no {}", collective.name()));
    }
    let ports = schedule.steps.iter().flat_map(|step| &step.sends).map(|send| send.port);
    if let Some(port) = ports.max().filter(|port| *port > MOST_CHANNELS) {
        return inexpressible(format!("port {port} would be a channel above {MOST_CHANNELS}"));
    }
    let schedule = schedule.expand();
    let buffers = SlotPlaces::new(&schedule);
    let mut gpus: Vec<RankInstructions> = (0..schedule.ranks).map(|_| RankInstructions::default()).collect();
    for (rank, gpu) in gpus.iter_mut().enumerate() {
        for run in buffers.own(rank).into_iter().flat_map(pieces) {
            gpu.push((None, None, 0), "cpy", run, (0, 0), &[run.source], Some(run.target));
        }
    }
    for (round, step) in schedule.steps.iter().enumerate() {
        // All sends read what the step starts with.
        let mut received = Vec::new();
        for (order, send) in step.sends.iter().enumerate() {
            let (source, destination, port) = (send.source, send.destination, send.port);
            let name = if send.action == Action::Reduce { "rrc" } else { "r" };
            for run in buffers.runs((source, send.from), (destination, send.into), &send.chunks, MOST_COUNT) {
                let at = (round, order);
                gpus[source].push((Some(destination), None, port), "s", run, at, &[run.source], None);
                received.push((destination, (None, Some(source), port), name, run, at, send.action));
            }
        }
        for (rank, connection, name, run, at, action) in received {
            // The receiver adds to the place that it writes.
            let (own, reads): (Run, &[Location]) = match action {
                Action::Reduce => (Run { source: run.target, ..run }, &[run.target]),
                Action::Copy => (run, &[]),
            };
            gpus[rank].push(connection, name, own, at, reads, Some(run.target));
        }
        for (order, local) in step.locals.iter().enumerate() {
            let rank = local.rank;
            for run in buffers.runs((rank, local.from), (rank, local.into), &local.chunks, MOST_COUNT) {
                let (name, reads) = match local.action {
                    Action::Reduce => ("re", [run.source, run.target]),
                    Action::Copy => ("cpy", [run.source, run.source]),
                };
                gpus[rank].push((None, None, 0), name, run, (round, order), &reads, Some(run.target));
            }
        }
    }
    let vector = buffers.vector();
    let channels = gpus.iter().flat_map(|gpu| &gpu.blocks).map(|((_, _, channel), _)| channel + 1).max();
    let root = collective.root().map_or(String::new(), |root| format!(" root=\"{root}\""));
    let in_place = u8::from(buffers.in_place());
    let mut text = format!(
        "<algo name=\"{}\" proto=\"Simple\" nchannels=\"{}\" nchunksperloop=\"{vector}\" ngpus=\"{}\" coll=\"{}\" inplace=\"{in_place}\" outofplace=\"{}\" minBytes=\"0\" maxBytes=\"{}\"{root}>\n",
        attribute(&schedule.name),
        channels.unwrap_or(1),
        schedule.ranks,
        collective.name(),
        1 - in_place,
        i64::MAX,
    );
    for (rank, gpu) in gpus.iter_mut().enumerate() {
        let [input, output] = match collective {
            Collective::Alltoall => [vector, vector],
            Collective::Allgather | Collective::Broadcast { .. } => [0, vector],
            _ => [vector, 0],
        };
        let scratch = buffers.scratch(rank);
        push(
            &mut text,
            format_args!(
                "  <gpu id=\"{rank}\" i_chunks=\"{input}\" o_chunks=\"{output}\" s_chunks=\"{scratch}\">\n"
            ),
        );
        gpu.write(&mut text);
        text.push_str("  </gpu>\n");
    }
    text.push_str("</algo>\n");
    Ok(text)
}

/// Cuts a run into pieces that one instruction can have.
fn pieces(run: Run) -> impl Iterator<Item = Run> {
    (0..run.count).step_by(MOST_COUNT).map(move |first| {
        let at = |(buffer, start): Location| (buffer, start + first);
        Run { source: at(run.source), target: at(run.target), count: MOST_COUNT.min(run.count - first) }
    })
}

/// A text as the value of an attribute, in which readers take line breaks and tabs for spaces unless they are escaped.
fn attribute(text: &str) -> String {
    let spaces = [('\t', "&#9;"), ('\n', "&#10;"), ('\r', "&#13;")];
    spaces.iter().fold(escape(text).into_owned(), |text, (space, code)| text.replace(*space, code))
}

//! Which chunk is at which place at any time, and the slot of each place.
//!
//! A slot belongs to a chunk, a place does not: it may hold one chunk after the other. Slot 0 of a chunk is its place in
//! the input and in the output; at a rank that has it in neither, it is the first place that is used. Where input and
//! output are two places, they are the same slot if nothing reads the input after the output has changed; otherwise the
//! output is a further slot, which is copied into slot 0 at the end. The value that `rrs` reduces and sends but does not
//! store is written into its source if nothing reads the source afterwards.

use std::collections::HashMap;

use super::document::{Area, CopyElement, Instruction, Program};
use super::levels::{Levels, MatchedMessage};
use super::order::InstructionOrder;
use crate::interchange::InterchangeError;
use crate::schedule::{Action, ChunkSet, Local, Schedule, Send, Step};
use crate::units::{ChunkId, Rank, Slot};

/// No chunk, no place, or never.
const NONE: u32 = u32::MAX;

/// What happens, in this order.
#[derive(Clone, Copy)]
enum Happening {
    /// A sender reads a message.
    Leave(usize),
    /// A message is received.
    Arrive(usize),
    /// An instruction changes values of its rank.
    Local(usize),
}

/// What happens, and the step of each event.
struct Timeline {
    messages: Vec<MatchedMessage>,
    events: Vec<(Happening, usize)>,
}

impl Timeline {
    fn new(program: &Program, levels: &Levels) -> Timeline {
        let order = |index: usize| program.instructions[index].round.map_or(0, |(_, order)| order);
        let mut messages = levels.messages.clone();
        messages.sort_by_key(|m| (m.level, order(m.receiver), m.sender));
        let mut locals = levels.locals.clone();
        locals.sort_by_key(|(index, level)| (*level, order(*index)));
        let mut all: Vec<(usize, usize, Happening)> = Vec::with_capacity(2 * messages.len() + locals.len());
        for (number, message) in messages.iter().enumerate() {
            all.push((message.level, 0, Happening::Leave(number)));
            all.push((message.level, 1, Happening::Arrive(number)));
        }
        all.extend(locals.into_iter().map(|(index, level)| (level, 2, Happening::Local(index))));
        all.sort_by_key(|(level, phase, _)| (*level, *phase));
        Timeline { messages, events: all.into_iter().map(|(level, _, event)| (event, level)).collect() }
    }
}

/// Follows the values.
struct ValueTracker<'a> {
    program: &'a Program,
    timeline: &'a Timeline,
    /// For each `rrs`, where the value that it sends is kept: places after those of the program.
    kept: HashMap<usize, usize>,
    /// The chunk at each place.
    held: Vec<u32>,
    /// The line that wrote each place last.
    writers: Vec<u32>,
    /// Where the chunk belongs whose home the place is, in the input and in the output.
    inputs: Vec<u32>,
    outputs: Vec<u32>,
    /// The input place of the same chunk, for output places that are another place.
    partners: HashMap<u32, u32>,
    /// When each input place was last read, and when each output place was first given another value of its chunk.
    read: Vec<u32>,
    changed: Vec<u32>,
    /// The chunks of every message, and those of every local operation.
    sent: Vec<Vec<u32>>,
    moved: HashMap<usize, Vec<u32>>,
}

/// Makes the schedule.
pub(super) fn schedule(program: &Program, levels: &Levels) -> Result<Schedule, InterchangeError> {
    let timeline = Timeline::new(program, levels);
    check_order(program, &timeline)?;
    let mut values = ValueTracker::new(program, &timeline);
    values.follow()?;
    let names = SlotNames::new(&values);
    let schedule = Emission { program, timeline: &timeline, values: &values, names }.run();
    schedule.check_indices().map_err(|what| InterchangeError::at(1, what))?;
    Ok(schedule)
}

/// Checks that MSCCL uses every place in the order of the timeline.
fn check_order(program: &Program, timeline: &Timeline) -> Result<(), InterchangeError> {
    let mut order = InstructionOrder::from_program(program, &timeline.messages)?;
    for (event, _) in &timeline.events {
        let index = match *event {
            Happening::Leave(number) => timeline.messages[number].sender,
            Happening::Arrive(number) => timeline.messages[number].receiver,
            Happening::Local(index) => index,
        };
        let Instruction { kind, source, target, .. } = program.instructions[index];
        // What receives and sends has used its places when it received.
        if kind.receives && matches!(event, Happening::Leave(_)) {
            continue;
        }
        if kind.reads_source() {
            order.read(index, source)?;
        }
        if kind.stores {
            order.write(index, target)?;
        }
    }
    Ok(())
}

/// The first place of the values that an instruction sends.
fn outgoing(program: &Program, kept: &HashMap<usize, usize>, index: usize) -> usize {
    let Instruction { kind, source, target, .. } = program.instructions[index];
    match (kind.receives, kind.stores) {
        (false, _) => source,
        (true, true) => target,
        (true, false) => kept[&index],
    }
}

impl<'a> ValueTracker<'a> {
    fn new(program: &'a Program, timeline: &'a Timeline) -> ValueTracker<'a> {
        let mut places = program.places();
        let mut kept = HashMap::new();
        for (index, instruction) in program.instructions.iter().enumerate() {
            if instruction.kind.receives && instruction.kind.sends && !instruction.kind.stores {
                kept.insert(index, places);
                places += instruction.count;
            }
        }
        let empty = || vec![NONE; places];
        let (mut inputs, mut outputs, mut partners) = (empty(), empty(), HashMap::new());
        for rank in 0..program.ranks {
            let mut homes: HashMap<ChunkId, usize> = HashMap::new();
            for (place, chunk) in program.held(rank, Area::Input) {
                inputs[place] = chunk as u32;
                homes.insert(chunk, place);
            }
            for (place, chunk) in program.held(rank, Area::Output) {
                outputs[place] = chunk as u32;
                if let Some(home) = homes.get(&chunk).filter(|home| **home != place) {
                    partners.insert(place as u32, *home as u32);
                }
            }
        }
        ValueTracker {
            program,
            timeline,
            kept,
            held: inputs.clone(),
            writers: empty(),
            inputs,
            outputs,
            partners,
            read: vec![0; places],
            changed: empty(),
            sent: vec![Vec::new(); timeline.messages.len()],
            moved: HashMap::new(),
        }
    }

    fn follow(&mut self) -> Result<(), InterchangeError> {
        let (program, timeline) = (self.program, self.timeline);
        for transfer in &program.transfers {
            self.transfer(transfer)?;
        }
        for (time, (event, _)) in timeline.events.iter().enumerate() {
            let time = time as u32 + 1;
            match *event {
                Happening::Leave(number) => {
                    let sender = timeline.messages[number].sender;
                    let Instruction { line, count, .. } = program.instructions[sender];
                    let first = outgoing(program, &self.kept, sender);
                    for place in first..first + count {
                        let chunk = self.get(place, line, time)?;
                        self.sent[number].push(chunk);
                    }
                }
                Happening::Arrive(number) => self.arrive(number, time)?,
                Happening::Local(index) => {
                    let Instruction { line, kind, source, target, count, .. } = program.instructions[index];
                    for (from, into) in (source..source + count).zip(target..) {
                        let chunk = self.get(from, line, time)?;
                        self.moved.entry(index).or_default().push(chunk);
                        if kind.reduces {
                            self.check_same(chunk, into, line, time)?;
                        }
                        self.put(into, chunk, line, time, (!kind.reduces).then_some(from));
                    }
                }
            }
        }
        self.check_outputs()
    }

    fn get(&mut self, place: usize, line: usize, time: u32) -> Result<u32, InterchangeError> {
        self.read[place] = time;
        match self.held[place] {
            NONE => Err(InterchangeError::at(
                line,
                format!("it reads {}, which holds nothing", self.program.named(place)),
            )),
            chunk => Ok(chunk),
        }
    }

    /// Writes a place. `copied` is the place of which it becomes a copy.
    fn put(&mut self, place: usize, chunk: u32, line: usize, time: u32, copied: Option<usize>) {
        let partner = self.partners.get(&(place as u32)).map(|partner| *partner as usize);
        let is_copy = copied.is_some() && copied == partner && self.changed[place] == NONE;
        if self.outputs[place] == chunk && !is_copy && self.changed[place] == NONE {
            self.changed[place] = time;
        }
        (self.held[place], self.writers[place]) = (chunk, line as u32);
    }

    fn check_same(
        &mut self,
        chunk: u32,
        place: usize,
        line: usize,
        time: u32,
    ) -> Result<(), InterchangeError> {
        let other = self.get(place, line, time)?;
        if other == chunk {
            return Ok(());
        }
        let name = self.program.named(place);
        Err(InterchangeError::at(
            line,
            format!("it adds up chunk {chunk} and chunk {other}, which is at {name}"),
        ))
    }

    fn transfer(&mut self, transfer: &CopyElement) -> Result<(), InterchangeError> {
        let CopyElement { line, source, target, count, .. } = *transfer;
        for (from, into) in (source..source + count).zip(target..).filter(|(from, into)| from != into) {
            let chunk = self.get(from, line, 0)?;
            self.put(into, chunk, line, 0, Some(from));
        }
        Ok(())
    }

    fn arrive(&mut self, number: usize, time: u32) -> Result<(), InterchangeError> {
        let receiver = self.timeline.messages[number].receiver;
        let Instruction { line, kind, source, target, .. } = self.program.instructions[receiver];
        let chunks = std::mem::take(&mut self.sent[number]);
        for (piece, chunk) in chunks.iter().enumerate() {
            if kind.reduces {
                self.check_same(*chunk, source + piece, line, time)?;
            }
            let into = if kind.stores { target } else { self.kept[&receiver] };
            self.put(into + piece, *chunk, line, time, None);
        }
        self.sent[number] = chunks;
        Ok(())
    }

    fn check_outputs(&self) -> Result<(), InterchangeError> {
        for place in 0..self.program.places() {
            let (expected, found) = (self.outputs[place], self.held[place]);
            if expected == NONE || found == expected {
                continue;
            }
            let name = self.program.named(place);
            let line = if self.writers[place] == NONE { 1 } else { self.writers[place] as usize };
            let holds = if found == NONE { "nothing".to_owned() } else { format!("chunk {found}") };
            let what = format!("{name} ends with {holds}, where chunk {expected} belongs");
            return Err(InterchangeError::at(line, what));
        }
        Ok(())
    }
}

/// The slots of places.
struct SlotNames {
    /// For each place, the place whose slots it has.
    same: Vec<u32>,
    /// Output places that are slots of their own, with their input places.
    apart: Vec<(usize, usize)>,
    /// The numbers of chunks' further slots, by chunk and place, in the order in which they are first used; and how many
    /// each chunk has at each rank.
    further: HashMap<(u32, u32), usize>,
    counts: HashMap<(Rank, u32), usize>,
}

impl SlotNames {
    fn new(values: &ValueTracker<'_>) -> SlotNames {
        let mut same: Vec<u32> = (0..values.held.len() as u32).collect();
        let mut apart = Vec::new();
        for (output, input) in &values.partners {
            let (place, home) = (*output as usize, *input as usize);
            if values.writers[home] == NONE && values.read[home] <= values.changed[place] {
                same[home] = *output;
            } else {
                apart.push((place, home));
            }
        }
        apart.sort_unstable();
        let mut names = SlotNames { same, apart, further: HashMap::new(), counts: HashMap::new() };
        names.keep_in_sources(values);
        names
    }

    /// Lets an `rrs` keep its value in its source if nothing reads the source afterwards.
    fn keep_in_sources(&mut self, values: &ValueTracker<'_>) {
        let (program, timeline) = (values.program, values.timeline);
        // When each instruction sends.
        let mut leaves: HashMap<usize, usize> = HashMap::new();
        for (time, (event, _)) in timeline.events.iter().enumerate() {
            if let Happening::Leave(number) = event {
                leaves.insert(timeline.messages[*number].sender, time);
            }
        }
        // The next access to each place, and whether it reads. Results are read at the end.
        let mut next: Vec<(usize, bool)> =
            values.outputs.iter().map(|chunk| (usize::MAX, *chunk != NONE)).collect();
        for (time, (event, _)) in timeline.events.iter().enumerate().rev() {
            let mut touch = |first: usize, count: usize, reads: bool, same: &[u32]| {
                (first..first + count).for_each(|place| next[same[place] as usize] = (time, reads));
            };
            match *event {
                Happening::Leave(number) => {
                    let sender = timeline.messages[number].sender;
                    let first = outgoing(program, &values.kept, sender);
                    touch(first, program.instructions[sender].count, true, &self.same);
                }
                Happening::Arrive(number) => {
                    let index = timeline.messages[number].receiver;
                    let Instruction { kind, source, target, count, .. } = program.instructions[index];
                    if kind.stores {
                        touch(target, count, false, &self.same);
                    } else if let Some(kept) = values.kept.get(&index) {
                        let sends = leaves[&index];
                        let free = |place: usize| {
                            let (when, reads) = next[self.same[place] as usize];
                            !reads && when > sends
                        };
                        if (source..source + count).all(free) {
                            for piece in 0..count {
                                self.same[kept + piece] = self.same[source + piece];
                            }
                        }
                    }
                    if kind.reduces {
                        (source..source + count)
                            .for_each(|place| next[self.same[place] as usize] = (time, true));
                    }
                }
                Happening::Local(index) => {
                    let Instruction { kind, source, target, count, .. } = program.instructions[index];
                    touch(target, count, kind.reduces, &self.same);
                    touch(source, count, true, &self.same);
                }
            }
        }
    }

    /// The slot of `chunk` that a place is.
    fn slot(&mut self, values: &ValueTracker<'_>, rank: Rank, chunk: u32, place: usize) -> Slot {
        let place = self.same[place];
        let is_home = |homes: &[u32]| homes[place as usize] == chunk;
        let apart =
            |names: &SlotNames| names.apart.binary_search_by_key(&(place as usize), |pair| pair.0).is_ok();
        if is_home(&values.inputs) || is_home(&values.outputs) && !apart(self) {
            return 0;
        }
        *self.further.entry((chunk, place)).or_insert_with(|| {
            // A rank that only passes a chunk on has no other place for slot 0.
            let Program { collective, ranks, chunks, .. } = values.program;
            let home = collective.input_block(*ranks, *chunks, rank, chunk as ChunkId);
            let home = home.or_else(|| collective.output_block(*ranks, *chunks, rank, chunk as ChunkId));
            let count = self.counts.entry((rank, chunk)).or_insert(usize::from(home.is_some()));
            *count += 1;
            *count - 1
        })
    }
}

/// What two pieces of messages must have in common to be one message.
type PieceKey = (Rank, Rank, usize, Action, Slot, Slot, usize);

/// Writes the schedule.
struct Emission<'a> {
    program: &'a Program,
    timeline: &'a Timeline,
    values: &'a ValueTracker<'a>,
    names: SlotNames,
}

#[derive(Default)]
struct Draft {
    sends: Vec<(PieceKey, Vec<ChunkId>)>,
    places: HashMap<PieceKey, usize>,
    /// With their order.
    locals: Vec<(Local, usize, Vec<ChunkId>)>,
}

impl Draft {
    fn send(&mut self, joint: PieceKey, chunk: u32) {
        let place = *self.places.entry(joint).or_insert(self.sends.len());
        if place == self.sends.len() {
            self.sends.push((joint, Vec::new()));
        }
        self.sends[place].1.push(chunk as ChunkId);
    }

    fn local(&mut self, rank: Rank, chunk: u32, order: usize, action: Action, from: Slot, into: Slot) {
        let chunk = chunk as ChunkId;
        let one = Local { rank, chunks: ChunkSet::default(), action, from, into };
        match self.locals.last_mut() {
            Some((last, other, chunks))
                if *last == one && *other == order && chunks.last() < Some(&chunk) =>
            {
                chunks.push(chunk);
            }
            _ => self.locals.push((one, order, vec![chunk])),
        }
    }

    fn step(self) -> Step {
        let mut sends = Vec::new();
        for ((source, destination, port, action, from, into, _), chunks) in self.sends {
            let count = chunks.len();
            let send = |chunks| Send { source, destination, chunks, action, port, from, into };
            let set: ChunkSet = chunks.iter().copied().collect();
            if set.len() == count {
                sends.push(send(set));
            } else {
                // What sends a chunk twice stays apart, so that the verifier finds the error.
                sends.extend(chunks.into_iter().map(|chunk| send(ChunkSet::range(chunk, chunk + 1))));
            }
        }
        let locals = self.locals.into_iter();
        let locals = locals.map(|(local, _, chunks)| Local { chunks: chunks.into_iter().collect(), ..local });
        Step { sends, locals: locals.collect() }
    }
}

impl Emission<'_> {
    fn run(mut self) -> Schedule {
        let Program { name, collective, ranks, chunks, .. } = self.program;
        let mut schedule = Schedule::empty(name, *collective, *ranks, *chunks);
        let mut first = Draft::default();
        for CopyElement { rank, source, target, count, .. } in &self.program.transfers {
            for (from, into) in (*source..source + count).zip(*target..) {
                let chunk = self.values.inputs[from];
                self.combine(&mut first, (*rank, chunk, 0), Action::Copy, from, into);
            }
        }
        let mut steps = vec![first];
        let mut level = None;
        for (event, at) in &self.timeline.events {
            if level != Some(*at) {
                level = Some(*at);
                steps.push(Draft::default());
            }
            let draft = steps.last_mut().expect("a step has been started");
            match event {
                Happening::Leave(_) => {}
                Happening::Arrive(number) => self.message(draft, *number),
                Happening::Local(index) => self.local(draft, *index),
            }
        }
        let last = steps.last_mut().expect("there is a first step");
        for (output, _) in self.names.apart.clone() {
            let (rank, chunk) = (self.rank_of(output), self.values.outputs[output]);
            let from = self.names.slot(self.values, rank, chunk, output);
            last.local(rank, chunk, usize::MAX, Action::Copy, from, 0);
        }
        let steps = steps.into_iter().map(Draft::step);
        schedule.steps = steps.filter(|step| !step.sends.is_empty() || !step.locals.is_empty()).collect();
        schedule
    }

    fn rank_of(&self, place: usize) -> Rank {
        self.program.starts.partition_point(|start| *start <= place) - 1
    }

    /// Copies or reduces one place into another of the same rank. Neighbouring chunks of the same order are one
    /// operation.
    fn combine(
        &mut self,
        draft: &mut Draft,
        (rank, chunk, order): (Rank, u32, usize),
        action: Action,
        from: usize,
        into: usize,
    ) {
        let from = self.names.slot(self.values, rank, chunk, from);
        let into = self.names.slot(self.values, rank, chunk, into);
        if from != into {
            draft.local(rank, chunk, order, action, from, into);
        }
    }

    fn message(&mut self, draft: &mut Draft, number: usize) {
        let (program, values) = (self.program, self.values);
        let MatchedMessage { sender, receiver, .. } = self.timeline.messages[number];
        let (sent, received) = (&program.instructions[sender], &program.instructions[receiver]);
        let (source, destination) = (program.rank_of(sent), program.rank_of(received));
        let port = program.blocks[sent.block].channel;
        let order = received.round.map_or(0, |(_, order)| order + 1);
        let first = outgoing(program, &values.kept, sender);
        let into = if received.kind.stores { received.target } else { values.kept[&receiver] };
        let mut later = Vec::new();
        for (piece, chunk) in values.sent[number].iter().enumerate() {
            let from = self.names.slot(values, source, *chunk, first + piece);
            let into = self.names.slot(values, destination, *chunk, into + piece);
            let added = received
                .kind
                .reduces
                .then(|| self.names.slot(values, destination, *chunk, received.source + piece));
            let action = if added == Some(into) { Action::Reduce } else { Action::Copy };
            draft.send((source, destination, port, action, from, into, order), *chunk);
            later.extend(added.filter(|added| *added != into).map(|added| (*chunk, added, into)));
        }
        // What is added from another place is added when the message has arrived.
        later.into_iter().for_each(|(chunk, from, into)| {
            draft.local(destination, chunk, order, Action::Reduce, from, into);
        });
    }

    fn local(&mut self, draft: &mut Draft, index: usize) {
        let instruction = &self.program.instructions[index];
        let Instruction { kind, source, target, count, .. } = *instruction;
        let rank = self.program.rank_of(instruction);
        let action = if kind.reduces { Action::Reduce } else { Action::Copy };
        let values = self.values;
        let order = instruction.round.map_or(0, |(_, order)| order + 1);
        let places = (source..source + count).zip(target..);
        for (chunk, (from, into)) in values.moved[&index].iter().zip(places) {
            self.combine(draft, (rank, *chunk, order), action, from, into);
        }
    }
}

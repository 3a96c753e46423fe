//! From text to the thread blocks of all GPUs.

use std::collections::HashMap;

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::{MOST_PIECES, MOST_PLACES, MOST_STEPS};
use crate::collective::{Collective, Holding};
use crate::interchange::InterchangeError;
use crate::schedule::Schedule;
use crate::units::{ChunkId, Rank};

/// The most ranks.
const MOST_RANKS: usize = 1 << 13;
/// The largest number of a channel.
pub(super) const MOST_CHANNELS: usize = 1 << 14;
/// The most attributes of an element, and the most bytes of a value other than a name.
const MOST_ATTRIBUTES: usize = 64;
const MOST_VALUE: usize = 256;

/// A buffer of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Area {
    Input,
    Output,
    Scratch,
}

/// What a step of a thread block does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepKind {
    pub receives: bool,
    /// Whether it combines two values.
    pub reduces: bool,
    /// Whether it writes its target.
    pub stores: bool,
    pub sends: bool,
}

impl StepKind {
    pub const NOTHING: StepKind = StepKind { receives: false, reduces: false, stores: false, sends: false };
    const COPY: StepKind = StepKind { stores: true, ..StepKind::NOTHING };

    fn named(name: &str) -> Option<StepKind> {
        let kind = |receives, reduces, stores, sends| Some(StepKind { receives, reduces, stores, sends });
        match name {
            "nop" => Some(StepKind::NOTHING),
            "s" => kind(false, false, false, true),
            "r" => kind(true, false, true, false),
            "rcs" => kind(true, false, true, true),
            "rrs" => kind(true, true, false, true),
            "rrc" => kind(true, true, true, false),
            "rrcs" => kind(true, true, true, true),
            "cpy" => Some(StepKind::COPY),
            "re" => kind(false, true, true, false),
            _ => None,
        }
    }

    /// Whether it is a `cpy` or a `re`.
    pub fn is_local(self) -> bool {
        self.stores && !self.receives
    }

    /// Whether it reads its source.
    pub fn reads_source(self) -> bool {
        self.reduces || !self.receives && self != StepKind::NOTHING
    }
}

/// One `step` element.
#[derive(Debug)]
pub(super) struct Instruction {
    pub line: usize,
    /// The index of its thread block.
    pub block: usize,
    pub kind: StepKind,
    /// The first place that is read, and the first that is written, among all places.
    pub source: usize,
    pub target: usize,
    /// How many places follow each other.
    pub count: usize,
    /// The index of the instruction that it waits for.
    pub waits: Option<usize>,
    /// The step of the schedule, and the position among the messages of this step.
    pub round: Option<(usize, usize)>,
}

/// One `tb` element.
#[derive(Debug)]
pub(super) struct ThreadBlock {
    pub line: usize,
    pub rank: Rank,
    pub send: Option<Rank>,
    pub receive: Option<Rank>,
    pub channel: usize,
    /// Its instructions.
    pub range: std::ops::Range<usize>,
}

/// A `copy` element: places of the input that are copied to the output before anything else.
#[derive(Debug)]
pub(super) struct CopyElement {
    pub line: usize,
    pub rank: Rank,
    pub source: usize,
    pub target: usize,
    pub count: usize,
}

/// A whole file.
#[derive(Debug)]
pub(super) struct Program {
    pub name: String,
    pub collective: Collective,
    pub in_place: bool,
    pub ranks: usize,
    /// How many chunks the schedule has.
    pub chunks: usize,
    /// Where the places of each rank start in the list of all places, and where the last end.
    pub starts: Vec<usize>,
    pub blocks: Vec<ThreadBlock>,
    pub instructions: Vec<Instruction>,
    /// What is copied before everything else.
    pub transfers: Vec<CopyElement>,
}

impl Program {
    /// How many chunks the input or the output has.
    fn length(&self, holding: Holding) -> usize {
        let vector = self.collective.chunks_per_vector(self.ranks, self.chunks);
        match holding {
            Holding::Block(_) => vector / self.ranks,
            // A rank without input or output may still use the buffer.
            Holding::Whole | Holding::Nothing => vector,
        }
    }

    fn lengths(&self, rank: Rank) -> [usize; 2] {
        [self.length(self.collective.input(rank)), self.length(self.collective.output(rank))]
    }

    /// The index of a place among those of its rank. In place, the shorter of input and output is part of the longer.
    fn place(&self, rank: Rank, area: Area, offset: usize) -> usize {
        let [input, output] = self.lengths(rank);
        match area {
            Area::Input if self.in_place && input < output => input + rank * input + offset,
            Area::Input => offset,
            Area::Output if self.in_place && input >= output => {
                if input > output {
                    rank * output + offset
                } else {
                    offset
                }
            }
            Area::Output => input + offset,
            Area::Scratch => input + output + offset,
        }
    }

    /// The places of a rank's input or output, among all places, each with its chunk.
    pub fn held(&self, rank: Rank, area: Area) -> impl Iterator<Item = (usize, ChunkId)> + '_ {
        let input = area == Area::Input;
        let holding = if input { self.collective.input(rank) } else { self.collective.output(rank) };
        let length = if holding == Holding::Nothing { 0 } else { self.length(holding) };
        let per_block = self.chunks / self.collective.blocks(self.ranks);
        (0..length).map(move |offset| {
            let chunk = match (self.collective, holding) {
                (Collective::Alltoall, _) => {
                    let peer = offset / per_block;
                    let (source, target) = if input { (rank, peer) } else { (peer, rank) };
                    (source * self.ranks + target) * per_block + offset % per_block
                }
                (_, Holding::Block(own)) => own * per_block + offset,
                _ => offset,
            };
            (self.starts[rank] + self.place(rank, area, offset), chunk)
        })
    }

    /// A place as the file writes it, such as `o[3]`.
    pub fn named(&self, place: usize) -> String {
        let rank = self.starts.partition_point(|start| *start <= place) - 1;
        let [input, output] = self.lengths(rank);
        let own = place - self.starts[rank];
        let text = if own < input {
            format!("i[{own}]")
        } else if own < input + output {
            format!("o[{}]", own - input)
        } else {
            format!("s[{}]", own - input - output)
        };
        format!("{text} of gpu {rank}")
    }

    /// All places.
    pub fn places(&self) -> usize {
        self.starts[self.ranks]
    }

    pub fn rank_of(&self, instruction: &Instruction) -> Rank {
        self.blocks[instruction.block].rank
    }
}

/// The attributes of an element.
struct XmlAttributes {
    element: &'static str,
    line: usize,
    values: HashMap<String, String>,
}

impl XmlAttributes {
    fn from_tag(
        element: &'static str,
        line: usize,
        start: &BytesStart<'_>,
    ) -> Result<XmlAttributes, InterchangeError> {
        let mut values = HashMap::new();
        for (number, attribute) in start.attributes().enumerate() {
            let attribute = attribute.map_err(|error| InterchangeError::at(line, error.to_string()))?;
            let is_long = attribute.value.len() > MOST_VALUE && attribute.key.as_ref() != "name";
            if number == MOST_ATTRIBUTES || is_long {
                let what = format!(
                    "{element}: there are more than {MOST_ATTRIBUTES} attributes, or one is longer than {MOST_VALUE} bytes"
                );
                return Err(InterchangeError::at(line, what));
            }
            let value = attribute.normalized_value(XmlVersion::default());
            let value = value.map_err(|error| InterchangeError::at(line, error.to_string()))?;
            values.insert(attribute.key.as_ref().to_owned(), value.into_owned());
        }
        Ok(XmlAttributes { element, line, values })
    }

    fn error(&self, what: impl std::fmt::Display) -> InterchangeError {
        InterchangeError::at(self.line, format!("{}: {what}", self.element))
    }

    fn text(&self, name: &str) -> Result<&str, InterchangeError> {
        let value = self.values.get(name).map(String::as_str);
        value.ok_or_else(|| self.error(format!("the attribute {name} is missing")))
    }

    /// A number of at least -1, which is `None`.
    fn index(&self, name: &str) -> Result<Option<usize>, InterchangeError> {
        match self.text(name)?.trim() {
            "-1" => Ok(None),
            text => text
                .parse()
                .map(Some)
                .map_err(|_| self.error(format!("{name}={text:?} is not a number from -1 on"))),
        }
    }

    fn number(&self, name: &str, most: usize) -> Result<usize, InterchangeError> {
        match self.index(name)? {
            Some(number) if number <= most => Ok(number),
            _ => Err(self.error(format!("{name}={:?} is not from 0 to {most}", self.text(name)?))),
        }
    }

    fn optional(&self, name: &str, most: usize) -> Result<Option<usize>, InterchangeError> {
        self.values.contains_key(name).then(|| self.number(name, most)).transpose()
    }

    fn peer(&self, name: &str, program: &Program, rank: Rank) -> Result<Option<Rank>, InterchangeError> {
        let peer = self.index(name)?;
        match peer {
            Some(peer) if peer >= program.ranks => {
                Err(self.error(format!("{name}={peer} is not one of {} gpus", program.ranks)))
            }
            Some(peer) if peer == rank => Err(self.error(format!("{name}={peer} is the gpu itself"))),
            _ => Ok(peer),
        }
    }

    fn area(&self, name: &str) -> Result<Area, InterchangeError> {
        match self.text(name)? {
            "i" => Ok(Area::Input),
            "o" => Ok(Area::Output),
            "s" => Ok(Area::Scratch),
            other => Err(self.error(format!("{name}={other:?} is not one of the buffers i, o, s"))),
        }
    }
}

/// Counts lines up to positions that ascend.
struct Lines<'a> {
    text: &'a [u8],
    position: usize,
    line: usize,
}

impl Lines<'_> {
    fn at(&mut self, position: usize) -> usize {
        let end = position.clamp(self.position, self.text.len());
        self.line += self.text[self.position..end].iter().filter(|byte| **byte == b'\n').count();
        self.position = end;
        self.line
    }
}

/// What is read while a file is open.
struct DocumentReader {
    program: Option<Program>,
    /// The open `gpu`: its rank, how many scratch places it has, and its thread blocks by their id.
    gpu: Option<(Rank, usize, HashMap<usize, usize>)>,
    seen: Vec<bool>,
    in_block: bool,
    /// Whether the element `algo` has ended.
    ended: bool,
    /// Instructions that wait for a step: their index, the id of the thread block, and the number of the step.
    waits: Vec<(usize, usize, usize)>,
    pieces: usize,
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Program, InterchangeError> {
    let mut reader = Reader::from_str(text);
    let mut lines = Lines { text: text.as_bytes(), position: 0, line: 1 };
    let mut reading = DocumentReader {
        program: None,
        gpu: None,
        seen: Vec::new(),
        in_block: false,
        ended: false,
        waits: Vec::new(),
        pieces: 0,
    };
    loop {
        let start = reader.buffer_position() as usize;
        let event = reader.read_event();
        let line = lines.at(start);
        match event.map_err(|error| InterchangeError::at(line, format!("this is not XML: {error}")))? {
            Event::Start(tag) => reading.open(&tag, line, false)?,
            Event::Empty(tag) => reading.open(&tag, line, true)?,
            Event::End(_) => reading.close()?,
            Event::Eof => break,
            Event::DocType(_) => return Err(InterchangeError::at(line, "a document type is not allowed")),
            Event::Text(text) if text.trim().is_empty() => {}
            Event::Text(_) | Event::CData(_) | Event::GeneralRef(_) => {
                return Err(InterchangeError::at(line, "there is text between the elements"));
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
    let line = lines.at(text.len());
    let program = reading.program.ok_or_else(|| InterchangeError::at(line, "there is no element algo"))?;
    if !reading.ended {
        return Err(InterchangeError::at(line, "the file ends within an element"));
    }
    match reading.seen.iter().position(|seen| !seen) {
        Some(rank) => Err(InterchangeError::at(line, format!("there is no gpu {rank} of {}", program.ranks))),
        None => Ok(program),
    }
}

impl DocumentReader {
    fn open(&mut self, tag: &BytesStart<'_>, line: usize, empty: bool) -> Result<(), InterchangeError> {
        let name = tag.name();
        match (name.as_ref(), self.program.is_some() && !self.ended, self.gpu.is_some(), self.in_block) {
            ("algo", false, ..) if !self.ended => {
                let program = algo(&XmlAttributes::from_tag("algo", line, tag)?)?;
                self.seen = vec![false; program.ranks];
                self.program = Some(program);
                self.ended = empty;
            }
            ("gpu", true, false, false) => {
                self.open_gpu(&XmlAttributes::from_tag("gpu", line, tag)?)?;
                if empty {
                    self.close()?;
                }
            }
            ("tb", true, true, false) => {
                self.open_block(&XmlAttributes::from_tag("tb", line, tag)?)?;
                self.in_block = !empty;
            }
            ("copy", true, true, false) if empty => {
                self.transfer(&XmlAttributes::from_tag("copy", line, tag)?)?
            }
            ("step", true, true, true) if empty => self.step(&XmlAttributes::from_tag("step", line, tag)?)?,
            (other, ..) => {
                let what = format!(
                    "an element {other} does not belong here (algo has gpu, gpu has tb, tb has <step/>)"
                );
                return Err(InterchangeError::at(line, what));
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), InterchangeError> {
        if self.in_block {
            self.in_block = false;
        } else if let Some((_, _, blocks)) = self.gpu.take() {
            let program = self.program.as_mut().expect("a gpu belongs to an algo");
            for (index, block, step) in self.waits.drain(..) {
                let range = blocks.get(&block).map(|block| program.blocks[*block].range.clone());
                let target = range.filter(|range| step < range.len()).map(|range| range.start + step);
                let instruction = &mut program.instructions[index];
                let own = program.blocks[instruction.block].range.clone();
                let wrong = match target {
                    None => "which does not exist",
                    Some(target) if own.contains(&target) && target >= index => "which follows after it",
                    Some(_) => "",
                };
                if !wrong.is_empty() {
                    let what = format!("it waits for step {step} of thread block {block}, {wrong}");
                    return Err(InterchangeError::at(instruction.line, what));
                }
                instruction.waits = target;
            }
        } else {
            self.ended = true;
        }
        Ok(())
    }

    fn open_gpu(&mut self, gpu: &XmlAttributes) -> Result<(), InterchangeError> {
        let program = self.program.as_mut().expect("the caller has an algo");
        let rank = gpu.number("id", program.ranks - 1)?;
        if std::mem::replace(&mut self.seen[rank], true) {
            return Err(gpu.error(format!("there are two with id={rank}")));
        }
        // Places are numbered rank by rank, so gpus must be in order.
        let next = program.starts.len() - 1;
        if rank != next {
            return Err(gpu.error(format!("id={rank} is in the place of id={next}; gpus must be in order")));
        }
        let scratch = gpu.number("s_chunks", MOST_PLACES)?;
        let [input, output] = program.lengths(rank);
        let end = program.starts[rank] + input + output + scratch;
        if end > MOST_PLACES {
            return Err(InterchangeError::TooLarge {
                what: format!("the buffers have {end} places"),
                most: MOST_PLACES,
            });
        }
        program.starts.push(end);
        self.gpu = Some((rank, scratch, HashMap::new()));
        Ok(())
    }

    fn open_block(&mut self, tb: &XmlAttributes) -> Result<(), InterchangeError> {
        let program = self.program.as_mut().expect("the caller has an algo");
        let (rank, _, blocks) = self.gpu.as_mut().expect("the caller has a gpu");
        let (rank, id) = (*rank, tb.number("id", MOST_STEPS)?);
        let (send, receive) = (tb.peer("send", program, rank)?, tb.peer("recv", program, rank)?);
        // A thread block without peers needs no channel.
        let channel = match tb.index("chan")? {
            None if send.or(receive).is_none() => 0,
            _ => tb.number("chan", MOST_CHANNELS)?,
        };
        let range = program.instructions.len()..program.instructions.len();
        let block = ThreadBlock { line: tb.line, rank, send, receive, channel, range };
        if blocks.insert(id, program.blocks.len()).is_some() {
            return Err(tb.error(format!("gpu {rank} has two with id={id}")));
        }
        if program.blocks.len() == MOST_STEPS {
            return Err(InterchangeError::TooLarge {
                what: "there are more thread blocks".to_owned(),
                most: MOST_STEPS,
            });
        }
        program.blocks.push(block);
        Ok(())
    }

    fn transfer(&mut self, copy: &XmlAttributes) -> Result<(), InterchangeError> {
        let program = self.program.as_mut().expect("the caller has an algo");
        let &(rank, ..) = self.gpu.as_ref().expect("the caller has a gpu");
        let [input, output] = program.lengths(rank);
        let count = copy.optional("cnt", MOST_PIECES)?.unwrap_or(1);
        let (from, into) = (copy.number("i_off", MOST_PLACES)?, copy.number("o_off", MOST_PLACES)?);
        if from + count > input || into + count > output {
            return Err(copy.error(format!("i has {input} and o {output} chunks")));
        }
        count_pieces(&mut self.pieces, count)?;
        let start = program.starts[rank];
        let source = start + program.place(rank, Area::Input, from);
        let target = start + program.place(rank, Area::Output, into);
        program.transfers.push(CopyElement { line: copy.line, rank, source, target, count });
        Ok(())
    }

    fn step(&mut self, step: &XmlAttributes) -> Result<(), InterchangeError> {
        let program = self.program.as_mut().expect("the caller has an algo");
        let (rank, scratch, _) = self.gpu.as_ref().expect("the caller has a gpu");
        let (rank, scratch) = (*rank, *scratch);
        if program.instructions.len() == MOST_STEPS {
            return Err(InterchangeError::TooLarge {
                what: "there are more steps".to_owned(),
                most: MOST_STEPS,
            });
        }
        let index = program.instructions.len();
        let block = program.blocks.len() - 1;
        let ThreadBlock { send, receive, range, .. } = &program.blocks[block];
        let (name, number) = (step.text("type")?, step.number("s", MOST_STEPS)?);
        if number != range.len() {
            return Err(step.error(format!("s={number} is step {} of its thread block", range.len())));
        }
        let kind = StepKind::named(name).ok_or_else(|| {
            step.error(format!("type={name:?} is not one of s, r, rcs, rrs, rrc, rrcs, cpy, re, nop"))
        })?;
        for (needed, peer, attribute) in [(kind.sends, send, "send"), (kind.receives, receive, "recv")] {
            if needed && peer.is_none() {
                return Err(step.error(format!("type={name:?} needs a thread block with {attribute}")));
            }
        }
        let count = if kind == StepKind::NOTHING { 0 } else { step.number("cnt", MOST_PIECES)? };
        if count == 0 && kind != StepKind::NOTHING {
            return Err(step.error(format!("type={name:?} with cnt=0 does nothing")));
        }
        count_pieces(&mut self.pieces, count)?;
        let [input, output] = program.lengths(rank);
        let start = program.starts[rank];
        let place = |buffer: &str, offset: &str, used: bool| -> Result<usize, InterchangeError> {
            if !used {
                return Ok(start);
            }
            let area = step.area(buffer)?;
            let length = match area {
                Area::Input => input,
                Area::Output => output,
                Area::Scratch => scratch,
            };
            let first = step.number(offset, MOST_PLACES)?;
            if first + count > length {
                let end = first + count;
                return Err(step.error(format!("{offset}={first} with cnt={count} ends at {end}, after the {length} chunks of the buffer")));
            }
            // The places of one step follow each other in memory, in place too.
            Ok(start + program.place(rank, area, first))
        };
        let source = place("srcbuf", "srcoff", kind.reads_source())?;
        let target = place("dstbuf", "dstoff", kind.stores)?;
        // In place, input and output may be the same memory: then the copy of one to the other changes nothing.
        let does_nothing = kind == StepKind::COPY && source == target;
        let (kind, count) = if does_nothing { (StepKind::NOTHING, 0) } else { (kind, count) };
        if let (Some(block), Some(other)) = (step.index("depid")?, step.index("deps")?) {
            self.waits.push((index, block, other));
        }
        let round = match (step.optional("round", MOST_STEPS)?, step.optional("order", MOST_STEPS)?) {
            (Some(round), order) => Some((round, order.unwrap_or(0))),
            (None, _) => None,
        };
        let line = step.line;
        program.instructions.push(Instruction {
            line,
            block,
            kind,
            source,
            target,
            count,
            waits: None,
            round,
        });
        program.blocks[block].range.end = index + 1;
        Ok(())
    }
}

fn count_pieces(pieces: &mut usize, more: usize) -> Result<(), InterchangeError> {
    *pieces += more;
    if *pieces > MOST_PIECES {
        let what = format!("the steps name {pieces} chunks");
        return Err(InterchangeError::TooLarge { what, most: MOST_PIECES });
    }
    Ok(())
}

/// Reads the element `algo`.
fn algo(algo: &XmlAttributes) -> Result<Program, InterchangeError> {
    let ranks = algo.number("ngpus", MOST_RANKS)?;
    let name = algo.text("name")?;
    if ranks == 0 {
        return Err(algo.error("ngpus=0 has no ranks"));
    }
    let root = algo.optional("root", ranks - 1)?.unwrap_or(0);
    let collective = match algo.text("coll")? {
        "allreduce" => Collective::Allreduce,
        "allgather" => Collective::Allgather,
        "reduce_scatter" | "reducescatter" => Collective::ReduceScatter,
        "alltoall" => Collective::Alltoall,
        "broadcast" => Collective::Broadcast { root },
        "reduce" => Collective::Reduce { root },
        other => {
            let known = "allreduce, allgather, reduce_scatter, alltoall, broadcast, reduce";
            return Err(algo.error(format!("coll={other:?} is not a collective of ringroad ({known})")));
        }
    };
    let vector = algo.number("nchunksperloop", MOST_PLACES)?;
    let chunks = if collective == Collective::Alltoall { vector.saturating_mul(ranks) } else { vector };
    Schedule::empty(name, collective, ranks, chunks).check_named().map_err(|what| algo.error(what))?;
    Ok(Program {
        name: name.to_owned(),
        collective,
        in_place: algo.optional("inplace", 1)?.unwrap_or(0) == 1,
        ranks,
        chunks,
        starts: vec![0],
        blocks: Vec::new(),
        instructions: Vec::new(),
        transfers: Vec::new(),
    })
}

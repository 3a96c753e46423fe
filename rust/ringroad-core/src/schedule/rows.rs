//! The parts of a schedule of one rank and of all ranks, whether it is written out or has a symmetry.

use std::collections::HashMap;

use super::symmetry::Chart;
use super::{Action, ChunkSet, Local, Schedule, Send, Slice, Step};
use crate::units::{Port, Rank, Slot};

/// What one rank does in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// The messages that it sends.
    pub sends: Vec<Send>,
    /// The messages that it receives. Messages between two ranks are in the same order in the rows of both.
    pub receives: Vec<Send>,
    /// Its local operations.
    pub locals: Vec<Local>,
}

/// A message without its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The sender.
    pub source: Rank,
    /// The receiver.
    pub destination: Rank,
    /// The port by which the message leaves the sender.
    pub port: Port,
    /// Whether the receiver copies or reduces the chunks.
    pub action: Action,
    /// How many chunks the message has.
    pub chunks: usize,
}

/// A message of the first position in a step of a symmetric schedule, which stands for one message of every rank.
pub struct Orbit<'a> {
    chart: &'a Chart<'a>,
    send: &'a Send,
    slice: usize,
    chunks: usize,
}

impl Orbit<'_> {
    /// The slice that its chunks belong to.
    pub fn slice(&self) -> &Slice {
        self.chart.slice(self.slice)
    }

    /// The position to which the first position sends the message.
    pub fn goal(&self) -> usize {
        self.chart.position(self.slice, self.send.destination)
    }

    /// The port by which `position` sends its message.
    pub fn port(&self, position: usize) -> Port {
        self.slice().port(position, self.goal(), self.send.port)
    }

    /// How many chunks the message has.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// The messages of all ranks.
    pub fn transfers(&self) -> impl Iterator<Item = Transfer> + '_ {
        let (action, chunks) = (self.send.action, self.chunks);
        let all = self.chart.everywhere(self.send);
        all.map(move |((source, destination), port)| Transfer { source, destination, port, action, chunks })
    }
}

/// What all ranks do in a schedule, whether it is written out or not. Its tables are made once, for several queries.
pub struct View<'a> {
    schedule: &'a Schedule,
    /// The tables of the symmetry, where the schedule has one.
    chart: Option<Chart<'a>>,
    /// Where blocks differ in length, the total length of all chunks before each chunk. `None`: every chunk counts 1.
    ends: Option<Vec<usize>>,
}

impl Schedule {
    /// What all ranks do. For a symmetric schedule this call builds the tables of the symmetry.
    pub fn view(&self) -> View<'_> {
        let chart = self.symmetry.as_ref().map(|symmetry| Chart::new(symmetry, self.chunks));
        View { schedule: self, chart, ends: None }
    }

    /// What all ranks do where the blocks of the ranks (in an all-to-all those of the pairs) have these lengths, in any
    /// unit. The schedule must be written out. The view's counts of chunks are then lengths: with k chunks per block,
    /// in units of 1/k of that unit.
    pub(crate) fn view_of_blocks(&self, lengths: &[usize]) -> View<'_> {
        debug_assert!(self.symmetry.is_none() && self.chunks.is_multiple_of(lengths.len()));
        let per_block = self.chunks / lengths.len();
        let each = lengths.iter().flat_map(|length| std::iter::repeat_n(*length, per_block));
        let ends = std::iter::once(0).chain(each.scan(0, |end, length| {
            *end += length;
            Some(*end)
        }));
        View { schedule: self, chart: None, ends: Some(ends.collect()) }
    }

    /// What `rank` does, step by step. For a symmetric schedule the time does not depend on the number of ranks.
    pub fn rows(&self, rank: Rank) -> Vec<Row> {
        let view = self.view();
        let Some(chart) = &view.chart else {
            return self.steps.iter().map(|step| written_row(step, rank)).collect();
        };
        let row = |step: &Step| Row {
            sends: unnumbered(merged(step.sends.iter().map(|send| chart.sent_by(rank, send)))),
            receives: unnumbered(merged(step.sends.iter().map(|send| chart.received_by(rank, send)))),
            locals: step.locals.iter().map(|local| chart.local_of(rank, local)).collect(),
        };
        self.steps.iter().map(row).collect()
    }

    /// The same schedule with the rows of all ranks written out.
    pub fn expand(&self) -> Schedule {
        self.written(|_| true)
    }

    /// The messages and local operations of all ranks, written out: those whose chunks are to be kept.
    pub(crate) fn written(&self, keep: impl Fn(&ChunkSet) -> bool) -> Schedule {
        let chart = self.view().chart;
        let written = |step: &Step| {
            let Some(chart) = &chart else {
                let sends = step.sends.iter().filter(|send| keep(&send.chunks)).cloned().collect();
                let locals = step.locals.iter().filter(|local| keep(&local.chunks)).cloned().collect();
                return Step { sends, locals };
            };
            let sent = |rank| step.sends.iter().map(move |send| chart.sent_by(rank, send));
            let row = |rank| merged(sent(rank).filter(|send| keep(&send.chunks)));
            let mut sends: Vec<(usize, Send)> = (0..self.ranks).flat_map(row).collect();
            // The messages to a rank keep the order of the rank's own row.
            sends.sort_by_key(|(number, _)| *number);
            let done = |rank| step.locals.iter().map(move |local| chart.local_of(rank, local));
            let locals = (0..self.ranks).flat_map(done).filter(|local| keep(&local.chunks)).collect();
            Step { sends: unnumbered(sends), locals }
        };
        let steps = self.steps.iter().map(written).collect();
        Schedule { steps, ..Schedule::empty(&self.name, self.collective, self.ranks, self.chunks) }
    }
}

impl View<'_> {
    /// How many chunks the set has, or their length where blocks have lengths.
    fn size(&self, chunks: &ChunkSet) -> usize {
        match &self.ends {
            None => chunks.len(),
            Some(ends) => chunks.runs().iter().map(|&(start, end)| ends[end] - ends[start]).sum(),
        }
    }

    /// The messages of a step of a symmetric schedule, each of which stands for one message of every rank; `None` where
    /// the schedule is written out. Slices with the same motions share an orbit where their messages can be one.
    pub fn orbits(&self, step: usize) -> Option<Vec<Orbit<'_>>> {
        let chart = self.chart.as_ref()?;
        let sends = &self.schedule.steps[step].sends;
        let mut orbits: Vec<(usize, Orbit<'_>)> = Vec::new();
        for group in by_joint(sends).chunk_by(|a, b| joint(&sends[*a]) == joint(&sends[*b])) {
            let first = orbits.len();
            for number in group {
                let (send, chunks) = (&sends[*number], sends[*number].chunks.len());
                let slice = chart.slice_of(&send.chunks);
                let same =
                    |(_, orbit): &&mut (usize, Orbit<'_>)| orbit.slice().moves_like(chart.slice(slice));
                match orbits[first..].iter_mut().find(same) {
                    Some((_, orbit)) => orbit.chunks += chunks,
                    None => orbits.push((*number, Orbit { chart, send, slice, chunks })),
                }
            }
        }
        orbits.sort_unstable_by_key(|(number, _)| *number);
        Some(orbits.into_iter().map(|(_, orbit)| orbit).collect())
    }

    /// The messages of all ranks in a step, without their contents. For a symmetric schedule, a message with chunks of
    /// several slices counts as several where the motions of these slices differ.
    pub fn transfers(&self, step: usize) -> Vec<Transfer> {
        if let Some(orbits) = self.orbits(step) {
            // An iterator of iterators would take several times as long.
            let mut transfers = Vec::with_capacity(orbits.len() * self.schedule.ranks);
            orbits.iter().for_each(|orbit| transfers.extend(orbit.transfers()));
            return transfers;
        }
        let transfer = |send: &Send| Transfer {
            source: send.source,
            destination: send.destination,
            port: send.port,
            action: send.action,
            chunks: self.size(&send.chunks),
        };
        self.schedule.steps[step].sends.iter().map(transfer).collect()
    }

    /// For every step, the first step that costs the same because its messages differ in their contents only. In a
    /// schedule that is written out a step is compared only with the one before it, so that a run of alike steps is
    /// computed once.
    pub fn first_alike(&self) -> Vec<usize> {
        let steps = &self.schedule.steps;
        let Some(chart) = &self.chart else {
            let mut first: Vec<usize> = (0..steps.len()).collect();
            for index in 1..steps.len() {
                if self.are_alike(&steps[index - 1], &steps[index]) {
                    first[index] = first[index - 1];
                }
            }
            return first;
        };
        let mut known = HashMap::new();
        let first = |(index, step): (usize, &Step)| {
            let sends = step.sends.iter().map(|s| (chart.slice_of(&s.chunks), joint(s), s.chunks.len()));
            let reduced = step.locals.iter().filter(|l| l.action == Action::Reduce).map(|l| l.chunks.len());
            let shape: (Vec<_>, usize) = (sends.collect(), reduced.sum());
            *known.entry(shape).or_insert(index)
        };
        steps.iter().enumerate().map(first).collect()
    }

    /// Whether two steps that are written out differ in the contents of their messages and local operations only.
    fn are_alike(&self, a: &Step, b: &Step) -> bool {
        let sends = |a: &Send, b: &Send| joint(a) == joint(b) && self.size(&a.chunks) == self.size(&b.chunks);
        let locals = |a: &Local, b: &Local| {
            (a.rank, a.action) == (b.rank, b.action) && self.size(&a.chunks) == self.size(&b.chunks)
        };
        let alike = a.sends.len() == b.sends.len() && a.locals.len() == b.locals.len();
        alike
            && a.sends.iter().zip(&b.sends).all(|(a, b)| sends(a, b))
            && a.locals.iter().zip(&b.locals).all(|(a, b)| locals(a, b))
    }

    /// The totals over all ranks in a step: messages, chunks that are sent, and chunks that are reduced.
    pub fn all(&self, step: usize) -> [usize; 3] {
        let Step { sends, locals } = &self.schedule.steps[step];
        let reduces = |action: &Action| usize::from(*action == Action::Reduce);
        let sent = sends.iter().map(|send| self.size(&send.chunks)).sum();
        let arriving: usize = sends.iter().map(|send| reduces(&send.action) * self.size(&send.chunks)).sum();
        let own: usize = locals.iter().map(|local| reduces(&local.action) * self.size(&local.chunks)).sum();
        match &self.chart {
            // Every rank does as much as the first position.
            Some(_) => [self.messages(step), sent, arriving + own].map(|one| one * self.schedule.ranks),
            None => [sends.len(), sent, arriving + own],
        }
    }

    /// The most chunks that a rank copies in a step where receivers read messages in their senders' memory: the chunks
    /// that it sends to be reduced, and those that it receives to copy.
    pub fn copied(&self, step: usize) -> usize {
        let sends = &self.schedule.steps[step].sends;
        if self.chart.is_some() {
            // Every rank sends one of each, and receives one.
            return sends.iter().map(|send| self.size(&send.chunks)).sum();
        }
        let mut copied = vec![0; self.schedule.ranks];
        for send in sends {
            let by = if send.action == Action::Reduce { send.source } else { send.destination };
            copied[by] += self.size(&send.chunks);
        }
        copied.into_iter().max().unwrap_or(0)
    }

    /// The most messages that a rank sends, or receives, in a step.
    pub fn messages(&self, step: usize) -> usize {
        let sends = &self.schedule.steps[step].sends;
        if let Some(chart) = &self.chart {
            // The messages of one rank, of which those that can be one count once. As many arrive.
            let mut joints: Vec<MessageKey> =
                sends.iter().map(|send| joint(&chart.sent_by(0, send))).collect();
            joints.sort_unstable();
            joints.dedup();
            return joints.len();
        }
        let mut counts = vec![[0; 2]; self.schedule.ranks];
        for send in sends {
            counts[send.source][0] += 1;
            counts[send.destination][1] += 1;
        }
        counts.into_iter().flatten().max().unwrap_or(0)
    }

    /// For each rank, how many ranks send to it in a step. Only pairs (source, destination) for which `counts` holds
    /// count.
    pub fn senders(&self, step: usize, counts: impl Fn(Rank, Rank) -> bool) -> Vec<usize> {
        let sends = self.schedule.steps[step].sends.iter();
        let mut pairs: Vec<(Rank, Rank)> = match &self.chart {
            None => sends.map(|send| (send.source, send.destination)).collect(),
            Some(chart) => sends.flat_map(|send| chart.everywhere(send)).map(|(pair, _)| pair).collect(),
        };
        pairs.retain(|(source, destination)| counts(*source, *destination));
        pairs.sort_unstable();
        pairs.dedup();
        let mut senders = vec![0; self.schedule.ranks];
        pairs.into_iter().for_each(|(_, destination)| senders[destination] += 1);
        senders
    }

    /// To how many ranks every rank sends in a step, which is also how many send to it; `None` where the schedule is
    /// written out, since the number may then differ between ranks.
    pub fn partners(&self, step: usize) -> Option<usize> {
        let chart = self.chart.as_ref()?;
        let sends = self.schedule.steps[step].sends.iter();
        let mut partners: Vec<Rank> = sends.map(|send| chart.partner(0, send)).collect();
        partners.sort_unstable();
        partners.dedup();
        Some(partners.len())
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.schedule.ranks
    }

    /// The most chunks that a rank reduces in a step, by messages and by local operations.
    pub fn reduced(&self, step: usize) -> usize {
        let Step { sends, locals } = &self.schedule.steps[step];
        let arriving = sends.iter().map(|s| (s.destination, s.action, &s.chunks));
        let own = locals.iter().map(|l| (l.rank, l.action, &l.chunks));
        let reductions = arriving.chain(own).filter(|(_, action, _)| *action == Action::Reduce);
        if self.chart.is_some() {
            // Every rank receives one of each.
            return reductions.map(|(_, _, chunks)| self.size(chunks)).sum();
        }
        let mut reduced = vec![0; self.schedule.ranks];
        reductions.for_each(|(rank, _, chunks)| reduced[rank] += self.size(chunks));
        reduced.into_iter().max().unwrap_or(0)
    }
}

pub(super) fn unnumbered(sends: Vec<(usize, Send)>) -> Vec<Send> {
    sends.into_iter().map(|(_, send)| send).collect()
}

fn written_row(step: &Step, rank: Rank) -> Row {
    Row {
        sends: step.sends.iter().filter(|s| s.source == rank).cloned().collect(),
        receives: step.sends.iter().filter(|s| s.destination == rank).cloned().collect(),
        locals: step.locals.iter().filter(|l| l.rank == rank).cloned().collect(),
    }
}

/// Two messages with the same values of these can be one message: source, destination, port, action and slots.
type MessageKey = (Rank, Rank, Port, Action, Slot, Slot);

fn joint(send: &Send) -> MessageKey {
    (send.source, send.destination, send.port, send.action, send.from, send.into)
}

/// Merges messages between the same two ranks with the same port, action and slots into one, at the place of the first
/// of them. Returns the messages with their places.
pub(super) fn merged(sends: impl Iterator<Item = Send>) -> Vec<(usize, Send)> {
    let mut sends: Vec<Send> = sends.collect();
    let order = by_joint(&sends);
    let mut absorbed = vec![false; sends.len()];
    let groups = order.chunk_by(|a, b| joint(&sends[*a]) == joint(&sends[*b]));
    let groups: Vec<&[usize]> = groups.filter(|group| group.len() > 1).collect();
    for group in groups {
        let all = || group.iter().map(|number| &sends[*number].chunks);
        let chunks = ChunkSet::from(all().flat_map(ChunkSet::runs).copied().collect::<Vec<_>>());
        // Messages that send a chunk twice stay separate, so that the verifier finds the error.
        if chunks.len() == all().map(ChunkSet::len).sum::<usize>() {
            sends[group[0]].chunks = chunks;
            group[1..].iter().for_each(|number| absorbed[*number] = true);
        }
    }
    sends.into_iter().enumerate().filter(|(number, _)| !absorbed[*number]).collect()
}

/// The numbers of messages such that those that can be one message are in a row, in their order.
fn by_joint(sends: &[Send]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sends.len()).collect();
    order.sort_unstable_by_key(|number| (joint(&sends[*number]), *number));
    order
}

//! One rank's part of a schedule, and everybody's, whether written out or following from a symmetry.

use std::collections::HashMap;

use super::symmetry::Chart;
use super::{Action, ChunkSet, Local, Schedule, Send, Slice, Step};
use crate::units::{Port, Rank, Slot};

/// What one rank does in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// What it sends.
    pub sends: Vec<Send>,
    /// What others send it; what two ranks exchange is in the same order in both their rows.
    pub receives: Vec<Send>,
    /// What it does on its own.
    pub locals: Vec<Local>,
}

/// A message without its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The sender.
    pub source: Rank,
    /// The receiver.
    pub destination: Rank,
    /// The outlet by which it leaves the sender.
    pub port: Port,
    /// What the receiver does with it.
    pub action: Action,
    /// How many chunks it has.
    pub chunks: usize,
}

/// A message that every rank of a symmetric schedule sends in a step, seen from its own place.
pub struct Orbit<'a> {
    chart: &'a Chart<'a>,
    send: &'a Send,
    slice: usize,
    chunks: usize,
}

impl Orbit<'_> {
    /// The slice that it is of.
    pub fn slice(&self) -> &Slice {
        self.chart.slice(self.slice)
    }

    /// To which position the first one sends it.
    pub fn goal(&self) -> usize {
        self.chart.position(self.slice, self.send.destination)
    }

    /// By which port a position sends it.
    pub fn port(&self, position: usize) -> Port {
        self.slice().port(position, self.goal(), self.send.port)
    }

    /// How many chunks it has.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// What all ranks send.
    pub fn transfers(&self) -> impl Iterator<Item = Transfer> + '_ {
        let (action, chunks) = (self.send.action, self.chunks);
        let all = self.chart.everywhere(self.send);
        all.map(move |((source, destination), port)| Transfer { source, destination, port, action, chunks })
    }
}

/// A schedule as all ranks see it, whether it is written out or not: for whoever asks for more than one thing.
pub struct View<'a> {
    schedule: &'a Schedule,
    chart: Option<Chart<'a>>,
    /// Where blocks differ in length: how long all chunks before each are together. Else every chunk counts 1.
    ends: Option<Vec<usize>>,
}

impl Schedule {
    /// What all ranks do. Where the schedule is symmetric, this is the moment in which the symmetry is looked into.
    pub fn view(&self) -> View<'_> {
        let chart = self.symmetry.as_ref().map(|symmetry| Chart::new(symmetry, self.chunks));
        View { schedule: self, chart, ends: None }
    }

    /// What all ranks do where the blocks of the ranks (in an all-to-all of the pairs) have these lengths, in any unit; of a
    /// schedule that is written out.
    /// Whatever counts chunks counts their lengths then, in parts of that unit: as many as a block has chunks.
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

    /// What `rank` does, step by step. Takes no longer for more ranks where the schedule is symmetric.
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

    /// The same schedule with all ranks' rows written out.
    pub fn expand(&self) -> Schedule {
        let Some(chart) = self.view().chart else { return self.clone() };
        let expanded = |step: &Step| {
            let row = |rank| merged(step.sends.iter().map(|send| chart.sent_by(rank, send)));
            let mut sends: Vec<(usize, Send)> = (0..self.ranks).flat_map(row).collect();
            // What one rank receives stays in the order that its own row has.
            sends.sort_by_key(|(number, _)| *number);
            let locals =
                |rank| step.locals.iter().map(|local| chart.local_of(rank, local)).collect::<Vec<_>>();
            Step { sends: unnumbered(sends), locals: (0..self.ranks).flat_map(locals).collect() }
        };
        let steps = self.steps.iter().map(expanded).collect();
        Schedule { steps, ..Schedule::empty(&self.name, self.collective, self.ranks, self.chunks) }
    }
}

impl View<'_> {
    /// How many chunks these are, or how long.
    fn size(&self, chunks: &ChunkSet) -> usize {
        match &self.ends {
            None => chunks.len(),
            Some(ends) => chunks.runs().iter().map(|&(start, end)| ends[end] - ends[start]).sum(),
        }
    }

    /// The messages of a symmetric schedule's step, each of which stands for one of every rank. Slices share one where
    /// motions do the same to both.
    pub fn orbits(&self, step: usize) -> Option<Vec<Orbit<'_>>> {
        let chart = self.chart.as_ref()?;
        let mut orbits: Vec<Orbit<'_>> = Vec::new();
        let mut places: HashMap<Joint, Vec<usize>> = HashMap::new();
        for send in &self.schedule.steps[step].sends {
            let slice = chart.slice_of(&send.chunks);
            let alike = places.entry(joint(send)).or_default();
            let same = |place: &&usize| orbits[**place].slice().moves_like(chart.slice(slice));
            match alike.iter().find(same).copied() {
                Some(place) => orbits[place].chunks += send.chunks.len(),
                None => {
                    alike.push(orbits.len());
                    orbits.push(Orbit { chart, send, slice, chunks: send.chunks.len() });
                }
            }
        }
        Some(orbits)
    }

    /// The messages of all ranks in a step, without their contents. Of a symmetric schedule, slices that share a message
    /// are told apart where motions do not do the same to them.
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

    /// For every step the first one that costs the same, because its messages differ in contents only. Of a schedule that
    /// is written out, every step counts as different.
    pub fn first_alike(&self) -> Vec<usize> {
        let steps = &self.schedule.steps;
        let Some(chart) = &self.chart else { return (0..steps.len()).collect() };
        let mut known = HashMap::new();
        let first = |(index, step): (usize, &Step)| {
            let sends = step.sends.iter().map(|s| (chart.slice_of(&s.chunks), joint(s), s.chunks.len()));
            let reduced = step.locals.iter().filter(|l| l.action == Action::Reduce).map(|l| l.chunks.len());
            let shape: (Vec<_>, usize) = (sends.collect(), reduced.sum());
            *known.entry(shape).or_insert(index)
        };
        steps.iter().enumerate().map(first).collect()
    }

    /// What all ranks do together in a step: messages, chunks that are sent, and chunks that are reduced.
    pub fn all(&self, step: usize) -> [usize; 3] {
        let Step { sends, locals } = &self.schedule.steps[step];
        let reduces = |action: &Action| usize::from(*action == Action::Reduce);
        let sent = sends.iter().map(|send| self.size(&send.chunks)).sum();
        let arriving: usize = sends.iter().map(|send| reduces(&send.action) * self.size(&send.chunks)).sum();
        let own: usize = locals.iter().map(|local| reduces(&local.action) * self.size(&local.chunks)).sum();
        match &self.chart {
            // As every rank does.
            Some(_) => [self.messages(step), sent, arriving + own].map(|one| one * self.schedule.ranks),
            None => [sends.len(), sent, arriving + own],
        }
    }

    /// The most chunks that a rank copies in a step where messages are read in their senders' memory: those it sends to be
    /// reduced, and those it receives to keep them.
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
            // One rank's, of which those that are alike travel together; as many arrive.
            let mut joints: Vec<Joint> = sends.iter().map(|send| joint(&chart.sent_by(0, send))).collect();
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

    /// How many ranks send something to each in a step, of the senders and receivers that count.
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

    /// To how many ranks every rank sends in a step, and how many send to it; `None` where that is not everywhere the same.
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

    /// The most chunks that a rank reduces in a step, whether they arrive or are its own.
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

/// What two messages have in common that can be one.
type Joint = (Rank, Rank, Port, Action, Slot, Slot);

fn joint(send: &Send) -> Joint {
    (send.source, send.destination, send.port, send.action, send.from, send.into)
}

/// Makes one message of all that a rank sends to another one by the same port for the same purpose, in the place of the
/// first of them, which is told.
pub(super) fn merged(sends: impl Iterator<Item = Send>) -> Vec<(usize, Send)> {
    let most = sends.size_hint().0;
    let mut groups: Vec<Vec<(usize, Send)>> = Vec::with_capacity(most);
    let mut places: HashMap<Joint, usize> = HashMap::with_capacity(most);
    for (number, send) in sends.enumerate() {
        let place = *places.entry(joint(&send)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push((number, send)),
            None => groups.push(vec![(number, send)]),
        }
    }
    let mut merged: Vec<(usize, Send)> = Vec::new();
    for group in groups {
        let runs: Vec<(usize, usize)> = group.iter().flat_map(|(_, s)| s.chunks.runs()).copied().collect();
        let chunks = ChunkSet::from(runs);
        // What is sent twice stays as many messages, and wrong.
        if chunks.len() == group.iter().map(|(_, send)| send.chunks.len()).sum::<usize>() {
            merged.extend(group.into_iter().next().map(|(number, send)| (number, Send { chunks, ..send })));
        } else {
            merged.extend(group);
        }
    }
    merged.sort_by_key(|(number, _)| *number);
    merged
}

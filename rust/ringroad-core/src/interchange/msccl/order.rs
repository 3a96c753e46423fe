//! Whether MSCCL performs a program in the order in which it is read as a schedule.
//!
//! MSCCL knows no steps. Its thread blocks run their steps one after the other, a step waits for the one that it names,
//! and a message arrives after it was sent; nothing else has an order. So what waits for itself by these rules hangs,
//! whatever steps the file states. And two steps that use the same place, of which one writes it, must be in the order
//! in which the schedule has them: otherwise the result depends on chance.

use std::collections::VecDeque;

use super::document::{Instruction, Program};
use super::levels::MatchedMessage;
use crate::interchange::InterchangeError;

const NONE: u32 = u32::MAX;
/// The most instructions that all searches together look at: far more than published programs need.
const MOST_LOOKS: usize = 1 << 27;

/// The order of instructions in MSCCL.
pub(super) struct InstructionOrder<'a> {
    program: &'a Program,
    /// For each instruction that receives, the one that sends.
    senders: Vec<u32>,
    /// The place of each instruction in a sequence in which none waits for a later one.
    positions: Vec<u32>,
    /// The instruction that wrote each place last, and those that have read it since, as a list.
    writers: Vec<u32>,
    readers: Vec<u32>,
    lists: Vec<(u32, u32)>,
    /// The search that has seen each instruction last, the number of searches, and what they have looked at.
    seen: Vec<u32>,
    searches: u32,
    looks: usize,
    /// The last two instructions that were found to be in order.
    known: (u32, u32),
}

impl<'a> InstructionOrder<'a> {
    /// The order of a program. An error where something waits for itself.
    pub fn from_program(
        program: &'a Program,
        messages: &[MatchedMessage],
    ) -> Result<InstructionOrder<'a>, InterchangeError> {
        let count = program.instructions.len();
        let mut senders = vec![NONE; count];
        messages.iter().for_each(|message| senders[message.receiver] = message.sender as u32);
        let empty = || vec![NONE; program.places()];
        let mut order = InstructionOrder {
            program,
            senders,
            positions: vec![NONE; count],
            writers: empty(),
            readers: empty(),
            lists: Vec::new(),
            seen: vec![0; count],
            searches: 0,
            looks: 0,
            known: (NONE, NONE),
        };
        order.arrange()?;
        Ok(order)
    }

    /// What an instruction comes after.
    fn before(&self, index: usize) -> impl Iterator<Item = usize> {
        let Instruction { block, waits, .. } = self.program.instructions[index];
        let previous = (index > self.program.blocks[block].range.start).then(|| index - 1);
        let sender = Some(self.senders[index]).filter(|sender| *sender != NONE);
        waits.into_iter().chain(previous).chain(sender.map(|sender| sender as usize))
    }

    /// Finds a sequence of all instructions.
    fn arrange(&mut self) -> Result<(), InterchangeError> {
        let count = self.positions.len();
        let mut missing = vec![0u32; count];
        let mut starts = vec![0u32; count + 1];
        for (index, missing) in missing.iter_mut().enumerate() {
            for before in self.before(index) {
                *missing += 1;
                starts[before + 1] += 1;
            }
        }
        (0..count).for_each(|index| starts[index + 1] += starts[index]);
        let mut next = starts.clone();
        let mut after = vec![0u32; starts[count] as usize];
        for index in 0..count {
            for before in self.before(index) {
                after[next[before] as usize] = index as u32;
                next[before] += 1;
            }
        }
        let mut free: Vec<usize> = (0..count).filter(|index| missing[*index] == 0).collect();
        let mut position = 0;
        while let Some(index) = free.pop() {
            self.positions[index] = position;
            position += 1;
            for later in &after[starts[index] as usize..starts[index + 1] as usize] {
                missing[*later as usize] -= 1;
                if missing[*later as usize] == 0 {
                    free.push(*later as usize);
                }
            }
        }
        match self.positions.iter().position(|position| *position == NONE) {
            Some(stuck) => Err(self.cycle(stuck)),
            None => Ok(()),
        }
    }

    /// The error for an instruction without a position: going back from it leads into a cycle.
    fn cycle(&self, stuck: usize) -> InterchangeError {
        let mut way = vec![stuck];
        let mut at = vec![false; self.positions.len()];
        loop {
            let here = way[way.len() - 1];
            if std::mem::replace(&mut at[here], true) {
                let first = way.iter().position(|other| *other == here).unwrap_or(0);
                let lines = way[first + 1..].iter().rev().take(8).map(|i| self.line(*i).to_string());
                let lines: Vec<String> = lines.collect();
                let dots = if way.len() - first > 9 { ", ..." } else { "" };
                let what = format!(
                    "this waits for itself in MSCCL, by way of the lines {}{dots}, whatever rounds the file states",
                    lines.join(", ")
                );
                return InterchangeError::at(self.line(here), what);
            }
            let stuck = |index: &usize| self.positions[*index] == NONE;
            way.extend(self.before(here).find(stuck));
        }
    }

    fn line(&self, index: usize) -> usize {
        self.program.instructions[index].line
    }

    /// An instruction reads places, after all that used them so far.
    pub fn read(&mut self, index: usize, first: usize) -> Result<(), InterchangeError> {
        for place in first..first + self.program.instructions[index].count {
            self.check(self.writers[place], index, place)?;
            self.lists.push((index as u32, self.readers[place]));
            self.readers[place] = self.lists.len() as u32 - 1;
        }
        Ok(())
    }

    /// An instruction writes places, after all that used them so far.
    pub fn write(&mut self, index: usize, first: usize) -> Result<(), InterchangeError> {
        for place in first..first + self.program.instructions[index].count {
            self.check(self.writers[place], index, place)?;
            let mut reader = std::mem::replace(&mut self.readers[place], NONE);
            while reader != NONE {
                let (other, next) = self.lists[reader as usize];
                self.check(other, index, place)?;
                reader = next;
            }
            self.writers[place] = index as u32;
        }
        Ok(())
    }

    /// Checks that an instruction comes after an earlier user of the same place.
    fn check(&mut self, earlier: u32, later: usize, place: usize) -> Result<(), InterchangeError> {
        let pair = (earlier, later as u32);
        if earlier == NONE || earlier as usize == later || self.known == pair {
            return Ok(());
        }
        if !self.is_before(earlier as usize, later)? {
            let what = format!(
                "it uses {} as the step in line {} does, but nothing makes it wait for that step (by depid and deps, \
                 in its thread block, or through messages), so MSCCL may perform the two in any order",
                self.program.named(place),
                self.line(earlier as usize)
            );
            return Err(InterchangeError::at(self.line(later), what));
        }
        self.known = pair;
        Ok(())
    }

    /// Searches back from the later instruction, the nearest first.
    fn is_before(&mut self, earlier: usize, later: usize) -> Result<bool, InterchangeError> {
        let limit = self.positions[earlier];
        let block = self.program.instructions[earlier].block;
        self.searches += 1;
        let mut queue = VecDeque::from([later]);
        while let Some(here) = queue.pop_front() {
            if self.program.instructions[here].block == block && here >= earlier {
                return Ok(true);
            }
            self.looks += 1;
            if self.looks > MOST_LOOKS {
                let what = "the order of the steps takes more looks to check".to_owned();
                return Err(InterchangeError::TooLarge { what, most: MOST_LOOKS });
            }
            for before in self.before(here) {
                let new = std::mem::replace(&mut self.seen[before], self.searches) != self.searches;
                if new && self.positions[before] >= limit {
                    queue.push_back(before);
                }
            }
        }
        Ok(false)
    }
}

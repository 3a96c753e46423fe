//! Execution plans of MSCCL++ in JSON, as its executor of version 0.9.0 reads them.
//!
//! Ranks exchange data by memory channels. In each step of the schedule a rank puts its chunks into memory of its
//! peers, signals, waits for its peers' signals, and then combines what has arrived. A message is put straight to its
//! place if the receiver holds nothing there, and otherwise into scratch memory, because the receiver may still need
//! what it has. The first operations wait until the peers have entered the call.
//!
//! An executor's thread block has at most 64 operations, so a rank has a thread block for every few steps; they take
//! turns by semaphores. All ranks change blocks at the same steps, since the n-th channel between two ranks is the n-th
//! at both.
//!
//! Sources: `execution_plan.cc`, `execution_common.hpp`, `execution_kernel.hpp` and `executor.cc` of microsoft/mscclpp.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ringroad_core::collective::Collective;
use ringroad_core::interchange::buffers::{Location, ProgramBuffer, Run, SlotPlaces};
use ringroad_core::interchange::InterchangeError;
use ringroad_core::schedule::{Action, Schedule, Send};
use ringroad_core::units::{ChunkId, Rank, Slot};
use serde::Serialize;

/// The version of MSCCL++ whose executor reads the plans.
pub const VERSION: &str = "0.9.0";
/// The executor's limits.
const MOST_OPERATIONS: usize = 64;
const MOST_BLOCKS: usize = 17;
const MOST_CHANNELS: usize = 16;
const MOST_CHANNELS_PER_OPERATION: usize = 8;

#[derive(Serialize)]
struct MscclppPlan {
    name: String,
    collective: &'static str,
    protocol: &'static str,
    inplace: bool,
    reuse_resources: bool,
    gpus: Vec<Gpu>,
    num_threads_per_block: u32,
    use_double_scratch_buffer: bool,
    buffer_alignment: u32,
    min_message_size: u64,
    max_message_size: u64,
}

#[derive(Serialize)]
struct Gpu {
    id: Rank,
    input_chunks: usize,
    output_chunks: usize,
    scratch_chunks: usize,
    threadblocks: Vec<GpuBlock>,
    channels: Vec<GpuChannels>,
    remote_buffers: Vec<RemoteBuffer>,
    semaphores: Vec<Semaphore>,
}

#[derive(Serialize)]
struct GpuChannels {
    channel_type: &'static str,
    connected_to: Vec<Rank>,
}

#[derive(Serialize)]
struct RemoteBuffer {
    rank: Rank,
    #[serde(rename = "type")]
    buffer: &'static str,
    access_channel_types: [&'static str; 1],
}

#[derive(Serialize)]
struct Semaphore {
    init_value: u32,
}

#[derive(Serialize)]
struct GpuBlock {
    id: usize,
    ops: Vec<GpuOperation>,
    channels: Vec<BlockChannels>,
    remote_buffer_refs: Vec<BlockBuffers>,
}

#[derive(Serialize)]
struct BlockChannels {
    channel_type: &'static str,
    channel_ids: Vec<usize>,
}

#[derive(Serialize)]
struct BlockBuffers {
    access_channel_type: &'static str,
    remote_buffer_ids: Vec<usize>,
}

#[derive(Serialize, Default)]
struct GpuOperation {
    name: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    src_buff: Vec<BufferPart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dst_buff: Vec<BufferPart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    channel_ids: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    semaphore_ids: Vec<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reduce_op: Option<&'static str>,
}

#[derive(Serialize)]
struct BufferPart {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    buffer: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    buffer_id: Option<usize>,
    index: usize,
    size: usize,
}

impl GpuOperation {
    fn named(name: &'static str) -> GpuOperation {
        GpuOperation { name, ..GpuOperation::default() }
    }

    fn local(action: Action, run: Run) -> GpuOperation {
        let part = |(buffer, index): Location| BufferPart {
            buffer: Some(buffer.letter()),
            buffer_id: None,
            index,
            size: run.count,
        };
        let (name, src_buff, reduce_op) = match action {
            Action::Reduce => ("re", vec![part(run.target), part(run.source)], Some("sum")),
            Action::Copy => ("copy", vec![part(run.source)], None),
        };
        GpuOperation {
            name,
            src_buff,
            dst_buff: vec![part(run.target)],
            reduce_op,
            ..GpuOperation::default()
        }
    }
}

/// What a rank does in a step: what it puts where, from whom it waits for a signal, and what it then combines.
#[derive(Default)]
struct Turn {
    puts: Vec<(Rank, Run)>,
    signals: BTreeSet<Rank>,
    waits: BTreeSet<Rank>,
    combines: Vec<(Action, Run)>,
}

impl Turn {
    /// How many operations this takes, each `nop` included (see [`push_turn`]).
    fn cost(&self) -> usize {
        let signals = |peers: &BTreeSet<Rank>| peers.len().div_ceil(MOST_CHANNELS_PER_OPERATION);
        let nops = usize::from(!self.puts.is_empty()) + usize::from(!self.waits.is_empty());
        self.puts.len() + signals(&self.signals) + signals(&self.waits) + 2 * self.combines.len() + nops
    }
}

fn inexpressible(what: String) -> InterchangeError {
    InterchangeError::Inexpressible { format: "an execution plan of MSCCL++", what }
}

/// Writes an allreduce, allgather, reduce-scatter or all-to-all.
pub fn write(schedule: &Schedule) -> Result<String, InterchangeError> {
    let name = match schedule.collective {
        Collective::Allreduce => "allreduce",
        Collective::Allgather => "allgather",
        Collective::ReduceScatter => "reducescatter",
        Collective::Alltoall => "alltoall",
        other => return Err(inexpressible(format!("there is no collective {}", other.name()))),
    };
    let schedule = schedule.expand();
    let buffers = SlotPlaces::new(&schedule);
    let mut scratch: Vec<usize> = (0..schedule.ranks).map(|rank| buffers.scratch(rank)).collect();
    let turns = turns(&schedule, &buffers, &mut scratch);
    let borders = borders(&turns)?;
    let vector = buffers.vector();
    let block = vector / schedule.ranks;
    let [input, output] = match schedule.collective {
        Collective::Allgather => [block, vector],
        Collective::ReduceScatter => [vector, block],
        _ => [vector, vector],
    };
    let gpu = |rank: Rank| -> Result<Gpu, InterchangeError> {
        let mut writer = GpuResources::default();
        let mut blocks = Vec::new();
        for (id, border) in borders.windows(2).enumerate() {
            let own = turns[border[0]..border[1]].iter().map(|turns| &turns[rank]);
            blocks.push(writer.block(id, own, id + 2 == borders.len(), rank)?);
        }
        Ok(Gpu {
            id: rank,
            input_chunks: input,
            output_chunks: output,
            scratch_chunks: scratch[rank],
            threadblocks: blocks,
            channels: vec![GpuChannels { channel_type: "memory", connected_to: writer.channels }],
            remote_buffers: writer
                .remote
                .iter()
                .map(|(rank, buffer)| RemoteBuffer {
                    rank: *rank,
                    buffer: buffer.letter(),
                    access_channel_types: ["memory"],
                })
                .collect(),
            semaphores: (0..borders.len() - 2).map(|_| Semaphore { init_value: 0 }).collect(),
        })
    };
    let plan = MscclppPlan {
        name: schedule.name.clone(),
        collective: name,
        protocol: "Simple",
        inplace: buffers.in_place(),
        reuse_resources: false,
        gpus: (0..schedule.ranks).map(gpu).collect::<Result<_, _>>()?,
        num_threads_per_block: 1024,
        use_double_scratch_buffer: false,
        buffer_alignment: 16,
        min_message_size: 0,
        max_message_size: u64::MAX,
    };
    Ok(serde_json::to_string_pretty(&plan).expect("a plan holds only numbers and strings"))
}

/// What all ranks do: first they tell those who will write to them that they have entered, then the steps follow.
fn turns(schedule: &Schedule, buffers: &SlotPlaces, scratch: &mut [usize]) -> Vec<Vec<Turn>> {
    let empty = || (0..schedule.ranks).map(|_| Turn::default()).collect::<Vec<Turn>>();
    let mut turns = vec![empty()];
    for Send { source, destination, .. } in schedule.steps.iter().flat_map(|step| &step.sends) {
        turns[0][*destination].signals.insert(*source);
        turns[0][*source].waits.insert(*destination);
    }
    // The slots in which each rank has had a value.
    let mut held: Vec<HashSet<(Slot, ChunkId)>> = vec![HashSet::new(); schedule.ranks];
    for (rank, held) in held.iter_mut().enumerate() {
        let has = |chunk: &ChunkId| {
            schedule.collective.input_block(schedule.ranks, schedule.chunks, rank, *chunk).is_some()
        };
        held.extend((0..schedule.chunks).filter(has).map(|chunk| (0, chunk)));
        turns[0][rank].combines.extend(buffers.own(rank).map(|run| (Action::Copy, run)));
    }
    for step in &schedule.steps {
        let mut turn = empty();
        let mut written = Vec::new();
        for send in &step.sends {
            let (source, destination) = (send.source, send.destination);
            turn[source].signals.insert(destination);
            turn[destination].waits.insert(source);
            let is_new = |chunk| !held[destination].contains(&(send.into, chunk));
            let direct = send.action == Action::Copy && send.chunks.iter().all(is_new);
            for run in buffers.runs((source, send.from), (destination, send.into), &send.chunks, usize::MAX) {
                if direct {
                    turn[source].puts.push((destination, run));
                } else {
                    let staged = (ProgramBuffer::Scratch, scratch[destination]);
                    scratch[destination] += run.count;
                    turn[source].puts.push((destination, Run { target: staged, ..run }));
                    turn[destination].combines.push((send.action, Run { source: staged, ..run }));
                }
            }
            written.extend(send.chunks.iter().map(|chunk| (destination, (send.into, chunk))));
        }
        for local in &step.locals {
            let rank = local.rank;
            for run in buffers.runs((rank, local.from), (rank, local.into), &local.chunks, usize::MAX) {
                turn[rank].combines.push((local.action, run));
            }
            written.extend(local.chunks.iter().map(|chunk| (rank, (local.into, chunk))));
        }
        for (rank, slot) in written {
            held[rank].insert(slot);
        }
        turns.push(turn);
    }
    turns
}

/// Before which turns all ranks change thread blocks, with the first and the end.
fn borders(turns: &[Vec<Turn>]) -> Result<Vec<usize>, InterchangeError> {
    // The blocks take turns by an operation at the start and two at the end.
    const OWN: usize = 4;
    let mut borders = vec![0];
    let mut used = vec![OWN; turns[0].len()];
    for (number, turn) in turns.iter().enumerate() {
        let costs: Vec<usize> = turn.iter().map(Turn::cost).collect();
        if let Some(rank) = costs.iter().position(|cost| cost + OWN > MOST_OPERATIONS) {
            let what = format!(
                "rank {rank} needs {} operations in step {}, and a thread block has at most {MOST_OPERATIONS}",
                costs[rank] + OWN,
                number.saturating_sub(1)
            );
            return Err(inexpressible(what));
        }
        if used.iter().zip(&costs).any(|(used, cost)| used + cost > MOST_OPERATIONS) {
            borders.push(number);
            used.fill(OWN);
        }
        used.iter_mut().zip(costs).for_each(|(used, cost)| *used += cost);
    }
    borders.push(turns.len());
    if borders.len() - 1 > MOST_BLOCKS {
        let what = format!("it takes {} thread blocks in turn, of at most {MOST_BLOCKS}", borders.len() - 1);
        return Err(inexpressible(what));
    }
    Ok(borders)
}

/// The channels and remote buffers of a rank, which its thread blocks share.
#[derive(Default)]
struct GpuResources {
    /// The peer of each channel; every thread block has channels of its own.
    channels: Vec<Rank>,
    remote: Vec<(Rank, ProgramBuffer)>,
    ids: HashMap<(Rank, ProgramBuffer), usize>,
}

impl GpuResources {
    fn block<'a>(
        &mut self,
        id: usize,
        turns: impl Iterator<Item = &'a Turn> + Clone,
        is_last: bool,
        rank: Rank,
    ) -> Result<GpuBlock, InterchangeError> {
        // The numbers of channels and remote buffers within the block.
        let peers: BTreeSet<Rank> =
            turns.clone().flat_map(|turn| turn.signals.union(&turn.waits)).copied().collect();
        let written = turns.clone().flat_map(|turn| &turn.puts).map(|(peer, run)| (*peer, run.target.0));
        let written: BTreeSet<(Rank, ProgramBuffer)> = written.collect();
        if peers.len().max(written.len()) > MOST_CHANNELS {
            let what = format!(
                "rank {rank} has {} peers and {} of their buffers within a thread block, of at most {MOST_CHANNELS}",
                peers.len(),
                written.len()
            );
            return Err(inexpressible(what));
        }
        let first = self.channels.len();
        self.channels.extend(&peers);
        let channel: BTreeMap<Rank, usize> =
            peers.iter().enumerate().map(|(number, peer)| (*peer, number)).collect();
        let mut remote_ids = Vec::new();
        let mut buffer: HashMap<(Rank, ProgramBuffer), usize> = HashMap::new();
        for key in written {
            let next = self.remote.len();
            let id = *self.ids.entry(key).or_insert(next);
            if id == next {
                self.remote.push(key);
            }
            buffer.insert(key, remote_ids.len());
            remote_ids.push(id);
        }
        let mut ops = Vec::new();
        if id > 0 {
            ops.push(GpuOperation { semaphore_ids: vec![id - 1], ..GpuOperation::named("sem_acquire") });
            ops.push(GpuOperation::named("nop"));
        }
        for turn in turns {
            push_turn(&mut ops, turn, &channel, &buffer);
        }
        if !is_last {
            ops.push(GpuOperation::named("nop"));
            ops.push(GpuOperation { semaphore_ids: vec![id], ..GpuOperation::named("sem_release") });
        }
        Ok(GpuBlock {
            id,
            ops,
            channels: vec![BlockChannels {
                channel_type: "memory",
                channel_ids: (first..self.channels.len()).collect(),
            }],
            remote_buffer_refs: vec![BlockBuffers {
                access_channel_type: "memory",
                remote_buffer_ids: remote_ids,
            }],
        })
    }
}

/// Adds the operations of a turn. A `nop` lets the threads of a block wait for each other.
fn push_turn(
    ops: &mut Vec<GpuOperation>,
    turn: &Turn,
    channel: &BTreeMap<Rank, usize>,
    buffer: &HashMap<(Rank, ProgramBuffer), usize>,
) {
    for (peer, run) in &turn.puts {
        let ((from, index), (into, remote), size) = (run.source, run.target, run.count);
        ops.push(GpuOperation {
            src_buff: vec![BufferPart { buffer: Some(from.letter()), buffer_id: None, index, size }],
            dst_buff: vec![BufferPart {
                buffer: None,
                buffer_id: Some(buffer[&(*peer, into)]),
                index: remote,
                size,
            }],
            channel_ids: vec![channel[peer]],
            channel_type: Some("memory"),
            ..GpuOperation::named("put")
        });
    }
    if !turn.puts.is_empty() {
        ops.push(GpuOperation::named("nop"));
    }
    for (name, peers) in [("signal", &turn.signals), ("wait", &turn.waits)] {
        let ids: Vec<usize> = peers.iter().map(|peer| channel[peer]).collect();
        for ids in ids.chunks(MOST_CHANNELS_PER_OPERATION) {
            let channel_type = Some("memory");
            ops.push(GpuOperation { channel_ids: ids.to_vec(), channel_type, ..GpuOperation::named(name) });
        }
    }
    if !turn.waits.is_empty() {
        ops.push(GpuOperation::named("nop"));
    }
    // What is combined into a place may be combined further.
    for (action, run) in &turn.combines {
        ops.push(GpuOperation::local(*action, *run));
        ops.push(GpuOperation::named("nop"));
    }
}

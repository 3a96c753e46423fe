//! Chakra execution traces, the input of ASTRA-sim: for each rank a file with a graph of nodes that send, receive and
//! compute.
//!
//! A file is a sequence of protobuf messages, each after its length: one `GlobalMetadata`, then a `Node` for each
//! operation of the rank's plan, after the nodes that it waits for. The few fields that are needed are encoded here.
//!
//! Source: `et_def.proto`, `et_feeder_node.cpp` and `generator.py` of mlcommons/chakra; the schema's version is 1.0.0.

use ringroad_core::plan::Plan;
use ringroad_core::schedule::Schedule;
use ringroad_core::simulate::{SimulationError, Simulator};
use ringroad_core::units::{Bytes, Rank};

use super::goal::{operations, GoalStep};

/// The version of the schema that the traces name.
pub const SCHEMA_VERSION: &str = "1.0.0";

const COMPUTE: u64 = 4;
const SEND: u64 = 5;
const RECEIVE: u64 = 6;

/// The value of an attribute.
enum Value {
    Int32(u64),
    Int64(u64),
    Uint64(u64),
    Bool(bool),
}

/// A protobuf message: fields in the order of their numbers.
#[derive(Default)]
struct ProtobufMessage(Vec<u8>);

impl ProtobufMessage {
    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(0x80 | (number & 0x7f) as u8);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u64, number: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn numbers(&mut self, field: u64, numbers: &[usize]) -> &mut Self {
        if !numbers.is_empty() {
            let mut packed = ProtobufMessage::default();
            numbers.iter().for_each(|number| packed.varint(*number as u64));
            self.bytes(field, &packed.0);
        }
        self
    }

    fn attribute(&mut self, name: &str, value: Value) -> &mut Self {
        let mut attribute = ProtobufMessage::default();
        attribute.bytes(1, name.as_bytes());
        match value {
            Value::Int32(number) => attribute.number(7, number),
            Value::Int64(number) => attribute.number(9, number),
            Value::Uint64(number) => attribute.number(13, number),
            Value::Bool(value) => attribute.number(27, u64::from(value)),
        };
        self.bytes(10, &attribute.0)
    }
}

/// Writes a call of a schedule, for a vector of `bytes`, with the plans and the cost of reductions of `simulator`: the
/// files of all ranks.
pub fn write(
    schedule: &Schedule,
    bytes: Bytes,
    simulator: &Simulator,
) -> Result<Vec<Vec<u8>>, SimulationError> {
    schedule.verify().map_err(SimulationError::from)?;
    let plans = simulator.plans(schedule, bytes)?;
    Ok(plans.iter().enumerate().map(|(rank, plan)| file(rank, plan, simulator)).collect())
}

fn file(rank: Rank, plan: &Plan, simulator: &Simulator) -> Vec<u8> {
    let mut file = ProtobufMessage::default();
    let mut add = |message: &ProtobufMessage| {
        file.varint(message.0.len() as u64);
        file.0.extend(&message.0);
    };
    add(ProtobufMessage::default().bytes(1, SCHEMA_VERSION.as_bytes()));
    for (number, (work, waits)) in operations(plan, simulator.model.reduce_cost).into_iter().enumerate() {
        let (name, kind) = match work {
            GoalStep::Send { peer, tag, .. } => (format!("send_{peer}_{tag}"), SEND),
            GoalStep::Receive { peer, tag, .. } => (format!("receive_{peer}_{tag}"), RECEIVE),
            GoalStep::Reduce { .. } => (format!("reduce_{number}"), COMPUTE),
        };
        let mut node = ProtobufMessage::default();
        node.number(1, number as u64).bytes(2, name.as_bytes()).number(3, kind).numbers(5, &waits);
        match work {
            GoalStep::Send { peer, tag, bytes } | GoalStep::Receive { peer, tag, bytes } => {
                let (source, target) = if kind == SEND { (rank, peer) } else { (peer, rank) };
                node.attribute("is_cpu_op", Value::Bool(false))
                    .attribute("comm_src", Value::Int32(source as u64))
                    .attribute("comm_dst", Value::Int32(target as u64))
                    .attribute("comm_tag", Value::Int32(u64::from(tag)))
                    .attribute("comm_size", Value::Int64(bytes as u64));
            }
            GoalStep::Reduce { bytes, seconds } => {
                node.number(7, (seconds * 1e6).round() as u64)
                    .attribute("is_cpu_op", Value::Bool(false))
                    .attribute("num_ops", Value::Int64(bytes as u64))
                    .attribute("tensor_size", Value::Uint64(bytes as u64));
            }
        }
        add(&node);
    }
    file.0
}

//! Timelines of events: one type for simulated and measured ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use crate::units::{Bytes, Rank, Seconds};

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceKind {
    /// A call, from its start to its end on this rank. The peer is the rank itself.
    Call,
    /// A send, from posting it until its memory could be reused.
    Send,
    /// A receive, from posting it until the data had arrived.
    Receive,
    /// A reduction on the rank's processor. The peer is the rank itself.
    Reduce,
    /// Elements become a message in a wire format. The peer is the rank itself.
    Encode,
    /// A message in a wire format becomes elements, or is added to elements. The peer is the rank itself.
    Decode,
}

impl TraceKind {
    const ALL: [TraceKind; 6] = [
        TraceKind::Call,
        TraceKind::Send,
        TraceKind::Receive,
        TraceKind::Reduce,
        TraceKind::Encode,
        TraceKind::Decode,
    ];

    /// The name, as it is serialised.
    pub fn name(self) -> &'static str {
        match self {
            TraceKind::Call => "call",
            TraceKind::Send => "send",
            TraceKind::Receive => "receive",
            TraceKind::Reduce => "reduce",
            TraceKind::Encode => "encode",
            TraceKind::Decode => "decode",
        }
    }
}

/// One event of one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// The kind of the event.
    pub kind: TraceKind,
    /// The rank on which it happened.
    pub rank: Rank,
    /// The other rank of a message; the rank itself for all else.
    pub peer: Rank,
    /// The size of the message, the larger of a call's input and output, or the number of bytes that were reduced,
    /// encoded or decoded: those of the elements.
    pub bytes: Bytes,
    /// The number of the call within its communicator.
    pub sequence: u32,
    /// The number of the message between the two ranks within the call; 0 for events that are not messages.
    pub message: u32,
    /// The step of the schedule, or `None` where it is unknown: a transport does not know it.
    #[serde(default)]
    pub step: Option<u32>,
    /// The algorithm that performs the call, where it is known.
    #[serde(default)]
    pub algorithm: Option<Arc<str>>,
    /// A description of the call.
    #[serde(default)]
    pub call: Option<Arc<str>>,
    /// When the event started, in seconds since the start of the trace.
    pub start: Seconds,
    /// When the event completed, in seconds since the start of the trace; `None` where it never completed.
    pub end: Option<Seconds>,
}

/// A timeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The events in the order of their start.
    pub events: Vec<TraceEvent>,
}

impl Trace {
    /// The trace in the JSON format of Chrome's trace viewer and of Perfetto: a process for each rank, with as many
    /// rows for each kind of event as events of that kind overlap, and an arrow for each message that arrived. An event
    /// without an end is shown as begun.
    pub fn to_chrome(&self) -> String {
        self.to_chrome_with(json!({}))
    }

    /// As [`Trace::to_chrome`], with `about` as the file's `otherData`.
    pub fn to_chrome_with(&self, about: Value) -> String {
        let mut order: Vec<&TraceEvent> = self.events.iter().collect();
        order.sort_by(|a, b| a.start.total_cmp(&b.start));
        let mut rows = Rows::default();
        // Text, because JSON values take many times as much memory and traces may be long.
        let mut records = String::new();
        for event in order {
            let row = rows.occupy_row(event);
            event.add_chrome_records(row, &mut records);
        }
        let mut all = String::new();
        rows.names().iter().for_each(|name| append(&mut all, name));
        all.push_str(&records);
        let all = all.trim_start_matches(',');
        format!(r#"{{"displayTimeUnit":"ns","otherData":{about},"traceEvents":[{all}]}}"#)
    }
}

/// For every rank and kind of event, the time until which each of its rows is occupied.
#[derive(Default)]
struct Rows(BTreeMap<(Rank, usize), Vec<Seconds>>);

impl Rows {
    /// More rows than a rank ever needs for one kind of event.
    const OF_A_KIND: usize = 1 << 20;

    /// Occupies the first row that is free when the event starts, and returns its number.
    fn occupy_row(&mut self, event: &TraceEvent) -> usize {
        let kind = event.kind as usize;
        let rows = self.0.entry((event.rank, kind)).or_default();
        let row = rows.iter().position(|end| *end <= event.start).unwrap_or(rows.len());
        if row == rows.len() {
            rows.push(0.0);
        }
        rows[row] = event.end.unwrap_or(Seconds::INFINITY);
        kind * Rows::OF_A_KIND + row
    }

    fn names(&self) -> Vec<Value> {
        let (mut names, mut told) = (Vec::new(), None);
        for ((rank, kind), rows) in &self.0 {
            let mut name = |what, row: usize, name: String| {
                names.push(json!({"ph": "M", "name": what, "pid": rank, "tid": row, "args": {"name": name}}));
            };
            if told != Some(*rank) {
                name("process_name", 0, format!("rank {rank}"));
            }
            told = Some(*rank);
            let word = TraceKind::ALL[*kind].name();
            (0..rows.len())
                .for_each(|row| name("thread_name", kind * Rows::OF_A_KIND + row, word.to_owned()));
        }
        names
    }
}

/// Appends a comma and a record.
fn append(records: &mut String, record: &Value) {
    records.push(',');
    records.push_str(&record.to_string());
}

/// Microseconds in a second: the format's unit of time.
const MICROSECONDS: f64 = 1e6;

impl TraceEvent {
    fn add_chrome_records(&self, row: usize, records: &mut String) {
        let name = match self.kind {
            TraceKind::Call => self.call.as_deref().unwrap_or("call").to_owned(),
            TraceKind::Send => format!("send to {}", self.peer),
            TraceKind::Receive => format!("receive from {}", self.peer),
            own => own.name().to_owned(),
        };
        let mut arguments = json!({"peer": self.peer, "bytes": self.bytes, "sequence": self.sequence, "message": self.message});
        if let Some(step) = self.step {
            arguments["step"] = json!(step);
        }
        if let Some(algorithm) = &self.algorithm {
            arguments["algorithm"] = json!(algorithm);
        }
        let mut record = json!({
            "name": name, "cat": self.kind.name(), "pid": self.rank, "tid": row,
            "ts": self.start * MICROSECONDS, "args": arguments,
        });
        match self.end {
            Some(end) => {
                record["ph"] = json!("X");
                record["dur"] = json!((end - self.start) * MICROSECONDS);
            }
            None => record["ph"] = json!("B"),
        }
        append(records, &record);
        // An arrow leads from the start of the send to the end of the receive. Both events compute the same arrow id.
        let (phase, source, destination, at) = match (self.kind, self.end) {
            (TraceKind::Send, Some(_)) => ("s", self.rank, self.peer, self.start),
            (TraceKind::Receive, Some(end)) => ("f", self.peer, self.rank, end),
            _ => return,
        };
        let arrow = json!({
            "ph": phase, "bp": "e", "name": "message", "cat": "message", "pid": self.rank, "tid": row,
            "ts": at * MICROSECONDS, "id": format!("{}.{source}.{destination}.{}", self.sequence, self.message),
        });
        append(records, &arrow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chrome_sees_every_event() {
        let event = |kind, rank: Rank, peer: Rank, start, end| TraceEvent {
            kind,
            rank,
            peer,
            bytes: 64,
            sequence: 7,
            message: 3,
            step: (kind == TraceKind::Reduce).then_some(2),
            algorithm: (peer != 2).then(|| "swing".into()),
            call: (kind == TraceKind::Call).then(|| "allreduce, by swing".into()),
            start,
            end,
        };
        let trace = Trace {
            events: vec![
                event(TraceKind::Call, 0, 0, 0.0, Some(3e-6)),
                event(TraceKind::Send, 0, 1, 0.0, Some(1e-6)),
                event(TraceKind::Receive, 1, 0, 0.0, Some(2e-6)),
                event(TraceKind::Reduce, 1, 1, 2e-6, Some(3e-6)),
                event(TraceKind::Receive, 0, 1, 1e-6, None),
                event(TraceKind::Receive, 0, 2, 1.5e-6, Some(2e-6)),
                event(TraceKind::Send, 0, 2, 1e-6, Some(2e-6)),
            ],
        };
        let value: Value = serde_json::from_str(&trace.to_chrome()).unwrap();
        let records = value["traceEvents"].as_array().unwrap().iter().map(Value::to_string);
        insta::assert_snapshot!(records.collect::<Vec<_>>().join("\n"));
        assert_eq!(value["otherData"], json!({}));
    }
}

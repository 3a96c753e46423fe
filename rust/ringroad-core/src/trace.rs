//! What happened when: one type for predicted and measured timelines.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};

use crate::units::{Bytes, Rank, Seconds};

/// What an event was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceKind {
    /// From the beginning of a call to its end, as the rank sees it. The peer is the rank itself.
    Call,
    /// From posting a send until its memory was free again.
    Send,
    /// From posting a receive until the data was there.
    Receive,
    /// While the rank's processor combined data. The peer is the rank itself.
    Reduce,
}

impl TraceKind {
    const ALL: [TraceKind; 4] = [TraceKind::Call, TraceKind::Send, TraceKind::Receive, TraceKind::Reduce];

    /// The word for it, as it is serialised.
    pub fn name(self) -> &'static str {
        match self {
            TraceKind::Call => "call",
            TraceKind::Send => "send",
            TraceKind::Receive => "receive",
            TraceKind::Reduce => "reduce",
        }
    }
}

/// One event of one rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// What it was.
    pub kind: TraceKind,
    /// Whose event.
    pub rank: Rank,
    /// The other side.
    pub peer: Rank,
    /// Message size, the larger of a call's input and output, or how many bytes were combined with others.
    pub bytes: Bytes,
    /// Which call of the communicator.
    pub sequence: u32,
    /// Which message between the two ranks within the call; 0 for what is no message.
    pub message: u32,
    /// Which step of the schedule it belongs to, where that is known: a transport does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// The algorithm that performs the call, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Arc<str>>,
    /// What was called, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Arc<str>>,
    /// When it began, from the start of the trace.
    pub start: Seconds,
    /// When it was complete, or `None` where it never was.
    pub end: Option<Seconds>,
}

/// A timeline.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The events, by their beginning.
    pub events: Vec<TraceEvent>,
}

impl Trace {
    /// The trace in the format of Chrome's trace viewer and of Perfetto: a process for each rank, with rows for each kind
    /// of event, as many as overlap, and an arrow for each message that arrived. What has no end is shown as begun.
    pub fn to_chrome(&self) -> String {
        self.to_chrome_with(json!({}))
    }

    /// The same with something about the whole.
    pub fn to_chrome_with(&self, about: Value) -> String {
        let mut order: Vec<&TraceEvent> = self.events.iter().collect();
        order.sort_by(|a, b| a.start.total_cmp(&b.start));
        let mut rows = Rows::default();
        // Text, since values take many times as much memory, and traces may be long.
        let mut records = String::new();
        for event in order {
            let row = rows.take(event);
            event.add_chrome_records(row, &mut records);
        }
        let mut all = String::new();
        rows.names().iter().for_each(|name| append(&mut all, name));
        all.push_str(&records);
        let all = all.trim_start_matches(',');
        format!(r#"{{"displayTimeUnit":"ns","otherData":{about},"traceEvents":[{all}]}}"#)
    }
}

/// For every rank and kind, until when each of its rows is taken.
#[derive(Default)]
struct Rows(BTreeMap<(Rank, usize), Vec<Seconds>>);

impl Rows {
    /// More than a rank ever needs of one kind.
    const OF_A_KIND: usize = 1 << 20;

    /// The first row that is free when the event begins.
    fn take(&mut self, event: &TraceEvent) -> usize {
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

/// One more record, after a comma.
fn append(records: &mut String, record: &Value) {
    records.push(',');
    records.push_str(&record.to_string());
}

/// The unit of the format.
const MICROSECONDS: f64 = 1e6;

impl TraceEvent {
    fn add_chrome_records(&self, row: usize, records: &mut String) {
        let name = match self.kind {
            TraceKind::Call => self.call.as_deref().unwrap_or("call").to_owned(),
            TraceKind::Send => format!("send to {}", self.peer),
            TraceKind::Receive => format!("receive from {}", self.peer),
            TraceKind::Reduce => "reduce".to_owned(),
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
        // An arrow leads from the beginning of the send to the end of the receive, and is told by both their names.
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

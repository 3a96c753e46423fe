//! Records what a rank's calls do, and when. While nobody wants a trace, this costs one check of an `Option`.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringroad_core::plan::{Command, PlannedCommand};
use ringroad_core::trace::{Trace, TraceEvent, TraceKind};
use ringroad_core::{Bytes, Rank};
use rustix::time::{clock_gettime, ClockId};
use serde_json::json;

use super::{Engine, Task};
use crate::error::Error;
use crate::os::messages::print_message;
use crate::transport::{CountedConnection, RequestId};

/// The largest number of events that are kept: about 30 MB in memory, and 90 MB as a file.
const MAX_EVENTS: usize = 1 << 18;

/// The trace of one rank.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The communicator's name.
    pub name: String,
    /// The rank that recorded it.
    pub rank: Rank,
    /// The number of ranks.
    pub ranks: usize,
    /// The lowest rank on the same machine: ranks of one machine share a clock.
    pub clock: Rank,
    /// When the trace began by that clock, in nanoseconds.
    pub started: u64,
    /// How many events were dropped for lack of room.
    pub lost: u64,
    /// The connections to other hosts.
    pub connections: Vec<CountedConnection>,
    /// The events.
    pub trace: Trace,
}

impl Recorded {
    /// The trace as JSON for Perfetto and Chrome's trace viewer. `otherData` holds what is needed to combine the
    /// ranks' traces.
    pub fn to_chrome(&self) -> String {
        let Recorded { name, rank, ranks, clock, started, lost, connections, trace } = self;
        let about = json!({
            "communicator": name, "rank": rank, "ranks": ranks, "clock": clock, "started": started, "lost": lost,
            "connections": connections,
        });
        trace.to_chrome_with(about)
    }
}

/// The time since the machine started.
fn clock() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Records the events of one rank.
#[derive(Default)]
pub(super) struct Recorder {
    rank: Rank,
    /// By the machine's clock that never steps. One reading serves all times, so that messages of ranks on one machine
    /// end after they began.
    start: Duration,
    events: Vec<TraceEvent>,
    lost: u64,
    /// The index of the event of each request in flight, and of each call by its slot.
    requests: HashMap<RequestId, usize>,
    calls: HashMap<usize, usize>,
    /// The directory for the file that is written at the end, if there is to be one.
    directory: Option<PathBuf>,
    /// The connections, once they are to be closed.
    pub connections: Vec<CountedConnection>,
    /// The index of the first event of the trace that [`Engine::start_trace`] began.
    wanted: Option<usize>,
}

impl Recorder {
    fn new(rank: Rank) -> Recorder {
        Recorder { rank, start: clock(), ..Recorder::default() }
    }

    fn now(&self) -> f64 {
        (clock() - self.start).as_secs_f64()
    }

    /// Records the beginning of an event. Returns its index, or `None` if there is no room.
    fn begin(&mut self, kind: TraceKind, peer: Rank, bytes: usize, task: &Task) -> Option<usize> {
        if self.events.len() == MAX_EVENTS {
            self.lost += 1;
            return None;
        }
        self.events.push(TraceEvent {
            kind,
            rank: self.rank,
            peer,
            bytes: bytes as Bytes,
            // For a collective, the whole number of the call: the part in the tag repeats.
            sequence: if task.number > 0 { task.number as u32 } else { task.tag.sequence },
            message: 0,
            step: None,
            algorithm: Some(task.call().algorithm.clone()),
            call: None,
            start: self.now(),
            end: None,
        });
        Some(self.events.len() - 1)
    }

    pub fn begin_call(&mut self, slot: usize, task: &Task) {
        let bytes = task.buffers.input.len().max(task.buffers.output.len());
        if let Some(event) = self.begin(TraceKind::Call, self.rank, bytes, task) {
            self.events[event].call = Some(task.call().to_string().into());
            self.calls.insert(slot, event);
        }
    }

    pub fn end_call(&mut self, slot: usize) {
        if let Some(event) = self.calls.remove(&slot) {
            self.events[event].end = Some(self.now());
        }
    }

    /// Records the beginning of an operation. Only messages and what computes are recorded.
    pub fn begin_operation(&mut self, request: RequestId, operation: PlannedCommand, task: &Task) {
        let (kind, peer, message) = match operation.command {
            Command::Send { peer, message, .. } => (TraceKind::Send, peer, message),
            Command::Receive { peer, message, .. } | Command::Expect { peer, message, .. } => {
                (TraceKind::Receive, peer, message)
            }
            Command::Reduce { .. } => (TraceKind::Reduce, self.rank, 0),
            Command::Encode { .. } => (TraceKind::Encode, self.rank, 0),
            Command::Decode { .. } => (TraceKind::Decode, self.rank, 0),
            _ => return,
        };
        if let Some(event) = self.begin(kind, peer, operation.command.bytes(), task) {
            let noted = &mut self.events[event];
            (noted.message, noted.step) = (task.tag.message | message, Some(operation.step));
            self.requests.insert(request, event);
        }
    }

    pub fn end_operation(&mut self, request: RequestId) {
        if let Some(event) = self.requests.remove(&request) {
            self.events[event].end = Some(self.now());
        }
    }
}

impl Engine {
    fn recorder(&mut self) -> &mut Recorder {
        self.recorder.get_or_insert_with(|| Box::new(Recorder::new(self.peers.rank)))
    }

    /// Records everything from now on. The file is written to this directory when the communicator is closed.
    pub fn record_into(&mut self, directory: PathBuf) {
        self.recorder().directory = Some(directory);
    }

    /// Begins a trace.
    pub fn start_trace(&mut self) -> Result<(), Error> {
        let recorder = self.recorder();
        if recorder.wanted.is_some() {
            return Err(Error::Argument("this communicator is being traced already".to_owned()));
        }
        recorder.wanted = Some(recorder.events.len());
        Ok(())
    }

    /// Ends the trace and returns it. Events that are still in flight have no end.
    pub fn end_trace(&mut self) -> Result<Recorded, Error> {
        let Some((recorder, from)) =
            self.recorder.as_mut().and_then(|r| r.wanted.take().map(|from| (r, from)))
        else {
            return Err(Error::Argument("this communicator is not being traced".to_owned()));
        };
        let events = match &recorder.directory {
            Some(_) => recorder.events[from..].to_vec(),
            None => std::mem::take(&mut recorder.events),
        };
        let recorded = self.recorded(events);
        self.recorder = self.recorder.take().filter(|recorder| recorder.directory.is_some());
        Ok(recorded)
    }

    fn recorded(&self, events: Vec<TraceEvent>) -> Recorded {
        let recorder = self.recorder.as_ref().expect("there is one while something is written down");
        Recorded {
            name: self.name.clone(),
            rank: self.peers.rank,
            ranks: self.peers.ranks(),
            clock: self.peers.first_on_machine(),
            started: recorder.start.as_nanos() as u64,
            lost: recorder.lost,
            connections: if self.closed {
                recorder.connections.clone()
            } else {
                self.transport.connections()
            },
            trace: Trace { events },
        }
    }

    /// Writes the file, if there is to be one. Called at the end of the communicator, when nobody waits for the
    /// engine any more.
    pub(super) fn write_trace(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        let Some(directory) = recorder.directory.take() else { return };
        let events = std::mem::take(&mut recorder.events);
        let text = self.recorded(events).to_chrome();
        let name = self.name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let file = directory.join(format!("{name}-{:016x}-{}.json", self.peers.instance(), self.peers.rank));
        if let Err(error) = write(&file, &text) {
            print_message(&format!("warning: the trace {} cannot be written: {error}", file.display()));
        }
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::File::create_new(file)?.write_all(text.as_bytes())
}

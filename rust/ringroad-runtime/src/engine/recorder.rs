//! Writes down what a rank's calls do, and when. Where nobody asks for it, it costs a look at an `Option`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use ringroad_core::plan::{Command, Operation};
use ringroad_core::trace::{Trace, TraceEvent, TraceKind};
use ringroad_core::{Bytes, Rank};
use serde_json::json;

use super::{Engine, Task};
use crate::error::Error;
use crate::transport::RequestId;

/// The most events that are kept: about 30 MB, and 90 as a file.
const MOST: usize = 1 << 18;

/// What one rank has written down.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The communicator's name.
    pub name: String,
    /// Whose it is.
    pub rank: Rank,
    /// How many ranks there are.
    pub ranks: usize,
    /// The lowest rank on the same machine: ranks of one machine share a clock.
    pub clock: Rank,
    /// When the trace began by that clock: nanoseconds since 1970.
    pub started: u64,
    /// How many events there was no room for.
    pub lost: u64,
    /// What happened.
    pub trace: Trace,
}

impl Recorded {
    /// As Perfetto and Chrome's trace viewer read it. `otherData` says what is needed to put ranks' traces together.
    pub fn to_chrome(&self) -> String {
        let Recorded { name, rank, ranks, clock, started, lost, trace } = self;
        let about = json!({
            "communicator": name, "rank": rank, "ranks": ranks, "clock": clock, "started": started, "lost": lost,
        });
        trace.to_chrome_with(about)
    }
}

/// Who writes down.
pub(super) struct Recorder {
    rank: Rank,
    start: Instant,
    started: SystemTime,
    events: Vec<TraceEvent>,
    lost: u64,
    /// Which event belongs to which request in flight, and to which call.
    requests: HashMap<RequestId, usize>,
    calls: HashMap<usize, usize>,
    /// Where all of it is written in the end.
    directory: Option<PathBuf>,
    /// Where a trace begins that somebody wants to have.
    wanted: Option<usize>,
}

impl Recorder {
    fn new(rank: Rank) -> Recorder {
        Recorder {
            rank,
            start: Instant::now(),
            started: SystemTime::now(),
            events: Vec::new(),
            lost: 0,
            requests: HashMap::new(),
            calls: HashMap::new(),
            directory: None,
            wanted: None,
        }
    }

    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Notes down what begins now; its number.
    fn begin(&mut self, kind: TraceKind, peer: Rank, bytes: usize, task: &Task) -> Option<usize> {
        if self.events.len() == MOST {
            self.lost += 1;
            return None;
        }
        self.events.push(TraceEvent {
            kind,
            rank: self.rank,
            peer,
            bytes: bytes as Bytes,
            // Of a collective all of its number: a tag's part repeats.
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

    /// An operation begins. Only messages and reductions are noted down.
    pub fn begin_operation(&mut self, request: RequestId, operation: Operation, task: &Task) {
        let (kind, peer, message) = match operation.command {
            Command::Send { peer, message, .. } => (TraceKind::Send, peer, message),
            Command::Receive { peer, message, .. } | Command::Expect { peer, message, .. } => {
                (TraceKind::Receive, peer, message)
            }
            Command::Reduce { .. } => (TraceKind::Reduce, self.rank, 0),
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
        self.recorder.get_or_insert_with(|| Box::new(Recorder::new(self.rank)))
    }

    /// Writes down everything from now on, into a file of this directory when the communicator is closed.
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

    /// Ends the trace, and returns it. What is still in flight has no end.
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
        let (own, since) = (&self.cards[self.rank], recorder.started.duration_since(SystemTime::UNIX_EPOCH));
        Recorded {
            name: self.name.clone(),
            rank: self.rank,
            ranks: self.cards.len(),
            clock: self.cards.iter().position(|card| card.shares_machine(own)).unwrap_or(self.rank),
            started: since.map_or(0, |since| since.as_nanos() as u64),
            lost: recorder.lost,
            trace: Trace { events },
        }
    }

    /// Writes the file, if there is to be one. It is the end of the communicator: nobody waits for the engine any more.
    pub(super) fn write_trace(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        let Some(directory) = recorder.directory.take() else { return };
        let events = std::mem::take(&mut recorder.events);
        let text = self.recorded(events).to_chrome();
        let name = self.name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let file = directory.join(format!("{name}-{:016x}-{}.json", self.cards[0].instance, self.rank));
        if let Err(error) = write(&file, &text) {
            eprintln!("ringroad: warning: the trace {} cannot be written: {error}", file.display());
        }
    }
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    std::fs::write(file, text)
}

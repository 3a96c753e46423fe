//! A process that is asked by a thread of its own, so that many are asked at once and none holds up the others.

use std::sync::mpsc::{channel, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use ringroad_core::agreement::{ProposerRequest, Reply};
use ringroad_core::Rank;

use super::{TcpStore, UnreachableProcess};
use crate::bootstrap::{Handle, Store, StoreError};

/// How long a process may take to answer before it is asked again.
const TURN: Duration = Duration::from_millis(500);
/// The longest time that a process gets to take up a connection.
const MAX_CONNECT_TIMEOUT: Duration = Duration::from_secs(16);
/// The pause before the next attempt to reach a process.
const PAUSE: Duration = Duration::from_millis(100);
const STACK: usize = 128 << 10;

/// What a process is asked.
#[derive(Debug, Clone)]
pub enum Question {
    /// Whether it still answers.
    Alive,
    /// To store this value.
    Set { key: String, value: Vec<u8> },
    /// Rank `from` of a group asks this in the agreement of this number.
    Agree { group: String, number: u64, from: Rank, request: ProposerRequest },
}

/// What was heard of a process.
#[derive(Debug)]
pub enum Heard {
    /// It answers.
    Alive,
    /// Its answer to this request.
    Reply(ProposerRequest, Reply),
    /// Why it has not been reached. It is tried again.
    Unreached(UnreachableProcess),
    /// It has ended. Nothing follows.
    Ended(UnreachableProcess),
}

/// The line to a process. Dropping it ends the thread, soon.
pub struct ProcessLine(Sender<Question>);

impl ProcessLine {
    /// `heard` gets what is heard, as the process's `number`: one answer to each question, once it can be reached.
    pub fn open(
        number: usize,
        handle: Handle,
        secret: Option<String>,
        heard: Sender<(usize, Heard)>,
    ) -> std::io::Result<ProcessLine> {
        let (asked, questions) = channel();
        let thread = thread::Builder::new().name("ringroad-line".to_owned()).stack_size(STACK);
        thread.spawn(move || {
            serve(&handle, secret.as_deref(), &questions, |news| heard.send((number, news)).is_ok())
        })?;
        Ok(ProcessLine(asked))
    }

    /// Asks the process, after the questions before.
    pub fn ask(&self, question: Question) {
        // If the thread has ended, so has the process, and the caller knows.
        let _ = self.0.send(question);
    }
}

/// Answers questions until the line is dropped or the process has ended.
fn serve(
    handle: &Handle,
    secret: Option<&str>,
    questions: &Receiver<Question>,
    tell: impl Fn(Heard) -> bool,
) {
    let mut store = None;
    while let Ok(mut question) = questions.recv() {
        // Each attempt waits longer than the one before, for a peer that is slow.
        let mut within = 2 * TURN;
        let answer = loop {
            within = MAX_CONNECT_TIMEOUT.min(2 * within);
            match attempt(&mut store, handle, secret, &question, within) {
                Ok(answer) => break answer,
                Err(Some(gone @ UnreachableProcess::Gone(_))) => {
                    tell(Heard::Ended(gone));
                    return;
                }
                Err(Some(why)) if !tell(Heard::Unreached(why.clone())) => return,
                Err(_) => thread::sleep(PAUSE),
            }
            // The caller may want something else by now, or nothing.
            match questions.try_recv() {
                Ok(newer) => question = newer,
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
        };
        if !tell(answer) {
            return;
        }
    }
}

/// Asks once. Errors other than the end of the process may pass.
fn attempt(
    store: &mut Option<TcpStore>,
    handle: &Handle,
    secret: Option<&str>,
    question: &Question,
    within: Duration,
) -> Result<Heard, Option<UnreachableProcess>> {
    let until = || Instant::now() + TURN;
    let reached = match store.take() {
        Some(store) => store,
        None => TcpStore::connect(handle, secret, Instant::now() + within)?,
    };
    let answer = match question {
        Question::Alive => match reached.wait("", until()) {
            Ok(_) | Err(StoreError::Timeout { .. }) => Ok(Heard::Alive),
            Err(error) => Err(error),
        },
        Question::Set { key, value } => reached.set(key, value).map(|()| Heard::Alive),
        Question::Agree { group, number, from, request } => {
            let reply = reached.agree(group, *number, *from, request, until());
            reply.map(|reply| Heard::Reply(request.clone(), reply))
        }
    };
    let answer = answer.map_err(|_| None)?;
    *store = Some(reached);
    Ok(answer)
}

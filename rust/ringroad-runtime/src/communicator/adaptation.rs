//! Changes of the network while a communicator is used: who suspects one, and how all ranks halt before the same call.
//!
//! Ranks look at the times of their calls (`watch`). Who sees something tells rank 0, whose thread asks all ranks over
//! their processes' servers before which call they can halt ([`ringroad_core::halt`]). What they do then is in
//! `reconsider.rs`. Between suspicions no thread runs and nothing is sent.
//!
//! Each communicator looks after itself. One that is made of another's ranks begins with what is known then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ringroad_core::changes::{Changes, Difference};
use ringroad_core::discovery::Mismatch;
use ringroad_core::halt::{Answer, Convener, Question};
use ringroad_core::{Rank, Topology};
use serde::{Deserialize, Serialize};

use super::patience::server;
use super::{Communicator, State};
use crate::bootstrap::{identity, Handle, Heard, Line, Listener, Question as Asked, TcpStore, Unreachable};
use crate::choice::choices::{Choices, Origin};
use crate::config::{Budget, Config, Secret, TopologySource};
use crate::network;
use crate::network::pace::Pace;
use crate::network::watch::{Sign, Suspicion};
use crate::os::lock::Mutex;
use crate::os::messages::warn_once;
use crate::transport::Connection;

/// How long calls may go on before they halt.
const SOON: f32 = 0.1;
/// A round in which ranks have not answered for so long is withdrawn.
const UNANSWERED: Duration = Duration::from_secs(3);
/// How often a thread that waits for answers looks what else there is to do.
const SLICE: Duration = Duration::from_millis(50);
/// How long nothing is suspected after the network has changed, and after it has not; the latter doubles each time.
const REST: Duration = Duration::from_secs(3);
const LONGEST_REST: Duration = Duration::from_secs(600);
/// How soon rank 0 looks whether what had become slow has recovered; the time doubles each time.
const AGAIN: Duration = Duration::from_secs(4);
const LATEST_AGAIN: Duration = Duration::from_secs(64);

/// Why ranks look at the network again: calls took `ratio` times as long as usual.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// Who has noticed.
    pub rank: Rank,
    /// How many times as long as usual.
    pub ratio: f32,
    /// What the latest call has taken, in seconds.
    pub took: f32,
    /// What was predicted.
    pub predicted: f32,
}

/// A change of the network to which the ranks have reacted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkChange {
    /// The number of the collective call before which they have.
    pub call: u64,
    /// The links that carry more or less than before.
    pub links: Vec<Difference>,
    /// Why they have looked.
    pub reason: Option<Reason>,
}

/// Ranks that have come late to calls, while the links were as before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Straggle {
    /// The number of the collective call before which all ranks have looked.
    pub call: u64,
    /// Who was late.
    pub ranks: Vec<Rank>,
    /// Why they have looked.
    pub reason: Reason,
}

/// The network as the ranks see it.
#[derive(Debug, Clone, Serialize)]
pub struct NetworkView {
    /// As it is now.
    pub topology: Topology,
    /// Where it comes from.
    pub origin: Origin,
    /// Whether the ranks look after it.
    pub watched: bool,
    /// How the network that the user has named differs from the one that the ranks have found.
    pub mismatch: Option<Mismatch>,
    /// What has changed so far.
    pub changes: Vec<NetworkChange>,
    /// Which ranks were the reason that calls took longer, not the network.
    pub stragglers: Vec<Straggle>,
    /// The connections to other hosts, if they are of our own.
    pub connections: Vec<Connection>,
}

/// What is known now.
pub(super) struct Present {
    pub choices: Arc<Choices>,
    pub changes: Changes,
    pub history: Vec<NetworkChange>,
    pub stragglers: Vec<Straggle>,
}

/// Rank 0's rounds of halting.
struct Rounds {
    number: u64,
    /// From the suspicion to the end of what follows from it.
    is_busy: bool,
    reason: Option<Reason>,
    /// How long to rest after a look that finds nothing.
    rest: Duration,
    until: Option<Instant>,
    /// When to look next whether something has recovered.
    again: Duration,
}

/// What ranks say to each other.
#[derive(Serialize, Deserialize)]
enum Message {
    Halt(Question),
    Suspect(Reason),
    /// Whether there is such a communicator.
    Here,
}

/// A communicator's part in this.
pub(super) struct Adaptation {
    rank: Rank,
    name: String,
    /// How long the ranks measure. Rank 0's is used.
    pub budget: Duration,
    group: String,
    handles: Vec<Handle>,
    secret: Option<String>,
    pub pace: Arc<Pace>,
    calls: Arc<Mutex<State>>,
    pub present: Mutex<Present>,
    rounds: Mutex<Rounds>,
    stopped: AtomicBool,
    own: Weak<Adaptation>,
}

impl Adaptation {
    /// For a communicator whose network can be measured again.
    pub fn of(communicator: &Communicator, config: &Config) -> Option<Arc<Adaptation>> {
        let endpoints = communicator.endpoints();
        let several = network::hosts(endpoints).into_iter().any(|host| host > 0);
        let is_found = communicator.choices.origin == Origin::Found;
        let budget = config.budget.adaptation.or(is_found.then_some(Budget::ADAPTATION))?;
        let is_off = budget.is_zero() || config.topology == TopologySource::Off;
        if !several || is_off || !config.devices_of_ports().is_empty() {
            return None;
        }
        let handles: Vec<Handle> =
            endpoints.iter().map(|endpoint| endpoint.handle.clone()).collect::<Option<_>>()?;
        let server = server(config).ok()?;
        let present = Present {
            choices: communicator.choices.clone(),
            changes: Changes::default(),
            history: Vec::new(),
            stragglers: Vec::new(),
        };
        let rounds =
            Rounds { number: 0, is_busy: false, reason: None, rest: REST, until: None, again: AGAIN };
        let made = Arc::new_cyclic(|own| Adaptation {
            rank: communicator.rank,
            name: communicator.name.clone(),
            budget,
            group: identity(endpoints),
            handles,
            secret: config.secret.as_ref().map(Secret::reveal).map(str::to_owned),
            pace: communicator.pace.clone(),
            calls: communicator.state.clone(),
            present: Mutex::new(present),
            rounds: Mutex::new(rounds),
            stopped: AtomicBool::new(false),
            own: own.clone(),
        });
        let listener: Weak<dyn Listener> = made.own.clone();
        server.listen_for(&made.group, listener);
        Some(made)
    }

    /// What has changed, and who was late.
    pub fn seen(&self) -> (Vec<NetworkChange>, Vec<Straggle>) {
        let present = self.present.lock();
        (present.history.clone(), present.stragglers.clone())
    }

    /// A call has shown something.
    pub fn look_into(&self, sign: Sign) {
        let (Sign::Changed(suspicion) | Sign::Unpredicted(suspicion)) = sign else {
            return if self.rank == 0 && sign == Sign::Due {
                self.convene(None)
            };
        };
        let Suspicion { ratio, took, predicted } = suspicion;
        if let (Sign::Unpredicted(_), 0) = (sign, self.rank) {
            self.warn(took, predicted);
        }
        let reason = Reason { rank: self.rank, ratio, took, predicted };
        match self.rank {
            0 => self.convene(Some(reason)),
            _ => self.report(reason),
        }
    }

    fn warn(&self, took: f32, predicted: f32) {
        let topology = self.present.lock().choices.topology.spec();
        let milliseconds = |seconds: f32| 1e3 * seconds;
        let text = format!(
            "{}: calls take {:.1} ms where {:.1} ms were predicted on {topology}: its rates may be wrong, or ranks come \
             late; `ringroad discover` shows what the network is, RINGROAD_TOPOLOGY names it",
            self.name,
            milliseconds(took),
            milliseconds(predicted)
        );
        warn_once("unpredicted", &text);
    }

    /// Tells rank 0, which may have other things to do.
    fn report(&self, reason: Reason) {
        let mut rounds = self.rounds.lock();
        let now = Instant::now();
        if rounds.until.is_some_and(|until| now < until) {
            return;
        }
        rounds.until = Some(now + REST);
        let (tell, heard) = channel();
        let Ok(line) = Line::open(0, self.handles[0].clone(), self.secret.clone(), tell) else { return };
        line.ask(Asked::Tell { group: self.group.clone(), text: text(&Message::Suspect(reason)) });
        // The line lasts until it is dropped.
        let wait = move || drop((heard.recv_timeout(UNANSWERED), line));
        let _ = std::thread::Builder::new().name("ringroad-report".to_owned()).spawn(wait);
    }

    /// On rank 0: lets all ranks halt, unless they have just done so for another reason.
    fn convene(&self, reason: Option<Reason>) {
        let mut rounds = self.rounds.lock();
        let resting = reason.is_some() && rounds.until.is_some_and(|until| Instant::now() < until);
        if rounds.is_busy || resting || self.stopped.load(Ordering::Relaxed) {
            return;
        }
        let Some(own) = self.own.upgrade() else { return };
        (rounds.is_busy, rounds.reason) = (true, reason);
        rounds.number += 1;
        let number = rounds.number;
        let margin = reason.map_or(0, |reason| (SOON / reason.took.max(1e-6)) as u64);
        let thread = std::thread::Builder::new().name("ringroad-halt".to_owned());
        if thread.spawn(move || own.hold(Convener::begin(number, margin, own.handles.len()))).is_err() {
            rounds.is_busy = false;
        }
    }

    /// Holds a round until every rank knows how it ends.
    fn hold(&self, mut convener: Convener) {
        let (tell, heard) = channel();
        let start = Instant::now();
        let mut lines: Vec<Option<Line>> = self.handles.iter().map(|_| None).collect();
        let mut asked: Vec<Option<Question>> = vec![None; lines.len()];
        while !convener.is_over() {
            while let Some(question) = convener.question(self.rank) {
                convener.hear(self.rank, question, self.answer(question));
            }
            for rank in (0..lines.len()).filter(|rank| *rank != self.rank) {
                let Some(question) = convener.question(rank) else { continue };
                if lines[rank].is_none() {
                    let handle = self.handles[rank].clone();
                    match Line::open(rank, handle, self.secret.clone(), tell.clone()) {
                        Ok(line) => lines[rank] = Some(line),
                        Err(_) => convener.bury(rank),
                    }
                }
                if let Some(line) = lines[rank].as_ref().filter(|_| asked[rank] != Some(question)) {
                    let text = text(&Message::Halt(question));
                    line.ask(Asked::Tell { group: self.group.clone(), text });
                    asked[rank] = Some(question);
                }
            }
            match heard.recv_timeout(SLICE) {
                Ok((rank, Heard::Told(asked, answer))) => {
                    let answer = answer.and_then(|text| serde_json::from_slice(&text).ok());
                    if let Ok(Message::Halt(question)) = serde_json::from_slice(&asked) {
                        convener.hear(rank, question, answer.unwrap_or(Answer::Declined));
                    }
                }
                Ok((rank, Heard::Ended(_))) => convener.bury(rank),
                Ok(_) | Err(_) => {}
            }
            // That proves nothing of anybody; but until then nobody was told to halt.
            if start.elapsed() > UNANSWERED {
                convener.withdraw();
            }
        }
        if convener.at().is_none() {
            self.rest(false);
        }
    }

    /// The answer to rank 0.
    fn answer(&self, question: Question) -> Answer {
        // Calls get their numbers under this lock.
        let state = self.calls.lock();
        self.pace.answer(question, state.calls + 1)
    }

    /// Ends what followed from a suspicion.
    pub fn rest(&self, has_changed: bool) {
        let mut rounds = self.rounds.lock();
        let mut now = REST;
        match (has_changed, rounds.reason) {
            (true, _) => (rounds.rest, rounds.again) = (REST, AGAIN),
            (false, None) => {}
            (false, Some(_)) => {
                now = rounds.rest;
                rounds.rest = (2 * rounds.rest).min(LONGEST_REST);
            }
        }
        (rounds.is_busy, rounds.until) = (false, Some(Instant::now() + now));
    }

    /// On rank 0: when to look at the network in any case, if it is not as it was at first.
    pub fn due(&self) -> Option<Instant> {
        if self.present.lock().changes.is_empty() {
            return None;
        }
        let mut rounds = self.rounds.lock();
        let due = Instant::now() + rounds.again;
        rounds.again = (2 * rounds.again).min(LATEST_AGAIN);
        Some(due)
    }

    /// On rank 0: why the ranks have halted.
    pub fn reason(&self) -> Option<Reason> {
        self.rounds.lock().reason
    }

    /// Whether rank 0's process has ended, or has no such communicator any more.
    pub fn has_lost_rank_0(&self) -> bool {
        let deadline = Instant::now() + UNANSWERED;
        match TcpStore::connect(&self.handles[0], self.secret.as_deref(), deadline) {
            Ok(store) => matches!(store.tell(&self.group, &text(&Message::Here)), Ok(None)),
            Err(unreachable) => matches!(unreachable, Unreachable::Gone(_)),
        }
    }

    /// Nothing is suspected from now on.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

fn text(message: &Message) -> Vec<u8> {
    serde_json::to_vec(message).expect("numbers can be written")
}

impl Listener for Adaptation {
    fn hear(&self, text: &[u8]) -> Option<Vec<u8>> {
        let answer = match serde_json::from_slice(text).ok()? {
            Message::Halt(question) => self.answer(question),
            Message::Here => Answer::Noted,
            Message::Suspect(reason) => {
                let is_sound = self.rank == 0 && reason.took.is_finite() && reason.took > 0.0;
                is_sound.then(|| self.convene(Some(reason)))?;
                Answer::Noted
            }
        };
        Some(serde_json::to_vec(&answer).expect("numbers can be written"))
    }
}

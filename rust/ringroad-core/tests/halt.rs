//! Halting before the same call, in all interleavings of calls and messages, which may be lost, doubled and late.
//!
//! Whatever rank 0 said may arrive at any later time, any number of times, or never; so may the latest answer, once. A rank may be some calls ahead of others,
//! as the root of a broadcast is. What the ranks do when they halt ends for each once all have come.

use std::collections::BTreeSet;

use ringroad_core::halt::{Answer, Convener, Gate, Passage, Question};
use ringroad_core::Rank;
use stateright::{Checker, Model, Property};

/// A world that is explored.
#[derive(Clone, Debug)]
struct World {
    ranks: usize,
    /// The calls of each rank, and how many of them a rank may be ahead.
    calls: u64,
    ahead: u64,
    rounds: u64,
    margin: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    gate: Gate,
    /// The number of the next call.
    next: u64,
    /// Before which calls it has halted.
    halts: Vec<u64>,
    is_inside: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    processes: Vec<Process>,
    convener: Option<Convener>,
    rounds: u64,
    /// Everything that rank 0 ever said, and the latest answer of each rank.
    questions: BTreeSet<(Rank, Question)>,
    answers: Vec<Option<(Question, Answer)>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Event {
    Begin,
    Withdraw,
    Say(Rank),
    Deliver(Rank, Question),
    Hear(Rank),
    Call(Rank),
    Halt(Rank),
    Leave(Rank),
}

impl World {
    fn is_idle(&self, state: &State) -> bool {
        state.convener.as_ref().is_none_or(Convener::is_over)
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        let process = Process { gate: Gate::default(), next: 1, halts: Vec::new(), is_inside: false };
        let (questions, answers) = (BTreeSet::new(), vec![None; self.ranks]);
        vec![State { processes: vec![process; self.ranks], convener: None, rounds: 0, questions, answers }]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        if self.is_idle(state) && state.rounds < self.rounds {
            events.push(Event::Begin);
        }
        if let Some(convener) = &state.convener {
            events.push(Event::Withdraw);
            let open = (0..self.ranks).filter(|rank| convener.question(*rank).is_some());
            events.extend(open.map(Event::Say));
        }
        events.extend(state.questions.iter().map(|(rank, question)| Event::Deliver(*rank, *question)));
        events.extend((0..self.ranks).filter(|rank| state.answers[*rank].is_some()).map(Event::Hear));
        let slowest = state.processes.iter().map(|process| process.next).min().unwrap_or(1);
        for (rank, process) in state.processes.iter().enumerate() {
            let may = process.next <= self.calls && process.next <= slowest + self.ahead;
            match process.gate.passage(process.next) {
                _ if process.is_inside => {
                    let all = |other: &Process| other.halts.len() >= process.halts.len();
                    if state.processes.iter().all(all) {
                        events.push(Event::Leave(rank));
                    }
                }
                Passage::Free if may => events.push(Event::Call(rank)),
                Passage::Halt => events.push(Event::Halt(rank)),
                Passage::Free | Passage::Wait => {}
            }
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        let mut next = state.clone();
        match event {
            Event::Begin => {
                next.rounds += 1;
                next.convener = Some(Convener::begin(next.rounds, self.margin, self.ranks));
            }
            Event::Withdraw => next.convener.as_mut()?.withdraw(),
            Event::Say(rank) => {
                let question = next.convener.as_ref()?.question(rank)?;
                next.questions.insert((rank, question));
            }
            Event::Deliver(rank, question) => {
                let process = &mut next.processes[rank];
                let answer = process.gate.answer(question, process.next);
                next.answers[rank] = Some((question, answer));
            }
            Event::Hear(rank) => {
                let (question, answer) = next.answers[rank].take()?;
                next.convener.as_mut()?.hear(rank, question, answer);
            }
            Event::Call(rank) => next.processes[rank].next += 1,
            Event::Halt(rank) => {
                let process = &mut next.processes[rank];
                process.halts.push(process.next);
                process.is_inside = true;
            }
            Event::Leave(rank) => {
                next.processes[rank].is_inside = false;
                next.processes[rank].gate.pass();
            }
        }
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("all halt before the same calls", |_, state: &State| {
                state.processes.iter().all(|one| {
                    state
                        .processes
                        .iter()
                        .all(|other| one.halts.iter().zip(&other.halts).all(|(a, b)| a == b))
                })
            }),
            Property::always("nobody waits once a round is over", |world: &World, state: &State| {
                let waits = |process: &Process| process.gate.passage(process.next) == Passage::Wait;
                !world.is_idle(state) || !state.processes.iter().any(waits)
            }),
            Property::always("who is told to halt has not passed", |_, state: &State| {
                let threshold = |process: &Process| process.gate.threshold();
                state.processes.iter().all(|process| process.is_inside || process.next <= threshold(process))
            }),
            Property::sometimes("they halt twice", |_, state: &State| {
                state.processes.iter().all(|process| process.halts.len() == 2)
            }),
            Property::sometimes("somebody waits", |_, state: &State| {
                state.processes.iter().any(|one| one.gate.passage(one.next) == Passage::Wait)
            }),
        ]
    }
}

fn explore(world: World) {
    let checker = world.checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
}

#[test]
fn two_ranks_halt_together_or_not_at_all() {
    explore(World { ranks: 2, calls: 2, ahead: 1, rounds: 2, margin: 0 });
}

#[test]
fn three_ranks_halt_together_or_not_at_all() {
    let world = World { ranks: 3, calls: 1, ahead: 1, rounds: 1, margin: 0 };
    let checker = world.checker().threads(2).spawn_bfs().join();
    assert!(checker.discovery("all halt before the same calls").is_none());
    assert!(checker.discovery("nobody waits once a round is over").is_none());
    assert!(checker.discovery("who is told to halt has not passed").is_none());
}

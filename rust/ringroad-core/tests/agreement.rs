//! The agreement of the remaining ranks, in all interleavings of messages, pauses, deaths, cuts and timeouts.
//!
//! A state has every rank's acceptor and proposer, and the messages in flight. The rules of the world:
//! - A paused rank does nothing. Others may lose it. What was sent to it may still reach it when it goes on, even if the
//!   sender has given up or died meanwhile.
//! - A rank that goes on after a pause may ask the others whether they have come. When all have said no, its pause does not
//!   matter any more.
//! - A dead rank does nothing for ever. Others may find out.
//! - A rank whose time is up withdraws, and may come again.
//! - A rank that is not in its call may leave for good: then it answers whoever asks that it takes no part.
//! - With cuts, any rank may lose any other at any time.

use std::collections::BTreeSet;
use std::hash::Hash;

use proptest::prelude::RngExt;
use proptest::test_runner::{RngAlgorithm, TestRng};
use ringroad_core::agreement::{
    Acceptor, AgreementOutcome, Decision, Proposer, ProposerRequest, Reply, Vote,
};
use ringroad_core::Rank;
use stateright::{Checker, Model, Property};

/// A world that is explored.
#[derive(Clone, Debug)]
struct World {
    ranks: usize,
    deaths: usize,
    pauses: usize,
    timeouts: usize,
    /// How often a rank may lose one that is not paused.
    cuts: usize,
    leaves: usize,
    quorum: usize,
    most: bool,
    /// Ballots of higher numbers are not explored.
    ballots: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Call {
    Outside,
    Inside(Proposer),
    Ended(AgreementOutcome),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Process {
    alive: bool,
    paused: bool,
    /// Whether it was ever paused, and has not heard from all others since that they had not come.
    was_paused: bool,
    /// Of whom it has heard so.
    absent: BTreeSet<Rank>,
    /// Whether it was paused before or in its call.
    is_excused: bool,
    /// Whether it has left for good.
    left: bool,
    call: Call,
    acceptor: Acceptor,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Flight {
    Asked(ProposerRequest),
    Answered(ProposerRequest, Reply),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    processes: Vec<Process>,
    /// From each rank to each other: one request at a time.
    flights: Vec<Vec<Option<Flight>>>,
    /// Requests whose senders wait for no answer any more.
    strays: BTreeSet<(Rank, Rank, StrayKey)>,
    deaths: usize,
    pauses: usize,
    timeouts: usize,
    cuts: usize,
    leaves: usize,
}

/// A request that can be ordered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct StrayKey(u32, Rank, Option<(bool, Vec<Rank>)>);

impl StrayKey {
    fn from_request(request: &ProposerRequest) -> Option<StrayKey> {
        match request {
            ProposerRequest::Learn => None,
            ProposerRequest::Prepare(ballot) => Some(StrayKey(ballot.number, ballot.leader, None)),
            ProposerRequest::Accept(ballot, decision) => {
                Some(StrayKey(ballot.number, ballot.leader, Some((decision.vote, decision.alive.clone()))))
            }
        }
    }

    fn request(&self) -> ProposerRequest {
        let ballot = ringroad_core::agreement::Ballot { number: self.0, leader: self.1 };
        match &self.2 {
            None => ProposerRequest::Prepare(ballot),
            Some((vote, alive)) => {
                ProposerRequest::Accept(ballot, Decision { vote: *vote, alive: alive.clone() })
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Event {
    Come(Rank),
    Deliver(Rank, Rank),
    Stray(Rank, Rank, StrayKey),
    Receive(Rank, Rank),
    Lose(Rank, Rank),
    MarkDead(Rank, Rank),
    Die(Rank),
    Pause(Rank),
    Resume(Rank),
    Ask(Rank, Rank),
    TimeOut(Rank),
    Leave(Rank),
}

impl World {
    fn start(&self) -> State {
        let process = Process {
            alive: true,
            paused: false,
            was_paused: false,
            absent: BTreeSet::new(),
            is_excused: false,
            left: false,
            call: Call::Outside,
            acceptor: Acceptor::default(),
        };
        State {
            processes: vec![process; self.ranks],
            flights: vec![vec![None; self.ranks]; self.ranks],
            strays: BTreeSet::new(),
            deaths: 0,
            pauses: 0,
            timeouts: 0,
            cuts: 0,
            leaves: 0,
        }
    }

    /// What ranks and messages can do by themselves.
    fn moves(&self, state: &State, events: &mut Vec<Event>) {
        for (rank, process) in state.processes.iter().enumerate() {
            if process.alive && process.paused {
                events.push(Event::Resume(rank));
            }
            if !process.alive || process.paused {
                continue;
            }
            for peer in (0..self.ranks).filter(|peer| *peer != rank) {
                let other = &state.processes[peer];
                if let Some(Flight::Answered(..)) = &state.flights[rank][peer] {
                    events.push(Event::Receive(rank, peer));
                }
                let Call::Inside(proposer) = &process.call else { continue };
                if !other.alive && !proposer.is_gone(peer) {
                    events.push(Event::MarkDead(rank, peer));
                }
                if other.alive && other.paused && proposer.counts_on(peer) && !state.answered(rank, peer) {
                    events.push(Event::Lose(rank, peer));
                }
            }
        }
        for rank in 0..self.ranks {
            for (peer, other) in state.processes.iter().enumerate() {
                if other.alive && !other.paused && state.is_worth(rank, peer) {
                    events.push(Event::Deliver(rank, peer));
                }
            }
        }
    }

    fn next(&self, state: &State, event: &Event) -> State {
        let mut next = state.clone();
        match *event {
            Event::Come(rank) => {
                let process = &mut next.processes[rank];
                let flag = rank + 1 != self.ranks;
                process.is_excused = process.was_paused;
                let vote = Vote { flag, quorum: self.quorum, most: self.most, paused: process.was_paused };
                process.call = Call::Inside(Proposer::join(&mut process.acceptor, rank, self.ranks, vote));
                next.settle(rank);
            }
            Event::Deliver(rank, peer) => {
                let Some(Flight::Asked(request)) = next.flights[rank][peer].take() else { unreachable!() };
                let reply = next.processes[peer].answer(rank, &request);
                next.flights[rank][peer] = Some(Flight::Answered(request, reply));
            }
            Event::Stray(rank, peer, ref key) => {
                next.strays.remove(&(rank, peer, key.clone()));
                next.processes[peer].answer(rank, &key.request());
            }
            Event::Receive(rank, peer) => {
                let Some(Flight::Answered(request, reply)) = next.flights[rank][peer].take() else {
                    unreachable!()
                };
                next.takes(rank, |proposer, acceptor| {
                    proposer.receive_reply(acceptor, peer, &request, reply)
                });
            }
            Event::Lose(rank, peer) => {
                if !next.processes[peer].paused {
                    next.cuts += 1;
                }
                next.give_up(rank, peer);
                next.takes(rank, |proposer, acceptor| proposer.lose(acceptor, peer));
            }
            Event::MarkDead(rank, peer) => {
                next.flights[rank][peer] = None;
                next.takes(rank, |proposer, acceptor| proposer.mark_dead(acceptor, peer));
            }
            Event::Die(rank) => {
                if !matches!(next.processes[rank].call, Call::Ended(_)) {
                    next.deaths += 1;
                }
                next.processes[rank].alive = false;
                next.processes[rank].paused = false;
                for peer in 0..self.ranks {
                    next.give_up(rank, peer);
                    next.flights[rank][peer] = None;
                }
                if !matches!(next.processes[rank].call, Call::Ended(_)) {
                    next.processes[rank].call = Call::Outside;
                }
                next.processes[rank].acceptor = Acceptor::default();
                next.strays.retain(|(_, peer, _)| *peer != rank);
            }
            Event::Pause(rank) => {
                next.pauses += 1;
                next.processes[rank].paused = true;
                next.processes[rank].was_paused = true;
                next.processes[rank].is_excused = true;
                next.processes[rank].absent.clear();
            }
            Event::Ask(rank, peer) => {
                let process = &mut next.processes[rank];
                process.absent.insert(peer);
                if process.absent.len() + 1 == self.ranks {
                    process.was_paused = false;
                    process.absent.clear();
                }
            }
            Event::Resume(rank) => {
                next.processes[rank].paused = false;
                next.processes[rank].acceptor.note_pause();
                next.takes(rank, Proposer::note_pause);
            }
            Event::TimeOut(rank) => {
                next.timeouts += 1;
                let process = &mut next.processes[rank];
                process.acceptor.withdraw();
                process.call = Call::Outside;
                for peer in 0..self.ranks {
                    next.give_up(rank, peer);
                    next.flights[rank][peer] = None;
                }
            }
            Event::Leave(rank) => {
                next.leaves += 1;
                next.processes[rank].left = true;
            }
        }
        next
    }

    /// The decisions of all ranks; where most must agree, of those that live: these may go on if they know that all others
    /// have ended, who may have decided something before.
    fn decisions<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (Rank, &'a Decision)> {
        state.processes.iter().enumerate().filter_map(|(rank, process)| match &process.call {
            Call::Ended(AgreementOutcome::Decided(decision)) if process.alive || !self.most => {
                Some((rank, decision))
            }
            _ => None,
        })
    }

    /// All have the same decision. The parts of a network that was cut may differ, unless a quorum excludes that.
    fn agrees(&self, state: &State) -> bool {
        let split = self.cuts > 0 && self.quorum <= self.ranks / 2 && !self.most;
        let first = self.decisions(state).next();
        split || self.decisions(state).all(|(_, decision)| first.is_some_and(|(_, first)| decision == first))
    }

    /// A decision names its owner, all ranks that were always there, and nobody's vote is forgotten.
    fn is_valid(&self, state: &State) -> bool {
        let always = |rank: &Rank| {
            let process = &state.processes[*rank];
            process.alive && !process.was_paused && !process.left && self.cuts == 0
        };
        self.decisions(state).all(|(rank, decision)| {
            decision.is_sound(self.ranks)
                && decision.alive.contains(&rank)
                && decision.alive.len() >= self.quorum
                && decision.vote != decision.alive.contains(&(self.ranks - 1))
                && (0..self.ranks).filter(always).all(|rank| decision.alive.contains(&rank))
        })
    }

    /// Only ranks that were paused or cut off are left out.
    fn is_fair(&self, state: &State) -> bool {
        self.cuts > 0
            || self.quorum > 0
            || state.processes.iter().all(|process| {
                let decided =
                    !matches!(&process.call, Call::Ended(outcome) if !matches!(outcome, AgreementOutcome::Decided(_)));
                process.is_excused || decided
            })
    }

    /// If all have come and nothing moves, nobody waits. Where most must agree, a rank waits until its time is up for one
    /// that was silent before it ended.
    fn ends(&self, state: &State) -> bool {
        let mut moves = Vec::new();
        self.moves(state, &mut moves);
        let outside = |process: &Process| process.alive && !process.left && process.call == Call::Outside;
        let inside = |process: &Process| process.alive && matches!(process.call, Call::Inside(_));
        let silence = self.most && self.cuts + self.pauses > 0;
        silence
            || !moves.is_empty()
            || state.processes.iter().any(outside)
            || !state.processes.iter().any(inside)
    }
}

impl Process {
    fn answer(&mut self, from: Rank, request: &ProposerRequest) -> Reply {
        match self.left {
            true => Reply::Resigned,
            false => self.acceptor.answer(from, request),
        }
    }
}

impl State {
    /// Something happens to a rank, if it is in its call.
    fn takes(&mut self, rank: Rank, event: impl FnOnce(&mut Proposer, &mut Acceptor)) {
        let Process { call, acceptor, .. } = &mut self.processes[rank];
        if let Call::Inside(proposer) = call {
            event(proposer, acceptor);
        }
        self.settle(rank);
    }

    fn answered(&self, rank: Rank, peer: Rank) -> bool {
        matches!(self.flights[rank][peer], Some(Flight::Answered(..)))
    }

    /// Whether a request in flight is answered now: a rank that has not come lets the asker wait, unless that wants
    /// something else, or has lost it.
    fn is_worth(&self, rank: Rank, peer: Rank) -> bool {
        let Some(Flight::Asked(request)) = &self.flights[rank][peer] else { return false };
        let Call::Inside(proposer) = &self.processes[rank].call else { return false };
        let reply = self.processes[peer].clone().answer(rank, request);
        !matches!(reply, Reply::Absent | Reply::Undecided(_))
            || !proposer.counts_on(peer)
            || proposer.request(peer).as_ref() != Some(request)
    }

    /// The sender waits no longer for its request; it may still arrive.
    fn give_up(&mut self, rank: Rank, peer: Rank) {
        if let Some(Flight::Asked(request)) = self.flights[rank][peer].take() {
            self.strays.extend(StrayKey::from_request(&request).map(|key| (rank, peer, key)));
        }
    }

    /// The rank asks whom it has to ask, and leaves its call at the end.
    fn settle(&mut self, rank: Rank) {
        let call = &mut self.processes[rank].call;
        let Call::Inside(proposer) = call else { return };
        for peer in (0..self.flights.len()).filter(|peer| *peer != rank) {
            if self.flights[rank][peer].is_none() {
                self.flights[rank][peer] = proposer.request(peer).map(Flight::Asked);
            }
        }
        if let Some(outcome) = proposer.outcome() {
            *call = Call::Ended(outcome.clone());
            for peer in 0..self.flights.len() {
                self.give_up(rank, peer);
                self.flights[rank][peer] = None;
            }
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![self.start()]
    }

    fn actions(&self, state: &State, events: &mut Vec<Event>) {
        self.moves(state, events);
        for (rank, peer, key) in &state.strays {
            if !state.processes[*peer].paused {
                events.push(Event::Stray(*rank, *peer, key.clone()));
            }
        }
        for (rank, process) in state.processes.iter().enumerate().filter(|(_, process)| process.alive) {
            if state.deaths < self.deaths || matches!(process.call, Call::Ended(_)) {
                events.push(Event::Die(rank));
            }
            if process.paused {
                continue;
            }
            if state.pauses < self.pauses {
                events.push(Event::Pause(rank));
            }
            for (peer, other) in state.processes.iter().enumerate().filter(|(_, other)| other.alive) {
                let asks = process.was_paused && peer != rank && !process.absent.contains(&peer);
                let answer = || other.clone().answer(rank, &ProposerRequest::Learn);
                if asks && !other.paused && answer() == Reply::Absent {
                    events.push(Event::Ask(rank, peer));
                }
            }
            match &process.call {
                Call::Outside if !process.left => {
                    events.push(Event::Come(rank));
                    if state.leaves < self.leaves {
                        events.push(Event::Leave(rank));
                    }
                }
                Call::Inside(_) if state.timeouts < self.timeouts => events.push(Event::TimeOut(rank)),
                _ => {}
            }
            if let Call::Inside(proposer) = &process.call {
                for peer in (0..self.ranks).filter(|peer| *peer != rank) {
                    let other = &state.processes[peer];
                    if state.cuts < self.cuts && other.alive && !other.paused && proposer.counts_on(peer) {
                        events.push(Event::Lose(rank, peer));
                    }
                }
            }
        }
    }

    fn next_state(&self, state: &State, event: Event) -> Option<State> {
        Some(self.next(state, &event))
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("all get the same decision", World::agrees),
            Property::always("a decision names all who are there", World::is_valid),
            Property::always("only who was away is left out", World::is_fair),
            Property::always("nobody waits for ever", World::ends),
        ]
    }

    fn within_boundary(&self, state: &State) -> bool {
        state.processes.iter().all(|process| match &process.call {
            Call::Inside(proposer) => proposer.ballots() <= self.ballots,
            _ => true,
        })
    }
}

fn check(world: World) {
    let start = std::time::Instant::now();
    let checker = world.clone().checker().threads(2).spawn_bfs().join();
    println!("{world:?}: {} states, {:.1} s", checker.unique_state_count(), start.elapsed().as_secs_f64());
    checker.assert_properties();
}

const NOTHING: World = World {
    ranks: 3,
    deaths: 0,
    pauses: 0,
    timeouts: 0,
    cuts: 0,
    leaves: 0,
    quorum: 0,
    most: false,
    ballots: 3,
};

/// Explored whole at every test.
#[test]
fn small_worlds() {
    check(World { deaths: 2, ..NOTHING });
    check(World { timeouts: 2, deaths: 1, ..NOTHING });
    check(World { pauses: 1, ballots: 2, ..NOTHING });
    check(World { cuts: 1, ..NOTHING });
    check(World { cuts: 1, quorum: 2, ..NOTHING });
    check(World { deaths: 2, most: true, ..NOTHING });
    check(World { cuts: 1, most: true, ..NOTHING });
    check(World { pauses: 1, most: true, ballots: 2, ..NOTHING });
    check(World { ranks: 4, deaths: 3, ..NOTHING });
    check(World { ranks: 2, deaths: 1, pauses: 1, cuts: 2, leaves: 1, most: true, ..NOTHING });
    check(World { deaths: 1, timeouts: 1, leaves: 1, most: true, ..NOTHING });
}

/// Explored whole by `make check-all`. docs/recovery.md has the numbers of states.
#[test]
fn large_worlds() {
    if std::env::var_os("RINGROAD_TEST_FULL").is_none() {
        return;
    }
    check(World { pauses: 1, deaths: 2, ..NOTHING });
    check(World { pauses: 1, deaths: 1, timeouts: 1, ballots: 2, ..NOTHING });
    check(World { pauses: 2, ballots: 2, ..NOTHING });
    check(World { cuts: 2, ..NOTHING });
    check(World { cuts: 2, quorum: 2, ..NOTHING });
    check(World { cuts: 2, most: true, ..NOTHING });
    check(World { pauses: 2, most: true, ballots: 2, ..NOTHING });
    check(World { pauses: 1, cuts: 1, most: true, ballots: 2, ..NOTHING });
    check(World { pauses: 1, deaths: 2, most: true, ..NOTHING });
    check(World { cuts: 1, timeouts: 1, leaves: 1, most: true, ballots: 2, ..NOTHING });
    check(World { pauses: 1, leaves: 2, most: true, ballots: 2, ..NOTHING });
    check(World { ranks: 4, cuts: 1, most: true, ballots: 2, ..NOTHING });
    check(World { ranks: 4, deaths: 1, timeouts: 1, ..NOTHING });
    check(World { ranks: 4, cuts: 1, ballots: 2, ..NOTHING });
    check(World { ranks: 4, cuts: 1, quorum: 3, ballots: 2, ..NOTHING });
}

/// The network is cut twice, each time differently, and those die who know both sides: who has accepted a decision does not
/// take those for ended that it leaves out.
#[test]
fn who_was_left_out_may_have_gone_on() {
    use Event::*;
    let world = World { ranks: 5, cuts: 5, deaths: 1, most: true, ..NOTHING };
    let mut state = world.start();
    let path = [
        vec![Come(0), Come(1), Come(2), Come(3), Come(4)],
        // First {0, 1} do not reach {3, 4}. 1 accepts {0, 1, 2}, and 2 does not hear of it.
        vec![
            Lose(0, 3),
            Lose(0, 4),
            Deliver(0, 1),
            Receive(0, 1),
            Deliver(0, 2),
            Receive(0, 2),
            Deliver(0, 1),
        ],
        // Then they do not reach 2, and {2, 3, 4} go on.
        vec![Lose(2, 0), Lose(2, 1), Deliver(2, 3), Receive(2, 3), Deliver(2, 4), Receive(2, 4)],
        vec![Deliver(2, 3), Receive(2, 3), Deliver(2, 4), Receive(2, 4)],
        vec![Lose(3, 0), Deliver(3, 2), Receive(3, 2), Die(0), Die(2), MarkDead(1, 0), MarkDead(1, 2)],
    ];
    for event in path.concat() {
        state = world.next(&state, &event);
        assert!(world.agrees(&state), "{event:?}: {state:#?}");
    }
    // It asks them, and hears that they go on.
    for event in [Deliver(1, 3), Receive(1, 3)] {
        state = world.next(&state, &event);
    }
    assert_eq!(state.processes[1].call, Call::Ended(AgreementOutcome::LeftOut));
}

/// Random walks among five ranks, where everything may happen.
#[test]
fn random_walks() {
    let steps = if std::env::var_os("RINGROAD_TEST_FULL").is_some() { 10_000_000 } else { 30_000 };
    let all = World {
        ranks: 5,
        deaths: 3,
        pauses: 3,
        timeouts: 3,
        cuts: 0,
        leaves: 2,
        quorum: 0,
        most: false,
        ballots: u32::MAX,
    };
    for (number, world) in [
        all.clone(),
        World { cuts: 4, ..all.clone() },
        World { cuts: 4, quorum: 3, ..all.clone() },
        World { cuts: 4, most: true, ..all.clone() },
        World { ranks: 4, cuts: 8, most: true, ..all },
    ]
    .into_iter()
    .enumerate()
    {
        let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &[number as u8; 32]);
        let (mut state, mut path) = (world.start(), Vec::new());
        for _ in 0..steps / 5 {
            let mut events = Vec::new();
            world.actions(&state, &mut events);
            if events.is_empty() || path.len() == 500 {
                (state, path) = (world.start(), Vec::new());
                continue;
            }
            let event = events.swap_remove(random.random_range(0..events.len()));
            state = world.next(&state, &event);
            path.push(event);
            for property in world.properties() {
                assert!((property.condition)(&world, &state), "{}: {path:#?}", property.name);
            }
        }
    }
}

//! How connections begin and end.
//!
//! Two ranks share one connection for each pair of devices and stream, whoever of them has called: what goes one way takes
//! the acknowledgements of what goes the other way along. If both call at the same time, the call of the lower rank counts:
//! the higher one takes it up in place of its own, and does not send anything by its own before it is welcome.

use std::io;
use std::time::Instant;

use ringroad_core::Rank;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::Timespec;

use super::door::Admitted;
use super::handshake::Hello;
use super::link::{ConnectAttempts, TcpLink};
use super::matching_state::Who;
use super::reader::ReadOutcome;
use super::writer::FrameWriter;
use super::{
    add, error, socket, TcpTransport, ASLEEP, CALLERS, DOOR, GUEST, LINK, LIVENESS_CHECK_INTERVAL, READY,
    ROUNDS,
};
use crate::config::MOST_STREAMS;
use crate::error::{is_shortage, refused};
use crate::transport::{Event, Lack, TransportError, ABORTED, CLOSED};

/// What may be wrong where a host acknowledges nothing any more.
const STALLED: &str =
    "gets no answer: its host or a network on the way is down, or long packets are lost on the way (MTU?)";

impl TcpTransport {
    /// An error if nothing can be exchanged with `peer`.
    pub(super) fn check(&self, peer: Rank) -> Result<(), TransportError> {
        if self.is_closed {
            return Err(error("the transport has been closed"));
        }
        if peer == self.rank {
            return Err(error(format!("rank {peer} cannot connect to itself")));
        }
        if peer >= self.addresses.len() {
            let ranks = self.addresses.len();
            return Err(error(format!("rank {peer} has no address, of {ranks} ranks")));
        }
        match &self.matching_state.peers[peer].failed {
            None => Ok(()),
            Some(reason) => Err(error(format!("rank {peer} has failed: {reason}"))),
        }
    }

    /// The place of a connection among those to its peer.
    fn place(&self, device: usize, stream: usize) -> usize {
        device * MOST_STREAMS + stream
    }

    /// The number of a connection to `peer`, which is made if necessary.
    #[inline]
    pub(super) fn link(&mut self, peer: Rank, device: usize, stream: usize) -> Result<usize, TransportError> {
        match self.matching_state.peers[peer].links[self.place(device, stream)] {
            Some(link) => Ok(link),
            None => self.call(Who { link: self.links.len(), peer, device, stream }),
        }
    }

    #[cold]
    fn call(&mut self, who: Who) -> Result<usize, TransportError> {
        let link = self.dial(who, ConnectAttempts::default())?;
        self.links.push(Some(link));
        let place = self.place(who.device, who.stream);
        self.matching_state.peers[who.peer].links[place] = Some(who.link);
        Ok(who.link)
    }

    /// Calls the next address of a peer. The error says what this rank lacks, if that is why one of them was not tried in the
    /// last round: the peer may live, wherever else it was called in vain.
    fn dial(&self, who: Who, mut calls: ConnectAttempts) -> Result<TcpLink, TransportError> {
        let addresses = &self.addresses[who.peer][self.wiring.remote_end(who.device)];
        let own = &self.devices[who.device];
        // A port of its own leads out by its own device.
        let is_port = !self.settings.ports.is_empty();
        let device = own.name.as_deref().filter(|_| is_port);
        let mut reason = "all its addresses have been tried".to_owned();
        while calls.tries < addresses.len() * ROUNDS {
            let place = calls.tries % addresses.len();
            if place == 0 {
                calls.lack = None;
            }
            calls.tries += 1;
            let address = addresses[place];
            let mut near = own.doors.iter().map(|(_, door)| door.ip());
            let near = near.find(|near| near.is_ipv4() == address.is_ipv4());
            let called = socket::connect(address, near.filter(|_| is_port), device)
                .and_then(|socket| TcpLink::call(who, socket, address, self.settings.send_buffer))
                .and_then(|link| self.watch(link));
            match called {
                Ok(mut link) => {
                    link.calls = calls;
                    return Ok(link);
                }
                Err(found) => {
                    reason = refused(&address.to_string(), &found);
                    // Where IPv6 is turned off, its addresses are not available, either.
                    if is_shortage(&found) && near.is_some() {
                        calls.lack = Some(reason.clone());
                    }
                }
            }
        }
        let lacks = calls.lack.as_ref().map(|_| Lack::Connection);
        let reason = calls.lack.unwrap_or(reason);
        Err(TransportError { lacks, ..self.cannot_connect(who.peer, &reason) })
    }

    /// Asks the kernel for what a new connection waits for.
    fn watch(&self, mut link: TcpLink) -> io::Result<TcpLink> {
        link.told = link.wanted();
        let name = EventData::new_u64(LINK | link.who.link as u64);
        // A guest's socket is in the list.
        epoll::modify(&self.poll, &link.socket, name, link.told)
            .or_else(|_| epoll::add(&self.poll, &link.socket, name, link.told))?;
        Ok(link)
    }

    pub(super) fn cannot_connect(&self, peer: Rank, reason: &str) -> TransportError {
        error(format!("cannot connect to rank {peer}: {reason}"))
    }

    /// Does what the kernel says can be done now. Returns whether anything has happened.
    pub(super) fn poll_sockets(&mut self) -> bool {
        let mut ready = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; READY];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok((ready, _)) = epoll::wait(&self.poll, &mut ready, Some(&now)) else { return false };
        let mut happened = false;
        for event in ready {
            let name = event.data.u64();
            happened |= match name & (3 << 62) {
                DOOR => self.let_in((name & !DOOR) as usize),
                GUEST => self.hear_guest(name & !GUEST),
                _ => self.attend(name as usize, event.flags),
            };
        }
        self.write_touched() | happened
    }

    fn let_in(&mut self, door: usize) -> bool {
        let mut doors = self.devices.iter().flat_map(|device| &device.doors);
        let Some((door, _)) = doors.nth(door) else { return false };
        for _ in 0..CALLERS {
            // If there are no descriptors for more, they wait.
            let Ok(Some(socket)) = socket::accept(door) else { break };
            self.moved = true;
            let (number, socket) = self.guests.add(socket);
            // Without a place in the list it is never heard, and has to go at last.
            let _ = add(&self.poll, socket, GUEST | number, EventFlags::IN);
        }
        // Strangers are no progress.
        false
    }

    fn hear_guest(&mut self, number: u64) -> bool {
        let (rank, ranks) = (self.rank, self.addresses.len());
        let devices = self.devices.len();
        let is_meant = |hello: Hello| {
            let Hello { from, to, device, stream } = hello;
            to == rank && from != rank && from < ranks && device < devices && stream < MOST_STREAMS
        };
        self.moved = true;
        self.guests.read_guest(number, &self.key, is_meant).is_some_and(|admitted| self.take_call(admitted))
    }

    /// Takes the call of a peer, or keeps it for the case that this rank's own one fails.
    fn take_call(&mut self, admitted: Admitted) -> bool {
        let Hello { from: peer, device, stream, .. } = admitted.hello;
        let place = self.place(device, stream);
        if self.matching_state.peers[peer].failed.is_some() {
            return false;
        }
        let known = self.matching_state.peers[peer].links[place];
        let number = known.unwrap_or(self.links.len());
        if known.is_none() {
            self.links.push(None);
            self.matching_state.peers[peer].links[place] = Some(number);
        }
        let who = Who { link: number, peer, device, stream };
        match &mut self.links[number] {
            None => {
                self.open(who, admitted, FrameWriter::default());
                true
            }
            // Even if this rank's call has been taken, the peer may not know it yet, and must not find its own refused.
            Some(own) if peer > self.rank && own.is_call() => {
                let _ = epoll::delete(&self.poll, &admitted.socket);
                own.rival = Some(Box::new(admitted));
                false
            }
            Some(own) if peer < self.rank && !own.is_open() => {
                let writer = std::mem::take(&mut own.writer);
                self.open(who, admitted, writer);
                true
            }
            // It has called before, and has its connection.
            _ => false,
        }
    }

    /// Opens a connection to a caller, in place of the one with its number.
    fn open(&mut self, who: Who, admitted: Admitted, writer: FrameWriter) {
        let opened = TcpLink::admit(who, admitted, self.settings.send_buffer, writer);
        match opened.and_then(|link| self.watch(link)) {
            Ok(mut link) => {
                if who.peer > self.rank {
                    link.welcome();
                }
                self.links[who.link] = Some(link);
                self.write(who.link);
            }
            Err(reason) => {
                self.links[who.link] = None;
                self.fail(who.peer, &format!("its call cannot be taken: {reason}"));
            }
        }
    }

    /// Reads from a connection, and writes to it if there is room again.
    pub(super) fn attend(&mut self, number: usize, flags: EventFlags) -> bool {
        let Some(link) = self.links.get_mut(number).and_then(Option::as_mut) else { return false };
        let who = link.who;
        let device = self.wiring.remote_end(who.device);
        let hello = Hello { from: self.rank, to: who.peer, device, stream: who.stream };
        let was_open = link.is_open();
        let can_write = was_open && flags.contains(EventFlags::OUT);
        let is_other = flags.intersects(EventFlags::IN | EventFlags::ERR | EventFlags::HUP);
        let mut outcome = Ok(ReadOutcome::Open(false));
        if !was_open || is_other {
            outcome = link.attend(&self.key, hello, &mut self.matching_state, &mut self.scratch);
        }
        let goodbye = link.reader().and_then(|reader| reader.goodbye.take());
        let is_new = link.is_open() && !was_open;
        let has_answers = !link.writer.is_blocked && !link.writer.is_empty();
        let written = match outcome {
            Ok(ReadOutcome::Open(_)) if can_write || is_new || has_answers => {
                link.write(&mut self.matching_state)
            }
            _ => Ok(false),
        };
        if let Some(aborted) = goodbye {
            self.note_goodbye(who.peer, aborted);
        }
        match outcome.and_then(|outcome| written.map(|written| (outcome, written))) {
            Ok((ReadOutcome::Open(moved), written)) => {
                self.keep(number);
                moved || written
            }
            Ok((ReadOutcome::Ended, _)) => self.lose(number, "was closed by the other side"),
            Err(reason) => self.lose(number, &format!("broke: {reason}")),
        }
    }

    /// Asks the kernel for what a connection now waits for.
    fn keep(&mut self, number: usize) {
        let Some(link) = &mut self.links[number] else { return };
        let wanted = link.wanted();
        if wanted != link.told {
            link.told = wanted;
            // The socket is in the list as long as it is open.
            let name = EventData::new_u64(LINK | number as u64);
            let _ = epoll::modify(&self.poll, &link.socket, name, wanted);
        }
    }

    /// Writes to connections for which there is something new.
    pub(super) fn write_touched(&mut self) -> bool {
        let mut happened = false;
        while let Some(number) = self.matching_state.touched.pop() {
            happened |= self.write(number);
        }
        happened
    }

    pub(super) fn write(&mut self, number: usize) -> bool {
        let Some(link) = self.links.get_mut(number).and_then(Option::as_mut) else { return false };
        if link.writer.is_blocked {
            return false;
        }
        match link.write(&mut self.matching_state) {
            Ok(written) => {
                self.keep(number);
                written
            }
            Err(reason) => self.lose(number, &format!("broke: {reason}")),
        }
    }

    /// Gives up a connection. If it was being made, the peer's own call or another address is tried first.
    fn lose(&mut self, number: usize, how: &str) -> bool {
        let Some(link) = self.links[number].take() else { return false };
        let (who, reason) = (link.who, format!("{} {how}", link.name()));
        let mut lack = None;
        if self.matching_state.peers[who.peer].failed.is_none() && !link.is_open() {
            match self.replace(link) {
                Ok(()) => return true,
                // It goes on by fewer connections. This one is not tried again.
                Err(_) if who.stream > 0 => return true,
                Err(error) => lack = error.lacks.map(|_| format!("{}; {reason}", error.reason)),
            }
        }
        let place = self.place(who.device, who.stream);
        self.matching_state.peers[who.peer].links[place] = None;
        if let Some(reason) = lack {
            self.matching_state.events.push(Event::Lacks { peer: who.peer, what: Lack::Connection, reason });
            return true;
        }
        // What the peer has sent before, and its goodbye, may not have been read yet.
        let others: Vec<usize> =
            self.matching_state.peers[who.peer].links.iter().flatten().copied().collect();
        for other in others {
            if self.links[other].as_ref().is_some_and(TcpLink::is_open) {
                self.attend(other, EventFlags::IN);
            }
        }
        self.fail(who.peer, &reason);
        true
    }

    /// Puts the peer's own call, or one to its next address, in place of a call that has failed.
    fn replace(&mut self, link: TcpLink) -> Result<(), TransportError> {
        let TcpLink { who, writer, calls, rival, socket, .. } = link;
        if let Some(rival) = rival {
            self.open(who, *rival, writer);
            return Ok(());
        }
        // The next call may need its descriptor.
        drop(socket);
        let mut again = self.dial(who, calls)?;
        again.writer = writer;
        self.links[who.link] = Some(again);
        Ok(())
    }

    fn note_goodbye(&mut self, peer: Rank, aborted: bool) {
        let reason = if aborted { ABORTED } else { CLOSED };
        let is_known = self.matching_state.peers[peer].failed.is_some();
        self.fail(peer, reason);
        // A goodbye says more than a connection that broke.
        if is_known && !aborted {
            self.matching_state.events.push(Event::PeerFailed { peer, reason: reason.to_owned() });
        }
    }

    /// Notes that a peer is lost, and lets it see that. What it has sent before is still read.
    fn fail(&mut self, peer: Rank, reason: &str) {
        if self.matching_state.peers[peer].failed.is_some() {
            return;
        }
        self.matching_state.peers[peer].failed = Some(reason.to_owned());
        self.matching_state.forget(peer);
        for number in self.matching_state.peers[peer].links.iter().flatten() {
            match &mut self.links[*number] {
                Some(link) if link.is_open() => link.hang_up(),
                other => *other = None,
            }
        }
        self.matching_state.events.push(Event::PeerFailed { peer, reason: reason.to_owned() });
    }

    /// Notices calls that nobody answers, hosts that are silent, and pairs of ranks that need more connections.
    pub(super) fn look_at_all(&mut self) {
        let now = Instant::now();
        let since = self.looked.map(|looked| now - looked);
        if since.is_some_and(|since| since < LIVENESS_CHECK_INTERVAL) {
            return;
        }
        self.looked = Some(now);
        let awake = since.is_some_and(|since| since < ASLEEP);
        for number in 0..self.links.len() {
            let Some(link) = &mut self.links[number] else { continue };
            let is_silent = link.is_silent();
            let was_silent = std::mem::replace(&mut link.was_silent, is_silent);
            let why = match link.is_late(now) {
                true => "gets no answer: its host or a network on the way is down",
                false if awake && is_silent && was_silent => STALLED,
                false => continue,
            };
            socket::reset_at_close(&link.socket);
            self.lose(number, why);
        }
        self.add_streams();
    }
}

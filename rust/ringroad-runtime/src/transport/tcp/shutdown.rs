//! How a rank leaves: after its last message, or by force.

use std::time::{Duration, Instant};

use super::frame::Frame;
use super::link::TcpLink;
use super::{socket, TcpTransport};
use crate::transport::buffer::Region;
use crate::transport::Wait;

/// How long a rank that aborts waits for its last words to leave.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// The longest wait between looks.
const PAUSE: Duration = Duration::from_millis(1);

impl TcpTransport {
    /// Tells the peers that this rank leaves, once its messages have been taken, and waits until their hosts have them.
    pub(super) fn end_gently(&mut self, deadline: Instant) {
        if self.is_closed {
            return;
        }
        self.drive(deadline, |this| {
            let peers = 0..this.matching_state.peers.len();
            let is_sending = |peer: usize| {
                this.matching_state.peers[peer].failed.is_none() && this.matching_state.is_sending(peer)
            };
            !peers.into_iter().any(is_sending)
                && this.links.iter().flatten().all(|link| link.writer.is_empty())
        });
        self.say_goodbye(false);
        self.drive(deadline, |this| {
            let mut open = this.links.iter().flatten().filter(|link| link.is_open());
            open.all(|link| link.writer.is_empty() && socket::is_acknowledged(&link.socket))
        });
        self.end();
    }

    /// Ends everything. No memory of a request is used afterwards.
    pub(super) fn end_by_force(&mut self, deadline: Instant) {
        if self.is_closed {
            return;
        }
        for peer in 0..self.matching_state.peers.len() {
            self.matching_state.forget(peer);
        }
        self.links.iter_mut().flatten().for_each(|link| link.writer.forget_messages());
        self.say_goodbye(true);
        let deadline = deadline.min(Instant::now() + LAST_WORDS);
        self.drive(deadline, |this| {
            this.links.iter().flatten().filter(|link| link.is_open()).all(|link| link.writer.is_empty())
        });
        self.end();
    }

    fn say_goodbye(&mut self, aborted: bool) {
        for number in 0..self.links.len() {
            let Some(link) = self.links[number].as_mut().filter(|link| link.is_open()) else { continue };
            link.writer.answer(Frame::Goodbye { aborted }, Region::nothing());
            self.write(number);
        }
    }

    /// Drives the connections until this is so, or until the deadline. What comes is dropped.
    fn drive(&mut self, deadline: Instant, is_done: impl Fn(&TcpTransport) -> bool) {
        loop {
            let happened = self.poll_sockets();
            self.look_at_all();
            self.matching_state.events.clear();
            let now = Instant::now();
            if is_done(self) || now >= deadline {
                return;
            }
            if !happened {
                self.waiter.block(PAUSE.min(deadline - now));
            }
        }
    }

    fn end(&mut self) {
        self.is_closed = true;
        // What has come and was not read would make the kernel drop what has not arrived there.
        let all: Vec<TcpLink> = self.links.drain(..).flatten().collect();
        for link in &all {
            let _ = rustix::net::shutdown(&link.socket, rustix::net::Shutdown::Write);
        }
        drop(all);
        self.guests = Default::default();
        self.matching_state = super::MatchingState::new(0, 1, 1);
        self.devices.clear();
    }
}

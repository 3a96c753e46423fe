//! Whether the processes of peers on this host still exist.
//!
//! Transports notice a death by a broken connection or a keep-alive, which shared memory does not have everywhere and
//! which a process that nobody has waited for (a zombie) can satisfy. The kernel knows better.

use std::os::fd::OwnedFd;

use ringroad_core::Rank;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use crate::bootstrap::Card;

/// Watches the processes that the kernel lets it watch; about the others it says nothing.
pub(crate) struct Liveness {
    watched: Vec<(Rank, OwnedFd)>,
}

impl Liveness {
    pub fn new(rank: Rank, cards: &[Card]) -> Liveness {
        let own = &cards[rank];
        let near = |card: &&Card| {
            card.rank != rank
                && card.pid != own.pid
                && !own.pid_space.is_empty()
                && card.pid_space == own.pid_space
        };
        let watch = |card: &Card| {
            let pid = Pid::from_raw(card.pid as i32)?;
            Some((card.rank, pidfd_open(pid, PidfdFlags::empty()).ok()?))
        };
        Liveness { watched: cards.iter().filter(near).filter_map(watch).collect() }
    }

    /// The ranks whose processes have ended since the last look.
    pub fn ended(&mut self) -> Vec<Rank> {
        if self.watched.is_empty() {
            return Vec::new();
        }
        let mut fds: Vec<PollFd<'_>> =
            self.watched.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
        if !matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..)) {
            return Vec::new();
        }
        let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let mut ranks = Vec::new();
        let mut index = 0;
        self.watched.retain(|(rank, _)| {
            if ended[index] {
                ranks.push(*rank);
            }
            index += 1;
            !ended[index - 1]
        });
        ranks
    }
}

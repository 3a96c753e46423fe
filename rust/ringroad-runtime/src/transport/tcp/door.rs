//! Callers who have not proved yet that they belong to the group.
//!
//! Everybody who reaches this machine may connect. A caller costs a descriptor and a few hundred bytes until it has shown
//! that it knows the group's key. If too many wait, the oldest that has shown nothing has to go, so that idle ones keep
//! nobody out.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::getpeername;

use super::handshake::{Answered, GroupKey, Hello, Session, FIRST, SECOND, THIRD};
use super::socket;
use crate::os::owner::stranger;

/// How many callers may wait who have shown nothing, and how many who have sent a first message that may be a replay.
const STRANGERS: usize = 128;
const ANSWERED: usize = 1024;

/// A message of a fixed length, as far as it has come.
pub(super) struct PartialMessage<const N: usize> {
    bytes: [u8; N],
    came: usize,
}

impl<const N: usize> PartialMessage<N> {
    pub fn new() -> PartialMessage<N> {
        PartialMessage { bytes: [0; N], came: 0 }
    }

    /// Reads what has come, and no more than the message. Returns it once it is whole; an error if no more will come.
    pub fn read(&mut self, socket: &OwnedFd) -> Result<Option<&[u8; N]>, String> {
        while self.came < N {
            let rest = &mut self.bytes[self.came..];
            let part = [libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() }];
            // SAFETY: memory of this value, which is borrowed here.
            match unsafe { socket::read(socket, &part) }.map_err(|error| error.to_string())? {
                None => return Ok(None),
                Some(0) => return Err("it has closed the connection".to_owned()),
                Some(count) => self.came += count,
            }
        }
        Ok(Some(&self.bytes))
    }
}

/// Writes a message that a new connection takes whole.
pub(super) fn write_whole(socket: &OwnedFd, message: &[u8]) -> Result<(), String> {
    let mut part = [libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() }];
    // SAFETY: memory that is borrowed here, and only read.
    match unsafe { socket::write(socket, &mut part) } {
        Ok(Some(count)) if count == message.len() => Ok(()),
        Ok(_) => Err("the connection does not take a short message".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

enum GuestStage {
    First(PartialMessage<FIRST>),
    Third(Box<Answered>, PartialMessage<THIRD>),
    /// It is another user's, and may look whose door this is.
    Refused,
}

struct Guest {
    socket: OwnedFd,
    stage: GuestStage,
}

/// A caller who belongs to the group.
pub(super) struct Admitted {
    pub socket: OwnedFd,
    pub hello: Hello,
    pub session: Session,
    pub from: Option<SocketAddr>,
}

/// All who wait, the oldest first.
#[derive(Default)]
pub(super) struct Guests {
    all: BTreeMap<u64, Guest>,
    next: u64,
}

impl Guests {
    /// Lets a caller wait. Returns its number, and its socket.
    pub fn add(&mut self, socket: OwnedFd) -> (u64, &OwnedFd) {
        let (mut strangers, mut answered) = (0, 0);
        for guest in self.all.values() {
            match guest.stage {
                GuestStage::First(_) => strangers += 1,
                GuestStage::Third(..) | GuestStage::Refused => answered += 1,
            }
        }
        let is_over = |guest: &Guest| match guest.stage {
            GuestStage::First(_) => strangers >= STRANGERS,
            GuestStage::Third(..) | GuestStage::Refused => answered >= ANSWERED,
        };
        if let Some(oldest) = self.all.iter().find(|(_, guest)| is_over(guest)).map(|(number, _)| *number) {
            self.all.remove(&oldest);
        }
        self.next += 1;
        let guest = Guest { socket, stage: GuestStage::First(PartialMessage::new()) };
        (self.next, &self.all.entry(self.next).or_insert(guest).socket)
    }

    /// Hears what a caller says. Returns it once it has shown that it belongs to the group, and drops it if it shows
    /// that it does not. `is_meant`: whether somebody may call like this.
    pub fn read_guest(
        &mut self,
        number: u64,
        key: &GroupKey,
        is_meant: impl Fn(Hello) -> bool,
    ) -> Option<Admitted> {
        let mut guest = self.all.remove(&number)?;
        match guest.stage {
            GuestStage::First(ref mut message) => {
                if let Some(message) = message.read(&guest.socket).ok()? {
                    if !key.is_sealed && stranger(&guest.socket).ok()?.is_some() {
                        write_whole(&guest.socket, &[0; SECOND]).ok()?;
                        self.all.insert(number, Guest { stage: GuestStage::Refused, ..guest });
                        return None;
                    }
                    let (answered, answer) = Answered::new(key, message, is_meant)?;
                    let answer: [u8; SECOND] = answer;
                    write_whole(&guest.socket, &answer).ok()?;
                    guest.stage = GuestStage::Third(Box::new(answered), PartialMessage::new());
                }
                self.all.insert(number, guest);
                None
            }
            GuestStage::Refused => None,
            GuestStage::Third(answered, mut message) => match message.read(&guest.socket).ok()?.copied() {
                Some(message) => {
                    let hello = answered.hello;
                    let session = answered.finish(&message)?;
                    let from = getpeername(&guest.socket).ok().flatten();
                    let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                    Some(Admitted { socket: guest.socket, hello, session, from })
                }
                None => {
                    guest.stage = GuestStage::Third(answered, message);
                    self.all.insert(number, guest);
                    None
                }
            },
        }
    }
}

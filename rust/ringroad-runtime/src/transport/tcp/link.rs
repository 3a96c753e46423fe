//! A connection to a peer: how it begins, and what is read and written once it is open.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::net::getsockname;

use super::door::{write_whole, Admitted, PartialMessage};
use super::frame::Frame;
use super::handshake::{Caller, GroupKey, Hello, SECOND};
use super::matching_state::{MatchingState, Who};
use super::places::device_of;
use super::reader::{ReadOutcome, Reader};
use super::socket;
use super::writer::FrameWriter;
use crate::error::{is_shortage, refused};
use crate::os::owner::{other_user, stranger};
use crate::os::tcp_info::TcpInfo;
use crate::transport::buffer::Region;

/// Why a peer may not answer as it should.
const STRANGER: &str =
    "it is not a rank of this group, or has another RINGROAD_SECRET; set the same for all ranks";

/// How long another host may take to answer a call.
const CALL: Duration = Duration::from_secs(3);

/// How a connection stands.
enum LinkStage {
    /// The other host has not answered.
    Calling(Instant),
    /// The peer has not answered.
    Greeting(Option<Caller>, PartialMessage<SECOND>),
    Open(Box<Reader>),
}

pub(super) struct TcpLink {
    pub who: Who,
    pub socket: OwnedFd,
    stage: LinkStage,
    pub writer: FrameWriter,
    /// What the kernel is asked to tell.
    pub told: EventFlags,
    /// The other end.
    pub remote: Option<SocketAddr>,
    /// How this rank has called, if it has.
    pub calls: ConnectAttempts,
    /// Whether the other host was silent when it was last looked at.
    pub was_silent: bool,
    /// A call of the peer, which counts if this one fails. Kept until the peer has taken this one.
    pub rival: Option<Box<Admitted>>,
}

/// The calls to a peer that are meant to make one connection.
#[derive(Default)]
pub(super) struct ConnectAttempts {
    /// How many of its addresses have been tried.
    pub tries: usize,
    /// What this rank lacked for one of them in the last round.
    pub lack: Option<String>,
}

impl TcpLink {
    /// A call to a peer, by a socket that is being connected to this address.
    pub fn call(
        who: Who,
        socket: OwnedFd,
        address: SocketAddr,
        unsent: Option<usize>,
    ) -> io::Result<TcpLink> {
        TcpLink::new(who, socket, LinkStage::Calling(Instant::now()), Some(address), unsent)
    }

    fn new(
        who: Who,
        socket: OwnedFd,
        stage: LinkStage,
        remote: Option<SocketAddr>,
        unsent: Option<usize>,
    ) -> io::Result<TcpLink> {
        socket::prepare(&socket, unsent)?;
        let (writer, told) = (FrameWriter::default(), EventFlags::empty());
        Ok(TcpLink {
            who,
            socket,
            stage,
            writer,
            told,
            remote,
            calls: ConnectAttempts::default(),
            was_silent: false,
            rival: None,
        })
    }

    /// Takes a caller who belongs to the group, and sends it what `writer` has.
    pub fn admit(
        who: Who,
        admitted: Admitted,
        unsent: Option<usize>,
        mut writer: FrameWriter,
    ) -> io::Result<TcpLink> {
        let Admitted { socket, session, from, .. } = admitted;
        writer.begin(&session);
        let stage = LinkStage::Open(Box::new(Reader::new(&session, true)));
        Ok(TcpLink { writer, ..TcpLink::new(who, socket, stage, from, unsent)? })
    }

    /// Tells a caller that its call has been taken.
    pub fn welcome(&mut self) {
        self.writer.answer(Frame::Welcome, Region::nothing());
    }

    /// Whether this rank may write to the peer.
    pub fn is_open(&self) -> bool {
        matches!(&self.stage, LinkStage::Open(reader) if reader.is_welcome)
    }

    /// Whether this rank has called.
    pub fn is_call(&self) -> bool {
        self.calls.tries > 0
    }

    /// Writes nothing more, and lets the peer see that.
    pub fn hang_up(&mut self) {
        self.writer = FrameWriter::default();
        if let LinkStage::Open(reader) = &mut self.stage {
            reader.is_welcome = false;
        }
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }

    /// Names the peer, where it is, and the device that leads there.
    pub fn name(&self) -> String {
        let at = self.remote.map_or_else(String::new, |remote| format!(" at {remote}"));
        let own = getsockname(&self.socket).ok().and_then(|own| SocketAddr::try_from(own).ok());
        let by = own
            .and_then(|own| device_of(own.ip()))
            .map_or_else(String::new, |name| format!(" by device {name}"));
        format!("the connection to rank {}{at}{by}", self.who.peer)
    }

    /// Goes on after the kernel has said that something can be done.
    pub fn attend(
        &mut self,
        key: &GroupKey,
        hello: Hello,
        matching_state: &mut MatchingState,
        scratch: &mut [u8],
    ) -> Result<ReadOutcome, String> {
        match &mut self.stage {
            LinkStage::Calling(_) => {
                socket::error(&self.socket).map_err(|error| error.to_string())?;
                let (caller, message) = Caller::new(key, hello).map_err(|error| error.to_string())?;
                write_whole(&self.socket, &message)?;
                self.stage = LinkStage::Greeting(Some(caller), PartialMessage::new());
                Ok(ReadOutcome::Open(true))
            }
            LinkStage::Greeting(caller, message) => {
                let message = message.read(&self.socket).map_err(|reason| format!("{reason}; {STRANGER}"))?;
                let Some(message) = message else { return Ok(ReadOutcome::Open(false)) };
                let finished = caller.take().and_then(|caller| caller.finish(message));
                // It has taken the connection by now, so that the kernel knows whose it is.
                let other = match (key.is_sealed, &finished) {
                    (true, _) => None,
                    (false, None) => other_user(&self.socket).ok().flatten(),
                    (false, Some(_)) => stranger(&self.socket).map_err(|error| {
                        // To ask the kernel takes a descriptor.
                        self.calls.lack =
                            is_shortage(&error).then(|| refused("cannot see who answers", &error));
                        error.to_string()
                    })?,
                };
                other.map_or(Ok(()), |other| Err(format!("it {other}")))?;
                let (session, message) = finished.ok_or(STRANGER)?;
                write_whole(&self.socket, &message)?;
                self.writer.begin(&session);
                self.stage = LinkStage::Open(Box::new(Reader::new(&session, hello.from < hello.to)));
                Ok(ReadOutcome::Open(true))
            }
            LinkStage::Open(reader) => {
                let outcome = reader.read(&self.socket, self.who, matching_state, scratch)?;
                if outcome == ReadOutcome::Open(true) {
                    self.rival = None;
                }
                for frame in reader.answers.drain(..) {
                    self.writer.answer(frame, Region::nothing());
                }
                Ok(outcome)
            }
        }
    }

    /// Writes what can be written. Returns whether that was anything.
    pub fn write(&mut self, matching_state: &mut MatchingState) -> Result<bool, String> {
        if !self.is_open() {
            return Ok(false);
        }
        self.writer.write(&self.socket, self.who, matching_state).map_err(|error| error.to_string())
    }

    /// What the kernel has to tell of this connection.
    pub fn wanted(&self) -> EventFlags {
        match self.stage {
            LinkStage::Calling(_) => EventFlags::OUT,
            LinkStage::Open(_) if self.writer.is_blocked => EventFlags::IN | EventFlags::OUT,
            _ => EventFlags::IN,
        }
    }

    /// What is being read, once it is open.
    pub fn reader(&mut self) -> Option<&mut Reader> {
        match &mut self.stage {
            LinkStage::Open(reader) => Some(reader),
            _ => None,
        }
    }

    /// Whether the other host has not answered this call. It may have while this rank did not look.
    pub fn is_late(&self, now: Instant) -> bool {
        matches!(self.stage, LinkStage::Calling(since) if now - since > CALL)
            && TcpInfo::from_socket(&self.socket).is_some_and(|info| info.is_calling())
    }

    /// Whether the other host of a connection owes an answer and gives none.
    pub fn is_silent(&self) -> bool {
        !matches!(self.stage, LinkStage::Calling(_))
            && TcpInfo::from_socket(&self.socket).is_some_and(|info| info.is_silent())
    }
}

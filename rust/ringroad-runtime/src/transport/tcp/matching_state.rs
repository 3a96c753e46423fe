//! What is known of messages: receives and messages that wait for each other, and what each peer may send.
//!
//! A peer may have sent eager messages of [`ArrivalLimits::window`] bytes in all that no receive has taken up, with
//! [`COST`] for each of them. The receiver grants more as it takes them up. A sender that has used this up only announces
//! further messages, so that memory for what comes unexpected is bounded, whatever the ranks do.
//!
//! Receives may take up messages in any order, so that an announcement cannot wait for earlier ones. The receiver keeps it,
//! which costs it less than its sender; whoever announces more than [`ArrivalLimits::announced`] is not believed any
//! more.

use std::collections::VecDeque;

use ringroad_core::Rank;

use super::frame::Frame;
use super::slab::Slab;
use crate::transport::buffer::Region;
use crate::transport::matching::Matching;
use crate::transport::notice;
use crate::transport::{Event, Failure, Lack, MessageKind, RequestId, Subject, Tag, Unclaimed};

/// What every eager message costs besides its bytes: about the memory that it takes.
pub(super) const COST: usize = 128;
/// The most bytes of a [`Frame::Part`]: whatever else has to leave waits for no more than these.
pub(super) const PART: usize = 128 << 10;

/// How much may come before it is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrivalLimits {
    /// The most bytes of an eager message.
    pub eager: usize,
    /// The most bytes of eager messages from one peer that no receive has taken up.
    pub window: usize,
    /// The most announced messages from one peer that no receive has taken up. The sender needs 7 GB for as many.
    pub announced: usize,
}

impl ArrivalLimits {
    /// For groups of so many ranks, any of which may send.
    pub fn new(ranks: usize) -> ArrivalLimits {
        let window = ((128 << 20) / ranks.max(1)).clamp(256 << 10, 4 << 20);
        ArrivalLimits { eager: (window / 4).min(512 << 10), window, announced: 1 << 22 }
    }
}

/// A connection, as the matching_state knows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who {
    pub link: usize,
    pub peer: Rank,
    /// This rank's device.
    pub device: usize,
    pub stream: usize,
}

/// Where the bytes that follow a header go.
pub(super) enum Sink {
    /// To the memory of a receive.
    Target(Target),
    /// To memory of this rank, until a receive with this key comes.
    Unexpected {
        region: Region,
        key: u64,
    },
    /// To a part of the memory of an accepted message.
    Part {
        region: Region,
        receive: u32,
    },
    Notice {
        region: Region,
    },
    Nowhere,
}

impl Sink {
    /// The memory; `None` if the bytes are dropped.
    pub fn region(&self) -> Option<&Region> {
        match self {
            Sink::Target(Target { region, .. })
            | Sink::Unexpected { region, .. }
            | Sink::Part { region, .. }
            | Sink::Notice { region } => Some(region),
            Sink::Nowhere => None,
        }
    }
}

/// The memory of a receive that a message fills, from its start.
pub(super) struct Target {
    region: Region,
    request: RequestId,
    /// The number of bytes that the receive was posted for.
    expected: usize,
}

impl Target {
    /// The message has come.
    fn ended(&self) -> Event {
        let (found, expected) = (self.region.len(), self.expected);
        let result =
            (found == expected).then_some(()).ok_or(Failure::Length { found: Some(found), expected });
        Event::Completed { request: self.request, result }
    }
}

/// What a header leads to.
pub(super) enum Consequence {
    /// The bytes that follow go there.
    Body(Sink),
    /// No bytes follow, and this is answered on the same connection.
    Answer(Frame),
    Nothing,
    /// The peer has taken this rank's call.
    Opens,
    /// The peer leaves.
    Leaves {
        aborted: bool,
    },
}

struct TcpReceive {
    tag: u64,
    target: Region,
    request: RequestId,
}

impl TcpReceive {
    /// The memory for a message of so many bytes, which fits.
    fn room(self, bytes: usize) -> Target {
        Target { region: self.target.part(0..bytes), request: self.request, expected: self.target.len() }
    }
}

/// A message that no receive has taken up.
pub(super) struct ArrivedMessage {
    tag: u64,
    bytes: usize,
    state: ArrivalState,
}

/// How much of a message has come.
enum ArrivalState {
    Whole(Region),
    /// It is coming by this connection.
    Partly(usize),
    /// Its sender waits for an answer by this connection.
    Announced {
        link: usize,
        send: u32,
    },
}

/// What the poster of a receive has to do.
pub(super) enum Taken {
    /// Nothing: the receive is complete.
    Whole,
    /// Wait: the message will come.
    Wait,
    /// Tell this connection where the message that it is reading goes.
    Redirect(usize, Sink),
    /// Send this by that connection.
    Answer(usize, Frame),
}

/// A message that has been accepted, while its parts come.
struct Accepted {
    target: Target,
    /// How many bytes have been announced by headers of parts, and how many of these have come.
    promised: usize,
    came: usize,
}

/// A message that the peer has accepted, while its parts leave.
pub(super) struct Leaving {
    source: Region,
    receive: u32,
    request: RequestId,
    /// How many bytes have been given to connections, and how many of these have left.
    given: usize,
    left: usize,
}

/// One peer.
#[derive(Default)]
pub(super) struct TcpPeer {
    /// Why it is lost, if it is.
    pub failed: Option<String>,
    /// The connections to it, by device and stream.
    pub links: Vec<Option<usize>>,
    /// What it has granted this rank and is not used up.
    credit: usize,
    /// What its eager messages cost that are not granted again; and how much of that has been taken up.
    used: usize,
    taken: usize,
    /// How many messages it has announced that no receive has taken up.
    waiting: usize,
    /// Messages that it has not answered yet, and those that it has accepted.
    announced: Slab<(Region, RequestId)>,
    leaving: Slab<Leaving>,
    /// The latter, by device, of which something is to be given to a connection.
    queues: Vec<VecDeque<u32>>,
    accepted: Slab<Accepted>,
}

pub(super) struct MatchingState {
    limits: ArrivalLimits,
    pub peers: Vec<TcpPeer>,
    /// By device.
    matching: Vec<Matching<ArrivedMessage, TcpReceive>>,
    pub events: Vec<Event>,
    /// The connections that may have something to write.
    pub touched: Vec<usize>,
}

impl MatchingState {
    pub fn new(ranks: usize, devices: usize, streams: usize) -> MatchingState {
        MatchingState::with_limits(ArrivalLimits::new(ranks), ranks, devices, streams)
    }

    pub fn with_limits(limits: ArrivalLimits, ranks: usize, devices: usize, streams: usize) -> MatchingState {
        let peer = || TcpPeer {
            credit: limits.window,
            links: vec![None; devices * streams],
            queues: (0..devices).map(|_| VecDeque::new()).collect(),
            ..TcpPeer::default()
        };
        MatchingState {
            limits,
            peers: (0..ranks).map(|_| peer()).collect(),
            matching: (0..devices).map(|_| Matching::default()).collect(),
            events: Vec::new(),
            touched: Vec::new(),
        }
    }

    // ---- What this rank wants ----

    /// The header of a message to `peer`: it is eager if that is allowed now.
    pub fn header(&mut self, peer: Rank, tag: u64, source: &Region, request: RequestId) -> Frame {
        let (bytes, peer) = (source.len(), &mut self.peers[peer]);
        if bytes <= self.limits.eager && bytes + COST <= peer.credit {
            peer.credit -= bytes + COST;
            return Frame::Eager { tag, bytes };
        }
        Frame::Announce { tag, bytes, send: peer.announced.insert((source.clone(), request)) }
    }

    /// Posts a receive of a message that arrives at `device`.
    pub fn receive(&mut self, device: usize, tag: Tag, target: Region, request: RequestId) -> Taken {
        let (packed, peer) = (tag.pack(), tag.source);
        let wanted = TcpReceive { tag: packed, target, request };
        let Some(message) = self.matching[device].take_message(packed & Tag::MATCH) else {
            self.matching[device].keep_wanted(packed & Tag::MATCH, wanted);
            return Taken::Wait;
        };
        let fits = self.fits(message.tag, message.bytes, &wanted);
        match message.state {
            ArrivalState::Announced { .. } => self.peers[peer].waiting -= 1,
            _ => self.take_up(peer, device, message.bytes),
        }
        match message.state {
            ArrivalState::Whole(region) if fits => {
                let target = wanted.room(message.bytes);
                // SAFETY: the message has come whole into memory of our own, and the poster leaves the target alone until
                // the receive has ended.
                unsafe { target.region.copy_from(&region) };
                if message.bytes == target.expected {
                    return Taken::Whole;
                }
                self.events.push(target.ended());
                Taken::Wait
            }
            ArrivalState::Whole(_) => Taken::Wait,
            ArrivalState::Partly(link) if fits => {
                Taken::Redirect(link, Sink::Target(wanted.room(message.bytes)))
            }
            ArrivalState::Partly(link) => Taken::Redirect(link, Sink::Nowhere),
            ArrivalState::Announced { link, send } if fits => {
                Taken::Answer(link, self.accept(peer, send, wanted.room(message.bytes)))
            }
            ArrivalState::Announced { link, send } => Taken::Answer(link, Frame::Decline { send }),
        }
    }

    /// Whether a message for this receive has come whole.
    pub fn has_come(&mut self, device: usize, tag: Tag) -> bool {
        self.matching[device]
            .first(tag.pack() & Tag::MATCH)
            .is_some_and(|message| matches!(message.state, ArrivalState::Whole(_)))
    }

    /// The tag of a message of this call that no receive has taken up.
    pub fn unclaimed_tag(&self, call: u64) -> Option<Tag> {
        self.matching.iter().find_map(|matching| matching.unclaimed_tag(call))
    }

    /// The first message of this subject that no receive has taken up.
    pub fn first_of(&self, subject: Subject) -> Option<Unclaimed> {
        let found = self.matching.iter().find_map(|matching| matching.first_of(subject));
        found.map(|(tag, message)| Unclaimed { tag, bytes: message.bytes })
    }

    /// The oldest message of a collective at each device that no receive has taken up.
    pub fn oldest(&mut self) -> impl Iterator<Item = Tag> + '_ {
        self.matching.iter_mut().filter_map(Matching::oldest)
    }

    /// Whether messages to `peer` wait for its answer or leave in parts.
    pub fn is_sending(&self, peer: Rank) -> bool {
        !self.peers[peer].announced.is_empty() || !self.peers[peer].leaving.is_empty()
    }

    // ---- What others say ----

    /// A header that has come. An error says what is wrong with it.
    pub fn heard(&mut self, who: Who, frame: Frame) -> Result<Consequence, String> {
        let unknown = || format!("it has sent {frame:?}, which concerns no message");
        Ok(match frame {
            Frame::Eager { tag, bytes } => Consequence::Body(self.eager(who, tag, bytes)?),
            Frame::Announce { tag, bytes, send } => self.announced(who, tag, bytes, send)?,
            Frame::Accept { send, receive } => {
                let peer = &mut self.peers[who.peer];
                let (source, request) = peer.announced.remove(send).ok_or_else(unknown)?;
                let leaving = Leaving { source, receive, request, given: 0, left: 0 };
                let send = peer.leaving.insert(leaving);
                peer.queues[who.device].push_back(send);
                let streams = peer.links.len() / peer.queues.len();
                let all = &peer.links[who.device * streams..][..streams];
                self.touched.extend(all.iter().flatten());
                Consequence::Nothing
            }
            Frame::Decline { send } => {
                let (_, request) = self.peers[who.peer].announced.remove(send).ok_or_else(unknown)?;
                self.events.push(Event::Completed { request, result: Ok(()) });
                Consequence::Nothing
            }
            Frame::Part { receive, offset, bytes } => {
                let accepted = self.peers[who.peer].accepted.get_mut(receive).ok_or_else(unknown)?;
                let total = accepted.target.region.len();
                // More bytes than the message has would end it while some are still being written.
                let start = usize::try_from(offset).ok().filter(|start| *start <= total);
                let start = start.filter(|start| bytes <= PART && bytes <= total - start);
                let start = start.filter(|_| bytes <= total - accepted.promised).ok_or_else(unknown)?;
                accepted.promised += bytes;
                Consequence::Body(Sink::Part {
                    region: accepted.target.region.part(start..start + bytes),
                    receive,
                })
            }
            Frame::Credit { cost } => {
                let peer = &mut self.peers[who.peer];
                let credit = usize::try_from(cost).ok().and_then(|cost| peer.credit.checked_add(cost));
                peer.credit = credit.filter(|sum| *sum <= self.limits.window).ok_or_else(unknown)?;
                Consequence::Nothing
            }
            Frame::Notice { bytes } if bytes <= notice::MAX_NOTICE_BYTES => {
                let room = self.room(who.peer, bytes);
                Consequence::Body(room.map_or(Sink::Nowhere, |region| Sink::Notice { region }))
            }
            Frame::Notice { bytes } => return Err(format!("it has sent an invalid notice of {bytes} bytes")),
            Frame::Goodbye { aborted } => Consequence::Leaves { aborted },
            Frame::Welcome => Consequence::Opens,
        })
    }

    fn eager(&mut self, who: Who, tag: u64, bytes: usize) -> Result<Sink, String> {
        check_source(who, tag)?;
        let peer = &mut self.peers[who.peer];
        if bytes > self.limits.eager || peer.used + bytes + COST > self.limits.window {
            return Err(format!("it has sent {bytes} bytes that were not granted"));
        }
        peer.used += bytes + COST;
        let key = tag & Tag::MATCH;
        let Some(wanted) = self.matching[who.device].take_wanted(key) else {
            let Some(region) = self.room(who.peer, bytes) else { return Ok(Sink::Nowhere) };
            let message = ArrivedMessage { tag, bytes, state: ArrivalState::Partly(who.link) };
            self.matching[who.device].keep_message(tag, message);
            return Ok(Sink::Unexpected { region, key });
        };
        self.take_up(who.peer, who.device, bytes);
        Ok(if self.fits(tag, bytes, &wanted) { Sink::Target(wanted.room(bytes)) } else { Sink::Nowhere })
    }

    /// Memory for what comes before it is wanted. Without it, what comes is dropped, and this rank gives up.
    fn room(&mut self, peer: Rank, bytes: usize) -> Option<Region> {
        let room = Region::scratch(bytes);
        room.map_err(|error| {
            self.events.push(Event::Lacks { peer, what: Lack::Memory, reason: error.to_string() });
        })
        .ok()
    }

    fn announced(&mut self, who: Who, tag: u64, bytes: usize, send: u32) -> Result<Consequence, String> {
        check_source(who, tag)?;
        let (key, matching) = (tag & Tag::MATCH, &mut self.matching[who.device]);
        let Some(wanted) = matching.take_wanted(key) else {
            let waiting = &mut self.peers[who.peer].waiting;
            if *waiting == self.limits.announced {
                return Err(format!(
                    "it has announced more than {waiting} messages for which there is no receive"
                ));
            }
            *waiting += 1;
            let state = ArrivalState::Announced { link: who.link, send };
            matching.keep_message(tag, ArrivedMessage { tag, bytes, state });
            return Ok(Consequence::Nothing);
        };
        Ok(Consequence::Answer(match self.fits(tag, bytes, &wanted) {
            true => self.accept(who.peer, send, wanted.room(bytes)),
            false => Frame::Decline { send },
        }))
    }

    /// Whether the message is the one that is wanted. If not, the receive ends with an error.
    fn fits(&mut self, tag: u64, bytes: usize, wanted: &TcpReceive) -> bool {
        let (found, expected) = (Tag::unpack(tag), wanted.target.len());
        let is_shorter = bytes < expected && found.kind == MessageKind::PointToPoint;
        let failure = if tag != wanted.tag {
            Failure::Check { found, bytes: Some(bytes) }
        } else if bytes != expected && !is_shorter {
            Failure::Length { found: Some(bytes), expected }
        } else {
            return true;
        };
        self.events.push(Event::Completed { request: wanted.request, result: Err(failure) });
        false
    }

    fn accept(&mut self, peer: Rank, send: u32, target: Target) -> Frame {
        let receive = self.peers[peer].accepted.insert(Accepted { target, promised: 0, came: 0 });
        Frame::Accept { send, receive }
    }

    /// All bytes of a body have come.
    pub fn came(&mut self, who: Who, place: Sink) {
        match place {
            Sink::Target(target) => self.events.push(target.ended()),
            Sink::Unexpected { region, key } => {
                let is_it = |message: &ArrivedMessage| matches!(message.state, ArrivalState::Partly(link) if link == who.link);
                if let Some(message) = self.matching[who.device].find_last(key, is_it) {
                    message.state = ArrivalState::Whole(region);
                }
            }
            Sink::Part { region, receive } => {
                let all = &mut self.peers[who.peer].accepted;
                let Some(accepted) = all.get_mut(receive) else { return };
                accepted.came += region.len();
                if accepted.came == accepted.target.region.len() {
                    self.events.push(accepted.target.ended());
                    all.remove(receive);
                }
            }
            Sink::Notice { region } => {
                // SAFETY: all of it has come, and nobody else knows this memory.
                let payload = unsafe { region.to_vec::<u8>() };
                self.events.push(Event::Notice { from: who.peer, payload });
            }
            Sink::Nowhere => {}
        }
    }

    // ---- What leaves ----

    /// Notes that a receive has taken up an eager message.
    fn take_up(&mut self, peer: Rank, device: usize, bytes: usize) {
        let peer = &mut self.peers[peer];
        peer.taken += bytes + COST;
        if peer.taken >= self.limits.window / 4 {
            let streams = peer.links.len() / peer.queues.len();
            self.touched.extend(peer.links[device * streams]);
        }
    }

    /// What the peer of this connection is to be told of what has been taken up.
    pub fn grant(&mut self, who: Who) -> Option<Frame> {
        let peer = &mut self.peers[who.peer];
        if who.stream > 0 || peer.taken < self.limits.window / 4 {
            return None;
        }
        peer.used -= peer.taken;
        Some(Frame::Credit { cost: std::mem::take(&mut peer.taken) as u64 })
    }

    /// The next part of an accepted message that can leave by this connection, and the number of the message, for
    /// [`MatchingState::part_left`]. Messages leave in the order in which they were accepted.
    pub fn next_part(&mut self, who: Who) -> Option<(Frame, Region, u32)> {
        let TcpPeer { queues, leaving, .. } = &mut self.peers[who.peer];
        let send = queues[who.device].pop_front()?;
        let message = leaving.get_mut(send)?;
        let (start, end) = (message.given, (message.given + PART).min(message.source.len()));
        message.given = end;
        if end < message.source.len() {
            queues[who.device].push_front(send);
        }
        let frame = Frame::Part { receive: message.receive, offset: start as u64, bytes: end - start };
        Some((frame, message.source.part(start..end), send))
    }

    /// A part has left.
    pub fn part_left(&mut self, peer: Rank, send: u32, bytes: usize) {
        let Some(message) = self.peers[peer].leaving.get_mut(send) else { return };
        message.left += bytes;
        if message.left == message.source.len() {
            let request = message.request;
            self.peers[peer].leaving.remove(send);
            self.events.push(Event::Completed { request, result: Ok(()) });
        }
    }

    /// Drops what was to be sent to a peer that is lost.
    pub fn forget(&mut self, peer: Rank) {
        let peer = &mut self.peers[peer];
        (peer.announced, peer.leaving) = Default::default();
        peer.queues.iter_mut().for_each(VecDeque::clear);
    }
}

fn check_source(who: Who, tag: u64) -> Result<(), String> {
    let Tag { source, kind, .. } = Tag::unpack(tag);
    if source == who.peer && kind != MessageKind::Control {
        return Ok(());
    }
    Err(format!("it has sent a message with the tag {tag:x}, which is none of its own"))
}

//! Messages over TCP connections of our own, for hosts that are joined by Ethernet.
//!
//! **Connections.** A rank calls the peers to which it has something to send, unless they have called before: two ranks share
//! a connection (`connections`). Each device that serves ports has its own (see `wiring`).
//!
//! **Messages.** A short message leaves with its header (eager). A longer one is announced; its bytes leave in parts once the receiver
//! has accepted it, and are read straight into the receiver's memory. So are those of an eager message whose receive has
//! been posted. What comes before it is wanted is bounded (`matching_state`). All bytes leave from the memory of the sender.
//!
//! **Progress** is made by the thread that calls: one look at the kernel's list of what is ready (epoll), then reading and
//! writing, with a limit for each connection, so that none keeps others waiting.
//!
//! **Strangers.** Everybody may connect. A member of the group proves first that it is one (`handshake`); until then it costs a bounded
//! number of descriptors and nothing else (`door`). With a secret, everything is encrypted (`seal`).
//!
//! **Ends.** A process that ends closes its connections, which its peers notice at once. A host that does not answer is
//! noticed by what the kernel says of the connections. A rank that is stopped is not lost: its host answers. A forked
//! child closes its copies of the sockets; it can have a transport of its own.

mod connections;
mod door;
mod frame;
pub(crate) mod handshake;
#[cfg(any(test, fuzzing))]
mod hostile;
mod link;
mod matching_state;
mod places;
mod reader;
pub(crate) mod seal;
mod shutdown;
mod slab;
mod socket;
mod streams;
mod writer;

#[cfg(fuzzing)]
pub(crate) use self::{
    handshake::fuzz as greet,
    hostile::{conversations, hear_anything},
};

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ringroad_core::{Port, Rank, Topology};
use rustix::event::epoll::{self, EventData, EventFlags};

use self::door::Guests;
use self::frame::Frame;
use self::handshake::GroupKey;
use self::link::TcpLink;
use self::matching_state::{MatchingState, Taken};
use self::places::TcpDevice;
use self::reader::SCRATCH;
use super::events::EventWait;
use super::forks::ForkGuard;
use super::routed::Routed;
use super::shared::SharedMemory;
use super::wiring::DeviceWiring;
use super::{
    Carrier, CountedConnection, Description, Event, Opening, Posted, RequestId, Subject, Tag, Transport,
    TransportError, Unclaimed, Wait,
};
use crate::config::{Secret, MOST_STREAMS};
use crate::os::ports::PortRange;
use crate::transport::buffer::Region;

const NAME: &str = "tcp";
/// The version of what travels on the connections: ranks with different ones cannot talk to each other.
const VERSION: &str = "1";
/// How many connections are looked at at a time.
const READY: usize = 64;
/// How many callers are let in at a time.
const CALLERS: usize = 16;
/// How often each address of a peer is tried that hangs up without having answered.
const ROUNDS: usize = 3;
/// How often connections are looked at, to notice hosts that are silent.
const LIVENESS_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// A rank that has not looked for longer was not awake: it must see the silence once more.
const ASLEEP: Duration = Duration::from_secs(2);

/// What the kernel's events name: a socket of a kind, by its number.
const LINK: u64 = 0;
const GUEST: u64 = 1 << 62;
const DOOR: u64 = 2 << 62;

/// How to use the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TcpSettings {
    /// The network devices to listen on; all if none is named.
    pub devices: Vec<String>,
    /// The network devices that serve the ports, one each, in rotation. They replace `devices`. If the list is empty, all
    /// ports are served alike.
    pub ports: Vec<String>,
    /// The first and the last port to listen at.
    pub range: PortRange,
    /// How many bytes a connection takes before it can send them.
    pub send_buffer: Option<usize>,
    /// How many connections carry the messages between two ranks by one device; `None`: as many as suit (`accounts`).
    pub streams: Option<usize>,
    /// The job's secret, if there is one: then everything is encrypted.
    pub secret: Option<String>,
}

/// The transport over TCP.
///
/// Make one, publish its [`Carrier::addresses`], and pass all ranks' addresses to [`Carrier::set_addresses`].
pub struct TcpTransport {
    rank: Rank,
    settings: TcpSettings,
    poll: OwnedFd,
    devices: Vec<TcpDevice>,
    published: Vec<Vec<u8>>,
    /// The addresses of all ranks, by rank and device.
    addresses: Vec<Vec<Vec<SocketAddr>>>,
    wiring: DeviceWiring,
    key: GroupKey,
    /// By number; numbers are not used again.
    links: Vec<Option<TcpLink>>,
    guests: Guests,
    matching_state: MatchingState,
    waiter: Arc<EventWait>,
    scratch: Box<[u8]>,
    looked: Option<Instant>,
    /// Whether anything has happened since the waiter was last told so, if only that strangers have called.
    moved: bool,
    is_closed: bool,
    /// Dropped last: until then, children close these sockets.
    _watched: ForkGuard,
}

/// Opens it as the settings say.
pub(crate) fn open(opening: Opening) -> Result<Box<dyn Carrier>, TransportError> {
    let config = opening.config;
    let named = config.devices_of_all().or(opening.interface);
    let settings = TcpSettings {
        devices: named.iter().flat_map(|names| names.split(',')).map(str::to_owned).collect(),
        ports: config.devices_of_ports().to_vec(),
        range: config.tcp_ports,
        send_buffer: opening.send_buffer,
        streams: config.transport.streams,
        secret: config.secret.as_ref().map(Secret::reveal).map(str::to_owned),
    };
    Ok(Box::new(TcpTransport::new(opening.rank, opening.size, settings, opening.others)?))
}

impl TcpTransport {
    /// Listens as rank `rank` of `size`, and connects to no rank yet. Blocking also ends when one of `others` becomes
    /// readable.
    pub fn new(
        rank: Rank,
        size: usize,
        settings: TcpSettings,
        others: Vec<OwnedFd>,
    ) -> Result<TcpTransport, TransportError> {
        let devices: Result<Vec<TcpDevice>, String> = match &settings.ports[..] {
            [] => TcpDevice::open(&settings.devices, settings.range).map(|device| vec![device]),
            names => {
                names.iter().map(|name| TcpDevice::open(std::slice::from_ref(name), settings.range)).collect()
            }
        };
        let devices = devices.map_err(error)?;
        let published = devices.iter().map(TcpDevice::address).collect::<Result<_, _>>().map_err(error)?;
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| error(format!("epoll: {e}")))?;
        for (number, (socket, _)) in devices.iter().flat_map(|device| &device.doors).enumerate() {
            add(&poll, socket, DOOR | number as u64, EventFlags::IN).map_err(error)?;
        }
        let events = poll.try_clone().map_err(|e| error(format!("event descriptor: {e}")))?;
        let events = std::iter::once(events).chain(others).collect();
        let waiter = Arc::new(EventWait::new(events).map_err(error)?);
        Ok(TcpTransport {
            rank,
            matching_state: MatchingState::new(size, devices.len(), MOST_STREAMS),
            key: GroupKey::new(settings.secret.as_deref(), []),
            settings,
            _watched: ForkGuard::new(poll.as_raw_fd(), false),
            poll,
            devices,
            published,
            addresses: Vec::new(),
            wiring: DeviceWiring::default(),
            links: Vec::new(),
            guests: Guests::default(),
            waiter,
            scratch: vec![0; SCRATCH].into(),
            looked: None,
            moved: false,
            is_closed: false,
        })
    }

    /// The index of the device that serves `port`, on any rank.
    fn device(&self, port: Port) -> usize {
        port % self.devices.len()
    }

    /// Takes the event that says that this request is complete, if it has been the last to be noted.
    fn completed(&mut self, request: RequestId) -> Posted {
        let done = Event::Completed { request, result: Ok(()) };
        match self.matching_state.events.last() {
            Some(last) if *last == done => {
                self.matching_state.events.pop();
                Posted::Complete
            }
            _ => Posted::Pending,
        }
    }
}

impl Carrier for TcpTransport {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> &str {
        VERSION
    }

    fn addresses(&self) -> Vec<Vec<u8>> {
        self.published.clone()
    }

    fn set_addresses(
        &mut self,
        published: Vec<Vec<Vec<u8>>>,
        topology: &Topology,
    ) -> Result<(), TransportError> {
        let (ranks, devices) = (self.matching_state.peers.len(), self.devices.len());
        assert_eq!(published.len(), ranks, "the addresses of each rank");
        let read = |(rank, all): (Rank, &Vec<Vec<u8>>)| {
            let all: Result<Vec<_>, _> = all.iter().map(|text| places::read(text)).collect();
            let all = all.and_then(|all| match all.len() == devices {
                true => Ok(all),
                false => Err(format!("it has {} devices, and rank {} has {devices}", all.len(), self.rank)),
            });
            all.map_err(|reason| error(format!("rank {rank} cannot be reached: {reason}")))
        };
        self.addresses = published.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let parts = published.iter().flatten().map(Vec::as_slice);
        self.key = GroupKey::new(self.settings.secret.as_deref(), parts);
        self.wiring = DeviceWiring::new(topology, self.rank, devices);
        Ok(())
    }

    fn beside(self: Box<Self>, local: SharedMemory) -> Box<dyn Transport> {
        Box::new(Routed::new(local, *self))
    }
}

impl Transport for TcpTransport {
    fn describe(&self) -> Description {
        let devices: Vec<String> = match &self.settings.ports[..] {
            [] => {
                let own = self.devices.iter().flat_map(|device| &device.doors).map(|(_, door)| door.ip());
                let mut names: Vec<String> = own.filter_map(places::device_of).collect();
                names.dedup();
                names
            }
            names => names.to_vec(),
        };
        let what = match &self.settings.ports[..] {
            [] => "devices",
            _ if self.wiring.is_cabled() => "cabled ports",
            _ => "ports",
        };
        let sealed = if self.key.is_sealed { "encrypted" } else { "authenticated" };
        let text = format!("{NAME} ({sealed}; {what} {})", devices.join(", "));
        Description { text, means: vec![NAME.to_owned()], devices, ..Description::default() }
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        self.check(peer)?;
        // A device whose cable leads elsewhere connects only if a message needs it.
        for device in 0..self.devices.len() {
            if self.wiring.joins(device, peer) {
                for stream in 0..self.settings.streams.unwrap_or(1).clamp(1, MOST_STREAMS) {
                    self.link(peer, device, stream)?;
                }
            }
        }
        Ok(())
    }

    fn send(
        &mut self,
        peer: Rank,
        port: Port,
        tag: Tag,
        source: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        self.check(peer)?;
        let number = self.link(peer, self.device(port), 0)?;
        let frame = self.matching_state.header(peer, tag.pack(), &source, request);
        let body = if matches!(frame, Frame::Eager { .. }) { source } else { Region::nothing() };
        let Some(link) = &mut self.links[number] else {
            return Err(self.cannot_connect(peer, "the connection broke"));
        };
        link.writer.message(frame, body, request);
        self.write(number);
        Ok(self.completed(request))
    }

    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        let device = if self.is_closed { 0 } else { self.wiring.remote_end(self.device(port)) };
        if let Err(failed) = self.check(tag.source) {
            // Messages that the peer sent before it failed may have come.
            if self.is_closed
                || tag.source >= self.addresses.len()
                || !self.matching_state.has_come(device, tag)
            {
                return Err(failed);
            }
        }
        match self.matching_state.receive(device, tag, target, request) {
            Taken::Whole => return Ok(Posted::Complete),
            Taken::Wait => return Ok(Posted::Pending),
            Taken::Redirect(number, place) => {
                if let Some(reader) = self.links[number].as_mut().and_then(TcpLink::reader) {
                    reader.redirect(place);
                    return Ok(Posted::Pending);
                }
            }
            Taken::Answer(number, frame) => {
                if let Some(link) = &mut self.links[number] {
                    link.writer.answer(frame, Region::nothing());
                    self.write(number);
                    return Ok(Posted::Pending);
                }
            }
        }
        Err(self.check(tag.source).err().unwrap_or_else(|| error("the connection broke")))
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        if self.check(peer).is_err() {
            return;
        }
        let made = self.matching_state.peers[peer].links.iter().flatten().next().copied();
        let Some(number) = made.or_else(|| self.link(peer, 0, 0).ok()) else { return };
        if let Some(link) = &mut self.links[number] {
            link.writer.answer(Frame::Notice { bytes: payload.len() }, Region::from_slice(payload));
            self.write(number);
        }
    }

    fn flush(&mut self) {
        self.write_touched();
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        let happened = self.poll_sockets() | !self.matching_state.events.is_empty();
        self.moved |= happened;
        events.append(&mut self.matching_state.events);
        happened
    }

    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>) {
        // Not when a call begins, which happens often: a rank that waits, or is idle, looks without a next call.
        if next.is_none() && !self.is_closed {
            self.look_at_all();
        }
        self.progress(events);
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        self.matching_state.unclaimed_tag(Tag::for_collective(source, sequence))
    }

    fn unclaimed(&mut self, subject: Subject) -> Option<Unclaimed> {
        self.matching_state.first_of(subject)
    }

    fn connections(&self) -> Vec<CountedConnection> {
        self.accounts()
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        // Devices do not tell when a message came: take the message of the earliest call.
        self.matching_state
            .oldest()
            .reduce(|a, b| if super::is_earlier(b.sequence, a.sequence) { b } else { a })
    }

    fn arm(&mut self) -> bool {
        if std::mem::take(&mut self.moved) {
            self.waiter.note_progress();
        }
        self.matching_state.events.is_empty()
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        self.waiter.clone()
    }

    fn abort(&mut self, deadline: Instant) {
        self.end_by_force(deadline);
    }

    fn close(&mut self, deadline: Instant) {
        self.end_gently(deadline);
    }
}

impl Drop for TcpTransport {
    fn drop(&mut self) {
        self.end_by_force(Instant::now());
    }
}

fn add(poll: &OwnedFd, socket: &OwnedFd, name: u64, wanted: EventFlags) -> Result<(), String> {
    epoll::add(poll, socket, EventData::new_u64(name), wanted).map_err(|e| format!("epoll: {e}"))
}

fn error(reason: impl Into<String>) -> TransportError {
    TransportError { transport: NAME, reason: reason.into(), lacks: None }
}

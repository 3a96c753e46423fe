//! Messages over UCX: shared memory and CMA within a host, tcp or RDMA between hosts.
//!
//! Each network device that is used has a `UcxDevice`: a UCX context and a worker. One device serves all ports unless
//! the user lists several; then port `p` uses device `p` modulo their number. A message arrives at the device that
//! the sender's device is joined to (see `wiring`). A peer that one device has lost counts as lost for all.
//!
//! UCX calls back only from within calls that the transport makes, and the caller of those holds the transport by
//! `&mut`. So the callbacks' state (`requests`, `endpoint`) is shared by `Rc` and written through `Cell`. The
//! pointers that UCX keeps stay valid because slots and endpoints live until the workers are destroyed.
//!
//! Anybody may send over the network. The transport drops tags that no rank can have sent, bounds notices, and
//! disconnects a sender whose data makes no sense.

mod device;
mod endpoint;
mod flow;
mod keep_alive;
mod notices;
mod opening;
mod ports;
mod requests;
mod shutdown;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use ringroad_core::{Port, Rank, Topology};
use ucx_sys::{
    ucs_ptr_status, ucs_status_ptr_t, ucs_status_t, Ucx, UCS_ERR_ENDPOINT_TIMEOUT, UCS_ERR_NO_MEMORY, UCS_OK,
};

use self::device::{Allowed, UcxDevice};
use self::endpoint::Endpoint;
use self::flow::FlowControl;
use self::keep_alive::Connections;
pub use self::opening::library;
pub(crate) use self::opening::{obstacle, open, rdma_devices};
use self::requests::{CompletionQueue, EndedRequest, Lost, PostedRequest, Purpose, Slots};
use super::events::EventWait;
use super::routed::Routed;
use super::shared::SharedMemory;
use super::wiring::DeviceWiring;
use super::{
    Carrier, Description, Event, Failure, Lack, MessageKind, Posted, RequestId, Subject, Tag, Transport,
    TransportError, Unclaimed, Wait,
};
use crate::error::{is_shortage, refused};
use crate::transport::buffer::Region;

const NAME: &str = "ucx";
/// The first version that connects only by best routes.
const ASKS_FOR_ROUTES: (u32, u32, u32) = (1, 20, 0);

/// Settings of UCX in addition to its environment variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UcxSettings {
    /// The network devices to use, in the syntax of `UCX_NET_DEVICES`; `None` leaves the choice to that variable.
    pub net_devices: Option<String>,
    /// The network interface to use for tcp, if UCX knows it and no setting names devices.
    pub interface: Option<String>,
    /// The network devices that serve the ports, one each, in rotation. They replace `net_devices`. If the list is
    /// empty, one device serves all ports.
    pub ports: Vec<String>,
    /// The UCX transports to use, in the syntax of `UCX_TLS`; `None` leaves the choice to that variable.
    pub tls: Option<String>,
    /// How many bytes a tcp connection accepts before it has sent them; `None` leaves that to the kernel.
    pub send_buffer: Option<usize>,
}

/// The transport over UCX.
///
/// Make one, publish its [`Carrier::addresses`], and pass all ranks' addresses to [`Carrier::set_addresses`].
/// Dropping it ends everything in flight by force, within a second.
pub struct UcxTransport {
    ucx: &'static Ucx,
    rank: Rank,
    size: usize,
    settings: UcxSettings,
    /// The names of the network devices in use, if there are any and UCX lists them.
    used: Option<Vec<String>>,
    /// This rank's addresses, by device.
    own_addresses: Vec<Vec<u8>>,
    /// All ranks' addresses, by rank and device.
    addresses: Vec<Vec<Vec<u8>>>,
    wiring: DeviceWiring,
    /// Empty once the transport has ended.
    devices: Vec<UcxDevice>,
    slots: Slots,
    queue: Rc<CompletionQueue>,
    /// Flow control, by rank.
    flows: Vec<FlowControl>,
    /// How many messages the flows hold back.
    held: usize,
    /// For each rank whose failure has been reported, the reason.
    failed: Vec<Option<ucs_status_t>>,
    waiter: Arc<EventWait>,
    /// Whether anything has happened since the waiter was last told so.
    moved: bool,
    connections: Connections,
    /// The queue's entries while `drain` handles them; kept to reuse its memory.
    draining: Vec<usize>,
}

// SAFETY: every `Rc` and every UCX handle is reachable only through this value: it hands none out, and callbacks run
// within calls made through it. The workers' mode SERIALIZED allows each call to come from another thread. The type
// is not Sync.
unsafe impl Send for UcxTransport {}

impl UcxTransport {
    /// Opens the devices of rank `rank` of `size`, and connects to no rank yet. Blocking also ends when one of
    /// `others` becomes readable.
    pub fn new(
        ucx: &'static Ucx,
        rank: Rank,
        size: usize,
        settings: UcxSettings,
        others: Vec<OwnedFd>,
    ) -> Result<Self, TransportError> {
        let tls = settings.tls.as_deref();
        if super::forks::lacks_thread() && size > 1 && !device::allows_shared_memory(tls) {
            return Err(error(
                "this process was forked from one that uses UCX, and lacks the thread by which UCX accepts connections; \
                 start it another way, by multiprocessing's \"spawn\" or \"forkserver\"",
            ));
        }
        let send_buffer = settings.send_buffer.map(|bytes| bytes.to_string());
        let allowed = Allowed { net_devices: None, tls, send_buffer: send_buffer.as_deref() };
        let devices = if settings.ports.is_empty() {
            let named = settings.net_devices.clone().or_else(|| {
                let interface = settings.interface.as_deref()?;
                device::with_interface(ucx, interface, tls)
            });
            let allowed = Allowed { net_devices: named.as_deref(), ..allowed };
            UcxDevice::open(ucx, size, allowed).map(|device| vec![device])
        } else {
            settings.ports.iter().map(|name| ports::open(ucx, size, name, allowed)).collect()
        };
        let devices = devices.map_err(error)?;
        let used = devices[0].context.network_devices().filter(|names| !names.is_empty());
        let own_addresses =
            devices.iter().map(UcxDevice::address).collect::<Result<_, _>>().map_err(error)?;
        let mut events: Vec<OwnedFd> =
            devices.iter().map(UcxDevice::events).collect::<Result<_, _>>().map_err(error)?;
        events.extend(others);
        let waiter = Arc::new(EventWait::new(events).map_err(error)?);
        let queue = Rc::new(CompletionQueue::default());
        Ok(UcxTransport {
            ucx,
            rank,
            size,
            settings,
            used,
            own_addresses,
            addresses: Vec::new(),
            wiring: DeviceWiring::default(),
            devices,
            slots: Slots::new(ucx, queue.clone()),
            queue,
            flows: (0..size).map(|_| FlowControl::default()).collect(),
            held: 0,
            failed: vec![None; size],
            waiter,
            moved: false,
            connections: Connections::default(),
            draining: Vec::new(),
        })
    }

    /// The index of the device that serves `port`, on any rank.
    fn device(&self, port: Port) -> Result<usize, TransportError> {
        match self.devices.len() {
            0 => Err(error("the transport has been closed")),
            1 => Ok(0),
            count => Ok(port % count),
        }
    }

    /// The endpoint to `peer` on this device, opened if necessary. An error if the peer has failed.
    #[inline]
    fn endpoint(&mut self, device: usize, peer: Rank) -> Result<&Endpoint, TransportError> {
        if let Some(Some(status)) = self.failed.get(peer) {
            return Err(self.has_failed(peer, *status));
        }
        if !matches!(self.devices[device].endpoints.get(peer), Some(Some(_))) {
            self.open_endpoint(device, peer)?;
        }
        let endpoint = self.devices[device].endpoints[peer].as_deref().expect("opened above");
        match endpoint.failure() {
            UCS_OK => Ok(endpoint),
            status => Err(self.has_failed(peer, status)),
        }
    }

    /// The addresses of `peer`, by device. An error if this rank cannot connect to `peer`.
    fn addresses_of(&self, peer: Rank) -> Result<&[Vec<u8>], TransportError> {
        if peer == self.rank {
            return Err(error(format!("rank {peer} cannot connect to itself")));
        }
        let ranks = self.addresses.len();
        let addresses = self.addresses.get(peer);
        addresses
            .map(Vec::as_slice)
            .ok_or_else(|| error(format!("rank {peer} has no address, of {ranks} ranks")))
    }

    #[cold]
    fn open_endpoint(&mut self, device: usize, peer: Rank) -> Result<(), TransportError> {
        let address = &self.addresses_of(peer)?[self.wiring.remote_end(device)];
        let worker = self.devices[device].worker;
        let cannot = |lacks, reason| TransportError {
            lacks,
            ..error(format!("cannot connect to rank {peer}{}: {reason}", self.by(device)))
        };
        device::CONNECTION.check().map_err(|reason| cannot(Some(Lack::Connection), reason))?;
        let endpoint = Endpoint::open(self.ucx, worker, device, peer, address, &self.queue);
        let endpoint = endpoint.map_err(|status| {
            let (lacks, reason) = self.reason(status);
            cannot(lacks, reason)
        })?;
        self.devices[device].endpoints[peer] = Some(endpoint);
        Ok(())
    }

    fn start_send(
        &mut self,
        post: PostedRequest,
        tag: Tag,
        source: Region,
    ) -> Result<Posted, TransportError> {
        let handle = self.endpoint(post.device, post.peer)?.handle();
        let posted = self.slots.send(handle, post, tag.pack(), source);
        posted.map_err(|status| self.refused("send to", post.peer, status))
    }

    #[cold]
    fn has_failed(&self, peer: Rank, status: ucs_status_t) -> TransportError {
        let (lacks, reason) = self.reason(status);
        let who = if lacks.is_some() { "the connection to rank" } else { "rank" };
        let reason = format!("{who} {peer} has failed: {reason}");
        TransportError { lacks, ..error(reason) }
    }

    /// Why a connection failed with this status, and what this rank lacks if it is that. Where UCX gets no socket, it tries a
    /// few times, and then says that the peer was silent.
    fn reason(&self, status: ucs_status_t) -> (Option<Lack>, String) {
        if status == UCS_ERR_ENDPOINT_TIMEOUT {
            if let Some(error) = File::open("/dev/null").err().filter(is_shortage) {
                return (Some(Lack::Connection), refused("this process can open no further socket", &error));
            }
        }
        ((status == UCS_ERR_NO_MEMORY).then_some(Lack::Connection), self.ucx.status_text(status))
    }

    /// Names the device, if there are several, as the end of a phrase.
    fn by(&self, device: usize) -> String {
        match (self.settings.ports.get(device), &self.used) {
            (Some(name), _) => format!(" by device {name}"),
            (None, Some(names)) => format!(" by device {}", names.join(" or ")),
            (None, None) => " by ucx".to_owned(),
        }
    }

    #[cold]
    fn refused(&self, what: &str, peer: Rank, status: ucs_status_t) -> TransportError {
        let lacks = (status == UCS_ERR_NO_MEMORY).then_some(Lack::Memory);
        let reason = format!("cannot {what} rank {peer}: {}", self.ucx.status_text(status));
        TransportError { lacks, ..error(reason) }
    }

    /// Turns what the callbacks have recorded into events. Returns whether there were any.
    #[inline]
    fn drain(&mut self, events: &mut Vec<Event>) -> bool {
        let before = events.len();
        let mut broken = Vec::new();
        if self.queue.has_completed() {
            let mut ended = std::mem::take(&mut self.draining);
            self.queue.take_completed(&mut ended);
            for index in ended.drain(..) {
                let EndedRequest { post, kind, result, region } = self.slots.settle(index);
                if post.purpose == Purpose::Receive && result.is_ok() {
                    self.count_received(post.peer, kind);
                }
                match post.purpose {
                    Purpose::Send | Purpose::Receive => match result {
                        Err(Failure::Broken(reason)) => {
                            let result = Err(Failure::Broken(format!("{reason},{}", self.by(post.device))));
                            broken.push(Event::Completed { request: post.request, result });
                        }
                        result => events.push(Event::Completed { request: post.request, result }),
                    },
                    Purpose::NoticeIn => {
                        if result.is_ok() {
                            // SAFETY: the receive has ended, and nobody else knows this region.
                            let payload = unsafe { region.to_vec::<u8>() };
                            events.push(Event::Notice { from: post.peer, payload });
                        }
                    }
                    Purpose::NoticeOut | Purpose::Nothing => {}
                }
            }
            self.draining = ended;
        }
        // After the completions, so that a peer's last messages are reported before its failure; and before what was canceled
        // for it, which does not say why.
        if self.queue.has_failures() {
            self.drain_failures(events);
        }
        events.append(&mut broken);
        events.len() > before
    }

    #[cold]
    fn drain_failures(&mut self, events: &mut Vec<Event>) {
        for Lost { device, peer, status } in self.queue.take_failures() {
            if self.failed[peer].replace(status).is_none() {
                self.drop_held(peer);
                let (lacks, reason) = self.reason(status);
                let reason = format!("connection to rank {peer}{}: {reason}", self.by(device));
                events.push(match lacks {
                    Some(what) => Event::Lacks { peer, what, reason },
                    None => Event::PeerFailed { peer, reason },
                });
            }
        }
    }
}

impl Carrier for UcxTransport {
    fn name(&self) -> &'static str {
        NAME
    }

    fn version(&self) -> &str {
        &self.ucx.version_string
    }

    fn addresses(&self) -> Vec<Vec<u8>> {
        self.own_addresses.clone()
    }

    /// UCX may abort the process on addresses that are not authentic.
    fn set_addresses(
        &mut self,
        addresses: Vec<Vec<Vec<u8>>>,
        topology: &Topology,
    ) -> Result<(), TransportError> {
        assert_eq!(addresses.len(), self.size, "the addresses of each rank");
        let devices = self.own_addresses.len();
        assert!(addresses.iter().all(|all| all.len() == devices), "an address for each of {devices} devices");
        self.addresses = addresses;
        self.wiring = DeviceWiring::new(topology, self.rank, devices);
        Ok(())
    }

    /// UCX connects so over tcp, from 1.20 on.
    fn routed_devices(&self) -> Option<Vec<Vec<String>>> {
        if self.ucx.version < ASKS_FOR_ROUTES {
            return None;
        }
        let names = |device: &UcxDevice| {
            let resources = device.context.network_resources()?;
            let over_tcp = !resources.is_empty() && resources.iter().all(|(transport, _)| transport == "tcp");
            over_tcp.then(|| resources.into_iter().map(|(_, name)| name).collect())
        };
        self.devices.iter().map(names).collect()
    }

    fn beside(self: Box<Self>, local: SharedMemory) -> Box<dyn Transport> {
        Box::new(Routed::new(local, *self))
    }
}

impl Transport for UcxTransport {
    fn describe(&self) -> Description {
        let (major, minor, release) = self.ucx.version;
        let mut used = BTreeSet::new();
        for device in &self.devices {
            device.transports(&mut used);
        }
        let means: Vec<String> = used.into_iter().collect();
        let used = if means.is_empty() {
            // No rank is connected yet, or UCX is too old to list its transports.
            let allowed = device::chosen_or_set("UCX_TLS", self.settings.tls.as_deref());
            format!("of {}", allowed.as_deref().unwrap_or("all"))
        } else {
            means.join(", ")
        };
        let ports = match &self.settings.ports[..] {
            [] => {
                self.used.as_ref().map_or_else(String::new, |names| format!("; devices {}", names.join(", ")))
            }
            names => {
                let how = if self.wiring.is_cabled() { "cabled ports" } else { "ports" };
                format!("; {how} {}", names.join(", "))
            }
        };
        let devices = match &self.settings.ports[..] {
            [] => self.used.clone().unwrap_or_default(),
            names => names.to_vec(),
        };
        let version = format!("{major}.{minor}.{release}");
        let text = format!("ucx {version} ({used}{ports})");
        Description { text, ucx: Some(version), means, devices, ..Description::default() }
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        if self.devices.is_empty() {
            return Err(error("the transport has been closed"));
        }
        self.addresses_of(peer)?;
        // A device whose cable leads elsewhere connects only if a message needs it.
        for device in 0..self.devices.len() {
            if self.wiring.joins(device, peer) {
                self.endpoint(device, peer)?;
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
        let post = PostedRequest { purpose: Purpose::Send, peer, device: self.device(port)?, request };
        self.send_in_turn(post, tag, source)
    }

    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        let device = self.wiring.remote_end(self.device(port)?);
        if let Err(failed) = self.endpoint(device, tag.source) {
            // Messages that the peer sent before it failed may have arrived.
            if self.devices[device].probe(tag.pack(), Tag::MATCH).is_none() {
                return Err(failed);
            }
        }
        let post = PostedRequest { purpose: Purpose::Receive, peer: tag.source, device, request };
        let posted = self.slots.receive(self.devices[device].worker, post, tag.pack(), target);
        if let Ok(Posted::Complete) = posted {
            self.count_received(tag.source, tag.kind);
        }
        posted.map_err(|status| self.refused("receive from", tag.source, status))
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        self.send_notice(peer, payload);
    }

    #[inline]
    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        let mut busy = false;
        for device in &self.devices {
            busy |= device.progress();
        }
        if self.holds() {
            self.take_notices(events);
        }
        let moved = self.drain(events) | busy;
        self.moved |= moved;
        moved
    }

    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>) {
        // Not when a call begins, which happens often: a rank that waits, or is idle, looks without a next call.
        if next.is_none() && self.connections.is_due() {
            self.connections
                .check_sockets(self.devices.iter().filter_map(|device| device.event_descriptor().ok()));
        }
        self.devices.iter().for_each(UcxDevice::catch_up);
        self.take_notices(events);
        self.drain(events);
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        let tag = Tag { source, kind: MessageKind::Collective, sequence, message: 0, check: 0 }.pack();
        self.devices.iter().find_map(|device| device.probe(tag, Tag::CALL)).map(|found| found.tag)
    }

    fn unclaimed(&mut self, subject: Subject) -> Option<Unclaimed> {
        let (bits, mask) = subject.bits();
        (0..self.devices.len()).find_map(|device| self.probe_message(device, bits, mask))
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        let tag = Tag { source: 0, kind: MessageKind::Collective, sequence: 0, message: 0, check: 0 }.pack();
        let oldest = (0..self.devices.len())
            .filter_map(|device| self.probe_message(device, tag, Tag::KIND))
            .map(|found| found.tag);
        // Devices do not tell when a message came: take the message of the earliest call.
        oldest.reduce(|a, b| if super::is_earlier(b.sequence, a.sequence) { b } else { a })
    }

    fn arm(&mut self) -> bool {
        if std::mem::take(&mut self.moved) {
            self.waiter.note_progress();
        }
        !self.queue.has_completed()
            && !self.queue.has_failures()
            && self.devices.iter().all(|device| device.arm())
    }

    fn waiter(&self) -> Arc<dyn Wait> {
        self.waiter.clone()
    }

    fn abort(&mut self, deadline: Instant) {
        self.end_by_force(true, deadline);
    }

    fn close(&mut self, deadline: Instant) {
        self.end_gently(deadline);
    }
}

impl Drop for UcxTransport {
    fn drop(&mut self) {
        self.end_by_force(false, Instant::now() + shutdown::DROP_TIME);
    }
}

fn error(reason: impl Into<String>) -> TransportError {
    TransportError { transport: NAME, reason: reason.into(), lacks: None }
}

/// Converts a status pointer that is not a request to a result.
fn immediate(pointer: ucs_status_ptr_t) -> Result<(), ucs_status_t> {
    match ucs_ptr_status(pointer) {
        UCS_OK => Ok(()),
        status => Err(status),
    }
}

//! Messages over UCX: shared memory and CMA within a host, tcp or RDMA between hosts.
//!
//! A port belongs to a device: a context and a worker of its own, for one network device each. Today there is one
//! device and it serves every port.
//!
//! UCX calls back only from within calls that the transport makes, and whoever makes those holds the transport by
//! `&mut`. So the callbacks' state (`requests`, `endpoint`) is shared by `Rc` and written through `Cell`, and the
//! pointers that UCX keeps stay valid because slots and endpoints live until the workers are destroyed.

mod device;
mod endpoint;
mod notices;
mod requests;
mod shutdown;
mod wait;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use ringroad_core::{Port, Rank};
use ucx_sys::{ucs_ptr_status, ucs_status_ptr_t, ucs_status_t, Ucx, UCS_OK};

use self::device::Device;
use self::endpoint::Endpoint;
use self::requests::{Ended, Post, Purpose, Queue, Slots};
use self::wait::UcxWait;
use super::{Event, Kind, Posted, RequestId, Tag, Transport, TransportError, Wait};
use crate::buffer::Region;

/// What to tell UCX beyond its environment variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UcxSettings {
    /// Network devices to use, as `UCX_NET_DEVICES` names them; `None` leaves the choice to that variable.
    pub net_devices: Option<String>,
    /// UCX transports to use, as `UCX_TLS` names them; `None` leaves the choice to that variable.
    pub tls: Option<String>,
}

/// The transport over UCX.
///
/// Make one, publish [`UcxTransport::address`], and hand everybody's addresses to [`UcxTransport::set_addresses`].
/// Dropping it ends what is in flight by force, within a second.
pub struct UcxTransport {
    ucx: &'static Ucx,
    rank: Rank,
    size: usize,
    settings: UcxSettings,
    address: Vec<u8>,
    addresses: Vec<Vec<u8>>,
    /// Empty once the transport has ended.
    devices: Vec<Device>,
    slots: Slots,
    queue: Rc<Queue>,
    /// The ranks whose failure has been reported.
    failed: Vec<bool>,
    waiter: Arc<UcxWait>,
    /// What `drain` takes the queue's entries into; kept for its memory.
    draining: Vec<usize>,
}

// SAFETY: every `Rc` and every UCX handle is reachable only through this value: none is handed out, and callbacks run
// within calls made through it. The workers' mode SERIALIZED allows another thread at every call. The type is not Sync.
unsafe impl Send for UcxTransport {}

impl UcxTransport {
    /// Opens the devices of rank `rank` of `size`; connects to nobody yet.
    pub fn new(
        ucx: &'static Ucx,
        rank: Rank,
        size: usize,
        settings: UcxSettings,
    ) -> Result<Self, TransportError> {
        let device = Device::open(ucx, size, &settings).map_err(error)?;
        let address = device.address().map_err(error)?;
        let waiter = Arc::new(UcxWait::new(vec![device.events().map_err(error)?]).map_err(error)?);
        let queue = Rc::new(Queue::default());
        Ok(UcxTransport {
            ucx,
            rank,
            size,
            settings,
            address,
            addresses: Vec::new(),
            devices: vec![device],
            slots: Slots::new(ucx, queue.clone()),
            queue,
            failed: vec![false; size],
            waiter,
            draining: Vec::new(),
        })
    }

    /// What the other ranks need in order to connect to this one.
    pub fn address(&self) -> Vec<u8> {
        self.address.clone()
    }

    /// Everybody's [`UcxTransport::address`], by rank. They must be authentic: UCX may abort the process on others.
    pub fn set_addresses(&mut self, addresses: Vec<Vec<u8>>) {
        assert_eq!(addresses.len(), self.size, "one address for each rank");
        self.addresses = addresses;
    }

    /// The index of the device that serves `port`.
    fn device(&self, port: Port) -> Result<usize, TransportError> {
        match self.devices.len() {
            0 => Err(error("the transport has been closed")),
            1 => Ok(0),
            count => Ok(port % count),
        }
    }

    /// The endpoint to `peer`, which is connected to if need be, and refused if it has failed.
    #[inline]
    fn endpoint(&mut self, device: usize, peer: Rank) -> Result<&Endpoint, TransportError> {
        if !matches!(self.devices[device].endpoints.get(peer), Some(Some(_))) {
            self.open_endpoint(device, peer)?;
        }
        let endpoint = self.devices[device].endpoints[peer].as_deref().expect("opened above");
        match endpoint.failure() {
            UCS_OK => Ok(endpoint),
            status => Err(error(format!("rank {peer} has failed: {}", self.ucx.status_text(status)))),
        }
    }

    #[cold]
    fn open_endpoint(&mut self, device: usize, peer: Rank) -> Result<(), TransportError> {
        if peer == self.rank {
            return Err(error(format!("rank {peer} cannot connect to itself")));
        }
        let Some(address) = self.addresses.get(peer) else {
            return Err(error(format!("rank {peer} has no address, of {} ranks", self.addresses.len())));
        };
        let endpoint = Endpoint::open(self.ucx, self.devices[device].worker, peer, address, &self.queue)
            .map_err(|status| {
                error(format!("cannot connect to rank {peer}: {}", self.ucx.status_text(status)))
            })?;
        self.devices[device].endpoints[peer] = Some(endpoint);
        Ok(())
    }

    fn start_send(
        &mut self,
        port: Port,
        post: Post,
        tag: Tag,
        source: Region,
    ) -> Result<Posted, TransportError> {
        let device = self.device(port)?;
        let handle = self.endpoint(device, post.peer)?.handle();
        let posted = self.slots.send(handle, Post { device, ..post }, tag.pack(), source);
        posted.map_err(|status| self.refused("send to", post.peer, status))
    }

    #[cold]
    fn refused(&self, what: &str, peer: Rank, status: ucs_status_t) -> TransportError {
        error(format!("cannot {what} rank {peer}: {}", self.ucx.status_text(status)))
    }

    /// Turns what the callbacks have recorded into events.
    #[inline]
    fn drain(&mut self, events: &mut Vec<Event>) -> bool {
        let before = events.len();
        if self.queue.has_completed() {
            let mut ended = std::mem::take(&mut self.draining);
            self.queue.take_completed(&mut ended);
            for index in ended.drain(..) {
                let Ended { post, result, region } = self.slots.settle(index);
                match post.purpose {
                    Purpose::Send | Purpose::Receive => {
                        events.push(Event::Completed { request: post.request, result });
                    }
                    Purpose::NoticeIn => {
                        if result.is_ok() {
                            // SAFETY: the receive has ended, and nobody else knows this region.
                            let payload = unsafe { region.to_vec::<u8>() };
                            events.push(Event::Notice { from: post.peer, payload });
                        }
                    }
                    Purpose::NoticeOut => {}
                }
            }
            self.draining = ended;
        }
        // After the completions, so that what a peer managed to say is heard before that it is gone.
        if self.queue.has_failures() {
            self.drain_failures(events);
        }
        events.len() > before
    }

    #[cold]
    fn drain_failures(&mut self, events: &mut Vec<Event>) {
        for (peer, status) in self.queue.take_failures() {
            if !std::mem::replace(&mut self.failed[peer], true) {
                let reason = format!("connection to rank {peer}: {}", self.ucx.status_text(status));
                events.push(Event::PeerFailed { peer, reason });
            }
        }
    }
}

impl Transport for UcxTransport {
    fn describe(&self) -> String {
        let (major, minor, release) = self.ucx.version;
        let mut used = BTreeSet::new();
        for device in &self.devices {
            device.transports(&mut used);
        }
        let used = if used.is_empty() {
            // Nobody is connected yet, or UCX is too old to tell.
            let allowed = self.settings.tls.clone().or_else(|| std::env::var("UCX_TLS").ok());
            format!("of {}", allowed.as_deref().unwrap_or("all"))
        } else {
            Vec::from_iter(used).join(", ")
        };
        format!("ucx {major}.{minor}.{release} ({used})")
    }

    fn connect(&mut self, peer: Rank) -> Result<(), TransportError> {
        if self.devices.is_empty() {
            return Err(error("the transport has been closed"));
        }
        for device in 0..self.devices.len() {
            self.endpoint(device, peer)?;
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
        let post = Post { purpose: Purpose::Send, peer, device: 0, request };
        self.start_send(port, post, tag, source)
    }

    fn receive(
        &mut self,
        port: Port,
        tag: Tag,
        target: Region,
        request: RequestId,
    ) -> Result<Posted, TransportError> {
        let device = self.device(port)?;
        if let Err(failed) = self.endpoint(device, tag.source) {
            // What the peer sent before it failed may have arrived.
            if self.devices[device].probe(tag.pack(), Tag::MATCH).is_none() {
                return Err(failed);
            }
        }
        let post = Post { purpose: Purpose::Receive, peer: tag.source, device, request };
        let posted = self.slots.receive(self.devices[device].worker, post, tag.pack(), target);
        posted.map_err(|status| self.refused("receive from", tag.source, status))
    }

    fn notify(&mut self, peer: Rank, payload: &[u8]) {
        let tag = Tag { source: self.rank, kind: Kind::Control, sequence: 0, message: 0, check: 0 };
        let post = Post { purpose: Purpose::NoticeOut, peer, device: 0, request: 0 };
        // Best effort: whoever cannot be reached is told nothing.
        let _ = self.start_send(0, post, tag, Region::of(payload));
    }

    #[inline]
    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        let mut busy = false;
        for device in &self.devices {
            busy |= device.progress();
        }
        self.drain(events) | busy
    }

    fn inspect(&mut self, events: &mut Vec<Event>) {
        for device in &self.devices {
            device.progress();
        }
        self.take_notices();
        self.drain(events);
    }

    fn unexpected(&mut self, source: Rank, sequence: u32) -> Option<Tag> {
        let tag = Tag { source, kind: Kind::Collective, sequence, message: 0, check: 0 }.pack();
        self.devices.iter().find_map(|device| device.probe(tag, Tag::CALL)).map(Tag::unpack)
    }

    fn oldest_unexpected(&mut self) -> Option<Tag> {
        let tag = Tag { source: 0, kind: Kind::Collective, sequence: 0, message: 0, check: 0 }.pack();
        self.devices.iter().find_map(|device| device.probe(tag, Tag::KIND)).map(Tag::unpack)
    }

    fn arm(&mut self) -> bool {
        !self.queue.has_completed()
            && !self.queue.has_failures()
            && self.devices.iter().all(|device| device.arm())
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

impl Drop for UcxTransport {
    fn drop(&mut self) {
        self.end_by_force(Instant::now() + shutdown::DROP_TIME);
    }
}

fn error(reason: impl Into<String>) -> TransportError {
    TransportError { transport: "ucx", reason: reason.into() }
}

/// A status pointer that is not a request, as a result.
fn immediate(pointer: ucs_status_ptr_t) -> Result<(), ucs_status_t> {
    match ucs_ptr_status(pointer) {
        UCS_OK => Ok(()),
        status => Err(status),
    }
}

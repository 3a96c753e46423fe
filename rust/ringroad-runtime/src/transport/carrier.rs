//! Transports between hosts.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use ringroad_core::{Rank, Topology};

use super::shared::SharedMemory;
use super::{Transport, TransportError};
use crate::config::Config;

/// A transport that reaches ranks of other hosts, once it has the addresses of all.
pub trait Carrier: Transport {
    /// Its name, as in `RINGROAD_TRANSPORT`.
    fn name(&self) -> &'static str;

    /// Its version: ranks with different ones cannot talk to each other.
    fn version(&self) -> &str;

    /// What the other ranks need to connect to this one: an address for each device.
    fn addresses(&self) -> Vec<Vec<u8>>;

    /// Takes the [`Carrier::addresses`] of all ranks, and the network, which says how the devices are joined. The
    /// addresses must be authentic.
    fn set_addresses(
        &mut self,
        addresses: Vec<Vec<Vec<u8>>>,
        topology: &Topology,
    ) -> Result<(), TransportError>;

    /// The network devices of each port, if it connects only by best routes between them.
    fn routed_devices(&self) -> Option<Vec<Vec<String>>> {
        None
    }

    /// The transport for ranks of which some are local.
    fn beside(self: Box<Self>, local: SharedMemory) -> Box<dyn Transport>;
}

/// What a rank knows when it opens its network devices.
pub struct Opening<'a> {
    /// This rank.
    pub rank: Rank,
    /// The number of ranks.
    pub size: usize,
    /// The settings.
    pub config: &'a Config,
    /// The `libucp.so.0` of an installed `libucx` package.
    pub wheel: Option<&'a PathBuf>,
    /// Whether the ranks are on several hosts.
    pub several_hosts: bool,
    /// The interface to listen on, unless the settings name devices.
    pub interface: Option<String>,
    /// How many bytes a tcp connection accepts before it has sent them; `None` leaves that to the kernel.
    pub send_buffer: Option<usize>,
    /// Blocking also ends when one of these becomes readable.
    pub others: Vec<OwnedFd>,
}

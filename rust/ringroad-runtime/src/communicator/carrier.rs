//! What carries messages between ranks that share no memory: UCX, or connections of our own.

use std::path::PathBuf;
use std::sync::Arc;

use ringroad_core::{Rank, Topology};
use ucx_sys::{LoadError, LoadOptions, Ucx};

use crate::bootstrap::neighbourhood::Neighbourhood;
use crate::bootstrap::{EndpointInfo, Rendezvous};
use crate::choice::agreement::send_buffer;
use crate::choice::options::Options;
use crate::config::{Between, Config, Debug, Secret};
use crate::error::{Error, Result};
use crate::transport::routed::Routed;
use crate::transport::shared::SharedMemory;
use crate::transport::tcp::{self, TcpSettings, TcpTransport};
use crate::transport::ucx::{can_use, UcxSettings, UcxTransport};
use crate::transport::{Transport, Wait};

/// The most bytes in which a rank says why it uses no RDMA.
const MOST_SAID: usize = 4 << 10;

/// A transport between hosts.
pub(super) enum Carrier {
    Ucx(Box<UcxTransport>),
    Tcp(Box<TcpTransport>),
}

/// What a rank knows when it opens its network devices.
pub(super) struct Opening<'a> {
    pub rank: Rank,
    pub endpoints: &'a [EndpointInfo],
    pub config: &'a Config,
    pub options: &'a Options,
    pub between: Between,
    /// The bytes per second of the slowest flow that was measured.
    pub slowest: Option<f64>,
    pub around: &'a Neighbourhood,
    /// The `libucp.so.0` of an installed `libucx` package.
    pub wheel: Option<&'a PathBuf>,
    /// The interface to listen on, unless the settings name devices.
    pub interface: Option<String>,
}

impl<'a> Opening<'a> {
    pub fn new(
        rank: Rank,
        endpoints: &'a [EndpointInfo],
        config: &'a Config,
        options: &'a Options,
        between: Between,
        slowest: Option<f64>,
        around: &'a Neighbourhood,
    ) -> Opening<'a> {
        Opening { rank, endpoints, config, options, between, slowest, around, wheel: None, interface: None }
    }
}

impl Carrier {
    /// Opens this rank's devices. Blocking on the waiter also ends when local ranks ring.
    pub fn open(opening: Opening) -> Result<Carrier> {
        if opening.between == Between::Tcp {
            return Carrier::open_tcp(&opening);
        }
        match load_ucx(opening.config, opening.wheel) {
            Ok(ucx) => Carrier::open_ucx(&opening, ucx),
            Err(error) => Err(opening.around.without_network(error.to_string())),
        }
    }

    fn open_ucx(opening: &Opening, ucx: &'static Ucx) -> Result<Carrier> {
        let Opening { endpoints, config, around, .. } = *opening;
        let several_hosts = endpoints.iter().any(|endpoint| endpoint.host != endpoints[0].host);
        let settings = UcxSettings {
            tls: several_hosts.then(ucx_sys::network_tls).flatten(),
            send_buffer: send_buffer(config, opening.options, opening.slowest),
            net_devices: config.devices_of_all(),
            interface: opening.interface.clone(),
            ports: config.devices_of_ports().to_vec(),
        };
        let doorbell = around.home.as_ref().map(|(home, _)| home.doorbell()).transpose().map_err(unshared)?;
        let others = doorbell.into_iter().collect();
        let transport = UcxTransport::new(ucx, opening.rank, endpoints.len(), settings, others);
        transport
            .map(|transport| Carrier::Ucx(Box::new(transport)))
            .map_err(|error| around.without_network(error.to_string()))
    }

    fn open_tcp(opening: &Opening) -> Result<Carrier> {
        let Opening { endpoints, config, around, .. } = *opening;
        let named = config.devices_of_all().or_else(|| opening.interface.clone());
        let settings = TcpSettings {
            devices: named.iter().flat_map(|names| names.split(',')).map(str::to_owned).collect(),
            ports: config.devices_of_ports().to_vec(),
            range: config.tcp_ports,
            send_buffer: send_buffer(config, opening.options, opening.slowest),
            streams: config.transport.streams,
            secret: config.secret.as_ref().map(Secret::reveal).map(str::to_owned),
        };
        let doorbell = around.home.as_ref().map(|(home, _)| home.doorbell()).transpose().map_err(unshared)?;
        let others = doorbell.into_iter().collect();
        let transport = TcpTransport::new(opening.rank, endpoints.len(), settings, others);
        transport
            .map(|transport| Carrier::Tcp(Box::new(transport)))
            .map_err(|error| around.without_network(error.to_string()))
    }

    /// Its version: ranks with different ones cannot talk to each other.
    pub fn version(&self) -> &str {
        match self {
            Carrier::Ucx(transport) => transport.version(),
            Carrier::Tcp(_) => tcp::VERSION,
        }
    }

    /// UCX, if it is that.
    pub fn ucx(&self) -> Option<&UcxTransport> {
        match self {
            Carrier::Ucx(transport) => Some(transport),
            Carrier::Tcp(_) => None,
        }
    }

    /// Tells the others how to reach this rank, and returns the endpoints of all ranks.
    pub fn tell_addresses(&self, rendezvous: &mut Rendezvous) -> Result<Vec<EndpointInfo>> {
        let (name, addresses) = match self {
            Carrier::Ucx(transport) => ("ucx", transport.addresses()),
            Carrier::Tcp(transport) => ("tcp", transport.addresses()),
        };
        Ok(rendezvous.exchange_addresses(name, self.version(), addresses)?)
    }

    /// Takes the addresses of all ranks, by rank and device, and the network.
    pub fn set_addresses(&mut self, addresses: Vec<Vec<Vec<u8>>>, topology: &Topology) -> Result<()> {
        match self {
            Carrier::Ucx(transport) => transport.set_addresses(addresses, topology),
            Carrier::Tcp(transport) => transport.set_addresses(&addresses, topology)?,
        }
        Ok(())
    }

    pub fn waiter(&self) -> Arc<dyn Wait> {
        match self {
            Carrier::Ucx(transport) => transport.waiter(),
            Carrier::Tcp(transport) => transport.waiter(),
        }
    }

    /// The transport, for ranks none of which is local.
    pub fn boxed(self) -> Box<dyn Transport> {
        match self {
            Carrier::Ucx(transport) => transport,
            Carrier::Tcp(transport) => transport,
        }
    }

    /// The transport, for ranks of which some are local.
    pub fn beside(self, local: SharedMemory) -> Box<dyn Transport> {
        match self {
            Carrier::Ucx(transport) => Box::new(Routed::new(local, *transport)),
            Carrier::Tcp(transport) => Box::new(Routed::new(local, *transport)),
        }
    }
}

fn load_ucx(config: &Config, wheel: Option<&PathBuf>) -> std::result::Result<&'static Ucx, LoadError> {
    let load = LoadOptions {
        explicit: config.ucx_library.clone(),
        wheel: wheel.cloned(),
        environment: true,
        variables: variables(config),
        ..LoadOptions::default()
    };
    ucx_sys::load(&load)
}

/// What carries messages between hosts; all ranks agree. What some ask for, which is the same; UCX, if that can use RDMA
/// devices on all hosts, since nothing else can; otherwise connections of our own.
pub(super) fn between(
    rendezvous: &mut Rendezvous,
    endpoints: &[EndpointInfo],
    config: &Config,
    wheel: Option<&PathBuf>,
) -> Result<Between> {
    if let Some(asked) = endpoints.iter().find_map(|endpoint| endpoint.asked.as_deref()) {
        return Between::read(asked).map_err(|_| Error::Config(format!("there is no transport {asked:?}")));
    }
    if !endpoints.iter().all(|endpoint| endpoint.rdma) {
        return Ok(Between::Tcp);
    }
    let obstacle = without_rdma(&ucx_sys::rdma_devices(), config, wheel).unwrap_or_default();
    let obstacle: String = obstacle.chars().take(MOST_SAID / 4).collect();
    let all = rendezvous.collect("rdma", obstacle.as_bytes(), MOST_SAID)?;
    let found = (0..).zip(&all).find(|(_, obstacle)| !obstacle.is_empty());
    let Some((rank, obstacle)) = found else { return Ok(Between::Ucx) };
    if config.debug >= Debug::Info && endpoints[rank].rank == rendezvous.endpoint.rank {
        eprintln!("ringroad: no RDMA, since on {}: {}", endpoints[rank], String::from_utf8_lossy(obstacle));
    }
    Ok(Between::Tcp)
}

/// Why UCX can use none of this host's RDMA devices, which are these, if so.
fn without_rdma(devices: &[String], config: &Config, wheel: Option<&PathBuf>) -> Option<String> {
    if devices.is_empty() {
        return Some("this host has no RDMA device that is up".to_owned());
    }
    let loaded = load_ucx(config, wheel).map_err(|error| error.to_string());
    loaded.and_then(|ucx| can_use(ucx, devices)).err()
}

/// What would carry messages between hosts like this one, and why.
pub fn between_hosts(config: &Config, wheel: Option<&PathBuf>) -> String {
    if let Some(between) = config.transport.between {
        return format!("{}: RINGROAD_TRANSPORT says so", between.name());
    }
    match without_rdma(&ucx_sys::rdma_devices(), config, wheel) {
        None => "ucx if it can use RDMA devices on all hosts, as on this one; otherwise tcp".to_owned(),
        Some(obstacle) => format!("tcp: {obstacle}"),
    }
}

/// The settings that UCX reads only from the environment. Variables that the user has set come first.
fn variables(config: &Config) -> Vec<(&'static str, String)> {
    let ports = config.tcp_ports.map(|(first, last)| ("UCX_TCP_PORT_RANGE", format!("{first}-{last}")));
    // Failures are reported by this crate's errors; UCX's own messages appear with RINGROAD_DEBUG=INFO.
    let quiet = (config.debug < Debug::Info).then(|| ("UCX_LOG_LEVEL", "fatal".to_owned()));
    ports.into_iter().chain(quiet).collect()
}

/// The error if the doorbell of local ranks cannot be used.
pub(super) fn unshared(reason: String) -> Error {
    Error::Transport(format!("shared memory: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is no UCX at that path, and no RDMA device here that any UCX could use.
    #[test]
    #[cfg_attr(miri, ignore = "it loads a library")]
    fn rdma_needs_devices_and_a_ucx_that_can_use_them() {
        let mut config = Config::default();
        config.ucx_library = Some("/nonesuch/libucp.so.0".into());
        let obstacle = |devices: &[&str]| {
            let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
            without_rdma(&devices, &config, None).unwrap()
        };
        assert_eq!(obstacle(&[]), "this host has no RDMA device that is up");
        let text = obstacle(&["nonesuch_0"]);
        assert!(text.contains("/nonesuch") || text.contains("none of the RDMA devices nonesuch_0"), "{text}");
    }
}

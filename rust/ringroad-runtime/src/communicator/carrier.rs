//! What carries messages between ranks that share no memory: UCX, or connections of our own.

use std::path::PathBuf;

use crate::bootstrap::neighbourhood::Neighbourhood;
use crate::bootstrap::{EndpointInfo, Rendezvous};
use crate::config::{Between, Config, Debug};
use crate::error::{Error, Result};
use crate::os::messages::print_message;
use crate::transport::{tcp, ucx, Carrier, Opening};

/// The most bytes in which a rank says why it uses no RDMA.
const MOST_SAID: usize = 4 << 10;

/// Opens this rank's devices.
pub(super) fn open(between: Between, opening: Opening, around: &Neighbourhood) -> Result<Box<dyn Carrier>> {
    let opened = match between {
        Between::Tcp => tcp::open(opening).map_err(Error::from),
        Between::Ucx => ucx::open(opening),
    };
    opened.map_err(|error| around.without_network(error.to_string()))
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
    let obstacle = ucx::obstacle(config, wheel).unwrap_or_default();
    let obstacle: String = obstacle.chars().take(MOST_SAID / 4).collect();
    let all = rendezvous.collect("rdma", obstacle.as_bytes(), MOST_SAID)?;
    let found = (0..).zip(&all).find(|(_, obstacle)| !obstacle.is_empty());
    let Some((rank, obstacle)) = found else { return Ok(Between::Ucx) };
    if config.debug >= Debug::Info && endpoints[rank].rank == rendezvous.endpoint.rank {
        print_message(&format!(
            "no RDMA, since on {}: {}",
            endpoints[rank],
            String::from_utf8_lossy(obstacle)
        ));
    }
    Ok(Between::Tcp)
}

/// What would carry messages between hosts like this one, and why.
pub fn between_hosts(config: &Config, wheel: Option<&PathBuf>) -> String {
    if let Some(between) = config.transport.between {
        return format!("{}: RINGROAD_TRANSPORT says so", between.name());
    }
    match ucx::obstacle(config, wheel) {
        None => "ucx if it can use RDMA devices on all hosts, as on this one; otherwise tcp".to_owned(),
        Some(obstacle) => format!("tcp: {obstacle}"),
    }
}

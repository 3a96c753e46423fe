//! Finds UCX, and opens it as the settings say.

use std::path::PathBuf;

pub(crate) use ucx_sys::rdma_devices;
use ucx_sys::{network_tls, LoadError, LoadOptions, Ucx};

use super::device::can_use;
use super::{UcxSettings, UcxTransport};
use crate::config::{Config, Debug};
use crate::error::{convert, Result};
use crate::transport::{Carrier, Opening};

convert! {
    LoadError => Transport,
}

/// Opens this rank's devices.
pub(crate) fn open(opening: Opening) -> Result<Box<dyn Carrier>> {
    let config = opening.config;
    let ucx = load(config, opening.wheel)?;
    let settings = UcxSettings {
        tls: opening.several_hosts.then(network_tls).flatten(),
        send_buffer: opening.send_buffer,
        net_devices: config.devices_of_all(),
        interface: opening.interface,
        ports: config.devices_of_ports().to_vec(),
    };
    Ok(Box::new(UcxTransport::new(ucx, opening.rank, opening.size, settings, opening.others)?))
}

/// Why UCX can use no RDMA device of this host, if so.
pub(crate) fn obstacle(config: &Config, wheel: Option<&PathBuf>) -> Option<String> {
    without_rdma(&rdma_devices(), config, wheel)
}

/// Why UCX can use none of this host's RDMA devices, which are these, if so.
fn without_rdma(devices: &[String], config: &Config, wheel: Option<&PathBuf>) -> Option<String> {
    if devices.is_empty() {
        return Some("this host has no RDMA device that is up".to_owned());
    }
    let loaded = load(config, wheel).map_err(|error| error.to_string());
    loaded.and_then(|ucx| can_use(ucx, devices)).err()
}

/// The UCX that is used: "path", "version", "origin", and "why", if there was a choice.
pub fn library(config: &Config, wheel: Option<&PathBuf>) -> Result<Vec<(&'static str, String)>> {
    let ucx = load(config, wheel)?;
    let known = [
        ("path", ucx.path.display().to_string()),
        ("version", ucx.version_string.clone()),
        ("origin", format!("{:?}", ucx.origin)),
    ];
    Ok(known.into_iter().chain(ucx.reason.clone().map(|why| ("why", why))).collect())
}

fn load(config: &Config, wheel: Option<&PathBuf>) -> std::result::Result<&'static Ucx, LoadError> {
    let (explicit, wheel, variables) = (config.ucx_library.clone(), wheel.cloned(), variables(config));
    ucx_sys::load(&LoadOptions { explicit, wheel, variables, environment: true, ..LoadOptions::default() })
}

/// The settings that UCX reads only from the environment. Variables that the user has set come first.
fn variables(config: &Config) -> Vec<(&'static str, String)> {
    let ports = config.tcp_ports.map(|(first, last)| ("UCX_TCP_PORT_RANGE", format!("{first}-{last}")));
    // Failures are reported by this crate's errors; UCX's own messages appear with RINGROAD_DEBUG=INFO.
    let quiet = (config.debug < Debug::Info).then(|| ("UCX_LOG_LEVEL", "fatal".to_owned()));
    ports.into_iter().chain(quiet).collect()
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

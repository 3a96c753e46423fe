//! Ports: opens a device for each network device that the user lists.

use ucx_sys::Ucx;

use super::device::{said, Allowed, Context, UcxDevice};

/// Opens a device for the network device with this name, which may be used for several ports.
pub(super) fn open(
    ucx: &'static Ucx,
    size: usize,
    name: &str,
    allowed: Allowed,
) -> Result<UcxDevice, String> {
    let tls = allowed.tls;
    let opened = UcxDevice::open(ucx, size, Allowed { net_devices: Some(name), ..allowed });
    let lacks = |devices: &Vec<String>| !devices.iter().any(|device| device == name);
    // If UCX does not know the name, it goes on without a network, provided that it has shared memory.
    let suspicious = match &opened {
        Ok(device) => device.context.network_devices().is_some_and(|devices| lacks(&devices)),
        Err(_) => true,
    };
    if !suspicious {
        return opened;
    }
    let all = Context::open(ucx, Allowed { net_devices: Some("all"), ..allowed });
    match all.ok().and_then(|context| context.network_devices()) {
        Some(devices) if lacks(&devices) => Err(unknown(name, &devices, tls)),
        _ => opened,
    }
}

fn unknown(name: &str, devices: &[String], tls: Option<&str>) -> String {
    let with = said("UCX_TLS", tls).map_or_else(String::new, |tls| format!(" with {tls}"));
    let there = if devices.is_empty() {
        "none; allow a transport that uses the network, such as tcp".to_owned()
    } else {
        devices.join(", ")
    };
    format!(
        "RINGROAD_NET_DEVICES names {name:?}, which is not a network device that UCX finds{with}: {there}"
    )
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn unknown_names_are_explained() {
        let devices = ["eth0".to_owned(), "lo".to_owned()];
        let expected = "RINGROAD_NET_DEVICES names \"eth7\", which is not a network device that UCX finds with UCX_TLS=tcp: eth0, lo";
        assert_eq!(unknown("eth7", &devices, Some("tcp")), expected);
        let expected = "with UCX_TLS=posix,self: none; allow a transport that uses the network, such as tcp";
        assert!(unknown("lo", &[], Some("posix,self")).ends_with(expected));
    }
}

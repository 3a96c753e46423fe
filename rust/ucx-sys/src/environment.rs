//! The `UCX_*` variables set before UCX is opened.
//!
//! `ucp_config_modify` silently ignores several of them, and UCX reads others in its constructors, so the environment
//! is the only way. What the user has set always wins.

use std::path::Path;

/// Defaults, as (name, value). `UCX_TLS` gains `rc,ud` where there are InfiniBand devices, see [`default_tls`].
pub const ENVIRONMENT: &[(&str, &str)] = &[
    // Leave the signal handlers to Python and torch.
    ("UCX_HANDLE_ERRORS", "none"),
    // The table serves 1.13 to 1.22; a version that lacks a variable need not say so.
    ("UCX_WARN_UNUSED_ENV_VARS", "n"),
    // No patching of mmap in the host process: it costs 0.4 s at start-up and is a known source of crashes.
    ("UCX_MEM_MMAP_HOOK_MODE", "none"),
    // Without these two, endpoints with peer error handling move traffic within a host to tcp.
    ("UCX_POSIX_ERROR_HANDLING", "y"),
    ("UCX_CMA_MEMORY_INVALIDATE", "y"),
    // Without it, a peer that dies before its first rendezvous is never detected.
    ("UCX_RESOLVE_REMOTE_EP_ID", "on"),
    // How soon a dead peer is noticed over shared memory, and over tcp (a variable that 1.13 does not have).
    ("UCX_KEEPALIVE_INTERVAL", "500ms"),
    ("UCX_TCP_USER_TIMEOUT", "5s"),
    // Eager messages of 16 to 64 KiB over tcp take 8 to 22 us instead of 28 to 36.
    ("UCX_TCP_TX_SEG_SIZE", "64k"),
    ("UCX_TCP_RX_SEG_SIZE", "64k"),
    (TLS, "posix,cma,self,tcp"),
];

const TLS: &str = "UCX_TLS";

/// The value given to `UCX_TLS` when neither the user nor the caller chose one.
pub fn default_tls() -> String {
    tls_for(Path::new("/sys/class/infiniband"))
}

fn tls_for(devices: &Path) -> String {
    let base = ENVIRONMENT.iter().find(|(name, _)| *name == TLS).map_or("all", |(_, value)| value);
    let present = std::fs::read_dir(devices).is_ok_and(|mut entries| entries.next().is_some());
    format!("{base}{}", if present { ",rc,ud" } else { "" })
}

/// Sets what is unset: `tls` always when given, the table when `defaults`.
pub(crate) fn apply(defaults: bool, tls: Option<&str>) {
    if let Some(tls) = tls {
        set_if_unset(TLS, tls);
    }
    if defaults {
        for (name, value) in ENVIRONMENT.iter().filter(|(name, _)| *name != TLS) {
            set_if_unset(name, value);
        }
        set_if_unset(TLS, &default_tls());
    }
}

fn set_if_unset(name: &str, value: &str) {
    if std::env::var_os(name).is_none() {
        std::env::set_var(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rdma_transports_only_where_there_are_devices() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(tls_for(&here.join("absent")), "posix,cma,self,tcp");
        assert_eq!(tls_for(here), "posix,cma,self,tcp,rc,ud");
    }
}

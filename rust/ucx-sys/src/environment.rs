//! The `UCX_*` variables that are set before UCX is opened.
//!
//! `ucp_config_modify` silently ignores several of them, and UCX reads others in its constructors, so the environment
//! is the only way. Variables that the user has set are never changed.
//!
//! Other threads may read variables meanwhile, in C too, which `setenv` does not allow: it may free what they read.
//! So the process gets a new list of variables, and the old list is never changed.

use std::collections::BTreeSet;
use std::ffi::{c_char, CString};
use std::path::Path;
use std::ptr::null;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Defaults, as (name, value). `UCX_TLS` gets `rc,ud` added if there are InfiniBand devices, and loses `cma` if the
/// kernel refuses it; see [`default_tls`].
pub const ENVIRONMENT: &[(&str, &str)] = &[
    // Leave the signal handlers to Python and torch.
    ("UCX_HANDLE_ERRORS", "none"),
    // The table serves UCX 1.13 to 1.22; a version that lacks a variable need not warn.
    ("UCX_WARN_UNUSED_ENV_VARS", "n"),
    // No patching of mmap in the host process: it costs 0.4 s at start-up and is a known source of crashes.
    ("UCX_MEM_MMAP_HOOK_MODE", "none"),
    // Without these two, endpoints with peer error handling move traffic within a host to tcp.
    ("UCX_POSIX_ERROR_HANDLING", "y"),
    ("UCX_CMA_MEMORY_INVALIDATE", "y"),
    // Without it, a peer that dies before its first rendezvous is never detected.
    ("UCX_RESOLVE_REMOTE_EP_ID", "on"),
    // How soon a dead peer is noticed over shared memory, and how soon the kernel asks the host of an idle connection
    // over tcp whether it is still there. UCX_TCP_USER_TIMEOUT (since 1.20) is left alone: it also ends connections to
    // ranks that are stopped, whose buffers are full.
    ("UCX_KEEPALIVE_INTERVAL", "500ms"),
    ("UCX_TCP_KEEPIDLE", "1s"),
    ("UCX_TCP_KEEPINTVL", "1s"),
    // Connections over tcp are made when ranks first talk, within a call. By default UCX waits in `connect` for a host that
    // does not answer, two minutes, and so beyond every deadline.
    ("UCX_TCP_CONN_NB", "y"),
    // Eager messages of 16 to 64 KiB over tcp take 8 to 22 us instead of 28 to 36.
    ("UCX_TCP_TX_SEG_SIZE", "64k"),
    ("UCX_TCP_RX_SEG_SIZE", "64k"),
    (TLS, "posix,cma,self,tcp"),
];

const TLS: &str = "UCX_TLS";
const WITHIN_HOST: [&str; 2] = ["posix", "cma"];

/// Where the kernel lists RDMA devices.
pub(crate) const RDMA: &str = "/sys/class/infiniband";

/// The RDMA devices of this host that are up.
pub fn rdma_devices() -> Vec<String> {
    up(Path::new(RDMA))
}

fn up(devices: &Path) -> Vec<String> {
    let list = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let state = |port: std::fs::DirEntry| std::fs::read_to_string(port.path().join("state"));
    let is_up = |device: &std::fs::DirEntry| {
        list(&device.path().join("ports")).flat_map(state).any(|state| state.contains("ACTIVE"))
    };
    list(devices).filter(is_up).filter_map(|device| device.file_name().into_string().ok()).collect()
}

/// The value for `UCX_TLS` if neither the user nor the caller has chosen one.
pub fn default_tls() -> String {
    tls_for(Path::new(RDMA), may_read_memory())
}

/// The default without the transports that work only within a host; `None` if the user has chosen. For jobs on
/// several hosts: UCX identifies hosts by their kernel, which several hosts may share, and would then use shared
/// memory between them.
pub fn network_tls() -> Option<String> {
    let default = default_tls();
    if std::env::var(TLS).is_ok_and(|chosen| chosen != default) {
        return None;
    }
    Some(default.split(',').filter(|name| !WITHIN_HOST.contains(name)).collect::<Vec<_>>().join(","))
}

fn tls_for(devices: &Path, cma: bool) -> String {
    let base = ENVIRONMENT.iter().find(|(name, _)| *name == TLS).map_or("all", |(_, value)| value);
    let base = base.split(',').filter(|name| cma || *name != "cma").collect::<Vec<_>>().join(",");
    let present = std::fs::read_dir(devices).is_ok_and(|mut entries| entries.next().is_some());
    format!("{base}{}", if present { ",rc,ud" } else { "" })
}

/// Whether the kernel lets a process read another's memory at all: sandboxes may not. UCX checks only whether it may
/// write, and its messages fail if it may not read.
fn may_read_memory() -> bool {
    let (source, mut target) = (1_u8, 0_u8);
    let part = |byte: *const u8| libc::iovec { iov_base: byte.cast_mut().cast(), iov_len: 1 };
    let (from, to) = (part(&raw const source), part(&raw mut target));
    // SAFETY: one byte of this process, which outlives the call, is copied to another; nobody else knows them.
    unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) == 1 }
}

/// Sets variables that are unset: `tls` and `variables` always, and the table if `defaults` is set.
pub(crate) fn apply(defaults: bool, tls: Option<&str>, variables: &[(&str, String)]) {
    let mut wanted: Vec<(&str, String)> = variables.to_vec();
    wanted.extend(tls.map(|tls| (TLS, tls.to_owned())));
    if defaults {
        let table = ENVIRONMENT.iter().filter(|(name, _)| *name != TLS);
        wanted.extend(table.map(|(name, value)| (*name, (*value).to_owned())));
        wanted.push((TLS, default_tls()));
    }
    let mut names = BTreeSet::new();
    wanted.retain(|(name, _)| std::env::var_os(name).is_none() && names.insert(*name));
    add(&wanted);
}

/// Adds variables that are unset to those that are set. No other thread may *change* the environment meanwhile.
fn add(variables: &[(&str, String)]) {
    extern "C" {
        static mut environ: *const *const c_char;
    }
    let added: Vec<CString> =
        variables.iter().filter_map(|(name, value)| CString::new(format!("{name}={value}")).ok()).collect();
    if added.is_empty() {
        return;
    }
    let mut list = Vec::new();
    // SAFETY: the C library's list of strings, which ends in null. Only this thread may change it (see above).
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            list.push(*next);
            next = next.add(1);
        }
    }
    // Neither the strings nor the lists are ever freed: other threads may still use them.
    list.extend(added.into_iter().map(|text| text.into_raw().cast_const()));
    list.push(null());
    let list: &'static mut [*const c_char] = list.leak();
    // SAFETY: the C library's variable, a pointer that is always written as a whole. A thread that reads it finds the
    // old list or the new one, which is complete. If `setenv` finds a list that is not its own, it copies it.
    let current = unsafe { AtomicPtr::from_ptr((&raw mut environ).cast::<*mut *const c_char>()) };
    current.store(list.as_mut_ptr(), Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets variables before and after by other means, and checks that all of them are kept.
    #[test]
    fn variables_are_added_to_those_that_are_set() {
        let value = |name: &str| std::env::var(name).ok();
        std::env::set_var("UCX_SYS_TEST_A", "user's");
        let path = value("PATH");
        let some = |names: &[&'static str]| -> Vec<(&str, String)> {
            names.iter().map(|name| (*name, "ours".to_owned())).collect()
        };
        apply(false, None, &some(&["UCX_SYS_TEST_A", "UCX_SYS_TEST_B", "UCX_SYS_TEST_B"]));
        apply(false, None, &some(&["UCX_SYS_TEST_C"]));
        std::env::set_var("UCX_SYS_TEST_D", "user's");
        std::env::set_var("UCX_SYS_TEST_C", "user's");
        let found = ["A", "B", "C", "D"].map(|last| value(&format!("UCX_SYS_TEST_{last}")));
        assert_eq!(found.map(Option::unwrap), ["user's", "ours", "user's", "user's"]);
        std::env::remove_var("UCX_SYS_TEST_B");
        assert_eq!((value("UCX_SYS_TEST_B"), value("PATH")), (None, path));
    }

    #[test]
    fn rdma_transports_only_where_there_are_devices() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(tls_for(&here.join("absent"), true), "posix,cma,self,tcp");
        assert_eq!(tls_for(here, true), "posix,cma,self,tcp,rc,ud");
        assert_eq!(tls_for(here, false), "posix,self,tcp,rc,ud");
    }

    #[test]
    fn rdma_devices_count_if_they_are_up() {
        let devices = std::env::temp_dir().join(format!("ucx-sys-{}", std::process::id()));
        let port = devices.join("mlx5_0/ports/1");
        std::fs::create_dir_all(&port).unwrap();
        assert!(up(&devices).is_empty());
        for (state, expected) in [("1: DOWN\n", &[][..]), ("4: ACTIVE\n", &["mlx5_0"])] {
            std::fs::write(port.join("state"), state).unwrap();
            assert_eq!(up(&devices), expected, "{state}");
        }
        std::fs::remove_dir_all(&devices).unwrap();
    }
}

//! A UCX context and its worker, which serve the ports of one network device.
//!
//! Contexts know nothing of each other, so several may use the same network device.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::ptr::{null, null_mut};
use std::rc::Rc;

use ucx_sys::*;

use super::endpoint::Endpoint;
use crate::error::refused;
use crate::transport::forks::ForkGuard;
use crate::transport::{Tag, Unclaimed};

/// UCX's transports that use no network. The names of those of accelerators begin with one of [`ACCELERATORS`].
const LOCAL: [&str; 6] = ["self", "posix", "sysv", "xpmem", "cma", "knem"];
/// Words of `UCX_TLS` that allow shared memory: transports, and groups of transports.
const SHARED_MEMORY: [&str; 7] = ["posix", "sysv", "xpmem", "mm", "sm", "shm", "all"];
const ACCELERATORS: [&str; 4] = ["cuda", "gdr_copy", "rocm", "ze_"];

/// The most rounds of progress in [`UcxDevice::catch_up`]. Each handles at least one message.
const ROUNDS: u32 = 500;

/// More descriptors and more bytes of address space than UCX takes in any version. If it lacks some in between, it ends the
/// process in many places.
pub(super) struct ResourceRoom {
    descriptors: usize,
    addresses: usize,
}

/// For a context and its worker: most of the address space is the stack of UCX's thread.
const CONTEXT: ResourceRoom = ResourceRoom { descriptors: 24, addresses: 64 << 20 };
pub(super) const CONNECTION: ResourceRoom = ResourceRoom { descriptors: 8, addresses: 16 << 20 };

/// What UCX may use: network devices as in `UCX_NET_DEVICES`, transports as in `UCX_TLS`, and the bytes that a tcp
/// connection may buffer, as in `UCX_TCP_SNDBUF`. `None` leaves the choice to that variable.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Allowed<'a> {
    pub net_devices: Option<&'a str>,
    pub tls: Option<&'a str>,
    pub send_buffer: Option<&'a str>,
}

pub(super) struct Context {
    ucx: &'static Ucx,
    handle: ucp_context_h,
}

pub(super) struct UcxDevice {
    ucx: &'static Ucx,
    pub context: Context,
    pub worker: ucp_worker_h,
    /// Dropped before the worker.
    watched: Option<ForkGuard>,
    /// By rank. Dropped after the worker, see `drop`.
    pub endpoints: Vec<Option<Rc<Endpoint>>>,
}

impl UcxDevice {
    pub fn open(ucx: &'static Ucx, size: usize, allowed: Allowed) -> Result<UcxDevice, String> {
        let context = Context::open(ucx, allowed)?;
        let mut device =
            UcxDevice { ucx, context, worker: null_mut(), watched: None, endpoints: vec![None; size] };
        let mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
        let params = ucp_worker_params_t {
            field_mask: mask.into(),
            thread_mode: UCS_THREAD_MODE_SERIALIZED,
            // Without a warning about requests in flight when the worker is destroyed: aborting does that on purpose.
            flags: UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK.into(),
            ..Default::default()
        };
        // SAFETY: a live context and live locals.
        let status =
            unsafe { (ucx.ucp.ucp_worker_create)(device.context.handle, &params, &mut device.worker) };
        check(ucx, "worker", status)?;
        device.watched = Some(ForkGuard::new(device.event_descriptor()?, true));
        Ok(device)
    }

    pub fn address(&self) -> Result<Vec<u8>, String> {
        let (mut address, mut length) = (null_mut(), 0);
        // SAFETY: a live worker and live locals.
        let status = unsafe { (self.ucx.ucp.ucp_worker_get_address)(self.worker, &mut address, &mut length) };
        check(self.ucx, "address", status)?;
        // SAFETY: UCX has returned `length` bytes, which live until they are released.
        let copy = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), length) }.to_vec();
        // SAFETY: released once, and not used afterwards.
        unsafe { (self.ucx.ucp.ucp_worker_release_address)(self.worker, address) };
        Ok(copy)
    }

    /// A descriptor that becomes readable when an armed worker has something to do. It may outlive the worker.
    pub fn events(&self) -> Result<OwnedFd, String> {
        // SAFETY: the worker's descriptor, which stays open as long as the worker; that is longer than this borrow.
        let borrowed = unsafe { BorrowedFd::borrow_raw(self.event_descriptor()?) };
        borrowed.try_clone_to_owned().map_err(|error| format!("event descriptor: {error}"))
    }

    pub fn event_descriptor(&self) -> Result<RawFd, String> {
        let mut descriptor = -1;
        // SAFETY: a live worker and a live local.
        let status = unsafe { (self.ucx.ucp.ucp_worker_get_efd)(self.worker, &mut descriptor) };
        check(self.ucx, "event descriptor", status)?;
        Ok(descriptor)
    }

    #[inline]
    pub fn progress(&self) -> bool {
        // SAFETY: a live worker; no callback is running, because none calls back into the transport.
        unsafe { (self.ucx.ucp.ucp_worker_progress)(self.worker) != 0 }
    }

    /// Makes progress until all messages that have come are seen, or for a bounded number of rounds: a notice may be
    /// behind many messages.
    #[inline]
    pub fn catch_up(&self) {
        let _ = (0..ROUNDS).all(|_| self.progress());
    }

    /// Prepares the worker for blocking. Returns `false` if something has happened meanwhile, or if an error makes
    /// blocking unsafe.
    pub fn arm(&self) -> bool {
        // SAFETY: a live worker with the wake-up feature.
        unsafe { (self.ucx.ucp.ucp_worker_arm)(self.worker) == UCS_OK }
    }

    /// An unreceived message that agrees with `tag` in the bits of `mask`, if there is one.
    pub fn probe(&self, tag: u64, mask: u64) -> Option<Unclaimed> {
        let mut info = ucp_tag_recv_info_t::default();
        // SAFETY: a live worker and a live local; the message stays where it is.
        let found = unsafe { (self.ucx.ucp.ucp_tag_probe_nb)(self.worker, tag, mask, 0, &mut info) };
        (!found.is_null()).then(|| Unclaimed { tag: Tag::unpack(info.sender_tag), bytes: info.length })
    }

    /// Removes such a message from UCX's list; the caller must then receive it.
    pub fn take_message(&self, tag: u64, mask: u64) -> Option<(ucp_tag_message_h, ucp_tag_recv_info_t)> {
        let mut info = ucp_tag_recv_info_t::default();
        // SAFETY: a live worker and a live local.
        let found = unsafe { (self.ucx.ucp.ucp_tag_probe_nb)(self.worker, tag, mask, 1, &mut info) };
        (!found.is_null()).then_some((found, info))
    }

    pub fn transports(&self, names: &mut BTreeSet<String>) {
        for endpoint in self.endpoints.iter().flatten() {
            endpoint.transports(names);
        }
    }
}

impl Drop for UcxDevice {
    fn drop(&mut self) {
        self.watched = None;
        if !self.worker.is_null() {
            // SAFETY: live, and not used afterwards; its context is dropped later. Destroying the worker may still
            // call back, and `endpoints` and the transport's slots are also dropped later.
            unsafe { (self.ucx.ucp.ucp_worker_destroy)(self.worker) };
        }
    }
}

impl Context {
    pub fn open(ucx: &'static Ucx, allowed: Allowed) -> Result<Context, String> {
        CONTEXT.check()?;
        let mut config = null_mut();
        // SAFETY: null means no prefix and no file; a live local.
        check(ucx, "configuration", unsafe { (ucx.ucp.ucp_config_read)(null(), null(), &mut config) })?;
        let mut handle = null_mut();
        let params = ucp_params_t {
            field_mask: UCP_PARAM_FIELD_FEATURES.into(),
            features: (UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP).into(),
            ..Default::default()
        };
        // The other two settings have defaults of their own here. This one has none, so the user's variable takes
        // precedence.
        let send_buffer = allowed.send_buffer.filter(|_| std::env::var_os("UCX_TCP_SNDBUF").is_none());
        let result = modify(ucx, config, c"NET_DEVICES", allowed.net_devices)
            .and_then(|()| modify(ucx, config, c"TLS", allowed.tls))
            .and_then(|()| modify(ucx, config, c"TCP_SNDBUF", send_buffer))
            .and_then(|()| {
                // SAFETY: live locals, and the configuration that was just read.
                let status = unsafe { ucx.ucp_init(&params, config, &mut handle) };
                check(ucx, &format!("opening the network with {}", allowed.said()), status)
            });
        // SAFETY: read above, released once, and not used afterwards.
        unsafe { (ucx.ucp.ucp_config_release)(config) };
        result.map(|()| Context { ucx, handle })
    }

    /// The names of the network devices that the context uses; `None` if UCX does not list them in a known format.
    pub fn network_devices(&self) -> Option<Vec<String>> {
        let pairs = self.network_resources()?;
        Some(BTreeSet::from_iter(pairs.into_iter().map(|(_, device)| device)).into_iter().collect())
    }

    /// The pairs of transport and network device that the context uses; `None` as above.
    pub fn network_resources(&self) -> Option<Vec<(String, String)>> {
        let (mut text, mut length) = (null_mut(), 0);
        // SAFETY: two live locals, which the stream writes until it is closed.
        let stream = unsafe { libc::open_memstream(&mut text, &mut length) };
        if stream.is_null() {
            return None;
        }
        // SAFETY: a live context, and an open stream, which is closed once and not used afterwards.
        let closed = unsafe {
            (self.ucx.ucp.ucp_context_print_info)(self.handle, stream);
            libc::fclose(stream)
        };
        if text.is_null() {
            return None;
        }
        // SAFETY: closing the stream has left `length` bytes there, which belong to the caller.
        let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) };
        let printed = String::from_utf8_lossy(bytes).into_owned();
        // SAFETY: freed once, as the stream requires, and not used afterwards.
        unsafe { libc::free(text.cast()) };
        (closed == 0).then(|| network_resources(&printed)).flatten()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: live and not used afterwards; its worker is gone.
        unsafe { (self.ucx.ucp.ucp_cleanup)(self.handle) };
    }
}

impl ResourceRoom {
    /// An error, which says what this process lacks, unless it has so much.
    pub fn check(&self) -> Result<(), String> {
        let ResourceRoom { descriptors, addresses } = *self;
        let spare: std::io::Result<Vec<File>> = (0..descriptors).map(|_| File::open("/dev/null")).collect();
        spare.map(drop).map_err(|error| refused(&format!("UCX takes {descriptors} open files"), &error))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, which nobody uses before it is removed.
        let place = unsafe { libc::mmap(null_mut(), addresses, libc::PROT_NONE, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            let what = format!("UCX takes up to {} MiB of address space", addresses >> 20);
            return Err(refused(&what, &std::io::Error::last_os_error()));
        }
        // SAFETY: mapped above.
        unsafe { libc::munmap(place, addresses) };
        Ok(())
    }
}

/// The pairs of transport and network device, out of UCX's list with lines like `#  resource 1  :  md 1  dev 1  flags
/// -- tcp/eth0`.
fn network_resources(printed: &str) -> Option<Vec<(String, String)>> {
    let lines = printed.lines().map(|line| line.trim_start_matches(['#', ' ']));
    let resources = lines.filter(|line| line.starts_with("resource"));
    let named: Vec<(&str, &str)> =
        resources.filter_map(|line| line.rsplit(' ').next()?.split_once('/')).collect();
    let remote = |tl: &str| {
        !LOCAL.contains(&tl) && !ACCELERATORS.iter().any(|accelerator| tl.starts_with(accelerator))
    };
    let owned = |(tl, device): &(&str, &str)| ((*tl).to_owned(), (*device).to_owned());
    (!named.is_empty()).then(|| named.iter().filter(|(tl, _)| remote(tl)).map(owned).collect())
}

/// All network devices in the syntax of `UCX_NET_DEVICES`, except for those other than `interface` on which tcp would
/// listen. `None` if UCX does not know `interface`, or if the user has named devices.
pub(super) fn with_interface(ucx: &'static Ucx, interface: &str, tls: Option<&str>) -> Option<String> {
    if std::env::var_os("UCX_NET_DEVICES").is_some() {
        return None;
    }
    let resources = Context::open(ucx, Allowed { tls, ..Allowed::default() }).ok()?.network_resources()?;
    let by_tcp = |name: &str| resources.iter().any(|(tl, device)| tl == "tcp" && device == name);
    let wanted = resources.iter().map(|(_, device)| device.as_str());
    let wanted: BTreeSet<&str> = wanted.filter(|device| *device == interface || !by_tcp(device)).collect();
    by_tcp(interface).then(|| Vec::from_iter(wanted).join(","))
}

/// An error, which says why, unless this UCX can use one of these RDMA devices.
pub(crate) fn can_use(ucx: &'static Ucx, devices: &[String]) -> Result<(), String> {
    if crate::transport::forks::lacks_thread() {
        return Err("this process was forked from one that uses UCX".to_owned());
    }
    let tls = network_tls();
    let context = Context::open(ucx, Allowed { tls: tls.as_deref(), ..Allowed::default() })?;
    let found = context.network_devices().unwrap_or_default();
    match are_among(devices, &found) {
        true => Ok(()),
        false => Err(format!("{ucx:?} can use none of the RDMA devices {}", devices.join(", "))),
    }
}

/// Whether some of these devices are among those that UCX lists, as `mlx5_0:1`.
fn are_among(devices: &[String], listed: &[String]) -> bool {
    listed
        .iter()
        .filter_map(|name| name.rsplit_once(':'))
        .any(|(name, _)| devices.iter().any(|one| one == name))
}

fn modify(
    ucx: &Ucx,
    config: *mut ucp_config_t,
    name: &std::ffi::CStr,
    value: Option<&str>,
) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let name_text = name.to_string_lossy();
    let text = CString::new(value).map_err(|_| format!("{name_text} contains a zero byte"))?;
    // SAFETY: a live configuration and two strings that end in zero, which UCX copies.
    let status = unsafe { (ucx.ucp.ucp_config_modify)(config, name.as_ptr(), text.as_ptr()) };
    check(ucx, &format!("{name_text}={value}"), status)
}

fn check(ucx: &Ucx, what: &str, status: ucs_status_t) -> Result<(), String> {
    if status == UCS_OK {
        Ok(())
    } else {
        Err(format!("{what}: {}", ucx.status_text(status)))
    }
}

impl Allowed<'_> {
    /// These settings in words, including those from the environment.
    fn said(self) -> String {
        let all = [("UCX_TLS", self.tls), ("UCX_NET_DEVICES", self.net_devices)];
        let all: Vec<String> = all.into_iter().filter_map(|(name, chosen)| said(name, chosen)).collect();
        if all.is_empty() {
            "UCX's defaults".to_owned()
        } else {
            all.join(" ")
        }
    }
}

/// Whether `UCX_TLS`, or `tls` instead, may allow transports through shared memory. Of a list of exceptions (`^`) that is
/// assumed.
pub(super) fn allows_shared_memory(tls: Option<&str>) -> bool {
    chosen_or_set("UCX_TLS", tls).is_none_or(|tls| {
        tls.starts_with('^') || tls.split(',').any(|name| SHARED_MEMORY.contains(&name.trim()))
    })
}

/// `name=value`, if a value was given here or is in the environment.
pub(super) fn said(name: &str, chosen: Option<&str>) -> Option<String> {
    chosen_or_set(name, chosen).map(|value| format!("{name}={value}"))
}

/// The value that was given here, or else the environment's.
pub(super) fn chosen_or_set(name: &str, chosen: Option<&str>) -> Option<String> {
    chosen.map(str::to_owned).or_else(|| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use super::{are_among, network_resources};

    #[test]
    fn network_resources_are_found_in_what_ucx_prints() {
        let printed =
            "#\n# UCP context\n#\n#     component 1  :  tcp\n#\n#            md 1  :  component 1  tcp \n#\n\
            #      resource 0  :  md 0  dev 0  flags -- self/memory0\n\
            #      resource 1  :  md 1  dev 1  flags -- tcp/lo\n\
            #      resource 2  :  md 1  dev 2  flags -- tcp/eth0.17\n\
            #      resource 3  :  md 2  dev 3  flags -- posix/memory\n\
            #      resource 4  :  md 3  dev 4  flags -- cuda_copy/cuda\n\
            #      resource 12  :  md 4  dev 5  flags -s rc_verbs/mlx5_0:1\n\
            #      resource 13  :  md 4  dev 5  flags -- ud_verbs/mlx5_0:1\n#\n";
        let all = ["tcp/lo", "tcp/eth0.17", "rc_verbs/mlx5_0:1", "ud_verbs/mlx5_0:1"];
        let cases: [(&str, Option<&[&str]>); 3] = [
            (printed, Some(&all)),
            ("#      resource 0  :  md 0  dev 0  flags -- posix/memory\n", Some(&[])),
            ("something else\n", None),
        ];
        let devices = ["mlx5_0", "mlx5_1"].map(str::to_owned);
        let listed = |printed| network_resources(printed).unwrap().into_iter().map(|(_, device)| device);
        assert!(are_among(&devices[..1], &listed(printed).collect::<Vec<_>>()));
        assert!(!are_among(&devices[1..], &listed(printed).collect::<Vec<_>>()), "another one");
        let by_tcp = printed.lines().filter(|line| !line.contains("mlx5")).collect::<Vec<_>>().join("\n");
        assert!(!are_among(&devices, &listed(&by_tcp).collect::<Vec<_>>()), "without plug-ins for RDMA");
        for (printed, expected) in cases {
            let found = network_resources(printed);
            let found = found.map(|all| all.iter().map(|(tl, at)| format!("{tl}/{at}")).collect::<Vec<_>>());
            assert_eq!(
                found,
                expected.map(|all| all.iter().map(|one| (*one).to_owned()).collect()),
                "{printed}"
            );
        }
    }
}

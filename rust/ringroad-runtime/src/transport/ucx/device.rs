//! A context and its worker: what serves the ports of one network device.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::rc::Rc;

use ucx_sys::*;

use super::endpoint::Endpoint;
use super::UcxSettings;

pub(super) struct Device {
    ucx: &'static Ucx,
    context: ucp_context_h,
    pub worker: ucp_worker_h,
    /// By rank; dropped after the worker, see `drop`.
    pub endpoints: Vec<Option<Rc<Endpoint>>>,
}

impl Device {
    pub fn open(ucx: &'static Ucx, size: usize, settings: &UcxSettings) -> Result<Device, String> {
        let context = open_context(ucx, settings)?;
        let mut device = Device { ucx, context, worker: null_mut(), endpoints: vec![None; size] };
        let mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
        let params = ucp_worker_params_t {
            field_mask: mask.into(),
            thread_mode: UCS_THREAD_MODE_SERIALIZED,
            // A worker that is destroyed with requests in flight need not say so: abort does it on purpose.
            flags: UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK.into(),
            ..Default::default()
        };
        // SAFETY: a live context and live locals.
        let status = unsafe { (ucx.ucp.ucp_worker_create)(context, &params, &mut device.worker) };
        check(ucx, "worker", status)?;
        Ok(device)
    }

    pub fn address(&self) -> Result<Vec<u8>, String> {
        let (mut address, mut length) = (null_mut(), 0);
        // SAFETY: a live worker and live locals.
        let status = unsafe { (self.ucx.ucp.ucp_worker_get_address)(self.worker, &mut address, &mut length) };
        check(self.ucx, "address", status)?;
        // SAFETY: UCX has returned `length` bytes, which live until they are released.
        let copy = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), length) }.to_vec();
        // SAFETY: released once, and used no more.
        unsafe { (self.ucx.ucp.ucp_worker_release_address)(self.worker, address) };
        Ok(copy)
    }

    /// A descriptor that becomes readable when an armed worker has something to do; it outlives the worker.
    pub fn events(&self) -> Result<OwnedFd, String> {
        let mut descriptor = -1;
        // SAFETY: a live worker and a live local.
        let status = unsafe { (self.ucx.ucp.ucp_worker_get_efd)(self.worker, &mut descriptor) };
        check(self.ucx, "event descriptor", status)?;
        // SAFETY: the worker's descriptor, open as long as the worker, which is longer than this borrow.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        borrowed.try_clone_to_owned().map_err(|error| format!("event descriptor: {error}"))
    }

    #[inline]
    pub fn progress(&self) -> bool {
        // SAFETY: a live worker; no callback is running, because none calls back into the transport.
        unsafe { (self.ucx.ucp.ucp_worker_progress)(self.worker) != 0 }
    }

    /// `false` where something has happened. An error also means that blocking would not be safe.
    pub fn arm(&self) -> bool {
        // SAFETY: a live worker with the wake-up feature.
        unsafe { (self.ucx.ucp.ucp_worker_arm)(self.worker) == UCS_OK }
    }

    /// The tag of a message that nobody has received and that agrees with `tag` in the bits of `mask`.
    pub fn probe(&self, tag: u64, mask: u64) -> Option<u64> {
        let mut info = ucp_tag_recv_info_t::default();
        // SAFETY: a live worker and a live local; the message stays where it is.
        let found = unsafe { (self.ucx.ucp.ucp_tag_probe_nb)(self.worker, tag, mask, 0, &mut info) };
        (!found.is_null()).then_some(info.sender_tag)
    }

    /// Removes such a message from UCX's list; it must then be received.
    pub fn take(&self, tag: u64, mask: u64) -> Option<(ucp_tag_message_h, ucp_tag_recv_info_t)> {
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

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: both are live or null and used no more; the worker goes before its context. Destroying the worker
        // may still call back, and `endpoints` and the transport's slots are dropped later than this.
        unsafe {
            if !self.worker.is_null() {
                (self.ucx.ucp.ucp_worker_destroy)(self.worker);
            }
            (self.ucx.ucp.ucp_cleanup)(self.context);
        }
    }
}

fn open_context(ucx: &'static Ucx, settings: &UcxSettings) -> Result<ucp_context_h, String> {
    let mut config = null_mut();
    // SAFETY: null means no prefix and no file; a live local.
    check(ucx, "configuration", unsafe { (ucx.ucp.ucp_config_read)(null(), null(), &mut config) })?;
    let mut context = null_mut();
    let params = ucp_params_t {
        field_mask: UCP_PARAM_FIELD_FEATURES.into(),
        features: (UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP).into(),
        ..Default::default()
    };
    let result = modify(ucx, config, c"NET_DEVICES", &settings.net_devices)
        .and_then(|()| modify(ucx, config, c"TLS", &settings.tls))
        .and_then(|()| {
            // SAFETY: live locals, and the configuration that was just read.
            let status = unsafe { ucx.ucp_init(&params, config, &mut context) };
            let asked = asked(settings);
            check(ucx, &asked, status)
        });
    // SAFETY: read above, released once, used no more.
    unsafe { (ucx.ucp.ucp_config_release)(config) };
    result.map(|()| context)
}

fn modify(
    ucx: &Ucx,
    config: *mut ucp_config_t,
    name: &std::ffi::CStr,
    value: &Option<String>,
) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let name_text = name.to_string_lossy();
    let text = CString::new(value.as_str()).map_err(|_| format!("{name_text} contains a zero byte"))?;
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

/// What the context was to use, and who said so.
fn asked(settings: &UcxSettings) -> String {
    let said = |name: &str, setting: &Option<String>| {
        let variable = format!("UCX_{name}");
        let found = setting.clone().or_else(|| std::env::var(&variable).ok());
        found.map(|value| format!("{variable}={value}"))
    };
    let all = [said("TLS", &settings.tls), said("NET_DEVICES", &settings.net_devices)];
    let all: Vec<String> = all.into_iter().flatten().collect();
    format!(
        "opening the network with {}",
        if all.is_empty() { "UCX's defaults".to_owned() } else { all.join(" ") }
    )
}

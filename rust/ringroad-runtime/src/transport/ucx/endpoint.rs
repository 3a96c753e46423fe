//! The connection to one peer on one device.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{c_void, CStr};
use std::ptr::null_mut;
use std::rc::Rc;

use ringroad_core::Rank;
use ucx_sys::*;

use super::requests::{CompletionQueue, Lost};

/// More transports than UCX uses for one endpoint.
const TRANSPORTS: usize = 32;

/// An endpoint, and the state that its error handler writes.
pub(super) struct Endpoint {
    ucx: &'static Ucx,
    queue: Rc<CompletionQueue>,
    device: usize,
    peer: Rank,
    handle: Cell<ucp_ep_h>,
    failure: Cell<ucs_status_t>,
}

impl Endpoint {
    pub fn open(
        ucx: &'static Ucx,
        worker: ucp_worker_h,
        device: usize,
        peer: Rank,
        address: &[u8],
        queue: &Rc<CompletionQueue>,
    ) -> Result<Rc<Endpoint>, ucs_status_t> {
        let endpoint = Rc::new(Endpoint {
            ucx,
            queue: queue.clone(),
            device,
            peer,
            handle: Cell::new(null_mut()),
            failure: Cell::new(UCS_OK),
        });
        let mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS
            | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE
            | UCP_EP_PARAM_FIELD_ERR_HANDLER;
        let params = ucp_ep_params_t {
            field_mask: mask.into(),
            address: address.as_ptr().cast(),
            err_mode: UCP_ERR_HANDLING_MODE_PEER,
            err_handler: ucp_err_handler_t { cb: Some(failed), arg: Rc::as_ptr(&endpoint).cast_mut().cast() },
            ..Default::default()
        };
        let mut handle = null_mut();
        // SAFETY: a live worker, and an address that a worker of the same UCX version made, as the caller of
        // `set_addresses` promises. The device keeps the handler's argument until the worker is gone.
        let status = unsafe { (ucx.ucp.ucp_ep_create)(worker, &params, &mut handle) };
        endpoint.handle.set(handle);
        if status == UCS_OK {
            Ok(endpoint)
        } else {
            Err(status)
        }
    }

    pub fn peer(&self) -> Rank {
        self.peer
    }

    #[inline]
    pub fn handle(&self) -> ucp_ep_h {
        self.handle.get()
    }

    /// Why the endpoint has failed, or `UCS_OK`.
    #[inline]
    pub fn failure(&self) -> ucs_status_t {
        self.failure.get()
    }

    /// Starts a flush, which completes when everything that was sent has left.
    pub fn flush(&self) -> ucs_status_ptr_t {
        if self.handle.get().is_null() || self.failure.get() != UCS_OK {
            return null_mut();
        }
        // SAFETY: an open endpoint that has not failed.
        unsafe { (self.ucx.ucp.ucp_ep_flush_nbx)(self.handle.get(), &ucp_request_param_t::default()) }
    }

    /// Starts to close the endpoint, by force if `force` is set or the endpoint has failed. Nothing may be posted
    /// afterwards.
    pub fn close(&self, force: bool) -> ucs_status_ptr_t {
        let handle = self.handle.replace(null_mut());
        if handle.is_null() {
            return null_mut();
        }
        let force = force || self.failure.get() != UCS_OK;
        let params = ucp_request_param_t {
            op_attr_mask: UCP_OP_ATTR_FIELD_FLAGS,
            flags: if force { UCP_EP_CLOSE_FLAG_FORCE } else { 0 },
            ..Default::default()
        };
        // SAFETY: an open endpoint; the handle is used here for the last time.
        unsafe { (self.ucx.ucp.ucp_ep_close_nbx)(handle, &params) }
    }

    /// Adds the names of the UCX transports that the endpoint uses, if UCX lists them (since 1.14).
    pub fn transports(&self, names: &mut BTreeSet<String>) {
        let open = !self.handle.get().is_null() && self.failure.get() == UCS_OK;
        if !open || self.ucx.version < (1, 14, 0) {
            return;
        }
        let mut entries = [ucp_transport_entry_t::default(); TRANSPORTS];
        let mut attributes = ucp_ep_attr_t {
            field_mask: UCP_EP_ATTR_FIELD_TRANSPORTS.into(),
            transports: ucp_transports_t {
                entries: entries.as_mut_ptr(),
                num_entries: TRANSPORTS as u32,
                entry_size: size_of::<ucp_transport_entry_t>(),
            },
            ..Default::default()
        };
        // SAFETY: an open endpoint, and as many entries of this size as the attributes say.
        if unsafe { (self.ucx.ucp.ucp_ep_query)(self.handle.get(), &mut attributes) } != UCS_OK {
            return;
        }
        let count = (attributes.transports.num_entries as usize).min(TRANSPORTS);
        for entry in entries[..count].iter().filter(|entry| !entry.transport_name.is_null()) {
            // SAFETY: a string of UCX that lives as long as the endpoint; it is copied at once.
            let name = unsafe { CStr::from_ptr(entry.transport_name) };
            names.insert(name.to_string_lossy().into_owned());
        }
    }
}

unsafe extern "C" fn failed(argument: *mut c_void, _endpoint: ucp_ep_h, status: ucs_status_t) {
    // SAFETY: the endpoint that was passed at its creation; endpoints outlive their worker.
    let endpoint = unsafe { &*argument.cast_const().cast::<Endpoint>() };
    // A failure with the status OK would look like success.
    let status = if status == UCS_OK { UCS_ERR_CONNECTION_RESET } else { status };
    if endpoint.failure.replace(status) == UCS_OK {
        let Endpoint { device, peer, .. } = *endpoint;
        endpoint.queue.push_failure(Lost { device, peer, status });
    }
}

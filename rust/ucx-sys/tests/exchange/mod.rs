//! Two workers of one context, one endpoint, and tagged messages, both expected and unexpected.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};
use ucx_sys::*;

const DEADLINE: Duration = Duration::from_secs(30);

pub struct Pair<'a> {
    ucx: &'a Ucx,
    context: ucp_context_h,
    /// The sender and the receiver.
    workers: [ucp_worker_h; 2],
    endpoint: ucp_ep_h,
}

impl<'a> Pair<'a> {
    pub fn new(ucx: &'a Ucx) -> Self {
        let mut config = null_mut();
        let mut context = null_mut();
        let params = ucp_params_t {
            field_mask: UCP_PARAM_FIELD_FEATURES.into(),
            features: (UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP).into(),
            ..Default::default()
        };
        // SAFETY: null means no prefix and no file; every pointer is to a live local; the config is released once,
        // after its only use.
        unsafe {
            ucx.expect((ucx.ucp.ucp_config_read)(null(), null(), &mut config));
            ucx.expect(ucx.ucp_init(&params, config, &mut context));
            (ucx.ucp.ucp_config_release)(config);
        }
        let workers = [worker(ucx, context), worker(ucx, context)];
        let endpoint = connect(ucx, workers[0], workers[1]);
        Pair { ucx, context, workers, endpoint }
    }

    /// Sends `length` bytes. If `unexpected`, the receive is posted after the message has arrived.
    pub fn exchange(&self, length: usize, tag: u64, unexpected: bool) {
        let message: Vec<u8> = (0..length).map(|i| (i * 7 + length) as u8).collect();
        let mut buffer = vec![0u8; length];
        let mut info = ucp_tag_recv_info_t::default();
        let send_params = ucp_request_param_t::default();
        // UCX 1.13 does not fill FIELD_RECV_INFO when a receive completes at once. Without immediate completion every
        // version reports through the callback.
        let recv_params = ucp_request_param_t {
            op_attr_mask: UCP_OP_ATTR_FIELD_CALLBACK
                | UCP_OP_ATTR_FIELD_USER_DATA
                | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
            cb: ucp_request_callback_t { recv: Some(received) },
            user_data: (&raw mut info).cast(),
            ..Default::default()
        };
        let functions = &self.ucx.ucp;
        let send = || {
            // SAFETY: `message` outlives `finish`; without a datatype the unit is one byte.
            unsafe {
                (functions.ucp_tag_send_nbx)(
                    self.endpoint,
                    message.as_ptr().cast(),
                    length,
                    tag,
                    &send_params,
                )
            }
        };
        let early = unexpected.then(|| {
            let request = send();
            self.until(|| self.probe(tag));
            request
        });
        // SAFETY: `buffer` and `info` outlive `finish`, and nothing else touches them meanwhile.
        let recv = unsafe {
            (functions.ucp_tag_recv_nbx)(
                self.workers[1],
                buffer.as_mut_ptr().cast(),
                length,
                tag,
                u64::MAX,
                &recv_params,
            )
        };
        assert!(ucs_ptr_is_ptr(recv), "a receive completed at once");
        let send = early.unwrap_or_else(send);
        self.finish(send);
        self.finish(recv);
        assert_eq!(buffer, message);
        assert_eq!((info.sender_tag, info.length), (tag, length));
    }

    /// Blocks on the receiver's file descriptor until a message wakes it.
    pub fn wakes_up(&self, tag: u64) {
        let functions = &self.ucx.ucp;
        let mut descriptor = -1;
        // SAFETY: a live worker and a live local.
        self.ucx.expect(unsafe { (functions.ucp_worker_get_efd)(self.workers[1], &mut descriptor) });
        self.until(|| {
            // SAFETY: a live worker.
            match unsafe { (functions.ucp_worker_arm)(self.workers[1]) } {
                UCS_ERR_BUSY => false,
                status => {
                    self.ucx.expect(status);
                    true
                }
            }
        });
        let params = ucp_request_param_t::default();
        let message = 1u64;
        // SAFETY: `message` outlives `finish`.
        let request = unsafe {
            (functions.ucp_tag_send_nbx)(self.endpoint, (&raw const message).cast(), 8, tag, &params)
        };
        let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        let ready = unsafe { libc::poll(&mut poll, 1, 10_000) };
        assert_eq!(ready, 1, "the message does not wake an armed worker");
        self.finish(request);
        self.until(|| self.probe(tag));
        let mut buffer = 0u64;
        // SAFETY: `buffer` outlives `finish`.
        let recv = unsafe {
            (functions.ucp_tag_recv_nbx)(self.workers[1], (&raw mut buffer).cast(), 8, tag, u64::MAX, &params)
        };
        self.finish(recv);
        assert_eq!(buffer, message);
    }

    /// Whether a message with this tag has arrived; leaves it there.
    fn probe(&self, tag: u64) -> bool {
        let mut info = ucp_tag_recv_info_t::default();
        // SAFETY: a live worker and a live local.
        let found = unsafe { (self.ucx.ucp.ucp_tag_probe_nb)(self.workers[1], tag, u64::MAX, 0, &mut info) };
        !found.is_null()
    }

    fn finish(&self, request: ucs_status_ptr_t) {
        if ucs_ptr_is_ptr(request) {
            // SAFETY: a request not yet freed.
            let status = || unsafe { (self.ucx.ucp.ucp_request_check_status)(request) };
            self.until(|| status() != UCS_INPROGRESS);
            self.ucx.expect(status());
            // SAFETY: completed, and not used afterwards.
            unsafe { (self.ucx.ucp.ucp_request_free)(request) };
        } else {
            self.ucx.expect(ucs_ptr_status(request));
        }
    }

    fn until(&self, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < DEADLINE, "no progress in {DEADLINE:?}");
            for worker in self.workers {
                // SAFETY: a live worker, driven by this thread only.
                unsafe { (self.ucx.ucp.ucp_worker_progress)(worker) };
            }
        }
    }

    pub fn close(self) {
        let params = ucp_request_param_t {
            op_attr_mask: UCP_OP_ATTR_FIELD_FLAGS,
            flags: UCP_EP_CLOSE_FLAG_FORCE,
            ..Default::default()
        };
        // SAFETY: the endpoint is live and not used afterwards.
        self.finish(unsafe { (self.ucx.ucp.ucp_ep_close_nbx)(self.endpoint, &params) });
        // SAFETY: the only endpoint is closed and no request is in flight; workers are destroyed before their
        // context.
        unsafe {
            for worker in self.workers {
                (self.ucx.ucp.ucp_worker_destroy)(worker);
            }
            (self.ucx.ucp.ucp_cleanup)(self.context);
        }
    }
}

trait Expect {
    fn expect(&self, status: ucs_status_t);
}

impl Expect for Ucx {
    #[track_caller]
    fn expect(&self, status: ucs_status_t) {
        assert!(status == UCS_OK, "{}", self.status_text(status));
    }
}

unsafe extern "C" fn received(
    _request: *mut c_void,
    status: ucs_status_t,
    info: *const ucp_tag_recv_info_t,
    user_data: *mut c_void,
) {
    if status == UCS_OK {
        // SAFETY: UCX passes a valid info on success, and `exchange` keeps user_data alive.
        unsafe { *user_data.cast::<ucp_tag_recv_info_t>() = *info };
    }
}

fn worker(ucx: &Ucx, context: ucp_context_h) -> ucp_worker_h {
    let params = ucp_worker_params_t {
        field_mask: UCP_WORKER_PARAM_FIELD_THREAD_MODE.into(),
        thread_mode: UCS_THREAD_MODE_SERIALIZED,
        ..Default::default()
    };
    let mut worker = null_mut();
    // SAFETY: a live context and live locals.
    ucx.expect(unsafe { (ucx.ucp.ucp_worker_create)(context, &params, &mut worker) });
    worker
}

fn connect(ucx: &Ucx, from: ucp_worker_h, to: ucp_worker_h) -> ucp_ep_h {
    let (mut address, mut length, mut endpoint) = (null_mut(), 0, null_mut());
    // SAFETY: a live worker and live locals.
    ucx.expect(unsafe { (ucx.ucp.ucp_worker_get_address)(to, &mut address, &mut length) });
    let mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    let params = ucp_ep_params_t {
        field_mask: mask.into(),
        address,
        err_mode: UCP_ERR_HANDLING_MODE_PEER,
        ..Default::default()
    };
    // SAFETY: the address is valid until it is released, which happens once, after its only use.
    unsafe {
        ucx.expect((ucx.ucp.ucp_ep_create)(from, &params, &mut endpoint));
        (ucx.ucp.ucp_worker_release_address)(to, address);
    }
    endpoint
}

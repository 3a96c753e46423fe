//! The part of UCX 1.22's `ucp.h` that a transport needs that matches messages by tags and sleeps on a file descriptor.

use libc::{c_char, c_int, c_schar, c_uint, c_ulong, c_void, sockaddr, sockaddr_storage, socklen_t, FILE};

pub type ucs_status_t = c_schar;
pub type ucs_status_ptr_t = *mut c_void;
pub type ucp_tag_t = u64;
pub type ucp_datatype_t = u64;

pub const UCS_OK: ucs_status_t = 0;
pub const UCS_INPROGRESS: ucs_status_t = 1;
pub const UCS_ERR_NO_MESSAGE: ucs_status_t = -1;
pub const UCS_ERR_NO_MEMORY: ucs_status_t = -4;
pub const UCS_ERR_MESSAGE_TRUNCATED: ucs_status_t = -9;
pub const UCS_ERR_BUSY: ucs_status_t = -15;
pub const UCS_ERR_CANCELED: ucs_status_t = -16;
pub const UCS_ERR_CONNECTION_RESET: ucs_status_t = -25;
pub const UCS_ERR_ENDPOINT_TIMEOUT: ucs_status_t = -80;
pub const UCS_ERR_LAST: ucs_status_t = -100;

pub const UCS_MEMORY_TYPE_HOST: c_uint = 0;
pub const UCS_THREAD_MODE_SERIALIZED: c_uint = 1;
pub const UCP_PARAM_FIELD_FEATURES: c_uint = 1;
pub const UCP_FEATURE_TAG: c_uint = 1;
pub const UCP_FEATURE_WAKEUP: c_uint = 16;
pub const UCP_WORKER_PARAM_FIELD_THREAD_MODE: c_uint = 1;
pub const UCP_WORKER_PARAM_FIELD_FLAGS: c_uint = 32;
pub const UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK: c_uint = 1;
pub const UCP_EP_PARAM_FIELD_REMOTE_ADDRESS: c_uint = 1;
pub const UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE: c_uint = 2;
pub const UCP_EP_PARAM_FIELD_ERR_HANDLER: c_uint = 4;
pub const UCP_ERR_HANDLING_MODE_PEER: c_uint = 1;
pub const UCP_EP_CLOSE_FLAG_FORCE: c_uint = 1;
pub const UCP_EP_ATTR_FIELD_TRANSPORTS: c_uint = 8;
pub const UCP_DATATYPE_CONTIG: c_uint = 0;
pub const UCP_DATATYPE_SHIFT: c_uint = 3;
pub const UCP_OP_ATTR_FIELD_CALLBACK: c_uint = 2;
pub const UCP_OP_ATTR_FIELD_USER_DATA: c_uint = 4;
pub const UCP_OP_ATTR_FIELD_FLAGS: c_uint = 16;
pub const UCP_OP_ATTR_FIELD_MEMORY_TYPE: c_uint = 64;
pub const UCP_OP_ATTR_FLAG_NO_IMM_CMPL: c_uint = 65536;

/// Types of which only pointers exist here.
macro_rules! opaque {
    ($($name:ident)*) => { $(
        #[repr(C)]
        pub struct $name {
            _unused: [u8; 0],
        }
    )* };
}

opaque! { ucp_context ucp_config_t ucp_worker ucp_ep ucp_address_t ucp_recv_desc }

pub type ucp_context_h = *mut ucp_context;
pub type ucp_worker_h = *mut ucp_worker;
pub type ucp_ep_h = *mut ucp_ep;
pub type ucp_tag_message_h = *mut ucp_recv_desc;

/// C's structs and unions, whose `Default` is all bytes zero.
macro_rules! zeroed {
    ($($kind:ident $name:ident { $($field:ident: $type:ty,)* })*) => { $(
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub $kind $name {
            $(pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                // SAFETY: all fields are numbers, pointers, functions that may be absent, and arrays of them.
                unsafe { std::mem::zeroed() }
            }
        }
    )* };
}

zeroed! {
    struct ucp_params_t {
        field_mask: u64,
        features: u64,
        request_size: usize,
        request_init: Option<unsafe extern "C" fn(request: *mut c_void)>,
        request_cleanup: Option<unsafe extern "C" fn(request: *mut c_void)>,
        tag_sender_mask: u64,
        mt_workers_shared: c_int,
        estimated_num_eps: usize,
        estimated_num_ppn: usize,
        name: *const c_char,
        node_local_id: usize,
    }
    struct ucp_worker_params_t {
        field_mask: u64,
        thread_mode: c_uint,
        cpu_mask: [c_ulong; 16],
        events: c_uint,
        user_data: *mut c_void,
        event_fd: c_int,
        flags: u64,
        name: *const c_char,
        am_alignment: usize,
        client_id: u64,
    }
    struct ucp_err_handler_t {
        cb: Option<unsafe extern "C" fn(arg: *mut c_void, ep: ucp_ep_h, status: ucs_status_t)>,
        arg: *mut c_void,
    }
    struct ucs_sock_addr_t {
        addr: *const sockaddr,
        addrlen: socklen_t,
    }
    struct ucp_ep_params_t {
        field_mask: u64,
        address: *const ucp_address_t,
        err_mode: c_uint,
        err_handler: ucp_err_handler_t,
        user_data: *mut c_void,
        flags: c_uint,
        sockaddr: ucs_sock_addr_t,
        conn_request: *mut c_void,
        name: *const c_char,
        local_sockaddr: ucs_sock_addr_t,
    }
    struct ucp_transport_entry_t {
        transport_name: *const c_char,
        device_name: *const c_char,
    }
    struct ucp_transports_t {
        entries: *mut ucp_transport_entry_t,
        num_entries: c_uint,
        entry_size: usize,
    }
    struct ucp_ep_attr_t {
        field_mask: u64,
        name: [c_char; 32],
        local_sockaddr: sockaddr_storage,
        remote_sockaddr: sockaddr_storage,
        transports: ucp_transports_t,
        user_data: *mut c_void,
    }
    struct ucp_tag_recv_info_t {
        sender_tag: ucp_tag_t,
        length: usize,
    }
    struct ucp_request_param_t {
        op_attr_mask: u32,
        flags: u32,
        request: *mut c_void,
        cb: ucp_request_callback_t,
        datatype: ucp_datatype_t,
        user_data: *mut c_void,
        reply_buffer: *mut c_void,
        memory_type: c_uint,
        recv_info: *mut ucp_tag_recv_info_t,
        memh: *mut c_void,
        remote_datatype: ucp_datatype_t,
        remote: *const c_void,
        remote_count: usize,
    }
    union ucp_request_callback_t {
        send: Option<unsafe extern "C" fn(request: *mut c_void, status: ucs_status_t, user_data: *mut c_void)>,
        recv: Option<
            unsafe extern "C" fn(
                request: *mut c_void,
                status: ucs_status_t,
                tag_info: *const ucp_tag_recv_info_t,
                user_data: *mut c_void,
            ),
        >,
    }
}

/// The functions of libucp, each a field that is called as in C.
macro_rules! functions {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        pub struct Ucp {
            _library: libloading::os::unix::Library,
            $(pub $name: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,)*
        }

        impl Ucp {
            /// # Safety
            /// The library's functions have these types.
            pub unsafe fn from_library(library: libloading::os::unix::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the caller's contract. The library lives as long as what is read of it here.
                    $($name: unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? },)*
                    _library: library,
                })
            }
        }
    };
}

type Params = *const ucp_request_param_t;

functions! {
    fn ucp_get_version(major: *mut c_uint, minor: *mut c_uint, release: *mut c_uint);
    fn ucp_get_version_string() -> *const c_char;
    fn ucp_config_read(prefix: *const c_char, file: *const c_char, config: *mut *mut ucp_config_t) -> ucs_status_t;
    fn ucp_config_modify(config: *mut ucp_config_t, name: *const c_char, value: *const c_char) -> ucs_status_t;
    fn ucp_config_release(config: *mut ucp_config_t);
    fn ucp_init_version(
        major: c_uint, minor: c_uint, params: *const ucp_params_t, config: *const ucp_config_t,
        context: *mut ucp_context_h
    ) -> ucs_status_t;
    fn ucp_context_print_info(context: ucp_context_h, stream: *mut FILE);
    fn ucp_cleanup(context: ucp_context_h);
    fn ucp_worker_create(
        context: ucp_context_h, params: *const ucp_worker_params_t, worker: *mut ucp_worker_h
    ) -> ucs_status_t;
    fn ucp_worker_get_address(
        worker: ucp_worker_h, address: *mut *mut ucp_address_t, length: *mut usize
    ) -> ucs_status_t;
    fn ucp_worker_release_address(worker: ucp_worker_h, address: *mut ucp_address_t);
    fn ucp_worker_progress(worker: ucp_worker_h) -> c_uint;
    fn ucp_worker_get_efd(worker: ucp_worker_h, fd: *mut c_int) -> ucs_status_t;
    fn ucp_worker_arm(worker: ucp_worker_h) -> ucs_status_t;
    fn ucp_worker_destroy(worker: ucp_worker_h);
    fn ucp_ep_create(worker: ucp_worker_h, params: *const ucp_ep_params_t, ep: *mut ucp_ep_h) -> ucs_status_t;
    fn ucp_ep_query(ep: ucp_ep_h, attributes: *mut ucp_ep_attr_t) -> ucs_status_t;
    fn ucp_ep_flush_nbx(ep: ucp_ep_h, params: Params) -> ucs_status_ptr_t;
    fn ucp_ep_close_nbx(ep: ucp_ep_h, params: Params) -> ucs_status_ptr_t;
    fn ucp_tag_send_nbx(
        ep: ucp_ep_h, buffer: *const c_void, count: usize, tag: ucp_tag_t, params: Params
    ) -> ucs_status_ptr_t;
    fn ucp_tag_recv_nbx(
        worker: ucp_worker_h, buffer: *mut c_void, count: usize, tag: ucp_tag_t, mask: ucp_tag_t, params: Params
    ) -> ucs_status_ptr_t;
    fn ucp_tag_probe_nb(
        worker: ucp_worker_h, tag: ucp_tag_t, mask: ucp_tag_t, remove: c_int, info: *mut ucp_tag_recv_info_t
    ) -> ucp_tag_message_h;
    fn ucp_tag_msg_recv_nbx(
        worker: ucp_worker_h, buffer: *mut c_void, count: usize, message: ucp_tag_message_h, params: Params
    ) -> ucs_status_ptr_t;
    fn ucp_request_check_status(request: *mut c_void) -> ucs_status_t;
    fn ucp_request_cancel(worker: ucp_worker_h, request: *mut c_void);
    fn ucp_request_free(request: *mut c_void);
}

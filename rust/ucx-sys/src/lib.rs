//! Bindings to UCX's `ucp` and `ucs`, opened at run time by [`load`].
//!
//! Nothing is linked: a process that never calls [`load`] needs no UCX. The declarations come from the UCX 1.22
//! headers and run on 1.13 to 1.22, because between these versions structs only grew at the end. Two rules follow:
//! start from `Default` (all bytes zero), and set only the field-mask bits that [`Ucx::version`] knows.

// C's spelling. The contract of every function is in UCX's API documentation.
#[allow(missing_docs, non_camel_case_types)]
mod bindings;
mod choice;
mod environment;
mod load;

pub use bindings::*;
pub use environment::{default_tls, network_tls, rdma_devices, ENVIRONMENT};
pub use load::{load, LoadError, LoadOptions, Origin, Ucx, MINIMUM_VERSION};

use std::os::raw::c_void;

/// The API version passed to `ucp_init_version`. The features used here exist since 1.12, and UCX refuses callers
/// that ask for a newer version than it has.
pub const API_VERSION: (u32, u32) = (1, 12);

impl Ucx {
    /// `ucp_init`, which the header defines inline.
    ///
    /// # Safety
    /// As for `ucp_init_version`: `params` and `context` are valid, `config` is null or comes from `ucp_config_read`.
    pub unsafe fn ucp_init(
        &self,
        params: *const ucp_params_t,
        config: *const ucp_config_t,
        context: *mut ucp_context_h,
    ) -> ucs_status_t {
        // SAFETY: the caller's contract is that of the callee.
        unsafe { (self.ucp.ucp_init_version)(API_VERSION.0, API_VERSION.1, params, config, context) }
    }

    /// UCX's text for a status, for messages only: the codes of one failure differ between versions.
    pub fn status_text(&self, status: ucs_status_t) -> String {
        // SAFETY: ucs_status_string accepts every value. It returns a static string, or for unknown codes one in a
        // buffer that lives as long as the library, which is never unloaded.
        let text = unsafe { std::ffi::CStr::from_ptr((self.status_string)(status)) };
        format!("{} ({status})", text.to_string_lossy())
    }
}

/// `ucp_dt_make_contig`: a datatype of `element_size` contiguous bytes.
pub const fn ucp_dt_make_contig(element_size: usize) -> ucp_datatype_t {
    ((element_size as u64) << UCP_DATATYPE_SHIFT) | UCP_DATATYPE_CONTIG as u64
}

/// `UCS_PTR_IS_ERR`: the operation failed at once and nothing is in flight; [`ucs_ptr_status`] returns the reason.
pub fn ucs_ptr_is_err(pointer: ucs_status_ptr_t) -> bool {
    pointer as usize >= UCS_ERR_LAST as isize as usize
}

/// `UCS_PTR_IS_PTR`: a request is in flight, which `ucp_request_free` releases. Null means that the operation
/// completed at once.
pub fn ucs_ptr_is_ptr(pointer: ucs_status_ptr_t) -> bool {
    !pointer.is_null() && !ucs_ptr_is_err(pointer)
}

/// `UCS_PTR_STATUS`: `UCS_INPROGRESS` for a request, otherwise the status in the pointer (`UCS_OK` for null).
pub fn ucs_ptr_status(pointer: ucs_status_ptr_t) -> ucs_status_t {
    if ucs_ptr_is_ptr(pointer) {
        UCS_INPROGRESS
    } else {
        pointer as isize as ucs_status_t
    }
}

/// `UCS_STATUS_PTR`: the pointer that carries `status`.
pub fn ucs_status_ptr(status: ucs_status_t) -> ucs_status_ptr_t {
    status as isize as *mut c_void
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_pointers_follow_the_macros() {
        for status in [UCS_ERR_NO_MESSAGE, UCS_ERR_CANCELED, UCS_ERR_LAST] {
            assert!(ucs_ptr_is_err(ucs_status_ptr(status)));
            assert!(!ucs_ptr_is_ptr(ucs_status_ptr(status)));
            assert_eq!(ucs_ptr_status(ucs_status_ptr(status)), status);
        }
        assert_eq!(ucs_ptr_status(std::ptr::null_mut()), UCS_OK);
        assert!(!ucs_ptr_is_err(std::ptr::null_mut()));
        let mut request = 0u64;
        let request = (&raw mut request).cast();
        assert!(ucs_ptr_is_ptr(request));
        assert_eq!(ucs_ptr_status(request), UCS_INPROGRESS);
    }

    #[test]
    fn contiguous_datatype_is_the_size_above_the_class() {
        assert_eq!(ucp_dt_make_contig(1), 8);
        assert_eq!(ucp_dt_make_contig(4), 32);
    }
}

//! Requests in flight: the slots that UCX's callbacks report to and that keep memory alive.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::rc::Rc;

use ringroad_core::Rank;
use ucx_sys::*;

use super::immediate;
use crate::transport::buffer::Region;
use crate::transport::{Failure, MessageKind, Posted, RequestId, Tag};

/// A connection that broke.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    pub device: usize,
    pub peer: Rank,
    pub status: ucs_status_t,
}

/// What the callbacks have recorded since the queue was last emptied.
#[derive(Default)]
pub(super) struct CompletionQueue {
    completed: RefCell<Vec<usize>>,
    failures: RefCell<Vec<Lost>>,
}

impl CompletionQueue {
    #[inline]
    pub fn has_completed(&self) -> bool {
        !self.completed.borrow().is_empty()
    }

    #[inline]
    pub fn has_failures(&self) -> bool {
        !self.failures.borrow().is_empty()
    }

    /// Exchanges the list of slots that have ended with `empty`.
    pub fn take_completed(&self, empty: &mut Vec<usize>) {
        debug_assert!(empty.is_empty());
        std::mem::swap(&mut *self.completed.borrow_mut(), empty);
    }

    pub fn take_failures(&self) -> Vec<Lost> {
        self.failures.take()
    }

    pub fn push_failure(&self, lost: Lost) {
        self.failures.borrow_mut().push(lost);
    }
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Send,
    Receive,
    NoticeOut,
    NoticeIn,
    /// To drop a message: its content is not read.
    Nothing,
}

impl Purpose {
    #[inline]
    pub fn receives(self) -> bool {
        matches!(self, Purpose::Receive | Purpose::NoticeIn | Purpose::Nothing)
    }
}

/// What the transport says about a request when it posts it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PostedRequest {
    pub purpose: Purpose,
    pub peer: Rank,
    pub device: usize,
    pub request: RequestId,
}

/// A request that has ended.
pub(super) struct EndedRequest {
    pub post: PostedRequest,
    /// The kind of call that the message was part of.
    pub kind: MessageKind,
    pub result: Result<(), Failure>,
    pub region: Region,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    Free,
    /// Within the call that posts it. The callback may run already.
    Starting,
    InFlight,
    /// The callback has run.
    Ended,
}

struct RequestSlot {
    queue: Rc<CompletionQueue>,
    index: usize,
    state: Cell<RequestState>,
    status: Cell<ucs_status_t>,
    found: Cell<ucp_tag_recv_info_t>,
    tag: Cell<u64>,
    post: Cell<PostedRequest>,
    handle: Cell<ucs_status_ptr_t>,
    region: RefCell<Option<Region>>,
}

/// All slots. They are reused, and live until the workers are gone.
pub(super) struct Slots {
    ucx: &'static Ucx,
    queue: Rc<CompletionQueue>,
    all: Vec<Rc<RequestSlot>>,
    free: Vec<usize>,
    send: ucp_request_param_t,
    receive: ucp_request_param_t,
}

impl Slots {
    pub fn new(ucx: &'static Ucx, queue: Rc<CompletionQueue>) -> Slots {
        let mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        let send = ucp_request_param_t {
            op_attr_mask: mask,
            cb: ucp_request_callback_t { send: Some(sent) },
            memory_type: UCS_MEMORY_TYPE_HOST,
            ..Default::default()
        };
        let receive = ucp_request_param_t {
            // When a receive finds its message at once, UCX 1.13 gives information about it only through the
            // callback.
            op_attr_mask: mask | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
            cb: ucp_request_callback_t { recv: Some(received) },
            ..send
        };
        Slots { ucx, queue, all: Vec::new(), free: Vec::new(), send, receive }
    }

    pub fn send(
        &mut self,
        endpoint: ucp_ep_h,
        post: PostedRequest,
        tag: u64,
        source: Region,
    ) -> Result<Posted, ucs_status_t> {
        let (start, bytes) = (source.as_ptr().cast_const().cast(), source.len());
        let slot = self.take_slot(post, tag, source);
        let params = ucp_request_param_t { user_data: Rc::as_ptr(&slot).cast_mut().cast(), ..self.send };
        // SAFETY: the endpoint is open; the slot keeps the memory until the callback has run, and lives until the
        // worker is gone.
        let handle = unsafe { (self.ucx.ucp.ucp_tag_send_nbx)(endpoint, start, bytes, tag, &params) };
        self.started(&slot, handle)
    }

    pub fn receive(
        &mut self,
        worker: ucp_worker_h,
        post: PostedRequest,
        tag: u64,
        target: Region,
    ) -> Result<Posted, ucs_status_t> {
        let (start, bytes) = (target.as_ptr().cast(), target.len());
        let slot = self.take_slot(post, tag, target);
        let params = ucp_request_param_t { user_data: Rc::as_ptr(&slot).cast_mut().cast(), ..self.receive };
        // SAFETY: the worker lives; for memory and slot see `send`.
        let handle =
            unsafe { (self.ucx.ucp.ucp_tag_recv_nbx)(worker, start, bytes, tag, Tag::MATCH, &params) };
        self.started(&slot, handle)
    }

    /// Receives at most `length` bytes of a message that a probe has removed from UCX's list.
    pub fn receive_probed(
        &mut self,
        worker: ucp_worker_h,
        post: PostedRequest,
        message: ucp_tag_message_h,
        tag: u64,
        length: usize,
    ) -> Result<Posted, ucs_status_t> {
        let target = Region::zeroed(length);
        let start = target.as_ptr().cast();
        let slot = self.take_slot(post, tag, target);
        let params = ucp_request_param_t { user_data: Rc::as_ptr(&slot).cast_mut().cast(), ..self.receive };
        // SAFETY: the message is used this once; for memory and slot see `send`.
        let handle = unsafe { (self.ucx.ucp.ucp_tag_msg_recv_nbx)(worker, start, length, message, &params) };
        self.started(&slot, handle)
    }

    #[inline]
    fn take_slot(&mut self, post: PostedRequest, tag: u64, region: Region) -> Rc<RequestSlot> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow(post),
        };
        let slot = &self.all[index];
        slot.state.set(RequestState::Starting);
        slot.post.set(post);
        slot.tag.set(tag);
        slot.region.replace(Some(region));
        slot.clone()
    }

    #[cold]
    fn grow(&mut self, post: PostedRequest) -> usize {
        let index = self.all.len();
        self.all.push(Rc::new(RequestSlot {
            queue: self.queue.clone(),
            index,
            state: Cell::new(RequestState::Free),
            status: Cell::new(UCS_OK),
            found: Cell::default(),
            tag: Cell::new(0),
            post: Cell::new(post),
            handle: Cell::new(null_mut()),
            region: RefCell::new(None),
        }));
        index
    }

    /// Completes posting, with the `handle` that UCX has returned.
    #[inline]
    fn started(&mut self, slot: &RequestSlot, handle: ucs_status_ptr_t) -> Result<Posted, ucs_status_t> {
        if !ucs_ptr_is_ptr(handle) {
            self.release(slot);
            return immediate(handle).map(|()| Posted::Complete);
        }
        slot.handle.set(handle);
        if slot.state.get() == RequestState::Starting {
            slot.state.set(RequestState::InFlight);
            return Ok(Posted::Pending);
        }
        // The callback has run. Notices and failures are reported by events, which only `drain` makes.
        if slot.post.get().purpose == Purpose::NoticeIn || !slot.went_well() {
            self.queue.completed.borrow_mut().push(slot.index);
            return Ok(Posted::Pending);
        }
        self.free_handle(slot);
        self.release(slot);
        Ok(Posted::Complete)
    }

    #[inline]
    fn free_handle(&self, slot: &RequestSlot) {
        // SAFETY: a request pointer from UCX whose callback has run. It is taken out of the slot, so that it is freed
        // once. Its worker lives, because slots are settled only by a transport that has devices.
        unsafe { (self.ucx.ucp.ucp_request_free)(slot.handle.replace(null_mut())) };
    }

    #[inline]
    fn release(&mut self, slot: &RequestSlot) -> Region {
        slot.state.set(RequestState::Free);
        self.free.push(slot.index);
        slot.region.take().expect("a slot in use has a region")
    }

    /// Ends the request of a slot that was in the queue.
    #[inline]
    pub fn settle(&mut self, index: usize) -> EndedRequest {
        let slot = self.all[index].clone();
        debug_assert_eq!(slot.state.get(), RequestState::Ended);
        self.free_handle(&slot);
        let result = if slot.went_well() { Ok(()) } else { Err(slot.failure(self.ucx)) };
        let region = self.release(&slot);
        EndedRequest { post: slot.post.get(), kind: Tag::unpack(slot.tag.get()).kind, result, region }
    }

    /// The number of requests that are in flight, or have ended but are not settled.
    pub fn in_use(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Whether a notice is being sent.
    pub fn telling(&self) -> bool {
        let tells = |slot: &RequestSlot| slot.post.get().purpose == Purpose::NoticeOut;
        self.all.iter().any(|slot| slot.state.get() == RequestState::InFlight && tells(slot))
    }

    /// Whether a receive is in flight.
    pub fn receiving(&self) -> bool {
        self.all.iter().any(|slot| slot.receiving())
    }

    /// The devices and peers of all receives in flight.
    pub fn receiving_from(&self) -> BTreeSet<(usize, Rank)> {
        let busy = self.all.iter().filter(|slot| slot.receiving());
        busy.map(|slot| (slot.post.get().device, slot.post.get().peer)).collect()
    }

    /// Cancels every receive that has not matched a message.
    pub fn cancel_receives(&self, worker_of: impl Fn(usize) -> ucp_worker_h) {
        for slot in &self.all {
            let post = slot.post.get();
            if slot.receiving() {
                // SAFETY: the request is in flight on this worker, hence not freed.
                unsafe { (self.ucx.ucp.ucp_request_cancel)(worker_of(post.device), slot.handle.get()) };
            }
        }
    }

    /// For use after the workers are gone: leaks the slots of requests that never ended, and their memory, since a
    /// worker that points to them may have been left behind.
    pub fn forget_all(&mut self) {
        for slot in self.all.clone() {
            if slot.state.get() != RequestState::Free {
                slot.handle.set(null_mut());
                std::mem::forget((self.release(&slot), slot));
            }
        }
        self.queue.completed.take();
    }
}

impl RequestSlot {
    fn receiving(&self) -> bool {
        self.state.get() == RequestState::InFlight && self.post.get().purpose.receives()
    }

    #[inline]
    fn went_well(&self) -> bool {
        self.status.get() == UCS_OK
            && (!self.post.get().purpose.receives()
                || self.found.get().sender_tag == self.tag.get()
                    && self.found.get().length == self.expected())
    }

    fn expected(&self) -> usize {
        self.region.borrow().as_ref().map_or(0, Region::len)
    }

    #[cold]
    fn failure(&self, ucx: &Ucx) -> Failure {
        let (status, found, expected) = (self.status.get(), self.found.get(), self.expected());
        let post = self.post.get();
        let doing = match post.purpose {
            Purpose::Send | Purpose::NoticeOut => "sending to",
            Purpose::Receive | Purpose::NoticeIn | Purpose::Nothing => "receiving from",
        };
        if status != UCS_OK && status != UCS_ERR_MESSAGE_TRUNCATED {
            let reason = format!("{doing} rank {}: {}", post.peer, ucx.status_text(status));
            let lacks_memory = status == ucx_sys::UCS_ERR_NO_MEMORY;
            return if lacks_memory { Failure::Memory(reason) } else { Failure::Broken(reason) };
        }
        // UCX promises no information about a message that is too long, but gives it; use it if it is plausible.
        let known = status == UCS_OK || (found.sender_tag ^ self.tag.get()) & Tag::MATCH == 0;
        let plausible = status == UCS_OK || found.length > expected;
        let bytes = (known && plausible).then_some(found.length);
        if known && found.sender_tag != self.tag.get() {
            return Failure::Check { found: Tag::unpack(found.sender_tag), bytes };
        }
        Failure::Length { found: bytes, expected }
    }

    #[inline]
    fn end(&self, status: ucs_status_t) {
        self.status.set(status);
        // Within the posting call, the poster checks the state itself.
        if self.state.replace(RequestState::Ended) == RequestState::InFlight {
            self.queue.completed.borrow_mut().push(self.index);
        }
    }
}

unsafe extern "C" fn sent(_request: *mut c_void, status: ucs_status_t, user_data: *mut c_void) {
    // SAFETY: the slot that was passed with the request; slots outlive the workers.
    let slot = unsafe { &*user_data.cast_const().cast::<RequestSlot>() };
    slot.end(status);
}

unsafe extern "C" fn received(
    _request: *mut c_void,
    status: ucs_status_t,
    info: *const ucp_tag_recv_info_t,
    user_data: *mut c_void,
) {
    // SAFETY: as in `sent`.
    let slot = unsafe { &*user_data.cast_const().cast::<RequestSlot>() };
    slot.found.set(match status {
        // SAFETY: UCX passes a pointer into the request, which lives during the callback.
        UCS_OK | UCS_ERR_MESSAGE_TRUNCATED if !info.is_null() => unsafe { *info },
        _ => ucp_tag_recv_info_t::default(),
    });
    slot.end(status);
}

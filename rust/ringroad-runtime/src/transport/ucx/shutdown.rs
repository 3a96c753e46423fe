//! Ends a transport, gently or by force, but never frees memory that a peer may still write.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ringroad_core::Rank;
use ucx_sys::{ucs_ptr_is_ptr, ucs_status_ptr_t, UCS_INPROGRESS, UCS_OK};

use super::requests::{EndedRequest, Lost, Slots};
use super::UcxTransport;
use crate::transport::Failure;

/// How long dropping a transport may take.
pub(super) const DROP_TIME: Duration = Duration::from_millis(500);

/// How long ending by force waits, at most, for receives that have matched their message (reading a peer's memory
/// needs no help from the peer), and for notices to leave.
const GRACE: Duration = Duration::from_millis(500);
/// Rounds of progress before this thread sleeps in between, so that others get the core.
const BUSY_ROUNDS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(100);

impl UcxTransport {
    pub(super) fn end_by_force(&mut self, aborted: bool, deadline: Instant) {
        (0..self.size).for_each(|peer| self.drop_held(peer));
        self.cancel_receives();
        self.say_goodbye(aborted);
        self.force(Vec::new(), deadline);
    }

    pub(super) fn end_gently(&mut self, deadline: Instant) {
        self.cancel_receives();
        let now = Instant::now();
        let endpoints = self.devices.iter().flat_map(|device| device.endpoints.iter().flatten());
        let mut pending: Vec<_> = endpoints.map(|endpoint| endpoint.flush()).collect();
        let half = now + deadline.saturating_duration_since(now) / 2;
        if !self.finish(&mut pending, half, |slots| slots.in_use() == 0) {
            self.say_goodbye(false);
            return self.force(pending, deadline);
        }
        // After all that was sent.
        self.say_goodbye(false);
        let mut pending = self.close_endpoints(false);
        self.finish(&mut pending, deadline, |slots| slots.in_use() == 0);
        self.abandon(pending);
        self.destroy();
    }

    /// Ends everything by force.
    ///
    /// Closing an endpoint by force while it reads its peer's memory (CMA) aborts the process, in UCX 1.13 as in
    /// 1.22, and so does destroying its worker. So such endpoints are only waited for. If a receive is in flight even
    /// at the deadline, its worker is left as it is for as long as the process lives; the workers of other devices
    /// are destroyed.
    fn force(&mut self, mut pending: Vec<ucs_status_ptr_t>, deadline: Instant) {
        let now = Instant::now();
        let grace = now + (deadline.saturating_duration_since(now) / 2).min(GRACE);
        // At least one round, so that peers that are connecting get their answer: UCX 1.13 aborts the process of a
        // peer whose request comes when its endpoint is gone.
        self.finish(&mut Vec::new(), grace, |slots| !slots.receiving() && !slots.telling());
        pending.extend(self.close_endpoints(true));
        self.finish(&mut pending, deadline, |slots| slots.in_use() == 0);
        self.abandon(pending);
        let busy: BTreeSet<usize> =
            self.slots.receiving_from().into_iter().map(|(device, _)| device).collect();
        for (index, device) in std::mem::take(&mut self.devices).into_iter().enumerate() {
            if busy.contains(&index) {
                std::mem::forget(device);
            }
        }
        self.destroy();
    }

    /// Cancels the receives that have matched no message, before any force is used: nobody writes their memory.
    fn cancel_receives(&mut self) {
        let devices = &self.devices;
        self.slots.cancel_receives(|device| devices[device].worker);
        self.discard(false);
    }

    /// Starts to close all endpoints, except for those on which a receive is in flight.
    fn close_endpoints(&self, force: bool) -> Vec<ucs_status_ptr_t> {
        let busy = self.slots.receiving_from();
        let endpoints = self.devices.iter().enumerate().flat_map(|(index, device)| {
            device.endpoints.iter().flatten().map(move |endpoint| (index, endpoint))
        });
        endpoints
            .filter(|(index, endpoint)| !busy.contains(&(*index, endpoint.peer())))
            .map(|(_, endpoint)| endpoint.close(force))
            .collect()
    }

    /// Makes progress until none of `pending` is in flight and the slots are `done`. Returns whether that was before
    /// `deadline`.
    fn finish(
        &mut self,
        pending: &mut Vec<ucs_status_ptr_t>,
        deadline: Instant,
        done: impl Fn(&Slots) -> bool,
    ) -> bool {
        let ucx = self.ucx;
        let mut rounds = 0;
        loop {
            for device in &self.devices {
                device.progress();
            }
            self.discard(true);
            pending.retain(|&request| {
                if !ucs_ptr_is_ptr(request) {
                    return false;
                }
                // SAFETY: a request of a live worker, not freed yet.
                let going = unsafe { (ucx.ucp.ucp_request_check_status)(request) } == UCS_INPROGRESS;
                if !going {
                    // SAFETY: complete, and leaves the list now.
                    unsafe { (ucx.ucp.ucp_request_free)(request) };
                }
                going
            });
            if pending.is_empty() && done(&self.slots) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            rounds += 1;
            if rounds > BUSY_ROUNDS {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Frees handles of requests that UCX may still complete. UCX 1.13 ends the process if a worker is destroyed
    /// before that.
    fn abandon(&self, pending: Vec<ucs_status_ptr_t>) {
        for request in pending.into_iter().filter(|request| ucs_ptr_is_ptr(*request)) {
            // SAFETY: a request of a worker that lives, or was left behind; nobody uses it any more.
            unsafe { (self.ucx.ucp.ucp_request_free)(request) };
        }
    }

    /// Settles requests that have ended, without events. A receive whose message was matched (`matched`) and that was
    /// broken off while its peer lives leaks its memory: over CMA the peer may be writing it, and UCX cannot stop
    /// that. A loss of the peer on another device does not prove that the peer is dead.
    fn discard(&mut self, matched: bool) {
        let mut ended = Vec::new();
        self.queue.take_completed(&mut ended);
        for index in ended {
            let EndedRequest { post, result, region, .. } = self.slots.settle(index);
            let broken = matches!(result, Err(Failure::Broken(_)));
            let lost = || self.failed[post.peer].is_some() && self.has_lost(post.device, post.peer);
            if matched && post.purpose.receives() && broken && !lost() {
                std::mem::forget(region);
            }
        }
        for Lost { peer, status, .. } in self.queue.take_failures() {
            self.failed[peer].get_or_insert(status);
        }
    }

    fn has_lost(&self, device: usize, peer: Rank) -> bool {
        let endpoint = self.devices[device].endpoints[peer].as_deref();
        endpoint.is_some_and(|endpoint| endpoint.failure() != UCS_OK)
    }

    fn destroy(&mut self) {
        self.devices.clear();
        self.slots.forget_all();
    }
}

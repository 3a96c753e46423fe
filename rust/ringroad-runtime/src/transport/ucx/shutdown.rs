//! How a transport ends: gently, or by force; never with memory freed that a peer may still write.

use std::time::{Duration, Instant};

use ucx_sys::{ucs_ptr_is_ptr, ucs_status_ptr_t, UCS_INPROGRESS};

use super::requests::{Ended, Purpose};
use super::UcxTransport;
use crate::transport::Failure;

/// What dropping a transport may take.
pub(super) const DROP_TIME: Duration = Duration::from_millis(500);

/// Rounds of progress before the processor is left to others, who may be the peers.
const BUSY_ROUNDS: u32 = 200;
const PAUSE: Duration = Duration::from_micros(100);

impl UcxTransport {
    pub(super) fn end_by_force(&mut self, deadline: Instant) {
        self.cancel_receives();
        let mut pending = self.close_endpoints(true);
        self.finish(&mut pending, deadline);
        self.destroy();
    }

    pub(super) fn end_gently(&mut self, deadline: Instant) {
        self.cancel_receives();
        let now = Instant::now();
        let mut pending: Vec<_> =
            self.devices.iter().flat_map(|d| d.endpoints.iter().flatten()).map(|e| e.flush()).collect();
        let flushed = self.finish(&mut pending, now + deadline.saturating_duration_since(now) / 2);
        // What is still being flushed then is ended by the force.
        pending.extend(self.close_endpoints(!flushed));
        self.finish(&mut pending, deadline);
        self.destroy();
    }

    /// Receives that have found no message end here, before any force is used; nobody writes their memory.
    fn cancel_receives(&mut self) {
        let devices = &self.devices;
        self.slots.cancel_receives(|device| devices[device].worker);
        self.discard(false);
    }

    fn close_endpoints(&self, force: bool) -> Vec<ucs_status_ptr_t> {
        self.devices.iter().flat_map(|d| d.endpoints.iter().flatten()).map(|e| e.close(force)).collect()
    }

    /// Progress until nothing is in flight, neither `pending` nor posted requests. Whether that was before `deadline`.
    fn finish(&mut self, pending: &mut Vec<ucs_status_ptr_t>, deadline: Instant) -> bool {
        let ucx = self.ucx;
        for round in 0.. {
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
            if pending.is_empty() && self.slots.in_use() == 0 {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            if round > BUSY_ROUNDS {
                std::thread::sleep(PAUSE);
            }
        }
        unreachable!("the rounds are endless")
    }

    /// Settles requests that have ended, without events. A receive that had found its message (`matched`) and was
    /// broken off while its peer lives leaks its memory: over CMA the peer may be writing it, and UCX cannot stop that.
    fn discard(&mut self, matched: bool) {
        let mut ended = Vec::new();
        self.queue.take_completed(&mut ended);
        for index in ended {
            let Ended { post, result, region } = self.slots.settle(index);
            let receives = matches!(post.purpose, Purpose::Receive | Purpose::NoticeIn);
            let broken = matches!(result, Err(Failure::Broken(_)));
            if matched && receives && broken && !self.failed[post.peer] {
                std::mem::forget(region);
            }
        }
        for (peer, _) in self.queue.take_failures() {
            self.failed[peer] = true;
        }
    }

    fn destroy(&mut self) {
        self.devices.clear();
        self.slots.forget_all();
    }
}

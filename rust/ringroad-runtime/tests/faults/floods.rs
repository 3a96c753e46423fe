//! Many calls that end one after the other.

use std::collections::VecDeque;

use ringroad_runtime::transport::in_process::InProcess;
use ringroad_runtime::transport::{Event, Posted, RequestId, Transport, TransportError};
use ringroad_runtime::{Communicator, DType, Memory, Operation, Request, Work};
use ringroad_testing::wrapper::{Body, Post, Wrapped, Wrapper};

use crate::common::{boxed, config, patient, watch};

/// So many that the stack does not suffice if each is ended within the end of the one before it.
const CALLS: usize = if cfg!(miri) { 50 } else { 20_000 };

/// A transport whose receives end once all are posted: one whenever somebody looks, as if messages came as fast as they
/// are taken.
struct Flood {
    inner: InProcess,
    posted: usize,
    receives: VecDeque<RequestId>,
}

impl Wrapper for Flood {
    type Inner = InProcess;

    fn inner(&self) -> &InProcess {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut InProcess {
        &mut self.inner
    }

    fn post(&mut self, post: Post) -> Result<Posted, TransportError> {
        if !matches!(post.body, Body::Receive(_)) {
            return post.to(&mut self.inner);
        }
        self.posted += 1;
        self.receives.push_back(post.request);
        Ok(Posted::Pending)
    }

    fn progress(&mut self, events: &mut Vec<Event>) -> bool {
        self.inspect(None, events);
        !events.is_empty()
    }

    fn inspect(&mut self, next: Option<u32>, events: &mut Vec<Event>) {
        self.inner.inspect(next, events);
        if self.posted == CALLS {
            let completed = |request| Event::Completed { request, result: Ok(()) };
            events.extend(self.receives.pop_front().map(completed));
        }
    }
}

#[test]
fn calls_may_end_faster_than_they_are_handled() {
    let _watchdog = watch();
    let flood = |inner| Wrapped(Flood { inner, posted: 0, receives: VecDeque::new() });
    let group = Communicator::over(boxed(InProcess::group(2).into_iter().map(flood)), &config(), &patient());
    let group = group.unwrap();
    let receive = |tag| {
        let operation = Operation::Receive { peer: 1, tag };
        let request = Request::new(operation, DType::U8, 1, Memory::nothing(), Memory::zeroed(1));
        group[0].start(request).unwrap()
    };
    let works: Vec<Work> = (0..CALLS as u32).map(receive).collect();
    works.iter().for_each(|work| work.wait().unwrap());
}

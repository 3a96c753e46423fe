//! What a communicator says when somebody asks how its job stands.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use ringroad_core::discovery::Mismatch;
use ringroad_core::{Rank, Topology};
use serde::Serialize;
use serde_json::Value;

use super::Communicator;
use crate::adaptation::{Adaptation, NetworkChange, Present, Straggle};
use crate::bootstrap::{EndpointInfo, Handle, Inquiry, Reporter};
use crate::choice::choices::NetworkOrigin;
use crate::engine::progress::Driver;
use crate::engine::RankStanding;
use crate::os::fork::ProcessOwned;
use crate::os::liveness::state_of;
use crate::transport::CountedConnection;

/// How long threads that drive the engine may keep it.
const BUSY: Duration = Duration::from_millis(400);

/// The network as the ranks see it.
#[derive(Debug, Clone, Serialize)]
pub struct NetworkView {
    /// As it is now.
    pub topology: Topology,
    /// Where it comes from.
    pub origin: NetworkOrigin,
    /// Whether the ranks look after it.
    pub watched: bool,
    /// How the network that the user has named differs from the one that the ranks have found.
    pub mismatch: Option<Mismatch>,
    /// What has changed so far.
    pub changes: Vec<NetworkChange>,
    /// Which ranks were the reason that calls took longer, not the network.
    pub stragglers: Vec<Straggle>,
    /// The connections to other hosts, if they are of our own.
    pub connections: Vec<CountedConnection>,
}

impl Communicator {
    /// The network as the ranks see it now.
    pub fn network(&self) -> NetworkView {
        let Present { choices, changes, stragglers } = self.known();
        NetworkView {
            topology: choices.topology.clone(),
            origin: choices.origin,
            watched: self.adaptation.is_some(),
            mismatch: choices.mismatch.clone(),
            changes,
            stragglers,
            connections: self
                .driver
                .get()
                .map(|driver| driver.with(|engine| engine.transport().connections()))
                .unwrap_or_default(),
        }
    }
}

/// What is needed to answer. It keeps nothing alive.
pub(super) struct Reporting {
    pub name: String,
    pub rank: Rank,
    pub endpoints: Arc<Vec<EndpointInfo>>,
    pub secret: Option<String>,
    pub driver: ProcessOwned<Weak<Driver>>,
    pub adaptation: OnceLock<Weak<dyn Adaptation>>,
}

/// One rank's part in a communicator.
#[derive(Serialize)]
struct RankStatus<'a> {
    name: &'a str,
    /// The same on all its ranks, and different for all other communicators.
    group: String,
    rank: Rank,
    size: usize,
    members: Vec<MemberProcess<'a>>,
    /// What the kernel says of ranks of this host that are stopped (`T`, `t`) or have ended (`X`).
    halted: Vec<(Rank, char)>,
    /// How many threads wait for a call.
    waiting: usize,
    /// `None` if threads have kept the engine for too long.
    standing: Option<RankStanding>,
    changes: Vec<NetworkChange>,
    stragglers: Vec<Straggle>,
}

#[derive(Serialize)]
struct MemberProcess<'a> {
    host: &'a str,
    pid: u32,
    handle: &'a Option<Handle>,
}

impl Reporter for Reporting {
    fn secret(&self) -> Option<&str> {
        self.secret.as_deref()
    }

    fn report(&self, inquiry: Inquiry) -> Option<Value> {
        let driver = self.driver.get().ok()?.upgrade()?;
        let own = self.endpoints[self.rank].process();
        let halted = self.endpoints.iter().filter_map(|endpoint| {
            let state = state_of(own, endpoint.process())?;
            "TtX".contains(state).then_some((endpoint.rank, state))
        });
        let present = self.adaptation.get().and_then(Weak::upgrade).map(|adaptation| adaptation.present());
        let (changes, stragglers) =
            present.map(|present| (present.changes, present.stragglers)).unwrap_or_default();
        let part = RankStatus {
            name: &self.name,
            group: format!("{:016x}", self.endpoints[0].instance),
            rank: self.rank,
            size: self.endpoints.len(),
            members: self
                .endpoints
                .iter()
                .filter(|_| inquiry.members)
                .map(|one| MemberProcess { host: &one.host, pid: one.pid, handle: &one.handle })
                .collect(),
            halted: halted.collect(),
            waiting: driver.waiting(),
            standing: driver.peek(BUSY, |engine| engine.standing()),
            changes,
            stragglers,
        };
        Some(serde_json::to_value(part).expect("JSON can express this"))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use ringroad_core::Collective;

    use super::*;
    use crate::bootstrap::Report;
    use crate::calls::call::Operation;
    use crate::calls::request::Request;
    use crate::choice::options::Options;
    use crate::config::Config;
    use crate::kernels::dtype::DType;
    use crate::transport::buffer::Memory;

    fn told(secret: Option<&str>) -> Vec<Value> {
        let report = Report::make(secret, Inquiry { members: true, stacks: false }).to_json();
        let mut report: Value = serde_json::from_slice(&report).unwrap();
        let parts = report["communicators"].take();
        parts.as_array().unwrap().iter().filter(|part| part["name"] == "asked").cloned().collect()
    }

    /// What is asked while a rank waits names the call and who is missing; only who knows the secret learns of it.
    #[test]
    fn a_rank_that_waits_says_for_whom() {
        let config = Config::from_arguments([("RINGROAD_SECRET".to_owned(), "word".to_owned())]).unwrap();
        let options = Options { name: "asked".to_owned(), ..Options::default() };
        let group = Communicator::in_process(2, &config, &options).unwrap();
        let call = || {
            let operation = Operation::Collective(Collective::Allreduce);
            Request::new(
                operation,
                DType::F32,
                5,
                Memory::from_slice(&[1f32; 5]),
                Memory::from_slice(&[0f32; 5]),
            )
        };
        group[0].start(call()).unwrap();
        let parts = told(Some("word"));
        assert_eq!(parts.len(), 2, "{parts:?}");
        let standing = &parts[0]["standing"];
        assert_eq!((&standing["called"], &standing["ended"]), (&1.into(), &0.into()), "{standing}");
        let waiting = &standing["calls"][0];
        assert_eq!((&waiting["kind"], &waiting["elements"]), (&"allreduce".into(), &5.into()), "{waiting}");
        assert_eq!(waiting["waits_for"][0], 1, "{waiting}");
        assert_eq!(
            (&parts[1]["standing"]["called"], parts[1]["members"].as_array().unwrap().len()),
            (&0.into(), 2)
        );
        assert_eq!(told(None).len() + told(Some("other")).len(), 0);
        group[1].start(call()).unwrap().wait().unwrap();
        let parts = told(Some("word"));
        let same = |part: &Value| part["standing"]["recent"][0]["digest"].clone();
        assert_eq!(same(&parts[0]), same(&parts[1]), "both have made the same call");
        drop(group);
        assert!(told(Some("word")).is_empty(), "they are gone");
    }
}

//! What the network of a communicator is, found out anew.

use std::time::Duration;

use ringroad_core::discovery::{Evidence, FoundNetwork};
use ringroad_core::Collective;
use serde::{Deserialize, Serialize};

use super::patience::{GoOn, Patience};
use super::Communicator;
use crate::calls::call::Operation;
use crate::calls::request::Request;
use crate::error::{Error, Result};
use crate::kernels::dtype::DType;
use crate::network::{self, DiscoveryLimits, Exchange};
use crate::transport::buffer::Memory;

/// What the ranks have found out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Discovered {
    /// The network.
    pub found: FoundNetwork,
    /// What it follows from.
    pub evidence: Evidence,
}

impl Communicator {
    /// Finds out how the ranks' hosts are connected, in about `budget`. Ranks of one host have nothing to find out. All
    /// ranks call this, like a collective, and get the same result.
    pub fn discover(&self, budget: Duration, timeout: Option<Duration>, go_on: &GoOn) -> Result<Discovered> {
        let patience = Patience::new(timeout.unwrap_or(self.timeout) + budget, go_on);
        let mut calls = AllgatherExchange { communicator: self, patience, internal: false };
        let ports = self.means.as_ref().and_then(|means| means.config.tcp_ports);
        let limits = DiscoveryLimits { budget, ports, memory: None, rounds: usize::MAX, probes: None };
        let evidence = network::gather(&mut calls, &self.endpoints, self.rank, &limits)?.evidence;
        let found = (self.rank == 0).then(|| network::found(&evidence));
        let text = found.map(|found| serde_json::to_vec(&found).expect("numbers and text can be written"));
        let all = calls.collect("found", &text.unwrap_or_default(), usize::MAX)?;
        let found: std::result::Result<FoundNetwork, String> = serde_json::from_slice(&all[0])
            .map_err(|error| Error::Topology(format!("what rank 0 has found cannot be read: {error}")))?;
        Ok(Discovered { found: found.map_err(Error::Topology)?, evidence })
    }
}

/// Ranks tell each other what they find by allgathers.
pub(super) struct AllgatherExchange<'a> {
    pub communicator: &'a Communicator,
    pub patience: Patience<'a>,
    /// Whether the user has not asked for them.
    pub internal: bool,
}

impl AllgatherExchange<'_> {
    fn allgather(&self, dtype: DType, elements: usize, own: Memory) -> Result<Memory> {
        let output = Memory::zeroed(elements * dtype.size() * self.communicator.size());
        let operation = Operation::Collective(Collective::Allgather);
        let mut request = Request::new(operation, dtype, elements, own, output);
        request.key.internal = self.internal;
        self.communicator.run_patiently(request, self.patience)
    }
}

impl Exchange for AllgatherExchange<'_> {
    fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>> {
        let lengths = self.allgather(DType::I64, 1, Memory::of_slice(&[value.len() as i64]))?.to_vec::<i64>();
        let lengths: Vec<usize> = lengths.into_iter().map(|length| length.max(0) as usize).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest > most {
            return Err(Error::Topology(format!(
                "a rank says {longest} bytes about {kind}; {most} would do"
            )));
        }
        if longest == 0 {
            return Ok(vec![Vec::new(); lengths.len()]);
        }
        let mut padded = value.to_vec();
        padded.resize(longest, 0);
        let all = self.allgather(DType::U8, longest, Memory::of_slice(&padded))?.to_vec::<u8>();
        Ok(all.chunks(longest).zip(lengths).map(|(chunk, length)| chunk[..length].to_vec()).collect())
    }
}

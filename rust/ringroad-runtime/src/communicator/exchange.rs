//! Ranks tell each other what they find by calls.

use ringroad_core::Collective;

use super::{Communicator, Patience};
use crate::bootstrap::Exchange;
use crate::calls::call::Operation;
use crate::calls::request::Request;
use crate::error::{Error, Result};
use crate::kernels::dtype::DType;
use crate::transport::buffer::Memory;

/// Tells by allgathers and broadcasts.
pub(crate) struct CallExchange<'a> {
    pub communicator: &'a Communicator,
    pub patience: Patience<'a>,
    /// Whether the user has not asked for them.
    pub internal: bool,
}

impl CallExchange<'_> {
    pub fn call(&self, collective: Collective, dtype: DType, elements: usize, own: Memory) -> Result<Memory> {
        let blocks = if collective == Collective::Allgather { self.communicator.size() } else { 1 };
        let output = Memory::zeroed(elements * dtype.size() * blocks);
        let mut request = Request::new(Operation::Collective(collective), dtype, elements, own, output);
        request.key.internal = self.internal;
        self.communicator.run_patiently(request, self.patience)
    }
}

impl Exchange for CallExchange<'_> {
    fn collect(&mut self, kind: &str, value: &[u8], most: usize) -> Result<Vec<Vec<u8>>> {
        let length = Memory::from_slice(&[value.len() as i64]);
        let lengths = self.call(Collective::Allgather, DType::I64, 1, length)?.to_vec::<i64>();
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
        let all = self.call(Collective::Allgather, DType::U8, longest, Memory::from_slice(&padded))?;
        let all = all.to_vec::<u8>();
        Ok(all.chunks(longest).zip(lengths).map(|(chunk, length)| chunk[..length].to_vec()).collect())
    }

    fn share(&mut self, _kind: &str, value: Option<Vec<u8>>) -> Result<Vec<u8>> {
        let broadcast = |dtype: DType, elements: usize, value: Option<Memory>| {
            let own = value.unwrap_or_else(Memory::nothing);
            self.call(Collective::Broadcast { root: 0 }, dtype, elements, own)
        };
        let length = value.as_ref().map(|value| Memory::from_slice(&[value.len() as i64]));
        let length = broadcast(DType::I64, 1, length)?.to_vec::<i64>()[0].max(0) as usize;
        Ok(broadcast(DType::U8, length, value.map(|value| Memory::from_slice(&value)))?.to_vec())
    }
}

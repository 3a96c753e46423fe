//! The serialised form of a table: how many hops each path has, by source, then by target, and the links of all paths
//! in this order.

use serde::{Deserialize, Serialize};

use super::{RoutingTable, MAX_HOPS};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredTable {
    ranks: usize,
    hops: Vec<u32>,
    links: Vec<u32>,
    /// The channel of each hop; empty where all hops use channel 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    channels: Vec<u8>,
}

/// Numbers of hops, links and channels that do not fit each other.
#[derive(Debug, thiserror::Error)]
#[error(
    "a table of routes for {ranks} ranks needs {ranks} times {ranks} numbers of hops, as many links as their sum, and \
     no channels or one for each link; this one has {pairs} numbers of hops with the sum {hops}, {links} links and \
     {channels} channels"
)]
pub(super) struct Uneven {
    ranks: usize,
    pairs: usize,
    hops: u64,
    links: usize,
    channels: usize,
}

impl From<RoutingTable> for StoredTable {
    fn from(table: RoutingTable) -> StoredTable {
        let RoutingTable { ranks, starts, links, channels } = table;
        let hops = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        StoredTable { ranks, hops, links, channels }
    }
}

impl TryFrom<StoredTable> for RoutingTable {
    type Error = Uneven;

    fn try_from(stored: StoredTable) -> Result<RoutingTable, Uneven> {
        let StoredTable { ranks, hops, links, channels } = stored;
        let sum: u64 = hops.iter().map(|hops| u64::from(*hops)).sum();
        let square = ranks.checked_mul(ranks) == Some(hops.len());
        let even = sum == links.len() as u64 && links.len() <= MAX_HOPS;
        if !square || !even || !(channels.is_empty() || channels.len() == links.len()) {
            let (pairs, links, channels) = (hops.len(), links.len(), channels.len());
            return Err(Uneven { ranks, pairs, hops: sum, links, channels });
        }
        let mut end = 0;
        let ends = hops.into_iter().map(|hops| {
            end += hops;
            end
        });
        let starts = [0].into_iter().chain(ends).collect();
        Ok(RoutingTable { ranks, starts, links, channels })
    }
}

//! The best networks for a collective: the networks of several numbers of links, with their times.

use ringroad_core::collective::Collective;
use ringroad_core::synthesis::Ratio;
use ringroad_core::topology::moore_steps;
use ringroad_core::units::{Bytes, Seconds};
use serde::Serialize;

use super::{find, least_bandwidth, FindError, Found};

/// Which networks are wanted, and what they are for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The number of ranks.
    pub ranks: usize,
    /// The numbers of links out of each rank.
    pub degrees: Vec<usize>,
    /// Whether every link must have a reverse link.
    pub bidirectional: bool,
    /// The collective: an allreduce, an allgather or a reduce-scatter.
    pub collective: Collective,
    /// The time to start a step.
    pub alpha: Seconds,
    /// The length of the vector.
    pub bytes: Bytes,
    /// Bytes per second of all links of a rank together.
    pub bandwidth: f64,
}

/// A network with the time of the collective.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrontierNetwork {
    /// [`Found::spec`].
    pub spec: String,
    /// [`Found::ranks`].
    pub ranks: usize,
    /// [`Found::degree`].
    pub degree: usize,
    /// [`Found::regular`].
    pub regular: bool,
    /// [`Found::undirected`].
    pub bidirectional: bool,
    /// The number of cables, with a link in each direction: half the number of links, dropped ones included.
    pub cables: f64,
    /// [`Found::algorithm`].
    pub algorithm: &'static str,
    /// The steps of the collective.
    pub steps: usize,
    /// The time for the bytes, in units of the time that a rank takes to send the whole vector over all its links.
    pub bandwidth_term: Ratio,
    /// The time of the collective.
    pub seconds: Seconds,
}

/// The networks of which no other one has both fewer steps and a smaller bandwidth term, and what no network can beat.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// The collective.
    pub collective: &'static str,
    /// [`Wanted::alpha`].
    pub alpha: Seconds,
    /// [`Wanted::bytes`].
    pub bytes: Bytes,
    /// [`Wanted::bandwidth`].
    pub bandwidth: f64,
    /// The networks, the fewest steps first.
    pub networks: Vec<FrontierNetwork>,
    /// The one that takes the least time.
    pub best: FrontierNetwork,
    /// A lower bound of the steps: the Moore bound for this number of links out of each rank.
    pub least_steps: usize,
    /// A lower bound of the bandwidth term.
    pub least_bandwidth_term: Ratio,
    /// The time at both lower bounds.
    pub least_seconds: Seconds,
}

impl Wanted {
    /// The best networks. An error if there are none for any number of links.
    pub fn search(&self) -> Result<Findings, FindError> {
        let phases = match self.collective {
            Collective::Allreduce => 2,
            Collective::Allgather | Collective::ReduceScatter => 1,
            other => return Err(FindError::Collective(other.name())),
        };
        let (mut found, mut refused) = (Vec::new(), FindError::Size { ranks: self.ranks, degree: 0 });
        for degree in &self.degrees {
            match find(self.ranks, *degree, self.bidirectional) {
                Ok(networks) => found.extend(networks),
                Err(error) => refused = error,
            }
        }
        let networks = frontier(found.into_iter().map(|found| self.timed(found)).collect());
        let faster = |a: &&FrontierNetwork, b: &&FrontierNetwork| {
            a.seconds.total_cmp(&b.seconds).then(a.degree.cmp(&b.degree))
        };
        let best = networks.iter().min_by(faster).ok_or(refused)?.clone();
        let reached = self
            .degrees
            .iter()
            .filter_map(|degree| moore_steps(self.ranks, *degree, self.bidirectional))
            .min();
        let least_steps = reached.unwrap_or(0).saturating_mul(phases);
        let least_bandwidth_term = Ratio::new(phases as u64, 1u64) * least_bandwidth(self.ranks);
        Ok(Findings {
            collective: self.collective.name(),
            alpha: self.alpha,
            bytes: self.bytes,
            bandwidth: self.bandwidth,
            networks,
            best,
            least_steps,
            least_bandwidth_term,
            least_seconds: self.seconds(least_steps, least_bandwidth_term),
        })
    }

    fn seconds(&self, steps: usize, term: Ratio) -> Seconds {
        steps as f64 * self.alpha + term.to_f64() * self.bytes as f64 / self.bandwidth
    }

    fn timed(&self, found: Found) -> FrontierNetwork {
        let Found { spec, ranks, degree, undirected: bidirectional, regular, algorithm, cost } = found;
        let (steps, bandwidth_term) = match self.collective {
            Collective::Allreduce => (2 * cost.steps, cost.allreduce()),
            Collective::Allgather => (cost.steps, cost.allgather),
            _ => (cost.steps, cost.reduce_scatter),
        };
        let cables = (ranks * degree) as f64 / 2.0;
        let seconds = self.seconds(steps, bandwidth_term);
        FrontierNetwork {
            spec,
            ranks,
            degree,
            regular,
            bidirectional,
            cables,
            algorithm,
            steps,
            bandwidth_term,
            seconds,
        }
    }
}

/// Those of which no other one has both fewer steps and a smaller bandwidth term.
fn frontier(mut networks: Vec<FrontierNetwork>) -> Vec<FrontierNetwork> {
    networks.sort_by_key(|one| (one.steps, one.bandwidth_term, one.degree, !one.bidirectional));
    let mut kept: Vec<FrontierNetwork> = Vec::new();
    for network in networks {
        if kept.last().is_none_or(|last| network.bandwidth_term < last.bandwidth_term) {
            kept.push(network);
        }
    }
    kept
}

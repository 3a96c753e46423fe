//! The rows of the catalogue. Where an offer's cost is not plain from here, its file's head comment derives it.

use super::Requirement::{Any, PowerOfThree, PowerOfTwo};
use super::{
    binomial, halving_doubling, pairwise, recursive_doubling, ring, scatter_allgather, swing, trivance,
};
use super::{ceil_log, Algorithm, CostLine, Offer, Requirement};
use crate::collective::Collective;
use crate::schedule::Schedule;

const ALLREDUCE: Collective = Collective::Allreduce;
const REDUCE_SCATTER: Collective = Collective::ReduceScatter;
const ALLGATHER: Collective = Collective::Allgather;
const BROADCAST: Collective = Collective::Broadcast { root: 0 };
const REDUCE: Collective = Collective::Reduce { root: 0 };
const GATHER: Collective = Collective::Gather { root: 0 };
const SCATTER: Collective = Collective::Scatter { root: 0 };
const ALLTOALL: Collective = Collective::Alltoall;

const MPICH: &str = "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005";
const SWING: &str =
    "De Sensi, Bonato, Saam, Hoefler: Swing, NSDI 2024 (arXiv 2401.09356), sections 3.1.1 and 3.2";
const SWING_LATENCY: &str =
    "De Sensi, Bonato, Saam, Hoefler: Swing, NSDI 2024 (arXiv 2401.09356), section 3.1.2";
const TRIVANCE: &str = "Juerss, Addanki, Schmid: Trivance (arXiv 2602.17254), lemma 1 and figure 4";
const RING: &str =
    "Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69(2), 2009";
const RABENSEIFNER: &str = "Rabenseifner: Optimization of collective reduction operations, ICCS 2004";
const INTERCOM: &str =
    "Barnett et al.: Interprocessor collective communication library (InterCom), SHPCC 1994; for reduce Rabenseifner, ICCS 2004";

type Construct = fn(&str, usize, Collective) -> Schedule;

const fn offer(
    collective: Collective,
    requirement: Requirement,
    construct: Construct,
    cost: fn(usize) -> CostLine,
) -> Offer {
    Offer { collective, requirement, construct, cost }
}

pub(super) static CATALOGUE: &[Algorithm] = &[
    Algorithm {
        name: "ring",
        summary: "every block travels once around the ring, from neighbour to neighbour",
        source: RING,
        ports: 1,
        consistent: always,
        offers: &[
            offer(ALLREDUCE, Any, ring::unidirectional, |n| twice(all_but_own(n - 1, n))),
            offer(REDUCE_SCATTER, Any, ring::unidirectional, |n| all_but_own(n - 1, n)),
            offer(ALLGATHER, Any, ring::unidirectional, |n| all_but_own(n - 1, n)),
        ],
    },
    Algorithm {
        name: "bidirectional-ring",
        summary: "a ring in each direction, with half of the vector each",
        source: RING,
        ports: 2,
        consistent: always,
        offers: &[
            offer(ALLREDUCE, Any, ring::bidirectional, |n| twice(all_but_own(n - 1, n))),
            offer(REDUCE_SCATTER, Any, ring::bidirectional, |n| all_but_own(n - 1, n)),
            offer(ALLGATHER, Any, ring::bidirectional, |n| all_but_own(n - 1, n)),
        ],
    },
    Algorithm {
        name: "recursive-doubling",
        summary: "partners exchange whole vectors, at twice the distance in every step",
        source: MPICH,
        ports: 1,
        consistent: always,
        offers: &[offer(ALLREDUCE, Any, recursive_doubling::schedule, |n| {
            folded(n, |core| vectors(ceil_log(2, core), 1))
        })],
    },
    Algorithm {
        name: "halving-doubling",
        summary: "partners exchange half of what they hold, at twice the distance in every step, and then backwards",
        source: RABENSEIFNER,
        ports: 1,
        consistent: always,
        offers: &[
            offer(ALLREDUCE, Any, halving_doubling::schedule, |n| {
                folded(n, |core| twice(all_but_own(ceil_log(2, core), core)))
            }),
            offer(REDUCE_SCATTER, PowerOfTwo, halving_doubling::schedule, |n| all_but_own(ceil_log(2, n), n)),
            offer(ALLGATHER, PowerOfTwo, halving_doubling::schedule, |n| all_but_own(ceil_log(2, n), n)),
        ],
    },
    Algorithm {
        name: "swing",
        summary: "halving and doubling with partners on alternating sides, a third as far; a mirror image for each half",
        source: SWING,
        ports: 2,
        consistent: always,
        offers: &[
            offer(ALLREDUCE, Any, swing::bandwidth, |n| twice(all_but_own(ceil_log(2, n - n % 2), n))),
            offer(REDUCE_SCATTER, Any, swing::bandwidth, |n| all_but_own(ceil_log(2, n - n % 2), n)),
            offer(ALLGATHER, Any, swing::bandwidth, |n| all_but_own(ceil_log(2, n - n % 2), n)),
        ],
    },
    Algorithm {
        name: "swing-latency",
        summary: "partners on alternating sides exchange whole vectors",
        source: SWING_LATENCY,
        ports: 1,
        consistent: |n| n <= 4,
        offers: &[offer(ALLREDUCE, PowerOfTwo, swing::latency, |n| vectors(ceil_log(2, n), 1))],
    },
    Algorithm {
        name: "trivance",
        summary: "exchanges with both sides at once, at three times the distance in every step, and then backwards",
        source: TRIVANCE,
        ports: 2,
        consistent: always,
        offers: &[
            offer(ALLREDUCE, Any, trivance::bandwidth, |n| twice(all_but_own(ceil_log(3, n), n))),
            offer(REDUCE_SCATTER, Any, trivance::bandwidth, |n| all_but_own(ceil_log(3, n), n)),
            offer(ALLGATHER, Any, trivance::bandwidth, |n| all_but_own(ceil_log(3, n), n)),
        ],
    },
    Algorithm {
        name: "trivance-latency",
        summary: "exchanges whole vectors with both sides at once, at three times the distance in every step",
        source: TRIVANCE,
        ports: 2,
        consistent: |n| n == 1,
        offers: &[offer(ALLREDUCE, PowerOfThree, trivance::latency, |n| vectors(ceil_log(3, n), 2))],
    },
    Algorithm {
        name: "binomial",
        summary: "everybody who has the data passes it on, at half the distance in every step; or backwards",
        source: MPICH,
        ports: 1,
        consistent: always,
        offers: &[
            offer(BROADCAST, Any, binomial::schedule, |n| vectors(ceil_log(2, n), 1)),
            offer(REDUCE, Any, binomial::schedule, |n| CostLine {
                steps: ceil_log(2, n),
                sent: n.min(2) as f64 - 1.0,
            }),
            offer(GATHER, Any, binomial::schedule, gather),
            offer(SCATTER, Any, binomial::schedule, |n| all_but_own(ceil_log(2, n), n)),
        ],
    },
    Algorithm {
        name: "scatter-allgather",
        summary: "the root deals blocks out along a binomial tree, then they go around a ring; or backwards",
        source: INTERCOM,
        ports: 1,
        consistent: always,
        offers: &[
            offer(BROADCAST, Any, scatter_allgather::schedule, |n| {
                then(all_but_own(ceil_log(2, n), n), all_but_own(n - 1, n))
            }),
            offer(REDUCE, Any, scatter_allgather::schedule, |n| then(all_but_own(n - 1, n), gather(n))),
        ],
    },
    Algorithm {
        name: "pairwise",
        summary: "every rank sends straight to the next rank, then to the one after it, and so on",
        source: MPICH,
        ports: 1,
        consistent: always,
        offers: &[offer(ALLTOALL, Any, pairwise::schedule, |n| all_but_own(n - 1, n))],
    },
];

fn always(_: usize) -> bool {
    true
}

/// Every block but one's own is sent once.
fn all_but_own(steps: usize, ranks: usize) -> CostLine {
    CostLine { steps, sent: (ranks - 1) as f64 / ranks as f64 }
}

/// In every step this many whole vectors.
fn vectors(steps: usize, per_step: usize) -> CostLine {
    CostLine { steps, sent: (steps * per_step) as f64 }
}

fn then(first: CostLine, second: CostLine) -> CostLine {
    CostLine { steps: first.steps + second.steps, sent: first.sent + second.sent }
}

fn twice(phase: CostLine) -> CostLine {
    then(phase, phase)
}

/// An allreduce over the power of two below `ranks`, whose ranks return the result to those that are left over.
fn folded(ranks: usize, core: fn(usize) -> CostLine) -> CostLine {
    let power = 1 << ranks.ilog2();
    if power == ranks {
        core(power)
    } else {
        then(core(power), CostLine { steps: 2, sent: 1.0 })
    }
}

/// Binomial: busiest is the root's farthest or second farthest child, with the whole of its subtree.
fn gather(ranks: usize) -> CostLine {
    let steps = ceil_log(2, ranks);
    let blocks = match steps {
        0 => 0,
        1 => 1,
        _ => (ranks - (1 << (steps - 1))).max(1 << (steps - 2)),
    };
    CostLine { steps, sent: blocks as f64 / ranks as f64 }
}

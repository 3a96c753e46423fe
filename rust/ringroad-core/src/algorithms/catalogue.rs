//! The rows of the catalogue. Where an offer's cost is not plain from here, its file's head comment derives it.

use super::{
    bfb, binomial, bruck, bruck_alltoall, bucket, butterfly, direct, direct_ordered, distances, double_tree,
    flow, gather_sum, generalized, halving_doubling, hamiltonian, hierarchical, hybrid, leaders, nested,
    pairwise, recursive_doubling, ring, scatter_allgather, swing, trees, trivance,
};
use super::{ceil_log, Algorithm, Construct, CostLine, Offer, Parameter, Ports, Request, Requirement, Shape};
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
    "De Sensi, Bonato, Saam, Hoefler: Swing, NSDI 2024 (arXiv 2401.09356), sections 3.1.1, 3.2 and 4";
const SWING_LATENCY: &str =
    "De Sensi, Bonato, Saam, Hoefler: Swing, NSDI 2024 (arXiv 2401.09356), section 3.1.2";
const TRIVANCE: &str = "Juerss, Addanki, Schmid: Trivance (arXiv 2602.17254), lemma 1 and figures 4 and 5";
const KOLMAKOV: &str =
    "Kolmakov, Zhang: A generalization of the allreduce operation (arXiv 2004.09362), sections 7 to 9";
const BRUCK: &str =
    "Bruck, Ho: Efficient global combine operations in multi-port message-passing systems, PPL 3(4), 1993";
const HYBRID: &str = "Trivance (arXiv 2602.17254) with the dial of Kolmakov, Zhang: A generalization of the allreduce operation (arXiv 2004.09362)";
const NESTED: &str = "Trivance (arXiv 2602.17254), figure 4, with other distances";
const BFB: &str = "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356), appendix E.1";
const BREADTH_FIRST: &str = "Zhao et al.: Efficient direct-connect topologies for collective communications (arXiv 2202.03356), section 5; without linear programs";
const FOREST: &str =
    "Edmonds: Edge-disjoint branchings, 1973; switches as in Zhao et al.: ForestColl (arXiv 2402.06787)";
const WEIGHTED: &str = "ours, with packings as in Zhao et al.: ForestColl (arXiv 2402.06787)";
const SPANNING: &str = "ours; the bound is Tutte's and Nash-Williams's, J. London Math. Soc. 36, 1961";
const BASU: &str = "Basu et al.: Efficient all-to-all collective communication schedules for direct-connect topologies, HPDC 2024; without linear programs";
const RING: &str =
    "Patarasuk, Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations, JPDC 69(2), 2009";
const RABENSEIFNER: &str = "Rabenseifner: Optimization of collective reduction operations, ICCS 2004; on tori Sack, Gropp: Faster topology-aware collective algorithms through non-minimal communication, PPoPP 2012; for other numbers than powers of two Rabenseifner, Traff: More efficient reduction algorithms for non-power-of-two number of processors, EuroPVM/MPI 2004";
const MPICH_MIRRORED: &str = "Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005; mirrored as in Swing, NSDI 2024 (arXiv 2401.09356)";
const SACK_GROPP: &str =
    "Sack, Gropp: Faster topology-aware collective algorithms through non-minimal communication, PPoPP 2012; mirrored as in Swing, NSDI 2024 (arXiv 2401.09356)";
const ALIGNED: &str = "Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE TPDS 8(11), 1997; aligned groups are ours";
const DIRECT: &str = "Bruck, Ho, Kipnis, Upfal, Weathersby: Efficient algorithms for all-to-all communications in multiport message-passing systems, IEEE TPDS 8(11), 1997";
const LINEAR: &str = "the linear reduce and broadcast of the first MPI libraries, with several roots";
const GATHER_SUM: &str = "ours, along an allgather as in Juerss, Addanki, Schmid: Trivance (arXiv 2602.17254), figure 4, with other distances";
const BUCKET: &str =
    "Jain, Sabharwal: Optimal bucket algorithms for large MPI collectives on torus interconnects, ICS 2010";
const TWO_TREES: &str = "Sanders, Speck, Traff: Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35(12), 2009";
const INTERCOM: &str =
    "Barnett et al.: Interprocessor collective communication library (InterCom), SHPCC 1994; for reduce Rabenseifner, ICCS 2004";

const HIERARCHICAL: &str =
    "Barnett et al.: Interprocessor collective communication library (InterCom), SHPCC 1994, hybrids";

const fn needs(text: &'static str, admits: fn(&Shape) -> bool) -> Requirement {
    Requirement { text, admits, fits: |_| true, made: false, worth_trying: |_| true }
}

const ANY: Requirement = needs("any number of ranks", |_| true);
const TORUS: Requirement = needs("a torus of two dimensions or more", |shape| shape.wide().len() > 1);
const CYCLES: Requirement = needs("a torus of two dimensions or more (other than 2 x odd, 2 x 2 x odd, 2 x 2 x 2, and large ones of 2 by odd sizes)", hamiltonian::exist);
const POWERS_OF_TWO: Requirement = needs("a power of two of ranks in each dimension", powers_of_two);
const TWOS_AND_THREES: Requirement = needs("no factors but two and three in each dimension", |shape| {
    shape.sizes().iter().all(|size| butterfly::factors(*size).is_some())
});
/// What is written out for all ranks and blocks must not become too long.
const MODERATE: Requirement =
    needs("at most 4096 ranks, or a power of two of them in each dimension", |shape| {
        shape.ranks() <= 4096 || powers_of_two(shape)
    });
/// Swing's ranks do not all do the same where one of an odd number is left out.
const EVEN_OR_MODERATE: Requirement =
    needs("at most 4096 ranks, or an even number of them in each dimension", |shape| {
        shape.ranks() <= 4096 || shape.sizes().iter().all(|size| *size <= 3 || size % 2 == 0)
    });
/// Nor must what is written out for all ranks and vectors.
const SMALL: Requirement = needs("at most 256 ranks in each dimension and 1024 in all", |shape| {
    shape.ranks() <= 1024 && shape.sizes().iter().all(|size| *size <= 256)
});
/// Everybody has a message for everybody.
const FEW: Requirement = needs("at most 256 ranks", |shape| shape.ranks() <= direct::MAX_RANKS);
/// Of every pair of ranks there is a block, or a message that is written out.
const PAIRS: Requirement = needs("at most 4096 ranks", |shape| shape.ranks() <= 1 << 12);
const HOSTS: Requirement = needs("several hosts of 2 to 256 ranks each, as in hosts:2x4", |shape| {
    on_hosts(shape) && shape.per_host() <= direct::MAX_RANKS
});
const SMALL_HOSTS: Requirement =
    needs("several hosts of 2 to 64 ranks each, as in hosts:2x4, and at most 1024 ranks in all", |shape| {
        on_hosts(shape) && shape.per_host() <= 64 && shape.ranks() <= 1024
    });
const POWERS_OF_TWO_OR_THRICE: Requirement = needs("2^k or 3 * 2^k ranks in each dimension", |shape| {
    shape.sizes().iter().all(|size| matches!(size >> size.trailing_zeros(), 1 | 3))
});

const MULTIPLES_OF_THREE: Requirement = needs("a multiple of three ranks in some dimension", |shape| {
    shape.sizes().iter().any(|size| size.is_multiple_of(3))
});

/// Where ranks are each other's neighbours.
const NEIGHBOURS: Requirement = Requirement {
    text: "links from rank to rank by which all reach each other, at most 128 to each, and at most 4096 ranks unless all look alike",
    admits: |_| true,
    fits: bfb::fits,
    made: true,
    // On whole tori `bfb-ring` does the same.
    worth_trying: |topology| !topology.is_torus(),
};

const PACKED: Requirement = Requirement {
    text: "at most 256 ranks",
    admits: |_| true,
    fits: trees::fits_all,
    made: true,
    worth_trying: trees::worth_trying_all,
};
const PACKED_FEW: Requirement = Requirement {
    text: "at most 2048 ranks",
    admits: |_| true,
    fits: trees::fits_few,
    made: true,
    worth_trying: trees::worth_trying_few,
};
const UNDIRECTED: Requirement = Requirement {
    text: "at most 2048 ranks, without switches, whose links lead both ways alike",
    admits: |_| true,
    fits: trees::fits_undirected,
    made: true,
    worth_trying: trees::worth_trying_undirected,
};

/// Where ranks pass on what others send each other.
const RELAYED: Requirement = Requirement {
    text: "links from rank to rank by which all reach each other, and at most 1024 ranks",
    admits: |_| true,
    fits: flow::fits,
    made: true,
    worth_trying: flow::worth_trying,
};

fn on_hosts(shape: &Shape) -> bool {
    shape.per_host() > 1 && shape.ranks() > shape.per_host()
}

fn powers_of_two(shape: &Shape) -> bool {
    shape.sizes().iter().all(|size| size.is_power_of_two())
}

const SAVED: Parameter = Parameter {
    name: "r",
    meaning: "how many of the 2 ceil(log2 n) steps are saved",
    values: |shape| (0..=generalized::levels(shape)).collect(),
    admits: |shape, r| r <= generalized::levels(shape),
    names: &[],
};

const NETWORK: Parameter = Parameter {
    name: "network",
    meaning: "what ranks of one number do between the hosts",
    values: |shape| worked_through(hierarchical::NETWORKS, shape),
    admits: |shape, value| worked_through(hierarchical::NETWORKS, shape).contains(&value),
    names: hierarchical::NETWORKS,
};
const WHOLE_NETWORK: Parameter = Parameter {
    values: |shape| worked_through(hierarchical::WHOLE, shape),
    admits: |shape, value| worked_through(hierarchical::WHOLE, shape).contains(&value),
    names: hierarchical::WHOLE,
    ..NETWORK
};

const PARTS: Parameter = Parameter {
    name: "p",
    meaning: "into how many parts the load of the busiest link is cut, one for each step",
    values: |shape| trees::parts(shape.ranks()),
    admits: |_, parts| (1..=1 << 14).contains(&parts),
    names: &[],
};
const ROUNDS: Parameter = Parameter {
    name: "s",
    meaning:
        "how many steps there may be, in diameters of the network: few suit short blocks, many long ones",
    values: |_| vec![1, 3],
    admits: |_, rounds| (1..=64).contains(&rounds),
    names: &[],
};
const FEW_PARTS: Parameter = Parameter { values: |_| vec![8, 64], ..PARTS };

/// The numbers of those that work between the hosts of a shape.
fn worked_through(names: &[&str], shape: &Shape) -> Vec<usize> {
    (0..names.len()).filter(|value| hierarchical::works(names[*value], shape)).collect()
}

/// An offer of the hierarchical family, made with every network that performs the collective.
macro_rules! across {
    ($collective:ident) => {
        only(
            |value| hierarchical::network(hierarchical::NETWORKS[value]).offer($collective).is_some(),
            offer($collective, HOSTS, hierarchical::schedule, hierarchical::cost),
        )
    };
}

type Make = fn(&Request<'_>) -> Schedule;
type Parts = fn(&Request<'_>) -> [Schedule; 2];
type Search = fn(&Request<'_>) -> Result<Schedule, String>;
type Cost = fn(&Request<'_>) -> CostLine;

const fn offer(collective: Collective, requirement: Requirement, make: Make, cost: Cost) -> Offer {
    let construct = Construct::Always(make, cost);
    Offer { collective, requirement, only: None, in_rank_order: false, construct }
}

/// An offer of two schedules in turn.
const fn in_turn(collective: Collective, requirement: Requirement, parts: Parts, cost: Cost) -> Offer {
    let construct = Construct::InTurn(parts, cost);
    Offer { collective, requirement, only: None, in_rank_order: false, construct }
}

/// An offer of what must be searched for.
const fn found(collective: Collective, requirement: Requirement, search: Search) -> Offer {
    let construct = Construct::Search(search);
    Offer { collective, requirement, only: None, in_rank_order: false, construct }
}

/// An offer that adds every element up in the order of the ranks.
const fn in_rank_order(offer: Offer) -> Offer {
    Offer { in_rank_order: true, ..offer }
}

/// An offer that is only made with these values of the family's parameter.
const fn only(values: fn(usize) -> bool, offer: Offer) -> Offer {
    Offer { only: Some(values), ..offer }
}

/// Reduce-scatter, allgather and, twice as long, allreduce: every block but one's own is sent once a phase.
const fn phases(requirement: Requirement, construct: Make, costs: [Cost; 2]) -> [Offer; 3] {
    let [phase, both] = costs;
    [
        offer(ALLREDUCE, requirement, construct, both),
        offer(REDUCE_SCATTER, requirement, construct, phase),
        offer(ALLGATHER, requirement, construct, phase),
    ]
}

/// The costs of a phase with so many steps, and of two.
macro_rules! optimal {
    ($steps:expr) => {
        [|r| all_but_own($steps(r.shape), r.shape), |r| twice(all_but_own($steps(r.shape), r.shape))]
    };
}

pub(super) static CATALOGUE: &[Algorithm] = &[
    Algorithm {
        name: "ring",
        summary: "every block travels once around the ring, from neighbour to neighbour",
        source: RING,
        ports: Ports::One,
        parameter: None,
        consistent: always,
        offers: &phases(ANY, ring::unidirectional, optimal!(around)),
    },
    Algorithm {
        name: "bidirectional-ring",
        summary: "a ring in each direction, with half of the vector each",
        source: RING,
        ports: Ports::Two,
        parameter: None,
        consistent: always,
        offers: &phases(ANY, ring::bidirectional, optimal!(around)),
    },
    Algorithm {
        name: "hamiltonian-rings",
        summary: "rings in both directions along cycles of the torus that share no link",
        source: RING,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &phases(CYCLES, ring::hamiltonian, optimal!(around)),
    },
    Algorithm {
        name: "bucket",
        summary: "rings of one dimension after the other, with a slice for every dimension to start in and direction",
        source: BUCKET,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &phases(TORUS, bucket::schedule, optimal!(buckets)),
    },
    Algorithm {
        name: "recursive-doubling",
        summary: "partners exchange whole vectors, at twice the distance in every step",
        source: MPICH,
        ports: Ports::One,
        parameter: None,
        consistent: always,
        offers: &[offer(ALLREDUCE, ANY, recursive_doubling::schedule, |r| {
            folded(r.shape, |core| vectors(ceil_log(2, core), 1))
        })],
    },
    Algorithm {
        name: "recursive-doubling-multiport",
        summary: "recursive doubling with slices that start in every dimension, and a mirror image of each",
        source: MPICH_MIRRORED,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &[offer(ALLREDUCE, POWERS_OF_TWO, recursive_doubling::multiport, |r| {
            vectors(logs(2, r.shape), 1)
        })],
    },
    Algorithm {
        name: "halving-doubling",
        summary: "partners exchange half of what they hold, at twice the distance in every step, and then backwards",
        source: RABENSEIFNER,
        ports: Ports::One,
        parameter: None,
        consistent: always,
        offers: &[
            offer(ALLREDUCE, ANY, halving_doubling::schedule, |r| eliminated(r.shape)),
            offer(REDUCE_SCATTER, MODERATE, halving_doubling::schedule, |r| {
                all_but_own(folded_steps(r.shape), r.shape)
            }),
            offer(ALLGATHER, MODERATE, halving_doubling::schedule, |r| folded_allgather(r.shape)),
        ],
    },
    Algorithm {
        name: "halving-doubling-multiport",
        summary: "halving and doubling with slices that start in every dimension, and a mirror image of each",
        source: SACK_GROPP,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &phases(POWERS_OF_TWO, halving_doubling::multiport, optimal!(|shape| logs(2, shape))),
    },
    Algorithm {
        name: "swing",
        summary: "halving and doubling with partners on alternating sides, a third as far; a mirror image for each half",
        source: SWING,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &phases(EVEN_OR_MODERATE, swing::bandwidth, optimal!(swings)),
    },
    Algorithm {
        name: "swing-latency",
        summary: "partners on alternating sides exchange whole vectors; a mirror image for each half",
        source: SWING_LATENCY,
        ports: Ports::All,
        parameter: None,
        consistent: |r| r.shape.sizes().iter().all(|size| [1, 2, 4].contains(size)),
        offers: &[offer(ALLREDUCE, POWERS_OF_TWO_OR_THRICE, swing::latency, |r| CostLine {
            steps: swings(r.shape),
            sent: logs(2, r.shape) as f64,
        })],
    },
    Algorithm {
        name: "trivance",
        summary: "exchanges with both sides at once, at three times the distance in every step, and then backwards",
        source: TRIVANCE,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &phases(ANY, trivance::bandwidth, optimal!(|shape| logs(3, shape))),
    },
    Algorithm {
        name: "trivance-latency",
        summary: "exchanges whole vectors with both sides at once, at three times the distance in every step",
        source: TRIVANCE,
        ports: Ports::All,
        parameter: None,
        consistent: |r| r.shape.sizes().iter().all(|size| *size <= 2),
        offers: &[offer(ALLREDUCE, ANY, trivance::latency, |r| CostLine {
            steps: logs(3, r.shape),
            sent: r.shape.sizes().iter().map(|size| trivance::vectors(*size) as f64).sum(),
        })],
    },
    Algorithm {
        name: "trivance-hybrid",
        summary: "some steps of trivance's reduce-scatter, an exchange of what is left, and the steps backwards",
        source: HYBRID,
        ports: Ports::All,
        parameter: Some(Parameter {
            name: "steps",
            meaning: "how many steps of reduce-scatter each dimension begins with",
            values: |shape| (1..=hybrid::most_steps(shape).max(1)).collect(),
            admits: |shape, steps| (1..=hybrid::most_steps(shape)).contains(&steps),
            names: &[],
        }),
        consistent: |r| {
            let blocks = hybrid::blocks(r.shape, r.parameter);
            r.shape.sizes().iter().zip(blocks.sizes()).all(|(size, blocks)| size / blocks <= 2)
        },
        offers: &[offer(ALLREDUCE, MULTIPLES_OF_THREE, hybrid::schedule, |r| {
            let blocks = hybrid::blocks(r.shape, r.parameter);
            let rings = r.shape.sizes().iter().zip(blocks.sizes()).map(|(size, blocks)| size / blocks);
            let exchange = CostLine {
                steps: logs(3, &Shape::new(rings.clone().collect())),
                sent: rings.map(trivance::vectors).sum::<usize>() as f64 / blocks.ranks() as f64,
            };
            then(twice(all_but_own(logs(3, &blocks), &blocks)), exchange)
        })],
    },
    Algorithm {
        name: "nested",
        summary: "exchanges with both sides at once, at the distances that load the links least, and then backwards",
        source: NESTED,
        ports: Ports::All,
        parameter: Some(Parameter {
            name: "extra",
            meaning: "how many steps more than the fewest each dimension takes",
            values: nested::extras,
            admits: |shape, extra| distances::members(shape.sizes()).iter().any(|member| extra <= member.0),
            names: &[],
        }),
        consistent: always,
        offers: &phases(
            ANY,
            nested::least_load,
            [
                |r| all_but_own(nested::levels(r.shape, r.parameter).iter().sum(), r.shape),
                |r| twice(all_but_own(nested::levels(r.shape, r.parameter).iter().sum(), r.shape)),
            ],
        ),
    },
    Algorithm {
        name: "bfb-ring",
        summary: "every block travels half way around the ring in each direction, from neighbour to neighbour",
        source: BFB,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &phases(ANY, nested::neighbours, optimal!(half_around)),
    },
    Algorithm {
        name: "bfb",
        summary: "every block takes shortest ways to all ranks, shared out among the links as evenly as can be: on any graph",
        source: BREADTH_FIRST,
        ports: Ports::Any,
        parameter: None,
        consistent: always,
        offers: &phases(NEIGHBOURS, bfb::schedule, [bfb::cost, bfb::cost]),
    },
    Algorithm {
        name: "generalized",
        summary: "half of what is left is sent half as far in every step, for several results at once, and then backwards",
        source: KOLMAKOV,
        ports: Ports::All,
        parameter: Some(SAVED),
        // Of a power of two every result is the same tree of cosets.
        consistent: |r| r.parameter == 0 || powers_of_two(r.shape),
        offers: &[
            offer(ALLREDUCE, ANY, generalized::cyclic, generalized::cost),
            only(|r| r == 0, offer(REDUCE_SCATTER, ANY, generalized::cyclic, |r| all_but_own(logs(2, r.shape), r.shape))),
            only(|r| r == 0, offer(ALLGATHER, ANY, generalized::cyclic, |r| all_but_own(logs(2, r.shape), r.shape))),
        ],
    },
    Algorithm {
        name: "generalized-xor",
        summary: "partners exchange half of what they hold, then all of what is left, and then backwards",
        source: KOLMAKOV,
        ports: Ports::All,
        parameter: Some(SAVED),
        consistent: always,
        offers: &[offer(ALLREDUCE, POWERS_OF_TWO, generalized::bitwise, |r| {
            let (levels, kept) = (logs(2, r.shape), (1 << r.parameter) as f64 / r.shape.ranks() as f64);
            CostLine { steps: 2 * levels - r.parameter, sent: 2.0 * (1.0 - kept) + r.parameter as f64 * kept }
        })],
    },
    Algorithm {
        name: "bruck",
        summary: "two messages to the same side, at three times the distance in every step, and then backwards",
        source: BRUCK,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &phases(ANY, bruck::bandwidth, optimal!(|shape| logs(3, shape))),
    },
    Algorithm {
        name: "bruck-latency",
        summary: "two whole vectors to the same side, at a third of the distance in every step",
        source: BRUCK,
        ports: Ports::All,
        parameter: None,
        consistent: |r| r.shape.sizes().iter().all(|size| *size <= 2),
        offers: &[offer(ALLREDUCE, ANY, bruck::latency, bruck::latency_cost)],
    },
    Algorithm {
        name: "gather-sum",
        summary: "gathers the vectors of a ring in as few steps as trivance, then adds them up in the same order everywhere",
        source: GATHER_SUM,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &[offer(ALLREDUCE, SMALL, gather_sum::schedule, |r| CostLine {
            steps: logs(3, r.shape),
            sent: r.shape.sizes().iter().map(|size| size - 1).sum::<usize>() as f64,
        })],
    },
    Algorithm {
        name: "butterfly",
        summary: "aligned groups of two or three exchange whole vectors and add them up in the same order",
        source: ALIGNED,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &[offer(ALLREDUCE, TWOS_AND_THREES, butterfly::schedule, butterflies)],
    },
    Algorithm {
        name: "binomial",
        summary: "everybody who has the data passes it on, at half the distance in every step; or backwards",
        source: MPICH,
        ports: Ports::One,
        parameter: None,
        consistent: always,
        offers: &[
            offer(BROADCAST, ANY, binomial::schedule, |r| vectors(ceil_log(2, r.shape.ranks()), 1)),
            offer(REDUCE, ANY, binomial::schedule, |r| CostLine {
                steps: ceil_log(2, r.shape.ranks()),
                sent: r.shape.ranks().min(2) as f64 - 1.0,
            }),
            offer(GATHER, ANY, binomial::schedule, gather),
            offer(SCATTER, ANY, binomial::schedule, scatter),
        ],
    },
    Algorithm {
        name: "double-binary-tree",
        summary: "two binary trees with half of the vector each; no rank has children in both, and pieces follow each other",
        source: TWO_TREES,
        ports: Ports::All,
        parameter: Some(Parameter {
            name: "k",
            meaning: "the number of pieces that each half of the vector is sent in",
            values: |shape| {
                (0..6).map(|exponent| 1 << exponent).filter(|k| *k == 1 || k * shape.ranks() <= 1 << 15).collect()
            },
            admits: |shape, k| k > 0 && k.saturating_mul(shape.ranks()) <= 1 << 18,
            names: &[],
        }),
        consistent: always,
        offers: &[
            offer(ALLREDUCE, ANY, double_tree::schedule, two_trees),
            offer(BROADCAST, ANY, double_tree::schedule, below_root),
            offer(REDUCE, ANY, double_tree::schedule, below_root),
        ],
    },
    Algorithm {
        name: "scatter-allgather",
        summary: "the root deals blocks out along a binomial tree, then they go around a ring; or backwards",
        source: INTERCOM,
        ports: Ports::One,
        parameter: None,
        consistent: always,
        offers: &[
            in_turn(BROADCAST, PAIRS, scatter_allgather::parts, |r| {
                then(scatter(r), all_but_own(around(r.shape), r.shape))
            }),
            in_turn(REDUCE, PAIRS, scatter_allgather::parts, |r| {
                then(all_but_own(around(r.shape), r.shape), gather(r))
            }),
        ],
    },
    Algorithm {
        name: "pairwise",
        summary: "every rank sends straight to the next rank, then to the one after it, and so on",
        source: MPICH,
        ports: Ports::One,
        parameter: None,
        consistent: always,
        offers: &[offer(ALLTOALL, PAIRS, pairwise::schedule, |r| all_but_own(around(r.shape), r.shape))],
    },
    Algorithm {
        name: "direct",
        summary: "every rank gives every other one its block, all at once",
        source: DIRECT,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &[
            offer(ALLREDUCE, FEW, direct::schedule, |r| twice(all_but_own(at_once(r.shape), r.shape))),
            offer(REDUCE_SCATTER, FEW, direct::schedule, |r| all_but_own(at_once(r.shape), r.shape)),
            offer(ALLGATHER, FEW, direct::schedule, |r| all_but_own(at_once(r.shape), r.shape)),
            offer(BROADCAST, FEW, direct::schedule, |r| vectors(at_once(r.shape), around(r.shape))),
            offer(REDUCE, FEW, direct::schedule, |r| CostLine {
                steps: 2 * at_once(r.shape),
                sent: at_once(r.shape) as f64,
            }),
            offer(GATHER, FEW, direct::schedule, |r| CostLine {
                steps: at_once(r.shape),
                sent: at_once(r.shape) as f64 / r.shape.ranks() as f64,
            }),
            offer(SCATTER, FEW, direct::schedule, |r| all_but_own(at_once(r.shape), r.shape)),
            offer(ALLTOALL, FEW, direct::schedule, |r| all_but_own(at_once(r.shape), r.shape)),
        ],
    },
    Algorithm {
        name: "bruck-alltoall",
        summary: "blocks travel by the digits of how far they go, those with a digit in common together",
        source: DIRECT,
        ports: Ports::All,
        parameter: Some(Parameter {
            name: "r",
            meaning: "the radix of the digits",
            values: bruck_alltoall::radices,
            admits: bruck_alltoall::admits,
            names: &[],
        }),
        consistent: always,
        offers: &[offer(ALLTOALL, PAIRS, bruck_alltoall::schedule, bruck_alltoall::cost)],
    },
    Algorithm {
        name: "flow",
        summary: "neighbours pass blocks on, over ways that spread them over all links as well as can be: on any graph",
        source: BASU,
        ports: Ports::Any,
        parameter: Some(ROUNDS),
        consistent: always,
        offers: &[found(ALLTOALL, RELAYED, flow::schedule)],
    },
    Algorithm {
        name: "direct-latency",
        summary: "every rank sends its whole vector to every other one, and all add them up in the same order",
        source: DIRECT,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &[offer(ALLREDUCE, FEW, direct::latency, |r| vectors(at_once(r.shape), around(r.shape)))],
    },
    Algorithm {
        name: "direct-ordered",
        summary: "every rank gives every other one its block, and blocks are added up in the order of the ranks",
        source: DIRECT,
        ports: Ports::All,
        parameter: None,
        consistent: always,
        offers: &[
            in_rank_order(offer(ALLREDUCE, FEW, direct_ordered::schedule, |r| {
                twice(all_but_own(at_once(r.shape), r.shape))
            })),
            in_rank_order(offer(REDUCE_SCATTER, FEW, direct_ordered::schedule, |r| {
                all_but_own(at_once(r.shape), r.shape)
            })),
            in_rank_order(offer(REDUCE, FEW, direct_ordered::schedule, |r| CostLine {
                steps: 2 * at_once(r.shape),
                sent: at_once(r.shape) as f64,
            })),
        ],
    },
    Algorithm {
        name: "leaders",
        summary: "a few ranks add up a share of the vector each, and give the sum to everybody",
        source: LINEAR,
        ports: Ports::All,
        parameter: Some(Parameter {
            name: "k",
            meaning: "how many ranks add up",
            values: |shape| {
                (0..4).map(|exponent| 1 << exponent).filter(|k| *k == 1 || 2 * k <= shape.ranks()).collect()
            },
            admits: |shape, k| (1..=shape.ranks()).contains(&k),
            names: &[],
        }),
        consistent: always,
        offers: &[offer(ALLREDUCE, FEW, leaders::schedule, |r| {
            let (ranks, leaders) = (r.shape.ranks() as f64, r.parameter as f64);
            CostLine { steps: 2 * at_once(r.shape), sent: (ranks + leaders - 2.0) / leaders }
        })],
    },
    Algorithm {
        name: "trees",
        summary: "as many trees from every rank, packed so that they share out all links, one part after the other: on any graph",
        source: FOREST,
        ports: Ports::Any,
        parameter: Some(FEW_PARTS),
        consistent: always,
        offers: &[
            found(ALLREDUCE, PACKED, trees::equal),
            found(REDUCE_SCATTER, PACKED, trees::equal),
            found(ALLGATHER, PACKED, trees::equal),
            found(BROADCAST, PACKED_FEW, trees::equal),
            found(REDUCE, PACKED_FEW, trees::equal),
        ],
    },
    Algorithm {
        name: "weighted-trees",
        summary: "trees packed likewise, fewer of them from ranks with poor links: for long vectors where links have failed",
        source: WEIGHTED,
        ports: Ports::Any,
        parameter: Some(PARTS),
        consistent: always,
        offers: &[found(ALLREDUCE, PACKED_FEW, trees::weighted)],
    },
    Algorithm {
        name: "spanning-trees",
        summary: "up and down the same undirected trees at once: for long vectors where links have failed",
        source: SPANNING,
        ports: Ports::Any,
        parameter: Some(PARTS),
        consistent: always,
        offers: &[
            found(ALLREDUCE, UNDIRECTED, trees::spanning),
            found(BROADCAST, UNDIRECTED, trees::spanning),
            found(REDUCE, UNDIRECTED, trees::spanning),
        ],
    },
    Algorithm {
        name: "hierarchical",
        summary: "directly within hosts, and between them on a slice of the vector for each rank of a host",
        source: HIERARCHICAL,
        ports: Ports::Two,
        parameter: Some(NETWORK),
        consistent: always,
        offers: &[
            across!(ALLREDUCE),
            across!(REDUCE_SCATTER),
            across!(ALLGATHER),
            across!(BROADCAST),
            across!(REDUCE),
        ],
    },
    Algorithm {
        name: "hierarchical-latency",
        summary: "whole vectors to all ranks of the host, which add them up in the same order, and then between hosts",
        source: HIERARCHICAL,
        ports: Ports::Two,
        parameter: Some(WHOLE_NETWORK),
        consistent: always,
        offers: &[offer(ALLREDUCE, SMALL_HOSTS, hierarchical::latency, hierarchical::latency_cost)],
    },
];

fn always(_: &Request<'_>) -> bool {
    true
}

/// From neighbour to neighbour, all around.
fn around(shape: &Shape) -> usize {
    shape.ranks() - 1
}

/// One step, unless there is nobody else.
fn at_once(shape: &Shape) -> usize {
    usize::from(shape.ranks() > 1)
}

/// From neighbour to neighbour, half way around every dimension.
fn half_around(shape: &Shape) -> usize {
    shape.sizes().iter().map(|size| size / 2).sum()
}

/// The sum over the dimensions of how often `base` must be multiplied to reach their sizes.
fn logs(base: usize, shape: &Shape) -> usize {
    shape.sizes().iter().map(|size| ceil_log(base, *size)).sum()
}

/// Swing leaves out the last of an odd number of ranks.
fn swings(shape: &Shape) -> usize {
    shape.sizes().iter().map(|size| ceil_log(2, size - size % 2)).sum()
}

/// Every dimension has a phase that is long enough for the longest.
fn buckets(shape: &Shape) -> usize {
    let longest = shape.sizes().iter().max().map_or(0, |size| size - 1);
    shape.wide().len() * longest
}

/// Every block but one's own is sent once.
fn all_but_own(steps: usize, shape: &Shape) -> CostLine {
    let ranks = shape.ranks() as f64;
    CostLine { steps, sent: (ranks - 1.0) / ranks }
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

/// An allreduce over the power of two below the number of ranks, whose ranks return the result to those that are left
/// over; tori of powers of two need none of that.
fn folded(shape: &Shape, core: fn(usize) -> CostLine) -> CostLine {
    let ranks = shape.ranks();
    let power = 1 << ranks.ilog2();
    if power == ranks {
        core(power)
    } else {
        then(core(power), CostLine { steps: 2, sent: 1.0 })
    }
}

fn folded_steps(shape: &Shape) -> usize {
    let ranks = shape.ranks();
    ranks.ilog2() as usize + if ranks.is_power_of_two() { 0 } else { 2 }
}

/// See `fold`.
fn folded_allgather(shape: &Shape) -> CostLine {
    let ranks = shape.ranks();
    let power = 1 << ranks.ilog2();
    if power == ranks {
        return all_but_own(folded_steps(shape), shape);
    }
    let lent: usize = (1..=ranks.ilog2()).map(|bit| (ranks - power).div_ceil(1 << bit)).sum();
    CostLine { steps: folded_steps(shape), sent: (ranks - 1 + power - 1 + lent) as f64 / ranks as f64 }
}

/// See `elimination`.
fn eliminated(shape: &Shape) -> CostLine {
    let ranks = shape.ranks();
    let power = 1 << ranks.ilog2();
    let core = twice(all_but_own(ceil_log(2, power), &Shape::ring(power)));
    if power == ranks {
        return core;
    }
    then(core, CostLine { steps: 2, sent: 0.5 / (1 << ranks.trailing_zeros()) as f64 })
}

fn butterflies(request: &Request<'_>) -> CostLine {
    let factors = request.shape.sizes().iter().filter_map(|size| butterfly::factors(*size));
    factors.map(|[twos, threes]| then(vectors(twos, 1), vectors(threes, 2))).fold(vectors(0, 0), then)
}

/// Busiest is a rank with a parent and two children in one tree and a parent in the other.
fn two_trees(request: &Request<'_>) -> CostLine {
    let ranks = request.shape.ranks();
    if ranks == 1 {
        return vectors(0, 0);
    }
    let sent = (ranks.min(4) as f64) / 2.0;
    CostLine { steps: 2 * ranks.ilog2() as usize + request.parameter - 1, sent }
}

fn below_root(request: &Request<'_>) -> CostLine {
    match request.shape.ranks() {
        1 => vectors(0, 0),
        ranks => CostLine { steps: (ranks - 1).ilog2() as usize + request.parameter, sent: 1.0 },
    }
}

fn scatter(request: &Request<'_>) -> CostLine {
    all_but_own(ceil_log(2, request.shape.ranks()), request.shape)
}

/// Binomial: busiest is the root's farthest or second farthest child, with the whole of its subtree.
fn gather(request: &Request<'_>) -> CostLine {
    let ranks = request.shape.ranks();
    let steps = ceil_log(2, ranks);
    let blocks = match steps {
        0 => 0,
        1 => 1,
        _ => (ranks - (1 << (steps - 1))).max(1 << (steps - 2)),
    };
    CostLine { steps, sent: blocks as f64 / ranks as f64 }
}

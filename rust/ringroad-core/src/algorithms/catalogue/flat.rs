//! The algorithms that do not use other algorithms.

use super::super::{
    bfb, binomial, bruck, bruck_alltoall, bucket, butterfly, ceil_log, direct, direct_ordered, distances,
    double_tree, expanded, flow, gather_sum, generalized, halving_doubling, hybrid, leaders, nested,
    pairwise, prefix_chain, prefix_doubling, recursive_doubling, ring, scatter_allgather, swing, trees,
    trivance, Algorithm, CostLine, Naming, Parameter, Ports, Shape,
};
use super::costs::*;
use super::offers::*;
use super::requirements::*;
use super::sources::*;

const SAVED: Parameter = Parameter {
    name: "r",
    meaning: "the number of steps saved, of 2 ceil(log2 n)",
    values: |shape| (0..=generalized::levels(shape)).collect(),
    admits: |shape, r| r <= generalized::levels(shape),
    naming: Naming::Number,
};

const PARTS: Parameter = Parameter {
    name: "p",
    meaning: "the number of parts that the load of the busiest link is cut into, one for each step",
    values: |shape| trees::parts(shape.ranks()),
    admits: |_, parts| (1..=1 << 14).contains(&parts),
    naming: Naming::Number,
};
const ROUNDS: Parameter = Parameter {
    name: "s",
    meaning:
        "the largest number of steps, in multiples of the network's diameter: few suit short blocks, many suit long ones",
    values: |_| vec![1, 3],
    admits: |_, rounds| (1..=64).contains(&rounds),
    naming: Naming::Number,
};
const PIECES: Parameter = Parameter {
    name: "k",
    meaning: "the number of pieces in which the vector is sent",
    values: |shape| {
        (0..6).map(|exponent| 1 << exponent).filter(|k| *k == 1 || k * shape.ranks() <= 1 << 15).collect()
    },
    admits: |shape, k| k > 0 && k.saturating_mul(shape.ranks()) <= 1 << 18,
    naming: Naming::Number,
};
const FEW_PARTS: Parameter = Parameter { values: |_| vec![8, 64], ..PARTS };

/// The cost of a phase with these steps, and the cost of two phases.
macro_rules! optimal {
    ($steps:expr) => {
        [|r| all_but_own($steps(r.shape), r.shape), |r| twice(all_but_own($steps(r.shape), r.shape))]
    };
}

pub(in super::super) static FLAT: &[Algorithm] = &[
    Algorithm {
        name: "ring",
        summary: "every block travels once around the ring, from neighbour to neighbour",
        source: RING,
        ports: Ports::One,
        parameter: None,
        bit_identical: always,
        offers: &phases(ANY, ring::unidirectional, optimal!(around)),
    },
    Algorithm {
        name: "bidirectional-ring",
        summary: "a ring in each direction, with half of the vector each",
        source: RING,
        ports: Ports::Two,
        parameter: None,
        bit_identical: always,
        offers: &phases(ANY, ring::bidirectional, optimal!(around)),
    },
    Algorithm {
        name: "hamiltonian-rings",
        summary: "rings in both directions along cycles of the torus that share no link",
        source: RING,
        ports: Ports::All,
        parameter: None,
        bit_identical: always,
        offers: &phases(CYCLES, ring::hamiltonian, optimal!(around)),
    },
    Algorithm {
        name: "bucket",
        summary: "rings along one dimension after the other, with a slice for every starting dimension and direction",
        source: BUCKET,
        ports: Ports::All,
        parameter: None,
        bit_identical: always,
        offers: &phases(TORUS, bucket::schedule, optimal!(buckets)),
    },
    Algorithm {
        name: "recursive-doubling",
        summary: "partners exchange whole vectors, at twice the distance in every step",
        source: MPICH,
        ports: Ports::One,
        parameter: None,
        bit_identical: always,
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
        bit_identical: always,
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
        bit_identical: always,
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
        bit_identical: always,
        offers: &phases(POWERS_OF_TWO, halving_doubling::multiport, optimal!(|shape| logs(2, shape))),
    },
    Algorithm {
        name: "swing",
        summary: "like halving and doubling, with partners on alternating sides at a third of the distance, and a mirror image",
        source: SWING,
        ports: Ports::All,
        parameter: None,
        bit_identical: always,
        offers: &phases(EVEN_OR_MODERATE, swing::bandwidth, optimal!(swings)),
    },
    Algorithm {
        name: "swing-latency",
        summary: "partners on alternating sides exchange whole vectors; a mirror image takes half of them",
        source: SWING_LATENCY,
        ports: Ports::All,
        parameter: None,
        bit_identical: |r| r.shape.sizes().iter().all(|size| [1, 2, 4].contains(size)),
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
        bit_identical: always,
        offers: &phases(ANY, trivance::bandwidth, optimal!(|shape| logs(3, shape))),
    },
    Algorithm {
        name: "trivance-latency",
        summary: "exchanges whole vectors with both sides at once, at three times the distance in every step",
        source: TRIVANCE,
        ports: Ports::All,
        parameter: None,
        bit_identical: |r| r.shape.sizes().iter().all(|size| *size <= 2),
        offers: &[offer(ALLREDUCE, ANY, trivance::latency, |r| CostLine {
            steps: logs(3, r.shape),
            sent: r.shape.sizes().iter().map(|size| trivance::vectors(*size) as f64).sum(),
        })],
    },
    Algorithm {
        name: "trivance-hybrid",
        summary: "some steps of trivance's reduce-scatter, an exchange of what is left, and then the steps backwards",
        source: HYBRID,
        ports: Ports::All,
        parameter: Some(Parameter {
            name: "steps",
            meaning: "the number of steps of reduce-scatter with which each dimension begins",
            values: |shape| (1..=hybrid::most_steps(shape).max(1)).collect(),
            admits: |shape, steps| (1..=hybrid::most_steps(shape)).contains(&steps),
            naming: Naming::Number,
        }),
        bit_identical: |r| {
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
            meaning: "the number of steps that each dimension takes beyond the fewest",
            values: nested::extras,
            admits: |shape, extra| distances::members(shape.sizes()).iter().any(|member| extra <= member.0),
            naming: Naming::Number,
        }),
        bit_identical: always,
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
        bit_identical: always,
        offers: &phases(ANY, nested::neighbours, optimal!(half_around)),
    },
    Algorithm {
        name: "bfb",
        summary: "every block takes shortest paths to all ranks, spread as evenly over the links as possible; for any graph",
        source: BREADTH_FIRST,
        ports: Ports::Any,
        parameter: None,
        bit_identical: always,
        offers: &found_phases(NEIGHBOURS, bfb::schedule, bfb::cost),
    },
    Algorithm {
        name: "expanded",
        summary: "the schedule of the smaller network that the network is made of, carried over to all copies of its ranks and links",
        source: EXPANSIONS,
        ports: Ports::Any,
        parameter: None,
        bit_identical: always,
        offers: &[
            found(ALLREDUCE, MADE, expanded::schedule),
            found(REDUCE_SCATTER, MADE, expanded::schedule),
            found(ALLGATHER, MADE, expanded::schedule),
        ],
    },
    Algorithm {
        name: "generalized",
        summary: "every step sends half of the remaining parts, half as far, for several results at once; then backwards",
        source: KOLMAKOV,
        ports: Ports::All,
        parameter: Some(SAVED),
        // For a power of two, every result is the same tree of cosets.
        bit_identical: |r| r.parameter == 0 || powers_of_two(r.shape),
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
        bit_identical: always,
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
        bit_identical: always,
        offers: &phases(ANY, bruck::bandwidth, optimal!(|shape| logs(3, shape))),
    },
    Algorithm {
        name: "bruck-latency",
        summary: "two whole vectors to the same side, at a third of the distance in every step",
        source: BRUCK,
        ports: Ports::All,
        parameter: None,
        bit_identical: |r| r.shape.sizes().iter().all(|size| *size <= 2),
        offers: &[offer(ALLREDUCE, ANY, bruck::latency, bruck::latency_cost)],
    },
    Algorithm {
        name: "gather-sum",
        summary: "gathers the vectors of a ring in as few steps as trivance, then adds them up in the same order everywhere",
        source: GATHER_SUM,
        ports: Ports::All,
        parameter: None,
        bit_identical: always,
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
        bit_identical: always,
        offers: &[offer(ALLREDUCE, TWOS_AND_THREES, butterfly::schedule, butterflies)],
    },
    Algorithm {
        name: "binomial",
        summary: "each rank that has the data passes it on, at half the distance in every step; or backwards",
        source: MPICH,
        ports: Ports::One,
        parameter: None,
        bit_identical: always,
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
            meaning: "the number of pieces in which each half of the vector is sent",
            ..PIECES
        }),
        bit_identical: always,
        offers: &[
            offer(ALLREDUCE, ANY, double_tree::schedule, two_trees),
            offer(BROADCAST, ANY, double_tree::schedule, below_root),
            offer(REDUCE, ANY, double_tree::schedule, below_root),
        ],
    },
    Algorithm {
        name: "scatter-allgather",
        summary: "the root scatters blocks along a binomial tree, then they go around a ring; or backwards",
        source: INTERCOM,
        ports: Ports::One,
        parameter: None,
        bit_identical: always,
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
        summary: "every rank sends directly to the next rank, then to the one after it, and so on",
        source: MPICH,
        ports: Ports::One,
        parameter: None,
        bit_identical: always,
        offers: &[offer(ALLTOALL, PAIRS, pairwise::schedule, |r| all_but_own(around(r.shape), r.shape))],
    },
    Algorithm {
        name: "prefix-doubling",
        summary: "every rank sends the sum so far to the rank at twice the previous distance",
        source: HILLIS_STEELE,
        ports: Ports::One,
        parameter: None,
        bit_identical: always,
        offers: &[
            offer(SCAN, PAIRS, prefix_doubling::schedule, doubled_prefixes),
            offer(EXSCAN, PAIRS, prefix_doubling::schedule, doubled_prefixes),
        ],
    },
    Algorithm {
        name: "prefix-chain",
        summary: "the sum travels along all ranks, and every rank adds its vector; pieces follow each other",
        source: SCANS,
        ports: Ports::One,
        parameter: Some(PIECES),
        bit_identical: always,
        offers: &[
            offer(SCAN, PAIRS, prefix_chain::schedule, along_a_chain),
            offer(EXSCAN, PAIRS, prefix_chain::schedule, along_a_chain),
        ],
    },
    Algorithm {
        name: "direct",
        summary: "every rank sends every other one its block, all at once",
        source: DIRECT,
        ports: Ports::All,
        parameter: None,
        bit_identical: always,
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
        summary: "blocks travel by the digits of their distance; those with a digit in common travel together",
        source: DIRECT,
        ports: Ports::All,
        parameter: Some(Parameter {
            name: "r",
            meaning: "the radix of the digits",
            values: bruck_alltoall::radices,
            admits: bruck_alltoall::admits,
            naming: Naming::Number,
        }),
        bit_identical: always,
        offers: &[offer(ALLTOALL, PAIRS, bruck_alltoall::schedule, bruck_alltoall::cost)],
    },
    Algorithm {
        name: "flow",
        summary: "neighbours pass blocks on, over paths that spread them as evenly over all links as possible; for any graph",
        source: BASU,
        ports: Ports::Any,
        parameter: Some(ROUNDS),
        bit_identical: always,
        offers: &[found(ALLTOALL, RELAYED, flow::schedule)],
    },
    Algorithm {
        name: "direct-latency",
        summary: "every rank sends its whole vector to every other one, and all add them up in the same order",
        source: DIRECT,
        ports: Ports::All,
        parameter: None,
        bit_identical: always,
        offers: &[offer(ALLREDUCE, FEW, direct::latency, |r| vectors(at_once(r.shape), around(r.shape)))],
    },
    Algorithm {
        name: "direct-ordered",
        summary: "every rank sends every other one its block, and blocks are added up in the order of the ranks",
        source: DIRECT,
        ports: Ports::All,
        parameter: None,
        bit_identical: always,
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
        summary: "a few ranks each add up one share of the vector and send the sum to all ranks",
        source: LINEAR,
        ports: Ports::All,
        parameter: Some(Parameter {
            name: "k",
            meaning: "the number of ranks that add up shares",
            values: |shape| {
                (0..4).map(|exponent| 1 << exponent).filter(|k| *k == 1 || 2 * k <= shape.ranks()).collect()
            },
            admits: |shape, k| (1..=shape.ranks()).contains(&k),
            naming: Naming::Number,
        }),
        bit_identical: always,
        offers: &[offer(ALLREDUCE, FEW, leaders::schedule, |r| {
            let (ranks, leaders) = (r.shape.ranks() as f64, r.parameter as f64);
            CostLine { steps: 2 * at_once(r.shape), sent: (ranks + leaders - 2.0) / leaders }
        })],
    },
    Algorithm {
        name: "trees",
        summary: "equally many trees from every rank, packed to use all links, as pipelines; for any graph",
        source: FOREST,
        ports: Ports::Any,
        parameter: Some(FEW_PARTS),
        bit_identical: always,
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
        summary: "packed trees, fewer of them from ranks with poor links; for long vectors where links have failed",
        source: WEIGHTED,
        ports: Ports::Any,
        parameter: Some(PARTS),
        bit_identical: always,
        offers: &[found(ALLREDUCE, PACKED_FEW, trees::weighted)],
    },
    Algorithm {
        name: "spanning-trees",
        summary: "undirected trees, each used up and down at the same time; for long vectors where links have failed",
        source: SPANNING,
        ports: Ports::Any,
        parameter: Some(PARTS),
        bit_identical: always,
        offers: &[
            found(ALLREDUCE, UNDIRECTED, trees::spanning),
            found(BROADCAST, UNDIRECTED, trees::spanning),
            found(REDUCE, UNDIRECTED, trees::spanning),
        ],
    },
];

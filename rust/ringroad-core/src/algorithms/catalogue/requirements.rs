//! The requirements of algorithms on networks.

use super::super::{bfb, butterfly, direct, flow, hamiltonian, trees, Requirement, Shape};
use crate::synthesis::expand;

pub(super) const fn needs(text: &'static str, admits: fn(&Shape) -> bool) -> Requirement {
    Requirement { text, admits, fits: |_| true, made: false, worth_trying: |_| true }
}

pub(super) const ANY: Requirement = needs("any number of ranks", |_| true);
pub(super) const TORUS: Requirement =
    needs("a torus of two dimensions or more", |shape| shape.wide().len() > 1);
pub(super) const CYCLES: Requirement = needs("a torus of two dimensions or more (other than 2 x odd, 2 x 2 x odd, 2 x 2 x 2, and large ones with a side of 2 and an odd side)", hamiltonian::exist);
pub(super) const POWERS_OF_TWO: Requirement =
    needs("a power of two of ranks in each dimension", powers_of_two);
pub(super) const TWOS_AND_THREES: Requirement =
    needs("no factors but two and three in each dimension", |shape| {
        shape.sizes().iter().all(|size| butterfly::factors(*size).is_some())
    });
/// A schedule that is written out for all ranks and blocks must not become too long.
pub(super) const MODERATE: Requirement =
    needs("at most 4096 ranks, or a power of two of them in each dimension", |shape| {
        shape.ranks() <= 4096 || powers_of_two(shape)
    });
/// If Swing leaves out a rank, ranks do not act alike, and the schedule is written out for all.
pub(super) const EVEN_OR_MODERATE: Requirement =
    needs("at most 4096 ranks, or an even number of them in each dimension", |shape| {
        shape.ranks() <= 4096 || shape.sizes().iter().all(|size| *size <= 3 || size % 2 == 0)
    });
/// A schedule that is written out for all ranks and vectors must not become too long.
pub(super) const SMALL: Requirement = needs("at most 256 ranks in each dimension and 1024 in all", |shape| {
    shape.ranks() <= 1024 && shape.sizes().iter().all(|size| *size <= 256)
});
/// Every rank has a message for every rank.
pub(super) const FEW: Requirement = needs("at most 256 ranks", |shape| shape.ranks() <= direct::MAX_RANKS);
/// There is a block, or a message that is written out, for every pair of ranks.
pub(super) const PAIRS: Requirement = needs("at most 4096 ranks", |shape| shape.ranks() <= 1 << 12);
pub(super) const HOSTS: Requirement =
    needs("several hosts of up to 256 ranks each, some of 2 or more, as in hosts:2x4 or hosts:1,2,3, and at most 4096 ranks if unequal hosts were all filled up", |shape| {
        on_hosts(shape) && most_on_host(shape) <= direct::MAX_RANKS && moderately_unequal(shape)
    });
pub(super) const SMALL_HOSTS: Requirement =
    needs("several hosts of up to 64 ranks each, some of 2 or more, as in hosts:2x4 or hosts:1,2,3, and at most 1024 ranks in all", |shape| {
        on_hosts(shape) && most_on_host(shape) <= 64 && shape.ranks() <= 1024
    });
pub(super) const POWERS_OF_TWO_OR_THRICE: Requirement =
    needs("2^k or 3 * 2^k ranks in each dimension", |shape| {
        shape.sizes().iter().all(|size| matches!(size >> size.trailing_zeros(), 1 | 3))
    });

pub(super) const MULTIPLES_OF_THREE: Requirement =
    needs("a multiple of three ranks in some dimension", |shape| {
        shape.sizes().iter().any(|size| size.is_multiple_of(3))
    });

/// For algorithms in which neighbours pass blocks on.
pub(super) const NEIGHBOURS: Requirement = Requirement {
    text: "links between ranks by which all reach each other, at most 128 neighbours per rank, and at most 4096 ranks unless all look alike",
    admits: |_| true,
    fits: bfb::fits,
    made: true,
    // On whole tori, `bfb-ring` is equivalent.
    worth_trying: |topology| !topology.is_torus(),
};

/// For algorithms that expand the schedule of a smaller network.
pub(super) const MADE: Requirement = Requirement {
    text: "a network of at most 512 ranks that line, degree, power or bidirectional makes of one with links between all ranks, as in degree(ring:5, 2)",
    admits: |_| true,
    fits: expand::is_suitable,
    made: true,
    worth_trying: expand::may_help,
};

pub(super) const PACKED: Requirement = Requirement {
    text: "at most 256 ranks",
    admits: |_| true,
    fits: trees::fits_all,
    made: true,
    worth_trying: trees::worth_trying_all,
};
pub(super) const PACKED_FEW: Requirement = Requirement {
    text: "at most 2048 ranks",
    admits: |_| true,
    fits: trees::fits_few,
    made: true,
    worth_trying: trees::worth_trying_few,
};
pub(super) const UNDIRECTED: Requirement = Requirement {
    text: "at most 2048 ranks, no switches, and links that lead both ways with equal bandwidth",
    admits: |_| true,
    fits: trees::fits_undirected,
    made: true,
    worth_trying: trees::worth_trying_undirected,
};

/// For algorithms in which ranks pass on the blocks of others.
pub(super) const RELAYED: Requirement = Requirement {
    text: "links between ranks by which all reach each other, and at most 1024 ranks",
    admits: |_| true,
    fits: flow::fits,
    made: true,
    worth_trying: flow::worth_trying,
};

pub(super) fn on_hosts(shape: &Shape) -> bool {
    shape.hosts().len() > 1 && most_on_host(shape) > 1
}

fn most_on_host(shape: &Shape) -> usize {
    shape.hosts().iter().copied().max().unwrap_or(1)
}

/// On unequal hosts schedules are written out, for as many ranks on each as the largest has.
fn moderately_unequal(shape: &Shape) -> bool {
    !shape.has_unequal_hosts() || shape.hosts().len() * most_on_host(shape) <= 1 << 12
}

pub(super) fn powers_of_two(shape: &Shape) -> bool {
    shape.sizes().iter().all(|size| size.is_power_of_two())
}

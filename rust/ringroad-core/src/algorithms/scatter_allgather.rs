//! Scatter and allgather: the root scatters the vector along a binomial tree, then the blocks go around a ring.
//!
//! Barnett et al.: Interprocessor collective communication library (InterCom), SHPCC 1994. The reduce is a ring
//! reduce-scatter followed by a gather (Rabenseifner: Optimization of collective reduction operations, ICCS 2004).
//!
//! ```text
//! n = 7   broadcast    0 gives 4 5 6 to 4; 0 gives 2 3 to 2, 4 gives 6 to 6; ...; then the ring
//!         reduce       the ring; then 1 gives 1 to 0, 3 gives 3 to 2, 5 gives 5 to 4; ...; 4 gives 4 5 6 to 0
//! ```
//!
//! Cost: n - 1 + ceil(log2 n) steps, (n-1)/n of the vector plus what the binomial scatter or gather sends.

use super::{binomial, ring, ScheduleRequest};
use crate::collective::Collective;
use crate::schedule::Schedule;

/// Broadcast and reduce, for any number of ranks and any root.
pub(super) fn parts(request: &ScheduleRequest<'_>) -> [Schedule; 2] {
    let on_ring = |collective| ring::unidirectional(&ScheduleRequest { collective, ..*request });
    let on_tree = |collective| binomial::schedule(&ScheduleRequest { collective, ..*request });
    match request.collective {
        Collective::Broadcast { root } => {
            [on_tree(Collective::Scatter { root }), on_ring(Collective::Allgather)]
        }
        Collective::Reduce { root } => {
            [on_ring(Collective::ReduceScatter), on_tree(Collective::Gather { root })]
        }
        other => unreachable!("scatter and allgather perform no {other}"),
    }
}

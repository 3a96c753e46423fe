//! Flows in which hosts are matched, so that none has two at once in one direction.

use std::collections::BTreeSet;

/// Flows, from host to host, that are to run at the same time.
pub type Flows = Vec<(usize, usize)>;

/// Rounds in which every host has one of these links at most to itself, in both directions, so that no NIC is shared;
/// those in `done` are left out.
pub(super) fn alone(hosts: usize, links: &[(usize, usize)], done: &BTreeSet<(usize, usize)>) -> Vec<Flows> {
    let mut open: BTreeSet<(usize, usize)> =
        links.iter().map(|(from, to)| (*from.min(to), *from.max(to))).collect();
    let exists: BTreeSet<(usize, usize)> = links.iter().copied().collect();
    open.retain(|(one, other)| !done.contains(&(*one, *other)) && !done.contains(&(*other, *one)));
    let mut rounds = Vec::new();
    while !open.is_empty() {
        let mut busy = vec![false; hosts];
        let mut round = Flows::new();
        for (one, other) in open.clone() {
            if !busy[one] && !busy[other] {
                (busy[one], busy[other]) = (true, true);
                open.remove(&(one, other));
                round.extend([(one, other), (other, one)].into_iter().filter(|pair| exists.contains(pair)));
            }
        }
        rounds.push(round);
    }
    rounds
}

/// One round of a tournament in which everybody meets everybody once.
pub(super) fn tournament(hosts: usize, even: usize, round: usize) -> Flows {
    let others = even - 1;
    let pair = |place: usize| match place {
        0 => (others, round),
        _ => ((round + place) % others, (round + others - place) % others),
    };
    let all = (0..even / 2).map(pair).filter(|(one, other)| *one.max(other) < hosts);
    all.flat_map(|(one, other)| [(one, other), (other, one)]).collect()
}

/// The first two of the hosts in both directions, and so on.
pub(super) fn pairs(hosts: &[usize]) -> Flows {
    hosts.chunks_exact(2).flat_map(|pair| [(pair[0], pair[1]), (pair[1], pair[0])]).collect()
}

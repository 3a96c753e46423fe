"""Hosts that carry less than their links and forward all messages: figure 3 of Basu et al."""

from ringroad._native import Topology
from ringroad.lab.reproduce.random_graphs import of_links


def through_hosts(topology: Topology, capacity: float) -> Topology:
    """The network whose hosts forward messages, unlike with `Topology.behind_nics`. Links have bandwidth 1.

    A host receives from node `ranks + rank` and sends to node `2 * ranks + rank`, `capacity` links' worth each.
    """
    ranks = topology.ranks
    received = [(ranks + rank, rank, capacity) for rank in range(ranks)]
    sent = [(rank, 2 * ranks + rank, capacity) for rank in range(ranks)]
    links = [(2 * ranks + source, ranks + target, 1.0) for source, target, *_ in topology.links]
    return of_links(f"through-hosts-{ranks}", ranks, received + sent + links, 3 * ranks, bandwidth=1.0)

"""Where the ranks of an emulated network run: several on a host, and in any order."""

from collections.abc import Sequence

from ringroad._graphs import _plain_name
from ringroad._native import Topology, TopologyError


def placed(
    topology: Topology, counts: Sequence[int] | None, order: Sequence[int] | None, memory: float
) -> tuple[Topology, list[int]]:
    """The network as `counts` and `order` say, if they are stated, and the host of every rank."""
    hosts = topology.hosts
    if counts is not None:
        topology, hosts = populated(topology, counts, memory)
    if order is not None:
        topology = renumbered(topology, order)
        # Hosts of one rank are numbered as their ranks are.
        hosts = [hosts[place] for place in order] if max(hosts) + 1 < topology.ranks else list(range(topology.ranks))
    return topology, hosts


def populated(topology: Topology, counts: Sequence[int], memory: float) -> tuple[Topology, list[int]]:
    """The network whose hosts are the ranks of `topology`, with these numbers of ranks; and the host of every rank.

    Its nodes are the ranks, then the hosts' memories, then switches. `memory`: what joins a rank and its memory, in
    bandwidths of the fastest link.
    """
    if len(counts) != topology.ranks or min(counts) < 1:
        raise TopologyError(
            f"{topology.spec} has {topology.ranks} hosts: state a number of ranks, from 1 on, for each of them, not "
            f"{','.join(map(str, counts))}"
        )
    if max(topology.hosts) + 1 < topology.ranks:
        raise TopologyError(f"{topology.spec} states itself how many ranks its hosts have")
    host_of_rank = [host for host, count in enumerate(counts) for _ in range(count)]
    if max(counts) == 1:
        return topology, host_of_rank
    ranks, old = sum(counts), topology._links()
    fastest = max(bandwidth for _, _, bandwidth, *_ in old)
    links = [
        (*ends, fastest, memory, 0.0, 0.0)
        for rank, host in enumerate(host_of_rank)
        for ends in ((rank, ranks + host), (ranks + host, rank))
    ]
    links += [(link[0] + ranks, link[1] + ranks, *link[2:]) for link in old]
    return _graph(topology, ranks, topology.nodes + ranks, links), host_of_rank


def renumbered(topology: Topology, order: Sequence[int]) -> Topology:
    """The network in which rank r is where rank `order[r]` of `topology` is."""
    if sorted(order) != list(range(topology.ranks)):
        raise TopologyError(
            f"{topology.spec}: an order of its ranks has every number from 0 to {topology.ranks - 1} once, not "
            f"{','.join(map(str, order))}"
        )
    number = {place: rank for rank, place in enumerate(order)}
    links = [(number.get(link[0], link[0]), number.get(link[1], link[1]), *link[2:]) for link in topology._links()]
    return _graph(topology, topology.ranks, topology.nodes, links)


def _graph(
    topology: Topology, ranks: int, nodes: int, links: list[tuple[int, int, float, float, float, float]]
) -> Topology:
    """A network made of another. Its routes are shortest paths; single ones, unless all of the other's are taken."""
    name = _plain_name(topology.spec.removeprefix("graph:"))
    graph = Topology._from_links(name, ranks, nodes, links, [])
    return graph if topology.routing == "minimal" else graph.with_routing("single-path")

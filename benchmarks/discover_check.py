"""Whether ranks find out what their network is: emulated networks of all forms, compared with the truth.

    python benchmarks/discover_check.py [--count 40] [--seed 1]

A line for each: whether the graph, all routes and the racks are right; how far measured rates of hosts' links and of
those between routers or racks are from the real ones at most; of how many links only a lower bound is known; and the
seconds that discovery took. A sum that is wrong afterwards is an error, too. Ends with exit status 1 if there is any.
Rates need a machine that is idle otherwise: it forwards the packets of all hosts.
"""

import argparse
import sys
import time
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import ringroad
from emulated_networks import Emulated, at_random, of_table
from ringroad._discovery import Discovery
from ringroad.testbed.wiring import Wiring


def look(comm: ringroad.Communicator, budget: float) -> tuple[Discovery, float, bool]:
    """What a rank finds, the seconds that it took, and whether an allreduce is right."""
    comm.barrier()
    start = time.monotonic()
    found = ringroad.measure.discover(comm, budget=budget)
    seconds = time.monotonic() - start
    ones = comm.allreduce(np.full(1000, comm.rank, np.float32))
    return found, seconds, bool((ones == comm.size * (comm.size - 1) / 2).all())


@dataclass
class Compared:
    """What is wrong with a discovery, and how far its rates are off, relative to the real ones."""

    wrong: list[str] = field(default_factory=list)
    hosts: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)
    unsure: int = 0


def rates(wiring: Wiring, payload: float) -> dict[tuple[int, int], float]:
    """The bytes per second of each cable in both directions."""
    both = {}
    for cable in wiring.cables:
        a, b = cable.ends
        both[a, b], both[b, a] = (capacity * payload for capacity in cable.capacities)
    return both


def path(wiring: Wiring, source: int, target: int) -> list[int]:
    nodes = [source]
    while nodes[-1] != target:
        at = nodes[-1]
        nodes.append(wiring.exceptions.get((at, source, target), wiring.next_node[at, target]))
    return nodes


def compare(true: Wiring, payload: float, found: Discovery) -> Compared:
    """Maps the found hosts and routers to the real ones along all routes."""
    result = Compared()
    mine = Wiring.of(found.topology, found.evidence["host_of"])
    same = {mine.host_of_rank[rank]: host for rank, host in enumerate(true.host_of_rank)}
    if mine.hosts != true.hosts or len(same) != true.hosts:
        result.wrong.append(f"{mine.hosts} hosts instead of {true.hosts}")
        return result
    used = set()
    for source in range(mine.hosts):
        for target in range(mine.hosts):
            if source == target:
                continue
            here, there = path(mine, source, target), path(true, same[source], same[target])
            used.update(pairwise(there))
            if len(here) != len(there) or any(same.setdefault(a, b) != b for a, b in zip(here, there, strict=True)):
                result.wrong.append(f"the route from host {same[source]} to {same[target]}: not {there}")
    fastest = max(link[2] for link in found.topology._links())
    measured, real = rates(mine, fastest), rates(true, payload)
    ends = {(same.get(a, -1), same.get(b, -1)): rate for (a, b), rate in measured.items() if rate}
    if set(ends) != used:
        result.wrong.append(f"{len(set(ends) - used)} links are not there, {len(used - set(ends))} are missing")
    first = found.topology.ranks if mine.shared else 0
    unsure = {
        (same.get(link.source - first, -1), same.get(link.target - first, -1))
        for link in found.links
        if link.how != "measured"
    }
    for pair in used & set(ends):
        if pair in unsure:
            # It carried this much, and may carry more.
            result.unsure += 1
            continue
        kind = result.between if min(pair) >= true.hosts else result.hosts
        kind.append(ends[pair] / real[pair] - 1)
    return result


def compare_racks(true: Wiring, payload: float, found: Discovery) -> Compared:
    """Compares which hosts share a switch, and the narrowest link between switches on the way from one to another."""
    result = Compared()
    mine = Wiring.of(found.topology, found.evidence["host_of"])
    same = {mine.host_of_rank[rank]: host for rank, host in enumerate(true.host_of_rank)}
    measured, real = rates(mine, max(link[2] for link in found.topology._links())), rates(true, payload)
    for one, other in combinations(range(true.hosts), 2):
        here, there = path(mine, one, other), path(true, same[one], same[other])
        if (len(here) > 3) != (len(there) > 3):
            result.wrong.append(f"hosts {one} and {other} share {'a' if len(there) == 3 else 'no'} switch")
        elif len(here) > 3:
            rate = min(measured[link] for link in pairwise(here[1:-1]))
            result.between.append(rate / min(real[link] for link in pairwise(there[1:-1])) - 1)
    for host in range(mine.hosts):
        ends = (
            path(mine, host, (host + 1) % mine.hosts)[:2],
            path(true, same[host], same[(host + 1) % mine.hosts])[:2],
        )
        for place in (1, -1):
            link, there = (tuple(end[::place]) for end in ends)
            result.hosts.append(measured[link] / real[there] - 1)
    return result


def check(network: Emulated, budget: float) -> Compared:
    with ringroad.testbed.emulate(
        network.topology,
        rate=f"{network.rate}Mbit",
        tell="nothing",
        hosts=network.hosts,
        order=network.order,
        bridges=network.bridges,
        env={"RINGROAD_CACHE": "none", "RINGROAD_TOPOLOGY": "off"},
    ) as bed:
        results: list[Any] = bed.run(look, budget)
        true, payload = bed.network.wiring, max(link[2] for link in bed.network.topology._links() if link[2] < 4e9)
    found, seconds, _ = results[0]
    compared = (compare_racks if network.bridges else compare)(true, payload, found)
    if not all(right for *_, right in results):
        compared.wrong.append("a sum")
    if any(other != found for other, *_ in results):
        compared.wrong.append("ranks have different results")
    worst = max(map(abs, compared.hosts), default=0.0), max(map(abs, compared.between), default=0.0)
    named = found.recognised or "a graph"
    print(
        f"{network.name:36} {named:14} {'right' if not compared.wrong else 'WRONG':6} "
        f"{100 * worst[0]:5.1f} % {100 * worst[1]:5.1f} % {compared.unsure:6} {seconds:6.2f} s  "
        + "; ".join(compared.wrong[:2]),
        flush=True,
    )
    return compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1.5)
    parser.add_argument("--table", action="store_true", help="the networks of discover_bench.py instead")
    options = parser.parse_args()
    print(f"{'network':36} {'found':14} {'graph':6} {'hosts':>7} {'uplinks':>7} {'unsure':>6} {'time':>8}")
    networks = of_table() if options.table else at_random(options.count, options.seed)
    results = [check(network, options.budget) for network in networks]
    for kind, limit, errors in (
        ("hosts'", 0.05, [abs(error) for result in results for error in result.hosts]),
        ("routers'", 0.10, [abs(error) for result in results for error in result.between]),
    ):
        if errors:
            within = sum(error <= limit for error in errors)
            print(
                f"{kind} rates: {within} of {len(errors)} within {100 * limit:.0f} %, worst {100 * max(errors):.1f} %"
            )
    right = sum(not result.wrong for result in results)
    print(f"{right} of {len(results)} graphs right")
    sys.exit(right < len(results))


if __name__ == "__main__":
    main()

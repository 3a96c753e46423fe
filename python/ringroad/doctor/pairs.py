"""What a rank of a job finds with the others: whether they can communicate, and how fast every pair is."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ringroad._native import Communicator, RingroadError
from ringroad._network import Connection, NetworkView
from ringroad._support.text import bandwidth_text
from ringroad.doctor import remaining
from ringroad.doctor.messages import measure, one_line, over
from ringroad.doctor.roster import Roster

ALL_PAIRS = 64
"""Of up to this many ranks all pairs are measured; of more ranks only neighbours."""
GRACE = 5.0


@dataclass(frozen=True)
class PairFindings:
    """What one rank found with the others."""

    error: str = ""
    transport: str = ""
    sharing: int = 0
    """With how many other ranks it shares memory."""
    hosts: list[str] = field(default_factory=list)
    pairs: list[dict[str, Any]] = field(default_factory=list)
    planned: int = 0
    tried: int = 0
    network: str = ""
    """The network. Behind it where it comes from, how it differs from what the ranks have found, and what is right."""
    origin: str = ""
    differences: list[str] = field(default_factory=list)
    spec: str | None = None
    again: list[tuple[int, float]] = field(default_factory=list)
    """Ranks, and the part of the bytes for them that was sent more than once."""


def communicate(roster: Roster, rank: int, store: Any, timeout: float) -> PairFindings:
    """Makes the communicator of the ranks that came, and measures pairs, within the timeout."""
    present = sorted(roster.infos)
    deadline = time.monotonic() + timeout
    topology = f"switch:{len(present)}" if roster.missing else None  # the job's own has other ranks
    pairs: list[dict[str, Any]] = []
    try:
        with Communicator(
            store,
            present.index(rank),
            len(present),
            timeout=timeout,
            topology=topology,
            name="doctor",
        ) as comm:
            planned, tried = _measure_pairs(comm, present, deadline, pairs)
            carried = comm.transport
            network = comm.network
            again = [(present[peer], part) for peer, part in _sent_again(network.connections)]
            known = _network(network) | {"again": again}
            return PairFindings("", carried.text, carried.sharing, comm.hosts, pairs, planned, tried, **known)
    except (RingroadError, ValueError) as error:
        return PairFindings(error=one_line(error), pairs=pairs)


def _network(view: NetworkView) -> dict[str, Any]:
    """What a part says of the network."""
    known: dict[str, Any] = {"network": _network_text(view), "origin": view.origin}
    if view.mismatch:
        known |= {"differences": view.mismatch.words, "spec": view.mismatch.spec}
    return known


def _sent_again(connections: Sequence[Connection]) -> list[tuple[int, float]]:
    """Peers, and the part of the bytes for them that was sent more than once."""
    sent: dict[int, int] = defaultdict(int)
    again: dict[int, int] = defaultdict(int)
    for one in connections:
        sent[one.peer] += one.sent
        again[one.peer] += one.sent_again
    return [(peer, again[peer] / sent[peer]) for peer in sent if again[peer]]


def _network_text(view: NetworkView) -> str:
    """The network and the range of its links' rates, without the links of memories."""
    spec, hosts = view.topology.spec, view.topology.hosts
    shared = {rank for rank, host in enumerate(hosts) if hosts.count(host) > 1}
    links = view.topology._links()
    rates = [link[2] * link[3] for link in links if not shared & {link[0], link[1]}]
    texts = list(dict.fromkeys(bandwidth_text(rate) for rate in (min(rates), max(rates)))) if rates else []
    return f"{spec}, links of {' to '.join(texts)}" if texts else spec


def pairs_of(size: int) -> list[tuple[int, int]]:
    """All pairs of ranks, or those of neighbours if there are many."""
    if size <= ALL_PAIRS:
        return [(a, b) for a in range(size) for b in range(a + 1, size)]
    return [(min(a, b), max(a, b)) for a, b in ((a, (a + 1) % size) for a in range(size))]


def _measure_pairs(
    comm: Communicator, present: Sequence[int], deadline: float, found: list[dict[str, Any]]
) -> tuple[int, int]:
    """Adds what this rank measures to `found`. Returns the number of pairs, and of those that were tried in time."""
    pairs = pairs_of(comm.size)
    tried = 0
    for a, b in pairs:
        # One pair at a time, so that they do not disturb each other. All ranks agree on whether time is left.
        late = np.array(time.monotonic() > deadline - GRACE / 2, np.uint8)
        if comm.allreduce(late, op="max", timeout=remaining(deadline, 1)).any():
            break
        tried += 1
        if comm.rank in (a, b):
            other = b if comm.rank == a else a
            if speed := measure(comm, other, remaining(deadline, 1)):
                way = over(comm.transport, comm.hosts[a] == comm.hosts[b])
                found.append({"ranks": [present[a], present[b]], "over": way, **speed})
    comm.barrier(timeout=remaining(deadline, 1))
    return len(pairs), tried
